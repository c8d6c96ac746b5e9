//! Rounds between real machines: a node, and pages that follow it.

mod onlookers;

use super::*;
use crate::replica::Replica;
use crate::sync::pull::tests::full;
use crate::sync::{Input, Output, Role, SyncConfig};
use crate::wire::Frame;
use crate::writer_id::{Space, WriterId};
use alloc::format;

const OWNER: [u8; 32] = [1; 32];

/// A node with links to pages. Frames wait until a test delivers them.
pub(in crate::sync) struct Mesh {
    pub(in crate::sync) now: Millis,
    pub(in crate::sync) node: (Replica, SyncMachine),
    pub(in crate::sync) pages: Vec<(Replica, SyncMachine)>,
    /// The last fresh writer.
    fresh: u8,
}

/// A frame to a page, or from it to the node.
type Sent = (Link, Vec<u8>);

fn link(page: usize) -> Link {
    Link(page as u32 + 1)
}

fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), WriterId::from_bytes([byte; 16]))
}

fn machine(owner: Option<[u8; 32]>, seed: u64) -> SyncMachine {
    let config = SyncConfig {
        interval_ms: 1_000_000,
        owner,
        ..SyncConfig::default()
    };
    SyncMachine::new(config, seed)
}

fn sent(machine: &mut SyncMachine) -> Vec<Sent> {
    let outputs = core::iter::from_fn(|| machine.poll());
    let sent = outputs.filter_map(|output| match output {
        Output::Send { link, bytes } => Some((link, bytes.to_vec())),
        Output::Refused { error, .. } => panic!("{error}"),
        _ => None,
    });
    sent.collect()
}

pub(in crate::sync) fn body(bytes: &[u8]) -> Body {
    Frame::decode(bytes).unwrap().body
}

impl Mesh {
    /// All have the same, and every page is in the rounds.
    pub(in crate::sync) fn new(closed: bool, pages: usize) -> Mesh {
        Mesh::with(closed, closed.then_some(OWNER), pages)
    }

    /// The same with a node that keeps no idempotency keys, if it has no owner. Pages of this build, which keep some,
    /// would pull for these.
    fn with(closed: bool, owner: Option<[u8; 32]>, pages: usize) -> Mesh {
        let mut node = replica(100);
        if closed {
            node.members_mut().found(&OWNER, &[0; 16], 1).unwrap();
        }
        node.add("likes", 1).unwrap();
        let mut mesh = Mesh {
            now: 1_000,
            node: (node, machine(owner, 1)),
            pages: Vec::new(),
            fresh: 200,
        };
        for page in 0..pages {
            let machine = machine(None, page as u64 + 2);
            mesh.pages.push((replica(page as u8 + 1), machine));
            let (link, broadcast) = (link(page), false);
            mesh.at_node(Input::Connected { link, broadcast });
            mesh.at_page(page, Input::Connected { link, broadcast });
        }
        mesh.settle();
        for page in 0..pages {
            assert!(mesh.node.1.is_in_rounds(link(page)));
            assert_eq!(mesh.value(page), mesh.node.0.value("likes"));
        }
        mesh
    }

    /// Connects a page that may write as its owner alone.
    fn connect_limited(&mut self, page: usize, owner: [u8; 32]) {
        let (link, broadcast) = (link(page), false);
        let role = Role::Writer;
        self.at_node(Input::Limited { link, owner, role });
        self.at_page(page, Input::Connected { link, broadcast });
    }

    pub(in crate::sync) fn at_node(&mut self, input: Input<'_>) {
        self.node.1.handle(self.now, &mut self.node.0, input);
    }

    pub(in crate::sync) fn at_page(&mut self, page: usize, input: Input<'_>) {
        let (replica, machine) = &mut self.pages[page];
        machine.handle(self.now, replica, input);
    }

    /// Lets time go by at the node, and returns what it sends.
    pub(in crate::sync) fn wait(&mut self, ms: Millis) -> Vec<Sent> {
        self.now += ms;
        self.at_node(Input::Tick);
        sent(&mut self.node.1)
    }

    /// Adds at the node, and returns the round that follows.
    pub(in crate::sync) fn add(&mut self, key: &str) -> Vec<Sent> {
        self.node.0.add(key, 1).unwrap();
        self.at_node(Input::Changed);
        self.wait(BETWEEN_MS)
    }

    pub(in crate::sync) fn deliver(&mut self, frames: &[Sent]) {
        for (link, bytes) in frames {
            let link = *link;
            self.at_page(link.0 as usize - 1, Input::Frame { link, bytes });
        }
    }

    /// Returns what a page sends, without delivering it. A page that asks for a fresh writer gets one.
    pub(in crate::sync) fn told(&mut self, page: usize) -> Vec<Sent> {
        self.at_page(page, Input::Tick);
        let mut told = Vec::new();
        while let Some(output) = self.pages[page].1.poll() {
            match output {
                Output::Send { link, bytes } => told.push((link, bytes.to_vec())),
                Output::Refused { error, .. } => panic!("{error}"),
                Output::Renew => {
                    self.fresh += 1;
                    let writer = WriterId::from_bytes([self.fresh; 16]);
                    self.at_page(page, Input::Renew { writer });
                }
                _ => {}
            }
        }
        told
    }

    pub(in crate::sync) fn deliver_to_node(&mut self, frames: Vec<Sent>) {
        for (link, bytes) in frames {
            let bytes = &bytes;
            self.at_node(Input::Frame { link, bytes });
        }
    }

    /// Delivers everything, with time, until nothing is sent.
    pub(in crate::sync) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 5 {
            let frames = self.wait(BETWEEN_MS);
            quiet = if frames.is_empty() { quiet + 1 } else { 0 };
            self.deliver(&frames);
            for page in 0..self.pages.len() {
                let frames = self.told(page);
                quiet = if frames.is_empty() { quiet } else { 0 };
                self.deliver_to_node(frames);
            }
        }
    }

    pub(in crate::sync) fn value(&self, page: usize) -> Option<i128> {
        self.pages[page].0.value("likes")
    }
}

/// The positions of the rounds among frames, with the page of each.
pub(in crate::sync) fn rounds(frames: &[Sent]) -> Vec<(u32, u64, u64)> {
    let rounds = frames.iter().filter_map(|(link, bytes)| match body(bytes) {
        Body::Round(round) => Some((link.0 - 1, round.from, round.to)),
        _ => None,
    });
    rounds.collect()
}

#[test]
fn all_links_at_one_mark_get_the_same_bytes() {
    let mut mesh = Mesh::new(false, 3);
    let frames = mesh.add("likes");
    assert_eq!(rounds(&frames).len(), 3);
    assert_eq!(frames.len(), 3, "and nothing else");
    assert!(frames.iter().all(|it| it.1 == frames[0].1));
    mesh.deliver(&frames);
    assert_eq!([mesh.value(0), mesh.value(1), mesh.value(2)], [Some(2); 3]);
}

#[test]
fn a_change_of_one_page_reaches_the_others_and_it_comes_back_as_a_receipt() {
    let mut mesh = Mesh::new(true, 2);
    mesh.pages[0].0.add("likes", 5).unwrap();
    mesh.at_page(0, Input::Changed);
    mesh.now += 5;
    let pushed = mesh.told(0);
    assert!(!mesh.pages[0].0.rejoin.journal().made.is_empty());
    mesh.deliver_to_node(pushed);
    let frames = mesh.wait(BETWEEN_MS);
    assert_eq!(rounds(&frames).len(), 2);
    mesh.deliver(&frames);
    assert_eq!([mesh.value(0), mesh.value(1)], [Some(6); 2]);
    assert!(mesh.pages[0].0.rejoin.journal().made.is_empty());
}

#[test]
fn changes_conflate_while_a_link_is_busy() {
    let mut mesh = Mesh::new(false, 2);
    mesh.node.1.note_busy(link(1), true);
    let mut last = (0, 0, 0);
    for _ in 0..5 {
        let frames = mesh.add("likes");
        let [round] = rounds(&frames)[..] else {
            panic!("{frames:?}")
        };
        assert_eq!(round.0, 0);
        last = round;
        mesh.deliver(&frames);
    }
    mesh.node.1.note_busy(link(1), false);
    let frames = mesh.wait(BETWEEN_MS);
    let [(1, from, to)] = rounds(&frames)[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((from + 5, to), (last.2, last.2));
    let Body::Round(round) = body(&frames[0].1) else {
        unreachable!()
    };
    assert_eq!(round.message.shard_count(), 1);
    mesh.deliver(&frames);
    assert_eq!([mesh.value(0), mesh.value(1)], [Some(6); 2]);
    assert_eq!(mesh.wait(BETWEEN_MS), [], "all are at one mark again");
    assert_eq!(mesh.node.1.rounds.marks.len(), 1);
}

#[test]
fn the_answer_to_a_pull_is_a_receipt() {
    let mut mesh = Mesh::new(true, 1);
    mesh.pages[0].0.add("likes", 5).unwrap();
    mesh.at_page(0, Input::Changed);
    mesh.now += 5;
    let told = mesh.told(0);
    mesh.deliver_to_node(told);
    assert_eq!(rounds(&mesh.wait(BETWEEN_MS)).len(), 1, "it is lost");
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    let asked = mesh.told(0);
    mesh.deliver_to_node(asked);
    assert_eq!(mesh.pages[0].0.consistency().unconfirmed(), 1);
    let mut answer = sent(&mut mesh.node.1);
    answer.retain(|it| matches!(body(&it.1), Body::Delta(_)));
    mesh.deliver(&answer);
    assert_eq!(mesh.value(0), Some(7));
    assert_eq!(mesh.pages[0].0.consistency().unconfirmed(), 0);
}

#[test]
fn links_at_many_marks_stay_in_the_rounds() {
    let mut mesh = Mesh::new(false, 2 * MARKS_MAX);
    for page in 0..mesh.pages.len() {
        mesh.node.1.note_busy(link(page), true);
        let frames = mesh.add("likes");
        mesh.deliver(&frames);
        assert!(mesh.node.1.rounds.marks.len() <= MARKS_MAX);
    }
    let had: Vec<_> = (0..mesh.pages.len()).map(|it| mesh.value(it)).collect();
    assert!(
        had.is_sorted() && had[0] < had[1],
        "each is at a mark of its own"
    );
    for page in 0..mesh.pages.len() {
        mesh.node.1.note_busy(link(page), false);
    }
    let frames = mesh.wait(BETWEEN_MS);
    assert_eq!(rounds(&frames).len(), mesh.pages.len());
    assert_eq!(frames.len(), mesh.pages.len(), "and nothing else");
    mesh.deliver(&frames);
    for page in 0..mesh.pages.len() {
        assert_eq!(mesh.value(page), mesh.node.0.value("likes"));
        assert!(mesh.node.1.is_in_rounds(link(page)));
    }
}

#[test]
fn what_is_collected_was_sent_before() {
    let mut mesh = Mesh::new(true, 2);
    mesh.node.1.note_busy(link(1), true);
    mesh.node.0.add("likes", 1).unwrap();
    let (replica, machine) = &mut mesh.node;
    let stored = replica.mark();
    machine.tend(mesh.now, replica, &stored).unwrap();
    let frames = sent(machine);
    let to: Vec<u32> = rounds(&frames).iter().map(|it| it.0).collect();
    assert_eq!(to, [0]);
    assert!(machine.is_in_rounds(link(0)));
    assert!(!machine.is_in_rounds(link(1)));
    mesh.deliver(&frames);
    mesh.node.1.note_busy(link(1), false);
    mesh.settle();
    assert_eq!([mesh.value(0), mesh.value(1)], [Some(2); 2]);
}

#[test]
fn a_round_that_is_too_large_is_pulled() {
    let mut mesh = Mesh::new(false, 1);
    for key in 0..60_000 {
        mesh.node.0.add(&format!("key-{key:030}"), 1).unwrap();
    }
    mesh.at_node(Input::Changed);
    let frames = mesh.wait(BETWEEN_MS);
    assert_eq!(rounds(&frames), []);
    mesh.deliver(&frames);
    mesh.settle();
    assert_eq!(mesh.pages[0].0.digest(), mesh.node.0.digest());
    assert!(mesh.node.1.is_in_rounds(link(0)));
}

#[test]
fn a_space_that_gets_members_begins_anew() {
    let mut mesh = Mesh::new(false, 1);
    mesh.node
        .0
        .members_mut()
        .found(&OWNER, &[0; 16], 1)
        .unwrap();
    mesh.at_node(Input::Changed);
    mesh.settle();
    assert!(mesh.pages[0].0.members().configuration().is_some());
    assert_eq!(mesh.pages[0].0.digest(), mesh.node.0.digest());
}

/// Without the horizon the guests would keep the retired writer until they pulled a whole table of writers.
#[test]
fn what_a_member_has_dropped_its_guests_drop_too() {
    let mut mesh = Mesh::with(true, None, 2);
    mesh.pages[1].0.add("likes", 1).unwrap();
    mesh.at_page(1, Input::Changed);
    mesh.settle();
    let gone = mesh.pages[1].0.writer();
    mesh.pages[1].0.members_mut().leave().unwrap();
    mesh.at_page(1, Input::Changed);
    mesh.settle();
    mesh.at_node(Input::Disconnected { link: link(1) });
    mesh.pages.pop();
    let mut pulls = 0;
    for _ in 0..4 {
        mesh.now += 1_000;
        let (replica, machine) = &mut mesh.node;
        let stored = replica.mark();
        machine.tend(mesh.now, replica, &stored).unwrap();
        machine.compare_soon(mesh.now, link(0));
        let frames = mesh.wait(BETWEEN_MS);
        mesh.deliver(&frames);
        let (replica, machine) = &mut mesh.pages[0];
        let stored = replica.mark();
        machine.tend(mesh.now, replica, &stored).unwrap();
        let told = mesh.told(0);
        let asks = told
            .iter()
            .filter(|it| matches!(body(&it.1), Body::Pull(_)));
        pulls += asks.count();
        mesh.deliver_to_node(told);
    }
    assert!(!mesh.node.0.state.knows(&gone));
    assert_eq!(mesh.pages[0].0.vector(), mesh.node.0.vector());
    assert_eq!((pulls, mesh.value(0)), (0, Some(2)));
}

/// The receiver may have merged the chunk as it was sent first.
#[test]
fn a_chunk_that_is_sent_again_says_no_position() {
    let mut mesh = Mesh::new(false, 1);
    mesh.add("likes"); // lost
    let frames = mesh.add("likes");
    mesh.deliver(&frames);
    let pull = mesh.told(0);
    for positions in [1, 0] {
        mesh.deliver_to_node(pull.clone());
        let frames = sent(&mut mesh.node.1);
        let told = frames
            .iter()
            .filter(|it| matches!(body(&it.1), Body::Position(_)));
        assert_eq!(told.count(), positions);
        let deltas = frames
            .iter()
            .filter(|it| matches!(body(&it.1), Body::Delta(_)));
        assert_eq!(deltas.count(), 1);
        mesh.node.0.add("likes", 1).unwrap();
    }
}

/// A page follows the rounds, so it says nothing of its own when the other page's changes come by one.
#[test]
fn a_page_is_asked_again_when_what_its_changes_build_on_has_come() {
    let mut mesh = Mesh::new(true, 0);
    for page in 0..2 {
        let (owner, nonce) = ([page + 7; 32], [8; 16]);
        let writer = WriterId::mint(&Space::default(), &owner, &nonce);
        let replica = Replica::new(Space::default(), writer);
        mesh.pages
            .push((replica, machine(None, u64::from(page) + 2)));
        let page = usize::from(page);
        mesh.at_page(page, Input::Own { writer, nonce });
        mesh.connect_limited(page, owner);
    }
    mesh.settle();
    for page in 0..2 {
        mesh.pages[page].0.add("likes", 1).unwrap();
        mesh.at_page(page, Input::Changed);
    }
    mesh.settle();
    assert_eq!(mesh.node.0.value("likes"), Some(3));
    mesh.at_node(Input::Disconnected { link: link(0) });
    mesh.at_page(0, Input::Disconnected { link: link(0) });
    mesh.pages[1].0.add("likes", 10).unwrap();
    let other = full(&mesh.pages[1].0);
    mesh.pages[0].0.merge(&other).unwrap();
    mesh.pages[0].0.add("likes", 100).unwrap();
    mesh.connect_limited(0, [7; 32]);
    mesh.settle();
    assert!(mesh.node.1.is_in_rounds(link(0)));
    assert_eq!(
        mesh.node.0.value("likes"),
        Some(3),
        "it builds on what is missing"
    );
    mesh.at_page(1, Input::Changed);
    mesh.settle();
    assert_eq!(mesh.node.0.value("likes"), Some(113));
}

#[test]
fn a_round_names_writers_that_are_known_by_their_first_bits() {
    let mut mesh = Mesh::new(true, 2);
    mesh.pages[0].0.add("likes", 1).unwrap();
    mesh.at_page(0, Input::Changed);
    mesh.settle();
    let frames = mesh.add("likes");
    let Body::Round(round) = body(&frames[0].1) else {
        panic!("{frames:?}")
    };
    assert_eq!((round.names.bits, &round.names.whole[..]), (8, &[][..]));
    mesh.deliver(&frames);
    // A replica that does not know the writer pulls.
    mesh.pages.pop();
    mesh.pages[0].0 = replica(1);
    let frames = mesh.add("likes");
    mesh.deliver(&frames[..1]);
    assert_eq!(mesh.value(0), None);
    let asked = mesh.told(0);
    let pulls = |it: &Sent| matches!(body(&it.1), Body::Pull(_));
    assert!(asked.iter().any(pulls), "{asked:?}");
}
