//! Keys of what sequences are kept as, beside those of [budgets](crate::ledger::account).
//!
//! A sequence `name` is kept as several counters: of one writer the next number that nobody has been
//! given yet, its rest; of each writer and range of numbers that it was given how many of them are left; and
//! of each range that was lost with its writer how many those were. Ranges are named by their end. Of each
//! number that is watched it is kept that it is, and who handed it out.

use crate::error::{Error, Limited};
use crate::ledger::account::{NUMBER_CHARS, held, is_reserved, number};
use crate::limits::SEQUENCE_NAME_BYTES_MAX;
use crate::reserved::RESERVED;
use crate::writer_id::WriterId;
use alloc::format;
use alloc::string::String;

const _: () =
    assert!(SEQUENCE_NAME_BYTES_MAX + NUMBER_CHARS == crate::limits::BUDGET_NAME_BYTES_MAX);

/// A part of a sequence, each of which is a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All numbers from the counter's value on, for this writer to give away.
    Rest(WriterId),
    /// So many numbers before `end`, for this writer to hand out.
    Range { holder: WriterId, end: u64 },
    /// So many numbers before `end`, which nobody hands out.
    Gap { end: u64 },
    /// How many other numbers nobody hands out.
    Lost,
    /// This number is watched.
    Watch { number: u64 },
    /// This writer handed out this number, which was watched; and one more than how many below it were
    /// neither handed out nor lost, as far as it knew.
    Drawn { by: WriterId, number: u64 },
}

/// A key of a sequence, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceKey<'a> {
    pub(crate) piece: Piece,
    pub(crate) name: &'a str,
}

impl SequenceKey<'_> {
    /// Takes a key apart; `None` if it is none of a sequence.
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

    /// Whether it tells that a number is watched.
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.piece, Piece::Watch { .. })
    }

    /// Whose it is, if it is something that a writer holds.
    pub(crate) fn holder(&self) -> Option<WriterId> {
        match self.piece {
            Piece::Rest(writer) | Piece::Range { holder: writer, .. } => Some(writer),
            Piece::Gap { .. } | Piece::Lost | Piece::Watch { .. } | Piece::Drawn { .. } => None,
        }
    }

    /// What becomes of it once its writer is over: another one gives away what is left to give, and
    /// nobody hands out what was given to it.
    pub(crate) fn left_to(&self, heir: WriterId) -> String {
        let piece = match self.piece {
            Piece::Rest(_) => Piece::Rest(heir),
            Piece::Range { end, .. } => Piece::Gap { end },
            piece => piece,
        };
        SequenceKey { piece, ..*self }.key()
    }
}

fn end(rest: &str) -> Option<(u64, &str)> {
    number(rest).filter(|it| i64::try_from(it.0).is_ok())
}

/// Refuses what can be no name of a sequence.
pub(crate) fn check_sequence(name: &str) -> Result<(), Error> {
    match name.len() {
        0 => Err(Error::KeyLength { bytes: 0 }),
        _ if is_reserved(name) => Err(Error::ReservedKey),
        1..=SEQUENCE_NAME_BYTES_MAX => Ok(()),
        size => Err(Error::TooLarge {
            what: Limited::SequenceName,
            size,
            max: SEQUENCE_NAME_BYTES_MAX,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::KEY_BYTES_MAX;
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
