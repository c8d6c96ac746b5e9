//! The files of the log.
//!
//! A segment is a file `log-` with its number in 16 hexadecimal digits. Numbers rise by one. A
//! segment has its full length, in zeros, before it gets its name, so that commits change only
//! data. Its first 512 bytes, a separate sector, are the header, little-endian:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `tallylog` |
//! | 8 | 4 | CRC-32 of the bytes from 12 to 512 |
//! | 12 | 4 | the layout, [`LAYOUT`] |
//! | 16 | 8 | the segment's number |
//! | 24 | 8 | the length of the file |
//! | 32 | 8 | the salt, random |
//! | 40 | 472 | zeros |
//!
//! Then come frames, one for each commit, without gaps (see `frame`), and then zeros. The number
//! and the salt are part of the checksums of each frame. So the reader never accepts bytes as a
//! frame that were a frame in another segment, or that an attacker stored within a message.

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 512;

const MAGIC: &[u8; 8] = b"tallylog";
const PREFIX: &str = "log-";

/// The layout of segments, which has not changed since the folder's format 2.
const LAYOUT: u32 = 2;

/// The values that seal the frames of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    /// The segment's number.
    pub(super) number: u64,
    /// Random bits, drawn when the segment was created.
    pub(super) salt: u64,
}

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) seal: Seal,
    /// The length of the file.
    pub(super) bytes: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[12..16].copy_from_slice(&LAYOUT.to_le_bytes());
        header[16..24].copy_from_slice(&self.seal.number.to_le_bytes());
        header[24..32].copy_from_slice(&self.bytes.to_le_bytes());
        header[32..40].copy_from_slice(&self.seal.salt.to_le_bytes());
        let sum = crc32fast::hash(&header[12..]);
        header[8..12].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// Reads the header of a file that begins with `bytes`. Returns `None` unless every bit is as
    /// [`Header::encode`] writes it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let header = Header {
            seal: Seal {
                number: number(16)?,
                salt: number(32)?,
            },
            bytes: number(24)?,
        };
        (header.encode() == bytes).then_some(header)
    }
}

/// The name of the segment with this number.
pub(super) fn name(number: u64) -> String {
    format!("{PREFIX}{number:016x}")
}

/// The numbers of the segments among these files, in order.
pub(super) fn numbers(names: &[String]) -> Vec<u64> {
    let number = |found: &String| {
        let number = u64::from_str_radix(found.strip_prefix(PREFIX)?, 16).ok()?;
        (name(number) == *found).then_some(number)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The last part of `numbers` without a gap. Earlier segments are leftovers.
pub(super) fn run(numbers: &[u64]) -> &[u64] {
    let gap = numbers.windows(2).rposition(|pair| pair[0] + 1 != pair[1]);
    &numbers[gap.map_or(0, |place| place + 1)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_written_and_no_other() {
        let header = Header {
            seal: Seal {
                number: 7,
                salt: u64::MAX,
            },
            bytes: 1 << 20,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        assert_eq!(Header::decode(&bytes[..511]), None);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn only_exact_names_are_segments() {
        let names = [
            "log-000000000000000a",
            "log-0000000000000009",
            "log-0000000000000006",
            "log-000000000000000B",
            "log-0b",
            "log-000000000000000b.new",
            "format",
        ];
        let found = numbers(&names.map(str::to_owned));
        assert_eq!(found, [6, 9, 10]);
        assert_eq!(run(&found), [9, 10]);
        assert_eq!(run(&[3]), [3]);
        assert_eq!(run(&[]), [0u64; 0]);
        assert_eq!(name(10), names[0]);
    }
}
