//! The time by which a guest judges expiries: its member's.
//!
//! A guest never ends a counter by its own clock, which may be wrong by hours. A member tells the time by which it
//! judges itself to each peer that asks for it in its hello: after that hello, and then together with digests. The
//! guest goes on from there by its monotonic time. This is Cristian's algorithm (1989) without its correction for
//! the way, so the guest is behind by as long as the frame took. A guest that is behind ends a counter late, which
//! is harmless: an end takes only what its issuer saw.
//!
//! A member's time holds for [`HOLDS_MS`]. After that the monotonic times may have drifted apart, and the member
//! may have been set right. A guest that knows no such time ends nothing:
//! [`set_time_unsure`](crate::MembersMut::set_time_unsure).

#[cfg(feature = "members")]
use super::Body;
use super::{Link, Millis, SyncMachine};
use crate::optional::Optional;
use crate::replica::Replica;
use crate::writer_id::WriterId;

/// How long a guest goes on by the time that a member told it last, in milliseconds.
pub(super) const HOLDS_MS: Millis = 600_000;

/// The shortest time between two such frames on a link, in milliseconds.
#[cfg(feature = "members")]
const AGAIN_MS: Millis = 30_000;

/// The time that a member told last.
#[derive(Clone, Copy)]
pub(super) struct TimeReport {
    writer: WriterId,
    unix_ms: u64,
    /// When it arrived.
    at: Millis,
}

impl SyncMachine {
    /// The time of the space in milliseconds since 1970, as a member told it. `None` if no member did in the last
    /// ten minutes, or if the space has no members. It needs [`takes_time`](super::SyncConfig::takes_time).
    pub fn member_time(&self, now: Millis, replica: &Replica) -> Option<u64> {
        let told = self.guests.time?;
        let since = now.saturating_sub(told.at);
        let holds = since < HOLDS_MS && replica.members().is_counted_member(&told.writer);
        holds.then_some(told.unix_ms.saturating_add(since))
    }

    /// Handles the time that a peer told. Whether the peer is a member is judged when the time is used, because the
    /// frame may come before the record that says so.
    pub(super) fn time_came(&mut self, now: Millis, link: Link, unix_ms: u64) {
        let Some(writer) = self.writer_of(link).filter(|_| self.config.takes_time) else {
            return;
        };
        let at = now;
        let told = TimeReport {
            writer,
            unix_ms,
            at,
        };
        self.guests.update(|it| it.time = Some(told));
    }

    /// Tells a link's peer the time of this member, if the peer takes it and was not told it just now. A program
    /// that never sets the time of its replica has none, and neither has a member that is unsure of it.
    #[cfg(feature = "members")]
    pub(super) fn tell_time(&mut self, now: Millis, replica: &Replica, link: Link) {
        let unix_ms = replica.state.time();
        if unix_ms == 0 || replica.is_time_unsure() || !replica.members().is_member() {
            return;
        }
        let Some(hello) = self.peer_mut(link).and_then(|it| it.hello.as_mut()) else {
            return;
        };
        if hello.time_due.is_some_and(|due| due <= now) {
            hello.time_due = Some(now + AGAIN_MS);
            self.send(replica, link, Body::Time(unix_ms));
        }
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;
