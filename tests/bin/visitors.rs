//! Lets tabs come, count and go: `visitors [COUNT]`, a million if none is given.
//!
//! Prints progress, what is left of them, and the heap bytes that were live before and after.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tallymesh_tests::visitors::visit;

/// Counts the bytes that are live.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

fn main() -> ExitCode {
    let count = std::env::args().nth(1);
    let Ok(count) = count.map_or(Ok(1_000_000), |text| text.parse::<u64>()) else {
        eprintln!("usage: visitors [COUNT]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let (printed, first) = (Cell::new(0), Cell::new(None));
    let outcome = visit(count, 1, &|came| {
        let live = LIVE.load(Ordering::Relaxed);
        if first.get().is_none() {
            first.set(Some(live));
        }
        let seconds = start.elapsed().as_secs();
        if seconds >= printed.get() + 5 {
            printed.set(seconds);
            println!("{came}/{count} tabs, {seconds} s, {live} heap bytes live");
        }
        if came == count {
            let first = first.get().unwrap_or(0);
            println!("heap bytes live: {first} after the first crowd, {live} after the last");
        }
    });
    let seconds = start.elapsed().as_secs();
    match outcome {
        Ok(outcome) => {
            println!("{outcome}; {seconds} s");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
