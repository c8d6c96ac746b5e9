//! The rate of frames on a link over HTTP, if its client has a role below member.
//!
//! A client that sends faster waits, because the node reads nothing more from it. Without that, one
//! reader could keep the driver of a space busy with frames.

use std::time::{Duration, Instant};
use tallymesh_node_ground::model::PeerScope;
use tallymesh_node_ground::rate::{Pace, Rate};
use tokio::time::sleep;

/// Frames per second. A program pushes at most 200 a second, and proves at most 100 writers.
const FRAMES_PER_SECOND: u64 = 1_000;
/// Frames that are allowed at once.
const FRAMES_BURST: u64 = 10_000;

/// The frames of one link.
pub(super) struct LinkPace(Option<Pace<()>>);

impl LinkPace {
    /// Makes the pace of a link. `limits` is the client's peer scope; a member's link has no pace.
    pub(super) fn new(limits: Option<&PeerScope>) -> LinkPace {
        let rate = limits.and_then(|_| Rate::new(FRAMES_PER_SECOND, FRAMES_BURST));
        LinkPace(rate.map(Pace::new))
    }

    /// Waits until one more frame is allowed.
    pub(super) async fn one(&mut self) {
        while let Some(wait) = self.try_one(Instant::now()) {
            sleep(wait).await;
        }
    }

    /// Counts one more frame. Returns the wait if it is too early.
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
    use tallymesh_core::Role;
    use tallymesh_node_ground::identity::OwnerKey;

    #[test]
    fn a_client_below_the_role_member_waits_after_its_burst() {
        let reader = PeerScope {
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
