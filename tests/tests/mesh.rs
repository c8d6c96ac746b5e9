//! Spaces with members over the sync machine. `TALLYMESH_SEED=n` replays one seed,
//! `TALLYMESH_SEEDS=n` runs so many.

use std::sync::Mutex;
use tallymesh_tests::mesh::{Figures, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 200;
/// Seeds by which faults were found.
const FOUND: [u64; 14] = [
    162, 739, 861, 929, 1304, 1622, 2721, 3568, 4386, 6152, 7110, 11916, 14650, 16476,
];

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
    let total = Mutex::new(Figures::default());
    let count = seeds::count(SEEDS);
    seeds::each(count, |seed| {
        let figures = run(seed)?;
        total.lock().unwrap().add(&figures);
        Ok(())
    });
    let total = total.into_inner().unwrap();
    println!("{total:?}");
    let happened = total.returns > 0 && total.guests > 0 && total.restored > 0;
    assert!(happened || count < SEEDS, "{total:?}");
}
