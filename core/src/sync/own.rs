//! Links to peers that accept only this owner's own records, or none at all.
//!
//! Such a peer says so in its hello. The machine sends it [`Body::Own`], which lists this owner's writers,
//! and the peer answers with the same once it has accepted the proof. Frames may be lost and overtake each
//! other, so nothing of a writer is sent before that answer.
//!
//! The peer never receives what others made: they send it themselves, or a peer that is trusted with it does.
//! A record builds on what its writer had seen of others, so a peer that lacks some of that accepts it later.
//! The two may differ for ever in records that cannot be handed over. So a pull that brought nothing is not
//! repeated before either side has something else.

use super::scope::ScopeChecks;
use super::{Body, Link, Millis, SyncMachine};
#[cfg(feature = "guests")]
use crate::bounds::OWN_WRITERS_MAX;
use crate::error::Error;
use crate::message::Message;
use crate::optional::{Empty, GUESTS, Optional};
use crate::replica::Replica;
use crate::wire::{TAKES_NOTHING, TAKES_OWN};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Digests of the vectors of a peer and of this replica.
type Both = ([u8; 16], [u8; 16]);

/// Comparison with a peer on a link that does not carry all records.
#[derive(Clone)]
pub(super) struct Compared {
    /// The last digest of its vector that the peer sent.
    told: Option<[u8; 16]>,
    /// This digest and the own one at the last pull from the peer.
    asked: Option<Both>,
    /// Both digests at the last pull that brought nothing.
    barren: Option<Both>,
}

impl Empty for Compared {
    const EMPTY: Compared = Compared {
        told: None,
        asked: None,
        barren: None,
    };
    const NOTHING: &'static Compared = &Compared::EMPTY;
}

impl SyncMachine {
    /// Whether this link carries only some records, because one side accepts only some from the other.
    pub(super) fn is_limited(&self, link: Link) -> bool {
        self.takes(link) != 0 || self.is_held_to(link)
    }

    /// The bounds on what the peer accepts from this replica, as its capabilities. It is 0 if there are none.
    fn takes(&self, link: Link) -> u64 {
        let peer = self.peer(link).filter(|_| GUESTS);
        let hello = peer.and_then(|peer| peer.hello.as_ref());
        hello.map_or(0, |it| *it.takes)
    }

    /// The writers whose records the peer gets, or `None` if it gets all records.
    pub(super) fn only(&self, link: Link) -> Option<Vec<WriterId>> {
        if !GUESTS {
            return None;
        }
        let taken = self.peer(link).map_or(&[][..], |peer| &peer.taken);
        match self.takes(link) {
            0 => None,
            takes if takes & TAKES_NOTHING > 0 => Some(Vec::new()),
            _ => Some(taken.to_vec()),
        }
    }

    /// Whether the peer gets the new records of a message.
    pub(super) fn hands_over(&self, link: Link, message: &Message) -> bool {
        let Some(only) = self.only(link) else {
            return true;
        };
        let mut newer = message
            .delta
            .writers
            .iter()
            .filter(|entry| entry.hi > entry.lo);
        newer.all(|entry| only.contains(&entry.writer))
    }

    /// Adds a writer of this replica's owner.
    #[cfg(feature = "guests")]
    pub(super) fn is_own(&mut self, replica: &Replica, writer: WriterId, nonce: [u8; 16]) {
        self.guests.update(|it| {
            it.own.retain(|it| it.0 != writer);
            it.own.push((writer, nonce));
            if it.own.len() > OWN_WRITERS_MAX {
                it.own.remove(0);
            }
        });
        let links: Vec<Link> = self.open_sessions().map(|peer| peer.link).collect();
        for link in links {
            self.prove(replica, link);
        }
    }

    /// Sends proofs of own writers to a peer that accepts only this owner's records. It skips writers whose
    /// proof the peer has accepted, and writers that do not matter here.
    pub(super) fn prove(&mut self, replica: &Replica, link: Link) {
        if !GUESTS || self.takes(link) & (TAKES_OWN | TAKES_NOTHING) == 0 {
            return;
        }
        let coming_back = self.guests.coming_back.as_ref();
        let fresh = coming_back.and_then(|it| it.fresh);
        let matters = |writer: &WriterId| {
            replica.state.knows(writer)
                || replica.rejoin.is_earlier(writer)
                || fresh == Some(*writer)
        };
        let taken = self.peer(link).map_or(&[][..], |peer| &peer.taken);
        let own = self.guests.own.iter();
        let open = own.filter(|it| !taken.contains(&it.0) && matters(&it.0));
        let open: Vec<(WriterId, [u8; 16])> = open.copied().collect();
        for (writer, nonce) in open {
            self.send(replica, link, Body::Own { writer, nonce });
        }
    }

    /// Whether a peer accepts this replica's statements about one of its writers. If the peer lacks the
    /// proof, sends it.
    pub(super) fn peer_accepts(
        &mut self,
        replica: &Replica,
        link: Link,
        writer: &WriterId,
    ) -> bool {
        let peer = self.peer(link);
        if self.takes(link) == 0 || peer.is_some_and(|peer| peer.taken.contains(writer)) {
            return true;
        }
        self.prove(replica, link);
        false
    }

    /// Handles a peer's proof that a writer belongs to its owner, or its acceptance of a proof of this
    /// replica.
    pub(super) fn proof(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), Error> {
        if !GUESTS {
            return Ok(());
        }
        let own = self.guests.own.contains(&(writer, nonce)) && self.takes(link) != 0;
        if !own {
            return self.check_proof(now, replica, link, writer, nonce);
        }
        if let Some(peer) = self.peer_mut(link).filter(|_| own)
            && !peer.taken.contains(&writer)
        {
            peer.taken.update(|it| it.push(writer));
            peer.compared.take();
            // The peer sees from this pull what it lacks.
            self.want(now, replica, link);
        }
        Ok(())
    }

    /// Records the digests of both sides when the machine pulls from the peer of such a link.
    pub(super) fn asks(&mut self, link: Link, replica: &Replica) {
        if GUESTS
            && self.is_limited(link)
            && let Some(peer) = self.peer_mut(link)
        {
            let told = peer.compared.told;
            let asked = told.map(|told| (told, replica.digest()));
            peer.compared.update(|it| it.asked = asked);
        }
    }

    /// Records that the peer had nothing new to send.
    pub(super) fn brought_nothing(&mut self, link: Link) {
        if GUESTS && let Some(peer) = self.peer_mut(link) {
            peer.compared.update(|it| it.barren = it.asked);
        }
    }

    /// Whether the peer of such a link has nothing new to send or to receive. `theirs` and `ours` are the
    /// digests of both sides.
    pub(super) fn is_barren(&mut self, link: Link, theirs: [u8; 16], ours: [u8; 16]) -> bool {
        if !GUESTS || !self.is_limited(link) {
            return false;
        }
        let Some(peer) = self.peer_mut(link) else {
            return false;
        };
        peer.compared.update(|it| it.told = Some(theirs));
        peer.compared.barren == Some((theirs, ours))
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;
