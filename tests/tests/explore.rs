//! The share of the exhaustive exploration that every run repeats. The program `explore` runs the whole of
//! it.

use tallymesh_tests::explore::{Act, Config, Report, explore, share};
use tallymesh_tests::seeds;

#[test]
fn every_order_of_events_gives_the_oracles_answers() {
    println!("{}", Report::HEAD);
    let configs = share();
    seeds::each(configs.len() as u64, |at| {
        let report = explore(&configs[at as usize]).map_err(|failure| failure.to_string())?;
        println!("{report}");
        match report.complete {
            true => Ok(()),
            false => Err(report.to_string()),
        }
    });
}

fn tiny() -> Config {
    Config {
        name: "2 replicas, 1 add each, 1 snapshot".into(),
        replicas: 2,
        keys: 1,
        start: Vec::new(),
        alphabet: vec![vec![(0, Act::Add)]],
        ops: 1,
        snapshots: 1,
        times: Vec::new(),
        passes: 0,
        settle_each: 1,
        states_max: 1_000,
    }
}

/// A configuration with so few states that they can be counted by hand.
///
/// There is no add, or replica 0 or 1 adds. Nothing is sent, or an empty state (the same from each sender),
/// or the state with the add. The other replica then has received this state or has not.
#[test]
fn the_states_are_those_that_one_counts_by_hand() {
    let report = explore(&tiny()).unwrap_or_else(|failure| panic!("{failure}"));
    // No add: nothing sent, or the empty state. An add at either replica: the same two, and the state with
    // the add, not delivered or delivered.
    assert_eq!(report.states, 2 + 2 * (2 + 2));
    assert_eq!(report.settled, report.states);
}

#[test]
fn a_run_that_meets_its_bound_is_incomplete() {
    let config = Config {
        states_max: 5,
        ..tiny()
    };
    let report = explore(&config).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(!report.complete);
    assert_eq!(report.states, 5);
    assert!(report.to_string().contains("INCOMPLETE"));
}

#[test]
fn a_configuration_out_of_bounds_is_refused() {
    let config = Config {
        replicas: 5,
        ..tiny()
    };
    let failure = explore(&config).expect_err("five replicas do not fit");
    assert_eq!(failure.wrong, "5 replicas, at most 4");
}
