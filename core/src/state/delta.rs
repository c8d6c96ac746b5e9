//! Delta intervals: a part of the state, from a whole one down to a single add.
//!
//! This is the delta interval of delta-state CRDTs (Almeida, Shoker, Baquero 2018), with its condition for
//! causal consistency: a receiver joins an interval only if it covers the interval's begin. The begin and
//! the end are clocks of the writers that the interval names ([`Entry`]). Writers that it does not name are
//! left as they are.

use super::page::{Column, PAGE, Row};
use super::slot::{Extra, Side};
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;

/// One writer in a delta: the delta has everything of the writer after `lo` up to `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) writer: WriterId,
    /// The clock up to which the receiver has to cover the writer before the join.
    pub(crate) lo: u64,
    /// The clock up to which the receiver covers the writer after the join. Equal to `lo` if the delta only
    /// builds on this writer.
    pub(crate) hi: u64,
}

/// `(lo, hi, records)`: every shard whose stamp is in `hi` and not in `lo`.
///
/// A full state is the delta from nothing. A replica applies a delta as one, and only if it covers `lo`. So a
/// replica always shows a causal cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Ascending by writer.
    pub(crate) writers: Vec<Entry>,
    /// Ascending.
    pub(crate) keys: SortedKeys,
    /// The rows of 64 keys each; a column's `writer` indexes `writers`.
    pub(crate) pages: Vec<Vec<Column>>,
    /// The records of slots beside their rows, ascending by key and writer. Their writers index `writers`.
    pub(crate) sides: Vec<KeySide>,
}

/// The records of one slot beside its row, in a delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySide {
    /// The index of the key.
    pub(crate) key: u32,
    /// An extra is in the delta only if its row is.
    pub(crate) side: Side,
}

impl Delta {
    /// Returns the end clock of a writer that the delta names.
    pub(crate) fn hi(&self, writer: &WriterId) -> Option<u64> {
        let at = self.writers.binary_search_by_key(writer, |it| it.writer);
        at.ok().map(|at| self.writers[at].hi)
    }

    /// Returns the [`Extra`] of a shard that is in the delta, if it has one.
    pub(crate) fn extra(&self, key: u32, writer: u32) -> Option<&Extra> {
        let at = self
            .sides
            .binary_search_by_key(&(key, writer), |s| (s.key, s.side.writer))
            .ok()?;
        self.sides[at].side.extra.as_deref()
    }

    /// The row of a key and a writer, if it is in the delta.
    pub(crate) fn row(&self, key: u32, writer: u32) -> Option<&Row> {
        let columns = self.pages.get(key as usize / PAGE)?;
        let at = columns.binary_search_by_key(&writer, |c| c.writer).ok()?;
        columns[at].get(key % PAGE as u32)
    }

    /// How many shards it carries.
    pub(crate) fn shard_count(&self) -> usize {
        self.pages.iter().flatten().map(|c| c.rows.len()).sum()
    }

    /// Whether it contains nothing new of any writer.
    pub(crate) fn is_empty(&self) -> bool {
        self.writers.iter().all(|entry| entry.lo == entry.hi)
    }
}

/// Keys in ascending order, their bytes in one string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedKeys {
    text: String,
    ends: Vec<u32>,
}

impl SortedKeys {
    pub(crate) fn push(&mut self, key: &str) {
        self.text.push_str(key);
        self.ends.push(self.text.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[start as usize..self.ends[at] as usize]
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// The keys of one page of 64, joined, where each ends, and where the first one begins.
    pub(crate) fn page_text(&self, page: usize) -> (&str, &[u32], u32) {
        let first = page * PAGE;
        let ends = &self.ends[first..self.len().min(first + PAGE)];
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        let end = ends.last().copied().unwrap_or(start);
        (&self.text[start as usize..end as usize], ends, start)
    }

    /// The keys of one page of 64.
    pub(crate) fn page(&self, page: usize) -> impl ExactSizeIterator<Item = &str> {
        let start = page * PAGE;
        (start..self.len().min(start + PAGE)).map(|at| self.get(at))
    }
}
