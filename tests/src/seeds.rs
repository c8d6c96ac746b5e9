//! Many seeds on all cores, and the choice of them by environment variables.

use std::sync::atomic::{AtomicU64, Ordering};

/// The seed that is to be replayed with a trace: `TALLYMESH_SEED`.
pub fn chosen() -> Option<u64> {
    number("TALLYMESH_SEED")
}

/// How many seeds are to be run: `TALLYMESH_SEEDS`, or so many.
pub fn count(default: u64) -> u64 {
    number("TALLYMESH_SEEDS").unwrap_or(default)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs each seed below `seeds`, and panics with what `run` says of the first that fails.
pub fn each(seeds: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            if let Err(failure) = run(seed) {
                panic!("{failure}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
}
