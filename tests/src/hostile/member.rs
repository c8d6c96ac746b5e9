//! A member under attack, and the healthy sessions from which attacks are made. In these sessions another
//! member and a page send to it, and both members have made the same keyed operations.

use super::told;
use super::victim::Victim;
use crate::vectors::{make, members};
use std::collections::VecDeque;
use std::sync::OnceLock;
use tallymesh_core::wire::{Ask, Body, Frame};
use tallymesh_core::{
    Encode, Input, Level, Link, Mark, Message, Op, Output, Owner, Replica, Space, SyncConfig,
    SyncMachine, Token, WriterId,
};

const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];

/// Feeds the sync machine of a member from hostile peers. The bytes are a script, as
/// `Victim::play` reads it.
pub fn member(script: &[u8]) {
    let mut victim = victim();
    victim.play(script);
    told(&victim.replica);
}

/// The two members with which a session begins. Both have made an operation under the key `k`.
fn start() -> &'static [Replica; 2] {
    static START: OnceLock<[Replica; 2]> = OnceLock::new();
    START.get_or_init(|| {
        let [mut one, mut two] = members();
        make(&mut one, "k", &[("a", Op::Add(5))]);
        make(&mut two, "k", &[("a", Op::Add(5)), ("b", Op::Add(-3))]);
        [one, two]
    })
}

fn config(owner: Option<Owner>) -> SyncConfig {
    SyncConfig {
        push_delay_ms: 1,
        interval_ms: 1_000,
        guest_timeout_ms: 60_000,
        owner,
        ..SyncConfig::default()
    }
}

fn victim() -> Victim {
    let owner = Some(OWNERS[0]);
    let sync = SyncMachine::new(config(owner), 7);
    Victim::new(start()[0].clone(), sync, owner)
}

/// A healthy peer.
struct Other {
    replica: Replica,
    sync: SyncMachine,
    mark: Mark,
}

/// The type of the frame that answers a question.
const ANSWER: u8 = 12;

const TO_VICTIM: Link = Link(1);
const TO_OTHER: Link = Link(2);

/// A frame on its way: the receiver (`None` is the victim), the sender if the victim receives, the link, and
/// the bytes.
type Flight = (Option<usize>, usize, Link, Vec<u8>);

/// A session that is being recorded. The first of the `others` is a member, the second a page.
struct Session {
    victim: Victim,
    others: [Other; 2],
    flights: VecDeque<Flight>,
    /// Number of answers that the victim has sent.
    answers: usize,
    script: Vec<u8>,
}

impl Session {
    fn new() -> Session {
        let other = |replica: Replica, owner, seed| Other {
            replica,
            sync: SyncMachine::new(config(owner), seed),
            mark: Mark::default(),
        };
        let page = Replica::new(Space::default(), WriterId::from_bytes([0x33; 16]));
        Session {
            victim: victim(),
            others: [
                other(start()[1].clone(), Some(OWNERS[1]), 8),
                other(page, None, 9),
            ],
            flights: VecDeque::new(),
            answers: 0,
            script: Vec::new(),
        }
    }

    /// Lets the victim execute a command, and lets all peers do their part after it.
    fn command(&mut self, command: &[u8]) {
        self.tell_victim(command);
        self.settle();
    }

    fn tell_victim(&mut self, command: &[u8]) {
        self.script.extend_from_slice(command);
        self.victim.turn(command[0], &mut &command[1..]);
        for (peer, bytes) in self.victim.sent.drain(..) {
            self.flights.push_back((Some(peer), peer, TO_VICTIM, bytes));
        }
    }

    fn tell_other(&mut self, at: usize, input: Input<'_>) {
        let Other { replica, sync, .. } = &mut self.others[at];
        sync.handle(self.victim.now(), replica, input);
        while let Some(output) = sync.poll() {
            if let Output::Send { link, bytes } = output {
                let to = (link == TO_OTHER).then_some(1 - at);
                self.flights.push_back((to, at, link, bytes.to_vec()));
            }
        }
    }

    fn settle(&mut self) {
        while let Some((to, from, link, bytes)) = self.flights.pop_front() {
            match to {
                Some(at) => {
                    self.answers += usize::from(bytes[3] == ANSWER && link == TO_VICTIM);
                    self.tell_other(
                        at,
                        Input::Frame {
                            link,
                            bytes: &bytes,
                        },
                    );
                }
                None => self.say(from, &bytes),
            }
        }
    }

    /// Delivers a frame to the victim.
    fn say(&mut self, from: usize, bytes: &[u8]) {
        let size = u16::try_from(bytes.len()).expect("frames are small");
        let head = [&[(from as u8) << 7][..], &size.to_le_bytes()].concat();
        self.tell_victim(&[&head, bytes].concat());
    }

    fn connect(&mut self, peer: usize) {
        let (link, broadcast) = (TO_VICTIM, false);
        self.tell_victim(&[80 | (peer as u8) << 7]);
        self.tell_other(peer, Input::Connected { link, broadcast });
        self.settle();
    }

    fn connect_others(&mut self) {
        let (link, broadcast) = (TO_OTHER, false);
        for at in 0..2 {
            self.tell_other(at, Input::Connected { link, broadcast });
        }
        self.settle();
    }

    /// Lets some time pass, and lets the members put things in order.
    fn wait(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.command(&[104]);
            self.command(&[114]);
            let now = self.victim.now();
            let Other {
                replica,
                sync,
                mark,
            } = &mut self.others[0];
            let _ = replica.since(mark);
            sync.tend(now, replica, mark).expect("it is healthy");
            for at in 0..2 {
                self.tell_other(at, Input::Changed);
                self.tell_other(at, Input::Tick);
            }
            self.settle();
        }
    }

    /// The other member makes an operation under a key.
    fn make(&mut self, key: &str) {
        make(&mut self.others[0].replica, key, &[("a", Op::Add(5))]);
        self.tell_other(0, Input::Changed);
    }

    /// The other member asks the victim which vector it has.
    fn ask(&mut self) {
        let now = self.victim.now();
        let Other { replica, sync, .. } = &mut self.others[0];
        sync.ask_for_read(now, replica, Level::All);
        sync.ask_for_write(now, replica, Level::All, replica.vector());
    }
}

/// Scripts of healthy sessions. In the first one, the member and the victim meet. In the second one, the
/// victim first receives the member's changes through a page, and makes the operation again. Then the two
/// meet.
///
/// # Panics
/// If a session does not contain these events.
pub fn sessions() -> [Vec<u8>; 2] {
    let mut both = Session::new();
    both.connect(0);
    both.wait(2);
    both.make("m");
    both.ask();
    both.command(&[112]);
    both.command(&[113]);
    both.wait(3);
    both.command(&[116]);
    both.make("l");
    both.wait(3);
    let mut by_page = Session::new();
    by_page.connect_others();
    by_page.make("l");
    by_page.wait(2);
    by_page.connect(1);
    by_page.wait(1);
    assert!(
        by_page.victim.replica.keyed().has_gaps(),
        "a page tells no keys"
    );
    by_page.command(&[116]);
    by_page.connect(0);
    by_page.wait(3);
    assert!(!by_page.victim.replica.keyed().has_gaps(), "a member does");
    [both, by_page].map(|session| {
        let state = session.victim.replica.canonical_bytes();
        let state = format!("{:?}", Message::decode(&state));
        assert!(state.contains("Withdrawal {"), "{state}");
        session.script
    })
}

/// Number of answers that a member sends to a peer. The peer asks `asks` times for changes that the member
/// does not have yet, and then sends them.
pub fn answers_to(asks: u32) -> usize {
    let mut session = Session::new();
    session.connect(0);
    let mut held = Vec::new();
    for _ in 0..asks {
        let replica = &mut session.others[0].replica;
        replica.add("a", 1).expect("a small add");
        let token = replica.consistency().token(&Token::default());
        held.push(token.expect("one writer").vector().clone());
    }
    // The last question comes first, so that none covers an earlier one.
    for (id, upto) in (0..asks).zip(held.into_iter().rev()) {
        let space = Space::default();
        let body = Body::Ask(Ask { id, upto });
        session.say(0, &Frame { space, body }.encode());
    }
    assert_eq!((session.flights.len(), session.answers), (0, 0));
    session.tell_other(0, Input::Changed);
    session.wait(20);
    session.answers
}
