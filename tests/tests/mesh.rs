//! Spaces with members over the sync machine. `TALLYMESH_SEED=n` replays one seed, `TALLYMESH_SEEDS=n` runs
//! this many in each test. With `TALLYMESH_SHARED=1` the tests share them.

use tallymesh_tests::mesh::{Metrics, RUNS};
use tallymesh_tests::seeds;

const SEEDS: u64 = 80;

/// Plays this kind of runs, and checks with `happened` that enough happened in all of them together.
fn play(name: &str, happened: impl Fn(&Metrics) -> bool) {
    let run = RUNS.iter().find(|it| it.0 == name).unwrap().1;
    let share = seeds::share(SEEDS, RUNS.len());
    let played = seeds::play_share_with_open_faults(name, share, run, Metrics::add);
    let Some((count, total)) = played else {
        return;
    };
    assert!(happened(&total) || count < SEEDS, "{total:?}");
}

#[test]
fn members_take_keyed_operations_and_each_counts_once() {
    play("keyed", |total| {
        let happened = [
            total.keyed,
            total.retries,
            total.doubled,
            total.key_gaps,
            total.mesh.restarts,
            total.mesh.old,
        ];
        // Only a few keys may be lost. Otherwise the test proves nothing.
        total.lost <= total.doubled / 10 && happened.iter().all(|times| *times > SEEDS / 20)
    });
}

#[test]
fn guests_come_and_go_and_each_add_counts_once() {
    play("guests", |total| {
        total.mesh.renewals > 0 && total.guests > 0 && total.mesh.old > 0
    });
}

#[test]
fn guests_with_limited_rights_come_and_go_and_each_add_counts_once() {
    play("limited", |total| {
        let limited = total.limited.iter().all(|it| *it > 0);
        total.mesh.renewals > 0 && total.mesh.restarts > 0 && limited
    });
}

#[test]
fn starts_take_over_what_tabs_had_stored_and_each_add_counts_once() {
    play("tabs", |total| {
        total.taken_over > SEEDS / 2 && total.mesh.renewals > 0 && total.mesh.restarts > 0
    });
}
