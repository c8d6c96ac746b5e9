//! The encoding of keyed operations, the last part of a message. Messages without any have none.

#[cfg(feature = "members")]
use super::bytes::read_all;
use super::bytes::{Fail, Reader, put_bytes, put_varint, put_wide};
use super::side::read_clock;
use crate::bounds::KEY_BYTES_MAX;
#[cfg(feature = "members")]
use crate::bounds::KEYED_BYTES_MAX;
#[cfg(feature = "members")]
use crate::error::{DecodeError, Error};
use crate::error::{Limited, Rule};
use crate::message::{KeyedAdd, KeyedOp, Message};
use crate::once::Once;
use crate::optional::Optional;
use crate::state::slot::Stamp;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(super) fn put_keyed(out: &mut Vec<u8>, message: &Message) {
    put_varint(out, message.keyed.len() as u64);
    for KeyedOp { once, by, adds } in message.keyed.iter() {
        match by {
            None => put_varint(out, 0),
            Some(by) => {
                put_varint(out, u64::from(by.writer) + 1);
                let lo = message.delta.writers[by.writer as usize].lo;
                put_varint(out, by.clock - lo - 1);
            }
        }
        put_once(out, once);
        put_adds(out, adds);
    }
}

pub(super) fn put_once(out: &mut Vec<u8>, once: &Once) {
    out.extend_from_slice(&once.key);
    out.extend_from_slice(&once.content.to_le_bytes());
}

pub(super) fn read_once(reader: &mut Reader<'_>) -> Once {
    let key = reader.array();
    let content = u64::from_le_bytes(reader.array());
    Once { key, content }
}

fn put_adds(out: &mut Vec<u8>, adds: &[KeyedAdd]) {
    put_varint(out, adds.len() as u64);
    for KeyedAdd {
        key,
        amount,
        before,
    } in adds
    {
        put_bytes(out, key.as_bytes());
        put_wide(out, *amount);
        put_varint(out, *before);
    }
}

/// Encodes the adds of a keyed operation for the idempotency log.
#[cfg(feature = "members")]
pub(crate) fn encode_adds(adds: &[KeyedAdd]) -> Box<[u8]> {
    let mut out = Vec::new();
    put_adds(&mut out, adds);
    out.into()
}

/// Decodes the result of [`encode_adds`].
#[cfg(feature = "members")]
pub(crate) fn decode_adds(bytes: &[u8]) -> Vec<KeyedAdd> {
    // The bytes come from `encode_adds`, so they can be decoded.
    read_all(bytes, |reader| read_adds(reader, None)).unwrap_or_default()
}

pub(super) fn read_keyed(reader: &mut Reader<'_>, message: &mut Message) -> Result<(), Fail> {
    let count = reader.count(26);
    for _ in 0..count {
        let by = read_by(reader, message)?;
        let op = KeyedOp {
            once: read_once(reader),
            by,
            adds: read_adds(reader, by)?,
        };
        let last = message.keyed.last();
        if last.is_some_and(|last| last.place() >= op.place()) {
            return Err(reader.malformed(Rule::KeyedAscend));
        }
        message.keyed.update(|it| it.push(op));
    }
    match message.keyed.is_empty() {
        true => Err(reader.malformed(Rule::KeyedAscend)),
        false => Ok(()),
    }
}

fn read_by(reader: &mut Reader<'_>, message: &Message) -> Result<Option<Stamp>, Fail> {
    let Some(writer) = reader.varint32().checked_sub(1) else {
        return Ok(None);
    };
    let Some(entry) = message.delta.writers.get(writer as usize) else {
        return Err(reader.malformed(Rule::ColumnWriter));
    };
    let clock = read_clock(reader, entry);
    Ok(Some(Stamp { writer, clock }))
}

/// Reads the adds of the transaction `by`, if the message says which one it was.
fn read_adds(reader: &mut Reader<'_>, by: Option<Stamp>) -> Result<Vec<KeyedAdd>, Fail> {
    let mut adds: Vec<KeyedAdd> = Vec::new();
    for _ in 0..reader.count(4) {
        let key: Box<str> = reader.text(Limited::MessageKeys, KEY_BYTES_MAX).into();
        if key.is_empty() || adds.last().is_some_and(|last| last.key >= key) {
            return Err(reader.malformed(Rule::KeyedAscend));
        }
        let (amount, before) = (reader.wide(), reader.varint());
        // A withdrawal encodes how far that is before the transaction.
        if by.is_some_and(|by| before >= by.clock) {
            return Err(reader.malformed(Rule::Lifetime));
        }
        adds.push(KeyedAdd {
            key,
            amount,
            before,
        });
    }
    Ok(adds)
}

/// Checks that the adds of one idempotency key have no more bytes than allowed.
///
/// # Errors
/// [`DecodeError::TooLarge`].
#[cfg(feature = "members")]
pub(crate) fn room_for_keyed(bytes: usize) -> Result<(), Error> {
    match bytes > KEYED_BYTES_MAX {
        true => Err(DecodeError::TooLarge {
            what: Limited::Keyed,
            size: bytes,
            max: KEYED_BYTES_MAX,
        }
        .into()),
        false => Ok(()),
    }
}
