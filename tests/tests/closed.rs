//! Closed spaces: a fixed share of the seeds. `TALLYMESH_SEED=n` replays one of them with a trace,
//! `TALLYMESH_SEEDS=n` runs so many. One that fails is told by as few of its steps as will do.

use std::sync::Mutex;
use tallymesh_tests::closed::{Figures, reduce, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 5_000;

#[test]
fn retirement_changes_no_value_and_leaves_no_trace() {
    if let Some(seed) = seeds::chosen() {
        match run(seed, false) {
            Ok(figures) => println!("{figures:#?}"),
            Err(failure) => {
                eprintln!("{failure}\nreduced:");
                panic!("{}", reduce(seed).unwrap_or_default());
            }
        }
        return;
    }
    let count = seeds::count(SEEDS);
    let total = Mutex::new(Figures::default());
    seeds::each(count, |seed| {
        let figures = run(seed, false)?;
        total.lock().unwrap().add(&figures);
        Ok(())
    });
    let total = total.into_inner().unwrap();
    println!("{count} seeds: {total:#?}");
    // The runs are worth something only if what they are about did happen: the rarest, a farewell,
    // in one run of ten.
    if count >= SEEDS {
        let happened = [
            total.farewells,
            total.fences,
            total.restarts,
            total.absorbed,
            total.collections,
            total.refusals,
        ];
        assert!(
            happened.iter().all(|times| *times > SEEDS / 10),
            "{total:?}"
        );
    }
}
