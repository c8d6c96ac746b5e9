//! The wall clock, by which counters expire.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For tests: the path of a file with a number, the milliseconds by which the clock is ahead. A
/// test that runs a node as a separate process can step its clock, without a change to the
/// machine's clock.
pub const TEST_CLOCK: &str = "TALLYMESH_TEST_CLOCK";

/// The shortest time between two reads of that file.
const LOOKED_AT_EACH: Duration = Duration::from_millis(100);

/// A wall clock. The real one may jump both ways, and so may a test's.
#[derive(Clone)]
pub struct WallClock {
    now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl WallClock {
    /// A clock that asks `now` for the milliseconds since 1970.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> WallClock {
        WallClock { now: Arc::new(now) }
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        (self.now)()
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
