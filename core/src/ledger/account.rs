//! Keys of everything that is no plain counter: the kind of a thing is part of its key.
//!
//! No operation can write by name to a key that begins with U+0000. So only the operations of a kind write to
//! its keys, whatever a program's users send. The values under these keys are plain counters. Replicas merge,
//! send, store, retire and collect them like any other counter. A program without code for the kind does so,
//! too.
//!
//! A budget `name` is stored as several counters:
//!
//! - The value, the floor and the cap.
//! - For each writer that holds some: its rights and its room.
//! - For each lease: the rights that are left.
//!
//! The writer comes before the name, so the keys of one writer have a common beginning.

use crate::bounds::{BUDGET_NAME_BYTES_MAX, KEY_BYTES_MAX, LEASED_NAME_BYTES_MAX};
pub use crate::error::Kind;
use crate::error::{DecodeError, Error, Limited, QuotaError, WriteError};
use crate::reserved::RESERVED;
use crate::writer_id::WriterId;
use alloc::format;
use alloc::string::String;

/// The digits of a writer's id.
pub(crate) const WRITER_CHARS: usize = 32;
/// The digits of a number.
pub(crate) const NUMBER_CHARS: usize = 16;
/// The digits of a lease's id.
const LEASE_CHARS: usize = 32;

const _: () = assert!(BUDGET_NAME_BYTES_MAX + WRITER_CHARS + 3 == KEY_BYTES_MAX);
const _: () =
    assert!(LEASED_NAME_BYTES_MAX + WRITER_CHARS + NUMBER_CHARS + LEASE_CHARS + 3 == KEY_BYTES_MAX);

/// The id of a lease. The client that asks for the lease draws it at random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(u128);

impl LeaseId {
    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> LeaseId {
        LeaseId(u128::from_be_bytes(bytes))
    }

    /// Parses the text that [`Display`](core::fmt::Display) writes: 32 hex digits in lower case.
    ///
    /// # Errors
    /// [`QuotaError::LeaseId`] for any other text.
    pub fn parse(text: &str) -> Result<LeaseId, Error> {
        let digit = |it| matches!(it, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == LEASE_CHARS && text.bytes().all(digit);
        let id = u128::from_str_radix(text, 16).ok().filter(|_| is_id);
        id.map(LeaseId)
            .ok_or(Error::from(QuotaError::LeaseId { bytes: text.len() }))
    }
}

impl core::fmt::Display for LeaseId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl core::fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// A part of a budget, each of which is a counter of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The sum of all mints minus the sum of all spends.
    Value,
    /// The value never goes below this.
    Floor,
    /// The value never goes above this.
    Cap,
    /// The amount that this writer may spend.
    Rights(WriterId),
    /// The amount that this writer may mint, under a cap.
    Room(WriterId),
    /// The rights left of a lease that this writer gave or took over.
    Leased(WriterId, LeaseKey),
}

/// Identifies a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseKey {
    /// When the rest of the lease comes back, in milliseconds since 1970.
    pub(crate) until: u64,
    pub(crate) id: LeaseId,
}

impl Part {
    /// The writer that holds it, or `None` if no writer does.
    pub(crate) fn holder(self) -> Option<WriterId> {
        match self {
            Part::Rights(writer) | Part::Room(writer) | Part::Leased(writer, _) => Some(writer),
            Part::Value | Part::Floor | Part::Cap => None,
        }
    }

    /// The same part for another writer.
    pub(crate) fn held_by(self, writer: WriterId) -> Part {
        match self {
            Part::Rights(_) => Part::Rights(writer),
            Part::Room(_) => Part::Room(writer),
            Part::Leased(_, lease) => Part::Leased(writer, lease),
            part => part,
        }
    }
}

/// A parsed key of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account<'a> {
    pub(crate) capped: bool,
    pub(crate) part: Part,
    pub(crate) name: &'a str,
}

impl Account<'_> {
    /// Parses a key. Returns `None` if it is not a key of a budget. Replicas store and forward keys of
    /// unknown kinds unchanged.
    pub(crate) fn parse(key: &str) -> Option<Account<'_>> {
        let mut rest = key.strip_prefix(RESERVED)?.chars();
        let capped = match rest.next()? {
            'b' => false,
            'c' => true,
            _ => return None,
        };
        let (part, rest) = (rest.next()?, rest.as_str());
        let (part, name) = match part {
            'v' => (Part::Value, rest),
            'f' => (Part::Floor, rest),
            'l' if capped => (Part::Cap, rest),
            'r' => {
                let (writer, name) = held(rest)?;
                (Part::Rights(writer), name)
            }
            'q' if capped => {
                let (writer, name) = held(rest)?;
                (Part::Room(writer), name)
            }
            'h' => {
                let (writer, rest) = held(rest)?;
                let (until, rest) = number(rest)?;
                let (id, name) = rest.split_at_checked(LEASE_CHARS)?;
                let id = LeaseId::parse(id).ok()?;
                (Part::Leased(writer, LeaseKey { until, id }), name)
            }
            _ => return None,
        };
        let account = Account { capped, part, name };
        check_name(name).is_ok().then_some(account)
    }

    /// The key.
    pub(crate) fn key(&self) -> String {
        let kind = if self.capped { 'c' } else { 'b' };
        let name = self.name;
        match self.part {
            Part::Value => format!("{RESERVED}{kind}v{name}"),
            Part::Floor => format!("{RESERVED}{kind}f{name}"),
            Part::Cap => format!("{RESERVED}{kind}l{name}"),
            Part::Rights(writer) => format!("{RESERVED}{kind}r{writer}{name}"),
            Part::Room(writer) => format!("{RESERVED}{kind}q{writer}{name}"),
            Part::Leased(writer, LeaseKey { until, id }) => {
                format!("{RESERVED}{kind}h{writer}{until:016x}{id}{name}")
            }
        }
    }

    /// The key of another part.
    pub(crate) fn key_of(&self, part: Part) -> String {
        Account { part, ..*self }.key()
    }
}

/// Splits a writer's id from the rest of a text.
pub(crate) fn held(rest: &str) -> Option<(WriterId, &str)> {
    let (writer, name) = rest.split_at_checked(WRITER_CHARS)?;
    Some((WriterId::parse(writer)?, name))
}

/// Splits a number of 16 hex digits from the rest of a text.
pub(crate) fn number(rest: &str) -> Option<(u64, &str)> {
    let (digits, name) = rest.split_at_checked(NUMBER_CHARS)?;
    let lower = digits
        .bytes()
        .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let number = u64::from_str_radix(digits, 16).ok()?;
    lower.then_some((number, name))
}

/// The name of the budget to which a key belongs, or `None` for other keys.
pub fn budget_name(key: &str) -> Option<&str> {
    Some(Account::parse(key)?.name)
}

/// Whether a key belongs to a kind, and is not a plain counter's.
pub(crate) fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED)
}

/// Rejects the name of a budget that can have no lease.
pub(crate) fn check_leased_name(name: &str) -> Result<(), Error> {
    match name.len() {
        size if size > LEASED_NAME_BYTES_MAX => Err(DecodeError::TooLarge {
            what: Limited::LeasedName,
            size,
            max: LEASED_NAME_BYTES_MAX,
        }
        .into()),
        _ => check_name(name),
    }
}

/// Rejects a name that a budget can't have.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        0 => Err(WriteError::KeyLength { bytes: 0 }.into()),
        _ if is_reserved(name) => Err(QuotaError::ReservedKey.into()),
        1..=BUDGET_NAME_BYTES_MAX => Ok(()),
        size => Err(DecodeError::TooLarge {
            what: Limited::BudgetName,
            size,
            max: BUDGET_NAME_BYTES_MAX,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn writer(byte: u8) -> WriterId {
        WriterId::from_bytes([byte; 16])
    }

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        let long = "x".repeat(LEASED_NAME_BYTES_MAX);
        let lease = LeaseKey {
            until: u64::MAX,
            id: LeaseId::from_bytes([9; 16]),
        };
        let mut keys = Vec::new();
        for name in ["gift", "ü\0b", "r", long.as_str()] {
            for capped in [false, true] {
                let parts = [
                    Part::Value,
                    Part::Floor,
                    Part::Cap,
                    Part::Rights(writer(0xab)),
                    Part::Room(writer(7)),
                    Part::Leased(writer(7), lease),
                ];
                for part in parts {
                    let account = Account { capped, part, name };
                    let key = account.key();
                    assert!(is_reserved(&key) && key.len() <= KEY_BYTES_MAX);
                    let room = matches!(part, Part::Cap | Part::Room(_));
                    let expected = (capped || !room).then_some(account);
                    assert_eq!(Account::parse(&key), expected, "{key:?}");
                    keys.push(key);
                }
            }
        }
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn what_is_no_key_of_a_budget_is_none() {
        let upper = "AB".repeat(16);
        let keys = [
            "gift".into(),
            "\0".into(),
            "\0b".into(),
            "\0bv".into(),
            "\0tvgift".into(),
            "\0bxgift".into(),
            "\0bv\0gift".into(),
            "\0br0123".into(),
            format!("\0br{upper}gift"),
            format!("\0br{}", writer(1)),
            format!("\0bh{}gift", writer(1)),
            format!("\0bh{}{:032}gift", writer(1), 1),
            format!("\0bh{}{:016}{}gift", writer(1), 1, "A".repeat(32)),
            format!("\0bh{}{:016}{:032}", writer(1), 1, 1),
            format!("\0br{}ü", "a".repeat(31)),
            format!("\0bv{}", "x".repeat(BUDGET_NAME_BYTES_MAX + 1)),
        ];
        for key in keys {
            assert_eq!(Account::parse(&key), None, "{key:?}");
        }
    }

    #[test]
    fn a_name_has_a_length_and_does_not_begin_as_keys_of_kinds_do() {
        assert_eq!(
            check_name(""),
            Err(WriteError::KeyLength { bytes: 0 }.into())
        );
        assert_eq!(check_name("\0b"), Err(QuotaError::ReservedKey.into()));
        let long = "x".repeat(BUDGET_NAME_BYTES_MAX + 1);
        let size = long.len();
        let refused = check_name(&long);
        assert!(
            matches!(refused, Err(Error::Decode(DecodeError::TooLarge { size: it, .. })) if it == size)
        );
    }
}
