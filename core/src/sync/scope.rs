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

/// The limits of a peer that has some.
pub(super) type Limits = <SyncMachine as ScopeChecks>::Limits;

/// The bounds on what peers of limited rights may send, and on what counts.
pub(super) trait ScopeChecks {
    /// The limits of a peer that has any.
    type Limits;

    /// The capabilities that say which records this replica accepts from a peer with these limits.
    fn takes_of(limits: Option<&Self::Limits>) -> u64;

    /// Whether the peer is held to limited rights.
    fn is_held_to(&self, link: Link) -> bool;

    /// Whether a pull from the peer can bring anything.
    fn may_be_asked(&self, link: Link) -> bool;

    /// Whether the peer's writer may be admitted. A reader's writer may not, because it makes nothing to wait
    /// for.
    fn may_be_taken_in(&self, link: Link) -> bool;

    /// Handles a peer's proof that a writer belongs to its owner.
    fn check_proof(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), Error>;

    /// Whether a frame from a peer is handled. Returns an error for a frame that only a member may send, or
    /// that only another peer may send.
    fn may_say(&self, replica: &Replica, link: Link, body: &Body) -> Result<bool, Error>;

    /// Rejects a message with more than the peer of this link may send.
    ///
    /// Each part of a message is stamped by a writer of which the message has something new. So most checks
    /// look only at the message's table of writers.
    fn may_tell(&self, replica: &Replica, link: Link, message: &Message) -> Result<(), Error>;

    /// Handles what a peer with limited rights has, as its pull shows. Pulls from this peer if it has records
    /// of its own writers that are missing here.
    fn catch_up(&mut self, now: Millis, replica: &Replica, link: Link, theirs: &VersionVector);

    /// Records what a peer with limited rights has received, if all earlier records of its own writers are
    /// here. The peer may have records of others that it can't send. They do not matter, because this replica
    /// accepted nothing from the peer that builds on them. It accepts nothing at all from a reader.
    fn held_by_limited(
        &self,
        replica: &mut Replica,
        link: Link,
        writer: &WriterId,
        vector: &VersionVector,
    );
}

/// The count of writers by peer, so that no peer uses up all room for writers.
pub(super) trait WriterShares {
    /// Rejects `more` further writers of a link's peer if a share of the peer is used up.
    ///
    /// # Errors
    /// [`ScopeError::ShareFull`](crate::ScopeError::ShareFull).
    fn room_in_share(&self, link: Link, more: usize) -> Result<(), Error>;

    /// Counts a writer that arrived by a link.
    fn count_writer(&mut self, replica: &Replica, link: Link, writer: WriterId);

    /// Counts the new writers of a merged message, for the peer of its link.
    fn count_writers(&mut self, replica: &Replica, link: Option<Link>, new: &[WriterId]);

    /// Stages the new writers of a chunk, which is part of a transfer from a link's peer.
    ///
    /// # Errors
    /// [`ScopeError::ShareFull`](crate::ScopeError::ShareFull) if there is no room for all of them.
    fn stage_writers(
        &mut self,
        replica: &Replica,
        link: Link,
        message: (&Message, bool),
    ) -> Result<(), Error>;

    /// Takes the new writers of all chunks of a transfer that is merged now.
    fn take_staged(&mut self, link: Link) -> Vec<WriterId>;

    /// The writers of a message that would count for a link's peer.
    fn new_of(&self, replica: &Replica, link: Option<Link>, message: &Message) -> Vec<WriterId>;

    /// Finds out at intervals which writers were forgotten.
    fn sweep_shares(&mut self, now: Millis, replica: &Replica);
}
