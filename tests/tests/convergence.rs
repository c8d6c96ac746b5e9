//! A fixed share of the simulator's seeds. `TALLYMESH_SEED=n` replays one of them with a trace,
//! `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::open::{Metrics, run};
use tallymesh_tests::seeds;

const SEEDS: u64 = 400;

#[test]
fn replicas_converge_and_never_show_a_wrong_number() {
    let Some((seeds, total)) = seeds::play(SEEDS, run, Metrics::add) else {
        return;
    };
    // The runs prove something only if each kind of event happened.
    if seeds >= SEEDS {
        let happened = [
            total.chunks,
            total.mesh.drops,
            total.mesh.repeats,
            total.lost_ops,
            total.transactions,
            total.expiries,
            total.mesh.old,
            total.mesh.stragglers,
        ];
        assert!(happened.iter().all(|count| *count > SEEDS / 8), "{total:?}");
    }
}
