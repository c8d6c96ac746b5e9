//! Peers that are being made members by a ticket that they have shown.
//!
//! A ticket may have no effect when it is shown. This node may not take part yet after its start,
//! may not have received the holder's removal yet, or may reach no majority. So the attempt is
//! repeated while the holder is connected and no member.

use libp2p::PeerId;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tallymesh_node_ground::model::SpaceId;
use tokio::task::JoinHandle;

/// The wait between the beginnings of two attempts for one peer. It doubles up to its limit. A
/// lower value proposes more often while there is no majority. A higher one makes joining slower
/// once there is one.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The attempts, at most one at a time for each peer and space.
#[derive(Default)]
pub(super) struct Admissions(HashMap<(SpaceId, PeerId), Attempt>);

struct Attempt {
    task: JoinHandle<()>,
    /// When the next attempt may begin.
    next: Instant,
    wait: Duration,
}

impl Admissions {
    /// Begins an attempt by `start`, unless one is under way or the last one began too recently.
    /// With `anew`, something has changed since, so the attempt need not wait.
    pub(super) fn begin(
        &mut self,
        (space, peer): (SpaceId, PeerId),
        anew: bool,
        now: Instant,
        start: impl FnOnce() -> JoinHandle<()>,
    ) {
        let before = self.0.get(&(space, peer));
        let waits = |it: &Attempt| !it.task.is_finished() || now < it.next && !anew;
        if before.is_some_and(waits) {
            return;
        }
        let wait = before.map_or(WAIT_MIN, |it| (it.wait * 2).min(WAIT_MAX));
        let attempt = Attempt {
            task: start(),
            next: now + wait,
            wait,
        };
        self.0.insert((space, peer), attempt);
    }

    /// Forgets the attempts that have ended and are not to be repeated.
    pub(super) fn retain(&mut self, wanted: impl Fn(SpaceId, &PeerId) -> bool) {
        self.0
            .retain(|(space, peer), it| !it.task.is_finished() || wanted(*space, peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_attempt_at_a_time_is_made_and_the_next_waits_for_longer() {
        let (mut admissions, begun) = (Admissions::default(), Instant::now());
        let whom = (SpaceId(0), PeerId::random());
        let begins = |admissions: &mut Admissions, whom, anew, after: u64| {
            let mut is_begun = false;
            let now = begun + Duration::from_secs(after);
            admissions.begin(whom, anew, now, || {
                is_begun = true;
                tokio::spawn(std::future::pending())
            });
            is_begun
        };
        let end = async |admissions: &mut Admissions| {
            let attempt = admissions.0.get_mut(&whom).expect("it is under way");
            attempt.task.abort();
            let ended = std::mem::replace(&mut attempt.task, tokio::spawn(async {}));
            ended.await.expect_err("it was aborted");
            while !admissions.0[&whom].task.is_finished() {
                tokio::task::yield_now().await;
            }
        };
        assert!(begins(&mut admissions, whom, false, 0));
        assert!(!begins(&mut admissions, whom, true, 9), "it is under way");
        let other = (SpaceId(1), whom.1);
        assert!(begins(&mut admissions, other, false, 9));
        end(&mut admissions).await;
        assert!(!begins(&mut admissions, whom, false, 0));
        assert!(begins(&mut admissions, whom, false, 1));
        end(&mut admissions).await;
        assert!(!begins(&mut admissions, whom, false, 2), "twice as long");
        assert!(begins(&mut admissions, whom, true, 2), "something changed");
        admissions.retain(|_, _| false);
        assert_eq!(admissions.0.len(), 2, "both are under way");
        end(&mut admissions).await;
        admissions.retain(|_, _| false);
        assert_eq!(admissions.0.len(), 1);
    }
}
