//! Following [rounds](super::rounds): the receiver's side.
//!
//! A replica *follows* a peer from the moment at which it has everything that the peer had at a position. It learns
//! that in two ways: it has merged the transfer of which the peer says so, or both have the same state. Each round
//! from there on brings it to a later position. A round that begins at a later position than the receiver's builds
//! on something missing. Then the replica pulls, as it does where digests differ.
//!
//! A replica that follows lacks nothing of its peer, so it does not pull where digests differ: it has something
//! that the peer lacks, or the peer has a round under way. If both stay as they are until the next digest, it
//! pulls all the same.

use super::{Link, Millis, SyncMachine};
use crate::error::Error;
use crate::message::Message;
use crate::optional::{Empty, Optional};
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::sync::scope::WriterShares;
use crate::wire::{Body, Followed, Position, Round};

/// How far a replica has followed a peer's rounds.
#[derive(Clone)]
pub(super) struct Following {
    /// The peer's position up to which everything is here, if that is known.
    position: Option<u64>,
    /// The number of the last pull whose transfer was merged.
    pull: u32,
    /// The digests of both sides' vectors, where they differed at this position.
    differed: Option<([u8; 16], [u8; 16])>,
}

impl Empty for Following {
    const EMPTY: Following = Following {
        position: None,
        pull: 0,
        differed: None,
    };
    const NOTHING: &'static Following = &Following::EMPTY;
}

impl Following {
    /// Whether everything up to a position of the peer is here.
    fn is_at(&self, position: u64) -> bool {
        self.position.is_some_and(|at| at >= position)
    }

    /// Whether it is known what of the peer is here.
    pub(super) fn is_somewhere(&self) -> bool {
        self.position.is_some()
    }

    fn reach(&mut self, position: u64) {
        self.position = self.position.max(Some(position));
    }
}

impl SyncMachine {
    /// Notes that the transfer of a pull was merged.
    pub(super) fn merged_pull(&mut self, link: Link, id: u32) {
        if let Some(peer) = self.peer_mut(link) {
            peer.following.update(|it| it.pull = id);
        }
    }

    /// Notes that another state replaced everything here, so that it may lack what peers had sent.
    pub(super) fn stop_following(&mut self) {
        for peer in &mut self.peers {
            peer.following.take();
        }
    }

    /// Handles a round.
    pub(super) fn round_came(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        mut round: Round,
    ) -> Result<(), Error> {
        let Some(following) = self.peer(link).map(|peer| &peer.following) else {
            return Ok(());
        };
        if following.is_at(round.to) {
            return Ok(()); // It came again.
        }
        if !following.is_at(round.from) {
            self.want(now, replica, link);
            return Ok(());
        }
        let message = &mut round.message;
        let find = |first: &_, last: &_| replica.state.only_within(first, last);
        let is_known = round.names.resolve(message, find);
        let message = &*message;
        let merged = match is_known {
            true => {
                let new = self.new_of(replica, Some(link), message);
                self.merge_from(now, replica, link, (&[], message), &new)?
            }
            false => None,
        };
        if merged.is_none() {
            if let Some(peer) = self.peer_mut(link) {
                peer.following.take();
            }
            self.want(now, replica, link);
            return Ok(());
        }
        if let Some(peer) = self.peer_mut(link) {
            peer.following.update(|it| it.reach(round.to));
        }
        self.note_receipt(replica, link, message);
        Ok(())
    }

    /// Notes which own transactions a peer has, by a message that the peer assembled and this replica merged. The peer made
    /// this durable before it sent it.
    pub(super) fn note_receipt(&self, replica: &mut Replica, link: Link, message: &Message) {
        if message.hi(&replica.writer()).is_some() {
            let named = message.delta.writers.iter();
            let clocks = named.filter(|it| it.hi > 0).map(|it| (it.writer, it.hi));
            let held = VersionVector::from_sorted(clocks.collect());
            self.note_peer_vector(replica, link, &held);
        }
    }

    /// Handles the position of a peer that sends rounds.
    pub(super) fn position_came(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        theirs: &Position,
    ) {
        let ours = replica.cached_digest();
        let is_same = theirs.digests.vector == ours;
        let Some(peer) = self.peer_mut(link) else {
            return;
        };
        if theirs.pull > 0 {
            if peer.following.pull == theirs.pull {
                peer.following.update(|it| it.reach(theirs.at));
            }
            return;
        }
        if is_same {
            peer.following.update(|it| it.reach(theirs.at));
        }
        if peer.following.is_at(theirs.at) {
            replica
                .membership
                .accept_horizon(&replica.state, &theirs.stable);
        }
        let differs = (!is_same).then_some((theirs.digests.vector, ours));
        let is_behind = !peer.following.is_at(theirs.at);
        let stays = differs.is_some() && peer.following.differed == differs;
        peer.following.update(|it| it.differed = differs);
        if is_same || is_behind || stays {
            return self.digest_came(now, replica, link, &theirs.digests);
        }
        self.report_followed(replica, link, theirs.at);
    }

    /// Tells a member how far this guest has followed it, so that the member can acknowledge that. The member must
    /// have all that this guest and its earlier writers had made.
    fn report_followed(&mut self, replica: &Replica, link: Link, at: u64) {
        let guest = replica.members().configuration().is_some() && !replica.members().is_member();
        let guest = guest && replica.membership.sponsor_number().is_some();
        if guest && replica.rejoin.earlier().is_empty() && self.leads_to_member(replica, link) {
            let clock = replica.clock();
            self.send(replica, link, Body::Followed(Followed { at, clock }));
        }
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;
