//! The encoding of messages: one table of writers, the keys front-coded, the shards in columns.

#[cfg(feature = "members")]
use super::adds::read_adds;
use super::bytes::{Fail, Reader, put, put_varint, read_all, unzigzag, zigzag};
use super::earlier::{put_earlier, read_earlier};
#[cfg(feature = "members")]
use super::keyed::encode_adds;
use super::keyed::put_keyed;
#[cfg(feature = "members")]
use super::keyed::room_for_keyed;
use super::record::{put_records, read_records};
use super::side::{put_sides, read_sides};
use crate::bounds::{FRAME_BYTES_MAX, KEY_BYTES_MAX, MESSAGE_KEY_BYTES_MAX, WRITERS_TOLD_MAX};
use crate::error::{DecodeError, Error, Limited, Rule, WriteError, detail};
use crate::message::Message;
use crate::optional::{GUESTS, GuestPart, Optional};
use crate::state::delta::{Delta, Entry, KeySide, SortedKeys};
use crate::state::page::{Column, PAGE, Row};
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The keys of a page for which a column has rows: all of them, those in a bitmap that follows, or a single
/// one. The place of a single one is the value less `PRESENT_ONE`.
const PRESENT_ALL: u64 = 0;
const PRESENT_BITMAP: u64 = 1;
const PRESENT_ONE: u64 = 2;

/// The kinds of a list of forgotten writers:
/// - `MEMORY_PART`: the list of one record of a store, beside those of earlier records.
/// - `MEMORY_GAPS`: all writers that the sender remembers, which may not be all.
/// - `MEMORY_ALL`: all writers that were ever forgotten.
const MEMORY_PART: u8 = 0;
const MEMORY_GAPS: u8 = 1;
const MEMORY_ALL: u8 = 2;

/// The bounds of a message.
struct Bounds {
    writers: usize,
    key_bytes: usize,
}

/// The bounds of a message from a peer.
const TOLD: Bounds = Bounds {
    writers: WRITERS_TOLD_MAX,
    key_bytes: MESSAGE_KEY_BYTES_MAX,
};

/// The bounds of a message from the own store: a replica reads back everything that it wrote.
const STORED: Bounds = Bounds {
    writers: usize::MAX,
    key_bytes: usize::MAX,
};

/// The bits of the first `count` keys of a page.
fn all(count: usize) -> u64 {
    u64::MAX >> (PAGE - count)
}

/// The bytes of a message. It is a trait, because a [`Message`] belongs to a layer below its format.
pub trait Encode: Sized {
    /// The only encoding.
    fn encode(&self) -> Vec<u8>;

    /// As [`encode`](Encode::encode), with the parts that only this replica's store receives.
    fn encode_stored(&self) -> Vec<u8>;

    /// Decodes what came from a peer.
    ///
    /// # Errors
    /// Any error of the format, and [`DecodeError::TooLarge`] over
    /// [`FRAME_BYTES_MAX`] or [`MESSAGE_KEY_BYTES_MAX`].
    fn decode(bytes: &[u8]) -> Result<Self, Error>;

    /// Decodes what this program stored itself, of any size.
    ///
    /// # Errors
    /// Any error of the format.
    fn decode_stored(bytes: &[u8]) -> Result<Self, Error>;

    /// Decodes the record of [`Replica::adds_since`](crate::Replica::adds_since), for
    /// [`Replica::restore`](crate::Replica::restore). Unlike those of other messages, its keys are in no
    /// order.
    ///
    /// # Errors
    /// Any error of the format.
    #[cfg(feature = "members")]
    fn decode_adds(bytes: &[u8]) -> Result<Self, Error>;
}

impl Encode for Message {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_message(&mut out, self);
        out
    }

    fn encode_stored(&self) -> Vec<u8> {
        let mut out = self.encode();
        if GUESTS && (has_memory(self) || !self.earlier.is_empty()) {
            put_memory(&mut out, self);
            put_earlier(&mut out, &self.earlier);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Message, Error> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::TooLarge {
                what: detail(Limited::Message),
                size: detail(bytes.len()),
                max: detail(FRAME_BYTES_MAX),
            }
            .into());
        }
        read_all(bytes, read_told)
    }

    fn decode_stored(bytes: &[u8]) -> Result<Message, Error> {
        read_all(bytes, |reader| {
            let mut message = read_message(reader, &STORED)?;
            if GUESTS && reader.len() > 0 {
                let bytes = reader.len();
                read_memory(reader, &mut message)?;
                message.earlier.set(read_earlier(reader)?);
                if !has_memory(&message) && message.earlier.is_empty() {
                    return Err(reader.fail(
                        DecodeError::TrailingBytes {
                            bytes: detail(bytes),
                        }
                        .into(),
                    ));
                }
            }
            Ok(message)
        })
    }

    #[cfg(feature = "members")]
    fn decode_adds(bytes: &[u8]) -> Result<Message, Error> {
        read_all(bytes, read_adds)
    }
}

/// Whether a message has anything about forgotten writers.
pub(super) fn has_memory(message: &Message) -> bool {
    message.gaps.is_some() || !message.returns.is_empty()
}

/// Appends the forgotten writers of a message, with the last clock of each that counts, and whether these are
/// all.
pub(super) fn put_memory(out: &mut Vec<u8>, message: &Message) {
    out.push(match message.gaps {
        None => MEMORY_PART,
        Some(true) => MEMORY_GAPS,
        Some(false) => MEMORY_ALL,
    });
    put_varint(out, message.returns.len() as u64);
    for (writer, upto) in message.returns.iter() {
        put(out, writer.as_bytes());
        put_varint(out, *upto);
    }
}

/// Appends a message.
pub(super) fn put_message(out: &mut Vec<u8>, message: &Message) {
    put_writers(out, &message.delta.writers);
    put_rest(out, message);
}

/// Appends a table of writers.
pub(super) fn put_writers(out: &mut Vec<u8>, writers: &[Entry]) {
    put_varint(out, writers.len() as u64);
    for entry in writers {
        put(out, entry.writer.as_bytes());
        put_clocks(out, entry);
    }
}

pub(super) fn put_clocks(out: &mut Vec<u8>, entry: &Entry) {
    put_varint(out, entry.lo);
    put_varint(out, entry.hi - entry.lo);
}

/// Appends what follows the table of writers.
pub(super) fn put_rest(out: &mut Vec<u8>, message: &Message) {
    let Delta {
        writers,
        keys,
        pages,
        ..
    } = &message.delta;
    put_varint(out, keys.len() as u64);
    let mut before = "";
    for key in keys.iter() {
        let shared = shared_prefix(before, key);
        put_varint(out, shared as u64);
        put_varint(out, (key.len() - shared) as u64);
        put(out, &key.as_bytes()[shared..]);
        before = key;
    }
    for (at, columns) in pages.iter().enumerate() {
        put_varint(out, columns.len() as u64);
        let mut next = 0;
        for column in columns {
            put_varint(out, u64::from(column.writer - next));
            next = column.writer + 1;
            let base = writers[column.writer as usize].lo + 1;
            put_column(out, column, base, all(keys.page(at).len()));
        }
    }
    put_sides(out, message);
    put_records(out, message);
    if !message.keyed.is_empty() {
        put_keyed(out, message);
    }
}

pub(super) fn read_memory(reader: &mut Reader<'_>, message: &mut Message) -> Result<(), Fail> {
    message.gaps = match reader.u8() {
        MEMORY_PART => None,
        MEMORY_GAPS => Some(true),
        MEMORY_ALL => Some(false),
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    let count = reader.count(17);
    let entry = |_| (WriterId::from_bytes(reader.array()), reader.varint());
    message.returns.set((0..count).map(entry).collect());
    Ok(())
}

/// Reads a message from a peer. In an open space it may have no keyed operations: only stores have them
/// there.
pub(super) fn read_told(reader: &mut Reader<'_>) -> Result<Message, Fail> {
    let writers = read_writers_told(reader)?;
    read_told_of(reader, writers)
}

/// The same after its table of writers.
pub(super) fn read_told_of(reader: &mut Reader<'_>, writers: Vec<Entry>) -> Result<Message, Fail> {
    let message = read_rest(reader, &TOLD, writers)?;
    if !message.closed && message.has_reserved_keys() {
        return Err(reader.malformed(Rule::OpenBudget));
    }
    #[cfg(feature = "members")]
    for op in message.keyed.iter() {
        // A replica forwards everything that it accepts, together with the table of a last chunk.
        let bytes = encode_adds(&op.adds).len();
        room_for_keyed(bytes).map_err(|error| reader.fail(error))?;
    }
    match !message.closed && !message.keyed.is_empty() {
        true => Err(reader.malformed(Rule::Flag)),
        false => Ok(message),
    }
}

/// Reads a message to the end.
fn read_message(reader: &mut Reader<'_>, bounds: &Bounds) -> Result<Message, Fail> {
    let writers = read_writers(reader, bounds.writers)?;
    read_rest(reader, bounds, writers)
}

/// Reads a message to the end, after its table of writers.
fn read_rest(
    reader: &mut Reader<'_>,
    bounds: &Bounds,
    writers: Vec<Entry>,
) -> Result<Message, Fail> {
    let keys = read_keys(reader, bounds.key_bytes)?;
    let pages = keys.len().div_ceil(PAGE);
    let mut message = Message {
        delta: Delta {
            writers,
            keys,
            pages: crate::list(pages.min(reader.len())),
            sides: Vec::new(),
        },
        closed: false,
        complete: false,
        without_keys: false,
        key_gaps: GuestPart::default(),
        records: GuestPart::default(),
        returns: GuestPart::default(),
        gaps: None,
        earlier: GuestPart::default(),
        keyed: GuestPart::default(),
    };
    // The keys of each page for which nothing was read yet.
    let mut unused: Vec<u64> = crate::list(pages.min(reader.len()));
    for page in 0..pages {
        let keys = all(message.delta.keys.page(page).len());
        let (columns, used) = read_page(reader, &message.delta.writers, keys)?;
        message.delta.pages.push(columns);
        unused.push(keys & !used);
    }
    read_sides(reader, &mut message)?;
    read_records(reader, &mut message)?;
    for KeySide { key, .. } in &message.delta.sides {
        unused[*key as usize / PAGE] &= !(1 << (*key as usize % PAGE));
    }
    if unused.iter().any(|keys| *keys != 0) {
        return Err(reader.malformed(Rule::KeyUsed));
    }
    Ok(message)
}

fn shared_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn put_column(out: &mut Vec<u8>, column: &Column, base: u64, all: u64) {
    let signed = column.rows.iter().any(|row| row.total < 0);
    let present = if column.present == all {
        PRESENT_ALL
    } else if column.rows.len() == 1 {
        PRESENT_ONE + u64::from(column.present.trailing_zeros())
    } else {
        PRESENT_BITMAP
    };
    put_varint(out, present << 1 | u64::from(signed));
    if present == PRESENT_BITMAP {
        put(out, &column.present.to_le_bytes());
    }
    for row in &column.rows {
        put_varint(out, row.clock - base);
    }
    for row in &column.rows {
        let total = if signed {
            zigzag(row.total)
        } else {
            row.total as u64
        };
        put_varint(out, total);
    }
}

/// Checks that a table has no more than `max` writers.
fn check_writers(reader: &mut Reader<'_>, count: usize, max: usize) -> Result<(), Fail> {
    match count > max {
        true => Err(reader.fail(
            WriteError::WritersFull {
                writers: detail(count),
                max: detail(max),
            }
            .into(),
        )),
        false => Ok(()),
    }
}

/// Reads the writer table at the begin of a peer's message, up to this writer. Returns the writer's entry, if
/// there is one.
#[cfg(feature = "members")]
pub(super) fn find_told_writer(
    reader: &mut Reader<'_>,
    writer: &WriterId,
) -> Result<Option<Entry>, Fail> {
    let count = reader.count(18);
    check_writers(reader, count, TOLD.writers)?;
    let mut last = None;
    for _ in 0..count {
        let entry = read_writer(reader, last.as_ref())?;
        if entry.writer >= *writer {
            return Ok(Some(entry).filter(|it| it.writer == *writer));
        }
        last = Some(entry);
    }
    Ok(None)
}

/// Reads a table of writers from a peer.
pub(super) fn read_writers_told(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Fail> {
    read_writers(reader, TOLD.writers)
}

/// Checks that a peer's table has no more writers than it may.
#[cfg(feature = "guests")]
pub(super) fn check_writers_told(reader: &mut Reader<'_>, count: usize) -> Result<(), Fail> {
    check_writers(reader, count, TOLD.writers)
}

fn read_writers(reader: &mut Reader<'_>, max: usize) -> Result<Vec<Entry>, Fail> {
    let count = reader.count(18);
    check_writers(reader, count, max)?;
    let mut writers: Vec<Entry> = crate::list(count);
    for _ in 0..count {
        let entry = read_writer(reader, writers.last())?;
        writers.push(entry);
    }
    Ok(writers)
}

/// Reads the entry that follows `last` in a table of writers.
fn read_writer(reader: &mut Reader<'_>, last: Option<&Entry>) -> Result<Entry, Fail> {
    let writer = WriterId::from_bytes(reader.array());
    if last.is_some_and(|last| last.writer >= writer) {
        return Err(reader.malformed(Rule::WritersAscend));
    }
    read_clocks(reader, writer)
}

/// Reads the rest of a writer's entry.
pub(super) fn read_clocks(reader: &mut Reader<'_>, writer: WriterId) -> Result<Entry, Fail> {
    let lo = reader.varint();
    let hi = lo.checked_add(reader.varint());
    // The greatest number is reserved for the low clock that excludes every shard.
    match hi.filter(|hi| !GUESTS || *hi < u64::MAX) {
        Some(hi) => Ok(Entry { writer, lo, hi }),
        None => Err(reader.fail(DecodeError::Number.into())),
    }
}

fn read_keys(reader: &mut Reader<'_>, bytes_max: usize) -> Result<SortedKeys, Fail> {
    let count = reader.count(3);
    let mut keys = SortedKeys::default();
    let mut key: Vec<u8> = Vec::new();
    for _ in 0..count {
        let shared = reader.varint();
        let rest = reader.varint();
        // Neither the sum nor the cast can overflow after both numbers were found to be small.
        let max = KEY_BYTES_MAX as u64;
        if shared > max || rest > max || shared + rest > max || shared + rest == 0 {
            let bytes = shared.saturating_add(rest) as usize;
            return Err(reader.fail(
                WriteError::KeyLength {
                    bytes: detail(bytes),
                }
                .into(),
            ));
        }
        let shared = shared as usize;
        let rest = reader.take(rest as usize);
        // Keys ascend and share the longest prefix, so the first byte that differs is greater.
        let follows = match (key.get(shared), rest.first()) {
            (Some(old), Some(new)) => old < new,
            (None, Some(_)) => key.len() == shared,
            (_, None) => false,
        };
        if !follows {
            return Err(reader.malformed(Rule::KeysAscend));
        }
        key.truncate(shared);
        key.extend_from_slice(rest);
        if keys.bytes() + key.len() > bytes_max {
            return Err(reader.fail(
                DecodeError::TooLarge {
                    what: detail(Limited::MessageKeys),
                    size: detail(keys.bytes() + key.len()),
                    max: detail(bytes_max),
                }
                .into(),
            ));
        }
        match core::str::from_utf8(&key) {
            Ok(key) => keys.push(key),
            Err(_) => return Err(reader.malformed(Rule::Text)),
        }
    }
    Ok(keys)
}

/// Reads the columns of a page. Returns also the keys of the page for which they have rows.
fn read_page(
    reader: &mut Reader<'_>,
    writers: &[Entry],
    keys: u64,
) -> Result<(Vec<Column>, u64), Fail> {
    let count = reader.count(4);
    let mut columns = crate::list(count);
    let mut next = 0;
    let mut used = 0;
    for _ in 0..count {
        let at = reader.varint().saturating_add(next);
        let Some(entry) = usize::try_from(at).ok().and_then(|at| writers.get(at)) else {
            return Err(reader.malformed(Rule::ColumnWriter));
        };
        next = at + 1;
        let column = read_column(reader, at as u32, entry, keys)?;
        used |= column.present;
        columns.push(column);
    }
    Ok((columns, used))
}

fn read_column(
    reader: &mut Reader<'_>,
    writer: u32,
    entry: &Entry,
    keys: u64,
) -> Result<Column, Fail> {
    let head = reader.varint();
    let signed = head & 1 == 1;
    let present = match head >> 1 {
        PRESENT_ALL => keys,
        PRESENT_BITMAP => {
            let present = u64::from_le_bytes(reader.array());
            if present.count_ones() < 2 || present == keys || present & !keys != 0 {
                return Err(reader.malformed(Rule::Bitmap));
            }
            present
        }
        one => {
            let slot = one - PRESENT_ONE;
            if slot >= PAGE as u64 || keys >> slot & 1 == 0 || keys == 1 {
                return Err(reader.malformed(Rule::SingleKey));
            }
            1 << slot
        }
    };
    let count = present.count_ones() as usize;
    if reader.len() < 2 * count {
        return Err(reader.truncated());
    }
    let mut column = Column {
        present,
        newest: 0,
        rows: Vec::with_capacity(count),
        writer,
    };
    for _ in 0..count {
        let after = reader.varint();
        let clock = entry
            .lo
            .checked_add(1)
            .and_then(|base| base.checked_add(after));
        let Some(clock) = clock.filter(|clock| *clock <= entry.hi) else {
            return Err(reader.malformed(Rule::ShardClock));
        };
        column.newest = column.newest.max(clock);
        column.rows.push(Row { clock, total: 0 });
    }
    let mut negative = false;
    for row in &mut column.rows {
        let total = reader.varint();
        row.total = match signed {
            true => unzigzag(total),
            false => i64::try_from(total).map_err(|_| reader.fail(DecodeError::Number.into()))?,
        };
        negative |= row.total < 0;
    }
    if signed != negative {
        return Err(reader.malformed(Rule::Signed));
    }
    Ok(column)
}

/// Writes a version vector.
pub(super) fn put_vector(out: &mut Vec<u8>, vector: &VersionVector) {
    put_varint(out, vector.len() as u64);
    for (writer, clock) in vector.iter() {
        put(out, writer.as_bytes());
        put_varint(out, clock);
    }
}

/// Reads a version vector.
pub(super) fn read_vector(reader: &mut Reader<'_>) -> Result<VersionVector, Fail> {
    let count = reader.count(17);
    check_writers(reader, count, WRITERS_TOLD_MAX)?;
    let mut entries: Vec<(WriterId, u64)> = crate::list(count);
    for _ in 0..count {
        let writer = WriterId::from_bytes(reader.array());
        let clock = reader.varint();
        if entries.last().is_some_and(|last| last.0 >= writer) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        if clock == 0 {
            return Err(reader.malformed(Rule::WriterClock));
        }
        entries.push((writer, clock));
    }
    Ok(VersionVector::from_sorted(entries))
}
