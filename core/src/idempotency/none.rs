//! The null object of the log, for a program that is never a member: it remembers no keys.

use crate::error::Error;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::membership::admission::Forgotten;
use crate::membership::stability::Quorum;
use crate::message::{KeyedOp, Message};
use crate::once::Once;
use crate::optional::GuestPart;
use crate::sheet::Sheet;
use crate::state::keys::KeyId;
use crate::state::slot::Slot;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

pub(crate) type KeyedOps = GuestPart<Vec<KeyedOp>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedMark {}

impl KeyedMark {
    pub(crate) fn low(&self, _: &Membership, _: &State, _: u32) -> u64 {
        u64::MAX
    }

    pub(crate) fn writers(&self) -> [u32; 0] {
        []
    }
}

#[derive(Clone, Debug)]
pub(crate) struct KeyedScan;

impl KeyedScan {
    pub(crate) fn new(_: &[u64], _: bool) -> KeyedScan {
        KeyedScan
    }

    pub(crate) fn is_wanted(&self) -> bool {
        false
    }

    pub(crate) fn step(
        &mut self,
        _: (&IdempotencyLog, &State),
        _: &mut [u64],
        _: usize,
    ) -> (KeyedOps, bool) {
        (KeyedOps::default(), false)
    }
}

/// A log without keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdempotencyLog {}

/// The keyed operations of a writer: there are none.
pub(crate) enum Made {}

/// The keyed operations of each writer: there are none.
pub(crate) type Known = [(WriterId, u64, Made); 0];

impl IdempotencyLog {
    pub(crate) fn keyed_mark(&self, _: &Membership) -> KeyedMark {
        KeyedMark {}
    }

    pub(crate) fn keyed_since(
        &self,
        _: &State,
        _: &KeyedMark,
        _: &impl Sheet<u64>,
        _: usize,
    ) -> (KeyedOps, bool) {
        (KeyedOps::default(), true)
    }

    pub(crate) fn merge_keyed(
        &mut self,
        _: &mut State,
        _: &mut Membership,
        _: &Message,
        _: &Forgotten,
    ) {
    }

    pub(crate) fn is_keyed_stable(&self, _: &Membership, _: &Quorum, _: u32) -> bool {
        true
    }

    pub(crate) fn has_keyed(&self) -> bool {
        false
    }

    pub(crate) fn note_new_lifetimes(&mut self, _: &str, _: &[Slot], _: &[Slot]) {}

    pub(crate) fn note_unwatched(&mut self, _: &Membership) {}

    #[inline(always)]
    pub(crate) fn note_joined(&mut self, _: Vec<(u32, u64)>) {}

    pub(crate) fn asks_for_keys(&self, _: &State, _: &Membership) -> bool {
        false
    }

    pub(crate) fn ask_for_keys(&mut self, _: &State, _: &Membership, _: u64) {}

    pub(crate) fn asked_for_keys(&self) -> u64 {
        0
    }

    pub(crate) fn give_up_keys(&mut self, _: &State, _: &mut Membership) {}

    pub(crate) fn waits_for_keyed(&self, _: &Membership, _: &Quorum, _: u32) -> bool {
        false
    }

    pub(crate) fn withdraw(
        &mut self,
        _: &mut State,
        _: &mut Membership,
        _: &mut dyn FnMut(KeyId, (WriterId, u64)),
    ) -> Result<bool, Error> {
        Ok(false)
    }

    pub(crate) fn is_made(&self, _: &Once) -> bool {
        false
    }

    pub(crate) fn forget_keyed(&mut self, _: &mut Membership, _: &[u32]) {}

    pub(crate) fn drop_due(&mut self, _: &State) {}

    pub(crate) fn note_withdrawn(&mut self, _: &State) {}

    pub(crate) fn doubt_keyed(&mut self, _: &mut Membership) {}

    pub(crate) fn known_keyed(&self, _: &State, _: &Membership) -> Known {
        []
    }

    pub(crate) fn claim_keyed(
        &mut self,
        _: &State,
        _: &mut Membership,
        _: WriterId,
        _: u64,
        _: Made,
    ) {
    }
}
