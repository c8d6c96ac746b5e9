//! Tokens, and what is known to be held, by hand.

use super::*;
use crate::Replica;
use crate::error::TokenError;
use crate::message::records::{Ack, Fence, Retired, Ruling, Vote};
use crate::optional::Optional;
use crate::replica::collect::tests::space;
use crate::state::slot::Stamp;
use crate::writer_id::Space;
use alloc::boxed::Box;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), id(byte))
}

fn take(from: &Replica, to: &mut Replica) {
    to.merge(&from.delta(&to.vector())).unwrap();
}

fn of(entries: &[(WriterId, u64)]) -> VersionVector {
    let mut entries = entries.to_vec();
    entries.sort_unstable();
    VersionVector::from_sorted(entries)
}

fn token(replica: &Replica, before: &Token) -> VersionVector {
    replica
        .consistency()
        .token(before)
        .unwrap()
        .vector()
        .clone()
}

#[test]
fn a_transaction_stands_for_all_that_its_writer_had_seen() {
    let none = Token::default();
    let [mut one, mut two, mut three] = [1, 2, 3].map(replica);
    assert_eq!(token(&one, &none), of(&[]));
    assert_eq!(one.consistency().written(), of(&[]));
    two.add("a", 1).unwrap();
    take(&two, &mut one);
    assert_eq!(token(&one, &none), of(&[(id(2), 1)]));
    one.add("a", 1).unwrap();
    assert_eq!(one.consistency().written(), of(&[(id(1), 1)]));
    assert_eq!(token(&one, &none), of(&[(id(1), 1)]));
    three.add("a", 1).unwrap();
    take(&three, &mut one);
    assert_eq!(token(&one, &none), of(&[(id(1), 1), (id(3), 1)]));
    // A token leaves out transactions that are here, and names those that are missing.
    let elsewhere = Token::new(of(&[(id(2), 1), (id(3), 2), (id(4), 5)])).unwrap();
    let both = of(&[(id(1), 1), (id(3), 2), (id(4), 5)]);
    assert_eq!(token(&one, &elsewhere), both);
}

#[test]
fn a_token_has_room_for_64_writers() {
    let mut one = replica(200);
    let before = |writers: u8| {
        let entries = (1..=writers).map(|byte| (id(byte), 1));
        Token::new(VersionVector::from_sorted(entries.collect())).unwrap()
    };
    assert_eq!(one.consistency().room_in_token(&before(63)), Ok(()));
    let full = Err(Error::Token(TokenError::TokenFull { writers: 65 }));
    assert_eq!(one.consistency().room_in_token(&before(64)), full);
    one.add("a", 1).unwrap();
    assert_eq!(token(&one, &before(63)).len(), 64);
    assert_eq!(one.consistency().token(&before(64)).map(|_| ()), full);
    let mut seen = replica(64);
    seen.add("a", 1).unwrap();
    take(&seen, &mut one);
    assert_eq!(one.consistency().room_in_token(&before(64)), Ok(()));
    // Stable transactions are left out, but only if there is no room.
    one.membership
        .table_mut()
        .set(crate::membership::table::WriterTable::new());
    one.membership
        .table_mut()
        .stored()
        .writer_states
        .resize_with(one.state.ids().len(), Default::default);
    let number = one.state.number_of(&id(64)).unwrap() as usize;
    one.membership
        .table_mut()
        .stored()
        .stable
        .resize(number + 1, 0);
    assert_eq!(token(&one, &before(62)).get(&id(64)), 1);
    one.membership.table_mut().stored().stable[number] = 1;
    assert_eq!(token(&one, &before(62)).get(&id(64)), 1);
    assert_eq!(token(&one, &before(63)).get(&id(64)), 0);
    assert_eq!(token(&one, &before(63)).len(), 64);
}

#[test]
fn what_may_not_come_along_is_named() {
    let [mut one, two, tab] = space();
    let number = |of: &Replica| one.state.number_of(&of.writer()).unwrap();
    let (other, guest) = (number(&two), number(&tab));
    one.add("a", 1).unwrap();
    assert!(one.consistency().is_merged_along(other) && one.consistency().is_merged_along(guest));
    let by = Stamp {
        writer: OWN,
        clock: 1,
    };
    let over = |number: u32| {
        let mut one = one.clone();
        let (turn, successor) = (0, OWN);
        one.membership.table_mut().stored().writer_states[number as usize].fence = Some(Fence {
            turn,
            by,
            successor,
        });
        one
    };
    for dead in [other, guest] {
        let mut one = over(dead);
        assert!(!one.consistency().is_merged_along(dead));
        let writer = one.state.id(dead);
        let clock = one.state.clock_at(dead);
        assert!(clock > 0);
        assert_eq!(token(&one, &Token::default()).get(&writer), clock);
        let retired = Retired { to: by, upto: 1 };
        one.membership.table_mut().stored().writer_states[dead as usize].retired = Some(retired);
        assert!(one.consistency().is_merged_along(dead));
    }
    // Nobody has taken it in.
    let mut stray = one.clone();
    stray.membership.table_mut().stored().writer_states[guest as usize].intro = None;
    assert!(!stray.consistency().is_merged_along(guest));
    // A guest's word for other guests need not be taken.
    one.membership.table_mut().stored().writer_states[OWN as usize].announce = None;
    assert!(!one.consistency().is_merged_along(guest));
}

#[test]
fn of_who_is_over_only_what_counts_is_held() {
    let [mut one, two, _] = space();
    let writer = two.writer();
    let number = one.state.number_of(&writer).unwrap() as usize;
    let clock = one.state.clocks()[number];
    let upto = |clock| of(&[(writer, clock)]);
    assert_eq!(
        [clock, clock + 1].map(|it| one.consistency().holds(&upto(it))),
        [true, false]
    );
    assert_eq!(
        [clock, clock + 1].map(|it| one.consistency().sees(&upto(it))),
        [true, false]
    );
    assert_eq!(
        one.consistency()
            .vouched_of(&of(&[(writer, 1), (id(99), 7)])),
        upto(clock)
    );
    let to = Stamp {
        writer: OWN,
        clock: 1,
    };
    one.membership.table_mut().stored().writer_states[number].retired = Some(Retired {
        to,
        upto: clock - 1,
    });
    assert_eq!(
        [clock - 1, clock].map(|it| one.consistency().holds(&upto(it))),
        [true, false]
    );
    assert_eq!(
        [clock, clock + 1].map(|it| one.consistency().sees(&upto(it))),
        [true, true]
    );
    assert_eq!(one.consistency().vouched_of(&upto(9)), upto(clock - 1));
    // Also if it is forgotten.
    one.membership.remember(id(77), 5);
    let forgotten = |clock| of(&[(id(77), clock)]);
    assert_eq!(
        [5, 6].map(|it| one.consistency().holds(&forgotten(it))),
        [true, false]
    );
    assert!(one.consistency().sees(&forgotten(6)));
}

#[test]
fn an_acknowledgement_counts_of_a_member_in_its_place() {
    let [mut one, two, _] = space();
    let owner = one
        .membership
        .incarnation(&one.state, &two.writer())
        .unwrap()
        .0;
    let number = one.state.number_of(&two.writer()).unwrap();
    let own = one.clock();
    let ack = Ack {
        clock: 1,
        want: 0,
        seen: Vec::from([(OWN, own)]),
    };
    one.membership.table_mut().stored().writer_states[number as usize].ack = Some(Box::new(ack));
    one.membership.table_mut().stored().writer_states[number as usize].base = None;
    one.membership.table_mut().stored().stable = alloc::vec![100; one.state.ids().len()];
    let writer = one.writer();
    let acked = |one: &Replica, clock| {
        one.consistency()
            .is_acknowledged_by(&owner, &of(&[(writer, clock)]))
    };
    assert!(acked(&one, own) && !acked(&one, own + 1));
    let mine = one.membership.owner_of(OWN).unwrap();
    assert!(
        !one.consistency()
            .is_acknowledged_by(&mine, &one.consistency().written()),
        "its own word is no word"
    );
    let mut unsure = one.clone();
    unsure.membership.table_mut().stored().writer_states[number as usize].base =
        Some(Box::default());
    assert!(!acked(&unsure, own));
    unsure = one.clone();
    unsure.membership.table_mut().stored().stable.clear();
    unsure.membership.table_mut().stored().collected.clear();
    assert!(!acked(&unsure, own));
    let (era, next) = one.membership.next_number().unwrap();
    let ballot = (1, owner);
    let vote = |accepted| {
        Some(Box::new(Vote {
            clock: 2,
            era,
            number: next,
            promised: ballot,
            accepted,
        }))
    };
    let footing = |one: &Replica| one.consistency().footing().unwrap();
    let ruling = |owner| Ruling {
        members: Vec::from([owner]),
        ..Ruling::default()
    };
    one.membership.table_mut().stored().writer_states[number as usize].vote = vote(None);
    assert!(acked(&one, own));
    one.membership.table_mut().stored().writer_states[number as usize].vote =
        vote(Some((ballot, ruling(owner))));
    assert!(!acked(&one, own));
    assert!(!footing(&one).accepted, "another one did");
    one.membership.table_mut().stored().writer_states[OWN as usize].vote =
        vote(Some((ballot, ruling(owner))));
    assert!(footing(&one).accepted);
    assert_eq!(footing(&one).present, (era, next - 1));
    assert_eq!(
        [newest((1, 2), false), newest((1, 2), true)],
        [(1, 2), (1, 3)]
    );
}
