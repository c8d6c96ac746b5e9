//! A copy of a member's data at an end of a link.

use super::returns::aside;
use super::*;
use crate::wire::{COPY, Digests, Hello, VERSION};

/// A copy of the only member's data, whose owner this is.
fn copy() -> End {
    let mut end = End::guest();
    end.sync.config.owner = Some(OWNER);
    end.replica.members_mut().stand_aside(vec![id(7)]);
    end
}

/// The capabilities of the hello on a fresh link.
fn capabilities(end: &mut End) -> u64 {
    let (link, broadcast) = (Link(9), false);
    let input = Input::Connected { link, broadcast };
    end.sync.handle(0, &mut end.replica, input);
    let mut sent = end.sent().0.into_iter();
    sent.find_map(|(_, body)| match body {
        Body::Hello(hello) => Some(hello.capabilities),
        _ => None,
    })
    .expect("a hello")
}

#[test]
fn a_copy_says_so_in_its_hello_until_it_is_adopted() {
    assert_eq!(capabilities(&mut End::member()) & COPY, 0);
    let mut end = copy();
    assert_eq!(capabilities(&mut end) & COPY, COPY);
    end.replica.members_mut().adopt();
    end.cut(Link(9));
    assert_eq!(capabilities(&mut end) & COPY, 0);
}

#[test]
fn a_copy_is_not_about_to_announce_itself() {
    let mut end = copy();
    assert!(!end.sync.is_early(&end.replica));
    end.replica.members_mut().adopt();
    assert!(end.sync.is_early(&end.replica));
}

#[test]
fn a_hello_of_a_copy_is_told_and_its_link_is_no_start_of_a_member() {
    let mut end = End::member();
    end.replica.members_mut().force(&[OWNER, [3; 32]]).unwrap();
    for (number, capabilities) in [(1, 0), (2, COPY)] {
        let (link, broadcast) = (Link(number), false);
        let input = Input::Connected { link, broadcast };
        end.sync.handle(0, &mut end.replica, input);
        end.sync.set_owner(link, [3; 32]);
        let digests = Digests {
            vector: [0; 16],
            contents: 0,
        };
        let hello = Body::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities,
            session: u64::from(number),
            agent: "".into(),
            nonce: [0; 16],
            proof: Vec::new(),
            digests,
            writer: id(number as u8),
            clock: 0,
        });
        let frame = Frame {
            space: end.replica.space().clone(),
            body: hello,
        };
        let bytes = &*frame.encode();
        let input = Input::Frame { link, bytes };
        end.sync.handle(0, &mut end.replica, input);
        if capabilities == COPY {
            assert_eq!(end.sync.take_copies(), [(link, id(2))]);
            assert!(end.sync.guests.brief.ends_with(&[id(2)]));
            end.sync.set_writer(link, id(5));
            assert_eq!(end.sync.take_copies(), [(link, id(5))]);
            assert!(end.sync.guests.brief.ends_with(&[id(2), id(5)]));
            assert_eq!(end.sync.linked_member_count(&end.replica), 0);
        } else {
            assert_eq!(end.sync.linked_member_count(&end.replica), 1);
            end.cut(link);
        }
        assert_eq!(end.sync.take_copies(), []);
    }
}

/// A linked copy that has looked back at an earlier writer with this id.
fn copy_that_looks_back(byte: u8) -> End {
    let mut end = copy();
    end.link(1, id(100));
    let mut it = aside(None, 1);
    it.writer = id(byte);
    end.replica.rejoin.keep_earlier(it);
    let End { replica, sync, now } = &mut end;
    sync.look_back(*now, replica).unwrap();
    end
}

/// The original may still write under its writers, and makes their transactions again itself.
#[test]
fn a_copy_has_no_writer_of_its_original_ended() {
    for (byte, links) in [(7, vec![]), (6, vec![Link(1)])] {
        let mut end = copy_that_looks_back(byte);
        assert_eq!(end.asked(), links, "{byte}");
    }
}

#[test]
fn a_copy_makes_nothing_of_its_original_again() {
    for (byte, value) in [(7, None), (6, Some(5))] {
        let mut end = copy_that_looks_back(byte);
        let End { replica, sync, now } = &mut end;
        sync.earlier_ended(Link(1), id(byte), Last::Nothing);
        sync.make_again(*now, replica, id(9));
        assert_eq!(end.replica.value("key"), value, "{byte}");
    }
}

/// A member answers the owner of a member that this one is to come back as a member.
#[test]
fn a_copy_asks_as_a_guest() {
    let mut end = copy();
    let link = end.link(1, id(100));
    end.sync.begin_rejoin(0, &end.replica, link);
    let sent = end.sent().0.into_iter();
    let owners = sent.filter_map(|(_, body)| match body {
        Body::Return { owner, .. } => Some(owner),
        _ => None,
    });
    assert_eq!(owners.collect::<Vec<_>>(), [None]);
}

/// Passes the frames of a copy and a member on. The copy gets the writer 201 if it asks for one. Before that, it
/// sends nothing that it counted.
fn pass(copy: &mut End, member: &mut End, link: Link) {
    for _ in 0..40 {
        for is_copy in [true, false] {
            let (from, to) = match is_copy {
                true => (&mut *copy, &mut *member),
                false => (&mut *member, &mut *copy),
            };
            from.now += 100;
            from.sync.handle(from.now, &mut from.replica, Input::Tick);
            let mut frames = Vec::new();
            for output in from.outputs() {
                match output {
                    Output::Renew => {
                        let writer = id(201);
                        let input = Input::Renew { writer };
                        from.sync.handle(from.now, &mut from.replica, input);
                    }
                    Output::Send { bytes, .. } => frames.push(bytes.to_vec()),
                    _ => {}
                }
            }
            let early = from.replica.writer() == id(200);
            for bytes in frames.iter().filter(|_| early) {
                let body = Frame::decode(bytes).unwrap().body;
                assert!(!matches!(body, Body::Push(_) | Body::Delta(_)), "{body:?}");
            }
            to.deliver(link, frames);
        }
    }
}

/// It may have begun from too old a state. The member that ends its writer would wait for the original.
#[test]
fn a_copy_that_counted_before_its_first_link_begins_again_before_it_sends() {
    for is_late in [false, true] {
        let (mut copy, mut member) = (copy(), End::member());
        let (link, broadcast) = (Link(1), false);
        if !is_late {
            copy.replica.add("likes", 5).unwrap();
        }
        for end in [&mut copy, &mut member] {
            let input = Input::Connected { link, broadcast };
            end.sync.handle(0, &mut end.replica, input);
        }
        let hello = member.frames().into_iter().take(1);
        copy.deliver(link, hello.collect());
        if is_late {
            copy.replica.add("likes", 5).unwrap();
            copy.sync.handle(0, &mut copy.replica, Input::Changed);
        }
        assert!(copy.sync.is_unsent());
        pass(&mut copy, &mut member, link);
        for end in [&copy, &member] {
            assert_eq!(end.replica.value("likes"), Some(5), "{is_late}");
        }
        assert_eq!(member.replica.state.held(&id(200)), 0);
        assert_eq!(copy.replica.writer(), id(201));
        assert!(!copy.sync.is_unsent());
    }
}

/// A replica that is no copy, or that has sent something, asks the members how much of it counts.
#[test]
fn only_a_copy_that_has_sent_nothing_begins_again_by_itself() {
    let mut guest = End::guest();
    guest.replica.add("likes", 5).unwrap();
    let mut sent = copy();
    sent.link(1, id(100));
    sent.sync.note_sent(&mut sent.replica);
    sent.replica.add("likes", 5).unwrap();
    sent.sync.note_sent(&mut sent.replica);
    for end in [&mut guest, &mut sent] {
        end.link(2, id(100));
        end.sync.handle(0, &mut end.replica, Input::Changed);
        assert!(!end.sync.is_unsent());
    }
}

/// What a writer takes that is over does not count.
#[test]
fn a_member_whose_writer_is_over_takes_nothing_until_it_goes_on() {
    let mut end = End::member();
    let link = end.link(1, id(1));
    let tick = |end: &mut End| {
        let End { replica, sync, now } = end;
        sync.handle(*now, replica, Input::Tick);
    };
    tick(&mut end);
    assert!(end.replica.members().may_take());
    end.sync.begin_rejoin(0, &end.replica, link);
    tick(&mut end);
    let members = end.replica.members();
    assert!(members.is_member() && !members.may_take());
    #[cfg(feature = "budgets")]
    {
        use crate::error::MemberError;
        use crate::quota::budget::Flow;
        let minted = end.replica.quota_mut().flow("gift", Flow::Mint(5));
        assert_eq!(minted, Err(MemberError::NotAMember.into()));
    }
    end.sync.guests.update(|it| it.coming_back = None);
    tick(&mut end);
    assert!(end.replica.members().may_take());
}
