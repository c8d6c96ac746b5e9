//! The wall clock, by which counters expire.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
}

impl Default for WallClock {
    /// The system's clock. Before 1970 it stands at 0.
    fn default() -> WallClock {
        WallClock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| {
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            })
        })
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallClock")
            .field("now", &self.now())
            .finish()
    }
}
