//! A fixed share of the seeds of processes that write under one id. `TALLYMESH_SEED=n` runs one of them,
//! `TALLYMESH_SEEDS=n` this many.

use tallymesh_tests::clones::{Metrics, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 700;

#[test]
fn processes_under_one_id_converge_and_are_reported() {
    let Some((seeds, total)) = seeds::play(SEEDS, run, Metrics::add) else {
        return;
    };
    if seeds >= SEEDS {
        let happened = [
            total.copies,
            total.returns,
            total.reuses,
            total.forks,
            total.mesh.renewals,
            total.faults,
            total.mesh.restarts,
            total.mesh.old,
        ];
        assert!(happened.iter().all(|count| *count > 100), "{total:?}");
    }
}
