//! The parts of a message that a space with members accepts, by hand.

use super::*;
use crate::optional::Optional;
use crate::replica::Mark;
use crate::state::page::{OWN, PAGE, Row};
use crate::state::slot::{Fold, Moved, Slot, Stamp, Watermark, Withdrawal};
use crate::wire::Encode;
use crate::{Op, Space, VersionVector};
use alloc::boxed::Box;
use alloc::{format, vec};

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn member() -> Replica {
    let mut replica = Replica::new(Space::default(), id(1));
    replica.add("k", 1).unwrap();
    replica.members_mut().found(&[1; 32], &[1; 16], 1).unwrap();
    replica
}

fn whole(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// Also beyond the first page of a message.
#[test]
fn all_that_is_known_of_a_counter_comes_with_it() {
    let mut source = Replica::new(Space::default(), id(1));
    let count = 3 * PAGE as i64;
    for at in 0..count {
        source.apply(&format!("k{at}"), Op::Set(at)).unwrap();
    }
    let mut other = Replica::new(Space::default(), id(2));
    other.merge(&whole(&source)).unwrap();
    for at in 0..count {
        assert_eq!(other.value(&format!("k{at}")), Some(i128::from(at)));
    }
}

/// The first state may stand for things that were collected; a store can't add it to nothing.
#[test]
fn the_first_state_is_stored_whole_and_what_follows_is_not() {
    let mut member = member();
    let mut guest = Replica::new(Space::default(), id(2));
    let mut mark = Mark::default();
    assert_eq!(guest.since(&mut mark), None);
    guest.merge(&whole(&member)).unwrap();
    let record = guest.since(&mut mark).expect("it is to be stored");
    assert!(record.is_whole());
    member.add("k", 1).unwrap();
    guest.merge(&member.delta(&guest.vector())).unwrap();
    let record = guest.since(&mut mark).expect("it is to be stored");
    assert!(!record.is_whole());
}

/// An amount that a peer has folded already is still here if this replica has not folded it yet.
#[test]
fn a_fold_that_is_covered_is_not_taken() {
    let mut here = member();
    let key_id = here.key_id("k").unwrap();
    let [successor, gone] = [2, 3].map(|byte| here.membership.number(&mut here.state, id(byte)));
    here.state.set_clock(successor, 8);
    here.state.set_clock(gone, 3);
    let plain = |writer, clock, total| Slot::new(writer, Row { clock, total }, None);
    let to = Stamp {
        writer: successor,
        clock: 8,
    };
    let mut child = plain(gone, 3, 5);
    child
        .side
        .moved
        .set(Some(Box::new(Moved { to, amount: 5 })));
    child.side.watermark = Some(Watermark {
        clock: 2,
        total: 2,
        by: Stamp {
            writer: OWN,
            clock: 1,
        },
    });
    let own = here.state.slots(key_id);
    let mut there = here.clone();
    let slots = [own.clone(), vec![plain(successor, 8, 20), child]].concat();
    here.state.put_slots(key_id, slots.clone());
    let mut folded = plain(successor, 8, 20);
    folded.side.fold.set(Some(Box::new(Fold {
        clock: 8,
        amount: -2,
        adds: true,
        assignment: None,
        until: None,
    })));
    there.state.put_slots(key_id, [own, vec![folded]].concat());
    assert_eq!(here.value("k"), there.value("k"));
    let merged = here.merge(&whole(&there)).unwrap();
    assert_eq!((merged.shards, here.state.slots(key_id)), (0, slots));
}

/// Each replica that merges keeps the same one, whichever came first, and counts it once.
#[test]
fn of_two_withdrawals_of_one_add_all_keep_the_same() {
    let mut one = member();
    let key_id = one.key_id("k").unwrap();
    let [made, first, later] =
        [2, 3, 4].map(|byte| one.membership.number(&mut one.state, id(byte)));
    one.state.set_clock(made, 8);
    let own = one.state.slots(key_id);
    let withdrawn_by = |by: u32| {
        let mut replica = one.clone();
        replica.state.set_clock(by, 5);
        let row = Row { clock: 8, total: 7 };
        let mut slot = Slot::new(made, row, None);
        slot.side.withdrawals.set(vec![Withdrawal {
            clock: 8,
            amount: 7,
            before: 0,
            several: false,
            by: Stamp {
                writer: by,
                clock: 5,
            },
        }]);
        replica
            .state
            .put_slots(key_id, [own.clone(), vec![slot]].concat());
        replica
    };
    let kept = |replica: &Replica| {
        let by = replica.state.slots(key_id)[1].side.withdrawals[0].by;
        replica.state.id(by.writer)
    };
    for (mine, theirs, taken) in [(first, later, 1), (later, first, 0)] {
        let (mut here, there) = (withdrawn_by(mine), withdrawn_by(theirs));
        let message = whole(&there);
        // Parts of a transfer may tell it twice.
        let merged = here.merge_staged(&[message.encode()], &message, None, &mut |_| ());
        assert_eq!(merged.map(|it| it.shards), Ok(taken));
        assert_eq!(kept(&here), id(4));
        assert_eq!(here.value("k"), Some(1));
    }
}

/// A chunk becomes visible with the last one, whose clocks say up to where.
#[test]
fn a_chunk_that_the_last_one_does_not_cover_is_refused() {
    let history = |byte, adds| {
        let mut replica = Replica::new(Space::default(), id(byte));
        for _ in 0..adds {
            replica.add("k", 1).unwrap();
        }
        whole(&replica)
    };
    let merged = |chunk: &Message, last: &Message| {
        let mut here = Replica::new(Space::default(), id(1));
        let merged = here.merge_staged(&[chunk.encode()], last, None, &mut |_| ());
        let value = here.value("k");
        assert!(merged.is_ok() || value.is_none(), "nothing was done");
        merged.map(|_| value)
    };
    let rule = Rule::ChunkCovered;
    let refused = || Err(DecodeError::Malformed { rule }.into());
    let last = history(2, 2);
    assert_eq!(merged(&last, &last), Ok(Some(2)));
    assert_eq!(merged(&history(2, 1), &last), Ok(Some(2)));
    assert_eq!(merged(&history(2, 3), &last), refused());
    assert_eq!(merged(&history(3, 1), &last), refused());
}
