//! Local operations beyond a plain add.

use super::Replica;
use crate::error::Error;
use crate::keys::Handle;
use alloc::vec::Vec;

/// One operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds, also 0 or a negative number. An absent counter begins at 0.
    Add(i64),
    /// Cancels what is seen of the counter and leaves it at 0.
    Reset,
    /// Cancels what is seen of the counter and leaves it absent.
    Delete,
    /// Cancels what is seen of the counter and leaves this value.
    Set(i64),
    /// Lets the counter expire at this time, in milliseconds since 1970.
    Expire(u64),
    /// Takes the counter's expiry away.
    Persist,
}

impl Replica {
    /// See the notes.
    pub fn set_time(&mut self, _unix_ms: u64) {
        todo!()
    }
    /// See the notes.
    pub fn apply(&mut self, _key: &str, _op: Op) -> Result<bool, Error> {
        todo!()
    }
    /// See the notes.
    pub fn transact(&mut self, _ops: &[(&str, Op)]) -> Result<Vec<bool>, Error> {
        todo!()
    }
    /// See the notes.
    pub fn materialize_expiry(&mut self, _handle: Handle) -> Result<bool, Error> {
        todo!()
    }
    /// See the notes.
    pub fn expiry_at(&self, _handle: Handle) -> Option<u64> {
        todo!()
    }
}
