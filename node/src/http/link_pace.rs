//! How fast a link over HTTP may bring frames, if its client may do less than a member.
//!
//! A client that sends faster waits: nothing more is read from it. Without that, one reader could have
//! the driver of a space look at frames all the time.

use crate::gossip::{Pace, Rate};
use crate::handle::Limits;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Frames a second. A program pushes at most 200 a second, and proves at most 100 writers.
const FRAMES_PER_SECOND: u64 = 1_000;
/// Frames at once, before that holds.
const FRAMES_BURST: u64 = 10_000;

/// The frames of one link.
pub(super) struct LinkPace(Option<Pace<()>>);

impl LinkPace {
    /// `limits`: what the client is held to; a member's link has no pace.
    pub(super) fn new(limits: Option<&Limits>) -> LinkPace {
        let rate = limits.and_then(|_| Rate::new(FRAMES_PER_SECOND, FRAMES_BURST));
        LinkPace(rate.map(Pace::new))
    }

    /// Waits until one more frame may come.
    pub(super) async fn one(&mut self) {
        while let Some(wait) = self.try_one(Instant::now()) {
            sleep(wait).await;
        }
    }

    /// Counts one more frame; how long to wait if it comes too early.
    fn try_one(&mut self, now: Instant) -> Option<Duration> {
        let pace = self.0.as_mut()?;
        let wait = pace.wait(&(), 1, now);
        if wait.is_none() {
            pace.spend((), 1, now);
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::OwnerKey;
    use tallymesh_core::Role;

    #[test]
    fn a_client_below_the_role_member_waits_after_its_burst() {
        let reader = Limits {
            owner: OwnerKey([7; 32]),
            role: Role::Reader,
        };
        let now = Instant::now();
        let mut pace = LinkPace::new(Some(&reader));
        for _ in 0..FRAMES_BURST {
            assert_eq!(pace.try_one(now), None);
        }
        let wait = Duration::from_secs(1) / FRAMES_PER_SECOND as u32;
        assert_eq!(pace.try_one(now), Some(wait));
        assert_eq!(pace.try_one(now + wait), None);
        assert_eq!(pace.try_one(now + wait), Some(wait));
    }

    #[test]
    fn a_member_has_no_pace() {
        let now = Instant::now();
        let mut pace = LinkPace::new(None);
        assert!((0..2 * FRAMES_BURST).all(|_| pace.try_one(now).is_none()));
    }
}
