//! The bytes of one commit.
//!
//! A frame is a header of 32 bytes and a payload, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `A7 54 4D F2` |
//! | 4 | 4 | CRC-32 of the segment's number and salt, and the header from 8 to 32 |
//! | 8 | 8 | the commit's number; the first of a log is 1, and each is one more than the one before |
//! | 16 | 8 | the oldest commit that is still needed once this one is durable |
//! | 24 | 4 | length of the payload |
//! | 28 | 4 | CRC-32 of the payload |
//! | 32 | | the payload: the commit's records, one after the other |
//!
//! A record is its kind (1 byte: 1 `Change`, 2 `Whole`, 3 `First`, 4 `Part`, 5 `Last`, 6 `Adds`), the
//! length of its space's name (1 byte), the name, the length of its bytes (4 bytes), and its bytes.
//!
//! The header has a checksum of its own. So a reader can recognize the beginning of a frame at any
//! place, without reading the whole length that it claims.

use super::segment::Seal;
use super::{COMMIT_BYTES_MAX, Kind, Record};
use crc32fast::Hasher;

/// Bytes of a frame before its payload.
pub(super) const HEADER_BYTES: usize = 32;

const MAGIC: [u8; 4] = [0xA7, 0x54, 0x4D, 0xF2];

/// Bytes of a record beside its name and its bytes.
const RECORD_BYTES: u64 = 1 + 1 + 4;

/// The fields of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The commit's number.
    pub(super) number: u64,
    /// The oldest commit that is still needed.
    pub(super) oldest: u64,
    payload_bytes: u32,
    payload_sum: u32,
}

impl Header {
    fn encode(&self, seal: Seal) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.oldest.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.payload_sum.to_le_bytes());
        let mut sum = Hasher::new();
        sum.update(&seal.number.to_le_bytes());
        sum.update(&seal.salt.to_le_bytes());
        sum.update(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.finalize().to_le_bytes());
        bytes
    }

    /// Reads the header at the beginning of `bytes`, if it is one of this segment.
    fn decode(seal: Seal, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes[..4] != MAGIC {
            return None;
        }
        let header = Header {
            number: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            oldest: u64::from_le_bytes(bytes[16..24].try_into().ok()?),
            payload_bytes: u32::from_le_bytes(bytes[24..28].try_into().ok()?),
            payload_sum: u32::from_le_bytes(bytes[28..32].try_into().ok()?),
        };
        (header.encode(seal) == bytes).then_some(header)
    }
}

/// A whole frame.
pub(super) struct Frame<'a> {
    pub(super) header: Header,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Its length, with its header.
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

/// The length of the frame for `records`.
pub(super) fn bytes_for(records: &[Record]) -> u64 {
    let bytes = |record: &Record| {
        RECORD_BYTES + record.space.as_str().len() as u64 + record.bytes.len() as u64
    };
    HEADER_BYTES as u64 + records.iter().map(bytes).sum::<u64>()
}

/// Writes the frame of `records` into `frame`, and replaces its content. Their bytes must not be
/// more than [`COMMIT_BYTES_MAX`].
pub(super) fn encode(
    seal: Seal,
    number: u64,
    oldest: u64,
    records: &[Record],
    frame: &mut Vec<u8>,
) {
    frame.clear();
    frame.resize(HEADER_BYTES, 0);
    for record in records {
        let space = record.space.as_str();
        frame.push(code(record.kind));
        frame.push(space.len() as u8); // 64 at most
        frame.extend_from_slice(space.as_bytes());
        frame.extend_from_slice(&(record.bytes.len() as u32).to_le_bytes());
        frame.extend_from_slice(&record.bytes);
    }
    let payload = &frame[HEADER_BYTES..];
    let header = Header {
        number,
        oldest,
        payload_bytes: payload.len() as u32,
        payload_sum: crc32fast::hash(payload),
    };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode(seal));
}

/// Reads the frame at the beginning of `bytes`, if it is whole and unchanged.
pub(super) fn decode(seal: Seal, bytes: &[u8]) -> Option<Frame<'_>> {
    let header = Header::decode(seal, bytes)?;
    if u64::from(header.payload_bytes) > COMMIT_BYTES_MAX {
        return None;
    }
    let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize)?;
    (crc32fast::hash(payload) == header.payload_sum).then_some(Frame { header, payload })
}

/// Whether a frame with a number above `after` begins anywhere in `bytes`, whole or not.
pub(super) fn begins_within(seal: Seal, bytes: &[u8], after: u64) -> bool {
    let mut places = bytes.windows(HEADER_BYTES);
    places.any(|place| Header::decode(seal, place).is_some_and(|header| header.number > after))
}

/// A record in a payload.
pub(super) struct Item<'a> {
    pub(super) kind: Kind,
    pub(super) space: &'a str,
    pub(super) bytes: &'a [u8],
    /// The place in the payload where its bytes begin.
    pub(super) offset: usize,
}

/// The records of a payload. It ends with `None` at a record that can't be read.
pub(super) fn items(payload: &[u8]) -> impl Iterator<Item = Option<Item<'_>>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = payload.get(offset..).filter(|rest| !rest.is_empty())?;
        let item = first_item(rest);
        match &item {
            Some(item) => offset += item.offset + item.bytes.len(),
            None => offset = payload.len(),
        }
        let end = offset;
        Some(item.map(|item| Item {
            offset: end - item.bytes.len(),
            ..item
        }))
    })
}

fn first_item(rest: &[u8]) -> Option<Item<'_>> {
    let (&kind, rest) = rest.split_first()?;
    let (&name_bytes, rest) = rest.split_first()?;
    let (space, rest) = rest.split_at_checked(name_bytes.into())?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    Some(Item {
        kind: kind_of(kind)?,
        space: str::from_utf8(space).ok()?,
        bytes: rest.get(..u32::from_le_bytes(*length) as usize)?,
        offset: RECORD_BYTES as usize + space.len(),
    })
}

fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Change => 1,
        Kind::Whole => 2,
        Kind::First => 3,
        Kind::Part => 4,
        Kind::Last => 5,
        Kind::Adds => 6,
    }
}

fn kind_of(code: u8) -> Option<Kind> {
    let kinds = [
        Kind::Change,
        Kind::Whole,
        Kind::First,
        Kind::Part,
        Kind::Last,
        Kind::Adds,
    ];
    kinds.into_iter().find(|kind| self::code(*kind) == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::Space;

    const SEAL: Seal = Seal {
        number: 3,
        salt: 0x1234_5678_9ABC_DEF0,
    };

    fn records() -> Vec<Record> {
        let record = |space: &str, kind, bytes: &[u8]| Record {
            space: Space::new(space).expect("a name"),
            kind,
            bytes: bytes.to_vec(),
        };
        vec![
            record("one", Kind::Change, b"first"),
            record("one", Kind::Adds, b"second"),
            record("another-one", Kind::Whole, b""),
            record("one", Kind::First, b"a"),
            record("one", Kind::Part, b"bc"),
            record("one", Kind::Last, &[0xFF; 70]),
        ]
    }

    fn frame() -> Vec<u8> {
        let mut frame = Vec::new();
        encode(SEAL, 9, 4, &records(), &mut frame);
        frame
    }

    #[test]
    fn a_frame_is_read_as_written() {
        let mut bytes = frame();
        assert_eq!(bytes.len() as u64, bytes_for(&records()));
        bytes.extend_from_slice(&[0; 50]);
        let frame = decode(SEAL, &bytes).expect("whole");
        assert_eq!((frame.header.number, frame.header.oldest), (9, 4));
        assert_eq!(frame.bytes(), bytes.len() - 50);
        let read: Vec<Record> = items(frame.payload)
            .map(|item| {
                let item = item.expect("a record");
                let at = item.offset;
                assert_eq!(&frame.payload[at..at + item.bytes.len()], item.bytes);
                Record {
                    space: Space::new(item.space).expect("a name"),
                    kind: item.kind,
                    bytes: item.bytes.to_vec(),
                }
            })
            .collect();
        assert_eq!(read, records());
    }

    #[test]
    fn no_part_of_a_frame_and_no_other_bits_are_one() {
        let bytes = frame();
        for end in 0..bytes.len() {
            assert!(decode(SEAL, &bytes[..end]).is_none(), "{end} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(SEAL, &flipped).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_counts_in_its_own_segment_only() {
        let bytes = frame();
        let next = Seal { number: 4, ..SEAL };
        let other = Seal { salt: 1, ..SEAL };
        assert!(decode(next, &bytes).is_none() && decode(other, &bytes).is_none());
    }

    #[test]
    fn a_frame_is_found_behind_anything_by_its_header() {
        let mut bytes = MAGIC.repeat(9);
        bytes.extend_from_slice(&frame());
        assert!(begins_within(SEAL, &bytes, 8));
        assert!(!begins_within(SEAL, &bytes, 9));
        let end = MAGIC.len() * 9 + HEADER_BYTES;
        assert!(begins_within(SEAL, &bytes[..end], 8));
        assert!(!begins_within(SEAL, &bytes[..end - 1], 8));
    }

    #[test]
    fn records_that_are_none_are_told() {
        let frame = frame();
        let payload = &frame[HEADER_BYTES..];
        let whole = |payload: &[u8]| items(payload).all(|item| item.is_some());
        assert!(whole(payload) && whole(&[]));
        let ends: Vec<usize> = (0..payload.len())
            .filter(|end| whole(&payload[..*end]))
            .collect();
        assert_eq!(ends.len(), records().len(), "only between records");
        let mut unknown = payload.to_vec();
        unknown[0] = 7;
        assert!(!whole(&unknown));
        let mut long = payload.to_vec();
        long[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!whole(&long));
    }
}
