//! Starts of members: the evidence of an older store, and two starts at the same time.

use super::returns::aside;
use super::*;
use crate::message::journal::EarlierWriter;

/// A member's start from a store that has the first of its owner's two starts, and a transaction of an earlier
/// writer. Also the state of a replica that knows both starts, whose generations are 5 and 7.
fn from_an_old_copy() -> (End, Replica) {
    let mut home = End::member().replica;
    home.members_mut().force(&[OWNER, OTHER]).unwrap();
    let mut end = End::of(Replica::new(Space::default(), id(9)));
    for generation in [5, 7] {
        let mut start = Replica::new(Space::default(), id(generation as u8));
        start.merge(&full(&home)).unwrap();
        announce(&mut start, generation);
        home.merge(&full(&start)).unwrap();
        if generation == 5 {
            end.replica.merge(&full(&home)).unwrap();
        }
    }
    let mut kept = aside(None, 0);
    kept.stored = true;
    end.replica.rejoin.keep_earlier(kept);
    (end, home)
}

fn announce(replica: &mut Replica, unix_ms: u64) {
    let members = &mut replica.members_mut();
    members.announce(&OTHER, &[0; 16], unix_ms).unwrap();
}

fn is_doubtful(end: &End) -> bool {
    end.replica.rejoin.earlier()[0].doubtful
}

/// The process may end right after it has stored the later start, and before it does its duties. The next process
/// finds that start in the store, where it is no news.
#[test]
fn the_input_that_brings_a_later_start_brings_the_doubt() {
    let (mut end, home) = from_an_old_copy();
    let link = end.link(1, home.writer());
    let mut stored = end.replica.mark();
    let frame = Frame {
        space: Space::default(),
        body: Body::Push(full(&home)),
    };
    assert!(!is_doubtful(&end));
    let bytes = &frame.encode();
    let input = Input::Frame { link, bytes };
    end.sync.handle(end.now, &mut end.replica, input);
    assert_eq!(end.replica.membership.newest_start(&OTHER), 7);
    assert!(is_doubtful(&end));
    // The store has it, too.
    let record = end.replica.since(&mut stored).unwrap();
    let doubtful = |it: &EarlierWriter| it.doubtful;
    assert!(record.earlier.iter().any(doubtful));
}

/// A process that can't catch up announces itself under a later generation than that of the start which shows that
/// its store was an old copy.
#[test]
fn a_start_before_the_own_one_may_be_later_than_the_store() {
    let (mut end, home) = from_an_old_copy();
    end.sync.note_starts(&mut end.replica);
    announce(&mut end.replica, 9);
    end.sync.note_starts(&mut end.replica);
    assert!(!is_doubtful(&end));
    // It missed what was collected, and begins again from a member's state.
    let begun = end
        .replica
        .rejoin_mut()
        .begin_again(id(8), &full(&home), &mut |_| ());
    begun.unwrap();
    end.sync.note_starts(&mut end.replica);
    assert!(is_doubtful(&end));
}

/// Two of three members start at the same time, and one of them writes before it announces itself. No member
/// could admit it, so what it has is not merged before.
#[test]
fn starts_that_have_written_do_not_wait_for_each_other() {
    let owners = [OWNER, OTHER, [3; 32]];
    let mut home = End::member().replica;
    home.members_mut().force(&owners).unwrap();
    let [mut one, mut other] = [9, 10].map(|byte| {
        let mut replica = Replica::new(Space::default(), id(byte));
        replica.merge(&full(&home)).unwrap();
        End::of(replica)
    });
    other.sync.config.owner = Some(owners[2]);
    other.replica.add("key", 1).unwrap();
    let (link, broadcast) = (Link(1), false);
    for end in [&mut one, &mut other] {
        let input = Input::Connected { link, broadcast };
        end.sync.handle(0, &mut end.replica, input);
    }
    one.sync.set_owner(link, owners[2]);
    other.sync.set_owner(link, OTHER);
    assert!(!one.sync.has_caught_up(&one.replica));
    for _ in 0..10 {
        let frames = other.frames();
        one.deliver(link, frames);
        let frames = one.frames();
        other.deliver(link, frames);
    }
    assert_eq!(one.replica.value("key"), None);
    assert!(one.sync.has_caught_up(&one.replica));
    assert!(other.sync.has_caught_up(&other.replica));
}

/// A member that may have been judged as a guest checks this by itself.
#[test]
fn a_member_does_not_believe_that_it_has_to_come_back() {
    let [early, new, known] = second();
    for (replica, upto, believes) in [
        (End::guest().replica, 0, true),
        (early, 0, false),
        (new.clone(), 0, false),
        (new, 1, true),
        (known.clone(), 0, false),
        (known, 1, false),
    ] {
        let mut end = End::of(replica);
        let link = end.link(1, id(1));
        let own = end.replica.writer();
        let End { replica, sync, .. } = &mut end;
        sync.ended(0, replica, link, (own, Last::Unsure(upto)));
        assert_eq!(end.sync.guests.coming_back.is_some(), believes, "{upto}");
    }
}

/// A member's start has what another replica made before the space had members. The members never had it.
#[test]
fn a_start_with_strangers_first_takes_a_members_whole_state() {
    let counted = |byte| {
        let mut replica = Replica::new(Space::default(), id(byte));
        replica.add("key", 1).unwrap();
        replica
    };
    let (mut home, mut start) = (counted(100), Replica::new(Space::default(), id(9)));
    start.merge(&full(&home)).unwrap();
    start.merge(&full(&counted(8))).unwrap();
    let known = start.vector();
    home.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
    home.members_mut().force(&[OWNER, OTHER]).unwrap();
    start.merge(&home.delta(&known)).unwrap();
    let mut end = End::of(start);
    let link = end.link(1, home.writer());
    end.sync.is_level(link);
    assert_eq!(end.replica.value("key"), Some(2));
    assert!(!end.sync.has_caught_up(&end.replica));
    assert!(end.sync.wants_all(&end.replica, link));
    home.add("key", 4).unwrap();
    end.replica.merge(&full(&home)).unwrap();
    assert_eq!(end.replica.value("key"), Some(5));
    assert!(end.sync.has_caught_up(&end.replica));
    assert!(!end.sync.wants_all(&end.replica, link));
}

/// Members may have accepted since what this guest refuses, or what it refused when they did, too.
#[test]
fn a_guest_that_refuses_what_a_member_has_begins_again() {
    let refuse = |mut end: End, byte| {
        let (link, message) = (end.link(1, id(byte)), telling(Some(id(byte))));
        let End { replica, sync, now } = &mut end;
        let error = AdmissionError::Behind.into();
        let done = sync.not_merged(*now, replica, Some(link), &message, Some(id(byte)), error);
        assert_eq!(done, Ok(()));
        let comes_back = end.sync.guests.coming_back.is_some();
        (comes_back, !end.told().is_empty())
    };
    assert_eq!(refuse(End::guest(), 100), (true, false));
    assert_eq!(refuse(End::guest(), 1), (false, true), "from a guest");
    assert_eq!(refuse(End::member(), 1), (false, true));
    let mut early = End::guest();
    early.sync.config.owner = Some(OWNER);
    assert_eq!(refuse(early, 100), (false, true), "it is to be a member");
}
