//! Budgets in closed spaces: all orders of a few events, and a fixed share of the seeds of random histories.
//! `TALLYMESH_SEED=n` replays one of them with a trace, `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_tests::closed::{BudgetFigures, run_budgets};
use tallymesh_tests::explore::Report;
use tallymesh_tests::retirement::{budgets, explore};
use tallymesh_tests::seeds;

const SEEDS: u64 = 1_000;

#[test]
fn no_view_shows_a_budget_out_of_its_bounds_and_no_right_is_lost() {
    let Some((seeds, total)) = seeds::play(SEEDS, run_budgets, BudgetFigures::add) else {
        return;
    };
    // The rarest event is a budget transaction that a replica replays. It happens in one run of fifty.
    if seeds >= SEEDS {
        let happened = [
            total.made,
            total.short,
            total.grants,
            total.leases,
            total.leased,
            total.came_back,
            total.keyed,
            total.withdrawn,
            total.again,
            total.refused,
            total.ended,
        ];
        assert!(
            happened.iter().all(|times| *times > SEEDS / 100),
            "{total:?}"
        );
    }
}

/// Every order of events of a few operations, at three members, and at two members of which one restarts.
/// `cargo xtask explore` runs more.
#[test]
fn no_order_of_events_breaks_a_budget() {
    println!("{}", Report::HEAD);
    for config in budgets().into_iter().take(2) {
        let explored = explore(&config);
        let (report, more) = explored.unwrap_or_else(|failure| panic!("{failure}"));
        println!("{report}\n{more:?}");
        assert!(report.complete, "{report}");
    }
}
