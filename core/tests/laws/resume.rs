//! A replica that goes on in another program: the same writer, the same clock, the same state, and
//! what it counted is counted once in a space that has members by then.

use crate::support::{Random, cases, full, joined, keys, observer, replica, space, writer};
use tallymesh_core::wire::{Body, FOLLOWS, Frame};
use tallymesh_core::{
    Encode, Error, Input, Link, Mark, MemberError, MergeError, Message, Millis, Missing, Op,
    Output, Replica, SyncConfig, SyncMachine, VersionVector, WriterId,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const OWNER: [u8; 32] = [9; 32];
/// The nonce of the first writer of the helpers.
const NONCE: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The replica as another program gets it: from bytes.
fn moved(replica: &Replica) -> Replica {
    let state = Message::decode_stored(&full(replica).encode()).unwrap();
    Replica::resume(space(), replica.writer(), &state).unwrap()
}

fn op(random: &mut Random) -> Op {
    match random.below(8) {
        0 => Op::Reset,
        1 => Op::Delete,
        2 => Op::Set(random.amount()),
        3 => Op::Expire(1_000 + random.below(1_000) as u64),
        4 => Op::Persist,
        _ => Op::Add(random.below(9) as i64 - 4),
    }
}

#[test]
fn nothing_tells_a_resumed_replica_from_the_one_before() {
    cases(300, |random| {
        let keys = keys(random);
        let mut replicas: Vec<Replica> = (0..3).map(replica).collect();
        let step = |random: &mut Random, replicas: &mut [Replica]| {
            let at = random.below(replicas.len());
            if random.chance(30) {
                let delta = full(&replicas[random.below(replicas.len())]);
                replicas[at].merge(&delta).unwrap();
            } else {
                let key = random.pick(&keys);
                let _ = replicas[at].apply(key, op(random)); // refused if it overflows
            }
        };
        for _ in 0..random.below(40) {
            step(random, &mut replicas);
        }
        let at = random.below(replicas.len());
        let before = replicas[at].clone();
        replicas[at] = moved(&before);
        assert_eq!(replicas[at].writer(), before.writer());
        assert_eq!(replicas[at].clock(), before.clock());
        assert_eq!(replicas[at].vector(), before.vector());
        assert_eq!(replicas[at].canonical_bytes(), before.canonical_bytes());
        // What both do from here on is the same, and what they tell is.
        let mut twin = before;
        for _ in 0..random.below(10) {
            let (key, op) = (random.pick(&keys).clone(), op(random));
            assert_eq!(replicas[at].apply(&key, op), twin.apply(&key, op));
        }
        assert_eq!(replicas[at].canonical_bytes(), twin.canonical_bytes());
        for _ in 0..random.below(20) {
            step(random, &mut replicas);
        }
        let states: Vec<Message> = replicas.iter().map(full).collect();
        let all = joined(&states.iter().collect::<Vec<_>>());
        assert_eq!(all.forks().faults(), []);
        let mut mark = Mark::default();
        let stored = replicas[at]
            .since(&mut mark)
            .unwrap_or_else(|| full(&replicas[at]));
        assert_eq!(
            joined(&[&stored]).canonical_bytes(),
            replicas[at].canonical_bytes()
        );
    });
}

#[test]
fn only_a_whole_open_state_is_resumed() {
    let mut one = replica(1);
    one.add("k", 1).unwrap();
    let first = one.vector();
    one.add("k", 1).unwrap();
    let part = one.delta(&first);
    let missing = Error::Merge(MergeError::NotCovered(Box::new(Missing {
        writer: writer(1),
        needed: 1,
        held: 0,
    })));
    assert_eq!(
        Replica::resume(space(), writer(1), &part).err(),
        Some(missing)
    );
    one.members_mut().found(&OWNER, &NONCE, 1).unwrap();
    assert_eq!(
        Replica::resume(space(), writer(1), &full(&one)).err(),
        Some(Error::Member(MemberError::Closed))
    );
}

/// Whoever has the last transaction from before need not have what was merged after it.
#[test]
fn pushes_build_on_what_was_merged_before() {
    // Of smaller and of greater ids than the page's.
    for number in 2..8 {
        let (mut page, mut other) = (replica(1), replica(number));
        page.add("before", 1).unwrap();
        let early = full(&page);
        other.add("cause", 1).unwrap();
        page.merge(&full(&other)).unwrap();
        let mut page = Peer::new(moved(&page));
        page.connect();
        let hello = Peer::new(observer()).hello();
        page.handle(
            0,
            Input::Frame {
                link: Link(1),
                bytes: &hello,
            },
        );
        // One that tells nothing new, and is lost.
        page.pushes(1);
        page.replica.add("effect", 1).unwrap();
        let pushes = page.pushes(20);
        assert_eq!(pushes.len(), 1);
        let mut receiver = observer();
        receiver.merge(&early).unwrap();
        let missing = Error::Merge(MergeError::NotCovered(Box::new(Missing {
            writer: other.writer(),
            needed: 1,
            held: 0,
        })));
        assert_eq!(receiver.merge(&pushes[0]), Err(missing));
        receiver.merge(&full(&other)).unwrap();
        receiver.merge(&pushes[0]).unwrap();
        assert_eq!(receiver.value("effect"), Some(1));
    }
}

/// Whoever holds a transaction need not hold all that a push of it builds on: that names what was merged
/// after it, too. So nothing that another push builds on implies what it named itself.
#[test]
fn what_a_push_builds_on_is_named_also_if_another_one_named_it() {
    let connected = |replica| {
        let mut peer = Peer::new(replica);
        peer.connect();
        let (link, bytes) = (Link(1), &Peer::new(observer()).hello()[..]);
        peer.handle(0, Input::Frame { link, bytes });
        peer
    };
    for number in [2, 9] {
        let mut cause = replica(number);
        cause.add("cause", 1).unwrap();
        let mut early = connected(replica(5));
        early.replica.add("early", 1).unwrap();
        let mut reader = replica(7);
        reader.merge(&full(&early.replica)).unwrap();
        // After its transaction, and before that is pushed.
        early.replica.merge(&full(&cause)).unwrap();
        let pushes = early.pushes(1);
        assert_eq!(pushes.len(), 1);
        let lacks = |writer| {
            Err(Error::Merge(MergeError::NotCovered(Box::new(Missing {
                writer,
                needed: 1,
                held: 0,
            }))))
        };
        assert_eq!(observer().merge(&pushes[0]), lacks(cause.writer()));
        let mut sender = connected(replica(6));
        sender.replica.merge(&full(&cause)).unwrap();
        sender.replica.merge(&pushes[0]).unwrap();
        sender.replica.add("effect", 1).unwrap();
        let pushes = sender.pushes(20);
        assert_eq!(pushes.len(), 1);
        let mut newcomer = observer();
        newcomer.merge(&full(&cause)).unwrap();
        let early = early.replica.writer();
        assert_eq!(newcomer.merge(&pushes[0]), lacks(early));
        assert_eq!(reader.merge(&pushes[0]), lacks(cause.writer()));
        reader.merge(&full(&cause)).unwrap();
        reader.merge(&pushes[0]).unwrap();
    }
}

/// A replica with its sync machine, and a link to one other.
struct Peer {
    replica: Replica,
    sync: SyncMachine,
    mark: Mark,
    renewed: u64,
}

impl Peer {
    fn new(replica: Replica) -> Peer {
        let config = SyncConfig {
            interval_ms: 200,
            guest_timeout_ms: 2_000,
            ..SyncConfig::default()
        };
        Peer {
            sync: SyncMachine::new(config, replica.clock() + 7),
            replica,
            mark: Mark::default(),
            renewed: 0,
        }
    }

    fn handle(&mut self, now: Millis, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
    }

    /// The hello of a peer that follows no rounds, so that it gets pushes.
    fn hello(mut self) -> Vec<u8> {
        self.connect();
        let Some(Output::Send { bytes, .. }) = self.sync.poll() else {
            panic!("a hello is sent first");
        };
        let mut frame = Frame::decode(&bytes).unwrap();
        if let Body::Hello(hello) = &mut frame.body {
            hello.capabilities &= !FOLLOWS;
        }
        frame.encode()
    }

    /// What is pushed after a local change.
    fn pushes(&mut self, now: Millis) -> Vec<Message> {
        self.handle(now, Input::Changed);
        self.handle(now + 10, Input::Tick);
        let outputs = std::iter::from_fn(|| self.sync.poll());
        let bodies = outputs.filter_map(|output| match output {
            Output::Send { bytes, .. } => Some(Frame::decode(&bytes).unwrap().body),
            _ => None,
        });
        bodies
            .filter_map(|body| match body {
                Body::Push(message) => Some(message),
                _ => None,
            })
            .collect()
    }

    fn connect(&mut self) {
        let (link, broadcast) = (Link(1), false);
        self.handle(0, Input::Connected { link, broadcast });
    }
}

/// Lets time go by from `now` to `until`, with the frames of both carried over.
fn settle(peers: &mut [Peer; 2], now: Millis, until: Millis) {
    let mut frames = 0;
    for now in now..=until {
        for peer in &mut *peers {
            peer.handle(now, Input::Tick);
            let Peer {
                replica,
                sync,
                mark,
                ..
            } = peer;
            if now % 100 == 0 && replica.members().is_member() {
                replica.since(mark);
                sync.tend(now, replica, mark).unwrap();
            }
        }
        let mut busy = true;
        while std::mem::take(&mut busy) {
            for at in 0..2 {
                while let Some(output) = peers[at].sync.poll() {
                    busy = true;
                    match output {
                        Output::Send { link, bytes } => {
                            frames += 1;
                            assert!(frames < 2_000, "they can't stop");
                            let bytes = &bytes;
                            peers[1 - at].handle(now, Input::Frame { link, bytes });
                        }
                        Output::Renew => {
                            peers[at].renewed += 1;
                            let writer = writer(100 + peers[at].renewed);
                            peers[at].handle(now, Input::Renew { writer });
                        }
                        Output::Refused { error, .. } => panic!("{at}: {error}"),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// A space that was closed by the first replica, with something that was collected.
fn member(adds: &[i64]) -> Replica {
    let mut member = replica(1);
    assert_eq!(
        member.writer(),
        WriterId::mint(&space(), &OWNER, &NONCE),
        "of this owner and nonce"
    );
    for by in adds {
        member.add("likes", *by).unwrap();
    }
    member.members_mut().found(&OWNER, &NONCE, 1).unwrap();
    member.apply("gone", Op::Set(3)).unwrap();
    member.apply("gone", Op::Delete).unwrap();
    member
}

fn meet(page: &Replica, member: Replica) -> [Peer; 2] {
    let mut peers = [Peer::new(moved(page)), Peer::new(member)];
    for peer in &mut peers {
        peer.connect();
    }
    settle(&mut peers, 0, 4_000);
    peers
}

fn agree(peers: &[Peer; 2], likes: i128) {
    for peer in peers {
        assert_eq!(peer.replica.value("likes"), Some(likes));
    }
    assert_eq!(peers[0].replica.vector(), peers[1].replica.vector());
    assert_eq!(peers[0].replica.forks().faults(), []);
}

#[test]
fn one_that_has_seen_nobody_is_taken_in_as_it_is() {
    let mut page = replica(2);
    page.add("likes", 5).unwrap();
    let mut peers = meet(&page, member(&[10]));
    agree(&peers, 15);
    assert_eq!(peers[0].renewed, 0);
    assert_eq!(peers[0].replica.writer(), writer(2));
    assert_eq!(peers[0].replica.members().sponsor(), Some(writer(1)));
    // It leaves: its sponsor takes over, and nothing changes.
    peers[0].replica.members_mut().leave().unwrap();
    peers[0].handle(4_000, Input::Changed);
    settle(&mut peers, 4_001, 4_020);
    for peer in &mut peers {
        peer.handle(4_020, Input::Disconnected { link: Link(1) });
    }
    settle(&mut peers, 4_021, 6_000);
    assert_eq!(peers[1].replica.value("likes"), Some(15));
    assert_eq!(peers[1].replica.members().writer_table().count(), 1);
}

/// A guest need not know yet that a writer was forgotten, to be understood.
#[test]
fn a_leave_may_build_on_a_writer_that_was_forgotten() {
    let mut sponsor = member(&[10]);
    let mut sync = SyncMachine::new(SyncConfig::default(), 1);
    let mut tend = |sponsor: &mut Replica| {
        for now in 0..4 {
            let mark = sponsor.mark();
            sync.tend(now, sponsor, &mark).unwrap();
        }
    };
    let hear = |sponsor: &mut Replica, guest: &Replica| {
        let news = guest.delta(&sponsor.vector());
        sponsor
            .merge_with(&news, Some(guest.writer()), &mut |_| ())
            .unwrap();
    };
    let tell = |sponsor: &Replica, guest: &mut Replica| {
        let news = sponsor.delta(&guest.vector());
        guest.merge(&news).unwrap();
    };
    let mut guests = [replica(2), replica(3)];
    for guest in &mut guests {
        guest.add("likes", 1).unwrap();
        tell(&sponsor, guest);
        hear(&mut sponsor, guest);
        tell(&sponsor, guest);
    }
    let [early, late] = &mut guests;
    early.members_mut().leave().unwrap();
    hear(&mut sponsor, early);
    tend(&mut sponsor);
    tell(&sponsor, late);
    hear(&mut sponsor, late);
    late.add("likes", 1).unwrap();
    hear(&mut sponsor, late);
    tend(&mut sponsor);
    let known = |replica: &Replica| {
        replica
            .members()
            .writer_table()
            .any(|it| it.writer == early.writer())
    };
    assert!(!known(&sponsor) && known(late));
    let before = late.vector();
    late.members_mut().leave().unwrap();
    let leave = late.delta(&before);
    sponsor
        .merge_with(&leave, Some(late.writer()), &mut |_| ())
        .unwrap();
    tend(&mut sponsor);
    assert_eq!(sponsor.value("likes"), Some(13));
    assert_eq!(sponsor.members().writer_table().count(), 1);
}

#[test]
fn one_that_stands_on_an_open_state_comes_back_under_a_fresh_id() {
    let mut old = replica(3);
    old.add("likes", 100).unwrap();
    let mut page = replica(2);
    page.merge(&full(&old)).unwrap();
    page.add("likes", 5).unwrap();
    page.apply("views", Op::Set(7)).unwrap();
    // The member never heard of what the page stands on, nor of the page.
    let peers = meet(&page, member(&[10]));
    agree(&peers, 15);
    assert_eq!(peers[0].renewed, 1);
    assert_eq!(peers[1].replica.value("views"), Some(7));
    assert_eq!(peers[1].replica.members().writer_table().count(), 2);
}

#[test]
fn one_that_was_known_goes_on_as_it_was() {
    let mut page = replica(2);
    page.add("likes", 5).unwrap();
    let mut first = replica(1);
    first.merge(&full(&page)).unwrap();
    first.members_mut().found(&OWNER, &NONCE, 1).unwrap();
    // Not heard of by the member.
    page.add("likes", 2).unwrap();
    let peers = meet(&page, first);
    agree(&peers, 7);
    assert_eq!(peers[0].renewed, 0);
}

#[test]
fn a_resumed_replica_never_counts_twice() {
    cases(60, |random| {
        let amount = |random: &mut Random| random.below(20) as i64 + 1;
        let (mut page, mut other) = (replica(2), replica(3));
        let mut first = replica(1);
        let mut sum = 0;
        let mut unknown = 0;
        for _ in 0..random.below(12) {
            let by = amount(random);
            match random.below(6) {
                0 => first.merge(&full(&page)).map(drop).unwrap(),
                1 => page.merge(&full(&first)).map(drop).unwrap(),
                2 => page.merge(&full(&other)).map(drop).unwrap(),
                3 => {
                    other.add("likes", by).unwrap();
                    first.merge(&full(&other)).unwrap();
                    sum += by;
                }
                _ => {
                    page.add("likes", by).unwrap();
                    sum += by;
                }
            }
        }
        first.members_mut().found(&OWNER, &NONCE, 1).unwrap();
        let held = first.vector().get(&page.writer());
        // Given up before it comes, or not.
        if random.chance(40) && held > 0 {
            first.members_mut().fence(&page.writer()).unwrap();
            if held < page.clock() {
                // It can't tell what the rest comes to, and says so.
                let rest = page.delta(&VersionVector::default());
                unknown = joined(&[&rest]).value("likes").map_or(0, |_| {
                    let of = |replica: &Replica| {
                        let key_id = replica.key_id("likes");
                        let mut shards = key_id.into_iter().flat_map(|it| replica.shards(it));
                        shards
                            .find(|it| it.writer == page.writer())
                            .map_or(0, |it| it.total)
                    };
                    of(&page) - of(&first)
                });
            }
        }
        let peers = meet(&page, first);
        let likes = peers[1].replica.value("likes").unwrap_or(0);
        assert_eq!(likes, i128::from(sum) - unknown);
        assert_eq!(peers[0].replica.value("likes").unwrap_or(0), likes);
    });
}
