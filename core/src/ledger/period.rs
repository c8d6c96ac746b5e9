//! Keys of the counters that store the periods of limits, beside those of [budgets](crate::ledger::account).
//!
//! A period is one period of one key. Its name has its end, the number of the configuration in which its
//! limit began, and the key.
//!
//! One counter stores how much each writer may still allow in a period. Another one stores the share that
//! each owner brought in, so replicas see that the owner did so. A third one stores when all members had
//! received a configuration.

use crate::bounds::{KEY_BYTES_MAX, PERIOD_KEY_BYTES_MAX};
use crate::error::{DecodeError, Error, Limited, QuotaError, WriteError};
use crate::ledger::account::{NUMBER_CHARS, WRITER_CHARS, held, is_reserved, number};
use crate::message::records::{Configuration, Owner};
use crate::reserved::RESERVED;
use crate::writer_id::WriterId;
use alloc::format;
use alloc::string::String;

const _: () = assert!(PERIOD_KEY_BYTES_MAX + WRITER_CHARS + 2 * NUMBER_CHARS + 3 == KEY_BYTES_MAX);

/// A period, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeriodId<'a> {
    /// When it ends, in milliseconds since 1970.
    pub(crate) end: u64,
    /// The number of the configuration in which its limit began.
    pub(crate) since: u64,
    pub(crate) key: &'a str,
}

impl PeriodId<'_> {
    pub(crate) fn parse(name: &str) -> Option<PeriodId<'_>> {
        let (end, rest) = number(name)?;
        let (since, key) = number(rest)?;
        check_period_key(key).ok()?;
        Some(PeriodId { end, since, key })
    }

    pub(crate) fn name(&self) -> String {
        let PeriodId { end, since, key } = self;
        format!("{end:016x}{since:016x}{key}")
    }
}

/// When the period with this [name](crate::Period::name) ends, in milliseconds since 1970.
pub fn period_end(name: &str) -> Option<u64> {
    Some(PeriodId::parse(name)?.end)
}

/// The part of a period's name that stays the same from one period to the next.
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
    /// Parses a key. Returns `None` if it is not a key of a period.
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

    /// The writer that holds it, or `None` if it belongs to no writer.
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

/// The key of an owner's share of a period.
pub(crate) fn share_key(owner: &Owner, name: &str) -> String {
    let mut half = [0; 16];
    half.copy_from_slice(&owner[..16]);
    let part = PeriodPart::Share(WriterId::from_bytes(half));
    PeriodKey { part, name }.key()
}

/// The key of the amount that a writer may allow in a period.
pub(crate) fn rights_key(writer: WriterId, name: &str) -> String {
    let part = PeriodPart::Rights(writer);
    PeriodKey { part, name }.key()
}

/// The key of the counter with the time at which all members had received a configuration, in milliseconds
/// since 1970.
pub(crate) fn received_key(of: &Configuration) -> String {
    let Configuration { era, number, .. } = of;
    format!("{RESERVED}wk{era:016x}{number:016x}")
}

/// Whether a key stores the time at which all members had received a configuration.
pub(crate) fn is_known_key(key: &str) -> bool {
    key.strip_prefix(RESERVED)
        .is_some_and(|it| it.starts_with("wk"))
}

/// Rejects a key that a limit can't cover.
pub(crate) fn check_period_key(key: &str) -> Result<(), Error> {
    match key.len() {
        0 => Err(WriteError::KeyLength { bytes: 0 }.into()),
        _ if is_reserved(key) => Err(QuotaError::ReservedKey.into()),
        1..=PERIOD_KEY_BYTES_MAX => Ok(()),
        size => Err(DecodeError::TooLarge {
            what: Limited::PeriodKey,
            size,
            max: PERIOD_KEY_BYTES_MAX,
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_key_is_taken_apart_into_what_it_was_made_of() {
        let long = "x".repeat(PERIOD_KEY_BYTES_MAX);
        let mut keys = Vec::new();
        for key in ["login", "ü:\0w", "r", long.as_str()] {
            let period = PeriodId {
                end: u64::MAX,
                since: 7,
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
                since: 1,
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
            format!("\0wr{id}{}", name(&"x".repeat(PERIOD_KEY_BYTES_MAX + 1))),
        ];
        for key in keys {
            assert_eq!(PeriodKey::parse(&key), None, "{key:?}");
        }
        let known = received_key(&Configuration::default());
        assert!(is_known_key(&known) && PeriodKey::parse(&known).is_none());
    }
}
