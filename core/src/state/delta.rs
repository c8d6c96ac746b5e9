//! Messages: a part of the state, from a whole one down to a single add.

use crate::MEMBERS;
use crate::closed::Closed;
use crate::membership::records::{Fact, Says};
use crate::once::Once;
use crate::rejoin::Former;
use crate::state::page::{Column, PAGE, Row};
use crate::state::slot::{Extra, Side, Stamp};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// One writer in a message: everything of it after `lo` up to `hi` is in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) writer: WriterId,
    /// What the receiver must hold already.
    pub(crate) lo: u64,
    /// What it holds afterwards. Equal to `lo` if the message only builds on this writer.
    pub(crate) hi: u64,
}

/// `(lo, hi, records)`: every shard whose stamp is in `hi` and not in `lo`.
///
/// A delta, a push of fresh changes and a full state are this one type; a full state is the delta
/// since nothing. A replica applies it as one, and only if it covers `lo`, so what it sees is
/// always a causal cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Ascending by writer.
    pub(crate) writers: Vec<Entry>,
    /// Ascending.
    pub(crate) keys: SortedKeys,
    /// The rows of 64 keys each; a column's `writer` indexes `writers`.
    pub(crate) pages: Vec<Vec<Column>>,
    /// What slots have beside their rows, ascending by key and writer. Their writers index
    /// `writers`.
    pub(crate) sides: Vec<KeySide>,
    /// Whether the sender knows the space to be closed.
    pub(crate) closed: bool,
    /// Whether, in a closed space, it names all writers that the sender knows.
    pub(crate) complete: bool,
    /// Whether, in a closed space, the sender keeps no keyed operations.
    pub(crate) keyless: bool,
    /// The writers, by their place in `writers`, of which it may lack some, ascending.
    pub(crate) lacking: Closed<Vec<u32>>,
    /// What is said of writers, ascending by kind, writer and clock. Their writers index `writers`.
    pub(crate) facts: Closed<Vec<Fact>>,
    /// For a store, and for a node that begins: forgotten writers with the last clock that was taken
    /// over, the longest forgotten first.
    pub(crate) returns: Closed<Vec<(WriterId, u64)>>,
    /// Whether there were others, where that is told.
    pub(crate) gaps: Option<bool>,
    /// For a store only: what this replica's writers made, and no member is known to hold.
    pub(crate) kept: Closed<Vec<Former>>,
    /// What was made under idempotency keys, ascending by [place](KeyedOp::place). Their writers index
    /// `writers`.
    pub(crate) keyed: Closed<Vec<KeyedOp>>,
}

/// A transaction that was made under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedOp {
    pub(crate) once: Once,
    /// `None` if the writer was absorbed and forgotten.
    pub(crate) by: Option<Stamp>,
    /// Ascending by key.
    pub(crate) adds: Vec<KeyedAdd>,
}

/// What a keyed transaction added to one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedAdd {
    pub(crate) key: Box<str>,
    pub(crate) amount: i128,
    /// The clock of the writer's add before it in the same life, 0 if it was the first.
    pub(crate) before: u64,
}

impl KeyedOp {
    /// By which they are in order.
    pub(crate) fn place(&self) -> (Option<(u32, u64)>, Once) {
        (self.by.map(|by| (by.writer, by.clock)), self.once)
    }
}

/// What one slot has beside its row, in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySide {
    /// The index of the key.
    pub(crate) key: u32,
    /// An extra is there only if the row is in the message too.
    pub(crate) side: Side,
}

impl Message {
    /// What is said of writers.
    pub(crate) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The facts about the writer at this place among its writers. Facts ascend by their kind and by
    /// writer, so a binary search for each kind finds them: a full space has tens of thousands.
    pub(crate) fn facts_of(&self, writer: u32) -> impl Iterator<Item = &Fact> {
        let facts = self.facts();
        let place = |fact: &Fact| (fact.kind(), fact.writer);
        let kinds = facts.last().map_or(0, |last| last.kind() + 1);
        (0..kinds).flat_map(move |kind| {
            let from = facts.partition_point(|fact| place(fact) < (kind, writer));
            let of = facts[from..].iter();
            of.take_while(move |fact| place(fact) == (kind, writer))
        })
    }

    /// Whether it says something of this kind of a writer, whose place among its writers this is.
    pub(crate) fn tells(&self, writer: u32, kind: fn(&Says) -> bool) -> bool {
        self.facts_of(writer).any(|fact| kind(&fact.says))
    }

    /// Whether it says that others ended a writer.
    pub(crate) fn says_ended(&self, writer: &WriterId) -> bool {
        let at = self.writers.binary_search_by_key(writer, |it| it.writer);
        at.is_ok_and(|at| {
            let ends = |it: &Says| matches!(it, Says::Fence(_) | Says::Retired(_));
            self.tells(at as u32, ends)
        })
    }

    /// Whether the sender knows the space to be closed.
    pub(crate) fn is_closed(&self) -> bool {
        MEMBERS && self.closed
    }

    /// Whether, in a closed space, it names all writers that the sender knows.
    pub(crate) fn is_complete(&self) -> bool {
        MEMBERS && self.complete
    }

    /// Up to which clock it tells of a writer that it names.
    pub(crate) fn hi(&self, writer: &WriterId) -> Option<u64> {
        let at = self.writers.binary_search_by_key(writer, |it| it.writer);
        at.ok().map(|at| self.writers[at].hi)
    }

    /// As a program tells it, or is told, that keeps no keyed operations.
    pub fn without_keys(&self) -> Message {
        let mut message = self.clone();
        message.keyless = message.closed;
        message.lacking = Closed::default();
        message.keyed = Closed::default();
        message
    }

    /// A writer of which it has something, and whom nobody has taken in as far as it tells.
    pub(crate) fn stranger(&self) -> Option<WriterId> {
        let taken_in = |at: u32| {
            self.tells(at, |says| {
                matches!(says, Says::Announce(_) | Says::Admit(_))
            })
        };
        let mut named = self.writers.iter().zip(0u32..);
        let stranger = named.find(|(entry, at)| entry.hi > 0 && !taken_in(*at));
        stranger.map(|(entry, _)| entry.writer)
    }

    /// Whether it says of a writer that it is a member's, by the members that it tells of.
    pub(crate) fn tells_member(&self, writer: &WriterId) -> bool {
        let says = |of: &Fact| self.writers[of.writer as usize].writer == *writer;
        let mut facts = self.facts().iter();
        let members = facts.find_map(|fact| match &fact.says {
            Says::Configuration(_, members) => Some(members),
            _ => None,
        });
        self.facts().iter().any(|fact| match &fact.says {
            Says::Announce(it) => {
                says(fact) && members.is_some_and(|members| members.has(&it.owner))
            }
            _ => false,
        })
    }

    /// Whether it is all that its sender, in a space with members, held: it can take the place of
    /// everything that was stored before.
    pub fn is_whole(&self) -> bool {
        self.is_complete() && self.writers.iter().all(|entry| entry.lo == 0)
    }

    /// The rare part of a shard that is in the message, if it has one.
    pub(crate) fn extra(&self, key: u32, writer: u32) -> Option<&Extra> {
        let at = self
            .sides
            .binary_search_by_key(&(key, writer), |s| (s.key, s.side.writer))
            .ok()?;
        self.sides[at].side.extra.as_deref()
    }

    /// The row of a key and a writer, if it is in the message.
    pub(crate) fn row(&self, key: u32, writer: u32) -> Option<&Row> {
        let columns = self.pages.get(key as usize / PAGE)?;
        let at = columns.binary_search_by_key(&writer, |c| c.writer).ok()?;
        columns[at].get(key % PAGE as u32)
    }

    /// Whether some of its keys, which ascend, are no plain counters'.
    pub(crate) fn has_reserved_keys(&self) -> bool {
        self.keys.len() > 0 && self.keys.get(0).starts_with(crate::state::keys::RESERVED)
    }

    /// How many shards it carries.
    pub fn shard_count(&self) -> usize {
        self.pages.iter().flatten().map(|c| c.rows.len()).sum()
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
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
