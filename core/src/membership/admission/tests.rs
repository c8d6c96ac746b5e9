//! Admission rules on a state and its membership alone, without a replica.

use super::super::tests::*;
use super::*;
use crate::message::records::{Announce, MembershipRecord};
use crate::state::delta::Delta;
use alloc::boxed::Box;
use alloc::vec;

/// A message of a space with members that has new transactions of a writer.
fn message(writer: u8) -> Message {
    Message {
        delta: Delta {
            writers: vec![Entry {
                writer: id(writer),
                lo: 0,
                hi: 1,
            }],
            ..Delta::default()
        },
        closed: true,
        ..Message::default()
    }
}

/// The status of the writer 9 in a message with these statements about it, which ascend by kind.
fn status(space: &(State, Membership), statements: Vec<Statement>) -> WriterStatus {
    let mut message = message(1);
    message.delta.writers.push(Entry {
        writer: id(9),
        lo: 0,
        hi: 1,
    });
    let about = |statement| MembershipRecord {
        writer: 1,
        statement,
    };
    let records = statements.into_iter().map(about);
    message.records.set(records.collect());
    space.1.writer_status(&space.0, &message, 1, None, 0)
}

#[test]
fn the_records_about_a_writer_say_whether_it_is_new_forgotten_or_a_stranger() {
    let space = founded();
    let admitted = |clock| vec![Statement::Admit(admit(0, by(0, clock)).unwrap())];
    let base = vec![Statement::Base(Box::default(), false)];
    assert!(
        status(&space, admitted(2)) == WriterStatus::Known,
        "the admission is new"
    );
    assert!(
        status(&space, admitted(1)) == WriterStatus::Forgotten,
        "it is held, its writer is not"
    );
    assert!(
        status(&space, Vec::new()) == WriterStatus::Forgotten,
        "its sender knows that it is held"
    );
    assert!(status(&space, base.clone()) == WriterStatus::Stranger);
    let open = (
        State::new(crate::Space::default(), id(1)),
        Membership::new(),
    );
    assert!(
        status(&open, base) == WriterStatus::Known,
        "an open space admits nobody"
    );
}

/// Members ended this writer before they knew whose it was, and so they remember no generation of its owner. A guest
/// has what they refused, and its owner's announcement.
#[test]
fn what_members_refused_of_a_forgotten_writer_is_refused_from_all_others() {
    let (state, mut members) = founded();
    members.remember(id(9), 0);
    let announce = Announce {
        clock: 1,
        owner: [9; 32],
        nonce: [9; 16],
        generation: 9,
    };
    let announces = vec![Statement::Announce(Box::new(announce))];
    let space = (state, members);
    assert!(status(&space, announces.clone()) == WriterStatus::Forgotten);
    let mut message = message(9);
    let record = MembershipRecord {
        writer: 0,
        statement: announces[0].clone(),
    };
    message.records.set(vec![record]);
    let refused = space.1.check(&space.0, &message, None);
    assert_eq!(refused, Err(AdmissionError::Behind.into()));
}

#[test]
fn a_message_is_news_if_it_goes_beyond_what_is_here() {
    let (mut state, mut members) = founded();
    assert!(
        !members.news(&state, &message(1)),
        "it is the own first transaction"
    );
    let number = members.number(&mut state, id(2));
    assert!(members.news(&state, &message(2)));
    state.advance(number as usize, 1);
    assert!(!members.news(&state, &message(2)));
}

/// The chunks of a transfer name fewer writers than the last one, which has the records about them.
#[test]
fn a_chunk_of_a_transfer_has_the_forgotten_writers_of_the_last_one() {
    let named = |writers: &[u8]| {
        let mut message = message(1);
        let entry = |writer: &u8| Entry {
            writer: id(*writer),
            lo: 0,
            hi: 1,
        };
        message.delta.writers = writers.iter().map(entry).collect();
        message
    };
    let mut forgotten = Forgotten::default();
    forgotten.set(vec![1, 3]);
    let of = |chunk: &[u8]| forgotten_in(&named(chunk), &named(&[2, 4, 6, 8]), &forgotten);
    assert_eq!(*of(&[2, 4, 6, 8]), [1, 3]);
    assert_eq!(*of(&[4, 6]), [0]);
    assert_eq!(*of(&[8]), [0]);
    assert!(of(&[2, 6]).is_empty());
}
