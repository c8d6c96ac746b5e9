//! Runs many seeds of the simulator: `soak [--seeds N] [--from SEED]`.
//!
//! Prints progress and figures, and exits with status 1 and the seed when a run fails.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tallymesh_tests::sim::{Figures, run};

struct Progress {
    total: Figures,
    failures: Vec<String>,
    done: u64,
    printed: Instant,
}

fn main() -> ExitCode {
    let (mut seeds, mut from) = (100_000, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|text| text.parse::<u64>().ok());
        match (name.as_str(), value) {
            ("--seeds", Some(count)) => seeds = count,
            ("--from", Some(seed)) => from = seed,
            _ => {
                eprintln!("usage: soak [--seeds N] [--from SEED], not {name}");
                return ExitCode::from(2);
            }
        }
    }
    let start = Instant::now();
    let next = AtomicU64::new(from);
    let progress = Mutex::new(Progress {
        total: Figures::default(),
        failures: Vec::new(),
        done: 0,
        printed: start,
    });
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let failed = progress.lock().is_ok_and(|p| !p.failures.is_empty());
            if seed >= from + seeds || failed {
                return;
            }
            let outcome = run(seed, false);
            let Ok(mut progress) = progress.lock() else {
                return;
            };
            progress.done += 1;
            match outcome {
                Ok(figures) => progress.total.add(&figures),
                Err(failure) => progress.failures.push(failure),
            }
            if progress.printed.elapsed() > Duration::from_secs(5) {
                progress.printed = Instant::now();
                let (done, total) = (progress.done, &progress.total);
                let seconds = start.elapsed().as_secs();
                println!("{done}/{seeds} seeds, {seconds} s, {total:?}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let Ok(progress) = progress.into_inner() else {
        eprintln!("a worker failed outside a run");
        return ExitCode::FAILURE;
    };
    let (done, seconds) = (progress.done, start.elapsed().as_secs());
    println!("{done} seeds in {seconds} s: {:?}", progress.total);
    for failure in &progress.failures {
        eprintln!("{failure}");
    }
    match progress.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
