//! Silent guests: guests that a member sponsors and from which it receives nothing.
//!
//! A guest is waited for during the guest timeout, so that a page whose link breaks goes on under its writer. Pages that
//! come, count and vanish without a word would fill a space within that time. So a member waits so long for
//! [`ABSENT_MAX`] guests without a link, and for more of them only [`EMPTY_LEASE_MS`]. A guest that comes back after that
//! rejoins, and makes again what did not count.

use crate::optional::Optional;
use crate::replica::Replica;
use crate::sort::sort;
use crate::sync::{Millis, SyncMachine};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Time in milliseconds for which an absent guest that has written nothing is waited for, or an absent copy of a
/// member's data. It applies while a member's start or end waits for that, and to copies also while any writer's end does. A
/// copy has its link in turns with its original. So it would delay each restart, and the end of its own earlier writers,
/// whose adds count only after that.
pub(super) const EMPTY_LEASE_MS: Millis = 5_000;

/// Guests without a link for which a member waits as long as it is told to. If there are more, the ones that went first
/// are given up sooner. Lower makes more pages rejoin whose links break for seconds. Higher leaves room to fewer others.
pub(super) const ABSENT_MAX: usize = 256;

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
        let absent = silent.iter().filter(|it| !is_linked(&it.0));
        let mut absent: Vec<(Millis, WriterId)> = absent.map(|it| (it.1, it.0)).collect();
        let crowd = crowd_of(&mut absent);
        let is_in_crowd = |writer: &WriterId| crowd.binary_search(writer).is_ok();
        self.guests.update(|it| it.silent = silent);
        let hurried = replica.membership.delays_members(&replica.state);
        let copies = &self.guests.brief;
        let ends = !copies.is_empty() && replica.membership.delays_ends(&replica.state);
        let least = match hurried || ends || !crowd.is_empty() {
            true => lease.min(EMPTY_LEASE_MS),
            false => lease,
        };
        let is_brief = |writer: &WriterId| match copies.contains(writer) {
            true => hurried || ends,
            false => hurried && replica.state.held(writer) == 0,
        };
        let is_soon =
            |writer: &WriterId| is_in_crowd(writer) || !is_linked(writer) && is_brief(writer);
        let lease = |writer: &WriterId| if is_soon(writer) { least } else { lease };
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

/// The absent guests beyond [`ABSENT_MAX`], those that went first, ascending by writer.
fn crowd_of(absent: &mut [(Millis, WriterId)]) -> Vec<WriterId> {
    let Some(beyond) = absent.len().checked_sub(ABSENT_MAX).filter(|it| *it > 0) else {
        return Vec::new();
    };
    sort(absent);
    let mut crowd: Vec<WriterId> = absent[..beyond].iter().map(|it| it.1).collect();
    sort(&mut crowd);
    crowd
}
