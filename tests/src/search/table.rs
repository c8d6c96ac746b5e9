//! Explores one configuration after the other, and prints the results.

use super::Failure;
use crate::explore::Report;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Two threads only, because each search takes much memory.
const THREADS: usize = 2;

/// Explores all of these, two at a time. Prints a table in Markdown, and below it further results of each.
/// For a wrong answer, prints the steps that lead to it.
pub fn table<C: Sync>(
    configs: &[C],
    explore: impl Fn(&C) -> Result<(Report, String), Failure> + Sync,
) -> ExitCode {
    if configs.is_empty() {
        eprintln!("no configuration is named so");
        return ExitCode::from(2);
    }
    // A panic of the core is reported as a failure, with the steps that lead to it.
    std::panic::set_hook(Box::new(|_| ()));
    let next = AtomicUsize::new(0);
    let (failed, cut_short) = (AtomicBool::new(false), AtomicBool::new(false));
    let rest = Mutex::new(Vec::new());
    let work = || {
        while let Some(config) = configs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match explore(config) {
                Ok((report, more)) => {
                    cut_short.fetch_or(!report.complete, Ordering::Relaxed);
                    println!("{report}");
                    if !more.is_empty() {
                        let line = format!("- {}: {more}", report.name);
                        rest.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(line);
                    }
                }
                Err(failure) => {
                    failed.store(true, Ordering::Relaxed);
                    eprintln!("{failure}");
                }
            }
        }
    };
    println!("{}", Report::HEAD);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    for line in rest.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{line}");
    }
    if cut_short.into_inner() {
        println!("\nNot all of it was explored: the rows marked INCOMPLETE met their bound.");
    }
    match failed.into_inner() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
