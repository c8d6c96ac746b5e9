//! Digests of peers that wait to be compared with the digest of this replica.
//!
//! The digest of a space covers all of its writers, and each write changes it. Where there are many writers,
//! the machine gathers the digests of several peers and compares them at once. So it computes its own digest
//! at intervals, however often peers send theirs.

use super::{Body, Digests, Link, Millis, SyncMachine};
use crate::replica::Replica;
use alloc::collections::BTreeMap;

/// With at most so many writers, to compute a digest takes less time than to put that off.
const AT_ONCE_WRITERS_MAX: usize = 1_024;
/// For how long digests are gathered, in milliseconds. Less costs a node with many links and writers more
/// time. More lets it learn later which changes it lacks.
const GATHER_MS: Millis = 25;

/// Digests of peers that were not compared yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Compares {
    /// By link, with whether it came in a digest frame. Others come in a hello.
    told: BTreeMap<Link, (Digests, bool)>,
    due: Option<Millis>,
}

impl Compares {
    /// Puts off the comparison with a peer's digests if it would take long now. Returns whether it did.
    pub(super) fn put_off(
        &mut self,
        now: Millis,
        replica: &Replica,
        link: Link,
        digests: Digests,
        later: bool,
    ) -> bool {
        if replica.state.is_digest_near(AT_ONCE_WRITERS_MAX) {
            self.told.remove(&link); // It is older.
            return false;
        }
        self.told.insert(link, (digests, later));
        self.due.get_or_insert(now + GATHER_MS);
        true
    }

    /// Drops a peer's digests after a frame that shows more, or that shows another state of the peer.
    pub(super) fn outdate(&mut self, link: Link, body: &Body) {
        let outdates = matches!(
            body,
            Body::Pull(_)
                | Body::Delta(_)
                | Body::Contents { .. }
                | Body::Writer(_)
                | Body::Return { .. }
                | Body::Ended { .. }
        );
        if outdates {
            self.told.remove(&link);
        }
    }

    pub(super) fn gone(&mut self, link: Link) {
        self.told.remove(&link);
    }

    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }
}

impl SyncMachine {
    /// Compares the digests that were put off, if it is time.
    pub(super) fn compare_all(&mut self, now: Millis, replica: &mut Replica) {
        if self.compares.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        for (link, (digests, later)) in core::mem::take(&mut self.compares.told) {
            match later {
                true => self.digest_came(now, replica, link, &digests),
                false => self.compare(now, replica, link, &digests),
            }
        }
    }
}

#[cfg(test)]
mod tests;
