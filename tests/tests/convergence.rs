//! A fixed share of the simulator's seeds. `TALLYMESH_SEED=n` replays one of them with a trace,
//! `TALLYMESH_SEEDS=n` runs so many.

use std::sync::Mutex;
use tallymesh_tests::seeds;
use tallymesh_tests::sim::{Figures, run};

const SEEDS: u64 = 3_000;

#[test]
fn replicas_converge_and_never_show_a_wrong_number() {
    if let Some(seed) = seeds::chosen() {
        let figures = run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{figures:#?}");
        return;
    }
    let seeds = seeds::count(SEEDS);
    let total = Mutex::new(Figures::default());
    seeds::each(seeds, |seed| {
        let figures = run(seed, false)?;
        total.lock().unwrap().add(&figures);
        Ok(())
    });
    let total = total.into_inner().unwrap();
    println!("{seeds} seeds: {total:#?}");
    // The runs are worth something only if what they are about did happen.
    if seeds >= SEEDS {
        let happened = [
            total.chunks,
            total.drops,
            total.repeats,
            total.lost_ops,
            total.transactions,
            total.expiries,
            total.betrayals,
            total.stragglers,
        ];
        assert!(happened.iter().all(|count| *count > 100), "{total:?}");
    }
}
