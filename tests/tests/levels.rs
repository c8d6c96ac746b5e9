//! Levels of consistency over the sync machine. `TALLYMESH_SEED=n` replays one seed with a trace,
//! `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::levels::{Metrics, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 300;

#[test]
fn a_quorum_read_sees_each_quorum_write_and_a_session_never_goes_back() {
    let Some((count, total)) = seeds::play_with_open_faults("levels", SEEDS, run, Metrics::add)
    else {
        return;
    };
    let happened = total.reached > 10 * count
        && total.read > 10 * count
        && total.sessions > 10 * count
        && total.moved > count / 10
        && total.configurations > count
        && total.mesh.restarts > count / 2
        && total.mesh.in_place > count / 2;
    assert!(happened || count < SEEDS, "{total:?}");
}
