//! The frames by which a replica asks members what they hold durably.

use super::bytes::{Fail, Reader, put_varint};
use super::message::{put_vector, read_vector};
use crate::bounds::ASK_WRITERS_MAX;
use crate::error::{DecodeError, Error, Limited, Rule};
use crate::state::vector::VersionVector;

/// The longest entry of a vector: a writer, and a clock of 64 bits.
const ENTRY_BYTES_MAX: usize = 16 + 10;

const ACCEPTED: u8 = 1;
const COUNTS: u8 = 2;
const WHOLE: u8 = 4;

/// A question to a member: which transactions has it durably?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The question's number. The sender chooses it, and the answer repeats it.
    pub id: u32,
    /// The clocks for which the sender waits. At most [`ASK_WRITERS_MAX`] writers.
    ///
    /// If it is empty, the member answers at once, and the answer has everything that it has durably.
    /// Otherwise the member answers once it has all of this, and the answer is about these writers only.
    pub upto: VersionVector,
}

/// The transactions that its sender has durably. The sender persists before it publishes, so this is
/// everything that it showed when it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The question's number.
    pub id: u32,
    /// The era of the newest configuration that the sender has.
    pub era: u64,
    /// The number of that configuration.
    pub number: u64,
    /// Whether the sender has accepted a configuration of the next number in a ballot. The configuration may
    /// be decided already, and only others may have learned of it.
    pub accepted: bool,
    /// Whether the sender is a member whose answer counts.
    ///
    /// Since its start it has then caught up with enough other members. It lacks nothing that an earlier
    /// start of its owner had acknowledged.
    pub counts: bool,
    /// Whether the vector is everything that the sender has durably, and not only the requested part.
    pub whole: bool,
    /// The clocks that the sender has durably.
    pub vector: VersionVector,
}

pub(super) fn put_ask(out: &mut alloc::vec::Vec<u8>, ask: &Ask) {
    put_varint(out, u64::from(ask.id));
    put_vector(out, &ask.upto);
}

pub(super) fn read_ask(reader: &mut Reader<'_>) -> Result<Ask, Fail> {
    let id = reader.varint32();
    let too_many = |size| {
        Error::from(DecodeError::TooLarge {
            what: Limited::AskedWriters,
            size,
            max: ASK_WRITERS_MAX,
        })
    };
    // Nothing follows the vector, so the number of bytes shows its length before anything is allocated.
    let at_least = reader.len().saturating_sub(1) / ENTRY_BYTES_MAX;
    if at_least > ASK_WRITERS_MAX {
        return Err(reader.fail(too_many(at_least)));
    }
    let upto = read_vector(reader)?;
    match upto.len() > ASK_WRITERS_MAX {
        true => Err(reader.fail(too_many(upto.len()))),
        false => Ok(Ask { id, upto }),
    }
}

pub(super) fn put_answer(out: &mut alloc::vec::Vec<u8>, answer: &Answer) {
    put_varint(out, u64::from(answer.id));
    put_varint(out, answer.era);
    put_varint(out, answer.number);
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    let flags = flag(answer.accepted, ACCEPTED) | flag(answer.counts, COUNTS);
    out.push(flags | flag(answer.whole, WHOLE));
    put_vector(out, &answer.vector);
}

pub(super) fn read_answer(reader: &mut Reader<'_>) -> Result<Answer, Fail> {
    let id = reader.varint32();
    let (era, number) = (reader.varint(), reader.varint());
    let flags = reader.u8();
    if flags > ACCEPTED | COUNTS | WHOLE {
        return Err(reader.malformed(Rule::Flag));
    }
    Ok(Answer {
        id,
        era,
        number,
        accepted: flags & ACCEPTED > 0,
        counts: flags & COUNTS > 0,
        whole: flags & WHOLE > 0,
        vector: read_vector(reader)?,
    })
}
