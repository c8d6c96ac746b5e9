//! Members that request rights of each other while clients spend. All of a budget can be spent at any member,
//! and never more than there is. `TALLYMESH_SEED=n` replays one seed, `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_core::bounds::SKEW_MS_MAX;
use tallymesh_tests::seeds;
use tallymesh_tests::sim::Trouble;
use tallymesh_tests::spending::{Metrics, Plan, Policy, Strike, play};

const SEEDS: u64 = 4;

/// Cuts and restarts, then healing.
const CUTS: Plan = Plan {
    minted: 10_000,
    clients: [34, 33, 33],
    patience_ms: 1_000,
    cut_ms: None,
    trouble: Trouble::CUTS,
    keyed: false,
    given_back: 0,
    holders: 0,
    strike: None,
    end_ms: 60_000,
};

/// Plays a plan until all is spent, under the faults of the plan.
fn play_all(plan: &Plan, seeds: u64) {
    let run = |seed, traced| {
        let metrics = play(seed, traced, plan, Policy::Members)?;
        match metrics.done_ms > 0 {
            true => Ok(metrics),
            false => Err(format!(
                "TALLYMESH_SEED={seed}: not all is spent: {metrics:?}"
            )),
        }
    };
    let happened = |it: &Metrics| it.mesh.cuts > 0 && it.moves > 5 && !it.waits.is_empty();
    seeds::play_all(seeds, run, happened);
}

#[test]
fn all_of_a_budget_is_spent_at_three_members_and_never_one_more() {
    play_all(&CUTS, SEEDS);
}

/// Only 1,000 units, because losses cost time.
const SMALL: Plan = Plan {
    minted: 1_000,
    clients: [8, 6, 4],
    ..CUTS
};

#[test]
fn all_is_spent_where_frames_are_lost_and_come_twice() {
    let plan = Plan {
        trouble: Trouble::LOSSES,
        ..SMALL
    };
    play_all(&plan, SEEDS);
}

#[test]
fn all_is_spent_whatever_befalls_the_members() {
    let plan = Plan {
        trouble: Trouble::ALL,
        ..SMALL
    };
    play_all(&plan, SEEDS);
}

#[test]
fn each_spend_counts_once_that_is_asked_for_at_several_members() {
    let plan = Plan {
        keyed: true,
        ..SMALL
    };
    play_all(&plan, SEEDS);
}

#[test]
fn a_cap_holds_while_units_are_given_back() {
    let plan = Plan {
        given_back: 300,
        ..SMALL
    };
    play_all(&plan, SEEDS);
}

/// Holders spend on leases without requests, while members restart. Their clocks differ as much as they may.
/// Units that were spent in time always count, and units that no holder reported return.
#[test]
fn what_is_on_lease_is_spent_or_comes_back() {
    let plan = Plan {
        holders: 12,
        trouble: Trouble {
            skew_ms: SKEW_MS_MAX,
            ..Trouble::CUTS
        },
        ..SMALL
    };
    play_all(&plan, 2 * SEEDS);
}

/// Plays a plan in which a member is struck, under these faults.
fn play_struck(strike: Strike, trouble: Trouble) {
    let plan = Plan {
        strike: Some(strike),
        trouble,
        ..SMALL
    };
    play_all(&plan, 2 * SEEDS);
}

/// A member is gone for good while clients spend, and an operator takes it out. The others spend its rights.
/// Only the units that it spent and did not replicate are spent twice.
#[test]
fn what_a_member_held_that_is_taken_out_is_spent_by_the_others() {
    play_struck(Strike::TakenOut, Trouble::CUTS);
}

/// A member's process is copied while it runs, until an operator ends the copy.
///
/// The overdraft has a bound: the rights of the writer that both copies used, and the amount that one of them
/// spent after the copy. All remaining rights can be spent.
#[test]
fn a_copy_of_a_process_overdraws_no_more_than_its_writer_held() {
    play_struck(Strike::Copied, Trouble::CUTS);
}

/// A member's disk is copied, and a process on the copy runs beside it. It spends nothing, so exactly what there is
/// is spent.
#[test]
fn nothing_is_spent_beside_a_copy_of_a_disk_that_the_original_does_not_spend() {
    for trouble in [Trouble::CUTS, Trouble::LOSSES] {
        play_struck(Strike::DiskCopied, trouble);
    }
}

/// The original is gone for good, and an operator adopts the copy of its disk. All of the budget is spent. Only the
/// units that the original spent and did not replicate are spent twice.
#[test]
fn what_a_member_held_is_spent_by_an_adopted_copy_of_its_disk() {
    play_struck(Strike::Adopted, Trouble::CUTS);
}

#[test]
fn all_of_it_together() {
    let plan = Plan {
        trouble: Trouble {
            flush_ms: 40,
            skew_ms: 1_000,
            ..Trouble::LOSSES
        },
        keyed: true,
        given_back: 300,
        ..SMALL
    };
    play_all(&plan, SEEDS);
}

/// Seeds for one line of docs/reports/budgets.md. A usual run has one.
fn line_seeds() -> u64 {
    match seeds::count(SEEDS) > SEEDS {
        true => 5,
        false => 1,
    }
}

fn sum(plan: &Plan, policy: Policy) -> Metrics {
    let mut total = Metrics::default();
    for seed in 0..line_seeds() {
        let metrics = play(seed, false, plan, policy).unwrap_or_else(|failure| panic!("{failure}"));
        total.add(&metrics);
    }
    total
}

/// A line of docs/reports/budgets.md.
fn line(policy: Policy, [steady, cut, parted]: &[Metrics; 3]) -> String {
    let seeds = line_seeds();
    format!(
        "| {} | {} | {} ms | {} | {} | {}.{} s | {} % | {} |",
        match policy {
            Policy::Members => "as members do",
            Policy::Missing => "what is missing, of a random holder",
            Policy::HalfOfRichest => "half of what the richest holds",
        },
        steady.waits.len() as u64 / seeds,
        steady.most_wait_ms(),
        steady.refused_early / seeds,
        steady.moves / seeds,
        steady.done_ms / seeds / 1_000,
        steady.done_ms / seeds % 1_000 / 100,
        cut.cut_percent(),
        parted.spent / seeds,
    )
}

/// The metrics of docs/reports/budgets.md, all in simulated time.
#[test]
fn more_is_served_in_a_cut_than_with_plain_policies_and_waits_are_short() {
    let steady = Plan {
        trouble: Trouble::NONE,
        ..CUTS
    };
    let cut = Plan {
        cut_ms: Some((4_000, 8_000)),
        ..steady
    };
    // Without a cut all is spent by then.
    let parted = Plan {
        cut_ms: Some((4_000, 30_000)),
        end_ms: 11_500,
        ..steady
    };
    for clients in [[34, 33, 33], [70, 25, 5], [5, 25, 70]] {
        println!("\nClients: {clients:?}\n");
        println!(
            "| rights move | spends that waited | 999 of 1,000 waited at most | gave up before 9,000 were spent | grants | all spent after | served at the third member while it is cut off for 4 s | spent after 11.5 s if it stays cut off |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        let of = |policy| {
            let runs = [steady, cut, parted].map(|plan| sum(&Plan { clients, ..plan }, policy));
            println!("{}", line(policy, &runs));
            runs
        };
        let [members, cut, parted] = of(Policy::Members);
        assert_eq!(members.spent, line_seeds() * steady.minted);
        assert_eq!(members.refused_early, 0);
        assert!(members.most_wait_ms() < 100, "{}", members.most_wait_ms());
        for policy in [Policy::Missing, Policy::HalfOfRichest] {
            let [plain, plain_cut, plain_parted] = of(policy);
            assert!(members.waits.len() < plain.waits.len(), "{policy:?}");
            assert!(cut.cut_percent() >= plain_cut.cut_percent(), "{policy:?}");
            assert!(parted.spent >= plain_parted.spent, "{policy:?}");
        }
    }
}
