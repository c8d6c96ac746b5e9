//! Keys of what is kept of the periods of limits, beside those of [budgets](crate::ledger::account).
//!
//! A period is one period of one key. It is named by its end, by the number of the configuration that its
//! limit was born with, and by the key. What each writer may still allow in it is a counter, and so is what
//! each owner put there as its share: by that it is known that it did. When all members know of a
//! configuration is kept beside them.

use crate::error::{Error, Limited};
use crate::ledger::account::{NUMBER_CHARS, WRITER_CHARS, held, is_reserved, number};
use crate::limits::{KEY_BYTES_MAX, WINDOW_KEY_BYTES_MAX};
use crate::message::records::{Configuration, Owner};
use crate::reserved::RESERVED;
use crate::writer_id::WriterId;
use alloc::format;
use alloc::string::String;

const _: () = assert!(WINDOW_KEY_BYTES_MAX + WRITER_CHARS + 2 * NUMBER_CHARS + 3 == KEY_BYTES_MAX);

/// A period, by what its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeriodId<'a> {
    /// When its period is over, in milliseconds since 1970.
    pub(crate) end: u64,
    /// With which configuration its limit began.
    pub(crate) born: u64,
    pub(crate) key: &'a str,
}

impl PeriodId<'_> {
    pub(crate) fn parse(name: &str) -> Option<PeriodId<'_>> {
        let (end, rest) = number(name)?;
        let (born, key) = number(rest)?;
        check_period_key(key).ok()?;
        Some(PeriodId { end, born, key })
    }

    pub(crate) fn name(&self) -> String {
        let PeriodId { end, born, key } = self;
        format!("{end:016x}{born:016x}{key}")
    }
}

/// When the period is over that goes by this [name](crate::Period::name), in milliseconds since 1970.
pub fn period_end(name: &str) -> Option<u64> {
    Some(PeriodId::parse(name)?.end)
}

/// The name of a period without its period: what is the same from one period to the next.
pub(crate) fn lasting_name(name: &str) -> &str {
    name.get(NUMBER_CHARS..).unwrap_or(name)
}

/// A counter of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeriodPart {
    /// How much this writer may allow.
    Rights(WriterId),
    /// How much an owner, of which this is the first half of its key, brought in as its share.
    Share(WriterId),
}

/// A key of a period, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeriodKey<'a> {
    pub(crate) part: PeriodPart,
    /// The period's name.
    pub(crate) name: &'a str,
}

impl PeriodKey<'_> {
    /// Takes a key apart; `None` if it is none of a period.
    pub(crate) fn parse(key: &str) -> Option<PeriodKey<'_>> {
        let mut rest = key.strip_prefix(RESERVED)?.strip_prefix('w')?.chars();
        let (kind, rest) = (rest.next()?, rest.as_str());
        let (id, name) = held(rest)?;
        let part = match kind {
            'r' => PeriodPart::Rights(id),
            's' => PeriodPart::Share(id),
            _ => return None,
        };
        PeriodId::parse(name)?;
        Some(PeriodKey { part, name })
    }

    /// The key.
    pub(crate) fn key(&self) -> String {
        let name = self.name;
        match self.part {
            PeriodPart::Rights(id) => format!("{RESERVED}wr{id}{name}"),
            PeriodPart::Share(id) => format!("{RESERVED}ws{id}{name}"),
        }
    }

    /// Whose it is, if it is something that a writer holds.
    pub(crate) fn holder(&self) -> Option<WriterId> {
        match self.part {
            PeriodPart::Rights(writer) => Some(writer),
            PeriodPart::Share(_) => None,
        }
    }

    /// When its period is over.
    pub(crate) fn end(&self) -> u64 {
        PeriodId::parse(self.name).map_or(0, |it| it.end)
    }
}

/// The key of what an owner brought into a period.
pub(crate) fn share_key(owner: &Owner, name: &str) -> String {
    let mut half = [0; 16];
    half.copy_from_slice(&owner[..16]);
    let part = PeriodPart::Share(WriterId::from_bytes(half));
    PeriodKey { part, name }.key()
}

/// The key of what a writer may allow in a period.
pub(crate) fn rights_key(writer: WriterId, name: &str) -> String {
    let part = PeriodPart::Rights(writer);
    PeriodKey { part, name }.key()
}

/// The key of the counter that says when, in milliseconds since 1970, all members knew of a configuration.
pub(crate) fn known_key(of: &Configuration) -> String {
    let Configuration { era, number, .. } = of;
    format!("{RESERVED}wk{era:016x}{number:016x}")
}

/// Whether a key says when all members knew of a configuration.
pub(crate) fn is_known_key(key: &str) -> bool {
    key.strip_prefix(RESERVED)
        .is_some_and(|it| it.starts_with("wk"))
}

/// Refuses what can't be a key that a limit covers.
pub(crate) fn check_period_key(key: &str) -> Result<(), Error> {
    match key.len() {
        0 => Err(Error::KeyLength { bytes: 0 }),
        _ if is_reserved(key) => Err(Error::ReservedKey),
        1..=WINDOW_KEY_BYTES_MAX => Ok(()),
        size => Err(Error::TooLarge {
            what: Limited::PeriodKey,
            size,
            max: WINDOW_KEY_BYTES_MAX,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        let long = "x".repeat(WINDOW_KEY_BYTES_MAX);
        let mut keys = Vec::new();
        for key in ["login", "ü:\0w", "r", long.as_str()] {
            let period = PeriodId {
                end: u64::MAX,
                born: 7,
                key,
            };
            let name = period.name();
            assert_eq!(PeriodId::parse(&name), Some(period));
            let id = WriterId::from_bytes([0xab; 16]);
            for part in [PeriodPart::Rights(id), PeriodPart::Share(id)] {
                let it = PeriodKey { part, name: &name };
                let key = it.key();
                assert!(is_reserved(&key) && key.len() <= KEY_BYTES_MAX);
                assert_eq!(PeriodKey::parse(&key), Some(it));
                assert_eq!(it.end(), u64::MAX);
                assert_eq!(crate::ledger::account::Account::parse(&key), None);
                assert_eq!(crate::ledger::sequence::SequenceKey::parse(&key), None);
                keys.push(key);
            }
        }
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn what_is_no_key_of_a_period_is_none() {
        let id = WriterId::from_bytes([1; 16]);
        let name = |key| {
            PeriodId {
                end: 9,
                born: 1,
                key,
            }
            .name()
        };
        let keys = [
            format!("wr{id}{}", name("a")),
            format!("\0wx{id}{}", name("a")),
            format!("\0wr{id}{}", name("")),
            format!("\0wr{id}{}", name("\0a")),
            format!("\0wr{id}{}", name("a").replace('9', "A")),
            format!("\0wr{}", name("a")),
            format!("\0wr{id}{}", name(&"x".repeat(WINDOW_KEY_BYTES_MAX + 1))),
        ];
        for key in keys {
            assert_eq!(PeriodKey::parse(&key), None, "{key:?}");
        }
        let known = known_key(&Configuration::default());
        assert!(is_known_key(&known) && PeriodKey::parse(&known).is_none());
    }
}
