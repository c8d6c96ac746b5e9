//! Short names of writers in [rounds](super::Round): the first bits of each id that the receiver knows already.
//!
//! A writer's id has 16 bytes, and the rest of its entry and its shard usually six. The receiver of a round has
//! everything up to its begin, so it knows most of the writers. The first bits tell these apart. A check over the whole
//! ids tells the receiver that it means the same writers. Nobody can make an id for which it does not: the check is 8
//! bytes of a SHA-256.
//!
//! No table of numbers has to be agreed on before. So a name costs nothing when a link begins, and all links at one mark
//! get the same bytes.

use super::bytes::{Fail, Reader, put, put_varint};
use super::message::{check_writers_told, put_clocks, put_writers, read_clocks, read_writers_told};
use crate::error::Rule;
use crate::hash::sha256_half;
use crate::message::Message;
use crate::state::delta::Entry;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Most bits of a name. Writers that are alike in more are named in full.
const BITS_MAX: u32 = 62;
const BITS_MIN: u32 = 8;

/// The number in the place of a short name, if the whole id follows.
const WHOLE: u64 = 1;

/// How a round names the writers in its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The bits of each short name. 0 if all writers are named in full.
    pub bits: u32,
    /// The places in the table of the writers that are named in full, ascending, if not all are.
    pub whole: Vec<u32>,
    /// The first bytes of the SHA-256 of the ids that are not.
    pub check: [u8; 8],
}

/// The first bits of an id.
fn name(writer: &WriterId, bits: u32) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *writer.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> (u64::BITS - bits)
}

/// The least id with this name.
fn least(name: u64, bits: u32) -> WriterId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(name << (u64::BITS - bits)).to_be_bytes());
    WriterId::from_bytes(id)
}

/// The greatest one.
fn most(name: u64, bits: u32) -> WriterId {
    let mut id = [0xff; 16];
    let rest = u64::MAX.checked_shr(bits).unwrap_or_default();
    id[..8].copy_from_slice(&(name << (u64::BITS - bits) | rest).to_be_bytes());
    WriterId::from_bytes(id)
}

impl Names {
    /// Short names for the writers of a message that its receivers know, as far as these names are theirs alone among
    /// `count` writers. `find` returns the only writer that is at least the one id, and at most the other one.
    pub fn of(
        message: &Message,
        count: usize,
        find: impl Fn(&WriterId, &WriterId) -> Option<WriterId>,
        is_known: impl Fn(&WriterId) -> bool,
    ) -> Names {
        // So few pairs of writers are alike in their names, also where a receiver knows some more.
        let bits = (2 * count.max(1).ilog2() + 4).clamp(BITS_MIN, BITS_MAX);
        let mut names = Names::default();
        let mut ids = Vec::new();
        for (place, entry) in (0..).zip(&message.delta.writers) {
            let id = entry.writer;
            let short = name(&id, bits);
            let is_only = || find(&least(short, bits), &most(short, bits)) == Some(id);
            match is_known(&id) && is_only() {
                true => put(&mut ids, id.as_bytes()),
                false => names.whole.push(place),
            }
        }
        // A short name takes some 13 bytes less. A whole one takes one more in such a table, and the check eight.
        if ids.len() / 16 * 13 <= names.whole.len() + 9 {
            return Names::default();
        }
        (names.bits, names.check) = (bits, check(ids));
        names
    }

    /// Puts the ids of the receiver's writers into the table of a message that was just read. Returns false if it does
    /// not know exactly one of each name, or means others. `find` is as above.
    pub(crate) fn resolve(
        &self,
        message: &mut Message,
        find: impl Fn(&WriterId, &WriterId) -> Option<WriterId>,
    ) -> bool {
        if self.bits == 0 {
            return true;
        }
        let mut ids = Vec::new();
        let mut whole = self.whole.iter().peekable();
        for (place, entry) in (0..).zip(&mut message.delta.writers) {
            if whole.next_if_eq(&&place).is_some() {
                continue;
            }
            let name = name(&entry.writer, self.bits);
            match find(&least(name, self.bits), &most(name, self.bits)) {
                Some(id) => entry.writer = id,
                None => return false,
            }
            put(&mut ids, entry.writer.as_bytes());
        }
        check(ids) == self.check
    }
}

fn check(ids: Vec<u8>) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = sha256_half(ids);
    [a, b, c, d, e, f, g, h]
}

/// Appends a table of writers. A short name is the gap to the one before it.
pub(super) fn put_names(out: &mut Vec<u8>, names: &Names, writers: &[Entry]) {
    if names.bits == 0 {
        out.push(0);
        return put_writers(out, writers);
    }
    out.push(names.bits as u8);
    put(out, &names.check);
    put_varint(out, writers.len() as u64);
    let mut next = 0;
    for (place, entry) in (0..).zip(writers) {
        let name = name(&entry.writer, names.bits);
        if names.whole.binary_search(&place).is_ok() {
            put_varint(out, WHOLE);
            put(out, entry.writer.as_bytes());
        } else {
            put_varint(out, (name - next) << 1);
        }
        next = name + 1;
        put_clocks(out, entry);
    }
}

/// Reads a table of writers. The ids of those with short names have zeros after these.
pub(super) fn read_names(reader: &mut Reader<'_>) -> Result<(Names, Vec<Entry>), Fail> {
    let bits = u32::from(reader.u8());
    if bits == 0 {
        return Ok((Names::default(), read_writers_told(reader)?));
    }
    if !(BITS_MIN..=BITS_MAX).contains(&bits) {
        return Err(reader.malformed(Rule::Names));
    }
    let mut names = Names {
        bits,
        ..Names::default()
    };
    names.check = reader.array();
    let count = reader.count(3);
    check_writers_told(reader, count)?;
    let mut writers: Vec<Entry> = crate::list(count);
    let mut last = None;
    for place in 0..count as u32 {
        let head = reader.varint();
        let next = last.map_or(0, |last| name(&last, bits) + 1);
        let short = next.saturating_add(head >> 1);
        let (writer, greatest) = if head == WHOLE {
            names.whole.push(place);
            let writer = WriterId::from_bytes(reader.array());
            (writer, writer)
        } else if head & WHOLE == 0 && short >> bits == 0 {
            (least(short, bits), most(short, bits))
        } else {
            return Err(reader.malformed(Rule::Names));
        };
        if last.is_some_and(|last| last >= writer) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        last = Some(greatest);
        writers.push(read_clocks(reader, writer)?);
    }
    match names.whole.len() < count {
        true => Ok((names, writers)),
        false => Err(reader.malformed(Rule::Names)),
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;
