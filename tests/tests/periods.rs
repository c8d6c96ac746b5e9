//! Rate limits at several members. `TALLYMESH_SEED=n` replays one seed, `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::periods::{MEMBERS_MAX, Metrics, Plan, play};
use tallymesh_tests::seeds;
use tallymesh_tests::sim::Trouble;

const SEEDS: u64 = 3;

/// Cuts and restarts, then healing.
const CUTS: Plan = Plan {
    members: 3,
    founders: 3,
    clients: [6, 3, 1, 0, 0, 0, 0, 0, 0, 0],
    keys: 3,
    waits: true,
    rests: true,
    limit: 60,
    period_ms: 2_000,
    trouble: Trouble {
        ms: 20_000,
        skew_ms: 1_000,
        ..Trouble::CUTS
    },
    rules: 0,
    moves: 0,
    end_ms: 24_000,
};

fn play_all(plan: &Plan, happened: impl Fn(&Metrics) -> bool + Sync) {
    seeds::play_all(SEEDS, |seed, traced| play(seed, traced, plan), happened);
}

fn enough(it: &Metrics) -> bool {
    it.allowed > 300 && it.refused > 10 && it.waited > 10 && it.mesh.cuts > 0
}

#[test]
fn no_more_is_allowed_than_the_limit() {
    play_all(&CUTS, enough);
}

#[test]
fn no_more_is_allowed_than_the_limit_where_frames_are_lost_and_come_twice() {
    let plan = Plan {
        trouble: Trouble {
            ms: 20_000,
            skew_ms: 1_000,
            ..Trouble::LOSSES
        },
        ..CUTS
    };
    play_all(&plan, |it| it.allowed > 300 && it.mesh.repeats > 0);
}

#[test]
fn no_more_counts_than_the_limit_whatever_befalls_the_members() {
    // Long enough that a member restarts in the same period in which it ended.
    let plan = Plan {
        limit: 200,
        period_ms: 12_000,
        trouble: Trouble {
            ms: 40_000,
            ..Trouble::ALL
        },
        end_ms: 44_000,
        ..CUTS
    };
    play_all(&plan, |it| it.allowed > 300 && it.mesh.restarts > 0);
}

#[test]
fn no_more_is_allowed_than_the_limit_while_limits_change() {
    let plan = Plan { rules: 300, ..CUTS };
    play_all(&plan, |it| it.allowed > 100 && it.decided > 1);
}

#[test]
fn no_more_is_allowed_than_the_limit_while_members_and_limits_change() {
    let plan = Plan {
        members: 4,
        clients: [4, 3, 2, 3, 0, 0, 0, 0, 0, 0],
        rules: 200,
        moves: 300,
        ..CUTS
    };
    play_all(&plan, |it| it.decided > 2);
}

/// No faults, except clocks that differ.
const CALM: Trouble = Trouble {
    skew_ms: 1_000,
    ..Trouble::NONE
};

#[test]
fn what_is_kept_does_not_grow_with_the_periods_that_there_were() {
    let plan = |end_ms| Plan {
        clients: [2, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        period_ms: 1_000,
        trouble: CALM,
        end_ms,
        ..CUTS
    };
    let kept = |end_ms| {
        let metrics = play(seeds::chosen().unwrap_or(1), false, &plan(end_ms));
        let metrics = metrics.unwrap_or_else(|failure| panic!("{failure}"));
        println!(
            "{} counters of {} periods",
            metrics.counters, metrics.period_count
        );
        (metrics.counters, metrics.period_count)
    };
    let ((few, _), (many, periods)) = (kept(100_000), kept(1_500_000));
    assert!(periods > 4_000, "{periods}");
    // By chance, a longer run may have a somewhat greater maximum.
    assert!(many <= few + few / 4, "{many} {few}");
}

/// The distribution of requests over members: this many clients of the first member, and the others evenly.
fn spread(members: usize, clients: usize, at_first: usize) -> [usize; MEMBERS_MAX] {
    let mut spread = [0; MEMBERS_MAX];
    spread[0] = at_first;
    for client in 0..clients - at_first {
        let others = if at_first == 0 {
            0..members
        } else {
            1..members
        };
        spread[others.start + client % others.len()] += 1;
    }
    spread
}

/// The metrics of docs/reports/limits.md, all in simulated time. No client waits, so each request is allowed
/// at once or rejected.
#[test]
fn more_of_a_limit_is_allowed_than_by_parts_that_stay_whatever_members_are_asked() {
    println!(
        "| members | requests | asked for, of the limit | allowed, of what could be | least | by fixed parts | least |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|");
    // A usual run has a few of the lines.
    let all = seeds::count(SEEDS) > SEEDS;
    for members in if all { &[2, 3, 5, 10][..] } else { &[3] } {
        for (name, at_first) in [("evenly", 0), ("half at one", 20), ("all at one", 40)] {
            // 40 clients request some 950 a second.
            for limit in [12_000, 9_500, 2_000] {
                let plan = Plan {
                    members: *members,
                    founders: *members,
                    clients: spread(*members, 40, at_first),
                    keys: 1,
                    waits: false,
                    rests: false,
                    limit,
                    period_ms: 10_000,
                    trouble: CALM,
                    end_ms: 75_000,
                    ..CUTS
                };
                accuracy(&plan, name);
            }
        }
    }
}

/// A line of the report, for whole periods after the first two.
fn accuracy(plan: &Plan, name: &str) {
    let metrics = play(seeds::chosen().unwrap_or(1), false, plan);
    let metrics = metrics.unwrap_or_else(|failure| panic!("{failure}"));
    let count = metrics.periods.len();
    let whole = || metrics.periods.values().take(count - 1).skip(2);
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of as f64;
    let share = |of: fn(&tallymesh_tests::periods::Metered) -> u64| {
        let shares = || whole().map(|it| percent(of(it), it.most()));
        let (sum, most) = whole().fold((0, 0), |all, it| (all.0 + of(it), all.1 + it.most()));
        (percent(sum, most), shares().fold(100.0, f64::min))
    };
    let ((mean, least), (fixed, fixed_least)) = (share(|it| it.allowed), share(|it| it.fixed()));
    let asked: u64 = whole().flat_map(|it| &it.asked).sum();
    let asked = percent(asked, plan.limit * whole().count() as u64);
    println!(
        "| {} | {name} | {asked:.0} % | {mean:.1} % | {least:.1} % | {fixed:.1} % | {fixed_least:.1} % |",
        plan.members
    );
    assert!(mean >= fixed - 1.0, "{mean} {fixed}");
    assert!(mean > 95.0, "{mean}");
}
