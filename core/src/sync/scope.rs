//! Peer scope: the bounds of what a peer of limited rights does on a link, and of its room for writers.
//!
//! The machine asks two traits. A program that may be a member has [rights](super::rights) and
//! [shares](super::shares). A page is at its own node, or at other pages of its user, and takes their word:
//! it has a null object (`scope/none.rs`), which limits nobody.

#[cfg(not(feature = "members"))]
mod none;

use super::{Body, Link, Millis, SyncMachine};
use crate::error::Error;
use crate::message::Message;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The limits of a peer, where there are any.
pub(super) type Limits = <SyncMachine as PeerScope>::Limits;

/// What the peers of limited rights may say, and what of it counts.
pub(super) trait PeerScope {
    /// The limits of a peer that has any.
    type Limits;

    /// What is taken of a peer of such rights, as capabilities.
    fn takes_of(limits: Option<&Self::Limits>) -> u64;

    /// Whether the peer is held to limited rights.
    fn is_held_to(&self, link: Link) -> bool;

    /// Whether it is worth while to ask the peer for anything.
    fn may_be_asked(&self, link: Link) -> bool;

    /// Whether the peer's writer may be taken in: a reader makes nothing that is waited for.
    fn may_be_taken_in(&self, link: Link) -> bool;

    /// A peer shows that a writer is its owner's.
    fn check_proof(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), Error>;

    /// Whether a peer is listened to. What only a member, or nobody but another, may say is refused.
    fn may_say(&self, replica: &Replica, link: Link, body: &Body) -> Result<bool, Error>;

    /// Refuses a message that says more than its sender, the peer of this link, may say.
    ///
    /// Whatever a message has is stamped by a writer of whom it has something new. So most is checked
    /// by looking at the table.
    fn may_tell(&self, replica: &Replica, link: Link, message: &Message) -> Result<(), Error>;

    /// A peer with limited rights asks for what it lacks, and so tells what it holds: of its own writers
    /// there may be something that is missing here.
    fn catch_up(&mut self, now: Millis, replica: &Replica, link: Link, theirs: &VersionVector);

    /// Notes what a peer with limited rights has seen, if all that it made before is here. What it holds
    /// of others and can't hand over does not matter: nothing that builds on that was taken of it. Of a
    /// reader nothing is taken at all.
    fn held_by_limited(
        &self,
        replica: &mut Replica,
        link: Link,
        writer: &WriterId,
        vector: &VersionVector,
    );
}

/// Whom writers count for, so that nobody takes all room for writers.
pub(super) trait WriterShares {
    /// Refuses so many more writers of a link's peer, if a share of its is used up.
    ///
    /// # Errors
    /// [`Error::ShareFull`].
    fn room_in_share(&self, link: Link, more: usize) -> Result<(), Error>;

    /// A writer is known here by a link.
    fn count_writer(&mut self, replica: &Replica, link: Link, writer: WriterId);

    /// A message of a link's peer was merged, which told of these writers that were new.
    fn count_writers(&mut self, replica: &Replica, link: Option<Link>, new: &[WriterId]);

    /// A chunk came of a transfer of a link's peer, which brings writers that are new.
    ///
    /// # Errors
    /// [`Error::ShareFull`] if there is no room for all of them.
    fn stage_writers(
        &mut self,
        replica: &Replica,
        link: Link,
        message: (&Message, bool),
    ) -> Result<(), Error>;

    /// The writers that were new in all chunks of a transfer that is merged now.
    fn take_staged(&mut self, link: Link) -> Vec<WriterId>;

    /// The writers of a message that would count for a link's peer.
    fn new_of(&self, replica: &Replica, link: Option<Link>, message: &Message) -> Vec<WriterId>;

    /// Looks now and then which writers were forgotten.
    fn sweep_shares(&mut self, now: Millis, replica: &Replica);
}
