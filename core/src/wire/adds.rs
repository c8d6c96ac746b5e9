//! The encoding in which a store keeps plain adds of one writer:
//!
//! | | |
//! |---|---|
//! | 16 bytes | the writer |
//! | number | the clock before the first transaction |
//! | number | how many transactions there are |
//! | number | how many counters |
//! | for each | its key, with its length; its clock, less the first one; its total, signed |
//! | | what is kept of the writer's transactions, as in a stored message |
//!
//! Numbers are LEB128, as in a message. The counters are in no order, and one may come again.

use super::bytes::{Fail, Reader, put_bytes, put_varint, unzigzag, zigzag};
use super::earlier::{put_earlier, read_earlier};
use super::side::read_clock;
use crate::bounds::KEY_BYTES_MAX;
use crate::error::{DecodeError, Limited, WriteError};
use crate::message::Message;
use crate::message::journal::EarlierWriter;
use crate::optional::Optional;
use crate::state::delta::Entry;
use crate::state::page::{Column, PAGE, Row};
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The most bytes of the head.
const HEAD_BYTES: usize = 16 + 3 * 10;
/// The approximate bytes of a counter.
const COUNTER_BYTES: usize = 32;
/// The least bytes of a counter.
const COUNTER_BYTES_MIN: usize = 4;

/// The adds of one writer while they are encoded.
pub(crate) struct Adds {
    entry: Entry,
    count: u64,
    counters: Vec<u8>,
}

impl Adds {
    /// Begins without counters, and reserves memory for about `counters` of them.
    pub(crate) fn new(entry: Entry, counters: usize) -> Adds {
        Adds {
            entry,
            count: 0,
            counters: Vec::with_capacity(counters * COUNTER_BYTES),
        }
    }

    /// Appends a counter, whose clock is one of the entry's.
    pub(crate) fn push(&mut self, key: &str, row: Row) {
        let out = &mut self.counters;
        put_bytes(out, key.as_bytes());
        put_varint(out, row.clock - self.entry.lo - 1);
        put_varint(out, zigzag(row.total));
        self.count += 1;
    }

    /// Returns the encoding of all counters, with the unconfirmed transactions in `earlier`.
    pub(crate) fn encode(&self, earlier: &[EarlierWriter]) -> Vec<u8> {
        let Entry { writer, lo, hi } = self.entry;
        let mut out = Vec::with_capacity(HEAD_BYTES + self.counters.len());
        out.extend_from_slice(writer.as_bytes());
        put_varint(&mut out, lo);
        put_varint(&mut out, hi - lo);
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.counters);
        put_earlier(&mut out, earlier);
        out
    }
}

/// Reads the record of [`Replica::adds_since`](crate::Replica::adds_since).
pub(super) fn read_adds(reader: &mut Reader<'_>) -> Result<Message, Fail> {
    let mut message = Message::default();
    let writer = WriterId::from_bytes(reader.array());
    let lo = reader.varint();
    let Some(hi) = lo.checked_add(reader.varint()) else {
        return Err(reader.fail(DecodeError::Number.into()));
    };
    let entry = Entry { writer, lo, hi };
    let count = reader.count(COUNTER_BYTES_MIN);
    for at in 0..count {
        let key = reader.text(Limited::MessageKeys, KEY_BYTES_MAX);
        if key.is_empty() {
            return Err(reader.fail(WriteError::KeyLength { bytes: 0 }.into()));
        }
        let clock = read_clock(reader, &entry);
        let total = unzigzag(reader.varint());
        message.delta.keys.push(key);
        if at.is_multiple_of(PAGE) {
            message.delta.pages.push(Vec::from([Column::new(0)]));
        }
        if let Some([column]) = message.delta.pages.last_mut().map(Vec::as_mut_slice) {
            column.insert((at % PAGE) as u32, Row { clock, total });
        }
    }
    message.delta.writers.push(entry);
    message.earlier.set(read_earlier(reader)?);
    Ok(message)
}
