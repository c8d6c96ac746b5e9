//! The boundary around the work of one client: a panic inside ends that work and nothing else.
//!
//! It does not undo changes of the work. The caller has to know which changes may be half done
//! (`driver/contained.rs`, and ARCHITECTURE.md).

use crate::metrics::Metrics;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two log lines about panics. A client that finds a panic can cause it
/// again and again. All panics are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Work panicked.
#[derive(Debug)]
pub struct Panicked(String);

impl Panicked {
    /// The payload of the panic.
    pub fn of(thrown: &(dyn Any + Send)) -> Panicked {
        let text = thrown.downcast_ref::<&str>().copied();
        let text = text.or_else(|| thrown.downcast_ref::<String>().map(String::as_str));
        Panicked(text.unwrap_or("no text").to_owned())
    }

    /// Counts the panic, and logs it at a bounded rate. `part` names the kind of work: `redis`,
    /// `http`, `sync` or `request`.
    pub fn tell(&self, metrics: &Metrics, part: &'static str) {
        static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);
        metrics.panicked(part);
        let now = Instant::now();
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL) {
            *logged = Some(now);
            let problem = &self.0;
            tracing::error!(
                part,
                problem,
                "the work of one client panicked and was ended; report it"
            );
        }
    }
}

/// Runs some work. If it panics, only this work ends.
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    // The caller handles half-done work.
    catch_unwind(AssertUnwindSafe(work)).map_err(|thrown| Panicked::of(&*thrown))
}

#[cfg(test)]
pub(crate) mod tests {
    /// An argument whose command panics before it asks for a replica.
    pub(crate) const BEFORE: &str = "panic-before";
    /// A key whose add panics while it changes its replica.
    pub(crate) const WITHIN: &str = "panic-within";

    /// Panics where a test requires it.
    pub(crate) fn panic_if_told(arg: &[u8], word: &str) {
        assert!(arg != word.as_bytes(), "on purpose");
    }
}
