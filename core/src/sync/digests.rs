//! The digests that a replica sends its peers.
//!
//! A digest stands for the version vector in sixteen bytes. The machine sends one to each peer at intervals,
//! and to all others when a peer brought news.

use super::{Body, Digests, LINKS_FOR_EACH_MS, Link, Millis, SyncMachine};
use crate::optional::MEMBERS;
use crate::replica::Replica;
use alloc::vec::Vec;

/// Whether the machine keeps the time of the next digest. A page has few peers, and looks at each.
pub(super) const NOTES_DUE: bool = MEMBERS && !cfg!(target_family = "wasm");

impl SyncMachine {
    /// Sends a digest to each peer that is due for one. If there is news, sends it to all peers but its
    /// source.
    pub(super) fn send_digests(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        told: Option<(Millis, Option<Link>)>,
    ) {
        let mut links = Vec::new();
        let mut any_due = false;
        // A digest covers all writers. Peers that are due for one soon get the same one now.
        let until = match MEMBERS && self.next_digest() <= now {
            true => now + self.peers.len() as Millis / LINKS_FOR_EACH_MS,
            false => now,
        };
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            let news = told.is_some_and(|(_, teller)| teller != Some(peer.link));
            #[cfg(feature = "members")]
            let news = news && peer.sent.needs_news();
            let due = peer.next_digest <= until;
            if peer.hello.is_some() && (news || due) {
                links.push(peer.link);
                any_due |= due;
                if due {
                    self.peers[at].next_digest = self.later(now);
                    self.peers[at].rests = false;
                }
            }
        }
        if !links.is_empty() {
            let digests = match any_due {
                true => SyncMachine::digests(replica),
                // News makes the vectors differ. A digest of the contents takes long in a large space.
                false => Digests {
                    vector: replica.cached_digest(),
                    contents: 0,
                },
            };
            for link in &links {
                self.prove(replica, *link);
                #[cfg(feature = "members")]
                self.tell_time(now, replica, *link);
                #[cfg(feature = "members")]
                if self.is_in_rounds(*link) {
                    self.ask_again(now, replica, *link);
                    self.send_position(replica, *link, digests);
                    continue;
                }
                self.send(replica, *link, Body::Digest(digests));
            }
        }
        self.note_digest_due();
    }

    /// Sends a link's peer a digest at the next tick, because frames on the link may have been lost. The two
    /// then find out what either lacks.
    #[cfg(feature = "members")]
    pub fn compare_soon(&mut self, now: Millis, link: Link) {
        if let Some(peer) = self.peer_mut(link) {
            peer.next_digest = now;
            self.note_digest_due();
        }
    }

    /// Records when the next peer is due for a digest. A node has many peers, and would otherwise look at
    /// each of them with each write.
    pub(super) fn note_digest_due(&mut self) {
        if NOTES_DUE {
            self.digest_due = self.first_digest();
        }
    }

    fn first_digest(&self) -> Millis {
        let mut first = Millis::MAX;
        let digests = self.open_sessions().map(|peer| peer.next_digest);
        digests.for_each(|at| first = first.min(at));
        first
    }

    /// When a digest is due, or earlier.
    pub(super) fn next_digest(&self) -> Millis {
        match NOTES_DUE {
            true => self.digest_due,
            false => self.first_digest(),
        }
    }
}

#[cfg(test)]
mod tests;
