//! Silent guests: guests that a member sponsors and from which it receives nothing.

use crate::optional::Optional;
use crate::replica::Replica;
use crate::sort::sort;
use crate::sync::{Millis, SyncMachine};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Time in milliseconds for which an absent guest that has written nothing is waited for, or an absent copy of a
/// member's data. It applies while a restarted member or a rejoining replica waits for that. A copy has its link in
/// turns with its original, so it would delay each restart.
pub(super) const EMPTY_LEASE_MS: Millis = 5_000;

impl SyncMachine {
    /// Fences sponsored guests that were silent or made no progress for the guest timeout. A guest that has
    /// written nothing loses little by it.
    pub(super) fn give_up_silent(&mut self, now: Millis, replica: &mut Replica) {
        let lease = Millis::from(self.config.guest_timeout_ms);
        if lease == 0 || !replica.members().is_member() {
            return;
        }
        let linked = self
            .open_sessions()
            .filter_map(|peer| self.writer_of(peer.link));
        let mut linked: Vec<WriterId> = linked.collect();
        sort(&mut linked);
        let is_linked = |writer: &WriterId| linked.binary_search(writer).is_ok();
        let behind = |(writer, far, level): (WriterId, u64, bool)| {
            let is_behind = !level || !is_linked(&writer);
            is_behind.then_some((writer, far))
        };
        let mut behind: Vec<(WriterId, u64)> = replica
            .membership
            .levels(&replica.state)
            .filter_map(behind)
            .collect();
        sort(&mut behind);
        // Both ascend by writer.
        let before = self.guests.update(|it| core::mem::take(&mut it.silent));
        let mut before = before.into_iter().flatten().peekable();
        let silent = behind.into_iter().map(|(writer, far)| {
            while before.next_if(|it| it.0 < writer).is_some() {}
            let since = before.next_if(|it| it.0 == writer);
            let since = since.filter(|it| it.2 == far).map_or(now, |it| it.1);
            (writer, since, far)
        });
        let silent: Vec<(WriterId, Millis, u64)> = silent.collect();
        self.guests.update(|it| it.silent = silent);
        let hurried = replica.membership.delays_members(&replica.state);
        let least = if hurried {
            lease.min(EMPTY_LEASE_MS)
        } else {
            lease
        };
        let copies = &self.guests.copies;
        let is_brief =
            |writer: &WriterId| replica.state.held(writer) == 0 || copies.contains(writer);
        let lease = |writer: &WriterId| match hurried && !is_linked(writer) && is_brief(writer) {
            true => least,
            false => lease,
        };
        let silent = self.guests.silent.iter();
        // Most are within any lease, and are not looked up.
        let late = silent.filter(|it| it.1 + least <= now && it.1 + lease(&it.0) <= now);
        let late: Vec<WriterId> = late.map(|it| it.0).collect();
        for writer in late {
            // One that fails is tried again.
            let _ = replica.members_mut().fence(&writer);
        }
    }
}
