//! Ballots by hand: what a member says to what the others have said.

use super::*;
use crate::Replica;
use crate::bounds::MEMBERS_MAX;
use crate::error::MemberError;
use crate::membership::place::Predecessor;
use crate::message::records::{Ack, Announce, Ballot, Fence, MembershipRecord, Statement, Vote};
use crate::optional::Optional;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::{Space, WriterId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Era and number of the present configuration; the next one is voted on.
const PRESENT: (u64, u64) = (3, 6);

type Accepted = Option<(Ballot, Vec<Owner>)>;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn owner(byte: u8) -> Owner {
    [byte + 1; 32]
}

fn owners(bytes: impl IntoIterator<Item = u8>) -> Vec<Owner> {
    bytes.into_iter().map(owner).collect()
}

fn announce(of: u8, clock: u64) -> Option<Box<Announce>> {
    Some(Box::new(Announce {
        clock,
        owner: owner(of),
        nonce: [0; 16],
        generation: 1,
    }))
}

/// The first of so many members, all of whom it knows, as they know it: each by the writer of its number.
fn member(count: u8) -> Replica {
    let mut replica = Replica::new(Space::default(), id(0));
    for byte in 0..count {
        let number = replica.membership.number(&mut replica.state, id(byte)) as usize;
        assert_eq!(number, usize::from(byte));
        replica.state.set_clock(number as u32, 10);
        replica.membership.table_mut().stored().writer_states[number].announce = announce(byte, 4);
    }
    replica.membership.table_mut().stored().stable = vec![4; usize::from(count)];
    let (era, number) = PRESENT;
    let members = owners(0..count);
    let present = Configuration {
        era,
        number,
        members,
        ..Configuration::default()
    };
    let by = Stamp {
        writer: OWN,
        clock: 1,
    };
    replica.membership.table_mut().stored().configuration = Some((by, present));
    replica
}

/// One more writer of a member's.
fn incarnation(replica: &mut Replica, of: u8) -> usize {
    let number = replica.membership.number(&mut replica.state, id(100 + of)) as usize;
    replica.membership.table_mut().stored().writer_states[number].announce = announce(of, 4);
    number
}

fn fence(replica: &mut Replica, number: usize) {
    let by = Stamp {
        writer: OWN,
        clock: 2,
    };
    replica.membership.table_mut().stored().writer_states[number].fence = Some(Fence {
        turn: 0,
        by,
        successor: OWN,
    });
}

fn of(members: Vec<Owner>) -> Ruling {
    Ruling {
        members,
        ..Ruling::default()
    }
}

fn vote(replica: &mut Replica, number: usize, promised: Ballot, accepted: &Accepted) {
    replica.membership.table_mut().stored().writer_states[number].vote = Some(Box::new(Vote {
        clock: 9,
        era: PRESENT.0,
        number: PRESENT.1 + 1,
        promised,
        accepted: accepted.clone().map(|it| (it.0, of(it.1))),
    }));
}

/// The promise and the acceptance of the first member.
fn own(replica: &Replica) -> Option<(Ballot, Accepted)> {
    let vote = replica.membership.table().writer_states[OWN as usize]
        .vote
        .as_ref()?;
    let number = (PRESENT.0, PRESENT.1 + 1);
    assert_eq!((vote.era, vote.number), number);
    let accepted = vote.accepted.clone();
    Some((vote.promised, accepted.map(|it| (it.0, it.1.members))))
}

#[test]
fn a_majority_promises_and_accepts_before_a_configuration_is_decided() {
    let proposal = owners([0, 8]);
    let ballot = (1, owner(0));
    for (count, majority) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
        let mut replica = member(count);
        replica.members_mut().propose(&proposal).unwrap();
        let others = 1..usize::from(count);
        let mut promised = false;
        for other in others.clone() {
            assert_eq!(own(&replica), Some((ballot, None)));
            assert_eq!(replica.members().proposal(), Some(&proposal[..]));
            assert_eq!(replica.members_mut().vote(), Ok(false));
            vote(&mut replica, other, ballot, &None);
            promised = other + 1 >= majority;
            assert_eq!(
                replica.members_mut().vote(),
                Ok(promised),
                "{other} of {count}"
            );
            if promised {
                break;
            }
        }
        assert_eq!(promised, count > 1);
        let accepted = Some((ballot, proposal.clone()));
        for other in others {
            if other + 1 > majority {
                break;
            }
            assert_eq!(own(&replica), Some((ballot, accepted.clone())));
            assert_eq!(replica.members_mut().vote(), Ok(false));
            vote(&mut replica, other, ballot, &accepted);
            let decided = other + 1 == majority;
            assert_eq!(
                replica.members_mut().vote(),
                Ok(decided),
                "{other} of {count}"
            );
        }
        let clock = replica.clock();
        let (by, decided) = replica.membership.table().configuration.clone().unwrap();
        let number = (decided.era, decided.number);
        assert_eq!(number, (PRESENT.0, PRESENT.1 + 1));
        assert_eq!((by.writer, by.clock), (OWN, clock));
        assert_eq!(decided.members, proposal);
        assert_eq!(replica.members().proposal(), None);
        // The next number is not voted on before somebody asks.
        assert_eq!(replica.members_mut().vote(), Ok(false));
    }
}

/// The vote of a member of five after these votes of others. `before` is its own earlier vote.
#[track_caller]
fn answer(before: Option<(Ballot, Accepted)>, others: &[(Ballot, Accepted)]) -> (Ballot, Accepted) {
    let mut replica = member(5);
    if let Some((promised, accepted)) = &before {
        vote(&mut replica, 0, *promised, accepted);
    }
    for (at, (promised, accepted)) in others.iter().enumerate() {
        vote(&mut replica, at + 1, *promised, accepted);
    }
    let clock = replica.clock();
    let step = replica.membership.vote_once(&mut replica.state).unwrap();
    let stepped = matches!(step, Step::Voted);
    let after = own(&replica);
    assert_eq!(stepped, after != before);
    assert_eq!(replica.clock(), clock + u64::from(stepped));
    after.expect("a vote")
}

#[test]
fn a_member_promises_the_greatest_ballot_and_follows_its_proposer() {
    let [own, one, two] = [0, 1, 2].map(owner);
    let of = |round, owner, members: &[u8]| Some(((round, owner), owners(members.iter().copied())));
    let none = || None;
    // It promises, once.
    assert_eq!(answer(None, &[((1, one), None)]), ((1, one), None));
    let promised = Some(((1, one), None));
    assert_eq!(
        answer(promised.clone(), &[((2, two), None)]),
        ((2, two), None)
    );
    assert_eq!(answer(promised, &[((1, one), None)]), ((1, one), None));
    // A lesser ballot is passed over, whatever was accepted under it.
    let kept = ((2, two), none());
    let lesser = [((1, one), of(1, one, &[7]))];
    assert_eq!(answer(Some(kept.clone()), &lesser), kept);
    // It accepts what the proposer of its ballot accepted, and nothing else.
    let late = [((2, two), of(1, one, &[7]))];
    assert_eq!(answer(Some(kept.clone()), &late), kept);
    let proposers = ((2, two), of(2, two, &[6]));
    assert_eq!(
        answer(Some(kept), &[late[0].clone(), proposers.clone()]),
        proposers
    );
    let others = [proposers];
    assert_eq!(answer(None, &others), others[0]);
    // Its earlier acceptance stands until then.
    let before = ((1, one), of(1, one, &[7]));
    let asked = ((2, two), None);
    let after = ((2, two), of(1, one, &[7]));
    assert_eq!(answer(Some(before), &[asked]), after);
    // Only its proposer accepts something new under a ballot, and it promises before.
    let asked = ((2, two), None);
    let others = [asked.clone(), asked.clone(), asked.clone()];
    assert_eq!(answer(Some(asked.clone()), &others), asked);
    let asked = ((2, own), None);
    let others = [asked.clone(), asked.clone(), asked.clone()];
    assert_eq!(answer(None, &others), asked);
}

#[test]
fn a_proposer_accepts_what_was_accepted_last_before_its_own_proposal() {
    let [one, two] = [1, 2].map(owner);
    let ballot = (5, owner(0));
    let [first, last] = [7, 6].map(|byte| owners([byte]));
    let mut replica = member(5);
    replica.membership.table_mut().stored().proposal = Some(of(owners([8])));
    replica.membership.table_mut().stored().asked = true;
    vote(&mut replica, 0, ballot, &None);
    vote(&mut replica, 1, ballot, &Some(((2, two), last.clone())));
    // Too few have promised.
    let mut few = replica.clone();
    vote(&mut few, 2, (4, one), &Some(((1, one), first.clone())));
    assert_eq!(few.members_mut().vote(), Ok(false));
    vote(&mut replica, 2, ballot, &Some(((1, one), first)));
    replica.members_mut().vote().unwrap();
    assert_eq!(own(&replica), Some((ballot, Some((ballot, last)))));
    // Nothing was accepted, and nobody knows what it proposed: all stays as it is.
    let mut forgetful = member(5);
    for number in 0..3 {
        vote(&mut forgetful, number, ballot, &None);
    }
    forgetful.members_mut().vote().unwrap();
    let present = owners(0..5);
    assert_eq!(own(&forgetful), Some((ballot, Some((ballot, present)))));
}

#[test]
fn only_votes_of_living_incarnations_on_this_number_count() {
    let ballot = (9, owner(1));
    let mut replica = member(3);
    vote(&mut replica, 1, ballot, &None);
    let asked = replica.clone();
    for (era, number) in [(PRESENT.0, PRESENT.1), (PRESENT.0 + 1, PRESENT.1 + 1)] {
        let vote = replica.membership.table_mut().stored().writer_states[1]
            .vote
            .as_mut()
            .unwrap();
        (vote.era, vote.number) = (era, number);
        assert_eq!(replica.members_mut().vote(), Ok(false));
    }
    let mut replica = asked.clone();
    fence(&mut replica, 1);
    assert_eq!(replica.members_mut().vote(), Ok(false));
    // The one with more progress counts among two that live.
    let mut replica = asked;
    let newer = incarnation(&mut replica, 1);
    let accepted = Some((ballot, owners([7])));
    vote(&mut replica, newer, ballot, &accepted);
    replica.members_mut().vote().unwrap();
    let decided = replica.members().configuration().unwrap();
    assert_eq!(decided.members, owners([7]));
}

#[test]
fn a_new_incarnation_votes_once_enough_others_have_taken_it_in() {
    for (count, needed) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3)] {
        let ack = |clock| {
            Some(Box::new(Ack {
                clock: 5,
                want: 0,
                seen: vec![(OWN, clock)],
            }))
        };
        let mut replica = member(count);
        replica.membership.table_mut().stored().writer_states[OWN as usize].ack = ack(10);
        // Nothing is accepted from one that does not count any more.
        let dead = incarnation(&mut replica, 0);
        replica.membership.table_mut().stored().writer_states[dead].ack = ack(10);
        fence(&mut replica, dead);
        assert!(replica.membership.has_vote(&replica.state));
        // Its place is certain, because it was admitted before it announced itself. This is not enough.
        assert!(!replica.membership.table().writer_states[OWN as usize].is_unsure());
        replica.membership.table_mut().stored().stable[OWN as usize] = 3;
        for other in 1..usize::from(count) {
            replica.membership.table_mut().stored().writer_states[other].ack = ack(3);
        }
        for heard in 0..usize::from(count) {
            if heard > 0 {
                replica.membership.table_mut().stored().writer_states[heard].ack = ack(4);
            }
            assert_eq!(
                replica.membership.has_vote(&replica.state),
                heard >= needed,
                "{heard} of {count}"
            );
        }
        fence(&mut replica, OWN as usize);
        assert!(!replica.membership.has_vote(&replica.state));
    }
    let mut new = member(3);
    new.membership.table_mut().stored().stable.clear();
    vote(&mut new, 1, (1, owner(1)), &None);
    assert_eq!((new.members_mut().vote(), own(&new)), (Ok(false), None));
}

/// A member's new start that follows the one before in its place, and that others have acknowledged up to its
/// announcement.
fn following(count: u8, heard: usize) -> (Replica, u32) {
    let mut replica = member(count);
    replica.membership.table_mut().stored().writer_states[OWN as usize].announce = None;
    replica.membership.table_mut().stored().stable.clear();
    let before = incarnation(&mut replica, 0) as u32;
    replica.state.set_clock(before, 7);
    let follows = replica.members().only_start(&owner(0));
    let writer = replica.state.id(before);
    let generation = replica.generation();
    let clock = 7;
    assert_eq!(
        follows,
        Some(Predecessor {
            writer,
            clock,
            generation
        })
    );
    replica
        .members_mut()
        .announce_after(&owner(0), &[1; 16], 5, follows)
        .unwrap();
    let clock = replica.clock();
    for other in 1..=heard {
        replica.membership.table_mut().stored().writer_states[other].ack = Some(Box::new(Ack {
            clock: 5,
            want: 0,
            seen: vec![(OWN, clock)],
        }));
    }
    (replica, before)
}

#[test]
fn a_start_in_the_place_of_the_one_before_votes_once_half_of_the_others_have_taken_it_in() {
    for (count, needed) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (7, 3)] {
        for heard in 0..usize::from(count) {
            let (replica, _) = following(count, heard);
            assert!(replica.members().follows());
            assert_eq!(
                replica.members().has_vote(),
                heard >= needed,
                "{heard} of {count}"
            );
        }
    }
}

#[test]
fn a_start_waits_for_one_more_where_so_many_are_linked() {
    for (linked, heard, votes) in [(0, 1, true), (1, 1, true), (2, 1, false), (2, 2, true)] {
        let (mut replica, _) = following(3, heard);
        replica.membership.note_linked(linked);
        assert_eq!(replica.members().has_vote(), votes, "{linked}, {heard}");
    }
}

/// Acknowledgements wait for guests, which may be gone. This vote waits for none.
#[test]
fn a_start_that_follows_votes_once_it_has_all_that_enough_others_have() {
    for (linked, told, votes) in [(0, 0, false), (1, 1, true), (2, 1, false), (2, 2, true)] {
        let (mut replica, _) = following(3, 0);
        replica.membership.note_linked(linked);
        let clock = replica.clock();
        for other in 1..=told {
            let Replica {
                state, membership, ..
            } = &mut replica;
            let writer = state.id(other);
            // Before it has the announcement, it does not know of this start. Twice is not two.
            for clock in [clock - 1, clock, clock] {
                membership.note_told(state, &writer, clock);
            }
        }
        // One that is no member does not count.
        replica
            .membership
            .note_told(&replica.state, &id(200), clock);
        assert_eq!(replica.members().has_vote(), votes, "{linked}, {told}");
    }
}

/// One of five members that have all lost their disks says nothing for another one, before it has heard of
/// all of them. An owner without an earlier start has heard enough from three.
#[test]
fn a_start_that_may_lack_what_was_decided_acknowledges_no_other_one() {
    for (earlier, sure, known, acknowledges, votes) in [
        (true, true, 2, false, false),
        (true, true, 3, true, true),
        (true, false, 3, false, false),
        (true, false, 4, true, false),
        (false, false, 2, false, false),
        (false, false, 3, true, false),
    ] {
        let mut replica = member(5);
        if earlier {
            let before = incarnation(&mut replica, 0);
            fence(&mut replica, before);
        }
        let table = replica.membership.table_mut().stored();
        table.stable.clear();
        let others = &mut table.writer_states[1..5];
        for other in others {
            other.base = (!sure).then(Box::default);
        }
        // The last one has just begun.
        table.writer_states[4].base = Some(Box::default());
        let Replica {
            state, membership, ..
        } = &mut replica;
        for other in 1..=known {
            let writer = state.id(other);
            membership.note_told(state, &writer, 4);
        }
        let acked = membership.seen(state).contains(&(4, 10));
        let said = (acked, membership.has_vote(state));
        assert_eq!(said, (acknowledges, votes), "{earlier} {sure} {known}");
        // Earlier acknowledgements stay.
        let seen = vec![(4, 7)];
        let (clock, want) = (5, 0);
        membership.table_mut().stored().writer_states[OWN as usize].ack =
            Some(Box::new(Ack { clock, want, seen }));
        let least = if acknowledges { 10 } else { 7 };
        let seen = membership.seen(state);
        assert!(seen.contains(&(4, least)), "{seen:?}");
    }
}

#[test]
fn a_start_of_whose_earlier_one_others_know_more_follows_none() {
    let (mut replica, before) = following(3, 1);
    replica.state.set_clock(before, 8);
    assert!(!replica.members().follows() && !replica.members().has_vote());
    let (mut all, before) = following(3, 2);
    all.state.set_clock(before, 8);
    assert!(!all.members().follows() && all.members().has_vote());
}

#[test]
fn a_start_of_whose_owner_others_know_another_one_follows_none() {
    let (mut replica, _) = following(3, 1);
    let copy = replica.membership.number(&mut replica.state, id(200));
    let statement = Statement::Announce(announce(0, 1).unwrap());
    let writer = copy;
    let record = MembershipRecord { writer, statement };
    let Replica {
        state, membership, ..
    } = &mut replica;
    membership.merge_record(state, &record);
    assert!(!replica.members().follows() && !replica.members().has_vote());
}

#[test]
fn what_is_named_is_followed_only_if_nobody_knows_more_by_then() {
    let begin = |change: &dyn Fn(&mut Replica, usize)| {
        let mut replica = member(3);
        replica.membership.table_mut().stored().writer_states[OWN as usize].announce = None;
        let before = incarnation(&mut replica, 0);
        let follows = replica.members().only_start(&owner(0));
        change(&mut replica, before);
        replica
            .members_mut()
            .announce_after(&owner(0), &[1; 16], 5, follows)
            .unwrap();
        replica.members().follows()
    };
    assert!(begin(&|_, _| ()));
    assert!(!begin(&|it, before| it.state.set_clock(before as u32, 1)));
    assert!(!begin(&|it, before| fence(it, before)));
    assert!(!begin(&|it, _| {
        let other = it.membership.number(&mut it.state, id(200)) as usize;
        it.membership.table_mut().stored().writer_states[other].announce = announce(0, 4);
    }));
    // Two starts of an owner are not one that a next one may follow.
    let mut two = member(3);
    incarnation(&mut two, 0);
    assert_eq!(two.members().only_start(&owner(0)), None);
}

#[test]
fn an_incarnation_takes_over_the_vote_of_the_one_before() {
    let mut replica = member(3);
    replica.membership.table_mut().stored().writer_states[OWN as usize].announce = None;
    let before = incarnation(&mut replica, 0);
    let promised = (4, owner(2));
    let accepted = Some(((2, owner(1)), owners([7])));
    vote(&mut replica, before, promised, &accepted);
    replica
        .members_mut()
        .announce(&owner(0), &[1; 16], 5)
        .unwrap();
    assert_eq!(own(&replica), Some((promised, accepted)));
    let vote = replica.membership.table().writer_states[OWN as usize]
        .vote
        .as_ref()
        .unwrap();
    assert_eq!(vote.clock, replica.clock());
}

#[test]
fn a_list_of_members_is_sorted_without_repeats_and_neither_empty_nor_too_long() {
    assert_eq!(checked(&owners([3, 1, 3])), Ok(owners([1, 3])));
    let full = |members| Err(Error::Member(MemberError::MembersFull { members }));
    assert_eq!(checked(&[]), full(0));
    let numbered = |at: usize| {
        let mut owner = [1; 32];
        owner[..8].copy_from_slice(&(at as u64).to_be_bytes());
        owner
    };
    let more: Vec<Owner> = (0..=MEMBERS_MAX).map(numbered).collect();
    let most = &more[1..];
    assert_eq!(checked(most), Ok(most.to_vec()));
    assert_eq!(checked(&more), full(MEMBERS_MAX + 1));
    let mut replica = member(2);
    let empty = Err(Error::Member(MemberError::MembersFull { members: 0 }));
    assert_eq!(replica.members_mut().propose(&[]), empty);
    replica.membership.table_mut().stored().writer_states[OWN as usize].announce = None;
    let proposed = replica.members_mut().propose(&owners([0]));
    assert_eq!(proposed, Err(MemberError::NotAMember.into()));
    assert_eq!(replica.members().proposal(), None);
}
