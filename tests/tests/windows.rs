//! What is allowed of keys in each period at several members. `TALLYMESH_SEED=n` replays one seed,
//! `TALLYMESH_SEEDS=n` runs so many.

use tallymesh_tests::seeds;
use tallymesh_tests::windows::{Figures, Plan, play};

const SEEDS: u64 = 10;

/// Cuts and restarts for 20 s, then healing.
const TROUBLE: Plan = Plan {
    members: 3,
    clients: [6, 3, 1, 0],
    limit: 60,
    period_ms: 2_000,
    skew_ms: 1_000,
    trouble_ms: 20_000,
    lost: 0,
    old: 0,
    rules: 0,
    moves: 0,
    end_ms: 24_000,
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

fn enough(it: &Figures) -> bool {
    it.allowed > 300 && it.refused > 10 && it.waited > 10 && it.cuts > 0
}

#[test]
fn no_more_is_allowed_than_the_limit() {
    play_all(&TROUBLE, enough);
}

#[test]
fn no_more_is_allowed_than_the_limit_where_frames_are_lost_and_come_twice() {
    let plan = Plan {
        lost: 30,
        ..TROUBLE
    };
    play_all(&plan, |it| it.allowed > 300 && it.cuts > 0);
}

#[test]
fn no_more_counts_than_the_limit_where_members_start_from_old_copies() {
    // So long that a member is back in the period in which it ended.
    let plan = Plan {
        limit: 200,
        period_ms: 12_000,
        old: 700,
        trouble_ms: 40_000,
        end_ms: 44_000,
        ..TROUBLE
    };
    play_all(&plan, |it| it.allowed > 300 && it.restarts > 0);
}

#[test]
fn no_more_is_allowed_than_the_limit_while_limits_change() {
    let plan = Plan {
        rules: 300,
        ..TROUBLE
    };
    play_all(&plan, |it| it.allowed > 100 && it.decided > 1);
}

#[test]
fn no_more_is_allowed_than_the_limit_while_members_and_limits_change() {
    let plan = Plan {
        members: 4,
        clients: [4, 3, 2, 3],
        rules: 200,
        moves: 300,
        ..TROUBLE
    };
    play_all(&plan, |it| it.decided > 2);
}
