//! Budgets in closed spaces: a fixed share of the seeds. `TALLYMESH_SEED=n` replays one of them with a
//! trace, `TALLYMESH_SEEDS=n` runs so many.

use tallymesh_tests::closed::{BudgetFigures, run_budgets};
use tallymesh_tests::seeds;

const SEEDS: u64 = 5_000;

#[test]
fn no_view_shows_a_budget_out_of_its_bounds_and_no_right_is_lost() {
    let Some((seeds, total)) = seeds::play(SEEDS, run_budgets, BudgetFigures::add) else {
        return;
    };
    if seeds >= SEEDS {
        let happened = [
            total.made,
            total.short,
            total.grants,
            total.keyed,
            total.withdrawn,
            total.again,
            total.refused,
            total.ended,
        ];
        assert!(
            happened.iter().all(|times| *times > SEEDS / 10),
            "{total:?}"
        );
    }
}
