//! Forks, the machine's part: finding forks, healing them, and going on under another id.
//! [`forks`](crate::forks) has the evidence and the digests.
//!
//! Two replicas may have equal vectors and different contents. Then one sends the other the contents of each
//! writer, as digests. The other one finds the differing writers, and replies with their contents. Both pull
//! with these writers left out of the vector. So each receives and merges everything of these writers.
//!
//! A replica that was healed announces this to its peers at once. So does one that received late shards of a
//! clock that it already had.

use super::scope::ScopeChecks;
use super::{Body, Digests, Link, Millis, Output, Session, SyncMachine, Why};
use crate::error::Error;
#[cfg(feature = "members")]
use crate::error::MergeError;
use crate::forks::{Contents, Evidence, Fault};
use crate::optional::{Empty, GUESTS, MEMBERS, Optional};
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Maximum number of doublings of the wait between healing transfers that brought nothing. The peer is slower
/// to heal, or at fault.
const DOUBLINGS_MAX: u8 = 6;

/// When the machine may pull from a peer again to heal a fork.
#[derive(Clone)]
pub(super) struct Heal {
    /// How many transfers in a row brought nothing.
    futile: u8,
    /// The earliest next time, in milliseconds of the machine's clock.
    after: Millis,
}

impl Empty for Heal {
    const EMPTY: Heal = Heal {
        futile: 0,
        after: 0,
    };
    const NOTHING: &'static Heal = &Heal::EMPTY;
}

impl SyncMachine {
    /// The digests of this replica's state.
    pub(super) fn digests(replica: &mut Replica) -> Digests {
        Digests {
            vector: replica.cached_digest(),
            contents: replica.forks_mut().content_digest(),
        }
    }

    /// Compares a peer's digests with the own ones, and pulls if the peer may have something new.
    pub(super) fn compare(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        theirs: &Digests,
    ) {
        let ours = replica.cached_digest();
        if theirs.vector != ours {
            if self.is_barren(link, theirs.vector, ours) {
                return;
            }
            return self.want(now, replica, link);
        }
        self.is_level(link);
        #[cfg(feature = "members")]
        if !self.is_in_rounds(link) {
            self.joins_rounds(replica, link, 0);
        }
        if replica.keyed().has_gaps() && self.pulls_keys(replica, link) {
            self.want(now, replica, link);
        }
        if GUESTS && replica.members().configuration().is_some() {
            return self.note_peer_vector(replica, link, &replica.vector());
        }
        if !MEMBERS || theirs.contents == 0 || self.is_held_to(link) {
            return;
        }
        let ours = replica.forks_mut().content_digest();
        let equal = ours == 0 || theirs.contents == ours;
        if self.may_heal(now, replica, link, equal) {
            let writers = replica.forks().contents();
            self.send_contents(replica, link, Why::Ask, writers);
        }
    }

    /// Whether a fork may be healed on this link now. `equal` means that the contents do not differ. In a
    /// space with members, a record that the vector covers follows other rules.
    fn may_heal(&mut self, now: Millis, replica: &Replica, link: Link, equal: bool) -> bool {
        let Some(peer) = self.peer_mut(link) else {
            return false;
        };
        if equal {
            peer.heal.take();
        }
        !equal && peer.heal.after <= now && replica.members().configuration().is_none()
    }

    fn send_contents(&mut self, replica: &Replica, link: Link, why: Why, writers: Vec<Contents>) {
        let vector = replica.digest();
        let body = Body::Contents {
            why,
            vector,
            writers,
        };
        self.send(replica, link, body);
    }

    /// Handles the contents of writers that a peer sent.
    pub(super) fn contents(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (why, vector, theirs): (Why, [u8; 16], &[Contents]),
    ) {
        if !MEMBERS {
            if why == Why::Forked {
                self.want_whole(link, replica.writer()); // which is all that there is
                self.want(now, replica, link);
            }
            return;
        }
        if !self.may_heal(now, replica, link, false) {
            return;
        }
        let ours = replica.forks().contents();
        let same_vector = vector == replica.digest();
        let mut differing = Vec::new();
        let mut lacking = false;
        for theirs in theirs {
            let own = theirs.writer == replica.writer();
            if own && theirs.clock > replica.clock() {
                self.doubled(replica, Some(link), theirs.clock);
                continue;
            }
            let Ok(at) = ours.binary_search_by_key(&theirs.writer, |it| it.writer) else {
                lacking = true;
                continue;
            };
            let ours = ours[at];
            if ours.clock != theirs.clock {
                // A digest does not show which of the two histories is here.
                if why == Why::Forked {
                    differing.push(ours);
                }
                continue;
            }
            // Whether a cancel matters depends on other writers, so cancels compare at one moment only.
            let parts = |it: &Contents| (it.shards, it.cancels * u64::from(same_vector));
            if parts(&ours) == parts(theirs) && !ours.is_unknown() {
                continue;
            }
            differing.push(ours);
            if theirs.is_unknown() || ours.is_unknown() {
                continue;
            }
            let digest = |it: &Contents| it.shards.wrapping_add(it.cancels);
            #[cfg(feature = "members")]
            self.attribute(replica, None);
            replica.forks.note_fault(|| Fault {
                writer: ours.writer,
                clock: ours.clock,
                evidence: Evidence::Contents {
                    ours: digest(&ours),
                    theirs: digest(theirs),
                },
            });
            #[cfg(feature = "members")]
            self.attribute(replica, Some(link));
            if own {
                self.ask_for_id(replica);
            }
        }
        if differing.is_empty() && !lacking {
            return;
        }
        for it in &differing {
            self.want_whole(link, it.writer);
        }
        if why != Why::Answer {
            self.send_contents(replica, link, Why::Answer, differing);
        }
        self.want(now, replica, link);
    }

    /// Makes the next pull from this peer bring everything of the writer; in a page, of all writers.
    fn want_whole(&mut self, link: Link, writer: WriterId) {
        if let Some(peer) = self.peer_mut(link) {
            peer.all = true;
            if !peer.whole.contains(&writer) {
                peer.whole.update(|it| it.push(writer));
            }
        }
    }

    /// The vector for a pull from this peer, without the writers of which everything is pulled.
    pub(super) fn vector_for(
        &self,
        replica: &Replica,
        link: Link,
        whole: &[WriterId],
    ) -> VersionVector {
        let vector = match MEMBERS {
            true if self.pulls_keys(replica, link) => replica.keyed().vector().without(whole),
            true => replica.vector().without(whole),
            false if self.peer(link).is_some_and(|peer| peer.all) => VersionVector::default(),
            false => replica.vector(),
        };
        #[cfg(all(feature = "members", not(target_family = "wasm")))]
        let vector = replica
            .membership
            .without_retirements(&replica.state, vector);
        match self.peer(link).filter(|_| self.is_held_to(link)) {
            Some(peer) => vector.only(&peer.proved), // which is all that it can tell
            None => vector,
        }
    }

    /// Whether a pull from this peer asks for missing keys, too. A start that has not announced itself leaves them
    /// for later. They may be older than what was collected. Then the peer sends its whole state, which would
    /// replace what the start has written.
    fn pulls_keys(&self, replica: &Replica, link: Link) -> bool {
        self.keeps_keys(link) && !self.is_early(replica)
    }

    /// Handles a merged transfer that pulled everything of these writers.
    pub(super) fn healed(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        whole: &[WriterId],
        shards: usize,
    ) {
        if let Some(peer) = self.peer_mut(link)
            && !core::mem::take(&mut peer.all)
        {
            return;
        }
        replica.state.rework(whole);
        if !MEMBERS {
            return;
        }
        let interval = Millis::from(self.config.interval_ms);
        if let Some(peer) = self.peer_mut(link) {
            peer.whole
                .update(|it| it.retain(|writer| !whole.contains(writer)));
            peer.all = !peer.whole.is_empty();
            peer.heal.update(|it| {
                *it = match shards {
                    0 => Heal {
                        futile: DOUBLINGS_MAX.min(it.futile + 1),
                        after: now + (interval << it.futile),
                    },
                    _ => Heal::EMPTY,
                };
            });
        }
        if shards > 0 {
            self.announce_forked(now, whole);
        }
    }

    /// Announces to the peers soon that these writers were forked.
    fn announce_forked(&mut self, now: Millis, writers: &[WriterId]) {
        if !MEMBERS {
            return;
        }
        for writer in writers {
            if !self.forked.contains(writer) {
                self.forked.update(|it| it.push(*writer));
            }
        }
        self.announce_soon(now, None);
    }

    /// Sends the contents of the writers that were found forked.
    pub(super) fn push_forked(&mut self, replica: &Replica) {
        if !MEMBERS {
            return;
        }
        let forked = self.forked.take();
        if forked.is_empty() {
            return;
        }
        let mut writers = replica.forks().contents();
        writers.retain(|it| forked.contains(&it.writer));
        let links: Vec<Link> = self.open_sessions().map(|peer| peer.link).collect();
        for link in links {
            self.send_contents(replica, link, Why::Forked, writers.clone());
        }
    }

    /// Handles the forks that the last merge found.
    pub(super) fn look_for_forks(&mut self, now: Millis, replica: &mut Replica) {
        if !MEMBERS {
            return;
        }
        self.leave_doubled(now, replica);
        let forked = replica.forks.take_forked();
        if forked.is_empty() {
            return;
        }
        if forked.contains(&replica.writer()) {
            self.ask_for_id(replica);
            self.leave_doubled(now, replica);
        }
        self.announce_forked(now, &forked);
    }

    /// Handles a clock of this replica's own writer that a peer has and this replica has not reached.
    pub(super) fn doubled(&mut self, replica: &mut Replica, link: Option<Link>, heard: u64) {
        #[cfg(feature = "members")]
        self.attribute(replica, None);
        replica.forks.doubt_self(&replica.state, heard);
        #[cfg(feature = "members")]
        {
            self.attribute(replica, link);
            self.deny(replica);
        }
        if let Some(link) = link {
            self.want_whole(link, replica.writer());
        }
        self.ask_for_id(replica);
    }

    fn ask_for_id(&mut self, replica: &Replica) {
        if !MEMBERS {
            return;
        }
        if GUESTS && replica.members().configuration().is_some() {
            // Members end the present writer before its owner goes on under another one.
            self.guests.update(|it| it.doubled = true);
            return;
        }
        let writer = replica.writer();
        if *self.asked_for_id != Some(writer) {
            self.asked_for_id.set(Some(writer));
            self.outputs.push(Output::Renew);
        }
    }

    /// Goes on under another writer id.
    pub(super) fn renew(&mut self, now: Millis, replica: &mut Replica, writer: WriterId) {
        if self.fresh_writer(now, replica, writer) || !MEMBERS {
            return;
        }
        let old = replica.writer();
        if !replica.forks_mut().renew(writer) {
            return;
        }
        self.announce_forked(now, &[old]);
        for at in 0..self.peers.len() {
            let Session { link, all, .. } = self.peers[at];
            self.want_whole(link, old);
            self.prove(replica, link);
            if all {
                self.want(now, replica, link);
            }
        }
    }

    /// Reports a rejected input. It is no fault of the peer if another process writes under the own id.
    pub(super) fn refuse(
        &mut self,
        replica: &mut Replica,
        link: Option<Link>,
        close: bool,
        error: Error,
    ) {
        // Where forks are not searched for, the error has no more than its code.
        #[cfg(feature = "members")]
        if let Error::Merge(MergeError::OwnClockAhead { heard, .. }) = error {
            return self.doubled(replica, link, heard);
        }
        let _ = &replica;
        let close = link.filter(|_| close);
        self.outputs.push(Output::Refused { close, error });
    }
}

#[cfg(test)]
mod tests;
