//! Callers that ask for more than is remembered, and what others lose by that.

use super::*;
use super::{members, once, tell};
use crate::error::{Error, ScopeError};
use crate::{KeyStatus, KeyedBounds, Op, Party, Replica};
use alloc::format;
use alloc::string::String;

const BOUNDS: KeyedBounds = KeyedBounds {
    all: 20,
    guests: 16,
    ticket: 5,
    address: 10,
};

fn asker(ticket: Option<u128>, address: u128) -> Asker {
    let party = Party {
        ticket,
        address: Some(address),
    };
    Asker {
        party,
        limited: ticket.is_some(),
        settled: 0,
    }
}

/// Adds under a key, as somebody who asks for a new one.
fn ask(one: &mut Replica, key: &str, asker: &Asker) -> Result<(), Error> {
    assert_eq!(one.keyed().lookup(&once(key)), KeyStatus::New);
    let mut transaction = one.begin()?;
    transaction.apply("n", Op::Add(1))?;
    transaction.commit_once_for(once(key), Some(asker), &mut Vec::new())
}

fn fill(one: &mut Replica, name: &str, asker: &Asker, count: usize) -> usize {
    let asks = (0..count).map(|at| ask(one, &format!("{name}{at}"), asker));
    asks.filter(Result::is_ok).count()
}

fn known(one: &Replica, name: &str, count: usize) -> usize {
    let keys = (0..count).map(|at| format!("{name}{at}"));
    keys.filter(|key| one.keyed().lookup(&once(key)) != KeyStatus::New)
        .count()
}

fn bounded() -> Replica {
    let [mut one, _] = members();
    one.keyed_mut().set_bounds(BOUNDS);
    one
}

/// The whole flood is refused but for a share, and counts nothing; a retry of anybody is answered.
#[test]
fn who_asks_without_end_is_refused_and_pushes_out_nobody() {
    for (flood, share) in [
        (asker(Some(1), 7), BOUNDS.ticket),
        (asker(None, 7), BOUNDS.address),
    ] {
        let mut one = bounded();
        ask(&mut one, "honest", &asker(None, 7)).unwrap();
        ask(&mut one, "other", &asker(Some(2), 8)).unwrap();
        let made = fill(&mut one, "flood", &flood, 1_000);
        let own = usize::from(flood.party.ticket.is_none());
        assert_eq!(made, share - own);
        assert_eq!(one.value("n"), Some(made as i128 + 2));
        for key in ["honest", "other", "flood0"] {
            assert!(
                matches!(one.keyed().lookup(&once(key)), KeyStatus::Before(_)),
                "{key}"
            );
        }
        let refused = ask(&mut one, "more", &flood);
        assert_eq!(refused, Err(ScopeError::KeyedFull { max: share }.into()));
        // Others are let in.
        ask(&mut one, "late", &asker(Some(2), 8)).unwrap();
    }
}

/// One that goes on for long makes room by what it asked for long ago.
#[test]
fn who_asks_for_long_pushes_out_its_own() {
    let mut one = bounded();
    ask(&mut one, "honest", &asker(Some(2), 7)).unwrap();
    for round in 0..8 {
        let settled = one.keyed().end();
        let flood = Asker {
            settled,
            ..asker(Some(1), 7)
        };
        let name = format!("flood{round}-");
        assert_eq!(fill(&mut one, &name, &flood, 9), BOUNDS.ticket);
        assert_eq!(known(&one, &name, BOUNDS.ticket), BOUNDS.ticket);
    }
    assert_eq!(one.keyed().count(), BOUNDS.ticket + 1);
    assert_ne!(one.keyed().lookup(&once("honest")), KeyStatus::New);
}

/// The holders of one ticket at several addresses share its room, and who holds least loses nothing.
#[test]
fn who_shares_a_ticket_pushes_out_whoever_holds_most_of_it() {
    let mut one = bounded();
    ask(&mut one, "honest", &asker(Some(1), 8)).unwrap();
    assert_eq!(fill(&mut one, "flood", &asker(Some(1), 7), 9), 4);
    // All is young, yet one that holds less than its part is let in.
    ask(&mut one, "again", &asker(Some(1), 8)).unwrap();
    assert_eq!(known(&one, "flood", 9), 3);
    assert_ne!(one.keyed().lookup(&once("honest")), KeyStatus::New);
}

/// However many tickets there are, members have room that guests do not get.
#[test]
fn guests_leave_room_for_members() {
    let mut one = bounded();
    for ticket in 1..=8 {
        fill(
            &mut one,
            &format!("{ticket}-"),
            &asker(Some(ticket), ticket),
            9,
        );
    }
    assert_eq!(one.keyed().count(), BOUNDS.guests);
    let reserve = BOUNDS.all - BOUNDS.guests;
    let member = asker(None, 1);
    assert_eq!(fill(&mut one, "member", &member, reserve), reserve);
    // Beyond that the next one takes from the group that holds most.
    assert_eq!(one.keyed().count(), BOUNDS.all);
    let guests = one.idempotency.shares().totals[1];
    ask(&mut one, "one more", &asker(None, 2)).unwrap();
    assert_eq!(known(&one, "member", reserve), reserve - 1);
    assert_eq!(one.idempotency.shares().totals[1], guests);
    assert_eq!(one.keyed().count(), BOUNDS.all);
}

/// Another member's keys count for that member's start, and push out nothing that was made here.
#[test]
fn what_one_member_tells_pushes_out_nothing_of_another() {
    let [mut one, mut two] = members();
    one.keyed_mut().set_bounds(BOUNDS);
    for at in 0..5 {
        ask(&mut one, &format!("own{at}"), &asker(Some(at), 1)).unwrap();
    }
    for round in 0..10 {
        let name = format!("told{round}-");
        assert_eq!(fill(&mut two, &name, &asker(None, 1), 10), 10);
        tell(&two, &mut one);
    }
    assert_eq!(one.keyed().count(), BOUNDS.all);
    assert_eq!(known(&one, "own", 5), 5);
    assert_eq!(known(&one, "told9-", 10), 10);
}

/// A group's number is given to another once it holds nothing.
#[test]
fn what_is_dropped_makes_room_for_its_group() {
    let mut one = bounded();
    let flood = asker(Some(1), 7);
    assert_eq!(fill(&mut one, "a", &flood, 9), BOUNDS.ticket);
    let [closed, _] = members();
    let mut open = Replica::new(closed.space().clone(), closed.writer());
    open.keyed_mut().set_bounds(BOUNDS);
    for round in 0..3 {
        let name: String = format!("{round}-");
        assert_eq!(fill(&mut open, &name, &flood, 9), BOUNDS.ticket);
        assert!(open.keyed_mut().drop_before(u64::MAX));
        assert_eq!(open.keyed().count(), 0);
        let shares = open.idempotency.shares();
        assert_eq!((shares.totals, shares.tickets.len()), ([0, 0], 0));
        assert_eq!((shares.held.len(), shares.free.len()), (1, 1));
    }
}
