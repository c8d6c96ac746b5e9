//! The golden vectors of the wire format, as code: tests compare them with the files under
//! `vectors/`, which docs/protocol.md refers to by name.

mod audits;
mod budgets;
mod keyed;
mod refused;
mod rounds;
mod tokens;

pub use audits::{answers, questions};
pub use tokens::{TokenText, tokens};

pub(crate) use keyed::{make, members, once};

use tallymesh_core::wire::{
    Answer, Ask, Body, Delta, Digests, Draw, Frame, Hello, Intro, Last, Pull, VERSION, Want, Why,
};
use tallymesh_core::{
    Encode, Input, Link, Message, Op, Output, Replica, RightKind, Space, SyncConfig, SyncMachine,
    VersionVector, WriterId,
};

/// Named bytes, and a description of their content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The name in documents.
    pub name: &'static str,
    /// A description of the content.
    pub says: &'static str,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// For bytes that must be rejected: the error's code.
    pub refused: Option<&'static str>,
}

fn vector(name: &'static str, says: &'static str, bytes: Vec<u8>) -> Vector {
    Vector {
        name,
        says,
        bytes,
        refused: None,
    }
}

fn refused(name: &'static str, says: &'static str, code: &'static str, bytes: Vec<u8>) -> Vector {
    Vector {
        refused: Some(code),
        ..vector(name, says, bytes)
    }
}

/// A replica of the default space whose writer's 16 bytes are all `byte`.
fn replica(byte: u8) -> Replica {
    Replica::new(Space::default(), WriterId::from_bytes([byte; 16]))
}

fn with(byte: u8, adds: &[(&str, i64)]) -> Replica {
    let mut replica = replica(byte);
    for (key, by) in adds {
        replica.add(key, *by).expect("a vector's add fits");
    }
    replica
}

fn full(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// The state of two writers: 11.. added to a, b and c, then 22.. to b.
fn two() -> Replica {
    let mut replica = with(0x11, &[("a", 1), ("b", 2), ("c", 300)]);
    replica
        .merge(&full(&with(0x22, &[("b", -5)])))
        .expect("a vector's merge fits");
    replica
}

/// Writer 11.. after these operations, a transaction each.
fn after(ops: &[(&str, Op)]) -> Replica {
    let mut replica = replica(0x11);
    for (key, op) in ops {
        replica.apply(key, *op).expect("a vector's operation fits");
    }
    replica
}

/// Writer 11.. has added 1 to a, 2 to b and 300 to c. Writer 22.. has seen this, and then made these
/// operations.
fn cancelled(ops: &[(&str, Op)]) -> Replica {
    let mut replica = replica(0x22);
    let adds = full(&with(0x11, &[("a", 1), ("b", 2), ("c", 300)]));
    replica.merge(&adds).expect("a vector's merge fits");
    for (key, op) in ops {
        replica.apply(key, *op).expect("a vector's operation fits");
    }
    replica
}

fn expired() -> Replica {
    let ops = [
        ("a", Op::Add(1)),
        ("b", Op::Add(1)),
        ("a", Op::Expire(1_000)),
        ("b", Op::Persist),
    ];
    let mut replica = replica(0x22);
    replica
        .merge(&full(&after(&ops)))
        .expect("a vector's merge fits");
    replica
        .apply("a", Op::Expire(2_000))
        .expect("a vector's operation fits");
    replica
}

fn wide() -> Replica {
    let mut one = after(&[("a", Op::Add(i64::MAX))]);
    let mut two = replica(0x22);
    two.merge(&full(&one)).expect("a vector's merge fits");
    // The reset has not seen this add, so the lifetime goes on.
    one.apply("a", Op::Add(-1))
        .expect("a vector's operation fits");
    two.apply("a", Op::Reset)
        .expect("a vector's operation fits");
    one.merge(&full(&two)).expect("a vector's merge fits");
    one.apply("a", Op::Add(i64::MAX))
        .expect("a vector's operation fits");
    one
}

/// Messages that must decode, and encode to the same bytes.
pub fn messages() -> Vec<Vector> {
    let mut later = two();
    let since = later.vector();
    later.add("a", 1).expect("a vector's add fits");
    let many: Vec<String> = (0..65).map(|at| format!("counter:{at:05}")).collect();
    let many: Vec<(&str, i64)> = many.iter().map(|key| (key.as_str(), 1)).collect();
    let mut bitmap = with(0x11, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]);
    bitmap
        .merge(&full(&with(0x22, &[("a", 5), ("d", 6)])))
        .expect("a vector's merge fits");
    let mut all = vec![
        vector(
            "empty",
            "The full state of an empty replica.",
            full(&replica(0x11)).encode(),
        ),
        vector(
            "one_add",
            "Writer 11.. added 5 to `a`: clock 1, total 5.",
            full(&with(0x11, &[("a", 5)])).encode(),
        ),
        vector(
            "zero_add",
            "Writer 11.. added 0 to `a`, which creates it.",
            full(&with(0x11, &[("a", 0)])).encode(),
        ),
        vector(
            "negative",
            "Writer 11.. took 3 from `a`: the totals of the column are signed.",
            full(&with(0x11, &[("a", -3)])).encode(),
        ),
        vector(
            "extremes",
            "Writer 11.. added the greatest and the least 64-bit integer to `max` and `min`.",
            full(&with(0x11, &[("max", i64::MAX), ("min", i64::MIN)])).encode(),
        ),
        vector(
            "shared_prefixes",
            "Keys that share prefixes, also within a character: `täg:1`, `täg:10`, `töne`.",
            full(&with(0x11, &[("täg:1", 1), ("täg:10", 2), ("töne", 3)])).encode(),
        ),
        vector(
            "two_writers",
            "Writer 11.. added 1 to `a`, 2 to `b`, 300 to `c`; writer 22.. took 5 from `b`: a column of all keys and one of a single key.",
            full(&two()).encode(),
        ),
        vector(
            "bitmap",
            "Writer 11.. added to `a` to `d`, writer 22.. to `a` and `d`: a column with a bitmap.",
            full(&bitmap).encode(),
        ),
        vector(
            "overwritten",
            "Writer 11.. added 1 to `a` three times: one shard, clock 3, total 3.",
            full(&with(0x11, &[("a", 1), ("a", 1), ("a", 1)])).encode(),
        ),
        vector(
            "two_pages",
            "Writer 11.. added 1 to `counter:00000` to `counter:00064`: a page of 64 keys and one of one.",
            full(&with(0x11, &many)).encode(),
        ),
        vector(
            "cancels",
            "Writer 22.. saw 11.. add 1 to `a`, 2 to `b`, 300 to `c`, and deleted `a`, reset `b` and set `c` to 7, each a transaction.",
            full(&cancelled(&[
                ("a", Op::Delete),
                ("b", Op::Reset),
                ("c", Op::Set(7)),
            ]))
            .encode(),
        ),
        vector(
            "new_life",
            "Writer 11.. added 1 to `a`, deleted it and added 5: one shard, of a life that began at clock 3.",
            full(&after(&[
                ("a", Op::Add(1)),
                ("a", Op::Delete),
                ("a", Op::Add(5)),
            ]))
            .encode(),
        ),
        vector(
            "expiries",
            "Writer 11.. added 1 to `a` and `b`, let `a` expire one second after 1970 and persisted `b`; then 22.., who saw that, let `a` expire after two seconds.",
            full(&expired()).encode(),
        ),
        vector(
            "wide",
            "Writer 11.. added the greatest 64-bit integer twice to `a`, and 22.. reset it in between: a total of more than 64 bits.",
            full(&wide()).encode(),
        ),
        vector(
            "delta",
            "What came after two_writers: writer 11.. added 1 to `a`. Both writers are in the table, one of them unchanged.",
            later.delta(&since).encode(),
        ),
    ];
    all.extend(keyed::messages());
    all.extend(budgets::messages());
    all
}

/// Records of a store that must decode, and encode to the same bytes.
pub fn stored() -> Vec<Vector> {
    keyed::stored()
}

fn frame(body: Body) -> Vec<u8> {
    let space = Space::default();
    Frame { space, body }.encode()
}

fn digests() -> Digests {
    let mut replica = two();
    Digests {
        vector: replica.digest(),
        contents: replica.forks_mut().content_digest(),
    }
}

fn contents(why: Why, replica: &Replica) -> Body {
    Body::Contents {
        why,
        vector: replica.digest(),
        writers: replica.forks().contents(),
    }
}

fn hello() -> Hello {
    Hello {
        version_min: VERSION,
        version_max: VERSION,
        capabilities: 0,
        session: 0x0102_0304_0506_0708,
        agent: "tallymesh/0.1.0".into(),
        nonce: [0xaa; 16],
        proof: Vec::new(),
        digests: digests(),
        writer: two().writer(),
        clock: two().clock(),
    }
}

/// The push of a machine after a local add, on top of changes that it has merged.
fn push() -> Vec<u8> {
    let mut replica = two();
    let mut sync = SyncMachine::new(SyncConfig::default(), 0);
    let (link, broadcast) = (Link(1), false);
    sync.handle(0, &mut replica, Input::Connected { link, broadcast });
    let bytes = &frame(Body::Hello(hello()));
    sync.handle(0, &mut replica, Input::Frame { link, bytes });
    sync.handle(0, &mut replica, Input::Changed);
    sync.handle(9, &mut replica, Input::Tick);
    replica
        .merge(&full(&with(0x33, &[("z", 9)])))
        .expect("fits");
    replica.add("a", 4).expect("fits");
    sync.handle(10, &mut replica, Input::Changed);
    sync.handle(19, &mut replica, Input::Tick);
    let outputs = std::iter::from_fn(|| sync.poll());
    let pushes = outputs.filter_map(|output| match output {
        Output::Send { bytes, .. } => Some(bytes.to_vec()),
        _ => None,
    });
    let is_push = |bytes: &Vec<u8>| {
        let frame = Frame::decode(bytes).expect("a frame of ours decodes");
        matches!(frame.body, Body::Push(_))
    };
    pushes.filter(is_push).last().expect("a push was sent")
}

/// Frames that must decode, and encode to the same bytes.
pub fn frames() -> Vec<Vector> {
    let (id, chunk) = (7, 300);
    let delta = |last, message| Delta {
        id,
        chunk,
        last,
        message,
    };
    let vector_of_two = two().vector();
    let frames = vec![
        vector(
            "writer",
            "The sender writes under this writer from now on.",
            frame(Body::Writer(two().writer())),
        ),
        vector(
            "own",
            "This writer, which was minted with this nonce, is of the sender's owner, whose key is 07 32 times.",
            frame(Body::Own {
                writer: WriterId::mint(&Space::default(), &[7; 32], &[8; 16]),
                nonce: [8; 16],
            }),
        ),
        vector(
            "return",
            "The sender's writer, this one, which was taken in, can't go on: end it.",
            frame(Body::Return {
                writer: two().writer(),
                intro: Some(Intro {
                    by: two().writer(),
                    clock: 7,
                    owner: [5; 32],
                    generation: 300,
                }),
                owner: None,
            }),
        ),
        vector(
            "return_owner",
            "The sender's writer, which nobody took in as far as it knows, can't go on: end it. Its owner may be a member.",
            frame(Body::Return {
                writer: two().writer(),
                intro: None,
                owner: Some([5; 32]),
            }),
        ),
        vector(
            "ended",
            "This writer can't go on; how much of it counts is not certain yet.",
            frame(Body::Ended {
                writer: two().writer(),
                last: Last::Unsure(5),
            }),
        ),
        vector(
            "ended_member",
            "This writer can't go on; how much of it counts is not certain before its owner, which is a member, has announced itself.",
            frame(Body::Ended {
                writer: two().writer(),
                last: Last::Member,
            }),
        ),
        vector(
            "ended_upto",
            "This writer can't go on; its transactions up to clock 300 count.",
            frame(Body::Ended {
                writer: two().writer(),
                last: Last::Upto(300),
            }),
        ),
        vector(
            "hello",
            "Versions 1 to 1, no capabilities, session 0102030405060708, agent tallymesh/0.1.0, nonce aa.., no proof, the digests of two_writers, and their first writer and its clock.",
            frame(Body::Hello(hello())),
        ),
        vector(
            "hello_newer",
            "A hello of a program that also speaks version 3, has capabilities 5 and a proof of 4 bytes.",
            frame(Body::Hello(Hello {
                version_max: 3,
                capabilities: 5,
                proof: vec![1, 2, 3, 4],
                ..hello()
            })),
        ),
        vector(
            "digest",
            "The digests of two_writers.",
            frame(Body::Digest(digests())),
        ),
        vector(
            "ask",
            "Question 300: say so once you hold what 11.. made up to clock 3.",
            frame(Body::Ask(Ask {
                id: 300,
                upto: with(0x11, &[("a", 1), ("b", 2), ("c", 300)]).vector(),
            })),
        ),
        vector(
            "ask_all",
            "Question 7: what do you hold?",
            frame(Body::Ask(Ask {
                id,
                upto: VersionVector::default(),
            })),
        ),
        vector(
            "answer",
            "To question 300: 11.. is held up to clock 3. The sender is a member that has its say, in configuration 5 of era 1.",
            frame(Body::Answer(Answer {
                id: 300,
                era: 1,
                number: 5,
                accepted: false,
                counts: true,
                whole: false,
                vector: with(0x11, &[("a", 1), ("b", 2), ("c", 300)]).vector(),
            })),
        ),
        vector(
            "answer_all",
            "To question 7: the vector of two_writers is all that is held. The sender has its say, knows configuration 300, and has accepted one of number 301.",
            frame(Body::Answer(Answer {
                id,
                era: 0,
                number: 300,
                accepted: true,
                counts: true,
                whole: true,
                vector: two().vector(),
            })),
        ),
        vector(
            "want",
            "Somebody at the sender waits for 300 more rights of the budget gift; 1000 were used or are waited for. The receiver was seen up to clock 70000.",
            frame(Body::Want(Want {
                kind: RightKind::Rights,
                name: "gift".into(),
                seen: 70_000,
                need: 300,
                recent: 1_000,
            })),
        ),
        vector(
            "want_room",
            "The sender uses as much room of a budget as there may be, and nobody waits.",
            frame(Body::Want(Want {
                kind: RightKind::Room,
                name: "ü\0".into(),
                seen: 0,
                need: 0,
                recent: i64::MAX as u64,
            })),
        ),
        vector(
            "want_window",
            "Somebody at the sender waits for 1 more of the key login in the minute that ends at 1800000060000, of a limit that was set by configuration 2; 30 were used or are waited for.",
            frame(Body::Want(Want {
                kind: RightKind::Period,
                name: format!("{:016x}{:016x}login", 1_800_000_060_000_u64, 2),
                seen: 70_000,
                need: 1,
                recent: 30,
            })),
        ),
        vector(
            "draw",
            "Somebody at the sender waits for 3 numbers of the sequence visits; 1000 were handed out of late. The receiver was seen up to clock 70000.",
            frame(Body::Draw(Draw {
                name: "visits".into(),
                seen: 70_000,
                need: 3,
                recent: 1_000,
            })),
        ),
        vector(
            "time",
            "The sender is a member, and judges expiries by this time: 1800000000000 ms after 1970.",
            frame(Body::Time(1_800_000_000_000)),
        ),
        vector(
            "contents_ask",
            "Which writers' contents differ? Those of two_writers.",
            frame(contents(Why::Ask, &two())),
        ),
        vector(
            "contents_forked",
            "Writers were found forked: here those of the message expired, whose shards have lives and expiries, some of them taken away.",
            frame(contents(Why::Forked, &expired())),
        ),
        vector(
            "contents_answer",
            "These differ: here those of the message wide, where 22.. cancels part of 11..'s shard.",
            frame(contents(Why::Answer, &wide())),
        ),
        vector(
            "pull",
            "Request 7, from chunk 300 on, for what is not in the vector of two_writers.",
            frame(Body::Pull(Pull {
                id,
                chunk,
                vector: vector_of_two,
            })),
        ),
        vector(
            "delta_chunk",
            "Chunk 300 of request 7, more follow: the message one_add.",
            frame(Body::Delta(delta(false, full(&with(0x11, &[("a", 5)]))))),
        ),
        vector(
            "delta_last",
            "Chunk 300 of request 7, the last one: the message two_writers.",
            frame(Body::Delta(delta(true, full(&two())))),
        ),
        vector(
            "delta_remembered",
            "As delta_last, and the sender remembers all who were forgotten: 33.. counted up to clock 300.",
            remembered(frame(Body::Delta(delta(true, full(&two()))))),
        ),
        vector(
            "more",
            "Request 7, chunk 300 please.",
            frame(Body::More { id, chunk }),
        ),
        vector(
            "push",
            "Writer 11.. made 3 transactions, merged clock 1 of 22.. and pushed; then it merged clock 1 of 33.. and adds 4 to `a`. lo is (11.., 3), (22.., 1) and (33.., 1): whoever has the third transaction need not have what was merged after it.",
            push(),
        ),
    ];
    [frames, rounds::rounds()].concat()
}

/// A Delta frame, with the membership record of a forgotten writer.
fn remembered(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend_from_slice(&[2, 1]);
    bytes.extend_from_slice(&[0x33; 16]);
    bytes.extend_from_slice(&[0xac, 0x02]);
    bytes
}

/// A question about this many writers.
fn asked(writers: u8) -> Vec<u8> {
    let upto = VersionVector::default();
    let mut bytes = frame(Body::Ask(Ask { id: 7, upto }));
    bytes.pop(); // no writers
    bytes.push(writers);
    for writer in 0..writers {
        bytes.extend_from_slice(&[writer; 16]);
        bytes.push(1);
    }
    bytes
}

/// Bytes that must be rejected, each with the code of the error. They are frames, except those whose name
/// begins with `message_`, or with `stored_` for records of a store.
pub fn refusals() -> Vec<Vector> {
    let digest = frame(Body::Digest(digests()));
    let edit = |at: usize, byte: u8| {
        let mut bytes = digest.clone();
        bytes[at] = byte;
        bytes
    };
    let mut newer = frame(Body::Hello(hello()));
    newer[2] = 2;
    newer[12] = 2;
    newer[13] = 4;
    let mut older = frame(Body::Hello(hello()));
    older[2] = 2;
    let one = full(&with(0x11, &[("a", 5)])).encode();
    let message = |at: usize, bytes: &[u8]| {
        let mut message = one.clone();
        message.splice(at..at + 1, bytes.iter().copied());
        message
    };
    let mut needless = message(25, &[1]);
    needless[27] = 4; // 2, written as a signed total
    let mut all = vec![
        refused("not_a_frame", "Other magic.", "not_a_frame", edit(0, b'x')),
        refused(
            "other_version",
            "A digest of version 9.",
            "version",
            edit(2, 9),
        ),
        refused(
            "unknown_type",
            "A frame of type 14.",
            "malformed",
            edit(3, 14),
        ),
        refused(
            "hello_other_version",
            "A hello that offers versions 2 to 4.",
            "version",
            newer,
        ),
        refused(
            "hello_written_in_other_version",
            "A hello that offers version 1 and is written in version 2.",
            "malformed",
            older,
        ),
        refused(
            "truncated",
            "A digest frame that lacks its last byte.",
            "truncated",
            digest[..digest.len() - 1].to_vec(),
        ),
        refused(
            "trailing",
            "A digest and one more byte.",
            "trailing_bytes",
            [digest.as_slice(), &[0]].concat(),
        ),
        refused(
            "space_too_long",
            "A space's name of 65 bytes.",
            "too_large",
            edit(4, 65),
        ),
        refused(
            "space_name",
            "A space's name with a blank.",
            "space_name",
            edit(5, b' '),
        ),
        refused(
            "message_long_number",
            "The count of writers is 1, in two bytes.",
            "number",
            message(0, &[0x81, 0]),
        ),
        refused(
            "message_many_writers",
            "The table announces 2^32 writers.",
            "truncated",
            message(0, &[0x80, 0x80, 0x80, 0x80, 0x10]),
        ),
        refused(
            "message_no_clock",
            "A writer in the table with clock 0.",
            "malformed",
            message(18, &[0]),
        ),
        refused(
            "message_empty_key",
            "A key of no bytes.",
            "key_length",
            message(21, &[0]),
        ),
        refused(
            "message_not_utf8",
            "A key that is no UTF-8.",
            "malformed",
            message(22, &[0xff]),
        ),
        refused(
            "message_needless_sign",
            "A column is signed, and no total is negative.",
            "malformed",
            needless,
        ),
        refused(
            "message_clock_after_hi",
            "A shard's clock is 2, its writer's hi is 1.",
            "malformed",
            message(26, &[1]),
        ),
    ];
    all.extend(refused::questions());
    all.extend(refused::wants());
    all.extend(refused::draws());
    all.extend(rounds::refused_rounds());
    all.extend(refused::keyed_operations());
    all.extend(refused::flags());
    all.extend(refused::withdrawn());
    all.extend(refused::stored());
    all.extend(budgets::refusals());
    all
}
