//! The encoding of unconfirmed transactions in a store: this owner's writers made them, and may have to make
//! them again.

use super::bytes::{Fail, Reader, put_bytes, put_varint, put_wide, unzigzag, zigzag};
use super::frame::{put_intro, read_intro};
use super::keyed::{put_once, read_once};
use crate::bounds::KEY_BYTES_MAX;
use crate::error::{Limited, Rule};
use crate::message::journal::{Did, EarlierWriter, Journal, Made, Saw};
use crate::optional::Empty;
use crate::state::operation::Op;
use crate::state::slot::NEVER;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

const ADD: u8 = 0;
const RESET: u8 = 1;
const DELETE: u8 = 2;
const SET: u8 = 3;
const EXPIRE: u8 = 4;
const PERSIST: u8 = 5;
const END: u8 = 6;

/// The greatest time of an end.
const LATEST: u64 = NEVER - 1;

pub(super) fn put_earlier(out: &mut Vec<u8>, writers: &[EarlierWriter]) {
    put_varint(out, writers.len() as u64);
    for earlier in writers {
        out.extend_from_slice(earlier.writer.as_bytes());
        put_intro(out, earlier.intro.as_ref());
        out.push(u8::from(earlier.doubtful) | u8::from(earlier.unsure) << 1);
        let journal = &earlier.journal;
        put_varint(out, journal.dropped);
        put_varint(out, journal.open);
        put_varint(out, journal.told);
        put_varint(out, journal.as_guest);
        put_varint(out, journal.made.len() as u64);
        for made in &journal.made {
            put_varint(out, made.clock);
            put_did(out, &made.did);
        }
        put_did(out, &journal.survivors);
    }
    // The keys come after the place where records of the first format end, and bundles after those.
    let has_bundles = |earlier: &EarlierWriter| bundled(&earlier.journal).next().is_some();
    let has_bundles = writers.iter().any(has_bundles);
    let has_keys = |earlier: &EarlierWriter| !earlier.journal.keyed.is_empty();
    if has_bundles || writers.iter().any(has_keys) {
        for earlier in writers {
            put_varint(out, earlier.journal.keyed.len() as u64);
            for (clock, once) in &earlier.journal.keyed {
                put_varint(out, *clock);
                put_once(out, once);
            }
        }
    }
    if has_bundles {
        for earlier in writers {
            put_varint(out, bundled(&earlier.journal).count() as u64);
            for (at, made) in bundled(&earlier.journal) {
                put_varint(out, at as u64);
                put_varint(out, made.last - made.clock);
                put_varint(out, made.count);
            }
        }
    }
}

/// The bundles, with their places.
fn bundled(journal: &Journal) -> impl Iterator<Item = (usize, &Made)> {
    let made = journal.made.iter().enumerate();
    made.filter(|(_, made)| made.last > made.clock)
}

fn put_did(out: &mut Vec<u8>, did: &[Did]) {
    put_varint(out, did.len() as u64);
    for it in did {
        put_bytes(out, it.key.as_bytes());
        let (kind, value) = match it.op {
            Op::Add(by) => (ADD, zigzag(by)),
            Op::Reset => (RESET, 0),
            Op::Delete if it.ends > 0 => (END, it.ends),
            Op::Delete => (DELETE, 0),
            Op::Set(value) => (SET, zigzag(value)),
            Op::Expire(at) => (EXPIRE, at),
            Op::Persist => (PERSIST, 0),
        };
        out.push(kind);
        put_varint(out, value);
        put_varint(out, it.saw.len() as u64);
        for saw in &it.saw {
            out.extend_from_slice(saw.writer.as_bytes());
            put_varint(out, saw.clock);
            put_wide(out, saw.total);
        }
    }
}

pub(super) fn read_earlier(reader: &mut Reader<'_>) -> Result<Vec<EarlierWriter>, Fail> {
    let mut writers = Vec::new();
    for _ in 0..reader.count(24) {
        let writer = WriterId::from_bytes(reader.array());
        let intro = read_intro(reader)?;
        let flags = reader.u8();
        if flags > 3 {
            return Err(reader.malformed(Rule::Flag));
        }
        let (dropped, open) = (reader.varint(), reader.varint());
        let (told, as_guest) = (reader.varint(), reader.varint());
        let mut made: Vec<Made> = Vec::new();
        for _ in 0..reader.count(2) {
            let clock = reader.varint();
            if made.last().is_some_and(|last| last.clock >= clock) {
                return Err(reader.malformed(Rule::Stored));
            }
            made.push(Made::one(clock, read_did(reader)?));
        }
        let journal = Journal {
            writer: Some(writer),
            made,
            dropped,
            open,
            told,
            as_guest,
            survivors: read_did(reader)?,
            ..Journal::EMPTY
        };
        writers.push(EarlierWriter {
            intro,
            doubtful: flags & 1 > 0,
            unsure: flags & 2 > 0,
            ..EarlierWriter::new(writer, journal)
        });
    }
    if reader.len() > 0 && !writers.is_empty() {
        let any = read_earlier_keys(reader, &mut writers)?;
        let bundled = reader.len() > 0;
        if bundled {
            read_bundles(reader, &mut writers)?;
        }
        if !any && !bundled {
            return Err(reader.malformed(Rule::Stored));
        }
    }
    Ok(writers)
}

/// Reads which transactions are bundles: there are some.
fn read_bundles(reader: &mut Reader<'_>, writers: &mut [EarlierWriter]) -> Result<(), Fail> {
    let mut any = false;
    for earlier in writers {
        let mut made = core::mem::take(&mut earlier.journal.made);
        let mut next = 0;
        for _ in 0..reader.count(3) {
            let at = reader.varint();
            let (later, count) = (reader.varint(), reader.varint());
            let it = usize::try_from(at).ok().and_then(|at| made.get_mut(at));
            let last = it.as_ref().and_then(|it| it.clock.checked_add(later));
            let (Some(it), Some(last)) = (it, last) else {
                return Err(reader.malformed(Rule::Stored));
            };
            // Each of them has a clock of its own.
            if at < next || count < 2 || later < count - 1 {
                return Err(reader.malformed(Rule::Stored));
            }
            (it.last, it.count) = (last, count);
            next = at + 1;
            any = true;
        }
        earlier.journal.set_made(made);
    }
    match any {
        true => Ok(()),
        false => Err(reader.malformed(Rule::Stored)),
    }
}

/// Reads the keys of transactions. Returns whether there are any.
fn read_earlier_keys(reader: &mut Reader<'_>, writers: &mut [EarlierWriter]) -> Result<bool, Fail> {
    let mut any = false;
    for earlier in writers {
        for _ in 0..reader.count(25) {
            let keyed = &mut earlier.journal.keyed;
            let clock = reader.varint();
            if keyed.last().is_some_and(|last| last.0 >= clock) {
                return Err(reader.malformed(Rule::Stored));
            }
            keyed.push((clock, read_once(reader)));
            any = true;
        }
    }
    Ok(any)
}

fn read_did(reader: &mut Reader<'_>) -> Result<Vec<Did>, Fail> {
    let mut did = Vec::new();
    for _ in 0..reader.count(4) {
        let key = reader.text(Limited::MessageKeys, KEY_BYTES_MAX).into();
        let (kind, value) = (reader.u8(), reader.varint());
        let ends = if kind == END { value } else { 0 };
        let op = match (kind, value) {
            (ADD, value) => Op::Add(unzigzag(value)),
            (RESET, 0) => Op::Reset,
            (DELETE, 0) => Op::Delete,
            (END, 1..=LATEST) => Op::Delete,
            (SET, value) => Op::Set(unzigzag(value)),
            (EXPIRE, value) => Op::Expire(value),
            (PERSIST, 0) => Op::Persist,
            _ => return Err(reader.malformed(Rule::Stored)),
        };
        let mut saw = Vec::new();
        for _ in 0..reader.count(18) {
            saw.push(Saw {
                writer: WriterId::from_bytes(reader.array()),
                clock: reader.varint(),
                total: reader.wide(),
            });
        }
        if ends > 0 && !saw.is_empty() {
            return Err(reader.malformed(Rule::Stored));
        }
        did.push(Did { key, op, saw, ends });
    }
    Ok(did)
}

#[cfg(test)]
mod tests;
