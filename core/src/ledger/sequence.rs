//! Keys of the counters that store sequences, beside those of [budgets](crate::ledger::account).
//!
//! A sequence `name` is stored as several counters:
//!
//! - The rest: the next number that was not yet given to any writer. It belongs to one writer.
//! - For each writer and each range of numbers given to it: how many numbers are left. The end of a range
//!   names it.
//! - For each range that was lost with its writer: how many numbers were lost.
//! - For each watched number: the watch, and the writer that handed the number out.

use crate::bounds::SEQUENCE_NAME_BYTES_MAX;
use crate::error::{DecodeError, Error, Limited, QuotaError, WriteError};
use crate::ledger::account::{NUMBER_CHARS, held, is_reserved, number};
use crate::reserved::RESERVED;
use crate::writer_id::WriterId;
use alloc::format;
use alloc::string::String;

const _: () =
    assert!(SEQUENCE_NAME_BYTES_MAX + NUMBER_CHARS == crate::bounds::BUDGET_NAME_BYTES_MAX);

/// A part of a sequence, each of which is a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All numbers from the counter's value on. This writer gives them away.
    Rest(WriterId),
    /// The counter's value is how many numbers before `end` this writer may still hand out.
    Range { holder: WriterId, end: u64 },
    /// The counter's value is how many numbers before `end` are lost.
    Gap { end: u64 },
    /// The counter's value is how many numbers are lost outside the gaps.
    Lost,
    /// This number is watched.
    Watch { number: u64 },
    /// This writer handed out this watched number. The counter's value is one more than the count of numbers
    /// below it that were neither handed out nor lost, according to this writer.
    Drawn { by: WriterId, number: u64 },
}

/// A key of a sequence, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceKey<'a> {
    pub(crate) piece: Piece,
    pub(crate) name: &'a str,
}

impl SequenceKey<'_> {
    /// Parses a key. Returns `None` if it is not a key of a sequence.
    pub(crate) fn parse(key: &str) -> Option<SequenceKey<'_>> {
        let mut rest = key.strip_prefix(RESERVED)?.strip_prefix('t')?.chars();
        let (kind, rest) = (rest.next()?, rest.as_str());
        let (piece, name) = match kind {
            'n' => {
                let (writer, name) = held(rest)?;
                (Piece::Rest(writer), name)
            }
            'r' => {
                let (holder, rest) = held(rest)?;
                let (end, name) = end(rest)?;
                (Piece::Range { holder, end }, name)
            }
            'g' => {
                let (end, name) = end(rest)?;
                (Piece::Gap { end }, name)
            }
            'l' => (Piece::Lost, rest),
            'w' => {
                let (number, name) = end(rest)?;
                (Piece::Watch { number }, name)
            }
            'd' => {
                let (by, rest) = held(rest)?;
                let (number, name) = end(rest)?;
                (Piece::Drawn { by, number }, name)
            }
            _ => return None,
        };
        check_sequence(name).ok()?;
        Some(SequenceKey { piece, name })
    }

    /// The key.
    pub(crate) fn key(&self) -> String {
        let name = self.name;
        match self.piece {
            Piece::Rest(writer) => format!("{RESERVED}tn{writer}{name}"),
            Piece::Range { holder, end } => format!("{RESERVED}tr{holder}{end:016x}{name}"),
            Piece::Gap { end } => format!("{RESERVED}tg{end:016x}{name}"),
            Piece::Lost => format!("{RESERVED}tl{name}"),
            Piece::Watch { number } => format!("{RESERVED}tw{number:016x}{name}"),
            Piece::Drawn { by, number } => format!("{RESERVED}td{by}{number:016x}{name}"),
        }
    }

    /// Whether it is the key of a watch.
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.piece, Piece::Watch { .. })
    }

    /// The writer that holds it, or `None` if no writer does.
    pub(crate) fn holder(&self) -> Option<WriterId> {
        match self.piece {
            Piece::Rest(writer) | Piece::Range { holder: writer, .. } => Some(writer),
            Piece::Gap { .. } | Piece::Lost | Piece::Watch { .. } | Piece::Drawn { .. } => None,
        }
    }

    /// The key for its amount once its writer has retired. The successor gives away the rest of the sequence.
    /// A range of the retired writer becomes a gap, and its numbers are never handed out.
    pub(crate) fn left_to(&self, successor: WriterId) -> String {
        let piece = match self.piece {
            Piece::Rest(_) => Piece::Rest(successor),
            Piece::Range { end, .. } => Piece::Gap { end },
            piece => piece,
        };
        SequenceKey { piece, ..*self }.key()
    }
}

fn end(rest: &str) -> Option<(u64, &str)> {
    number(rest).filter(|it| i64::try_from(it.0).is_ok())
}

/// Rejects a name that a sequence can't have.
pub(crate) fn check_sequence(name: &str) -> Result<(), Error> {
    match name.len() {
        0 => Err(WriteError::KeyLength { bytes: 0 }.into()),
        _ if is_reserved(name) => Err(QuotaError::ReservedKey.into()),
        1..=SEQUENCE_NAME_BYTES_MAX => Ok(()),
        size => Err(DecodeError::TooLarge {
            what: Limited::SequenceName,
            size,
            max: SEQUENCE_NAME_BYTES_MAX,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::KEY_BYTES_MAX;
    use alloc::vec::Vec;

    fn id(byte: u8) -> WriterId {
        WriterId::from_bytes([byte; 16])
    }

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        let long = "x".repeat(SEQUENCE_NAME_BYTES_MAX);
        let end = i64::MAX as u64;
        let mut keys = Vec::new();
        for name in ["visits", "ü\0t", "n", long.as_str()] {
            let pieces = [
                Piece::Rest(id(0xab)),
                Piece::Range { holder: id(7), end },
                Piece::Range {
                    holder: id(7),
                    end: 0x10,
                },
                Piece::Gap { end },
                Piece::Lost,
                Piece::Watch { number: end },
                Piece::Drawn {
                    by: id(7),
                    number: 1,
                },
            ];
            for piece in pieces {
                let key = SequenceKey { piece, name }.key();
                assert!(is_reserved(&key) && key.len() <= KEY_BYTES_MAX);
                assert_eq!(SequenceKey::parse(&key), Some(SequenceKey { piece, name }));
                assert_eq!(crate::ledger::account::Account::parse(&key), None);
                keys.push(key);
            }
        }
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn what_is_no_key_of_a_sequence_is_none() {
        let keys = [
            "tn".into(),
            "\0t".into(),
            "\0tl".into(),
            "\0txvisits".into(),
            "\0tl\0visits".into(),
            "\0tn0123".into(),
            "\0tgffffffffffffffffvisits".into(),
            "\0tg00000000000000ABvisits".into(),
            "\0tg+00000000000000avisits".into(),
            format!("\0tr{}visits", id(1)),
            format!("\0tl{}", "x".repeat(SEQUENCE_NAME_BYTES_MAX + 1)),
        ];
        for key in keys {
            assert_eq!(SequenceKey::parse(&key), None, "{key:?}");
        }
    }
}
