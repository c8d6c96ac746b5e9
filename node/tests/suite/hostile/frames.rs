//! Bytes of frames, honest and not.

use std::path::Path;
use tallymesh_core::wire::{Body, Delta, Digests, Frame, Hello, Pull};
use tallymesh_core::{Replica, Space, VersionVector, WriterId};

/// Types of frames, as docs/protocol.md numbers them.
pub(crate) const PULL: u8 = 3;
pub(crate) const DELTA: u8 = 4;
pub(crate) const PUSH: u8 = 6;
pub(crate) const CONTENTS: u8 = 7;
pub(crate) const ASK: u8 = 11;
pub(crate) const ANSWER: u8 = 12;

/// No honest replica has this digest.
pub(crate) const OTHER: [u8; 16] = [0xee; 16];

/// A space by its name.
pub(crate) fn space(name: &str) -> Space {
    Space::new(name).expect("a name")
}

fn frame(space: &Space, body: Body) -> Vec<u8> {
    let space = space.clone();
    Frame { space, body }.encode()
}

/// A hello of a writer that has written nothing, of a program that keeps nothing.
pub(crate) fn hello(space: &Space, writer: WriterId) -> Vec<u8> {
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        capabilities: 0,
        session: 7,
        agent: "attacker".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        // Without a digest of the contents none are compared.
        digests: Digests {
            vector: OTHER,
            contents: 0,
        },
        writer,
        clock: 0,
    };
    frame(space, Body::Hello(hello))
}

pub(crate) fn digest(space: &Space, vector: [u8; 16]) -> Vec<u8> {
    let contents = 0;
    frame(space, Body::Digest(Digests { vector, contents }))
}

/// Asks for everything.
pub(crate) fn pull(space: &Space, id: u32) -> Vec<u8> {
    let (chunk, vector) = (0, VersionVector::default());
    frame(space, Body::Pull(Pull { id, chunk, vector }))
}

/// A frame with this body, whatever it is.
pub(crate) fn with_body(space: &Space, kind: u8, body: &[u8]) -> Vec<u8> {
    let name = space.as_str();
    let head = [b"tm\x01", &[kind, name.len() as u8][..], name.as_bytes()];
    [&head.concat(), body].concat()
}

/// A writer's row in a message's table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) writer: WriterId,
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

/// A message of a space with members: the first writer of the table has one shard, of its last clock.
pub(crate) fn message(table: &[Row], key: &str, total: u64) -> Vec<u8> {
    let mut bytes = varint(table.len() as u64);
    let mut first = None;
    let mut ascending = table.to_vec();
    ascending.sort_by_key(|row| row.writer);
    for (at, row) in ascending.iter().enumerate() {
        bytes.extend_from_slice(row.writer.as_bytes());
        bytes.extend(varint(row.lo));
        bytes.extend(varint(row.hi - row.lo));
        if row.writer == table[0].writer {
            first = Some((at as u64, row.hi - row.lo - 1));
        }
    }
    let (writer, clock) = first.expect("a writer");
    bytes.extend([1, 0]); // one key, which shares nothing with one before
    bytes.extend(varint(key.len() as u64));
    bytes.extend_from_slice(key.as_bytes());
    bytes.push(1); // one column
    bytes.extend(varint(writer));
    bytes.push(0); // of all keys, and no total is negative
    bytes.extend(varint(clock));
    bytes.extend(varint(total));
    bytes.extend([0, 1, 0]); // no sides, and no facts of members
    bytes
}

pub(crate) fn push(space: &Space, message: &[u8]) -> Vec<u8> {
    with_body(space, PUSH, message)
}

pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A chunk that nobody needs, near the limit of a frame, and is not the last one.
pub(crate) struct Chunks {
    chunk: Delta,
}

impl Chunks {
    pub(crate) fn new(writer: WriterId) -> Chunks {
        const KEYS: usize = 3_900;
        let mut replica = Replica::new(Space::default(), writer);
        for key in 0..KEYS {
            let key = format!("{key:05}{}", "x".repeat(500));
            replica.add(&key, 1).expect("a small add");
        }
        let chunk = Delta {
            id: 0,
            chunk: 0,
            last: false,
            message: replica.delta(&VersionVector::default()),
        };
        Chunks { chunk }
    }

    /// The chunk of this number, of the answer to a pull.
    pub(crate) fn chunk(&mut self, space: &Space, (id, chunk): (u32, u32)) -> Vec<u8> {
        (self.chunk.id, self.chunk.chunk) = (id, chunk);
        frame(space, Body::Delta(self.chunk.clone()))
    }
}

/// The number of a pull, if a frame is one.
pub(crate) fn pull_id(frame: &[u8]) -> Option<u32> {
    match Frame::decode(frame).ok()?.body {
        Body::Pull(pull) => Some(pull.id),
        _ => None,
    }
}

/// Bytes that must be refused, each with its name and the code.
pub(crate) fn refusals() -> Vec<(String, Vec<u8>, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/refusals.json");
    let text = std::fs::read(file).expect("the vectors");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("JSON");
    let text = |row: &serde_json::Value, field: &str| row[field].as_str().expect(field).to_owned();
    // Records of stores are nobody's to send.
    let rows = rows
        .iter()
        .filter(|row| !text(row, "name").starts_with("stored_"));
    let mut refusals = Vec::new();
    for row in rows {
        let bytes = unhex(&text(row, "hex"));
        let bytes = match text(row, "name").starts_with("message_") {
            true => push(&Space::default(), &bytes),
            false => bytes,
        };
        refusals.push((text(row, "name"), bytes, text(row, "refused")));
    }
    refusals
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// Frames with a length that nothing follows: 2^60 of each thing that is counted.
pub(crate) fn huge(space: &Space) -> Vec<(&'static str, Vec<u8>)> {
    let many = varint(1 << 60);
    let id = [0x11; 16];
    let table = [&[1][..], &id, &[0, 1]].concat();
    let key = [&table[..], &[1, 0, 1, b'a']].concat();
    let column = [&key[..], &[1, 0, 0, 0, 5]].concat();
    let chunk = [1, 0, 0];
    let after = |start: &[u8]| [start, &many].concat();
    vec![
        ("writers of a message", with_body(space, PUSH, &many)),
        ("keys", with_body(space, PUSH, &after(&table))),
        (
            "bytes of a key",
            with_body(space, PUSH, &after(&[&table[..], &[1, 0]].concat())),
        ),
        (
            "bytes shared with the key before",
            with_body(space, PUSH, &after(&[&table[..], &[1]].concat())),
        ),
        ("columns", with_body(space, PUSH, &after(&key))),
        ("sides", with_body(space, PUSH, &after(&column))),
        (
            "facts",
            with_body(space, PUSH, &after(&[&column[..], &[0, 1]].concat())),
        ),
        (
            "keyed operations",
            with_body(space, PUSH, &after(&[&column[..], &[0, 5, 0]].concat())),
        ),
        (
            "writers of a chunk",
            with_body(space, DELTA, &after(&chunk)),
        ),
        ("writers of a pull", with_body(space, PULL, &after(&[1, 0]))),
        (
            "writers of contents",
            with_body(space, CONTENTS, &after(&[&[1][..], &id].concat())),
        ),
        ("writers of a question", with_body(space, ASK, &after(&[1]))),
        (
            "writers of an answer",
            with_body(space, ANSWER, &after(&[1, 1, 1, 2])),
        ),
    ]
}

/// A push of one key of so many bytes.
pub(crate) fn long_key(space: &Space, writer: WriterId, bytes: usize) -> Vec<u8> {
    let row = Row {
        writer,
        lo: 0,
        hi: 1,
    };
    push(space, &message(&[row], &"k".repeat(bytes), 1))
}
