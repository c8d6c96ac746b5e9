//! Snapshots in parts: what a store takes back from them, and from the log after them, is what it
//! takes back from a snapshot of one piece. `TALLYMESH_SEED=n` replays a seed with a trace,
//! `TALLYMESH_SEEDS=n` runs so many.

use tallymesh_tests::store::Figures;
use tallymesh_tests::{clones, closed, seeds};

const SEEDS: u64 = 300;

/// Whether what the runs are about did happen.
fn happened(seeds: u64, total: Figures) {
    let Figures {
        snapshots,
        changed,
        parts,
        voids,
        restored,
        records,
    } = total;
    if seeds >= SEEDS {
        let often = [snapshots, changed, parts / 2, restored, records, 20 * voids];
        assert!(often.iter().all(|times| *times > seeds), "{total:?}");
    }
}

#[test]
fn a_space_with_members_is_stored_in_parts() {
    if let Some((seeds, total)) = seeds::play(SEEDS, closed::run_stores, Figures::add) {
        happened(seeds, total);
    }
}

#[test]
fn an_open_space_with_forked_writers_is_stored_in_parts() {
    let run = |seed, _| clones::run_stores(seed);
    if let Some((seeds, total)) = seeds::play(SEEDS, run, Figures::add) {
        happened(seeds, total);
    }
}
