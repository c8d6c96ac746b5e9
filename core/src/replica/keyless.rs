//! What a program that is never a member has instead of the memory of keyed operations.

use super::Replica;
use super::ops::Draft;
use crate::closed::Closed;
use crate::error::Error;
use crate::membership::admission::Forgotten;
use crate::membership::stability::Quorum;
use crate::once::Once;
use crate::state::delta::{KeyedOp, Message};
use crate::state::keys::Handle;
use crate::state::sheet::Sheet;
use crate::state::slot::Slot;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

pub(super) type KeyedOps = Closed<Vec<KeyedOp>>;

#[derive(Clone, Debug, Default)]
pub(super) struct KeyedMark {}

pub(super) struct NoKeyed;

impl KeyedMark {
    pub(super) fn low(&self, _: &Replica, _: u32) -> u64 {
        u64::MAX
    }

    pub(super) fn writers(&self) -> [u32; 0] {
        []
    }
}

#[derive(Clone, Debug)]
pub(super) struct KeyedWalk;

impl KeyedWalk {
    pub(super) fn new(_: &[u64], _: bool) -> KeyedWalk {
        KeyedWalk
    }

    pub(super) fn is_wanted(&self) -> bool {
        false
    }

    pub(super) fn step(&mut self, _: &Replica, _: &mut [u64], _: usize) -> (KeyedOps, bool) {
        (KeyedOps::default(), false)
    }
}

impl Replica {
    pub(super) fn keyed_mark(&self) -> KeyedMark {
        KeyedMark {}
    }

    pub(super) fn keyed_since(
        &self,
        _: &KeyedMark,
        _: &impl Sheet<u64>,
        _: usize,
    ) -> (KeyedOps, bool) {
        (KeyedOps::default(), true)
    }

    pub(super) fn take_keyed(&mut self, _: &Message, _: &Forgotten) {}

    pub(super) fn is_keyed_stable(&self, _: &Quorum, _: u32) -> bool {
        true
    }

    pub(super) fn has_keyed(&self) -> bool {
        false
    }

    pub(super) fn note_reborn(&mut self, _: &[Slot], _: &[Slot]) {}

    pub(super) fn note_unwatched(&mut self) {}

    pub(super) fn asks_for_keys(&self) -> bool {
        false
    }

    pub(super) fn ask_for_keys(&mut self, _: u64) {}

    pub(super) fn asked_for_keys(&self) -> u64 {
        0
    }

    pub(super) fn give_up_keys(&mut self) {}

    pub(super) fn waits_for_keyed(&self, _: &Quorum, _: u32) -> bool {
        false
    }

    pub(crate) fn withdraw(
        &mut self,
        _: &mut dyn FnMut(Handle, (WriterId, u64)),
    ) -> Result<bool, Error> {
        Ok(false)
    }

    pub(super) fn is_made(&self, _: &Once) -> bool {
        false
    }

    pub(super) fn remember_keyed(&mut self, _: u64, _: Once, _: &[Draft]) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn forget_keyed(&mut self, _: &[u32]) {}

    pub(super) fn drop_due(&mut self) {}

    pub(super) fn note_withdrawn(&mut self) {}

    pub(super) fn doubt_keyed(&mut self) {}

    pub(super) fn known_keyed(&self) -> [(WriterId, u64, NoKeyed); 0] {
        []
    }

    pub(super) fn claim_keyed(&mut self, _: WriterId, _: u64, _: NoKeyed) {}
}
