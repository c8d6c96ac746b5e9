//! Plays many random histories: `soak [--seeds=N] [--long=N] [--from=SEED] [--only=PART]`.
//!
//! `--seeds` is how many short ones of each part (of meshes, a tenth), `--long` how many long runs of
//! the simulator.
//! Prints progress, metrics, and for each run that failed how to replay it; exits with status 1 if
//! one did.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tallymesh_tests::{closed, meaning, mesh, open};

/// A part is given up after so many failures.
const FAILURES_MAX: usize = 20;
/// A mesh takes as long as so many other short histories.
const MESH_EVERY: u64 = 10;
/// Of so many seeds of the simulator one, the last, is long.
const LONG_EVERY: u64 = open::LONG_EVERY;

struct Arguments {
    seeds: u64,
    long: u64,
    from: u64,
    only: String,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        seeds: 100_000,
        long: 1_000,
        from: 0,
        only: String::new(),
    };
    for word in std::env::args().skip(1) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        let number = value.parse::<u64>().ok();
        match (name, number) {
            ("--seeds", Some(count)) => arguments.seeds = count,
            ("--long", Some(count)) => arguments.long = count,
            ("--from", Some(seed)) => arguments.from = seed,
            ("--only", _) => arguments.only = value.to_owned(),
            _ => return Err(word),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(wrong) => {
            eprintln!(
                "usage: soak [--seeds=N] [--long=N] [--from=SEED] [--only=PART], not {wrong}"
            );
            return ExitCode::from(2);
        }
    };
    // A panic is a failure of its run, and is reported with the seed.
    std::panic::set_hook(Box::new(|_| ()));
    let short = |seed| seed + seed / (LONG_EVERY - 1);
    let long = |seed| seed * LONG_EVERY + LONG_EVERY - 1;
    let all = [
        arguments.part(
            "meaning",
            "meaning",
            arguments.seeds,
            |seed| seed,
            &|seed| meaning::run(seed, false),
            meaning::Metrics::add,
        ),
        arguments.part(
            "closed",
            "closed",
            arguments.seeds,
            |seed| seed,
            &|seed| closed::run(seed, false),
            closed::Metrics::add,
        ),
        arguments.part(
            "mesh",
            "mesh",
            arguments.seeds / MESH_EVERY,
            |seed| seed,
            &|seed| mesh::run(seed, false),
            mesh::Metrics::add,
        ),
        arguments.part(
            "short",
            "convergence",
            arguments.seeds,
            short,
            &|seed| open::run(seed, false),
            open::Metrics::add,
        ),
        arguments.part(
            "long",
            "convergence",
            arguments.long,
            long,
            &|seed| open::run(seed, false),
            open::Metrics::add,
        ),
    ];
    match all.iter().all(|passed| *passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What came of a part so far.
struct Progress<F> {
    total: F,
    failures: usize,
    done: u64,
    printed: Instant,
}

impl Arguments {
    /// Plays `count` runs; tells whether all passed.
    fn part<F: Default + Debug + Send>(
        &self,
        name: &str,
        test: &str,
        count: u64,
        seed: impl Fn(u64) -> u64 + Sync,
        run: &(dyn Fn(u64) -> Result<F, String> + Sync),
        add: fn(&mut F, &F),
    ) -> bool {
        if !self.only.is_empty() && self.only != name {
            return true;
        }
        let start = Instant::now();
        let next = AtomicU64::new(self.from);
        let progress = Mutex::new(Progress {
            total: F::default(),
            failures: 0,
            done: 0,
            printed: start,
        });
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let failures = progress.lock().map_or(0, |progress| progress.failures);
                if number >= self.from + count || failures >= FAILURES_MAX {
                    return;
                }
                let seed = seed(number);
                let outcome = run(seed);
                let Ok(mut progress) = progress.lock() else {
                    return;
                };
                progress.done += 1;
                match outcome {
                    Ok(metrics) => add(&mut progress.total, &metrics),
                    Err(failure) => {
                        progress.failures += 1;
                        let failure = failure.lines().next().unwrap_or_default();
                        println!("FAILED {name}: {failure}");
                        println!(
                            "  replay: TALLYMESH_SEED={seed} cargo test --release \
                             -p tallymesh-tests --test {test}"
                        );
                    }
                }
                if progress.printed.elapsed() > Duration::from_secs(5) {
                    progress.printed = Instant::now();
                    let (done, failures) = (progress.done, progress.failures);
                    let seconds = start.elapsed().as_secs();
                    println!("{name}: {done}/{count} runs, {seconds} s, {failures} failed");
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(work);
            }
        });
        let Ok(progress) = progress.into_inner() else {
            println!("FAILED {name}: a worker failed outside a run");
            return false;
        };
        let Progress {
            total,
            failures,
            done,
            ..
        } = progress;
        let (seconds, from) = (start.elapsed().as_secs(), self.from);
        println!("= {name} | {done} from {from} | {failures} failed | {seconds} s | {total:?}");
        failures == 0
    }
}
