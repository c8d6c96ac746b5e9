//! What a sync machine says: pushes, which are small and yet never seen without what they build
//! on, pulls and digests.

use crate::support::{digests, full, observer, replica, space};
use tallymesh_core::wire::{Body, Delta, Digests, Frame, Hello, Last, Pull, VERSION};
use tallymesh_core::{
    Encode, Error, Input, Link, Mark, MergeError, Message, Millis, Missing, Output, Replica,
    SyncConfig, SyncMachine, WriterId,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A machine with two links that exchanged hellos.
struct Machine {
    replica: Replica,
    sync: SyncMachine,
    now: Millis,
}

impl Machine {
    fn new() -> Machine {
        let mut machine = Machine {
            replica: replica(1),
            sync: SyncMachine::new(SyncConfig::default(), 3),
            now: 0,
        };
        for link in [Link(1), Link(2)] {
            let hello = machine.hello(link.0, replica(7).writer());
            let broadcast = false;
            machine.input(Input::Connected { link, broadcast });
            machine.frame(link, hello);
        }
        machine
    }

    fn hello(&mut self, session: u32, writer: WriterId) -> Body {
        Body::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            capabilities: 0,
            session: u64::from(session),
            agent: String::new(),
            nonce: [0; 16],
            proof: Vec::new(),
            digests: digests(&mut self.replica),
            writer,
            clock: 0,
        })
    }

    fn input(&mut self, input: Input<'_>) {
        self.sync.handle(self.now, &mut self.replica, input);
    }

    fn frame(&mut self, link: Link, body: Body) {
        let space = space();
        let bytes = &Frame { space, body }.encode();
        self.input(Input::Frame { link, bytes });
    }

    fn add(&mut self, key: &str) {
        self.replica.add(key, 1).unwrap();
    }

    /// What was sent since the last look, but for the hellos.
    fn sent(&mut self) -> Vec<(Link, Body)> {
        let outputs = std::iter::from_fn(|| self.sync.poll());
        let sent = outputs.filter_map(|output| match output {
            Output::Send { link, bytes } => Some((link, Frame::decode(&bytes).unwrap().body)),
            Output::Refused { error, .. } => panic!("{error}"),
            _ => None,
        });
        sent.filter(|(_, body)| !matches!(body, Body::Hello(_)))
            .collect()
    }

    /// Lets the push delay go by.
    fn wait(&mut self) {
        self.now += 10;
        self.input(Input::Tick);
    }

    /// The push of what was added since the last one.
    fn push(&mut self) -> Message {
        self.input(Input::Changed);
        self.wait();
        let push = self.sent().into_iter().find_map(|(_, body)| match body {
            Body::Push(message) => Some(message),
            _ => None,
        });
        push.unwrap()
    }

    /// The pull that was sent on a link.
    fn pull(&mut self, on: Link) -> Pull {
        let pull = self.sent().into_iter().find_map(|sent| match sent {
            (link, Body::Pull(pull)) if link == on => Some(pull),
            _ => None,
        });
        pull.unwrap()
    }
}

/// A receiver that has a transaction from elsewhere need not have what was merged after it, even
/// if the push of that transaction was made later.
#[test]
fn a_push_builds_on_what_was_merged_since_the_last_transaction() {
    let mut machine = Machine::new();
    let mut other = replica(2);
    other.add("cause", 1).unwrap();
    machine.add("before");
    let early = full(&machine.replica);
    machine.replica.merge(&full(&other)).unwrap();
    let first = machine.push();
    machine.add("effect");
    let second = machine.push();

    let mut receiver = observer();
    receiver.merge(&early).unwrap();
    let missing = Error::Merge(MergeError::NotCovered(Box::new(Missing {
        writer: other.writer(),
        needed: 1,
        held: 0,
    })));
    assert_eq!(receiver.merge(&second), Err(missing));
    receiver.merge(&full(&other)).unwrap();
    receiver.merge(&second).unwrap();
    receiver.merge(&first).unwrap();
    assert_eq!(
        receiver.canonical_bytes(),
        machine.replica.canonical_bytes()
    );
}

/// A push costs what changed, not the number of writers that are known.
#[test]
fn a_push_names_only_what_is_new() {
    let mut machine = Machine::new();
    for number in 2..60 {
        let mut other = replica(number);
        other.add("k", 1).unwrap();
        machine.replica.merge(&full(&other)).unwrap();
    }
    machine.add("k");
    assert!(machine.push().encode().len() > 58 * 16);
    machine.add("k");
    let later = machine.push().encode().len();
    assert!(later < 40, "{later} bytes");
    // What brought no news is none.
    let all = full(&machine.replica);
    machine.replica.merge(&all).unwrap();
    machine.add("k");
    let later = machine.push().encode().len();
    assert!(later < 40, "{later} bytes");
}

/// A pull says what is held, and what it brought is told to the others at once, so that news
/// crosses the mesh in push delays and not in intervals.
#[test]
fn what_was_pulled_is_announced_to_the_others() {
    let mut machine = Machine::new();
    machine.add("mine");
    machine.frame(
        Link(1),
        Body::Digest(Digests {
            vector: [1; 16],
            contents: 1,
        }),
    );
    let pull = machine.pull(Link(1));
    assert_eq!((pull.chunk, &pull.vector), (0, &machine.replica.vector()));
    let mut other = replica(2);
    other.add("k", 1).unwrap();
    let delta = Delta {
        id: pull.id,
        chunk: 0,
        last: true,
        message: full(&other),
    };
    machine.frame(Link(1), Body::Delta(delta));
    assert_eq!(machine.replica.value("k"), Some(1));
    machine.wait();
    // Contents are compared at intervals.
    let digest = Body::Digest(Digests {
        contents: 0,
        ..digests(&mut machine.replica)
    });
    assert_eq!(machine.sent(), [(Link(2), digest)]);
}

/// Whoever is asked by one that holds more asks back.
#[test]
fn a_peer_that_holds_more_is_asked_in_turn() {
    let mut machine = Machine::new();
    machine.add("mine");
    let mut other = replica(2);
    other.add("k", 1).unwrap();
    let ask = Pull {
        id: 4,
        chunk: 0,
        vector: other.vector(),
    };
    machine.frame(Link(2), Body::Pull(ask.clone()));
    let sent = machine.sent();
    let answer = Body::Delta(Delta {
        id: 4,
        chunk: 0,
        last: true,
        message: machine.replica.delta(&other.vector()),
    });
    assert!(sent.contains(&(Link(2), answer)));
    let asks = |(link, body): &(Link, Body)| *link == Link(2) && matches!(body, Body::Pull(_));
    assert_eq!(sent.iter().filter(|sent| asks(sent)).count(), 1);
    // Not while that request is open.
    machine.frame(Link(2), Body::Pull(Pull { id: 5, ..ask }));
    assert!(!machine.sent().iter().any(asks));
}

/// A member admits a guest that connects, and reports to one that was given up what of it counts.
#[test]
fn a_member_admits_who_connects_and_reports_who_is_over() {
    let mut machine = Machine::new();
    let owner = [1; 32];
    machine
        .replica
        .members_mut()
        .found(&owner, &[2; 16], 5)
        .unwrap();
    let mut guest = replica(9);
    let writer = guest.writer();
    let (link, broadcast) = (Link(3), false);
    machine.input(Input::Connected { link, broadcast });
    let hello = machine.hello(3, writer);
    machine.frame(link, hello);
    assert!(machine.replica.members().sponsored().any(|it| it == writer));
    let whole = full(&machine.replica);
    guest.merge(&whole).unwrap();
    guest.add("a", 1).unwrap();
    machine.replica.members_mut().fence(&writer).unwrap();
    machine.sent();
    let ended = |last| (link, Body::Ended { writer, last });
    machine.frame(link, Body::Push(guest.delta(&machine.replica.vector())));
    assert!(machine.sent().contains(&ended(Last::Unsure(u64::MAX))));
    assert_eq!(machine.replica.value("a"), None);
    machine.frame(
        link,
        Body::Return {
            writer,
            intro: None,
            owner: None,
        },
    );
    let kept = Mark::default();
    let tended = machine.sync.tend(0, &mut machine.replica, &kept);
    assert_eq!(tended, Ok(true));
    machine.input(Input::Tick);
    assert!(machine.sent().contains(&ended(Last::Nothing)));
}

/// Two transfers under one number could be mixed up by the links that repeat and reorder.
#[test]
fn a_late_pull_begins_nothing_under_a_number_that_was_used() {
    let mut machine = Machine::new();
    machine.add("a");
    let vector = observer().vector();
    let pull = |id| {
        Body::Pull(Pull {
            id,
            chunk: 0,
            vector: vector.clone(),
        })
    };
    let mut answers = |id| {
        machine.frame(Link(1), pull(id));
        machine.add("a");
        let sent = machine.sent();
        let delta = |(_, body): &(Link, Body)| match body {
            Body::Delta(delta) => Some(delta.id),
            _ => None,
        };
        sent.iter().filter_map(delta).collect::<Vec<_>>()
    };
    assert_eq!(answers(7), vec![7]);
    assert_eq!(answers(8), vec![8]);
    assert!(answers(7).is_empty());
    assert_eq!(answers(9), vec![9]);
}
