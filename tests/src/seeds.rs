//! Runs many seeds on all cores. Environment variables choose them.

use crate::open_faults;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// After this many failures no more seeds are run.
const FAILURES_MAX: usize = 20;

/// The seed to replay with a trace, from `TALLYMESH_SEED`.
pub fn chosen() -> Option<u64> {
    number("TALLYMESH_SEED")
}

/// Number of seeds to run: `TALLYMESH_SEEDS`. Without it, the default, times `TALLYMESH_TIMES` if that is
/// set.
pub fn count(default: u64) -> u64 {
    let times = || number("TALLYMESH_TIMES").unwrap_or(1);
    number("TALLYMESH_SEEDS").unwrap_or_else(|| times() * default)
}

/// Number of seeds for each of `tests` tests that are one scenario with different settings. If `TALLYMESH_SHARED`
/// is set, they share the number in `TALLYMESH_SEEDS`. Without it, each plays all of them.
pub fn share(default: u64, tests: usize) -> u64 {
    match number("TALLYMESH_SHARED") {
        Some(_) => count(default).div_ceil(tests as u64),
        None => count(default),
    }
}

/// The number in an environment variable, if it is set.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs each seed below `seeds`, and panics with the failures. It reports all of them, so that they can be
/// listed, up to a limit.
pub fn each(seeds: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let failed = |failures: &Vec<String>| failures.len() >= FAILURES_MAX;
            if seed >= seeds || failed(&failures.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            if let Err(failure) = run(seed) {
                let failures = failures.lock();
                failures
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner();
    let failures = failures.unwrap_or_else(PoisonError::into_inner);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Plays this many seeds of a scenario as [`play`] does, or those that the environment selects. Some of them may
/// find [open faults](open_faults).
pub fn play_with_open_faults<F: Default + Debug + Send>(
    scenario: &str,
    default: u64,
    run: impl Fn(u64, bool) -> Result<F, String> + Sync,
    add: fn(&mut F, &F),
) -> Option<(u64, F)> {
    play_share_with_open_faults(scenario, count(default), run, add)
}

/// The same, with exactly this many seeds, such as a [`share`] of them.
pub fn play_share_with_open_faults<F: Default + Debug + Send>(
    scenario: &str,
    count: u64,
    run: impl Fn(u64, bool) -> Result<F, String> + Sync,
    add: fn(&mut F, &F),
) -> Option<(u64, F)> {
    let run = |seed, traced| match traced {
        true => run(seed, traced),
        false => Ok(open_faults::judge(scenario, seed, run(seed, traced))?.unwrap_or_default()),
    };
    play_count(count, run, add)
}

/// Plays this many seeds, or those that the environment selects. Returns their number and the sum of their
/// metrics. If the environment selects a single seed, it is played with a trace, and the result is `None`.
pub fn play<F: Default + Debug + Send>(
    default: u64,
    run: impl Fn(u64, bool) -> Result<F, String> + Sync,
    add: fn(&mut F, &F),
) -> Option<(u64, F)> {
    play_count(count(default), run, add)
}

fn play_count<F: Default + Debug + Send>(
    count: u64,
    run: impl Fn(u64, bool) -> Result<F, String> + Sync,
    add: fn(&mut F, &F),
) -> Option<(u64, F)> {
    if let Some(seed) = chosen() {
        let metrics = run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{metrics:#?}");
        return None;
    }
    let total = Mutex::new(F::default());
    each(count, |seed| {
        let metrics = run(seed, false)?;
        add(
            &mut total.lock().unwrap_or_else(PoisonError::into_inner),
            &metrics,
        );
        Ok(())
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{count} seeds: {total:#?}");
    Some((count, total))
}

/// Plays this many seeds of a plan. In most of them `happened` must be true: one in four of the default seeds
/// may be idle, and one in ten of those beyond. If the environment selects a single seed, it is played with a
/// trace.
pub fn play_all<F: Debug>(
    default: u64,
    run: impl Fn(u64, bool) -> Result<F, String> + Sync,
    happened: impl Fn(&F) -> bool + Sync,
) {
    if let Some(seed) = chosen() {
        let metrics = run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{metrics:#?}");
        return;
    }
    let (count, idle) = (count(default), AtomicU64::new(0));
    let idle_max = default / 4 + count.saturating_sub(default) / 10;
    each(count, |seed| {
        let metrics = run(seed, false)?;
        match happened(&metrics) || idle.fetch_add(1, Ordering::Relaxed) < idle_max {
            true => Ok(()),
            false => Err(format!("seed {seed}: too little happened: {metrics:?}")),
        }
    });
}
