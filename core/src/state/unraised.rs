//! The null object of `raised.rs`, for a program that is never a member: it looks at all writers.

use super::State;
use super::changes::StateMark;
use super::keys::KeyIndex;
use alloc::vec::Vec;

impl<I: KeyIndex> State<I> {
    pub(crate) fn note_raised(&mut self, _: u32) {}

    pub(crate) fn all_raised(&mut self) {}

    pub(crate) fn raised_since(&self, _: &StateMark) -> Option<Vec<u32>> {
        None
    }

    /// The digest of the version vector.
    pub(crate) fn digest(&self) -> [u8; 16] {
        self.vector().digest()
    }

    pub(crate) fn digest_kept(&mut self) -> [u8; 16] {
        self.digest()
    }
}
