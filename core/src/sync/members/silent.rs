//! Silent guests: guests that a member sponsors and from which it receives nothing.
//!
//! | guest | how long a member waits for it |
//! |---|---|
//! | a page whose link ended | [`BRIEF_MS`] |
//! | a process with a member's key that stands aside, or is about to announce itself, without a link | [`BRIEF_MS`], while the end of any writer waits for that |
//! | any guest without a link | [`BRIEF_MS`], while a member's start or end waits for that |
//! | guests without a link beyond [`ABSENT_MAX`], those that went first | [`BRIEF_MS`] |
//! | any other one | the guest timeout |
//!
//! Others wait for what a guest acknowledges: a replica that has to begin again, for instance, until it knows what of its
//! earlier writer counts. A page that comes back later goes on from what it has under a fresh writer, if members have all
//! that it made, and otherwise rejoins. A node has more to lose by that than a page. A member that was started again does
//! not know which guests are pages.

use crate::optional::Optional;
use crate::replica::Replica;
use crate::sort::sort;
#[cfg(feature = "members")]
use crate::sync::Link;
use crate::sync::{Millis, SyncMachine};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Time in milliseconds for which a member waits for a guest that loses little, or that many wait for. A shorter time
/// gives up pages whose links break for a moment. A longer one delays others.
///
/// No member confirms a guest's transactions before each member's start is certain.
///
/// A copy of a data folder has its link in turns with its original. So it would delay each restart, and the end of its own
/// earlier writers, whose adds count only after that.
pub(super) const BRIEF_MS: Millis = 5_000;

/// Guests without a link for which a member waits for the guest timeout. If there are more, the ones that went first
/// are given up sooner. Lower makes more pages rejoin whose links break for seconds. Higher leaves room to fewer others.
pub(super) const ABSENT_MAX: usize = 256;

/// A page whose link ended.
#[derive(Clone)]
pub(super) struct Gone {
    writer: WriterId,
    since: Millis,
    /// Its clock then. If this member receives a later one, the page has a link elsewhere.
    clock: u64,
}

impl SyncMachine {
    /// Notes that a page's link ends.
    #[cfg(feature = "members")]
    pub(in crate::sync) fn note_gone(&mut self, now: Millis, replica: &Replica, link: Link) {
        let peer = self.peer(link).filter(|peer| !peer.broadcast);
        let hello = peer.and_then(|peer| peer.hello.as_ref());
        let Some(writer) = hello.filter(|it| it.follows).map(|it| it.writer) else {
            return;
        };
        if replica.members().is_member() && replica.members().is_sponsored(&writer) {
            let (since, clock) = (now, replica.state.held(&writer));
            let gone = Gone {
                writer,
                since,
                clock,
            };
            self.guests.update(|it| it.gone.push(gone));
        }
    }

    /// The pages whose links ended [`BRIEF_MS`] ago and that have none since.
    fn gone_for_long(
        &mut self,
        now: Millis,
        replica: &Replica,
        is_linked: impl Fn(&WriterId) -> bool,
    ) -> Vec<WriterId> {
        let mut late = Vec::new();
        self.guests.update(|it| {
            it.gone.retain(|it| {
                let is_gone = !is_linked(&it.writer) && replica.state.held(&it.writer) == it.clock;
                let is_late = it.since + BRIEF_MS <= now;
                if is_gone && is_late {
                    late.push(it.writer);
                }
                is_gone && !is_late
            });
        });
        late
    }

    /// Fences sponsored guests that were silent or made no progress for [so long](self). A guest that has written nothing
    /// loses little by it.
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
        let is_soon = |writer: &WriterId| {
            let is_brief = hurried || ends && copies.contains(writer);
            is_in_crowd(writer) || !is_linked(writer) && is_brief
        };
        let brief = lease.min(BRIEF_MS);
        let silent = self.guests.silent.iter();
        // Most are within any lease, and are not looked up.
        let late =
            silent.filter(|it| it.1 + brief <= now && (it.1 + lease <= now || is_soon(&it.0)));
        let mut late: Vec<WriterId> = late.map(|it| it.0).collect();
        late.extend(self.gone_for_long(now, replica, is_linked));
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
