//! A fixed share of the seeds of processes that write under one id. `TALLYMESH_SEED=n` runs one of
//! them, `TALLYMESH_SEEDS=n` so many.

use std::sync::Mutex;
use tallymesh_tests::clones::{Figures, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 3_000;

#[test]
fn processes_under_one_id_converge_and_are_reported() {
    if let Some(seed) = seeds::chosen() {
        let figures = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{figures:#?}");
        return;
    }
    let seeds = seeds::count(SEEDS);
    let total = Mutex::new(Figures::default());
    seeds::each(seeds, |seed| {
        let figures = run(seed)?;
        total.lock().unwrap().add(&figures);
        Ok(())
    });
    let total = total.into_inner().unwrap();
    println!("{seeds} seeds: {total:#?}");
    if seeds >= SEEDS {
        let happened = [
            total.copies,
            total.returns,
            total.reuses,
            total.forks,
            total.renewals,
            total.faults,
        ];
        assert!(happened.iter().all(|count| *count > 100), "{total:?}");
    }
}
