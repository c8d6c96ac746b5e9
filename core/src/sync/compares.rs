//! Digests of peers that are to be compared with what is held here.
//!
//! The digest of a space is of all of its writers, and each write makes another one. So where there are
//! many writers, what several peers told is compared at once: however often they say something, the digest
//! is worked out at intervals.

use super::{Body, Digests, Link, Millis, Sync};
use crate::replica::Replica;
use alloc::collections::BTreeMap;

/// With so many writers at most, a digest takes less than to put it off.
const AT_ONCE_WRITERS_MAX: usize = 1_024;
/// For how long digests are gathered, in milliseconds. Less costs more of a node with many links and
/// writers, more lets it learn later what it lacks.
const GATHER_MS: Millis = 25;

/// Vectors of peers that were not compared yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Compares {
    /// By link, with whether it came as a digest, and not with a hello.
    told: BTreeMap<Link, (Digests, bool)>,
    due: Option<Millis>,
}

impl Compares {
    /// Puts off to compare what a peer told, if that takes long now; tells whether it did.
    pub(super) fn put_off(
        &mut self,
        now: Millis,
        replica: &Replica,
        link: Link,
        digests: Digests,
        later: bool,
    ) -> bool {
        if replica.is_digest_near(AT_ONCE_WRITERS_MAX) {
            self.told.remove(&link); // It is older.
            return false;
        }
        self.told.insert(link, (digests, later));
        self.due.get_or_insert(now + GATHER_MS);
        true
    }

    /// Forgets what a peer told before it said this, which tells more, or that it goes by another state.
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

impl Sync {
    /// Compares what peers told, if it is time.
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
