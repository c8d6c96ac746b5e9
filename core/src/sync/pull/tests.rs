//! Transfers as they come in: one after the other, again where they broke, within limits.

mod places;

use super::*;
use crate::Space;
use crate::error::DecodeError;
use crate::replica::Scan;
use crate::state::page::PAGE;
use crate::sync::{Digests, Frame, Input, SyncConfig};
use crate::wire::{Encode, Hello, REMEMBERS, VERSION};
use alloc::format;
use alloc::string::String;

pub(in crate::sync) const PUSH_DELAY_MS: Millis = 5;
pub(in crate::sync) const TIMEOUT_MS: Millis = 1_000;
const RESUME_MS: Millis = 60_000;
/// So long that no digest is due in a test that does not wait for it.
pub(in crate::sync) const INTERVAL_MS: Millis = 1_000_000;

pub(in crate::sync) fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

pub(in crate::sync) fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), id(byte))
}

pub(in crate::sync) fn full(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// A replica with its machine; its peers are played by hand.
pub(in crate::sync) struct End {
    pub(in crate::sync) replica: Replica,
    pub(in crate::sync) sync: SyncMachine,
    pub(in crate::sync) now: Millis,
}

impl End {
    pub(in crate::sync) fn new() -> End {
        let config = SyncConfig {
            push_delay_ms: PUSH_DELAY_MS as u32,
            interval_ms: INTERVAL_MS as u32,
            pull_timeout_ms: TIMEOUT_MS as u32,
            resume_ms: RESUME_MS as u32,
            ..SyncConfig::default()
        };
        End {
            replica: replica(100),
            sync: SyncMachine::new(config, 1),
            now: 100,
        }
    }

    pub(in crate::sync) fn input(&mut self, input: Input<'_>) {
        self.sync.handle(self.now, &mut self.replica, input);
    }

    pub(in crate::sync) fn frame(&mut self, link: Link, body: Body) {
        let space = Space::default();
        let bytes = &Frame { space, body }.encode();
        self.input(Input::Frame { link, bytes });
    }

    /// A link to a process that writes under this id, holds the same, and has sent its hello.
    pub(in crate::sync) fn link(&mut self, number: u32, session: u64, writer: WriterId) -> Link {
        let (link, broadcast) = (Link(number), false);
        self.input(Input::Connected { link, broadcast });
        self.hello(link, session, writer);
        link
    }

    /// A link to who writes under the id of that number, and is a node or a page.
    pub(in crate::sync) fn link_to(&mut self, number: u8, is_node: bool) -> Link {
        let (link, broadcast) = (Link(number.into()), false);
        self.input(Input::Connected { link, broadcast });
        let capabilities = if is_node { REMEMBERS } else { 0 };
        self.hello_as(link, number.into(), id(number), capabilities);
        link
    }

    /// The peer of a link, which holds the same, says who it is.
    pub(in crate::sync) fn hello(&mut self, link: Link, session: u64, writer: WriterId) {
        self.hello_as(link, session, writer, 0);
    }

    fn hello_as(&mut self, link: Link, session: u64, writer: WriterId, capabilities: u64) {
        let hello = Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities,
            session,
            agent: String::new(),
            nonce: [0; 16],
            proof: Vec::new(),
            digests: SyncMachine::digests(&mut self.replica),
            writer,
            clock: 0,
        };
        self.frame(link, Body::Hello(hello));
    }

    pub(in crate::sync) fn cut(&mut self, link: Link) {
        self.input(Input::Disconnected { link });
    }

    /// Lets so much time go by.
    pub(in crate::sync) fn wait(&mut self, time: Millis) {
        self.now += time;
        self.input(Input::Tick);
    }

    /// The peer tells of something that is missing here.
    pub(in crate::sync) fn differs(&mut self, link: Link) {
        let (vector, contents) = ([1; 16], 1);
        self.frame(link, Body::Digest(Digests { vector, contents }));
    }

    pub(in crate::sync) fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.sync.poll()).collect()
    }

    /// The frames sent since the last look, except hellos.
    pub(in crate::sync) fn sent(&mut self) -> Vec<(Link, Body)> {
        let sent = self
            .outputs()
            .into_iter()
            .filter_map(|output| match output {
                Output::Send { link, bytes } => Some((link, Frame::decode(&bytes).unwrap().body)),
                _ => None,
            });
        let sent = sent.filter(|(_, body)| !matches!(body, Body::Hello(_)));
        sent.collect()
    }

    /// The pulls since the last look: the link, the number and the first chunk of each.
    pub(in crate::sync) fn asked(&mut self) -> Vec<(Link, u32, u32)> {
        let sent = self.sent().into_iter().map(|(link, body)| match body {
            Body::Pull(Pull { id, chunk, .. }) => (link, id, chunk),
            body => panic!("{body:?}"),
        });
        sent.collect()
    }

    /// A chunk comes, which is not the last one; which one is asked for then.
    fn chunk(&mut self, link: Link, id: u32, chunk: u32, message: &Message) -> Option<u32> {
        let delta = delta(id, chunk, false, message);
        self.frame(link, Body::Delta(delta));
        match &self.sent()[..] {
            [] => None,
            [(on, Body::More { id: of, chunk })] if (*on, *of) == (link, id) => Some(*chunk),
            other => panic!("{other:?}"),
        }
    }

    /// The number of the last request.
    pub(in crate::sync) fn last_number(&self) -> u32 {
        self.sync.pulls.next_id
    }

    /// The last chunk comes.
    pub(in crate::sync) fn last(&mut self, link: Link, id: u32, chunk: u32, message: &Message) {
        let delta = delta(id, chunk, true, message);
        self.frame(link, Body::Delta(delta));
    }
}

fn delta(id: u32, chunk: u32, last: bool, message: &Message) -> Delta {
    let message = message.clone();
    Delta {
        id,
        chunk,
        last,
        message,
    }
}

/// A replica's state in two chunks, each with counters of its own.
fn two_chunks(byte: u8) -> [Message; 2] {
    let mut other = replica(byte);
    for at in 0..=PAGE {
        other.add(&format!("key:{at:02}"), 1).unwrap();
    }
    let since = VersionVector::default();
    let (first, next) = Scan::new(&other, &since, true).step(&other, &since, 0);
    let (last, _) = next.expect("a second one").step(&other, &since, 0);
    [first, last]
}

/// A link that needs no session of its own.
fn links<const COUNT: usize>(end: &mut End) -> [Link; COUNT] {
    let links = core::array::from_fn(|at| end.link(at as u32 + 1, at as u64 + 1, id(at as u8 + 1)));
    assert_eq!(end.asked(), []);
    links
}

#[test]
fn peers_are_asked_one_after_the_other_while_they_are_there() {
    let mut end = End::new();
    let [one, two, three] = links(&mut end);
    for link in [one, two, three] {
        end.differs(link);
    }
    assert_eq!(end.asked(), [(one, 1, 0)]);
    assert_eq!(end.sync.next_deadline(), Some(end.now + PATIENCE));
    end.cut(two);
    assert_eq!(end.asked(), []);
    end.cut(one);
    assert_eq!(end.asked(), [(three, 2, 0)]);
}

/// A peer that announces twice what is already requested gets no second request.
#[test]
fn what_is_late_or_repeated_changes_nothing() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    let state = full(&replica(7));
    for link in [one, one, two, two] {
        end.differs(link);
    }
    assert_eq!(end.asked(), [(one, 1, 0)]);
    // A chunk of another link, of another request, or of another number.
    for (link, id, chunk) in [(two, 1, 0), (one, 2, 0), (one, 1, 1)] {
        assert_eq!(end.chunk(link, id, chunk, &state), None);
    }
    end.now += 400;
    assert_eq!(end.chunk(one, 1, 0, &state), Some(1));
    assert_eq!(end.sync.next_deadline(), Some(end.now + PATIENCE));
    assert_eq!(end.chunk(one, 1, 0, &state), None);
    end.last(one, 1, 1, &state);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    end.last(two, 2, 0, &state);
    assert_eq!(end.asked(), []);
}

/// The peer would drop the first one's transfer.
#[test]
fn no_peer_is_asked_twice_at_once() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    end.differs(one);
    assert_eq!(end.asked(), [(one, 1, 0)]);
    end.differs(two);
    end.sync.pulls.wanted.push(one);
    end.wait(PATIENCE);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    end.last(two, 2, 0, &full(&replica(9)));
    assert_eq!(end.asked(), []);
    end.last(one, 1, 0, &full(&replica(9)));
    assert_eq!(end.asked(), []);
}

#[test]
fn a_transfer_goes_on_where_its_link_broke_with_the_same_process() {
    let mut end = End::new();
    let [one] = links(&mut end);
    let [first, last] = two_chunks(7);
    end.differs(one);
    assert_eq!(end.asked(), [(one, 1, 0)]);
    assert_eq!(end.chunk(one, 1, 0, &first), Some(1));
    end.cut(one);
    // Another process, which breaks off before anything came of it.
    let two = end.link(2, 2, id(2));
    assert_eq!(end.asked(), []);
    end.differs(two);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    end.cut(two);
    end.link(3, 2, id(2));
    assert_eq!(end.asked(), []);
    end.now += 400;
    let four = end.link(4, 1, id(1));
    assert_eq!(end.asked(), [(four, 1, 1)]);
    assert_eq!(end.sync.next_deadline(), Some(end.now + TIMEOUT_MS));
    assert_eq!(end.replica.len(), 0);
    end.last(four, 1, 1, &last);
    assert_eq!(end.replica.len(), PAGE + 1);
}

#[test]
fn what_was_staged_waits_for_its_process_for_a_bounded_time() {
    let [first, last] = two_chunks(7);
    for (waited, goes_on) in [(RESUME_MS - 1, true), (RESUME_MS, false)] {
        let mut end = End::new();
        let [one] = links(&mut end);
        end.differs(one);
        assert_eq!(end.asked(), [(one, 1, 0)]);
        assert_eq!(end.chunk(one, 1, 0, &first), Some(1));
        end.cut(one);
        // Without any link the machine is due for it all the same.
        assert_eq!(end.sync.next_deadline(), Some(end.now + RESUME_MS));
        end.wait(waited);
        assert_eq!(end.sync.pulls.broken.is_some(), goes_on);
        assert_eq!(end.sync.next_deadline().is_some(), goes_on);
        let two = end.link(2, 1, id(1));
        if goes_on {
            assert_eq!(end.asked(), [(two, 1, 1)]);
            end.last(two, 1, 1, &last);
            assert_eq!(end.replica.len(), PAGE + 1);
        } else {
            end.differs(two);
            assert_eq!(end.asked(), [(two, 2, 0)]);
        }
    }
}

#[test]
fn what_was_staged_stays_while_its_peer_waits_to_be_asked() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    let state = full(&replica(7));
    end.differs(one);
    end.outputs();
    assert_eq!(end.chunk(one, 1, 0, &state), Some(1));
    end.differs(two);
    end.wait(TIMEOUT_MS);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    // The other one's answer takes long, and is none of those that yield.
    let mut large = replica(8);
    for key in 0..1_000 {
        large.add(&format!("{key:0>3}{:0>200}", ""), 1).unwrap();
    }
    let large = full(&large);
    let mut chunk = 0;
    for _ in 0..=RESUME_MS / (TIMEOUT_MS - 1) {
        end.wait(TIMEOUT_MS - 1);
        // As long as nothing has come of the other one.
        let again = if chunk == 0 { &[(one, 1, 1)][..] } else { &[] };
        assert_eq!(end.asked(), again);
        assert_eq!(end.chunk(two, 2, chunk, &large), Some(chunk + 1));
        chunk += 1;
    }
    end.last(two, 2, chunk, &large);
    assert_eq!(end.asked(), [(one, 1, 1)]);
}

#[test]
fn who_is_late_is_asked_after_the_others_and_goes_on_once() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    let state = full(&replica(7));
    end.differs(one);
    assert_eq!(end.asked(), [(one, 1, 0)]);
    end.wait(TIMEOUT_MS - 1);
    assert_eq!(end.asked(), []);
    // Nothing has come: it is asked under another number.
    end.wait(1);
    assert_eq!(end.asked(), [(one, 2, 0)]);
    assert_eq!(end.chunk(one, 2, 0, &state), Some(1));
    end.differs(two);
    end.wait(TIMEOUT_MS);
    assert_eq!(end.asked(), [(two, 3, 0)]);
    end.last(two, 3, 0, &state);
    assert_eq!(end.asked(), [(one, 2, 1)]);
    assert_eq!(end.chunk(one, 2, 1, &state), Some(2));
    end.wait(TIMEOUT_MS);
    assert_eq!(end.asked(), [(one, 2, 2)]);
    // It knows nothing of that transfer any more.
    end.wait(TIMEOUT_MS);
    assert_eq!(end.asked(), [(one, 4, 0)]);
}

#[test]
fn so_much_is_staged_and_no_more() {
    let state = full(&replica(7));
    let cost = state.encode().len() + CHUNK_OVERHEAD_BYTES;
    for over in [0, 1] {
        let mut end = End::new();
        let [one] = links(&mut end);
        end.differs(one);
        end.outputs();
        let open = end.sync.pulls.open.as_mut().unwrap();
        open.staged_bytes = STAGE_BYTES_MAX - cost - 1;
        let open = |end: &End| end.sync.pulls.open.as_ref().map(|open| open.staged_bytes);
        assert_eq!(end.chunk(one, 1, 0, &state), Some(1));
        assert_eq!(open(&end), Some(STAGE_BYTES_MAX - 1));
        end.sync.pulls.open.as_mut().unwrap().staged_bytes = STAGE_BYTES_MAX - cost + over;
        end.frame(one, Body::Delta(delta(1, 1, false, &state)));
        let error = Error::Decode(DecodeError::TooLarge {
            what: Limited::Transfer,
            size: STAGE_BYTES_MAX + 1,
            max: STAGE_BYTES_MAX,
        });
        let close = Some(one);
        let refused = end.outputs().contains(&Output::Refused { close, error });
        assert_eq!((refused, open(&end).is_none()), (over > 0, over > 0));
    }
}

/// However many of them there are.
#[test]
fn peers_that_do_not_answer_hold_up_no_other() {
    let mut end = End::new();
    let [one, two, three] = links(&mut end);
    let state = full(&replica(7));
    for link in [one, two, three] {
        end.differs(link);
    }
    assert_eq!(end.asked(), [(one, 1, 0)]);
    end.wait(PATIENCE - 1);
    assert_eq!(end.asked(), []);
    end.wait(1);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    // They are not asked twice, and are forgotten when they go.
    for link in [one, two] {
        end.differs(link);
    }
    end.wait(PATIENCE);
    assert_eq!(end.asked(), [(three, 3, 0)]);
    end.cut(two);
    end.last(three, 3, 0, &state);
    assert_eq!(end.asked(), []);
    end.wait(TIMEOUT_MS - 2 * PATIENCE);
    assert_eq!(end.asked(), [(one, 4, 0)]);
}

#[test]
fn a_thousand_silent_peers_hold_up_no_other_for_long() {
    let mut end = End::new();
    for number in 1..=1_000_u32 {
        let mut writer = [1; 16];
        writer[..4].copy_from_slice(&number.to_be_bytes());
        let link = end.link(number, number.into(), WriterId::from_bytes(writer));
        end.differs(link);
    }
    let other = end.link(2_000, 2_000, id(200));
    end.differs(other);
    let begun = end.now;
    while !end.asked().iter().any(|(link, ..)| *link == other) {
        let due = end.sync.next_deadline().unwrap();
        end.wait(due.max(end.now + 1) - end.now);
    }
    assert!(end.now - begun < 3_000, "{}", end.now - begun);
}

#[test]
fn a_late_answer_counts() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    let mut other = replica(7);
    other.add("key", 1).unwrap();
    for link in [one, two] {
        end.differs(link);
    }
    end.wait(PATIENCE);
    assert_eq!(end.asked(), [(one, 1, 0), (two, 2, 0)]);
    end.last(one, 1, 0, &full(&other));
    assert_eq!(end.replica.value("key"), Some(1));
    other.add("key", 1).unwrap();
    end.last(two, 2, 0, &full(&other));
    assert_eq!(end.replica.value("key"), Some(2));
    assert_eq!(end.asked(), []);
}

/// Others' answers are taken meanwhile, if they have one chunk.
#[test]
fn one_transfer_at_a_time_is_staged() {
    let mut end = End::new();
    let [one, two, three] = links(&mut end);
    let chunks = [7, 8].map(two_chunks);
    for link in [one, two, three] {
        end.differs(link);
    }
    end.outputs();
    assert_eq!(end.chunk(one, 1, 0, &chunks[0][0]), Some(1));
    end.wait(PATIENCE);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    let first = delta(2, 0, false, &chunks[1][0]);
    end.frame(two, Body::Delta(first));
    assert_eq!(end.asked(), [(three, 3, 0)]);
    // An answer of one chunk needs no place.
    let mut other = replica(9);
    other.add("other", 1).unwrap();
    end.last(three, 3, 0, &full(&other));
    assert_eq!(end.replica.value("other"), Some(1));
    end.wait(PUSH_DELAY_MS); // The digests of the news go out.
    end.outputs();
    // It waits for the end of the first one's, and begins anew.
    end.wait(PATIENCE);
    end.differs(two);
    assert_eq!(end.asked(), []);
    end.last(one, 1, 1, &chunks[0][1]);
    assert_eq!(end.replica.len(), PAGE + 2);
    assert_eq!(end.asked(), [(two, 4, 0)]);
    assert_eq!(end.chunk(two, 4, 0, &chunks[1][0]), Some(1));
    end.last(two, 4, 1, &chunks[1][1]);
    assert_eq!(end.replica.value("key:00"), Some(2));
}

/// A transfer that brings a little now and then would otherwise hold the one place for as long as it likes.
#[test]
fn a_slow_transfer_yields_to_others_and_goes_on() {
    let mut end = End::new();
    let [one, two, _] = links(&mut end);
    let chunks = [7, 8].map(two_chunks);
    for link in [one, two] {
        end.differs(link);
    }
    end.outputs();
    assert_eq!(end.chunk(one, 1, 0, &chunks[0][0]), Some(1));
    end.wait(PATIENCE);
    assert_eq!(end.asked(), [(two, 2, 0)]);
    end.frame(two, Body::Delta(delta(2, 0, false, &chunks[1][0])));
    // As slow as it is, nobody takes its place within its time.
    let step = TIMEOUT_MS / 2;
    let mut next = 1;
    while end.now + step <= 100 + TURN_MS {
        end.wait(step);
        assert_eq!(end.chunk(one, 1, next, &chunks[0][0]), Some(next + 1));
        next += 1;
    }
    end.wait(step);
    end.frame(one, Body::Delta(delta(1, next, false, &chunks[0][0])));
    assert_eq!(end.asked(), [(two, 3, 0)], "the other one has its turn");
    let yielded = end.now;
    let waits = end.sync.pulls.broken.as_ref().map(|it| it.deadline);
    assert_eq!(waits, Some(yielded + RESUME_MS));
    // Whatever the slow one says does not take that away.
    end.differs(one);
    end.frame(one, Body::Delta(delta(1, next + 1, false, &chunks[0][0])));
    assert_eq!(end.asked(), []);
    assert_eq!(end.chunk(two, 3, 0, &chunks[1][0]), Some(1));
    end.last(two, 3, 1, &chunks[1][1]);
    assert_eq!(end.replica.value("key:00"), Some(1));
    assert_eq!(end.asked(), []);
    end.wait(PUSH_DELAY_MS); // The digests of the news go out.
    end.outputs();
    // It goes on from where it was.
    assert_eq!(end.sync.next_deadline(), Some(yielded + TURN_MS));
    end.wait(TURN_MS - PUSH_DELAY_MS);
    assert_eq!(end.asked(), [(one, 1, next + 1)]);
    end.last(one, 1, next + 1, &chunks[0][1]);
    assert_eq!(end.replica.value("key:00"), Some(2));
}

/// A rejected message would come again at once. A message that lacked something comes with the missing part.
#[test]
fn who_was_refused_is_not_asked_before_the_next_digest() {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    end.replica
        .members_mut()
        .found(&[1; 32], &[0; 16], 1)
        .unwrap();
    let dead = end.sync.writer_of(one).unwrap();
    let mut other = Replica::new(Space::default(), dead);
    other.merge(&full(&end.replica)).unwrap();
    end.replica.members_mut().fence(&dead).unwrap();
    other.add("key", 1).unwrap();
    let held = other.vector();
    other.add("key", 1).unwrap();
    let rests = |end: &End| [one, two].map(|link| end.sync.peer(link).unwrap().rests);
    for (link, since, resting) in [
        (two, &held, [false, false]),
        (one, &end.replica.vector(), [true, false]),
    ] {
        end.differs(link);
        let number = end.last_number();
        end.last(link, number, 0, &other.delta(since));
        assert_eq!(end.replica.value("key"), None);
        assert_eq!(rests(&end), resting);
    }
    end.outputs();
    end.differs(one);
    let pulls = |end: &mut End| {
        let sent = end.sent().into_iter();
        let pulls = sent.filter(|(_, body)| matches!(body, Body::Pull(_)));
        pulls.map(|(link, _)| link).collect::<Vec<_>>()
    };
    assert_eq!(pulls(&mut end), []);
    end.wait(2 * INTERVAL_MS);
    end.differs(one);
    assert_eq!(pulls(&mut end), [one]);
}

/// How long nobody is asked after a transfer of so many bytes before its last chunk, of what came
/// after a first counter, or with it.
fn rest_after(bytes: usize, is_first: bool) -> Millis {
    let mut end = End::new();
    let [one, two] = links(&mut end);
    let mut other = replica(7);
    other.add("first", 1).unwrap();
    if !is_first {
        end.replica.merge(&full(&other)).unwrap();
    }
    let since = end.replica.vector();
    other.add("second", 1).unwrap();
    end.differs(one);
    assert_eq!(end.asked(), [(one, 1, 0)]);
    end.sync.pulls.open.as_mut().unwrap().staged_bytes = bytes;
    end.last(one, 1, 0, &other.delta(&since));
    assert_eq!(end.replica.value("second"), Some(1));
    end.outputs();
    end.differs(two);
    let begun = end.now;
    let is_asked = |end: &mut End| {
        let sent = end.sent();
        let pull = |body: &Body| matches!(body, Body::Pull(_));
        sent.iter().any(|(link, body)| *link == two && pull(body))
    };
    while !is_asked(&mut end) {
        let due = end.sync.next_deadline().unwrap();
        assert!(due > end.now);
        end.wait(due - end.now);
    }
    end.now - begun
}

#[test]
fn after_a_long_transfer_there_is_time_for_writes() {
    let second = 2 << 20;
    for (bytes, rest) in [
        (0, 0),
        (second / 1_024, 1),
        (second, 1_024),
        (second * 40, REST_MAX),
    ] {
        assert_eq!(rest_after(bytes, false), rest);
        assert_eq!(rest_after(bytes, true), 0, "what was new is followed up");
    }
}
