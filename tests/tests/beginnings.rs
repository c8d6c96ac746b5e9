//! How a space gets its members. `TALLYMESH_SEED=n` replays one seed with a trace, `TALLYMESH_SEEDS=n` runs
//! this many.

use tallymesh_tests::beginnings::{Metrics, run, run_patient};
use tallymesh_tests::seeds;

/// Enough seeds to include a fault that was found once. A replica that had counted before stayed apart for
/// ever, because members with less of its history had ended it.
const SEEDS: u64 = 3_000;

#[test]
fn members_are_decided_soon_whoever_has_counted_before() {
    let played = seeds::play_with_open_faults("beginnings", SEEDS, run, Metrics::add);
    let Some((count, total)) = played else {
        return;
    };
    let mut all = total.took;
    all.sort_unstable();
    let most = all[all.len() * 9 / 10];
    assert!(
        most < 1_000 || count < SEEDS,
        "nine in ten took up to {most} ms"
    );
    let happened = [total.mesh.restarts, total.mesh.cuts, total.mesh.old];
    assert!(happened.iter().all(|it| *it > 0) || count < SEEDS);
}

/// Two of three members begin at once. With a stricter majority in `SyncMachine::has_caught_up` they would wait
/// for each other, and neither would ever announce itself.
#[test]
fn each_member_catches_up_without_a_deadline() {
    let played = seeds::play(SEEDS / 3, run_patient, Metrics::add);
    let Some((_, total)) = played else {
        return;
    };
    assert_eq!(total.mesh.restarts + total.mesh.cuts, 0);
}
