//! In place of the rights of peers, in programs that are never members. No peer has limited rights.

use super::{ScopeChecks, WriterShares};
use crate::error::Error;
use crate::message::Message;
use crate::replica::Replica;
use crate::state::vector::VersionVector;
use crate::sync::{Body, Link, Millis, SyncMachine};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// There are none.
#[derive(Clone)]
pub(in crate::sync) enum Limits {}

impl ScopeChecks for SyncMachine {
    type Limits = Limits;

    #[inline(always)]
    fn takes_of(_: Option<&Limits>) -> u64 {
        0
    }

    #[inline(always)]
    fn is_held_to(&self, _: Link) -> bool {
        false
    }

    #[inline(always)]
    fn may_be_asked(&self, _: Link) -> bool {
        true
    }

    #[inline(always)]
    fn may_be_taken_in(&self, _: Link) -> bool {
        true
    }

    #[inline(always)]
    fn check_proof(
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
    fn may_say(&self, _: &Replica, _: Link, _: &Body) -> Result<bool, Error> {
        Ok(true)
    }

    #[inline(always)]
    fn may_tell(&self, _: &Replica, _: Link, _: &Message) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn catch_up(&mut self, _: Millis, _: &Replica, _: Link, _: &VersionVector) {}

    #[inline(always)]
    fn held_by_limited(&self, _: &mut Replica, _: Link, _: &WriterId, _: &VersionVector) {}
}

impl WriterShares for SyncMachine {
    #[inline(always)]
    fn room_in_share(&self, _: Link, _: usize) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn count_writer(&mut self, _: &Replica, _: Link, _: WriterId) {}

    #[inline(always)]
    fn count_writers(&mut self, _: &Replica, _: Option<Link>, _: &[WriterId]) {}

    #[inline(always)]
    fn stage_writers(&mut self, _: &Replica, _: Link, _: (&Message, bool)) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn take_staged(&mut self, _: Link) -> Vec<WriterId> {
        Vec::new()
    }

    #[inline(always)]
    fn new_of(&self, _: &Replica, _: Option<Link>, _: &Message) -> Vec<WriterId> {
        Vec::new()
    }

    #[inline(always)]
    fn sweep_shares(&mut self, _: Millis, _: &Replica) {}
}
