//! Records of earlier writers, and the form in which a store gets them.

use super::*;
use crate::Journal;
use crate::Mark;
use crate::message::Message;
use crate::message::records::{Admit, Announce, Fence, Intro, Leave, Owner, Statement};
use crate::optional::Empty;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use crate::writer_id::Space;
use alloc::boxed::Box;
use alloc::vec;

const OWNER: Owner = [1; 32];

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), id(byte))
}

/// An earlier writer that made so many transactions before the space had members.
fn earlier(byte: u8, open: u64) -> EarlierWriter {
    let mut journal = Journal::EMPTY;
    (journal.writer, journal.open) = (Some(id(byte)), open);
    EarlierWriter::new(id(byte), journal)
}

/// A replica that holds 3 transactions of each of these earlier writers, of which it is known that
/// there were so many.
fn with(earlier_writers: &[(u8, u64)]) -> Replica {
    let mut replica = replica(0);
    for &(byte, open) in earlier_writers {
        let number = replica.membership.number(&mut replica.state, id(byte));
        replica.state.set_clock(number, 3);
        replica.rejoin.keep_earlier(earlier(byte, open));
    }
    replica
}

fn kept(message: &Message) -> Vec<(WriterId, u64)> {
    let kept = message.earlier.iter();
    kept.map(|it| (it.writer, it.journal.told)).collect()
}

#[test]
fn a_store_is_told_what_others_may_know_once() {
    let mut replica = with(&[(7, 3)]);
    let mut mark = Mark::default();
    replica.add("key", 1).unwrap();
    let first = replica.since(&mut mark).unwrap();
    assert_eq!(kept(&first), [(id(0), 0)]);
    assert!(replica.since(&mut mark).is_none());
    for (member, as_guest) in [(true, 0), (false, 2)] {
        replica.add("key", 1).unwrap();
        replica.rejoin.note_sent(&replica.state, member);
        let told = (replica.rejoin.sent_upto(), replica.rejoin.sent_as_guest());
        assert_eq!(told, (replica.clock(), as_guest.min(1) * replica.clock()));
        assert_eq!(kept(&replica.since(&mut mark).unwrap()), [(id(0), told.0)]);
        replica.rejoin.note_sent(&replica.state, member);
        assert!(replica.since(&mut mark).is_none());
    }
    replica.add("key", 1).unwrap();
    replica.since(&mut mark).unwrap();
    replica.rejoin.note_sent(&replica.state, true);
    assert_eq!(kept(&replica.since(&mut mark).unwrap()), [(id(0), 4)]);
    replica.rejoin.note_earlier_told(&replica.state);
    let message = replica.since(&mut mark).unwrap();
    assert_eq!(kept(&message), [(id(7), 3), (id(0), 4)]);
    assert!(replica.since(&mut mark).is_none());
    assert_eq!(kept(&replica.snapshot()), [(id(7), 3), (id(0), 4)]);
}

/// A store gets a transaction once. A repetition would take back later removals.
#[test]
fn a_store_is_told_of_own_transactions_if_there_is_something_to_tell() {
    let mut replica = with(&[]);
    let mut mark = Mark::default();
    let mut hear = |replica: &mut Replica, byte| {
        let mut other = self::replica(byte);
        other.add("key", 1).unwrap();
        let news = other.delta(&VersionVector::default());
        replica.merge(&news).unwrap();
        let kept = replica.since(&mut mark).unwrap().earlier;
        let own = |it: &EarlierWriter| (it.writer, it.journal.open, it.journal.dropped);
        kept.iter().map(own).collect::<Vec<_>>()
    };
    assert_eq!(hear(&mut replica, 1), []);
    replica.add("key", 1).unwrap();
    assert_eq!(hear(&mut replica, 2), [(id(0), 1, 0)]);
    assert_eq!(hear(&mut replica, 3), []);
    // Held by a member, which is nobody but itself.
    replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    replica.add("key", 1).unwrap();
    replica
        .rejoin
        .keep_no_journal_alone(&replica.state, &replica.membership);
    let kept = replica.since(&mut mark).unwrap().earlier;
    assert_eq!((kept.len(), kept[0].journal.dropped), (1, 3));
    assert_eq!((kept[0].journal.told, kept[0].last()), (0, 0));
}

/// A change of one writer is news, even if as much is forgotten of another.
#[test]
fn a_store_is_told_of_each_earlier_writer_what_others_may_know() {
    let mut replica = with(&[(8, 2)]);
    let mut over = earlier(7, 0);
    over.journal.told = 2;
    replica.rejoin.keep_earlier(over);
    let mut mark = replica.mark();
    replica
        .rejoin
        .drop_earlier(&replica.state, &replica.membership, false);
    replica.rejoin.note_earlier_told(&replica.state);
    let message = replica.since(&mut mark).expect("it is to be stored");
    assert_eq!(kept(&message), [(id(8), 2)]);
}

#[test]
fn what_no_member_holds_is_counted() {
    let mut replica = with(&[(6, 3), (7, 9), (8, 0), (9, 0)]);
    replica.rejoin.earlier_mut()[3].journal.made =
        [2, 4].map(|clock| Made::one(clock, Vec::new())).into();
    replica.add("key", 1).unwrap();
    assert_eq!(replica.consistency().unconfirmed(), 0);
    replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    replica.add("key", 1).unwrap();
    // How many there were while the space was open is not known.
    assert_eq!(replica.consistency().unconfirmed(), 1 + 1 + 2 + 1);
}

#[test]
fn who_took_in_a_earlier_writer_is_noted_and_stored() {
    let mut replica = with(&[(7, 3), (8, 3)]);
    replica.members_mut().found(&OWNER, &[0; 16], 5).unwrap();
    let heard = Intro {
        by: id(3),
        clock: 4,
        owner: OWNER,
        generation: 1,
    };
    let number = replica.membership.number(&mut replica.state, id(8)) as usize;
    replica.membership.table_mut().stored().writer_states[number] = Default::default();
    replica.rejoin.earlier_mut()[1].intro = Some(heard);
    replica.rejoin.keep_earlier(earlier(9, 3));
    replica
        .rejoin
        .note_intros(&replica.state, &replica.membership);
    let mut mark = replica.mark();
    replica.rejoin.note_earlier_told(&replica.state);
    let by = Intro {
        by: id(0),
        clock: 1,
        owner: OWNER,
        generation: 5,
    };
    let intros = |kept: &[EarlierWriter]| kept.iter().map(|it| it.intro).collect::<Vec<_>>();
    let kept = replica.since(&mut mark).unwrap().earlier;
    assert_eq!(intros(&kept), [Some(by), Some(heard), None]);
    assert_eq!(intros(replica.rejoin.earlier()), intros(&kept));
}

#[test]
fn nobody_can_be_told_what_is_not_held() {
    let mut replica = with(&[(7, 3), (8, 4)]);
    replica.rejoin.note_earlier_told(&replica.state);
    let told: Vec<u64> = replica
        .rejoin
        .earlier()
        .iter()
        .map(|it| it.journal.told)
        .collect();
    assert_eq!(told, [3, 0]);
    let lost: Vec<WriterId> = replica
        .rejoin
        .lost(&replica.state, &replica.membership)
        .map(|it| it.writer)
        .collect();
    assert_eq!(lost, [id(8)]);
    let taken = replica.rejoin.take_lost(&replica.state, |_| true);
    assert_eq!((taken.len(), taken[0].writer), (1, id(8)));
    assert_eq!(replica.rejoin.earlier().len(), 1);
    assert!(
        replica
            .rejoin
            .take_lost(&replica.state, |_| true)
            .is_empty()
    );
}

#[test]
fn what_a_store_kept_is_what_others_may_know() {
    let mut stored = earlier(7, 3);
    (stored.journal.told, stored.journal.as_guest) = (3, 2);
    let mut replica = replica(0);
    replica.rejoin.restore_earlier(&replica.state, &stored);
    let more = EarlierWriter {
        journal: earlier(7, 5).journal,
        ..stored.clone()
    };
    replica
        .rejoin
        .restore_earlier(&replica.state, &earlier(8, 1));
    replica.rejoin.restore_earlier(&replica.state, &more);
    let of = |replica: &Replica, at: usize| {
        let it = &replica.rejoin.earlier()[at];
        let journal = &it.journal;
        (it.before, journal.open, journal.told, it.stored)
    };
    assert_eq!(of(&replica, 0), (2, 5, 3, true));
    assert_eq!(of(&replica, 1), (0, 1, 0, true));
    assert_eq!(replica.rejoin.earlier().len(), 2);
    // The present writer's is no earlier one's.
    replica
        .rejoin
        .restore_earlier(&replica.state, &earlier(0, 9));
    assert_eq!(
        (
            replica.rejoin.journal().open,
            replica.rejoin.earlier().len()
        ),
        (9, 2)
    );
}

#[test]
fn only_what_came_from_an_old_copy_is_doubtful() {
    let mut replica = replica(0);
    replica
        .rejoin
        .restore_earlier(&replica.state, &earlier(7, 3));
    replica.rejoin.keep_earlier(earlier(8, 3));
    replica.rejoin.doubt_earlier();
    let doubts = |it: &EarlierWriter| (it.doubtful, it.journal.told);
    let doubts: Vec<(bool, u64)> = replica.rejoin.earlier().iter().map(doubts).collect();
    assert_eq!(doubts, [(true, 3), (false, 0)]);
}

#[test]
fn a_doubt_outlives_the_process() {
    for told in [0, 3] {
        let mut replica = replica(0);
        replica
            .rejoin
            .restore_earlier(&replica.state, &earlier(7, 3));
        replica.rejoin.earlier_mut()[0].journal.told = told;
        let mut mark = Mark::default();
        replica.add("key", 1).unwrap();
        replica.since(&mut mark);
        let mut log = vec![replica.snapshot()];
        replica.rejoin.doubt_earlier();
        log.push(replica.since(&mut mark).expect("there is a doubt to store"));
        assert!(replica.since(&mut mark).is_none());
        for log in [log, vec![replica.snapshot()]] {
            let mut again = Replica::new(Space::default(), id(1));
            for message in log {
                let message = Message::decode_stored(&message.encode_stored()).unwrap();
                again.restore(&message).unwrap();
            }
            let earlier = again.rejoin.earlier().iter().find(|it| it.writer == id(7));
            assert!(earlier.unwrap().doubtful);
        }
    }
}

/// A member may have transactions of an unsure writer. Their record here is dropped once it is certain how
/// much counts.
#[test]
fn what_an_unsure_one_made_is_kept() {
    let mut replica = with(&[(7, 3), (8, 3), (9, 3)]);
    let (seven, eight) = (
        replica.membership.number(&mut replica.state, id(7)),
        replica.membership.number(&mut replica.state, id(8)),
    );
    for number in [seven, eight] {
        let announce = Announce {
            clock: 1,
            owner: OWNER,
            nonce: [0; 16],
            generation: 1,
        };
        replica.membership.note(
            &replica.state,
            number,
            Statement::Announce(Box::new(announce)),
        );
        replica.membership.table_mut().stored().writer_states[number as usize].base =
            Some(Box::default());
    }
    let last = |replica: &Replica| {
        let last = replica.rejoin.earlier().iter().map(EarlierWriter::last);
        last.collect::<Vec<_>>()
    };
    replica.rejoin.earlier_held(&replica.membership, |_| 3);
    assert_eq!(last(&replica), [3, 3, 3]); // all that merged the two may still rejoin
    replica.membership.table_mut().stored().writer_states[eight as usize].base = None;
    replica.rejoin.earlier_held(&replica.membership, |_| 3);
    assert_eq!(last(&replica), [3, 3, 3]);
    // Where it began again, nothing may be known of it, nor after that in another process.
    replica.clear(id(1));
    let message = Message::decode_stored(&replica.snapshot().encode_stored()).unwrap();
    let mut again = self::replica(2);
    again.restore(&message).unwrap();
    for mut replica in [replica, again] {
        replica.rejoin.earlier_held(&replica.membership, |_| 3);
        assert_eq!(last(&replica), [3, 0, 0]);
        replica.membership.remember(id(7), 3);
        replica
            .rejoin
            .drop_earlier(&replica.state, &replica.membership, false);
        assert!(!replica.rejoin.is_earlier(&id(7)));
    }
}

#[test]
fn the_newest_start_of_an_owner_is_another_one() {
    let mut replica = with(&[]);
    assert_eq!(replica.membership.newest_start(&OWNER), 0);
    for (byte, generation) in [(0, 9), (1, 4), (2, 6)] {
        let number = replica.membership.number(&mut replica.state, id(byte));
        let announce = Announce {
            clock: 1,
            owner: OWNER,
            nonce: [0; 16],
            generation,
        };
        replica.membership.note(
            &replica.state,
            number,
            Statement::Announce(Box::new(announce)),
        );
    }
    assert_eq!(replica.membership.newest_start(&OWNER), 6);
    assert_eq!(replica.membership.newest_start(&[2; 32]), 0);
    let by = Stamp {
        writer: OWN,
        clock: 1,
    };
    replica.membership.note_forgotten(by, OWNER, 7);
    assert_eq!(replica.membership.newest_start(&OWNER), 7);
}

#[test]
fn earlier_writers_are_kept_as_long_as_there_is_something_to_know() {
    let mut replica = with(&[(1, 0), (2, 4), (3, 0), (4, 0)]);
    let by = Stamp {
        writer: OWN,
        clock: 1,
    };
    replica.rejoin.keep_earlier(earlier(5, 0)); // nobody knows it
    let number =
        |replica: &mut Replica, byte| replica.membership.number(&mut replica.state, id(byte));
    let (three, four) = (number(&mut replica, 3), number(&mut replica, 4));
    replica.membership.note(
        &replica.state,
        three,
        Statement::Leave(Leave {
            clock: 1,
            successor: OWN,
        }),
    );
    let announce = Announce {
        clock: 1,
        owner: OWNER,
        nonce: [0; 16],
        generation: 1,
    };
    replica.membership.note(
        &replica.state,
        four,
        Statement::Announce(Box::new(announce)),
    );
    let one = number(&mut replica, 1);
    replica
        .membership
        .note(&replica.state, one, Statement::Admit(Admit { turn: 0, by }));
    replica
        .rejoin
        .drop_earlier(&replica.state, &replica.membership, false);
    let left: Vec<WriterId> = replica
        .rejoin
        .earlier()
        .iter()
        .map(|it| it.writer)
        .collect();
    assert_eq!(left, [id(1), id(2)]);
    let behind = replica
        .rejoin
        .left_behind(&replica.state, &replica.membership);
    let behind: Vec<WriterId> = behind.into_iter().map(|it| it.0).collect();
    assert_eq!(behind, [id(1), id(2)]);
    // All of 2 counts.
    replica.membership.remember(id(2), 4);
    replica.state.drop_number(&id(2));
    replica
        .rejoin
        .drop_earlier(&replica.state, &replica.membership, false);
    assert_eq!(replica.rejoin.earlier().len(), 1);
}

/// A start that was taken in and ended before it wrote anything, as a member's before it announced itself.
#[test]
fn who_wrote_nothing_is_left_behind_if_members_wait_for_it() {
    let mut member = replica(1);
    member.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    let next = |member: &Replica| {
        let mut guest = replica(2);
        guest.merge(&member.snapshot()).unwrap();
        let mut next = replica(3);
        next.restore(&guest.snapshot()).unwrap();
        let behind = next
            .rejoin
            .left_behind(&next.state, &next.membership)
            .into_iter();
        behind.map(|it| it.0).collect::<Vec<WriterId>>()
    };
    assert_eq!(next(&member), []);
    member.members_mut().admit(&id(2)).unwrap();
    assert_eq!(next(&member), [id(2)]);
}

/// A member's start ends before it hears that it was taken in, and the next one keeps it in mind until
/// it has announced itself.
#[test]
fn who_wrote_nothing_is_left_behind_if_it_may_have_been_taken_in_unheard() {
    let mut member = replica(1);
    member.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    let mut start = replica(2);
    start.merge(&member.snapshot()).unwrap();
    let mut mark = start.mark();
    assert_eq!(start.since(&mut mark), None);
    start.membership.note_early(true);
    let record = start.since(&mut mark).expect("it is written down");
    assert_eq!(start.since(&mut mark), None);
    let mut next = replica(3);
    next.restore(&member.snapshot()).unwrap();
    next.restore(&record).unwrap();
    assert_eq!(next.rejoin.left_behind(&next.state, &next.membership), []);
    next.rejoin
        .drop_earlier(&next.state, &next.membership, true);
    assert_eq!(next.rejoin.earlier().len(), 1);
    // The member that admitted it names it.
    member.members_mut().admit(&id(2)).unwrap();
    next.merge(&member.snapshot()).unwrap();
    next.rejoin
        .drop_earlier(&next.state, &next.membership, false);
    assert_eq!(
        next.rejoin.left_behind(&next.state, &next.membership)[0].0,
        id(2)
    );
    // No member names another one.
    let mut other = replica(4);
    other.restore(&record).unwrap();
    other
        .rejoin
        .drop_earlier(&other.state, &other.membership, false);
    assert_eq!(other.rejoin.earlier().len(), 0);
}

#[test]
fn who_was_declared_dead_as_it_was_heard_of_was_not_taken_in_by_that() {
    let mut replica = with(&[]);
    let announce = Announce {
        clock: 1,
        owner: OWNER,
        nonce: [0; 16],
        generation: 1,
    };
    replica
        .membership
        .note(&replica.state, OWN, Statement::Announce(Box::new(announce)));
    let number = replica.membership.number(&mut replica.state, id(7));
    let by = |clock| Stamp { writer: OWN, clock };
    let admit = |clock| {
        Statement::Admit(Admit {
            turn: 0,
            by: by(clock),
        })
    };
    for (admitted, known) in [(2, true), (3, false)] {
        let mut replica = replica.clone();
        replica
            .membership
            .note(&replica.state, number, admit(admitted));
        assert!(
            replica
                .membership
                .intro_of(&replica.state, number)
                .is_some()
        );
        let (turn, successor) = (0, OWN);
        let fence = Fence {
            turn,
            by: by(3),
            successor,
        };
        replica
            .membership
            .note(&replica.state, number, Statement::Fence(fence));
        assert_eq!(
            replica
                .membership
                .intro_of(&replica.state, number)
                .is_some(),
            known
        );
    }
}

/// That no member had received it before it was declared dead says the transaction that did both.
#[test]
fn an_earlier_writer_that_was_buried_with_something_in_the_state_is_found() {
    let found = |admitted: u64, fenced: u64, held: u64| {
        let mut replica = with(&[(7, 3)]);
        let number = replica.state.number_of(&id(7)).unwrap();
        replica.state.set_clock(number, held);
        let by = |clock| Stamp { writer: OWN, clock };
        let admit = |by| Statement::Admit(Admit { turn: 0, by });
        let (membership, state) = (&mut replica.membership, &replica.state);
        membership.note(state, number, admit(by(admitted)));
        let fence = Fence {
            turn: 0,
            by: by(fenced),
            successor: OWN,
        };
        membership.note(state, number, Statement::Fence(fence));
        replica
            .rejoin
            .state_has_buried(&replica.state, &replica.membership)
    };
    assert!(found(5, 5, 3) && found(5, 5, 1));
    assert!(!found(5, 5, 0), "the state has nothing of it");
    assert!(!found(4, 5, 3), "it was known before");
    let unknown = with(&[]);
    let (state, membership) = (&unknown.state, &unknown.membership);
    assert!(!unknown.rejoin.state_has_buried(state, membership));
}

#[test]
fn whether_an_earlier_writers_place_was_certain_outlives_the_process() {
    for (first, then) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut replica = replica(0);
        for unsure in [first, then] {
            let stored = EarlierWriter {
                unsure,
                ..earlier(7, 3)
            };
            replica.rejoin.restore_earlier(&replica.state, &stored);
        }
        assert_eq!(replica.rejoin.earlier()[0].unsure, first || then);
    }
}
