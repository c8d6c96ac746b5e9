//! Those who are attached to a member, and are not heard of.

use crate::replica::Replica;
use crate::sync::{Millis, Sync};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// How long one that is away and has written nothing is waited for, in milliseconds, while a member that
/// started again waits for that, or one that has to come back.
pub(super) const EMPTY_LEASE_MS: Millis = 30_000;

impl Sync {
    /// Declares dead who is attached here, and was not heard or did not get on for a lease. One that has
    /// written nothing has little to come back with.
    pub(super) fn give_up_silent(&mut self, now: Millis, replica: &mut Replica) {
        let lease = Millis::from(self.config.lease_ms);
        if lease == 0 || !replica.is_member() {
            return;
        }
        let linked = self.greeted().filter_map(|peer| self.writer_of(peer.link));
        let linked: Vec<WriterId> = linked.collect();
        let behind = |writer: WriterId| {
            let (far, level) = replica.progress(&writer);
            (!level || !linked.contains(&writer)).then_some((writer, far))
        };
        let behind: Vec<(WriterId, u64)> = replica.attached().filter_map(behind).collect();
        let silent = &mut self.guests.silent;
        silent.retain(|it| behind.contains(&(it.0, it.2)));
        for (writer, far) in behind {
            if !silent.iter().any(|it| it.0 == writer) {
                silent.push((writer, now, far));
            }
        }
        let hurried = replica.holds_up_members();
        let lease = |writer: &WriterId| match replica.held(writer) {
            0 if hurried && !linked.contains(writer) => lease.min(EMPTY_LEASE_MS),
            _ => lease,
        };
        let late = silent.iter().filter(|it| it.1 + lease(&it.0) <= now);
        let late: Vec<WriterId> = late.map(|it| it.0).collect();
        for writer in late {
            // One that fails is tried again.
            let _ = replica.fence(&writer);
        }
    }
}
