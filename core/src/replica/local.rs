//! The private state of a replica as text, for tests that must know whether two replicas are the same.

use super::{QuotaHooks, Replica};
use alloc::format;
use alloc::string::String;

impl Replica {
    /// All that decides what a replica of a closed space does and that its
    /// [`canonical_bytes`](Replica::canonical_bytes) leave out, as text. Two replicas of one writer
    /// with the same bytes and the same text behave the same, but for faults, marks and handles.
    pub fn local_text(&self) -> String {
        let (own, collected) = (self.writer(), self.state.collected);
        let members = self.membership.local_text(&self.state);
        let keyed = self.idempotency.keyed_text(&self.state, &self.membership);
        let keyed = keyed + &self.quota.local_text(&self.state);
        format!("{own} {collected} {members} {keyed}")
    }
}
