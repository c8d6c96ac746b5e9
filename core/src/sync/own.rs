//! Links to peers that accept only this owner's own records, or none at all.
//!
//! Such a peer says so in its hello. The machine sends it [`Body::Own`], which lists this owner's writers, and
//! the peer answers with the same once it has accepted the proof. Frames may be lost and overtake each other, so
//! nothing of a writer is sent before that answer.
//!
//! The peer never receives what others made: they send it themselves, or a peer that is trusted with it does. A
//! record builds on what its writer had seen of others, so a peer that lacks some of that accepts it later. The
//! two may differ for ever in records that cannot be handed over. So a pull that brought nothing is not repeated
//! before either side has something else.

use super::scope::PeerScope;
use super::{Body, Link, Millis, SyncMachine};
use crate::error::Error;
use crate::layers::{Empty, GUESTS, Optional};
#[cfg(feature = "guests")]
use crate::limits::OWN_WRITERS_MAX;
use crate::message::Message;
use crate::replica::Replica;
use crate::wire::{TAKES_NOTHING, TAKES_OWN};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Digests of the vectors of a peer and of this replica.
type Both = ([u8; 16], [u8; 16]);

/// What is known of what a peer holds that takes, or is believed, only what is its, or this, owner's.
#[derive(Clone)]
pub(super) struct Compared {
    /// The digest of its vector that it told last.
    told: Option<[u8; 16]>,
    /// That, and the own one, when it was pulled from last.
    asked: Option<Both>,
    /// Those by which a pull brought nothing.
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
    /// Whether not all that either side holds is told, or believed, on this link.
    pub(super) fn is_limited(&self, link: Link) -> bool {
        self.takes(link) != 0 || self.is_held_to(link)
    }

    /// What the peer takes of this replica, as its capabilities; 0 for all.
    fn takes(&self, link: Link) -> u64 {
        let peer = self.peer(link).filter(|_| GUESTS);
        let greeting = peer.and_then(|peer| peer.greeting.as_ref());
        greeting.map_or(0, |it| *it.takes)
    }

    /// The writers that alone the peer is told of; `None` if it is told of all.
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

    /// Whether the peer is told what is new in a message.
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

    /// A writer is of the same owner as this replica.
    #[cfg(feature = "guests")]
    pub(super) fn is_own(&mut self, replica: &Replica, writer: WriterId, nonce: [u8; 16]) {
        self.guests.update(|it| {
            it.own.retain(|it| it.0 != writer);
            it.own.push((writer, nonce));
            if it.own.len() > OWN_WRITERS_MAX {
                it.own.remove(0);
            }
        });
        let links: Vec<Link> = self.greeted().map(|peer| peer.link).collect();
        for link in links {
            self.prove(replica, link);
        }
    }

    /// Tells a peer that takes only what is this owner's which writers are, as far as it has not taken
    /// that and they matter here.
    pub(super) fn prove(&mut self, replica: &Replica, link: Link) {
        if !GUESTS || self.takes(link) & (TAKES_OWN | TAKES_NOTHING) == 0 {
            return;
        }
        let coming_back = self.guests.coming_back.as_ref();
        let fresh = coming_back.and_then(|it| it.fresh);
        let matters = |writer: &WriterId| {
            replica.state.knows(writer)
                || replica.rejoin.is_former(writer)
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

    /// Whether a peer takes this replica's word for one of its writers. If it lacks the proof, it is
    /// told.
    pub(super) fn speaks_for(&mut self, replica: &Replica, link: Link, writer: &WriterId) -> bool {
        let peer = self.peer(link);
        if self.takes(link) == 0 || peer.is_some_and(|peer| peer.taken.contains(writer)) {
            return true;
        }
        self.prove(replica, link);
        false
    }

    /// A peer says that a writer is of its owner, or that it has taken that of this replica's.
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
            // It finds out from the pull what it lacks.
            self.want(now, replica, link);
        }
        Ok(())
    }

    /// Notes what is held on both sides of such a link as the peer is asked.
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

    /// Notes that the peer had nothing new to tell.
    pub(super) fn brought_nothing(&mut self, link: Link) {
        if GUESTS && let Some(peer) = self.peer_mut(link) {
            peer.compared.update(|it| it.barren = it.asked);
        }
    }

    /// Whether the peer of such a link, which holds this, has nothing new to tell, nor to learn.
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
