//! The frames of a machine to guests and members, and when it sends them.

mod copies;
mod duties;
mod peers;
mod returns;
mod starts;
mod unsure;
mod whole;

use super::*;
use crate::error::{AdmissionError, LinkError, MergeError, Missing};
use crate::message::records::{Announce, MembershipRecord, Statement};
use crate::state::delta::{Delta, Entry};
use crate::sync::{Input, PeerHello, SyncConfig};
use crate::{VersionVector, optional::GuestPart, wire::Frame, writer_id::Space};
use alloc::{boxed::Box, vec};

const OWNER: Owner = [1; 32];
const OTHER: Owner = [2; 32];
const LEASE_MS: Millis = 1_000;

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn full(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// A replica and its machine, at one end of links.
struct End {
    replica: Replica,
    sync: SyncMachine,
    now: Millis,
}

impl End {
    fn of(replica: Replica) -> End {
        let config = SyncConfig {
            guest_timeout_ms: LEASE_MS as u32,
            owner: Some(OTHER),
            ..SyncConfig::default()
        };
        End {
            replica,
            sync: SyncMachine::new(config, 1),
            now: 0,
        }
    }

    /// The only member of a space.
    fn member() -> End {
        let mut replica = Replica::new(Space::default(), id(100));
        replica.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
        End::of(replica)
    }

    /// One that knows of that member.
    fn guest() -> End {
        let mut replica = Replica::new(Space::default(), id(200));
        replica.merge(&full(&End::member().replica)).unwrap();
        End::of(replica)
    }

    /// A guest that knows that it was taken in.
    fn admitted() -> End {
        let mut member = End::member().replica;
        let mut end = End::guest();
        member.members_mut().admit(&end.replica.writer()).unwrap();
        end.replica.merge(&full(&member)).unwrap();
        assert!(end.replica.membership.intro(&end.replica.state).is_some());
        end
    }

    /// A link to a peer that writes under this id, and has sent its hello.
    fn link(&mut self, number: u32, writer: WriterId) -> Link {
        let (link, broadcast) = (Link(number), false);
        let input = Input::Connected { link, broadcast };
        self.sync.handle(self.now, &mut self.replica, input);
        let hello = PeerHello {
            session: u64::from(number),
            agent: GuestPart::default(),
            writer,
            clock: GuestPart::default(),
            takes: GuestPart::default(),
            remembers: false,
            lacks: false,
            answers: true,
            #[cfg(feature = "budgets")]
            gives: 0,
            copy: GuestPart::default(),
            follows: false,
            is_fresh: false,
            time_due: None,
        };
        self.sync.peer_mut(link).unwrap().hello = Some(hello);
        self.sync.digest_due = 0;
        self.outputs();
        link
    }

    fn cut(&mut self, link: Link) {
        let input = Input::Disconnected { link };
        self.sync.handle(self.now, &mut self.replica, input);
    }

    fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.sync.poll()).collect()
    }

    /// The frames sent since the last look, and how many writer ids were requested.
    fn sent(&mut self) -> (Vec<(Link, Body)>, usize) {
        let outputs = self.outputs();
        let renewed = outputs.iter().filter(|it| **it == Output::Renew).count();
        let sent = outputs.into_iter().filter_map(|output| match output {
            Output::Send { link, bytes } => Some((link, Frame::decode(&bytes).unwrap().body)),
            _ => None,
        });
        (sent.collect(), renewed)
    }

    /// The frames sent since the last look, encoded.
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let sent = self
            .outputs()
            .into_iter()
            .filter_map(|output| match output {
                Output::Send { bytes, .. } => Some(bytes.to_vec()),
                _ => None,
            });
        sent.collect()
    }

    fn deliver(&mut self, link: Link, frames: Vec<Vec<u8>>) {
        for bytes in &frames {
            let input = Input::Frame { link, bytes };
            self.sync.handle(self.now, &mut self.replica, input);
        }
    }

    /// Whose end was told since the last look.
    fn told(&mut self) -> Vec<(Link, WriterId, Last)> {
        let sent = self.sent().0.into_iter();
        sent.filter_map(|(link, body)| match body {
            Body::Ended { writer, last } => Some((link, writer, last)),
            _ => None,
        })
        .collect()
    }

    /// On which links a writer's end was asked for since the last look.
    fn asked(&mut self) -> Vec<Link> {
        let sent = self.sent().0.into_iter();
        let asks = sent.filter(|(_, body)| matches!(body, Body::Return { .. }));
        asks.map(|(link, _)| link).collect()
    }

    fn tend(&mut self) -> bool {
        let mark = self.replica.mark();
        let End { replica, sync, now } = self;
        sync.tend(*now, replica, &mark).unwrap()
    }

    fn tend_until(&mut self, done: impl Fn(&Replica) -> bool) {
        for _ in 0..20 {
            if done(&self.replica) {
                return;
            }
            self.tend();
        }
        panic!("tending does not help");
    }

    fn coming_back(&mut self) -> &mut ComingBack {
        self.sync
            .guests
            .stored()
            .coming_back
            .as_mut()
            .expect("it does")
    }

    /// The member gives a writer up, and forgets it.
    fn forget(&mut self, writer: WriterId) {
        self.forget_all(writer);
        assert_eq!(self.replica.members().final_clock(&writer), Some(0));
    }

    /// As [`forget`](End::forget), of one that may have made something.
    fn forget_all(&mut self, writer: WriterId) {
        self.replica.members_mut().fence(&writer).unwrap();
        self.tend_until(|replica| !replica.state.knows(&writer));
        self.outputs();
    }
}

#[test]
fn a_push_is_of_whom_it_brings_something_new() {
    let entry = |byte, lo, hi| Entry {
        writer: id(byte),
        lo,
        hi,
    };
    for (writers, expected) in [
        (vec![], None),
        (vec![entry(1, 2, 2)], None),
        (vec![entry(1, 2, 2), entry(2, 3, 4)], Some(id(2))),
        (vec![entry(1, 0, 2), entry(2, 4, 4)], Some(id(1))),
    ] {
        let message = Message {
            delta: Delta {
                writers,
                ..Delta::default()
            },
            ..Message::default()
        };
        assert_eq!(origin(&message), expected);
    }
}

#[test]
fn what_is_told_of_a_link_is_kept_with_it() {
    let mut end = End::member();
    end.sync.note_sent(&mut end.replica);
    assert_eq!(end.replica.rejoin.sent_upto(), 0);
    let [one, other] = [1, 2].map(|number| end.link(number, id(number as u8)));
    end.sync.note_sent(&mut end.replica);
    let told = |end: &End| {
        (
            end.replica.rejoin.sent_upto(),
            end.replica.rejoin.sent_as_guest(),
        )
    };
    assert_eq!(told(&end), (end.replica.clock(), 0));
    assert_eq!(end.sync.writer_of(one), Some(id(1)));
    // A guest, and a start whose owner is a member and that has not announced itself.
    for (owner, as_guest) in [(OTHER, 1), (OWNER, 0)] {
        let mut end = End::guest();
        end.sync.config.owner = Some(owner);
        end.replica.add("key", 1).unwrap();
        end.link(1, id(1));
        end.sync.note_sent(&mut end.replica);
        assert_eq!(told(&end), (1, as_guest));
    }
    assert_eq!(end.sync.writer_of(Link(9)), None);
    let flags = |end: &End, link| {
        let peer = end.sync.peer(link).unwrap();
        (peer.rests, peer.forgotten)
    };
    for link in [one, other] {
        let peer = end.sync.peer_mut(link).unwrap();
        (peer.rests, peer.forgotten) = (true, true);
    }
    end.sync.set_writer(one, id(1));
    assert_eq!(flags(&end, one), (true, true));
    end.sync.set_writer(one, id(3));
    assert_eq!(flags(&end, one), (false, false));
    assert_eq!(end.sync.writer_of(one), Some(id(3)));
    assert_eq!(flags(&end, other), (true, true));
    end.sync.set_writer(Link(9), id(3));
    assert!(!end.sync.peer(one).unwrap().level);
    end.sync.is_level(one);
    assert!(end.sync.peer(one).unwrap().level);
    assert!(!end.sync.peer(other).unwrap().level);
}

#[test]
fn a_member_takes_in_who_has_written_nothing_yet() {
    let mut end = End::member();
    let link = end.link(1, id(1));
    let other = end.link(2, id(2));
    let connects = |end: &mut End, writer, clock| {
        let peer = end.sync.peer_mut(link).unwrap();
        peer.forgotten = false;
        let End { replica, sync, now } = end;
        let before = replica.clock();
        sync.admit(*now, replica, link, writer, clock);
        let told = end.told();
        assert!(!end.sync.peer(other).unwrap().forgotten);
        let peer = end.sync.peer(link).unwrap();
        (end.replica.clock() - before, peer.forgotten, told)
    };
    assert_eq!(connects(&mut end, id(1), 3), (0, true, vec![]));
    assert_eq!(end.sync.pushes.due(), None);
    assert_eq!(connects(&mut end, id(1), 0), (1, false, vec![]));
    assert_eq!(end.sync.pushes.due(), Some(5));
    assert!(end.replica.members().sponsored().any(|it| it == id(1)));
    assert_eq!(connects(&mut end, id(1), 0), (0, false, vec![]));
    assert_eq!(connects(&mut end, id(1), 3), (0, false, vec![]));
    end.forget(id(1));
    let told = vec![(link, id(1), Last::Unsure(u64::MAX))];
    assert_eq!(connects(&mut end, id(1), 0), (0, false, told));
    assert_eq!(connects(&mut end, id(1), 3), (0, false, vec![]));
    let mut guest = End::guest();
    let link = guest.link(1, id(1));
    let End { replica, sync, now } = &mut guest;
    sync.admit(*now, replica, link, id(1), 3);
    sync.admit(*now, replica, link, id(1), 0);
    assert!(!sync.peer(link).unwrap().forgotten);
    assert_eq!(guest.told(), []);
}

/// A message that tells of one writer, up to clock 4.
fn telling(writer: Option<WriterId>) -> Message {
    let entry = |writer| Entry {
        writer,
        lo: 0,
        hi: 4,
    };
    Message {
        delta: Delta {
            writers: writer.map(entry).into_iter().collect(),
            ..Delta::default()
        },
        ..Message::default()
    }
}

#[test]
fn a_member_comes_back_from_what_members_have() {
    let outdated = |end: &mut End, link, message: &Message| {
        let End { replica, sync, now } = end;
        let live = Some(id(1));
        let done = sync.not_merged(
            *now,
            replica,
            Some(link),
            message,
            live,
            Error::Admission(AdmissionError::Outdated),
        );
        assert_eq!(done, Ok(()));
        end.sync.guests.coming_back.as_ref().map(|it| it.link)
    };
    let message = telling(Some(id(1)));
    let mut end = End::member();
    let link = end.link(1, id(1));
    assert_eq!(outdated(&mut end, link, &message), None);
    // From a member of whom it knows.
    let member = end.link(2, end.replica.writer());
    assert_eq!(outdated(&mut end, link, &message), Some(member));
    // From a start of which it has not heard.
    for (owner, from) in [(OTHER, None), (OWNER, Some(link))] {
        let announce = Announce {
            clock: 4,
            owner,
            nonce: [0; 16],
            generation: 9,
        };
        let mut message = message.clone();
        message.records.stored().push(MembershipRecord {
            writer: 0,
            statement: Statement::Announce(Box::new(announce)),
        });
        let mut end = End::member();
        end.link(1, id(1));
        assert_eq!(outdated(&mut end, link, &message), from);
    }
}

#[test]
fn what_is_done_with_a_message_that_is_refused_depends_on_why() {
    let refuse = |end: &mut End, link, live: Option<WriterId>, error| {
        let End { replica, sync, now } = end;
        sync.not_merged(*now, replica, link, &telling(live), live, error)
    };
    let writer = id(1);
    let stranger = |byte| Error::Admission(AdmissionError::Stranger { writer: id(byte) });
    let gone = || Error::Admission(AdmissionError::Gone { writer });
    let missing = Missing {
        writer,
        needed: 1,
        held: 0,
    };
    let missing = Error::Merge(MergeError::NotCovered(Box::new(missing)));
    for (error, live, told) in [
        (missing, 1, None),
        (Error::Admission(AdmissionError::Unsure { writer }), 1, None),
        (stranger(1), 1, None),
        (stranger(2), 1, Some(1)),
        (stranger(2), 3, Some(3)),
        (stranger(2), 100, None),
        (gone(), 1, Some(1)),
        (gone(), 2, None),
        (Error::Admission(AdmissionError::Behind), 1, Some(1)),
        (Error::Admission(AdmissionError::Behind), 2, None),
    ] {
        let mut end = End::member();
        let link = end.link(1, writer);
        end.link(2, id(2));
        let done = refuse(&mut end, Some(link), Some(id(live)), error.clone());
        assert_eq!(done, Ok(()));
        let upto = match error {
            Error::Admission(AdmissionError::Gone { .. }) => u64::MAX,
            _ => 4,
        };
        let told = told.map(|byte| (link, id(byte), Last::Unsure(upto)));
        let told: Vec<_> = told.into_iter().collect();
        assert_eq!(end.told(), told, "{error:?}");
        assert!(end.sync.guests.coming_back.is_none());
        assert_eq!(refuse(&mut end, None, None, error.clone()), Err(error));
    }
    let mut guest = End::guest();
    let link = guest.link(1, writer);
    let live = Some(writer);
    assert_eq!(refuse(&mut guest, Some(link), live, stranger(2)), Ok(()));
    assert_eq!(guest.told(), []);
    assert_eq!(
        refuse(
            &mut guest,
            Some(link),
            live,
            Error::Link(LinkError::WrongSpace)
        ),
        Err(LinkError::WrongSpace.into())
    );
    for error in [
        Error::Admission(AdmissionError::Outdated),
        Error::Admission(AdmissionError::Retired),
    ] {
        let mut guest = End::guest();
        let link = guest.link(1, writer);
        assert_eq!(refuse(&mut guest, Some(link), live, error), Ok(()));
        assert_eq!(guest.asked(), [link]);
        assert_eq!(guest.coming_back().link, link);
    }
}

#[test]
fn who_has_to_come_back_asks_one_after_the_other() {
    let mut end = End::admitted();
    let links = [1, 2, 3].map(|number| end.link(number, id(number as u8)));
    let (writer, intro) = (
        end.replica.writer(),
        end.replica.membership.intro(&end.replica.state),
    );
    assert_eq!(end.sync.return_due(), None);
    let End { replica, sync, .. } = &mut end;
    sync.begin_rejoin(0, replica, links[0]);
    let owner = Some(OTHER);
    let body = Body::Return {
        writer,
        intro,
        owner,
    };
    assert_eq!(end.sent(), (vec![(links[0], body)], 0));
    assert!(end.sync.is_coming_back());
    let at = |end: &mut End, now| {
        let End { replica, sync, .. } = end;
        sync.ask_to_end(now, replica);
        end.asked()
    };
    // Again and again, and another one if that does not help.
    let mut begun = 0;
    for turn in [0, 1, 2, 0] {
        for again in 1..PATIENCE_MS / ASK_AGAIN_MS {
            let due = begun + again * ASK_AGAIN_MS;
            assert_eq!(end.sync.return_due(), Some(due));
            assert_eq!(at(&mut end, due - 1), []);
            assert_eq!(at(&mut end, due), [links[turn]]);
        }
        begun += PATIENCE_MS;
        assert_eq!(at(&mut end, begun - 1), []);
        assert_eq!(at(&mut end, begun), [links[(turn + 1) % 3]]);
    }
    // Or one who is there.
    end.cut(links[1]);
    assert_eq!(at(&mut end, begun + 1), [links[0]]);
    // Nobody is asked what is known.
    end.coming_back().last = Some(Last::Upto(1));
    assert!(!end.sync.is_coming_back());
    assert_eq!(end.sync.return_due(), None);
    assert_eq!(at(&mut end, begun + ASK_AGAIN_MS + 1), []);
}

#[test]
fn a_member_that_has_to_come_back_asks_for_an_id_at_once() {
    for (dropped, renewed) in [(false, 1), (true, 0)] {
        let mut end = End::guest();
        let link = end.link(1, id(1));
        let End { replica, sync, .. } = &mut end;
        sync.begin_rejoin(0, replica, link);
        end.coming_back().dropped = dropped;
        end.outputs();
        // It was one, and did not know.
        end.replica
            .members_mut()
            .announce(&OWNER, &[3; 16], 3)
            .unwrap();
        let End { replica, sync, .. } = &mut end;
        sync.ask_to_end(1, replica);
        assert_eq!(end.sent(), (vec![], renewed));
        assert_eq!(end.coming_back().member, !dropped);
        assert_eq!(end.coming_back().last.is_some(), !dropped);
        let End { replica, sync, .. } = &mut end;
        sync.ask_to_end(2, replica);
        assert_eq!(end.sent(), (vec![], 0));
    }
}

#[test]
fn who_asks_for_an_end_gets_one_when_it_is_certain() {
    let ask = |end: &mut End, link, writer, intro, owner| {
        let End { replica, sync, now } = end;
        let before = replica.clock();
        sync.end_writer(*now, replica, link, (writer, intro, owner));
        let told = end.told();
        (end.replica.clock() - before, told)
    };
    let mut end = End::member();
    let [link, other] = [1, 2].map(|number| end.link(number, id(number as u8)));
    let seen = Intro {
        by: end.replica.writer(),
        clock: 1,
        owner: OWNER,
        generation: 9,
    };
    // It was known once.
    for before in [false, true] {
        end.sync.peer_mut(link).unwrap().forgotten = before;
        let forgot = vec![(link, id(1), Last::Forgotten(!before))];
        let told = ask(&mut end, link, id(1), Some(seen), None);
        assert_eq!(told, (0, forgot));
    }
    // It was not heard of yet, and may never be. A member that others have not taken in may only not
    // have heard that it was forgotten.
    let unseen = Intro { clock: 9, ..seen };
    let mut home = End::member().replica;
    home.members_mut().force(&[OWNER, OTHER]).unwrap();
    let mut new = Replica::new(Space::default(), id(9));
    new.merge(&full(&home)).unwrap();
    new.members_mut().announce(&OTHER, &[0; 16], 2).unwrap();
    for (mut end, ended) in [(End::of(new), false), (End::member(), true)] {
        let link = end.link(1, id(1));
        let made = (u64::from(ended), vec![]);
        assert_eq!(ask(&mut end, link, id(1), Some(unseen), None), made);
        assert_eq!(end.sync.guests.leaving.len(), usize::from(ended));
        assert_eq!(end.replica.members().accepts_from(&id(1)), !ended);
    }
    // Nobody took it in: nothing of it is to count. A member is told that nobody can say.
    assert_eq!(end.sync.pushes.due(), None);
    assert_eq!(ask(&mut end, link, id(1), None, Some(OTHER)), (1, vec![]));
    assert_eq!(end.sync.pushes.due(), Some(5));
    assert!(!end.replica.members().accepts_from(&id(1)));
    let member = vec![(link, id(1), Last::Member)];
    assert_eq!(ask(&mut end, link, id(1), None, Some(OWNER)), (0, member));
    assert_eq!(ask(&mut end, other, id(2), None, None), (1, vec![]));
    let waiting = [(link, id(1)), (other, id(2))];
    assert_eq!(end.sync.guests.leaving, waiting);
    end.cut(other);
    end.sync.reply_to_leaving(&end.replica);
    assert_eq!(end.sync.guests.leaving, waiting[..1]);
    end.tend_until(|replica| replica.members().final_clock(&id(1)).is_some());
    end.tend();
    assert_eq!(end.told(), [(link, id(1), Last::Nothing)]);
    assert!(end.sync.guests.leaving.is_empty());
    let nothing = vec![(link, id(1), Last::Nothing)];
    let again = ask(&mut end, link, id(1), Some(seen), Some(OWNER));
    assert_eq!(again, (0, nothing));
    // It may have counted, and be forgotten here.
    let mut lacks = End::of(end.replica.clone());
    lacks.replica.lose_memory();
    let asked = lacks.link(1, id(1));
    let upto = vec![(asked, id(1), Last::Upto(0))];
    assert_eq!(ask(&mut lacks, asked, id(1), None, None).1, upto);
    // One that has left is over by its own word.
    let mut left = End::guest().replica;
    let (writer, home) = (left.writer(), &mut end.replica);
    home.members_mut().admit(&writer).unwrap();
    left.merge(&full(home)).unwrap();
    left.members_mut().leave().unwrap();
    home.merge_with(&full(&left), Some(writer), &mut |_| ())
        .unwrap();
    assert_eq!(ask(&mut end, link, writer, None, None), (0, vec![]));
    assert_eq!(end.sync.guests.leaving, [(link, writer)]);
    let mut guest = End::guest();
    let link = guest.link(1, id(1));
    assert_eq!(ask(&mut guest, link, id(1), Some(seen), None), (0, vec![]));
    assert_eq!(ask(&mut guest, link, id(1), None, None), (0, vec![]));
    assert!(guest.sync.guests.leaving.is_empty());
}

#[test]
fn who_is_told_its_end_comes_back() {
    let hear = |end: &mut End, link, writer, last| {
        let End { replica, sync, now } = end;
        sync.ended(*now, replica, link, (writer, last));
        let (sent, renewed) = end.sent();
        let sent = sent.into_iter().map(|(_, body)| body);
        (sent.collect::<Vec<_>>(), renewed)
    };
    let known = |end: &mut End| {
        let it = end.coming_back();
        (it.link, it.last, it.published)
    };
    let mut end = End::admitted();
    let [one, two] = [1, 2].map(|number| end.link(number, id(number as u8)));
    let own = end.replica.writer();
    let writer_changed = vec![Body::Writer(own)];
    for last in [Last::Unsure(9), Last::Hearsay] {
        assert_eq!(
            hear(&mut end, one, id(7), last),
            (writer_changed.clone(), 0)
        );
    }
    assert_eq!(hear(&mut end, one, own, Last::Hearsay), (vec![], 0));
    assert!(end.sync.guests.coming_back.is_none());
    let (asked, renewed) = hear(&mut end, one, own, Last::Unsure(1));
    assert!(matches!(asked[..], [Body::Return { .. }]) && renewed == 0);
    assert_eq!(hear(&mut end, two, own, Last::Upto(3)), (vec![], 0));
    assert_eq!(known(&mut end), (one, None, u64::MAX));
    let begun = end.sync.clone();
    let upto = Some(Last::Upto(3));
    assert_eq!(hear(&mut end, one, own, Last::Upto(3)), (vec![], 1));
    assert_eq!(hear(&mut end, one, own, Last::Upto(3)), (vec![], 0));
    assert_eq!(known(&mut end), (one, upto, u64::MAX));
    // All have forgotten it: what one told before counts, of what was told since the least.
    end.sync = begun;
    while end.replica.clock() < 8 {
        end.replica.add("key", 1).unwrap();
    }
    end.replica.rejoin.note_sent(&end.replica.state, false);
    end.sync.peer_mut(one).unwrap().published = 5;
    end.sync.peer_mut(two).unwrap().published = 6;
    let mut forgot = end.sync.clone();
    end.now = 7;
    assert_eq!(hear(&mut end, one, own, Last::Forgotten(true)), (vec![], 0));
    assert_eq!(known(&mut end), (two, None, 8));
    assert_eq!(end.coming_back().due, 7);
    let last = Last::Forgotten(false);
    assert_eq!(hear(&mut end, two, own, last), (vec![], 1));
    assert_eq!(known(&mut end), (two, Some(last), 6));
    core::mem::swap(&mut end.sync, &mut forgot);
    assert_eq!(
        hear(&mut end, one, own, Last::Forgotten(false)),
        (vec![], 0)
    );
    assert_eq!(known(&mut end), (two, None, 5));
    assert_eq!(hear(&mut end, two, own, Last::Forgotten(true)), (vec![], 1));
    assert_eq!(known(&mut end).2, 5);
}

/// A second member: before it announces itself, then, and once the first one has acknowledged that.
fn second() -> [Replica; 3] {
    let mut home = End::member().replica;
    home.members_mut().force(&[OWNER, OTHER]).unwrap();
    let mut early = Replica::new(Space::default(), id(9));
    early.merge(&full(&home)).unwrap();
    let mut new = early.clone();
    new.members_mut().announce(&OTHER, &[0; 16], 2).unwrap();
    let all = full(&new);
    home.merge_with(&all, Some(id(9)), &mut |_| ()).unwrap();
    home.members_mut().acknowledge().unwrap();
    let mut known = new.clone();
    known.merge(&home.delta(&new.vector())).unwrap();
    [early, new, known]
}

#[test]
fn who_was_perhaps_taken_in_does_not_believe_that_nothing_of_it_counts() {
    for (published, upto, admitted, last) in [
        (0, 0, false, Last::Upto(0)),
        (1, 0, false, Last::Forgotten(false)),
        (1, 1, false, Last::Upto(1)),
        (1, 0, true, Last::Upto(0)),
    ] {
        let mut end = match admitted {
            true => End::admitted(),
            false => End::guest(),
        };
        let link = end.link(1, id(1));
        end.sync.peer_mut(link).unwrap().published = published;
        let own = end.replica.writer();
        let End { replica, sync, .. } = &mut end;
        sync.ended(0, replica, link, (own, Last::Upto(upto)));
        assert_eq!(end.coming_back().last, Some(last));
        // Nor does it go on, before it is told.
        end.sync.guests.stored().coming_back = None;
        let End { replica, sync, .. } = &mut end;
        sync.doubt(0, replica, link);
        let doubts = end.sync.guests.coming_back.is_some();
        assert_eq!(doubts, published > 0 && !admitted);
    }
    // A start of a member's, which has not announced itself yet.
    let mut early = End::guest();
    let members = early.replica.members().configuration().unwrap();
    early.sync.config.owner = Some(members.members[0]);
    for mut end in [
        End::member(),
        End::of(Replica::new(Space::default(), id(3))),
        early,
    ] {
        let link = end.link(1, id(1));
        end.sync.peer_mut(link).unwrap().published = 1;
        let End { replica, sync, .. } = &mut end;
        sync.doubt(0, replica, link);
        assert!(end.sync.guests.coming_back.is_none());
    }
}
