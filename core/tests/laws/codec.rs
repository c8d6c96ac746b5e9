//! The wire format: what is written is read, and nothing else is.

use crate::limits::put;
use crate::support::{Random, cases, full, keys, replica, space, world, writer};
use tallymesh_core::bounds::{AGENT_BYTES_MAX, FRAME_BYTES_MAX, KEY_BYTES_MAX, PROOF_BYTES_MAX};
use tallymesh_core::wire::{
    Body, Delta, Digests, Followed, Frame, Hello, Intro, Last, Names, Position, Pull, Round,
    VERSION, Why,
};
use tallymesh_core::{
    DecodeError, Encode, Error, LinkError, Mark, Message, Op, Replica, WriterId, frame_space,
    push_changes_writer,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A message of a random history: a full state, a delta, or what came since a mark.
fn message(random: &mut Random) -> Message {
    // What only a store keeps is not told.
    Message::decode(&stored(random).encode()).unwrap()
}

/// A message that a store may keep.
fn stored(random: &mut Random) -> Message {
    let (mut replicas, _) = world(random, 3);
    if random.chance(60) {
        stir(random, &mut replicas);
    }
    match random.below(4) {
        0 if random.chance(50) => replicas[0].snapshot(),
        0 => full(&replicas[0]),
        1 => replicas[0].delta(&replicas[1].vector()),
        _ => {
            let mut mark = Mark::default();
            replicas[0].since(&mut mark);
            for _ in 0..random.below(4) {
                let keys = keys(random);
                let (key, by) = (random.pick(&keys), random.amount());
                // Refused if it would overflow.
                let _ = replicas[0].add(key, by);
            }
            replicas[0].since(&mut mark).unwrap_or_default()
        }
    }
}

/// Operations of all kinds, merges in between, and now and then members.
fn stir(random: &mut Random, replicas: &mut [Replica]) {
    if random.chance(40) {
        let _ = replicas[0].members_mut().found(&[1; 32], &[2; 16], 5);
    }
    for _ in 0..random.below(30) {
        let (at, from) = (random.below(replicas.len()), random.below(replicas.len()));
        let keys = keys(random);
        let key = random.pick(&keys[..keys.len().min(4)]);
        let op = match random.below(6) {
            0 => Op::Add(random.amount()),
            1 => Op::Reset,
            2 => Op::Delete,
            3 => Op::Set(random.amount()),
            4 => Op::Expire(random.next() >> 20),
            _ => Op::Persist,
        };
        // Some are refused: an overflow, a message that builds on something else, no member.
        let _ = replicas[at].apply(key, op);
        let delta = replicas[from].delta(&replicas[at].vector());
        let live = replicas[from].writer();
        let _ = replicas[at].merge_with(&delta, Some(live), &mut |_| ());
        match random.below(6) {
            0 => drop(replicas[0].members_mut().acknowledge()),
            1 => drop(replicas[0].members_mut().retire()),
            2 => drop(replicas[0].members_mut().fence(&live)),
            3 => drop(replicas[at].members_mut().leave()),
            4 => drop(replicas[0].members_mut().collect(&Mark::default())),
            _ => {}
        }
    }
}

fn bytes<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| random.next() as u8)
}

fn number(random: &mut Random) -> u32 {
    (random.next() as u32) >> random.below(32)
}

fn digests(random: &mut Random) -> Digests {
    Digests {
        vector: bytes(random),
        contents: random.next(),
    }
}

fn any_writer(random: &mut Random) -> WriterId {
    WriterId::from_bytes(bytes(random))
}

fn frame(random: &mut Random) -> Frame {
    let body = match random.below(14) {
        0 => Body::Hello(Hello {
            version_min: random.below(2) as u8,
            version_max: VERSION + random.below(3) as u8,
            capabilities: random.next() >> random.below(64),
            session: random.next(),
            agent: "ä".repeat(random.below(AGENT_BYTES_MAX / 2 + 1)),
            nonce: bytes(random),
            proof: vec![7; random.below(PROOF_BYTES_MAX + 1)],
            digests: digests(random),
            writer: any_writer(random),
            clock: random.next(),
        }),
        1 => Body::Digest(digests(random)),
        2 => Body::Pull(Pull {
            id: number(random),
            chunk: number(random),
            vector: world(random, 3).0[0].vector(),
        }),
        3 => Body::Delta(Delta {
            id: number(random),
            chunk: number(random),
            last: random.chance(50),
            message: message(random),
        }),
        4 => Body::More {
            id: number(random),
            chunk: number(random),
        },
        5 => Body::Contents {
            why: *random.pick(&[Why::Answer, Why::Ask, Why::Forked]),
            vector: bytes(random),
            writers: world(random, 3).0[0].forks().contents(),
        },
        6 => Body::Writer(any_writer(random)),
        7 => Body::Return {
            writer: any_writer(random),
            intro: random.chance(50).then(|| Intro {
                by: any_writer(random),
                clock: random.next(),
                owner: [7; 32],
                generation: random.next(),
            }),
            owner: random.chance(50).then_some([8; 32]),
        },
        8 => Body::Ended {
            writer: any_writer(random),
            last: match random.below(5) {
                0 => Last::Unsure(random.next()),
                1 => Last::Upto(random.next()),
                2 => Last::Member,
                3 => Last::Hearsay,
                _ => Last::Forgotten(random.chance(50)),
            },
        },
        9 => Body::Time(random.next() >> random.below(64)),
        10 => {
            let from = random.next() >> 1 >> random.below(63);
            let message = message(random);
            let find = |first: &WriterId, last: &WriterId| {
                let mut those = (0..16)
                    .map(writer)
                    .filter(|it| (first..=last).contains(&it));
                those.next().filter(|_| those.next().is_none())
            };
            let known = random.next();
            let is_known = |it: &WriterId| known >> (it.as_bytes()[0] % 64) & 1 > 0;
            let round = Frame {
                space: space(),
                body: Body::Round(Round {
                    from,
                    to: from + 1 + (random.next() >> 1 >> random.below(63)),
                    names: Names::of(&message, 1 << 20, find, is_known),
                    message,
                }),
            };
            // Where it was read, names are in the place of ids.
            Frame::decode(&round.encode()).unwrap().body
        }
        11 => Body::Position(Position {
            at: random.next() >> random.below(64),
            pull: number(random),
            digests: digests(random),
            stable: world(random, 3).0[0].vector(),
        }),
        12 => Body::Followed(Followed {
            at: random.next() >> random.below(64),
            clock: random.next() >> random.below(64),
        }),
        _ => Body::Push(message(random)),
    };
    let space = space();
    Frame { space, body }
}

/// Decoding never panics, and whatever is accepted is written in just these bytes.
fn strict(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(message.encode(), bytes);
        // Whatever it says, it is merged or refused, and what comes of it can be read and sent.
        let mut replica = replica(77);
        replica.add("k", 1).unwrap();
        let _ = replica.merge(&message);
        let _ = replica.merge(&message);
        for (key_id, key) in replica
            .counters()
            .map(|(h, k)| (h, k.to_string()))
            .collect::<Vec<_>>()
        {
            let _ = (replica.value_at(key_id), replica.expiry_at(key_id));
            let _ = replica.shards(key_id).count();
            let _ = replica.transact(&[
                (&key, Op::Expire(5)),
                (&key, Op::Add(1)),
                (&key, Op::Delete),
            ]);
        }
        let state = full(&replica).encode();
        assert_eq!(
            Message::decode_stored(&state).map(|m| m.encode()),
            Ok(state)
        );
    }
    if let Ok(frame) = Frame::decode(bytes) {
        assert_eq!(frame.encode(), bytes);
        assert_eq!(frame_space(bytes), Ok(frame.space.as_str()));
    }
}

#[test]
fn a_message_comes_back_as_it_was() {
    cases(1000, |random| {
        let message = message(random);
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes), Ok(message.clone()));
        assert_eq!(Message::decode_stored(&bytes), Ok(message));
        let message = stored(random);
        let bytes = message.encode_stored();
        assert_eq!(Message::decode_stored(&bytes), Ok(message));
    });
}

#[test]
fn whose_changes_a_push_has_is_read_without_the_rest() {
    let (mut made, other) = (replica(1), replica(2));
    let before = made.vector();
    made.add("m", 1).unwrap();
    let frame = |body| Frame {
        space: made.space().clone(),
        body,
    };
    let bytes = frame(Body::Push(made.delta(&before))).encode();
    assert!(push_changes_writer(&bytes, &made.writer()));
    assert!(!push_changes_writer(&bytes, &other.writer()));
    assert!(!push_changes_writer(&bytes[..12], &made.writer()));
    let transfer = Body::Delta(Delta {
        id: 1,
        chunk: 0,
        last: true,
        message: made.delta(&before),
    });
    assert!(!push_changes_writer(
        &frame(transfer).encode(),
        &made.writer()
    ));
    let held = Body::Push(made.delta(&made.vector()));
    assert!(!push_changes_writer(&frame(held).encode(), &made.writer()));
    // A push with several writers, each of which may be the first or the last, or missing.
    let mut several = [2, 4, 6, 8].map(replica);
    let all: Vec<WriterId> = several.iter().map(Replica::writer).collect();
    let before = several[0].vector();
    several.iter_mut().for_each(|it| {
        it.add("m", 1).unwrap();
    });
    let (one, others) = several.split_first_mut().unwrap();
    for other in others {
        one.merge(&full(other)).unwrap();
    }
    let bytes = frame(Body::Push(one.delta(&before))).encode();
    for number in 1..=9 {
        let writer = replica(number).writer();
        let changes = push_changes_writer(&bytes, &writer);
        assert_eq!(changes, all.contains(&writer), "{number}");
    }
}

#[test]
fn a_frame_comes_back_as_it_was() {
    cases(1000, |random| {
        let frame = frame(random);
        let bytes = frame.encode();
        assert_eq!(frame_space(&bytes), Ok("laws"));
        assert_eq!(Frame::decode(&bytes), Ok(frame));
    });
}

#[test]
fn a_prefix_is_refused_and_so_is_a_tail() {
    cases(200, |random| {
        let frame = frame(random).encode();
        let message = message(random).encode();
        // At each place in short ones, at some in long ones.
        let step = |len: usize| 1 + len / 400;
        for end in (0..frame.len()).step_by(step(frame.len())) {
            assert!(Frame::decode(&frame[..end]).is_err(), "cut at {end}");
        }
        for end in (0..message.len()).step_by(step(message.len())) {
            assert!(Message::decode(&message[..end]).is_err(), "cut at {end}");
        }
        for count in 1..4 {
            let tail = vec![random.next() as u8; count];
            let longer = [frame.as_slice(), &tail].concat();
            assert!(Frame::decode(&longer).is_err());
            let longer = [message.as_slice(), &tail].concat();
            assert_eq!(
                Message::decode(&longer),
                Err(Error::Decode(DecodeError::TrailingBytes { bytes: count }))
            );
        }
    });
}

#[test]
fn noise_is_refused_or_means_itself() {
    cases(600, |random| {
        let sources = [frame(random).encode(), message(random).encode()];
        for _ in 0..40 {
            let mut bytes = random.pick(&sources).clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len());
                match random.below(5) {
                    0 => bytes[at] = random.next() as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => bytes[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                    3 => bytes.insert(at, random.next() as u8),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            strict(&bytes);
        }
        let length = random.below(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        strict(&bytes);
        bytes.splice(0..0, *b"tm\x01");
        strict(&bytes);
    });
}

/// Every message of few bytes: the format is small enough to try them all.
#[test]
fn every_short_message_is_refused_or_means_itself() {
    let mut table = vec![1];
    table.extend_from_slice(writer(1).as_bytes());
    let interesting = [0, 1, 2, 3, 4, b'k', 0x80, 0xff];
    let mut accepted = 0;
    // The key, how many columns, the writer, which keys, the clock, the total; nothing beside.
    let mut places = [0usize; 6];
    loop {
        let mut bytes = table.clone();
        bytes.extend_from_slice(&[0, 5, 1, 0, 1]);
        bytes.extend(places.iter().map(|place| interesting[*place]));
        bytes.extend_from_slice(&[0, 0]);
        strict(&bytes);
        accepted += usize::from(Message::decode(&bytes).is_ok());
        let Some(at) = places
            .iter()
            .position(|place| place + 1 < interesting.len())
        else {
            break;
        };
        places[..at].fill(0);
        places[at] += 1;
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn another_version_is_named() {
    cases(50, |random| {
        let frame = frame(random);
        let is_hello = matches!(frame.body, Body::Hello(_));
        let mut bytes = frame.encode();
        bytes[2] = 2;
        if is_hello {
            // The versions that it names stand after the space's name.
            let at = 4 + 1 + frame.space.as_str().len();
            bytes[at..at + 2].copy_from_slice(&[2, 3]);
        }
        let max = if is_hello { 3 } else { 2 };
        let error = Error::Link(LinkError::Version { min: 2, max });
        assert_eq!(Frame::decode(&bytes), Err(error.clone()));
        assert!(error.to_string().contains("upgrade"));
        bytes[0] = b'x';
        assert_eq!(
            Frame::decode(&bytes),
            Err(Error::Link(LinkError::NotAFrame))
        );
        assert_eq!(frame_space(&bytes), Err(Error::Link(LinkError::NotAFrame)));
    });
}

#[test]
fn sizes_have_limits() {
    let too_long = vec![0; FRAME_BYTES_MAX + 1];
    let code = |result: Result<Message, Error>| result.map_err(|error| error.code()).err();
    assert_eq!(code(Message::decode(&too_long)), Some("too_large"));
    assert!(matches!(
        Frame::decode(&too_long),
        Err(Error::Decode(DecodeError::TooLarge { .. }))
    ));
    // Keys that share long prefixes take few bytes until they are written out.
    let mut bytes = vec![1];
    bytes.extend_from_slice(writer(1).as_bytes());
    bytes.extend_from_slice(&[0, 1]);
    let count = 0x40_0000 / KEY_BYTES_MAX as u64 * 3;
    put(&mut bytes, count);
    let key = vec![b'k'; KEY_BYTES_MAX - 5];
    let mut shared = 0;
    let mut before = Vec::new();
    for at in 0..count {
        let mut next = key.clone();
        next.extend_from_slice(format!("{at:05}").as_bytes());
        if at > 0 {
            shared = before.iter().zip(&next).take_while(|(a, b)| a == b).count();
        }
        put(&mut bytes, shared as u64);
        put(&mut bytes, (next.len() - shared) as u64);
        bytes.extend_from_slice(&next[shared..]);
        before = next;
    }
    for _ in 0..count.div_ceil(64) {
        bytes.extend_from_slice(&[0, 0, 0]);
        let rows = bytes.len();
        bytes.resize(rows + 128, 0);
    }
    assert!(bytes.len() < FRAME_BYTES_MAX / 4);
    assert_eq!(code(Message::decode(&bytes)), Some("too_large"));
}

/// Two replicas with one state write the same bytes, whatever the order in which it came about.
#[test]
fn one_state_has_one_encoding() {
    cases(200, |random| {
        let names = keys(random);
        let mut order: Vec<usize> = (0..names.len()).collect();
        let mut source = replica(1);
        let mut shuffled = replica(2);
        for name in &names {
            source.add(name, 1).unwrap();
        }
        random.shuffle(&mut order);
        for at in order {
            shuffled.intern(&names[at]).unwrap();
        }
        shuffled.merge(&full(&source)).unwrap();
        assert_eq!(shuffled.canonical_bytes(), source.canonical_bytes());
    });
}
