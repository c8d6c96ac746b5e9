//! The wall clock, by which counters expire, and those of linked nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For tests: the path of a file with a number, the milliseconds by which the clock is ahead. A
/// test that runs a node as a separate process can step its clock, without a change to the
/// machine's clock.
pub const TEST_CLOCK: &str = "TALLYMESH_TEST_CLOCK";

/// The shortest time between two reads of that file.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// A wall clock. The real one may jump both ways, and so may a test's.
///
/// It also has how far the clocks of linked nodes are ahead. All clones share that.
#[derive(Clone)]
pub struct WallClock {
    now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Milliseconds, by the public key of each node's owner.
    ahead: Arc<Mutex<BTreeMap<[u8; 32], i64>>>,
}

impl WallClock {
    /// A clock that asks `now` for the milliseconds since 1970.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> WallClock {
        WallClock {
            now: Arc::new(now),
            ahead: Arc::default(),
        }
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        (self.now)()
    }

    /// Records how many milliseconds the clock of a linked node is ahead of this one.
    pub fn note_peer(&self, owner: [u8; 32], ahead_ms: i64) {
        self.peers().insert(owner, ahead_ms);
    }

    /// Forgets the clock of a node that is no longer linked.
    pub fn forget_peer(&self, owner: &[u8; 32]) {
        self.peers().remove(owner);
    }

    /// How many milliseconds the median of some clocks is ahead of this one. `counts` accepts the owners of
    /// linked nodes. This clock counts, too, if `own` is set. Of two clocks in the middle, it is the one that is
    /// behind, because then a counter lives longer. Without any clock it is 0.
    pub fn median_ahead(&self, own: bool, counts: impl Fn(&[u8; 32]) -> bool) -> i64 {
        let peers = self.peers();
        let counted = peers.iter().filter(|(owner, _)| counts(owner));
        let mut ahead: Vec<i64> = counted.map(|(_, ahead)| *ahead).collect();
        ahead.extend(own.then_some(0));
        ahead.sort_unstable();
        let middle = ahead.len().saturating_sub(1) / 2;
        ahead.get(middle).copied().unwrap_or(0)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], i64>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This clock, shifted by the number of milliseconds in a file, which may change at any time.
    /// Without a number in the file the clock is not shifted.
    fn off_by(self, file: PathBuf) -> WallClock {
        let looked: Mutex<Option<(Instant, i64)>> = Mutex::default();
        WallClock::new(move || {
            let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
            let known = looked.filter(|(at, _)| at.elapsed() < LOOKED_AT_EACH);
            let offset = known.map_or_else(
                || {
                    let text = fs::read_to_string(&file).unwrap_or_default();
                    text.trim().parse().unwrap_or(0)
                },
                |(_, offset)| offset,
            );
            if known.is_none() {
                *looked = Some((Instant::now(), offset));
            }
            self.now().saturating_add_signed(offset)
        })
    }
}

impl Default for WallClock {
    /// The system's clock; a test may step it, see [`TEST_CLOCK`]. Before 1970 it gives 0.
    fn default() -> WallClock {
        let clock = WallClock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
        });
        match std::env::var_os(TEST_CLOCK) {
            Some(file) => clock.off_by(file.into()),
            None => clock,
        }
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallClock")
            .field("now", &self.now())
            .finish()
    }
}

/// Reads a duration, such as `90s` or `1day 12h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|problem| format!("{problem}; write a duration such as 90s, 15m, 24h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_steps_the_clock_both_ways_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let clock = || WallClock::new(|| 1_000).off_by(file.clone());
        assert_eq!(clock().now(), 1_000, "no file");
        for (text, now) in [
            ("250\n", 1_250),
            ("-400", 600),
            ("-5000", 0),
            ("soon", 1_000),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(clock().now(), now, "{text:?}");
        }
    }

    #[test]
    fn the_median_is_that_of_the_linked_clocks_that_count() {
        let clock = WallClock::new(|| 1_000);
        let all = |_: &[u8; 32]| true;
        assert_eq!(
            (
                clock.median_ahead(true, all),
                clock.median_ahead(false, all)
            ),
            (0, 0)
        );
        let other = clock.clone();
        other.note_peer([1; 32], 7_000);
        // Of two clocks, the one that is behind counts.
        assert_eq!(
            (
                clock.median_ahead(true, all),
                clock.median_ahead(false, all)
            ),
            (0, 7_000)
        );
        other.note_peer([2; 32], 9_000);
        assert_eq!(clock.median_ahead(true, all), 7_000);
        assert_eq!(clock.median_ahead(true, |owner| owner[0] == 2), 0);
        other.note_peer([1; 32], -3_000);
        other.note_peer([2; 32], -5_000);
        assert_eq!(clock.median_ahead(true, all), -3_000);
        other.forget_peer(&[1; 32]);
        assert_eq!(clock.median_ahead(true, all), -5_000);
    }

    #[test]
    fn a_running_clock_sees_that_the_file_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("offset");
        let clock = WallClock::new(|| 1_000).off_by(file.clone());
        assert_eq!(clock.now(), 1_000);
        fs::write(&file, "7").unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while clock.now() != 1_007 {
            assert!(Instant::now() < deadline, "it never looked again");
            std::thread::yield_now();
        }
    }
}
