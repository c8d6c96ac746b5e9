//! Spaces with members over the sync machine. `TALLYMESH_SEED=n` replays one seed,
//! `TALLYMESH_SEEDS=n` runs so many.

use std::sync::Mutex;
use tallymesh_tests::mesh::{Figures, run, run_keyed, run_limited, run_tabs};
use tallymesh_tests::seeds;

const SEEDS: u64 = 80;
/// Seeds by which faults were found.
const FOUND: [u64; 15] = [
    162, 739, 861, 929, 1304, 1622, 2585, 2721, 3568, 4386, 6152, 7110, 11916, 14650, 16476,
];

/// Plays so many seeds: what came of all together.
fn play(count: u64, run: fn(u64) -> Result<Figures, String>) -> Figures {
    let total = Mutex::new(Figures::default());
    seeds::each(count, |seed| {
        let figures = run(seed)?;
        total.lock().unwrap().add(&figures);
        Ok(())
    });
    let total = total.into_inner().unwrap();
    println!("{total:?}");
    total
}

/// Seeds by which faults of keyed operations were found.
const FOUND_KEYED: [u64; 8] = [231, 451, 471, 1277, 1400, 2591, 2862, 12233];

#[test]
fn members_take_keyed_operations_and_each_counts_once() {
    if let Some(seed) = seeds::chosen() {
        println!(
            "{:?}",
            run_keyed(seed).unwrap_or_else(|failure| panic!("{failure}"))
        );
        return;
    }
    for seed in FOUND_KEYED {
        run_keyed(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let count = seeds::count(SEEDS);
    let total = play(count, run_keyed);
    let happened = [
        total.keyed,
        total.retries,
        total.doubled,
        total.lacking,
        total.restarts,
        total.restored,
    ];
    // Few, or nothing is shown.
    assert!(total.lost <= total.doubled / 20, "{total:?}");
    let happened = happened.iter().all(|times| *times > SEEDS / 20);
    assert!(happened || count < SEEDS, "{total:?}");
}

#[test]
fn guests_come_and_go_and_each_add_counts_once() {
    if let Some(seed) = seeds::chosen() {
        println!(
            "{:?}",
            run(seed).unwrap_or_else(|failure| panic!("{failure}"))
        );
        return;
    }
    for seed in FOUND {
        run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let count = seeds::count(SEEDS);
    let total = play(count, run);
    let happened = total.returns > 0 && total.guests > 0 && total.restored > 0;
    assert!(happened || count < SEEDS, "{total:?}");
}

#[test]
fn guests_with_limited_rights_come_and_go_and_each_add_counts_once() {
    if let Some(seed) = seeds::chosen() {
        println!(
            "{:?}",
            run_limited(seed).unwrap_or_else(|failure| panic!("{failure}"))
        );
        return;
    }
    let count = seeds::count(SEEDS);
    let total = play(count, run_limited);
    let happened =
        total.returns > 0 && total.restarts > 0 && total.limited.iter().all(|it| *it > 0);
    assert!(happened || count < SEEDS, "{total:?}");
}

#[test]
fn starts_take_over_what_tabs_had_stored_and_each_add_counts_once() {
    if let Some(seed) = seeds::chosen() {
        println!(
            "{:?}",
            run_tabs(seed).unwrap_or_else(|failure| panic!("{failure}"))
        );
        return;
    }
    let count = seeds::count(SEEDS);
    let total = play(count, run_tabs);
    let happened = total.taken_over > SEEDS / 2 && total.returns > 0 && total.restarts > 0;
    assert!(happened || count < SEEDS, "{total:?}");
}
