//! Peers of limited rights: a message beyond their rights is refused before anything is merged or passed on.
//!
//! Such a peer speaks for the writers that it has proved to be its owner's, and for nobody else. Their ids
//! are hashes of the owner's key, which the link has authenticated, and a nonce that the peer shows. So all
//! that it sends must be stamped by them: shards, cancels, and membership records. Records that only members
//! make are refused under its own stamp, too. It receives everything.

use super::scope::{ScopeChecks, WriterShares};
use super::{Body, Link, Millis, SyncMachine};
use crate::bounds::OWN_WRITERS_MAX;
use crate::error::{Error, ScopeError, WriteError};
use crate::membership::room::Bringer;
use crate::message::Message;
use crate::message::records::{MembershipRecord, Owner, Statement};
use crate::optional::{Empty, Optional};
use crate::replica::Replica;
use crate::state::delta::KeySide;
use crate::state::page::Row;
use crate::state::slot::{Extra, Side, Slot};
use crate::state::vector::VersionVector;
use crate::wire::{Last, TAKES_NOTHING, TAKES_OWN};
use crate::writer_id::WriterId;

/// The role of the owner of a program that is no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Receives everything, and changes nothing.
    Reader,
    /// Also adds.
    Writer,
    /// Also resets, sets, deletes, expires and persists.
    Editor,
}

/// The key that a peer has proved to be its owner's, and this owner's role.
pub(super) type Scope = (Owner, Role);

/// The rights of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerScope {
    /// All rights of a member: it may send records of any writer.
    Full,
    /// The rights of its owner's role, for its owner's writers.
    Limited {
        /// The public key that it has proved to be its own.
        owner: Owner,
        /// The owner's role.
        role: Role,
    },
}

impl SyncMachine {
    /// The rights of a link's peer, or `None` if there is no such link.
    pub fn rights(&self, link: Link) -> Option<PeerScope> {
        Some(match *self.peer(link)?.scope {
            Some((owner, role)) => PeerScope::Limited { owner, role },
            None => PeerScope::Full,
        })
    }
}

impl ScopeChecks for SyncMachine {
    type Scope = Scope;

    fn capabilities_of(scope: Option<&Scope>) -> u64 {
        match scope {
            Some((_, Role::Reader)) => TAKES_OWN | TAKES_NOTHING,
            Some(_) => TAKES_OWN,
            None => 0,
        }
    }

    fn is_held_to(&self, link: Link) -> bool {
        self.peer(link).is_some_and(|peer| peer.scope.is_some())
    }

    fn may_be_asked(&self, link: Link) -> bool {
        let Some(peer) = self.peer(link) else {
            return true;
        };
        match *peer.scope {
            Some((_, Role::Reader)) => false,
            Some(_) => !peer.proved.is_empty(),
            None => true,
        }
    }

    fn may_be_taken_in(&self, link: Link) -> bool {
        let scope = self.peer(link).and_then(|peer| *peer.scope);
        !matches!(scope, Some((_, Role::Reader)))
    }

    fn check_proof(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), Error> {
        let Some(peer) = self.peer_mut(link) else {
            return Ok(());
        };
        let Some((owner, _)) = *peer.scope else {
            return Ok(()); // it is believed anyway
        };
        // The peer repeats its proof with each digest, until it gets an answer.
        if !peer.proofs.take(now) {
            return Ok(());
        }
        if WriterId::mint(replica.space(), &owner, &nonce) != writer {
            return Err(ScopeError::NotYours { writer }.into());
        }
        let news = !peer.proved.contains(&writer);
        if news {
            peer.proved.update(|it| it.push(writer));
            peer.compared.take();
        }
        if peer.proved.len() > OWN_WRITERS_MAX {
            peer.proved.update(|it| it.remove(0));
        }
        if news && self.writer_of(link) == Some(writer) {
            self.admit_peer(now, replica, link);
        }
        self.send(replica, link, Body::Own { writer, nonce });
        Ok(())
    }

    fn may_say(&self, replica: &Replica, link: Link, body: &Body) -> Result<bool, Error> {
        let Some(peer) = self.peer(link) else {
            return Ok(true);
        };
        let Some((limit, _)) = *peer.scope else {
            return Ok(true);
        };
        match body {
            Body::Push(message) => self.may_tell(replica, link, message)?,
            Body::Delta(delta) => self.may_tell(replica, link, &delta.message)?,
            Body::Return { writer, owner, .. } => {
                let foreign = owner.is_some_and(|owner| owner != limit);
                if foreign || !peer.proved.contains(writer) {
                    return Err(ScopeError::NotYours { writer: *writer }.into());
                }
            }
            Body::Ended { writer, last } if *last != Last::Hearsay => {
                return Err(ScopeError::NotYours { writer: *writer }.into());
            }
            // Only members request rights.
            #[cfg(feature = "budgets")]
            Body::Want(_) | Body::Draw(_) => {
                let writer = peer.hello.as_ref().map(|it| it.writer);
                let writer = writer.unwrap_or(replica.writer());
                return Err(ScopeError::NotYours { writer }.into());
            }
            // Its statements about what others have stored are ignored.
            Body::Contents { .. } | Body::Answer(_) | Body::Round(_) | Body::Position(_) => {
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    }

    fn may_tell(&self, replica: &Replica, link: Link, message: &Message) -> Result<(), Error> {
        let Some(peer) = self.peer(link) else {
            return Ok(());
        };
        let Some((_, role)) = *peer.scope else {
            return Ok(());
        };
        let remembers = message.gaps.is_some() || !message.returns.is_empty();
        if role == Role::Reader {
            let silent = message.is_empty() && message.records().is_empty() && !remembers;
            return match silent && message.keyed.is_empty() {
                true => Ok(()),
                false => Err(ScopeError::BeyondRole.into()),
            };
        }
        for entry in &message.delta.writers {
            let writer = entry.writer;
            let is_told = entry.hi > entry.lo;
            // A writer without records has nothing to build on, but it takes room.
            let unknown = entry.hi == 0 && !replica.state.knows(&writer);
            if (is_told || unknown) && !peer.proved.contains(&writer) {
                return Err(ScopeError::NotYours { writer }.into());
            }
        }
        let new = self.new_of(replica, Some(link), message).len();
        replica
            .membership
            .room_for_writers(&replica.state, new, Bringer::Guest)?;
        self.room_in_share(link, new)?;
        #[cfg(feature = "budgets")]
        let holds = message.has_reserved_keys();
        #[cfg(not(feature = "budgets"))]
        let holds = false;
        // Only members have amounts of budgets.
        if message.complete || remembers || holds {
            let writer = peer.hello.as_ref().map(|it| it.writer);
            let writer = writer.unwrap_or(replica.writer());
            return Err(ScopeError::NotYours { writer }.into());
        }
        if !message.keyed.is_empty() {
            return Err(ScopeError::BeyondRole.into()); // they may take out what others added
        }
        let id = |at: u32| message.delta.writers[at as usize].writer;
        for record in message.records() {
            if !is_of_guest(replica, message, record) {
                let writer = id(record.writer);
                return Err(ScopeError::NotYours { writer }.into());
            }
        }
        for KeySide { key, side } in &message.delta.sides {
            if has_member_part(message, side) {
                let writer = id(side.writer);
                return Err(ScopeError::NotYours { writer }.into());
            }
            if let Some(total) = wide_total(replica, message, *key, side) {
                return Err(WriteError::WideTotal { total }.into());
            }
            let key = message.delta.keys.get(*key as usize);
            if let Some(total) = wide_upto(replica, message, key, side) {
                return Err(WriteError::WideTotal { total }.into());
            }
            if role == Role::Writer && !only_adds(replica, key, &id(side.writer), side) {
                return Err(ScopeError::BeyondRole.into());
            }
        }
        Ok(())
    }

    fn catch_up(&mut self, now: Millis, replica: &Replica, link: Link, theirs: &VersionVector) {
        let proved = self.peer(link).map_or(&[][..], |peer| &peer.proved);
        let own = theirs.clone().only(proved);
        if !self.is_coming_back() && !replica.vector().covers(&own) {
            self.want(now, replica, link);
        }
    }

    fn note_received_by_limited(
        &self,
        replica: &mut Replica,
        link: Link,
        writer: &WriterId,
        vector: &VersionVector,
    ) {
        let Some(peer) = self.peer(link) else {
            return;
        };
        let held = replica.vector();
        let reads = matches!(*peer.scope, Some((_, Role::Reader)));
        let all = reads || held.covers(&vector.clone().only(&peer.proved));
        if replica.members().is_member() && all {
            replica
                .membership
                .note_seen(&replica.state, writer, &vector.within(&held));
        }
    }
}

/// Maximum number of proofs that a peer may send at once, and the time in milliseconds until it may send one
/// more. Each proof costs a hash and an answer.
const PROOFS_AT_ONCE: u32 = 4 * OWN_WRITERS_MAX as u32;
const PROOF_MS: Millis = 10;

/// The number of proofs that a peer may send: a token bucket.
#[derive(Clone, Debug)]
pub(super) struct Proofs {
    left: u32,
    since: Millis,
}

impl Empty for Proofs {
    const EMPTY: Proofs = Proofs {
        left: PROOFS_AT_ONCE,
        since: 0,
    };
    const NOTHING: &'static Proofs = &Proofs::EMPTY;
}

impl Proofs {
    /// Takes one proof from the bucket. Returns whether there was one.
    fn take(&mut self, now: Millis) -> bool {
        let more = now.saturating_sub(self.since) / PROOF_MS;
        self.since += more * PROOF_MS;
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(PROOFS_AT_ONCE);
        let some = self.left > 0;
        self.left -= u32::from(some);
        some
    }
}

/// Whether a record is one that a guest makes about its own writer. Such a record says what the writer had
/// observed at first, or that the writer leaves with a member as its successor.
fn is_of_guest(replica: &Replica, message: &Message, record: &MembershipRecord) -> bool {
    match &record.statement {
        Statement::Base(..) => true,
        Statement::Leave(leave) => {
            let successor = &message.delta.writers[leave.successor as usize].writer;
            let members = replica.members();
            // The sponsor's process may have been replaced, and its writer forgotten, before the guest learned it.
            members.incarnation(successor).is_some() || members.retired_clock(successor).is_some()
        }
        _ => false,
    }
}

/// Whether a side has a part that only members make, or a cancel beyond its writer's clock in the message.
fn has_member_part(message: &Message, side: &Side) -> bool {
    let hi = message.delta.writers[side.writer as usize].hi;
    let absorbed = side.extra.as_ref().is_some_and(|extra| extra.absorbed);
    let watermark = side
        .watermark
        .as_ref()
        .map_or(0, |watermark| watermark.clock);
    let lift = side.lift.as_ref().map_or(0, |lift| lift.clock);
    let moved = side.moved.is_some() || side.fold.is_some() || !side.withdrawals.is_empty();
    absorbed || moved || watermark > hi || lift > hi
}

/// A total in a guest's slot that adds of one writer can't reach: the rest of it does not fit into 64 bits.
/// Several such totals would overflow the total of the member that becomes the guest's successor. A cancel
/// may record such a total only for a slot that is as wide here.
fn wide_total(replica: &Replica, message: &Message, key: u32, side: &Side) -> Option<i128> {
    let is_wide = |total: &i128| i64::try_from(*total).is_err();
    let row = message.delta.row(key, side.writer).copied();
    let row = row.unwrap_or(Row { clock: 0, total: 0 });
    let told = Slot {
        row,
        side: side.clone(),
    };
    let watermark = side
        .watermark
        .as_ref()
        .map(|watermark| watermark.total)
        .filter(is_wide);
    if !is_wide(&told.total()) && watermark.is_none() {
        return None;
    }
    let key = message.delta.keys.get(key as usize);
    let writer = &message.delta.writers[side.writer as usize].writer;
    let held = replica.state.slot_of(key, writer);
    // The part of the message's lifetime that was cancelled before the lifetime went on.
    let cancelled = held.as_ref().and_then(|held| held.side.watermark.as_ref());
    let cancelled = cancelled
        .filter(|watermark| watermark.clock >= told.began() && watermark.clock < row.clock);
    let left = told.total() - cancelled.map_or(0, |watermark| watermark.total);
    let is_as_wide = |held: &Slot| held.extra().absorbed || is_wide(&held.total());
    let watermark = watermark.filter(|_| !held.as_ref().is_some_and(is_as_wide));
    Some(left).filter(is_wide).or(watermark)
}

/// A total that an expiry of a guest names, and that adds of one writer can't reach. It is as of a cancel:
/// only a slot that is as wide here may have it.
fn wide_upto(replica: &Replica, message: &Message, key: &str, side: &Side) -> Option<i128> {
    let is_wide = |total: i128| i64::try_from(total).is_err();
    let named = side.expired.iter().flat_map(|it| &it.upto);
    let mut wide = named.filter(|it| is_wide(it.total)).filter(|it| {
        let writer = &message.delta.writers[it.writer as usize].writer;
        let held = replica.state.slot_of(key, writer);
        !held.is_some_and(|held| held.extra().absorbed || is_wide(held.total()))
    });
    wide.next().map(|it| it.total)
}

/// Whether a side has only results of adds. An add that begins a lifetime may mark an expiry that is here. An
/// owner may have cancelled something while its role allowed that. This cancel stays in the slot's later
/// shards, as it is stored here.
fn only_adds(replica: &Replica, key: &str, writer: &WriterId, side: &Side) -> bool {
    let ended = side.expired.last().map_or(0, |it| it.clock);
    if ended > replica.state.held(writer) {
        return false;
    }
    let Some(extra) = side.extra.as_deref() else {
        return side.watermark.is_none() && side.lift.is_none();
    };
    let held = replica.state.slot_of(key, writer);
    let held = held.map_or(Extra::default(), |held| held.extra());
    let assignment = extra.assignment.is_none()
        || extra.assignment == held.assignment && extra.began == held.began;
    let expiry = extra.expiry.is_none() || extra.expiry == held.expiry;
    side.watermark.is_none() && side.lift.is_none() && assignment && expiry
}

#[cfg(test)]
mod tests;
