//! Closed spaces: a fixed share of the seeds. `TALLYMESH_SEED=n` replays one of them with a trace,
//! `TALLYMESH_SEEDS=n` runs this many. A seed that fails is reported with as few of its steps as possible.

use tallymesh_tests::closed::{Metrics, reduce, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 1_500;

/// Seeds that failed once.
const FOUND: [u64; 6] = [37105, 45961, 56813, 110558, 135529, 273593];

#[test]
fn retirement_changes_no_value_and_leaves_no_trace() {
    // A seed that fails is reported with a few of its steps.
    let run = |seed, trace| {
        run(seed, false).map_err(|failure| match trace {
            true => format!("{failure}\nreduced:\n{}", reduce(seed).unwrap_or_default()),
            false => failure,
        })
    };
    if seeds::chosen().is_none() {
        for seed in FOUND {
            run(seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    let Some((seeds, total)) = seeds::play(SEEDS, run, Metrics::add) else {
        return;
    };
    // The runs prove something only if each kind of event happened. The rarest one is a leave, in one run of
    // ten.
    if seeds >= SEEDS {
        let happened = [
            total.leaves,
            total.fences,
            total.restarts,
            total.follows,
            total.absorbed,
            total.collections,
            total.decided,
            total.refusals,
            total.retries,
            total.withdrawn,
        ];
        assert!(
            happened.iter().all(|times| *times > SEEDS / 10),
            "{total:?}"
        );
    }
}
