//! Explores small spaces with members in full: `retirement [PART-OF-A-NAME]`.
//!
//! Prints a table in Markdown, what was refused on the way, and exits with status 1 and the way to it when an answer is wrong.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use tallymesh_tests::explore::Report;
use tallymesh_tests::retirement::{explore, full};

fn main() -> ExitCode {
    let part = std::env::args().nth(1).unwrap_or_default();
    let mut configs = full();
    configs.retain(|config| config.name().contains(&part));
    if configs.is_empty() {
        eprintln!("no configuration is named like {part}");
        return ExitCode::from(2);
    }
    // A panic of the core is reported as a failure, with the way to it.
    std::panic::set_hook(Box::new(|_| ()));
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let rest = Mutex::new(Vec::new());
    let work = || {
        while let Some(config) = configs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            match explore(config) {
                Ok((report, more)) => {
                    println!("{report}");
                    let seconds = start.elapsed().as_secs();
                    let Ok(mut rest) = rest.lock() else { return };
                    rest.push(format!("- {}: {seconds} s, {more}", config.name()));
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
    for line in rest.into_inner().unwrap_or_default() {
        println!("{line}");
    }
    match failed.into_inner() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
