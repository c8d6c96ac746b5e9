//! Closed spaces: a fixed share of the seeds. `TALLYMESH_SEED=n` replays one of them with a trace,
//! `TALLYMESH_SEEDS=n` runs so many.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tallymesh_tests::closed::{Figures, run};

const SEEDS: u64 = 5_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn retirement_changes_no_value_and_leaves_no_trace() {
    if let Some(seed) = number("TALLYMESH_SEED") {
        let figures = run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{figures:#?}");
        return;
    }
    let seeds = number("TALLYMESH_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Figures::default());
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    match run(seed, false) {
                        Ok(figures) => total.lock().unwrap().add(&figures),
                        Err(failure) => panic!("{failure}"),
                    }
                }
            });
        }
    });
    println!("{seeds} seeds: {:#?}", total.into_inner().unwrap());
}
