//! A fixed share of the random histories. `TALLYMESH_SEED=n` replays a seed and prints its steps,
//! `TALLYMESH_SEEDS=n` runs this many.

use tallymesh_core::Op;
use tallymesh_tests::meaning::{Metrics, TIME, replica, run};
use tallymesh_tests::oracle::{Call, Key, Oracle, View};
use tallymesh_tests::seeds;

const SEEDS: u64 = 10_000;

/// Makes a transaction at a new replica, and compares it with the oracle.
fn alone(ops: &[Op]) {
    let mut oracle = Oracle::new(vec!["k".into()]);
    let ops: Vec<(Key, Op)> = ops.iter().map(|op| (0, *op)).collect();
    let (mut replica, mut view) = (replica(1), View::default());
    let made = oracle.transact(&mut view, &mut replica, TIME, &ops, Call::Transact);
    made.unwrap();
    oracle.check(&view, &replica, TIME).unwrap();
}

/// The simulator found this fault: the later expiry removed itself together with the earlier one.
#[test]
fn an_expiry_stays_that_replaces_one_of_its_own_transaction() {
    let later = Op::Expire(TIME + 9);
    alone(&[Op::Add(1), Op::Persist, later]);
    alone(&[Op::Add(1), Op::Expire(TIME + 5), later]);
    alone(&[Op::Add(1), later, Op::Expire(TIME - 5)]);
    alone(&[Op::Add(1), Op::Expire(TIME - 5), Op::Add(2), later, later]);
}

#[test]
fn every_read_is_what_the_operations_mean() {
    let Some((seeds, total)) = seeds::play(SEEDS, run, Metrics::add) else {
        return;
    };
    let Metrics {
        transactions,
        expiries,
        merges,
        uncovered,
        logs,
    } = total;
    let happened = [transactions, expiries, merges, uncovered, logs];
    if seeds >= SEEDS {
        assert!(happened.iter().all(|count| *count > seeds / 10));
    }
}
