//! Explores small configurations in full: `explore [PART-OF-A-NAME]`.
//!
//! Prints a table in Markdown, and exits with status 1 and the way to it when an answer is wrong.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use tallymesh_tests::explore::{Report, explore, full};

fn main() -> ExitCode {
    let part = std::env::args().nth(1).unwrap_or_default();
    let mut configs = full();
    configs.retain(|config| config.name.contains(&part));
    if configs.is_empty() {
        eprintln!("no configuration is named like {part}");
        return ExitCode::from(2);
    }
    // A panic of the core is reported as a failure, with the way to it.
    std::panic::set_hook(Box::new(|_| ()));
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let (failed, cut_short) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = || {
        while let Some(config) = configs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            match explore(config) {
                Ok(report) => {
                    cut_short.fetch_or(!report.complete, Ordering::Relaxed);
                    println!("{report}");
                }
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    eprintln!("{failure}");
                }
            }
        }
    };
    println!("{}", Report::HEAD);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    println!("\n{} s", start.elapsed().as_secs());
    if cut_short.into_inner() {
        println!("Not all of it was explored: the rows marked INCOMPLETE met their bound.");
    }
    match failed.into_inner() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
