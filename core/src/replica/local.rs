//! Reads and settings of a replica for tests alone, with the feature `explore`.

#[cfg(feature = "explore")]
use super::QuotaHooks;
use super::Replica;
#[cfg(feature = "explore")]
use crate::consistency::newest;
#[cfg(feature = "explore")]
use crate::message::records::Owner;
#[cfg(feature = "explore")]
use crate::state::vector::VersionVector;
#[cfg(feature = "explore")]
use alloc::{format, string::String, vec::Vec};

/// The private state of a replica as text. Let two replicas of one writer in a space with members have equal
/// texts and equal [`canonical_bytes`](Replica::canonical_bytes). Then they behave the same, except for
/// faults, marks and key ids.
#[cfg(feature = "explore")]
pub fn local_text(replica: &Replica) -> String {
    let (own, collected) = (replica.writer(), replica.state.has_collected());
    let members = replica.membership.local_text(&replica.state);
    let keyed = replica
        .idempotency
        .keyed_text(&replica.state, &replica.membership);
    let keyed = keyed + &replica.quota.local_text(&replica.state);
    #[cfg(feature = "guests")]
    let keyed = keyed + &replica.deciding_text();
    format!("{own} {collected} {members} {keyed}")
}

/// The greatest time of an expiry of a counter that is in force and not decided, 0 for none. An expiry that the
/// replica carries out next has a greater time, and a refresh notes this one.
#[cfg(feature = "explore")]
pub fn expiry_floor(replica: &Replica, key: &str) -> u64 {
    let slots = replica.key_id(key).map(|it| replica.state.slots(it));
    let ids = replica.state.ids();
    slots.map_or(0, |slots| crate::state::counter::floor(&slots, ids))
}

/// The time of the end that a replica made of a counter at this clock, and the floor of its last refresh, if that
/// has this clock.
#[cfg(feature = "explore")]
pub fn expiry_marks(replica: &Replica, key: &str, clock: u64) -> (Option<u64>, Option<u64>) {
    let own = replica.state.slot_of(key, &replica.writer());
    let Some(own) = own else { return (None, None) };
    let mut expired = own.side.expired.iter();
    let expiry = own.extra().expiry.filter(|it| it.clock == clock);
    let ended = expired.find(|it| it.clock == clock);
    (ended.map(|it| it.time), expiry.map(|it| *it.floor))
}

/// How many expiries that were carried out are not decided.
#[cfg(feature = "explore")]
pub fn open_expiries(replica: &Replica) -> usize {
    let pages = replica.state.pages().iter();
    let sides = pages.flat_map(|page| page.odd.iter().flat_map(|odd| odd.iter()));
    sides.map(|(_, side)| side.expired.len()).sum()
}

/// A replica's answer to a question about these transactions, in a space with members.
#[cfg(feature = "explore")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Era and number of its configuration.
    pub present: (u64, u64),
    /// The same of the newest one that it has or has accepted.
    pub newest: (u64, u64),
    /// Whether its answer counts.
    pub counts: bool,
    /// Whether it vouches for the transactions.
    pub vouches: bool,
}

/// The answer of a replica to a question about these transactions; `None` while the space is open.
#[cfg(feature = "explore")]
pub fn said(replica: &Replica, upto: &VersionVector) -> Option<Said> {
    let footing = replica.consistency().footing()?;
    Some(Said {
        present: footing.present,
        newest: newest(footing.present, footing.accepted),
        counts: footing.counts,
        vouches: replica.consistency().vouches(upto),
    })
}

/// Whether a replica has all that counts among these transactions.
#[cfg(feature = "explore")]
pub fn sees(replica: &Replica, held: &VersionVector) -> bool {
    replica.consistency().sees(held)
}

/// Notes how many other members are linked, as the sync machine does.
#[cfg(feature = "explore")]
pub fn note_linked(replica: &mut Replica, members: usize) {
    replica.membership.note_linked(members);
}

/// A ruling that a member accepted: the owner, the era and the number, the ballot, and the ruling as text.
#[cfg(feature = "explore")]
pub type Accepted = (Owner, (u64, u64), (u64, Owner), String);

/// The votes on the next configuration that a replica counts.
#[cfg(feature = "explore")]
pub fn accepted(replica: &Replica) -> Vec<Accepted> {
    let Some((era, number)) = replica.membership.next_number() else {
        return Vec::new();
    };
    let votes = replica.membership.votes(era, number).into_iter();
    let votes = votes.filter_map(|(owner, vote)| Some((owner, vote.accepted?)));
    votes
        .map(|(owner, (ballot, ruling))| (owner, (era, number), ballot, format!("{ruling:?}")))
        .collect()
}

/// Bounds the bytes of all keys, in place of
/// [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX).
pub fn set_key_bytes_max(replica: &mut Replica, bytes: u32) {
    replica.state.set_key_bytes_max(bytes);
}
