//! Journals alone: which transactions are unconfirmed.

use super::*;
use crate::state::operation::Op;

/// A journal of adds at these clocks.
fn journal(clocks: &[u64]) -> Journal {
    let did = |by: u64| Did {
        key: "k".into(),
        op: Op::Add(by as i64),
        saw: Vec::new(),
    };
    Journal {
        made: clocks
            .iter()
            .map(|clock| (*clock, Vec::from([did(*clock)])))
            .collect(),
        ..Journal::EMPTY
    }
}

fn clocks(journal: &Journal) -> Vec<u64> {
    journal.made.iter().map(|made| made.0).collect()
}

#[test]
fn a_member_confirms_what_it_has() {
    let mut all = journal(&[2, 3, 7]);
    assert_eq!(all.last(), 7);
    all.drop_upto(3);
    assert_eq!((clocks(&all), all.dropped), (Vec::from([7]), 3));
    all.drop_upto(1);
    assert_eq!(all.dropped, 3, "nothing is unconfirmed again");
    all.drop_upto(9);
    assert!(all.is_empty());
}

#[test]
fn the_open_time_is_confirmed_as_one() {
    let mut all = journal(&[6]);
    all.open = 5;
    assert!(all.needs_survivors());
    all.drop_upto(4);
    assert_eq!(all.open, 5, "its transactions can't be told apart");
    all.drop_upto(5);
    assert_eq!((all.open, clocks(&all)), (0, Vec::from([6])));
    assert!(!all.needs_survivors());
}

#[test]
fn a_part_and_what_follows_are_the_whole() {
    let all = journal(&[2, 3, 7, 8]);
    assert_eq!(clocks(&all.after(3)), [7, 8]);
    let mut joined = journal(&[2, 3]);
    joined.extend(&all.after(3));
    assert_eq!(joined, all);
    joined.extend(&all);
    assert_eq!(joined, all, "a record that comes twice changes nothing");
    let mut confirmed = all.after(8);
    confirmed.dropped = 7;
    joined.extend(&confirmed);
    assert_eq!(clocks(&joined), [8]);
}
