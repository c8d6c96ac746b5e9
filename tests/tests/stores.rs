//! Snapshots in parts. A restore from the parts and the log after them must give the same as a restore from a
//! snapshot in one piece. `TALLYMESH_SEED=n` replays a seed with a trace, `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::store::Metrics;
use tallymesh_tests::{clones, closed, seeds};

const SEEDS: u64 = 300;
/// Fewer seeds, because each has more replicas.
const OPEN_SEEDS: u64 = 150;

/// Checks that each kind of event happened at least as often as usual.
fn happened(usual: u64, seeds: u64, total: Metrics) {
    let Metrics {
        snapshots,
        changed,
        parts,
        voids,
        restored,
        records,
    } = total;
    if seeds >= usual {
        let often = [snapshots, changed, parts / 2, restored, records, 20 * voids];
        assert!(often.iter().all(|times| *times > seeds), "{total:?}");
    }
}

#[test]
fn a_space_with_members_is_stored_in_parts() {
    if let Some((seeds, total)) = seeds::play(SEEDS, closed::run_stores, Metrics::add) {
        happened(SEEDS, seeds, total);
    }
}

#[test]
fn an_open_space_with_forked_writers_is_stored_in_parts() {
    if let Some((seeds, total)) = seeds::play(OPEN_SEEDS, clones::run_stores, Metrics::add) {
        happened(OPEN_SEEDS, seeds, total);
    }
}
