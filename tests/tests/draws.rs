//! Numbers that three members hand out, at most once each. `TALLYMESH_SEED=n` replays one seed with a trace,
//! `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::draws::{Metrics, Plan, play};
use tallymesh_tests::seeds;
use tallymesh_tests::sim::Trouble;

const SEEDS: u64 = 6;

/// Cuts and restarts, then healing.
const CUTS: Plan = Plan {
    clients: [8, 6, 4],
    trouble: Trouble::CUTS,
    begins: 1,
    watch_ms: 0,
    end_ms: 20_000,
};

fn play_all(plan: &Plan, happened: impl Fn(&Metrics) -> bool + Sync) {
    seeds::play_all(SEEDS, |seed, traced| play(seed, traced, plan), happened);
}

#[test]
fn each_number_is_handed_out_once_at_most() {
    play_all(&CUTS, |it| it.issued > 200 && it.mesh.cuts > 0);
}

#[test]
fn each_number_is_handed_out_once_at_most_where_frames_are_lost_and_come_twice() {
    let plan = Plan {
        trouble: Trouble::LOSSES,
        ..CUTS
    };
    play_all(&plan, |it| it.issued > 100 && it.mesh.repeats > 0);
}

#[test]
fn each_number_is_handed_out_once_at_most_whatever_befalls_the_members() {
    let plan = Plan {
        trouble: Trouble::ALL,
        ..CUTS
    };
    play_all(&plan, |it| it.issued > 100 && it.mesh.restarts > 0);
}

#[test]
fn of_two_who_begin_one_at_once_one_at_most_goes_on() {
    let plan = Plan { begins: 3, ..CUTS };
    play_all(&plan, |it| it.mesh.cuts > 0);
}

/// Members watch numbers, and there are no faults.
const WATCHED: Plan = Plan {
    trouble: Trouble::NONE,
    watch_ms: 1_000,
    ..CUTS
};

#[test]
fn a_watched_number_is_handed_out_as_the_one_of_that_rank() {
    play_all(&WATCHED, |it| it.reached > 5 && it.astray == 0);
}

#[test]
fn who_is_not_there_holds_a_watched_number_up_for_a_moment_only() {
    let plan = Plan {
        trouble: Trouble::LOSSES,
        ..WATCHED
    };
    play_all(&plan, |it| it.issued > 100 && it.reached > 1);
}

#[test]
fn watched_numbers_are_handed_out_once_at_most_whatever_befalls_the_members() {
    let plan = Plan {
        trouble: Trouble::ALL,
        ..WATCHED
    };
    play_all(&plan, |it| it.issued > 100 && it.reached > 0);
}
