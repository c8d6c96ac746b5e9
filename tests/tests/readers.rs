//! Readers beside members that push seldom. `TALLYMESH_SEED=n` replays one seed, `TALLYMESH_SEEDS=n` runs this
//! many.

use tallymesh_tests::readers::{Metrics, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 120;
/// Fresh writers in so many seeds; without idle guests there are half as many.
const FRESH_MIN: u64 = 500;

#[test]
fn readers_show_what_members_show_and_never_more() {
    let Some((count, total)) = seeds::play(SEEDS, run, Metrics::add) else {
        return;
    };
    let happened = total.left > SEEDS && total.resets > SEEDS && total.mesh.restarts > SEEDS;
    let happened = happened && total.fresh > FRESH_MIN;
    assert!(happened || count < SEEDS, "{total:?}");
}
