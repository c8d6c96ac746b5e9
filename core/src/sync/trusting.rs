//! The null object of the rights of peers, for programs that are never members: a page talks to its own node, or
//! to other pages of its user, and believes them. Nobody's rights are limited.

use super::{Body, Link, Millis, SyncMachine};
use crate::error::Error;
use crate::message::Message;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// There are none.
#[derive(Clone)]
pub(super) enum Limits {}

pub(super) fn takes_of(_: Option<&Limits>) -> u64 {
    0
}

impl SyncMachine {
    #[inline(always)]
    pub(super) fn is_held_to(&self, _: Link) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn may_be_asked(&self, _: Link) -> bool {
        true
    }

    #[inline(always)]
    pub(super) fn may_be_taken_in(&self, _: Link) -> bool {
        true
    }

    pub(super) fn check_proof(
        &mut self,
        _: Millis,
        _: &mut Replica,
        _: Link,
        _: WriterId,
        _: [u8; 16],
    ) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    pub(super) fn room_in_share(&self, _: Link, _: usize) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    pub(super) fn count_writer(&mut self, _: &Replica, _: Link, _: WriterId) {}

    #[inline(always)]
    pub(super) fn count_writers(&mut self, _: &Replica, _: Option<Link>, _: &[WriterId]) {}

    #[inline(always)]
    pub(super) fn new_of(&self, _: &Replica, _: Option<Link>, _: &Message) -> Vec<WriterId> {
        Vec::new()
    }

    #[inline(always)]
    pub(super) fn stage_writers(
        &mut self,
        _: &Replica,
        _: Link,
        _: (&Message, bool),
    ) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    pub(super) fn take_staged(&mut self, _: Link) -> Vec<WriterId> {
        Vec::new()
    }

    #[inline(always)]
    pub(super) fn sweep_shares(&mut self, _: Millis, _: &Replica) {}

    pub(super) fn may_say(&self, _: &Replica, _: Link, _: &Body) -> Result<bool, Error> {
        Ok(true)
    }

    pub(super) fn may_tell(&self, _: &Replica, _: Link, _: &Message) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn catch_up(&mut self, _: Millis, _: &Replica, _: Link, _: &VersionVector) {}

    pub(super) fn held_by_limited(
        &self,
        _: &mut Replica,
        _: Link,
        _: &WriterId,
        _: &VersionVector,
    ) {
    }
}
