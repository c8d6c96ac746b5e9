//! The question and the answer by which two nodes compare what they show.
//!
//! They are no frames: nothing of them is merged, and they go beside the sync machine.

use super::bytes::{Fail, Reader, put_bytes, put_varint, read_all};
use crate::bounds::{
    AUDIT_COUNTERS_MAX, AUDIT_QUESTION_BYTES_MAX, AUDIT_REFUSAL_BYTES_MAX, AUDIT_SHARDS_MIN,
    FRAME_BYTES_MAX, KEY_BYTES_MAX, SPACE_BYTES_MAX, WRITERS_TOLD_MAX,
};
use crate::error::{DecodeError, Error, Limited, Rule, WriteError};
use crate::state::page::Shard;
use crate::writer_id::{Space, WriterId};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

const PAGE: u8 = 0;
const MORE: u8 = 1;
const REFUSED: u8 = 2;

/// The most bytes of a shard: its writer, its clock, its total.
const SHARD_BYTES_MAX: usize = 16 + 10 + 16;
/// The most bytes of a counter beside its shards: its key and their number, with lengths.
const COUNTER_BYTES_MAX: usize = 2 + KEY_BYTES_MAX + 3;

// The last counter of a page may have a shard of every writer.
const _: () = assert!(
    1 + 16
        + 2
        + AUDIT_COUNTERS_MAX * COUNTER_BYTES_MAX
        + (AUDIT_SHARDS_MIN + WRITERS_TOLD_MAX) * SHARD_BYTES_MAX
        <= FRAME_BYTES_MAX
);
const _: () = assert!(1 + SPACE_BYTES_MAX + 2 * (2 + KEY_BYTES_MAX) == AUDIT_QUESTION_BYTES_MAX);

/// A question to a peer: which shards do these counters have?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuestion {
    /// The space of the counters.
    pub space: Space,
    /// The prefix of their keys.
    pub prefix: String,
    /// The key after which the page begins, by bytes. Empty for all.
    pub after: String,
}

impl AuditQuestion {
    /// The question's only encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for text in [self.space.as_str(), &self.prefix, &self.after] {
            put_bytes(&mut out, text.as_bytes());
        }
        out
    }

    /// Decodes a question.
    ///
    /// # Errors
    /// Any error of the format, [`WriteError::SpaceName`], and [`WriteError::KeyLength`] for a prefix or a
    /// key that is longer than any key.
    pub fn decode(bytes: &[u8]) -> Result<AuditQuestion, Error> {
        read_all(bytes, |reader| {
            let name = reader.text(Limited::SpaceName, SPACE_BYTES_MAX);
            let space = Space::new(name).map_err(|error| reader.fail(error))?;
            Ok(AuditQuestion {
                space,
                prefix: read_key(reader)?,
                after: read_key(reader)?,
            })
        })
    }
}

/// The shards of counters, all of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedPage {
    /// The digest of the version vector. Replicas with equal digests must show the same.
    pub digest: [u8; 16],
    /// The counters, ascending by key, each with its shards ascending by writer. At most
    /// [`AUDIT_COUNTERS_MAX`].
    pub counters: Vec<(String, Vec<Shard>)>,
    /// Whether there may be more counters after the last of them.
    pub more: bool,
}

impl AuditedPage {
    /// Whether it has only counters that the question requests. Then a peer that requests page after page
    /// comes to an end.
    pub fn answers(&self, question: &AuditQuestion) -> bool {
        let first = self.counters.first();
        let has = |it: &(String, Vec<Shard>)| it.0.starts_with(&question.prefix);
        first.is_none_or(|it| it.0 > question.after) && self.counters.iter().all(has)
    }
}

/// The answer to an [`AuditQuestion`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditAnswer {
    /// A page of counters.
    Page(AuditedPage),
    /// The code of a refusal, in small letters and `_`.
    Refused(String),
}

impl AuditAnswer {
    /// The answer's only encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let page = match self {
            AuditAnswer::Page(page) => page,
            AuditAnswer::Refused(code) => {
                out.push(REFUSED);
                put_bytes(&mut out, code.as_bytes());
                return out;
            }
        };
        out.push(if page.more { MORE } else { PAGE });
        out.extend_from_slice(&page.digest);
        put_varint(&mut out, page.counters.len() as u64);
        for (key, shards) in &page.counters {
            put_bytes(&mut out, key.as_bytes());
            put_varint(&mut out, shards.len() as u64);
            for shard in shards {
                out.extend_from_slice(shard.writer.as_bytes());
                put_varint(&mut out, shard.clock);
                out.extend_from_slice(&shard.total.to_le_bytes());
            }
        }
        out
    }

    /// Decodes an answer.
    ///
    /// # Errors
    /// Any error of the format, [`WriteError::KeyLength`], [`WriteError::WritersFull`] for a counter with
    /// more shards than a space has writers, and [`DecodeError::TooLarge`] over [`FRAME_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> Result<AuditAnswer, Error> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(DecodeError::TooLarge {
                what: Limited::Frame,
                size: bytes.len(),
                max: FRAME_BYTES_MAX,
            }
            .into());
        }
        read_all(bytes, |reader| match reader.u8() {
            PAGE => Ok(AuditAnswer::Page(read_page(reader, false)?)),
            MORE => Ok(AuditAnswer::Page(read_page(reader, true)?)),
            REFUSED => {
                let code = reader.text(Limited::Refusal, AUDIT_REFUSAL_BYTES_MAX);
                let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
                match !code.is_empty() && code.bytes().all(fits) {
                    true => Ok(AuditAnswer::Refused(code.to_owned())),
                    false => Err(reader.malformed(Rule::Text)),
                }
            }
            _ => Err(reader.malformed(Rule::Flag)),
        })
    }
}

fn read_page(reader: &mut Reader<'_>, more: bool) -> Result<AuditedPage, Fail> {
    let digest = reader.array();
    let count = reader.count(3);
    if count > AUDIT_COUNTERS_MAX {
        return Err(reader.fail(
            DecodeError::TooLarge {
                what: Limited::AuditedCounters,
                size: count,
                max: AUDIT_COUNTERS_MAX,
            }
            .into(),
        ));
    }
    // A page with more to come has at least one counter.
    if more && count == 0 {
        return Err(reader.malformed(Rule::Flag));
    }
    let mut counters: Vec<(String, Vec<Shard>)> = Vec::with_capacity(count);
    for _ in 0..count {
        let key = read_key(reader)?;
        if key.is_empty() {
            return Err(reader.fail(WriteError::KeyLength { bytes: 0 }.into()));
        }
        if counters.last().is_some_and(|last| last.0 >= key) {
            return Err(reader.malformed(Rule::KeysAscend));
        }
        counters.push((key, read_shards(reader)?));
    }
    Ok(AuditedPage {
        digest,
        counters,
        more,
    })
}

fn read_shards(reader: &mut Reader<'_>) -> Result<Vec<Shard>, Fail> {
    let count = reader.count(16 + 1 + 16);
    if count > WRITERS_TOLD_MAX {
        return Err(reader.fail(
            WriteError::WritersFull {
                writers: count,
                max: WRITERS_TOLD_MAX,
            }
            .into(),
        ));
    }
    let mut shards: Vec<Shard> = Vec::with_capacity(count);
    for _ in 0..count {
        let writer = WriterId::from_bytes(reader.array());
        if shards.last().is_some_and(|last| last.writer >= writer) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        shards.push(Shard {
            writer,
            clock: reader.varint(),
            total: i128::from_le_bytes(reader.array()),
        });
    }
    Ok(shards)
}

/// Reads a key, or the begin of one, or an empty text.
fn read_key(reader: &mut Reader<'_>) -> Result<String, Fail> {
    let bytes = usize::try_from(reader.varint()).unwrap_or(usize::MAX);
    if bytes > KEY_BYTES_MAX {
        return Err(reader.fail(WriteError::KeyLength { bytes }.into()));
    }
    match core::str::from_utf8(reader.take(bytes)) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(reader.malformed(Rule::Text)),
    }
}
