//! Numbers that are handed out at three members, at most once each. `TALLYMESH_SEED=n` replays one seed,
//! `TALLYMESH_SEEDS=n` runs so many.

use tallymesh_tests::seeds;
use tallymesh_tests::tickets::{Figures, Plan, play};

const SEEDS: u64 = 6;

/// Cuts and restarts for 15 s, then healing.
const TROUBLE: Plan = Plan {
    clients: [8, 6, 4],
    trouble_ms: 15_000,
    lost: 0,
    old: 0,
    begins: 1,
    watch_ms: 0,
    end_ms: 20_000,
};

fn play_all(plan: &Plan, happened: impl Fn(&Figures) -> bool + Sync) {
    if let Some(seed) = seeds::chosen() {
        let played = play(seed, plan);
        println!("{:?}", played.unwrap_or_else(|failure| panic!("{failure}")));
        return;
    }
    seeds::each(seeds::count(SEEDS), |seed| {
        let figures = play(seed, plan)?;
        match happened(&figures) {
            true => Ok(()),
            false => Err(format!("seed {seed}: too little happened: {figures:?}")),
        }
    });
}

#[test]
fn each_number_is_handed_out_once_at_most() {
    play_all(&TROUBLE, |it| it.issued > 200 && it.cuts > 0);
}

#[test]
fn each_number_is_handed_out_once_at_most_where_frames_are_lost_and_come_twice() {
    let plan = Plan {
        lost: 30,
        ..TROUBLE
    };
    play_all(&plan, |it| it.issued > 100 && it.cuts > 0);
}

#[test]
fn each_number_is_handed_out_once_at_most_where_members_start_from_old_copies() {
    let plan = Plan {
        old: 700,
        lost: 10,
        ..TROUBLE
    };
    play_all(&plan, |it| it.issued > 100 && it.cuts > 0);
}

#[test]
fn of_two_who_begin_one_at_once_one_at_most_goes_on() {
    let plan = Plan {
        begins: 3,
        ..TROUBLE
    };
    play_all(&plan, |it| it.cuts > 0);
}

/// Numbers are watched, and nothing is in the way.
const WATCHED: Plan = Plan {
    trouble_ms: 0,
    watch_ms: 1_000,
    ..TROUBLE
};

#[test]
fn a_watched_number_is_handed_out_as_the_one_of_that_rank() {
    play_all(&WATCHED, |it| it.reached > 5 && it.astray == 0);
}

#[test]
fn who_is_not_there_holds_a_watched_number_up_for_a_moment_only() {
    let plan = Plan {
        watch_ms: 1_000,
        lost: 10,
        ..TROUBLE
    };
    play_all(&plan, |it| it.issued > 100 && it.reached > 1);
}

#[test]
fn watched_numbers_are_handed_out_once_at_most_where_members_start_from_old_copies() {
    let plan = Plan {
        watch_ms: 1_000,
        old: 700,
        lost: 10,
        ..TROUBLE
    };
    play_all(&plan, |it| it.issued > 100 && it.reached > 0);
}
