//! The cost of cutting the members into halves, by the share of time with a cut. It writes the metrics of
//! docs/reports/partitions.md. `TALLYMESH_SEED=n` replays one seed, `TALLYMESH_SEEDS=n` runs this many.

use std::sync::{Mutex, PoisonError};
use tallymesh_tests::partitions::{Half, MEMBERS, Metrics, Plan, Work, play};
use tallymesh_tests::seeds;
use tallymesh_tests::sim::Trouble;

/// Seeds of each plan in a usual run. Limits have `LIMIT_SEEDS`, because the moment at which they are reached
/// matters.
const SEEDS: u64 = 1;
const LIMIT_SEEDS: u64 = 4;
/// The amount of a limit or a budget.
const UNITS: u64 = 5_000;
/// Shares of the time with a cut, in hundredths: for the report, and in a usual run.
const SHARES: [u64; 8] = [0, 10, 20, 30, 40, 50, 60, 70];
const SHARES_FEW: [u64; 3] = [0, 30, 70];

const PLAN: Plan = Plan {
    work: Work::Limit(UNITS),
    cut_percent: 0,
    clients: [12; MEMBERS],
    patience_ms: 1_000,
    trouble: Trouble::NONE,
    end_ms: 300_000,
};

/// The sum of all seeds of a plan, at each share.
fn by_share(plan: Plan, usual: u64) -> Vec<(u64, Metrics)> {
    let mut rows = Vec::new();
    let count = seeds::count(usual);
    let few = count <= usual;
    for &cut_percent in if few { &SHARES_FEW[..] } else { &SHARES } {
        let plan = Plan {
            cut_percent,
            ..plan
        };
        if let Some(seed) = seeds::chosen() {
            let metrics = play(seed, seeds::chosen().is_some(), &plan)
                .unwrap_or_else(|failure| panic!("{failure}"));
            rows.push((cut_percent, metrics));
            continue;
        }
        let total = Mutex::new(Metrics::default());
        seeds::each(count, |seed| {
            let metrics = play(seed, seeds::chosen().is_some(), &plan)?;
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.add(&metrics);
            Ok(())
        });
        let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        let cut = total.cut_ms > 0;
        let is_right = if cut_percent == 0 {
            !cut
        } else {
            cut || cut_percent < 70
        };
        assert!(is_right, "{cut_percent} %: cut for {} ms", total.cut_ms);
        rows.push((cut_percent, total));
    }
    rows
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

fn worst(values: &[u64]) -> u64 {
    values.iter().copied().max().unwrap_or(0)
}

fn seconds(ms: f64) -> String {
    format!("{:.1} s", ms / 1_000.0)
}

/// The share of its clients' requests that a half granted during cuts. A dash if there was no cut.
fn served(half: Half) -> String {
    match half.served + half.refused {
        0 => String::from("-"),
        _ => format!("{:.1} %", half.served_percent()),
    }
}

#[test]
fn a_plain_counter_passes_its_limit_by_more_the_longer_members_are_cut() {
    let rows = by_share(PLAN, LIMIT_SEEDS);
    println!("\nA plain counter with a limit of {UNITS}, {MEMBERS} members\n");
    println!(
        "| of the time cut | over the limit, mean | worst | mean, of the limit | told a number twice |"
    );
    println!("|---:|---:|---:|---:|---:|");
    for (share, it) in &rows {
        println!(
            "| {share} % | {:.0} | {} | {:.1} % | {:.1} % |",
            mean(&it.over),
            worst(&it.over),
            100.0 * mean(&it.over) / UNITS as f64,
            100.0 * it.twice as f64 / it.made as f64,
        );
    }
    // Otherwise clients would see adds that cannot have reached their member.
    assert!(rows.iter().all(|it| it.1.twice > 0));
    let [least, most] = [rows.first(), rows.last()].map(|it| it.map_or(0.0, |it| mean(&it.1.over)));
    assert!(most > 3.0 * least.max(1.0), "{least} {most}");
}

#[test]
fn a_budget_is_never_passed_and_most_of_it_can_be_spent_while_members_are_cut() {
    for clients in [[12; MEMBERS], [30, 12, 9, 6, 3]] {
        let plan = Plan {
            work: Work::Budget(UNITS),
            clients,
            ..PLAN
        };
        println!("\nA budget of {UNITS}, {MEMBERS} members with {clients:?} clients\n");
        println!(
            "| of the time cut | over | all spent after, mean | worst | held by the three as a cut begins, of what is left | by the two | served at the three while cut | at the two |"
        );
        println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
        for (share, it) in by_share(plan, SEEDS) {
            println!("{}", budget_line(share, &it));
            // All units are spent in each run. One unit more would be a failure of its own.
            assert_eq!(it.made, UNITS * it.spent_ms.len() as u64);
        }
    }
}

fn budget_line(share: u64, it: &Metrics) -> String {
    let held = |half: Half| match it.left {
        0 => String::from("-"),
        left => format!("{:.0} %", 100.0 * half.held as f64 / left as f64),
    };
    let [larger, smaller] = it.halves;
    format!(
        "| {share} % | {} | {} | {} | {} | {} | {} | {} |",
        it.made.saturating_sub(UNITS * it.spent_ms.len() as u64),
        seconds(mean(&it.spent_ms)),
        seconds(worst(&it.spent_ms) as f64),
        held(larger),
        held(smaller),
        served(larger),
        served(smaller),
    )
}

#[test]
fn what_a_member_held_that_is_gone_comes_back_however_the_others_are_cut() {
    let plan = Plan {
        work: Work::Retired(4 * UNITS),
        ..PLAN
    };
    println!("\nA member is gone after 4 s, and is taken out after 5 s\n");
    println!("| of the time cut | it held, mean | others could spend that after, mean | worst |");
    println!("|---:|---:|---:|---:|");
    for (share, it) in by_share(plan, SEEDS) {
        println!(
            "| {share} % | {:.0} | {} | {} |",
            mean(&it.stranded),
            seconds(mean(&it.back_ms)),
            seconds(worst(&it.back_ms) as f64),
        );
        // The rights return in each run, however many they are. A run in which they do not return is a
        // failure of its own.
        assert_eq!(it.back_ms.len(), it.stranded.len());
    }
}

#[test]
fn numbers_come_once_and_near_their_order_in_time() {
    for (share, it) in sequence(0) {
        assert!(it.made > 100, "{share} %: {} numbers", it.made);
    }
}

#[test]
fn watched_numbers_come_in_their_order_but_for_what_can_t_be_reached() {
    let rows = sequence(500);
    assert!(rows.iter().all(|it| !it.1.errors.is_empty()));
    // Without a cut, each number equals its rank.
    assert_eq!(rows.first().map(|it| worst(&it.1.errors)), Some(0));
}

/// The members have all other faults too, except disks that are put back. With such a disk, a budget could
/// spend the same units again.
#[test]
fn members_that_are_cut_bear_all_other_trouble() {
    let trouble = Trouble {
        old: 0,
        ..Trouble::ALL
    };
    let budget = Plan {
        work: Work::Budget(UNITS),
        ..PLAN
    };
    let works = [(budget, trouble), (SEQUENCE, Trouble::ALL)];
    for (plan, trouble) in works {
        let rows = by_share(Plan { trouble, ..plan }, SEEDS);
        for (share, it) in &rows {
            assert!(it.made > 100, "{share} %: {it:?}");
        }
        assert!(rows.iter().any(|it| it.1.mesh.restarts > 0), "{rows:?}");
    }
}

/// Clients draw numbers, and cuts are the only faults.
const SEQUENCE: Plan = Plan {
    work: Work::Sequence(0),
    clients: [6; MEMBERS],
    end_ms: 30_000,
    ..PLAN
};

/// Draws numbers of a sequence. Each number divisible by `watched` is watched.
fn sequence(watched: u64) -> Vec<(u64, Metrics)> {
    let plan = Plan {
        work: Work::Sequence(watched),
        ..SEQUENCE
    };
    println!("\nA sequence, {MEMBERS} members, watched each {watched}\n");
    println!(
        "| of the time cut | numbers, a run | looked at, a run | off by, mean | 99 of 100 at most | worst | off in time, mean | worst | served at the three while cut | at the two |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let rows = by_share(plan, SEEDS);
    for (share, it) in &rows {
        let mut errors = it.errors.clone();
        errors.sort_unstable();
        let a_run = |sum: u64| sum * plan.end_ms / it.played_ms;
        println!(
            "| {share} % | {} | {} | {:.1} | {} | {} | {} | {} | {} | {} |",
            a_run(it.made),
            a_run(errors.len() as u64),
            mean(&errors),
            errors[errors.len().saturating_sub(1) * 99 / 100],
            worst(&errors),
            seconds(mean(&it.off_ms)),
            seconds(worst(&it.off_ms) as f64),
            served(it.halves[0]),
            served(it.halves[1]),
        );
    }
    rows
}
