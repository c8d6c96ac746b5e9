//! Log lines that others cause, at a bounded rate.
//!
//! Each kind of line has a token bucket. A line that finds no token is left out and counted. The
//! next line of its kind reports how many were left out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most lines of one kind at once.
const BURST: u32 = 32;

/// The time until one more line may be written: 12 a minute. Lower lets strangers fill the log;
/// higher hides events.
const REFILL: Duration = Duration::from_secs(5);

/// All lines that were left out since the start.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// How many lines were left out since the process started.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// The lines of one kind.
#[derive(Debug)]
pub struct LogPace(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// The time of the last token; `None` before the first line.
    filled: Option<Instant>,
    left_out: u64,
}

impl LogPace {
    /// A full bucket.
    #[allow(clippy::new_without_default)] // Statics need one that is `const`.
    pub const fn new() -> LogPace {
        LogPace(Mutex::new(Bucket {
            tokens: BURST,
            filled: None,
            left_out: 0,
        }))
    }

    /// Whether a line may be written. If so, returns how many of its kind were left out before it.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = *bucket.filled.get_or_insert(now);
        let due = now.saturating_duration_since(filled).as_millis() / REFILL.as_millis();
        let due = u32::try_from(due).unwrap_or(u32::MAX).min(BURST);
        if due > 0 {
            bucket.tokens = bucket.tokens.saturating_add(due).min(BURST);
            bucket.filled = Some(match bucket.tokens {
                BURST => now,
                _ => filled + REFILL * due,
            });
        }
        match bucket.tokens.checked_sub(1) {
            Some(left) => {
                bucket.tokens = left;
                Some(std::mem::take(&mut bucket.left_out))
            }
            None => {
                bucket.left_out += 1;
                LEFT_OUT.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_lines_become_a_few_and_none_is_left_uncounted() {
        let pace = LogPace::new();
        let start = Instant::now();
        let (mut written, mut left_out) = (0, 0);
        // Forty a second for a minute and a half.
        for line in 0..3_600_u32 {
            if let Some(before) = pace.admit(start + Duration::from_millis(25) * line) {
                (written, left_out) = (written + 1, left_out + before);
            }
        }
        assert_eq!(written, u64::from(BURST) + 17);
        let last = pace.admit(start + Duration::from_secs(3600));
        left_out += last.expect("there is room again");
        assert_eq!(written + left_out, 3_600);
        // After an hour the bucket is full, and holds no more than that.
        let later = start + Duration::from_secs(3600);
        let more = (0..100).filter(|_| pace.admit(later).is_some()).count();
        assert_eq!(more, BURST as usize - 1);
    }
}
