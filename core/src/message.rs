//! Messages: a delta interval, with what members say of its writers and the keys of its transactions.
//!
//! A push of one add, the answer to a pull and a whole state are this one type. A receiver applies a message as
//! one, and only if it covers what the message builds on. The [delta](crate::state::delta) has the source.
//!
//! Records and keys are stamped like shards. So they are part of the interval by the same rule, and arrive in
//! causal order with the shards.

pub(crate) mod journal;
pub(crate) mod records;

use crate::layers::{GUESTS, GuestPart};
use crate::message::journal::Former;
use crate::message::records::{Fact, Says};
use crate::once::Once;
use crate::state::delta::Delta;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// `(lo, hi, records)`: every shard whose stamp is in `hi` and not in `lo`.
///
/// A delta, a push of fresh changes and a full state are this one type; a full state is the delta
/// since nothing. A replica applies it as one, and only if it covers `lo`, so what it sees is
/// always a causal cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The shards.
    pub(crate) delta: Delta,
    /// Whether the sender knows the space to be closed.
    pub(crate) closed: bool,
    /// Whether, in a closed space, it names all writers that the sender knows.
    pub(crate) complete: bool,
    /// Whether, in a closed space, the sender keeps no keyed operations.
    pub(crate) keyless: bool,
    /// The writers, by their place in `writers`, of which it may lack some, ascending.
    pub(crate) lacking: GuestPart<Vec<u32>>,
    /// What is said of writers, ascending by kind, writer and clock. Their writers index `writers`.
    pub(crate) facts: GuestPart<Vec<Fact>>,
    /// For a store, and for a node that begins: forgotten writers with the last clock that was taken
    /// over, the longest forgotten first.
    pub(crate) returns: GuestPart<Vec<(WriterId, u64)>>,
    /// Whether there were others, where that is told.
    pub(crate) gaps: Option<bool>,
    /// For a store only: what this replica's writers made, and no member is known to hold.
    pub(crate) kept: GuestPart<Vec<Former>>,
    /// What was made under idempotency keys, ascending by [place](KeyedOp::place). Their writers index
    /// `writers`.
    pub(crate) keyed: GuestPart<Vec<KeyedOp>>,
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
        let at = self
            .delta
            .writers
            .binary_search_by_key(writer, |it| it.writer);
        at.is_ok_and(|at| {
            let ends = |it: &Says| matches!(it, Says::Fence(_) | Says::Retired(_));
            self.tells(at as u32, ends)
        })
    }

    /// Whether the sender knows the space to be closed.
    pub(crate) fn is_closed(&self) -> bool {
        GUESTS && self.closed
    }

    /// Whether, in a closed space, it names all writers that the sender knows.
    pub(crate) fn is_complete(&self) -> bool {
        GUESTS && self.complete
    }

    /// Up to which clock it tells of a writer that it names.
    pub(crate) fn hi(&self, writer: &WriterId) -> Option<u64> {
        self.delta.hi(writer)
    }

    /// As a program tells it, or is told, that keeps no keyed operations.
    pub fn without_keys(&self) -> Message {
        let mut message = self.clone();
        message.keyless = message.closed;
        message.lacking = GuestPart::default();
        message.keyed = GuestPart::default();
        message
    }

    /// A writer of which it has something, and whom nobody has taken in as far as it tells.
    pub(crate) fn stranger(&self) -> Option<WriterId> {
        let taken_in = |at: u32| {
            self.tells(at, |says| {
                matches!(says, Says::Announce(_) | Says::Admit(_))
            })
        };
        let mut named = self.delta.writers.iter().zip(0u32..);
        let stranger = named.find(|(entry, at)| entry.hi > 0 && !taken_in(*at));
        stranger.map(|(entry, _)| entry.writer)
    }

    /// Whether it says of a writer that it is a member's, by the members that it tells of.
    pub(crate) fn tells_member(&self, writer: &WriterId) -> bool {
        let says = |of: &Fact| self.delta.writers[of.writer as usize].writer == *writer;
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
        self.is_complete() && self.delta.writers.iter().all(|entry| entry.lo == 0)
    }

    /// Whether some of its keys, which ascend, are no plain counters'.
    pub(crate) fn has_reserved_keys(&self) -> bool {
        self.delta.keys.len() > 0
            && self
                .delta
                .keys
                .get(0)
                .starts_with(crate::reserved::RESERVED)
    }

    /// How many shards it carries.
    pub fn shard_count(&self) -> usize {
        self.delta.shard_count()
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.delta.is_empty()
    }
}
