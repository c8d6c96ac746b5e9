//! The records that a peer of each role may send, part by part, and the writer by which it is identified.

mod slots;

use super::super::pull::tests::{End, full};
use super::*;
use crate::error::ScopeError;
use crate::message::KeyedOp;
use crate::message::records::{Ack, Announce, Leave};
use crate::once::Once;
use crate::optional::GuestPart;
use crate::replica::Scan;
use crate::state::delta::Entry;
use crate::state::slot::{
    Assignment, Expired, Expiry, Fold, Lift, Moved, Stamp, Upto, Watermark, Withdrawal,
};
use crate::sync::{Input, Output};
use crate::{Op, Space};
use alloc::boxed::Box;
use alloc::vec::Vec;

const OWNER: Owner = [7; 32];
const NONCE: [u8; 16] = [8; 16];
const LINK: Link = Link(1);
const ROLES: [Role; 3] = [Role::Reader, Role::Writer, Role::Editor];

fn writer() -> WriterId {
    WriterId::mint(&Space::default(), &OWNER, &NONCE)
}

/// A member with a link to a peer of this role, which has sent its hello and proved its writer.
fn linked(role: Role) -> End {
    let mut end = End::new();
    end.replica
        .members_mut()
        .found(&[1; 32], &[0; 16], 1)
        .unwrap();
    let owner = OWNER;
    let link = LINK;
    end.input(Input::Limited { link, owner, role });
    end.hello(LINK, 1, writer());
    let (writer, nonce) = (writer(), NONCE);
    end.frame(LINK, Body::Own { writer, nonce });
    end
}

/// The peer's replica, which has seen what the member holds.
fn peer(end: &End) -> Replica {
    let mut peer = Replica::new(Space::default(), writer());
    peer.merge(&full(&end.replica)).unwrap();
    peer
}

/// The records that the peer has and the member lacks.
fn told(end: &End, peer: &Replica) -> Message {
    let since = end.replica.vector();
    let (message, more) =
        Scan::over(peer, &since, Vec::from([writer()])).step(peer, &since, 1 << 20);
    assert!(more.is_none());
    message
}

/// The result of the message of a peer of each role that added to a counter, after this change.
fn outcomes(change: impl Fn(&mut Message, u32)) -> [&'static str; 3] {
    ROLES.map(|role| {
        let end = linked(role);
        let mut peer = peer(&end);
        peer.add("k", 1).unwrap();
        let mut message = told(&end, &peer);
        let at = message
            .delta
            .writers
            .iter()
            .position(|it| it.writer == writer());
        change(&mut message, at.unwrap() as u32);
        match end.sync.may_tell(&end.replica, LINK, &message) {
            Ok(()) => "ok",
            Err(error) => error.code(),
        }
    })
}

const ADDS: [&str; 3] = ["beyond_role", "ok", "ok"];
const CANCELS: [&str; 3] = ["beyond_role", "beyond_role", "ok"];
const NOBODY: [&str; 3] = ["beyond_role", "not_yours", "not_yours"];

#[test]
fn a_peer_tells_what_its_own_writers_made() {
    assert_eq!(outcomes(|_, _| ()), ADDS);
    let of_the_member = outcomes(|message, own| message.delta.writers[1 - own as usize].hi += 1);
    assert_eq!(of_the_member, NOBODY);
    let of_nobody = outcomes(|message, own| {
        let other = &mut message.delta.writers[1 - own as usize];
        (other.writer, other.lo, other.hi) = (WriterId::from_bytes([9; 16]), 0, 0);
    });
    assert_eq!(of_nobody, NOBODY);
}

#[test]
fn nobody_but_a_member_tells_of_all() {
    assert_eq!(outcomes(|message, _| message.complete = true), NOBODY);
    assert_eq!(outcomes(|message, _| message.gaps = Some(false)), NOBODY);
    let remembers = outcomes(|message, own| {
        let entry = message.delta.writers[own as usize];
        message.returns.stored().push((entry.writer, 1));
    });
    assert_eq!(remembers, NOBODY);
    let keyed = outcomes(|message, _| {
        message.keyed.stored().push(KeyedOp {
            once: Once::new(b"k", b""),
            by: None,
            adds: Vec::new(),
        });
    });
    assert_eq!(keyed, ["beyond_role"; 3]);
}

#[test]
fn nobody_but_a_member_says_what_members_say() {
    let statement = |statement: fn(u32) -> Statement| {
        outcomes(|message, writer| {
            let statement = statement(writer);
            message
                .records
                .stored()
                .push(MembershipRecord { writer, statement });
        })
    };
    let announce = statement(|_| {
        Statement::Announce(Box::new(Announce {
            clock: 1,
            owner: [1; 32],
            nonce: [0; 16],
            generation: 2,
        }))
    });
    let ack = statement(|_| {
        Statement::Ack(Box::new(Ack {
            clock: 1,
            want: 0,
            seen: Vec::new(),
        }))
    });
    let configuration = statement(|_| Statement::Configuration(1, Box::default()));
    let gone = statement(|_| Statement::Gone(1, Box::new(([1; 32], 1))));
    let horizon = statement(|_| Statement::Horizon(1));
    for said in [announce, ack, configuration, gone, horizon] {
        assert_eq!(said, NOBODY);
    }
    let leaves = |successor: fn(u32) -> u32| {
        outcomes(|message, writer| {
            let successor = successor(writer);
            let statement = Statement::Leave(Leave {
                clock: 1,
                successor,
            });
            message
                .records
                .stored()
                .push(MembershipRecord { writer, statement });
        })
    };
    assert_eq!(leaves(|own| 1 - own), ADDS);
    assert_eq!(leaves(|own| own), NOBODY, "its successor is a member");
}

/// The sponsor's writer may be forgotten before its guest learns it.
#[test]
fn a_guest_may_leave_to_a_sponsor_that_is_forgotten() {
    let mut end = linked(Role::Writer);
    let mut message = Message::default();
    let gone = WriterId::from_bytes([9; 16]);
    let (lo, hi) = (3, 3);
    message.delta.writers = Vec::from([Entry {
        writer: gone,
        lo,
        hi,
    }]);
    let (clock, successor) = (1, 0);
    let statement = Statement::Leave(Leave { clock, successor });
    let record = MembershipRecord {
        writer: 0,
        statement,
    };
    assert!(!is_of_guest(&end.replica, &message, &record));
    end.replica.membership.remember(gone, 3);
    assert!(is_of_guest(&end.replica, &message, &record));
}

/// A peer that is no member has no rights and no room, whatever gifts it claims.
#[cfg(feature = "budgets")]
#[test]
fn nobody_but_a_member_says_anything_of_budgets() {
    let own = writer();
    let keys = [
        "\0bvgift".into(),
        alloc::format!("\0br{own}gift"),
        alloc::format!("\0cq{own}gift"),
        alloc::string::String::from("\0?"),
    ];
    for key in keys {
        let said = outcomes(|message, _| {
            message.delta.keys = Default::default();
            message.delta.keys.push(&key);
        });
        assert_eq!(said, NOBODY, "{key:?}");
    }
}

/// The result of records beside the shard of the counter.
fn beside(change: impl Fn(&mut Side, Stamp)) -> [&'static str; 3] {
    outcomes(|message, writer| {
        let mut side = Side::new(writer);
        change(&mut side, Stamp { writer, clock: 1 });
        message.delta.sides.push(KeySide { key: 0, side });
    })
}

/// The end of a counter whose slots were seen so.
fn ended(upto: Vec<Upto>) -> Expired {
    Expired {
        clock: 1,
        time: 9,
        upto,
        spared: None,
    }
}

#[test]
fn only_editors_cancel() {
    let extra = |side: &mut Side, extra| side.extra = Some(Box::new(extra));
    let base = |base| Extra {
        began: 1,
        assignment: Some(base),
        ..Extra::default()
    };
    let watermark = beside(|side, by| {
        let (clock, total) = (1, 5);
        side.watermark = Some(Watermark { clock, total, by });
    });
    let lift = beside(|side, by| side.lift = Some(Box::new(Lift { clock: 1, by })));
    let set = beside(|side, _| extra(side, base(Assignment::Set(5))));
    let reset = beside(|side, _| extra(side, base(Assignment::Reset)));
    let expires = beside(|side, _| {
        let expiry = Some(Expiry::new(1, 9));
        let it = Extra::default();
        extra(side, Extra { expiry, ..it });
    });
    let ends = beside(|side, _| side.expired.set(Vec::from([ended(Vec::new())])));
    for told in [watermark, lift, set, reset, expires, ends] {
        assert_eq!(told, CANCELS);
    }
    let again = beside(|side, _| {
        let (began, added) = (1, 1);
        let it = Extra::default();
        extra(side, Extra { began, added, ..it });
    });
    assert_eq!(again, ADDS, "an add begins another lifetime");
}

const WIDE: [&str; 3] = ["beyond_role", "wide_total", "wide_total"];

/// A few such totals in one counter would not fit into the total of the member that takes them over.
#[test]
fn nobody_but_a_member_tells_totals_of_more_than_64_bits() {
    for high in [1, -2, i64::MAX >> 28] {
        let told = beside(|side, _| {
            let (high, added) = (high, 1);
            let it = Extra::default();
            side.extra = Some(Box::new(Extra { high, added, ..it }));
        });
        assert_eq!(told, WIDE);
    }
    let watermark = |total| {
        beside(move |side, by| {
            let clock = 1;
            side.watermark = Some(Watermark { clock, total, by });
        })
    };
    let end = |total| {
        beside(move |side, by| {
            let Stamp { writer, clock } = by;
            let upto = Upto {
                writer,
                clock,
                total,
            };
            side.expired.set(Vec::from([ended(Vec::from([upto]))]));
        })
    };
    assert_eq!(end(i128::from(i64::MIN)), CANCELS);
    assert_eq!(end(i128::from(i64::MIN) - 1), WIDE);
    assert_eq!(watermark(i128::from(i64::MIN)), CANCELS);
    assert_eq!(watermark(i128::from(i64::MIN) - 1), WIDE);
    // A member may hold as much, once it has taken others over.
    let mut end = linked(Role::Editor);
    let wide = i128::from(i64::MAX) + 9;
    end.replica.absorb_for_test("k", wide);
    let mut peer = peer(&end);
    peer.apply("k", Op::Reset).unwrap();
    let message = told(&end, &peer);
    let noted = message.delta.sides.iter().find_map(|it| it.side.watermark);
    assert_eq!(noted.map(|watermark| watermark.total), Some(wide));
    assert_eq!(end.sync.may_tell(&end.replica, LINK, &message), Ok(()));
}

/// It added while others cancelled: what was cancelled is part of the total, and fills no room.
#[test]
fn what_was_cancelled_does_not_make_a_total_too_wide() {
    let mut end = linked(Role::Writer);
    let mut peer = peer(&end);
    peer.add("k", i64::MAX).unwrap();
    let merge = |end: &mut End, peer: &Replica| {
        let message = told(end, peer);
        let judged = end.sync.may_tell(&end.replica, LINK, &message);
        let live = Some(writer());
        judged.and_then(|()| end.replica.merge_with(&message, live, &mut |_| ()))
    };
    merge(&mut end, &peer).unwrap();
    end.replica.apply("k", Op::Reset).unwrap();
    peer.add("k", -1).unwrap();
    peer.merge(&end.replica.delta(&peer.vector())).unwrap();
    assert_eq!(peer.value("k"), Some(-1));
    peer.add("k", i64::MAX).unwrap();
    merge(&mut end, &peer).unwrap();
    assert_eq!(end.replica.value("k"), Some(i128::from(i64::MAX) - 1));
    // It says so of another counter, in which nothing was cancelled.
    let message = told(&end, &{
        let mut peer = peer.clone();
        peer.add("other", 1).unwrap();
        peer
    });
    let mut forged = message;
    forged.delta.sides.clear();
    let at = forged
        .delta
        .writers
        .iter()
        .position(|it| it.writer == writer());
    let mut side = Side::new(at.unwrap() as u32);
    side.extra = Some(Box::new(Extra {
        high: 1,
        added: 1,
        ..Extra::default()
    }));
    forged.delta.sides.push(KeySide { key: 0, side });
    let refused = end.sync.may_tell(&end.replica, LINK, &forged);
    assert_eq!(refused.map_err(|it| it.code()), Err("wide_total"));
}

/// It makes nothing that is waited for, so nobody speaks for it, and nothing is written for its sake.
#[test]
fn a_reader_is_taken_in_by_nobody() {
    let mut end = linked(Role::Reader);
    let before = end.replica.clock();
    assert!(!end.replica.state.knows(&writer()));
    for number in 0..1_000u64 {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let writer = WriterId::mint(&Space::default(), &OWNER, &nonce);
        end.frame(LINK, Body::Writer(writer));
        end.frame(LINK, Body::Own { writer, nonce });
        let (intro, owner) = (None, Some(OWNER));
        end.frame(
            LINK,
            Body::Return {
                writer,
                intro,
                owner,
            },
        );
    }
    assert_eq!(end.replica.members().sponsored().count(), 0);
    assert_eq!(
        (
            end.replica.clock(),
            end.replica.members().writer_table().count()
        ),
        (before, 1)
    );
    let ended = |output: &Output| matches!(output, Output::Send { bytes, .. } if bytes[3] == 10);
    let sent = core::iter::from_fn(|| end.sync.poll());
    assert_eq!(
        sent.filter(ended).count(),
        1_000,
        "each is told that it is not known"
    );
    // It still hears everything.
    let mut peer = Replica::new(Space::default(), WriterId::from_bytes([9; 16]));
    peer.merge(&full(&end.replica)).unwrap();
    end.replica.add("k", 1).unwrap();
    end.input(Input::Changed);
    end.wait(1_000);
    while let Some(output) = end.sync.poll() {
        if let Output::Send { bytes, .. } = output
            && let Body::Push(message) = crate::wire::Frame::decode(&bytes).unwrap().body
        {
            peer.merge(&message).unwrap();
        }
    }
    assert_eq!(peer.value("k"), Some(1));
}

#[test]
fn nobody_but_a_member_takes_over_or_withdraws() {
    let absorbed = beside(|side, _| {
        side.extra = Some(Box::new(Extra {
            absorbed: true,
            ..Extra::default()
        }));
    });
    let moved = beside(|side, to| side.moved.set(Some(Box::new(Moved { to, amount: 5 }))));
    let fold = beside(|side, by| {
        side.fold.set(Some(Box::new(Fold {
            clock: by.clock,
            amount: 5,
            adds: true,
            assignment: None,
            until: None,
        })));
    });
    let withdrawals = beside(|side, by| {
        side.withdrawals.stored().push(Withdrawal {
            clock: 1,
            amount: 1,
            before: 0,
            several: false,
            by,
        });
    });
    let ahead = beside(|side, by| {
        let (clock, total) = (2, 5);
        side.watermark = Some(Watermark { clock, total, by });
    });
    let lifts_ahead = beside(|side, by| side.lift = Some(Box::new(Lift { clock: 2, by })));
    for told in [absorbed, moved, fold, withdrawals, ahead, lifts_ahead] {
        assert_eq!(told, NOBODY);
    }
}

/// It was an editor, and is a writer now: what it had set then goes with its later adds, and nothing
/// else.
#[test]
fn what_was_set_before_stays() {
    let mut end = linked(Role::Writer);
    let mut peer = peer(&end);
    peer.apply("k", Op::Set(5)).unwrap();
    let set = told(&end, &peer);
    let refused = end.sync.may_tell(&end.replica, LINK, &set);
    assert_eq!(refused, Err(ScopeError::BeyondRole.into()));
    end.replica
        .merge_with(&set, Some(writer()), &mut |_| ())
        .unwrap();
    peer.add("k", 1).unwrap();
    let added = told(&end, &peer);
    assert!(added.delta.sides.iter().any(|it| it.side.extra.is_some()));
    assert_eq!(end.sync.may_tell(&end.replica, LINK, &added), Ok(()));
    let mut other = added;
    let extras = other
        .delta
        .sides
        .iter_mut()
        .filter_map(|it| it.side.extra.as_mut());
    extras.for_each(|extra| extra.assignment = Some(Assignment::Set(6)));
    let refused = end.sync.may_tell(&end.replica, LINK, &other);
    assert_eq!(refused, Err(ScopeError::BeyondRole.into()));
}

#[test]
fn a_peer_is_known_by_the_writer_that_it_proved() {
    let mut end = linked(Role::Writer);
    let rights = PeerScope::Limited {
        owner: OWNER,
        role: Role::Writer,
    };
    assert_eq!(end.sync.rights(LINK), Some(rights));
    assert_eq!(end.sync.rights(Link(2)), None);
    assert_eq!(end.sync.writer_of(LINK), Some(writer()));
    assert!(end.replica.state.knows(&writer()), "it was taken in");
    let answers = |end: &mut End| {
        let mut answers = 0;
        while let Some(output) = end.sync.poll() {
            let own = matches!(&output, Output::Send { bytes, .. } if bytes[3] == 13);
            answers += usize::from(own);
        }
        answers
    };
    assert_eq!(answers(&mut end), 1);
    let other = WriterId::from_bytes([3; 16]);
    end.frame(LINK, Body::Writer(other));
    assert_eq!(end.sync.writer_of(LINK), None);
    assert!(!end.replica.state.knows(&other), "it is nobody's guest");
    // The first of too many is forgotten.
    for number in 0..OWN_WRITERS_MAX {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let writer = WriterId::mint(&Space::default(), &OWNER, &nonce);
        end.frame(LINK, Body::Own { writer, nonce });
    }
    assert_eq!(answers(&mut end), OWN_WRITERS_MAX);
    end.frame(LINK, Body::Writer(writer()));
    assert_eq!(end.sync.writer_of(LINK), None);
}

/// A program that tells nothing of rights is believed.
#[test]
fn a_full_peer_may_say_everything() {
    let mut end = End::new();
    let link = end.link(1, 1, writer());
    assert_eq!(end.sync.rights(link), Some(PeerScope::Full));
    let mut other = Replica::new(Space::default(), WriterId::from_bytes([4; 16]));
    other.add("k", 1).unwrap();
    let mut message = full(&other);
    message.keyed = GuestPart::default();
    end.frame(link, Body::Push(message));
    assert_eq!(end.replica.value("k"), Some(1));
    let (writer, nonce) = (writer(), [0; 16]);
    end.frame(link, Body::Own { writer, nonce });
    assert_eq!(end.sync.writer_of(link), Some(writer));
}

/// Each proof costs a hash and an answer, so a peer may send so many at once, and one more each 10 ms.
#[test]
fn a_peer_may_send_so_many_proofs_and_no_more() {
    let mut proofs = Proofs::EMPTY;
    let taken = |proofs: &mut Proofs, now| {
        let more = PROOFS_AT_ONCE as usize + 1;
        let taken = core::iter::repeat_with(|| proofs.take(now)).take(more);
        taken.take_while(|it| *it).count() as u32
    };
    assert_eq!(taken(&mut proofs, 0), PROOFS_AT_ONCE);
    assert_eq!(taken(&mut proofs, PROOF_MS - 1), 0);
    assert_eq!(taken(&mut proofs, PROOF_MS), 1);
    assert_eq!(taken(&mut proofs, 4 * PROOF_MS - 1), 2);
    // What is left of a step counts for the next one.
    assert_eq!(taken(&mut proofs, 4 * PROOF_MS), 1);
    assert!(proofs.take(6 * PROOF_MS));
    assert_eq!(taken(&mut proofs, 6 * PROOF_MS), 1);
    assert_eq!(taken(&mut proofs, Millis::from(u32::MAX)), PROOFS_AT_ONCE);
}

#[test]
fn so_many_writers_of_a_peer_are_remembered() {
    let mut end = linked(Role::Writer);
    let proved = |end: &End| end.sync.peer(LINK).unwrap().proved.len();
    assert_eq!(proved(&end), 1);
    for number in 0..=OWN_WRITERS_MAX {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&(number as u64).to_le_bytes());
        let writer = WriterId::mint(&Space::default(), &OWNER, &nonce);
        end.frame(LINK, Body::Own { writer, nonce });
        assert_eq!(proved(&end), (number + 2).min(OWN_WRITERS_MAX));
    }
}

/// A peer that names a writer of somebody else has proved another one.
#[test]
fn the_proof_of_one_writer_admits_no_other_one() {
    let mut end = End::new();
    end.replica
        .members_mut()
        .found(&[1; 32], &[0; 16], 1)
        .unwrap();
    let (link, owner, role) = (LINK, OWNER, Role::Writer);
    end.input(Input::Limited { link, owner, role });
    let other = WriterId::from_bytes([5; 16]);
    end.hello(LINK, 1, other);
    let (writer, nonce) = (writer(), NONCE);
    end.frame(LINK, Body::Own { writer, nonce });
    assert!(!end.replica.state.knows(&other) && !end.replica.state.knows(&writer));
}

#[test]
fn a_peer_is_asked_if_it_may_tell_something() {
    for (role, first, then) in [
        (Role::Reader, false, false),
        (Role::Writer, false, true),
        (Role::Editor, false, true),
    ] {
        let mut end = End::new();
        let (link, owner) = (LINK, OWNER);
        assert!(end.sync.may_be_asked(LINK), "nothing is known of it");
        end.input(Input::Limited { link, owner, role });
        end.hello(LINK, 1, writer());
        assert_eq!(end.sync.may_be_asked(LINK), first);
        let (writer, nonce) = (writer(), NONCE);
        end.frame(LINK, Body::Own { writer, nonce });
        assert_eq!(end.sync.may_be_asked(LINK), then);
    }
    let mut end = End::new();
    let link = end.link(2, 2, WriterId::from_bytes([9; 16]));
    assert!(end.sync.may_be_asked(link));
}

#[test]
fn what_a_peer_says_of_others_is_ignored_or_refused() {
    for role in ROLES {
        let end = linked(role);
        let said = |body: &Body| {
            let said = end.sync.may_say(&end.replica, LINK, body);
            said.map_err(|error| error.code())
        };
        let contents = Body::Contents {
            why: crate::wire::Why::Forked,
            vector: [0; 16],
            writers: Vec::new(),
        };
        assert_eq!(said(&contents), Ok(false));
        let writer = writer();
        let ended = |last| Body::Ended { writer, last };
        assert_eq!(said(&ended(Last::Hearsay)), Ok(true));
        for last in [Last::Nothing, Last::Upto(3), Last::Forgotten(true)] {
            assert_eq!(said(&ended(last)), Err("not_yours"));
        }
    }
}

#[test]
fn a_reader_tells_nothing_at_all() {
    let end = linked(Role::Reader);
    let told = |change: &dyn Fn(&mut Message)| {
        let mut message = Message::default();
        change(&mut message);
        let told = end.sync.may_tell(&end.replica, LINK, &message);
        told.map_err(|error| error.code())
    };
    assert_eq!(told(&|_| ()), Ok(()));
    let refused = Err("beyond_role");
    assert_eq!(told(&|it| it.gaps = Some(false)), refused);
    assert_eq!(told(&|it| it.returns.stored().push((writer(), 1))), refused);
}

/// A member's acknowledgements wait for its guests, and what a guest reports lets them go on.
#[test]
fn a_report_counts_if_the_member_has_all_that_the_peer_made() {
    let noted = |role, vector: &dyn Fn(&End) -> VersionVector| {
        let mut end = linked(role);
        end.replica.add("k", 1).unwrap();
        let vector = vector(&end);
        let before = end
            .replica
            .membership
            .progress(&end.replica.state, &writer());
        let sync = &end.sync;
        sync.note_received_by_limited(&mut end.replica, LINK, &writer(), &vector);
        end.replica
            .membership
            .progress(&end.replica.state, &writer())
            != before
    };
    for role in [Role::Writer, Role::Editor] {
        assert!(noted(role, &|end| end.replica.vector()));
        let more = |end: &End| {
            let own = VersionVector::of(writer(), 7);
            end.replica.vector().joined(&own)
        };
        assert!(!noted(role, &more), "a transaction is under way");
        let foreign = |end: &End| {
            let other = VersionVector::of(WriterId::from_bytes([9; 16]), 7);
            end.replica.vector().joined(&other)
        };
        assert!(noted(role, &foreign), "others bring that");
    }
}
