//! Peer scope: the bounds of what a peer of limited rights does on a link, and of its room for writers.
//!
//! The machine asks two traits. A program that may be a member has [rights](super::rights) and
//! [shares](super::shares). A page is at its own node, or at other pages of its user, and takes their word.
//! It limits nobody: each check does by default what is right for it.

use super::{Body, Link, Millis, SyncMachine};
use crate::error::Error;
use crate::message::Message;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The scope of a peer of limited rights.
pub(super) type Scope = <SyncMachine as ScopeChecks>::Scope;

/// The bounds on what peers of limited rights may send, and on what counts.
pub(super) trait ScopeChecks {
    /// The scope of a peer of limited rights.
    type Scope;

    /// The capabilities that say which records this replica accepts from a peer of this scope.
    #[inline(always)]
    fn capabilities_of(_scope: Option<&Self::Scope>) -> u64 {
        0
    }

    /// Whether the peer is held to limited rights.
    #[inline(always)]
    fn is_held_to(&self, _link: Link) -> bool {
        false
    }

    /// Whether a pull from the peer can bring anything.
    #[inline(always)]
    fn may_be_asked(&self, _link: Link) -> bool {
        true
    }

    /// Whether the peer's writer may be admitted. A reader's writer may not, because it makes nothing to wait
    /// for.
    #[inline(always)]
    fn may_be_taken_in(&self, _link: Link) -> bool {
        true
    }

    /// Handles a peer's proof that a writer belongs to its owner.
    #[inline(always)]
    fn check_proof(
        &mut self,
        _now: Millis,
        _replica: &mut Replica,
        _link: Link,
        _writer: WriterId,
        _nonce: [u8; 16],
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a frame from a peer is handled. Returns an error for a frame that only a member may send, or
    /// that only another peer may send.
    #[inline(always)]
    fn may_say(&self, _replica: &Replica, _link: Link, _body: &Body) -> Result<bool, Error> {
        Ok(true)
    }

    /// Rejects a message with more than the peer of this link may send.
    ///
    /// Each part of a message is stamped by a writer of which the message has something new. So most checks
    /// look only at the message's table of writers.
    #[inline(always)]
    fn may_tell(&self, _replica: &Replica, _link: Link, _message: &Message) -> Result<(), Error> {
        Ok(())
    }

    /// Handles what a peer with limited rights has, as its pull shows. Pulls from this peer if it has records
    /// of its own writers that are missing here.
    #[inline(always)]
    fn catch_up(&mut self, _now: Millis, _replica: &Replica, _link: Link, _theirs: &VersionVector) {
    }

    /// Records what a peer with limited rights has received, if all earlier records of its own writers are
    /// here. The peer may have records of others that it can't send. They do not matter, because this replica
    /// accepted nothing from the peer that builds on them. It accepts nothing at all from a reader.
    #[inline(always)]
    fn note_received_by_limited(
        &self,
        _replica: &mut Replica,
        _link: Link,
        _writer: &WriterId,
        _vector: &VersionVector,
    ) {
    }
}

/// The count of writers by peer, so that no peer uses up all room for writers.
pub(super) trait WriterShares {
    /// Rejects `more` further writers of a link's peer if a share of the peer is used up.
    ///
    /// # Errors
    /// [`ScopeError::ShareFull`](crate::ScopeError::ShareFull).
    #[inline(always)]
    fn room_in_share(&self, _link: Link, _more: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Counts a writer that arrived by a link.
    #[inline(always)]
    fn count_writer(&mut self, _replica: &Replica, _link: Link, _writer: WriterId) {}

    /// Counts the new writers of a merged message, for the peer of its link.
    #[inline(always)]
    fn count_writers(&mut self, _replica: &Replica, _link: Option<Link>, _new: &[WriterId]) {}

    /// Stages the new writers of a chunk, which is part of a transfer from a link's peer.
    ///
    /// # Errors
    /// [`ScopeError::ShareFull`](crate::ScopeError::ShareFull) if there is no room for all of them.
    #[inline(always)]
    fn stage_writers(
        &mut self,
        _replica: &Replica,
        _link: Link,
        _message: (&Message, bool),
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Takes the new writers of all chunks of a transfer that is merged now.
    #[inline(always)]
    fn take_staged(&mut self, _link: Link) -> Vec<WriterId> {
        Vec::new()
    }

    /// The writers of a message that would count for a link's peer. A message may also name writers that it builds on, and
    /// that were forgotten here. They take no room.
    #[inline(always)]
    fn new_of(&self, _replica: &Replica, _link: Option<Link>, _message: &Message) -> Vec<WriterId> {
        Vec::new()
    }

    /// Finds out at intervals which writers were forgotten.
    #[inline(always)]
    fn sweep_shares(&mut self, _now: Millis, _replica: &Replica) {}
}

/// The scope of a peer in a program that limits none: there is no such scope.
#[cfg(not(feature = "members"))]
#[derive(Clone)]
pub(super) enum NoScope {}

#[cfg(not(feature = "members"))]
impl ScopeChecks for SyncMachine {
    type Scope = NoScope;
}

#[cfg(not(feature = "members"))]
impl WriterShares for SyncMachine {}
