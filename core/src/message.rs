//! Messages: a delta interval, with what members say of its writers and the keys of its transactions.
//!
//! # What it adds
//! A push of one add, the answer to a pull and a whole state are this one type: [`Message`]. It adds
//! membership records and keyed operations to the [delta](crate::state::delta) of the state.
//!
//! | file | holds |
//! |---|---|
//! | `message.rs` | the message, and the operations that were made under idempotency keys |
//! | [`records`] | membership records: what members say of writers |
//! | [`journal`] | for a store only: own transactions that are unconfirmed |
//!
//! # What it guarantees
//! - **One interval for all.** Records and keys are stamped like shards. So they are part of the interval by
//!   the same rule, and arrive in causal order with the shards.
//! - **A message names what it builds on.** A receiver applies it as one, and only if it covers that.
//! - **One order.** Writers, keys, records and keyed operations ascend, so a message has one encoding.
//!
//! # What it follows
//! It is data, and has no algorithm of its own. The delta interval is that of
//! [the state](crate::state#what-it-follows-and-where-it-departs).

pub(crate) mod journal;
pub(crate) mod records;

use crate::message::journal::EarlierWriter;
use crate::message::records::{MembershipRecord, Statement};
use crate::once::Once;
use crate::optional::{GUESTS, GuestPart};
use crate::state::delta::Delta;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A delta, with the membership records and the keyed operations of the same interval.
///
/// A push of fresh changes, the answer to a pull and a full state are this one type. A full state is the
/// delta from nothing. A replica applies a message as one, and only if it covers `lo`. So a replica always
/// shows a causal cut.
///
/// A message of a space with members is *complete* if it names all writers that its sender has. It is *whole*
/// if it is complete and is the delta from nothing: then it can replace a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The shards.
    pub(crate) delta: Delta,
    /// Whether the space has members, as far as the sender has learned.
    pub(crate) closed: bool,
    /// Whether the message is complete.
    pub(crate) complete: bool,
    /// Whether, in a space with members, the message lacks keyed operations from the begin of writers on: of those in
    /// `key_gaps`, or of all if there are none. A guest stores none at all.
    pub(crate) without_keys: bool,
    /// The writers whose keyed operations the message may lack in part, by their place in `delta.writers`,
    /// ascending.
    pub(crate) key_gaps: GuestPart<Vec<u32>>,
    /// The membership records, ascending by kind, writer and clock. Their writers index
    /// `delta.writers`.
    pub(crate) records: GuestPart<Vec<MembershipRecord>>,
    /// For a store, and for a node that begins: forgotten writers with the last clock that was taken over.
    /// The writer that was forgotten first comes first.
    pub(crate) returns: GuestPart<Vec<(WriterId, u64)>>,
    /// Whether other writers were forgotten, or may have been, that `returns` does not name. `None` where the
    /// message does not say it.
    pub(crate) gaps: Option<bool>,
    /// For a store only: transactions of this replica's writers that are unconfirmed, because no member is
    /// known to have them.
    pub(crate) earlier: GuestPart<Vec<EarlierWriter>>,
    /// The keyed operations, ascending by [place](KeyedOp::place). Their writers index
    /// `delta.writers`.
    pub(crate) keyed: GuestPart<Vec<KeyedOp>>,
}

/// A transaction that was made under an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedOp {
    pub(crate) once: Once,
    /// The transaction. `None` if its writer was absorbed and forgotten.
    pub(crate) by: Option<Stamp>,
    /// Ascending by key.
    pub(crate) adds: Vec<KeyedAdd>,
}

/// The amount that a keyed transaction added to one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedAdd {
    pub(crate) key: Box<str>,
    pub(crate) amount: i128,
    /// The clock of the writer's add before it in the same lifetime, 0 if it was the first.
    pub(crate) before: u64,
}

impl KeyedOp {
    /// The order of keyed operations in a message.
    pub(crate) fn place(&self) -> (Option<(u32, u64)>, Once) {
        (self.by.map(|by| (by.writer, by.clock)), self.once)
    }
}

impl Message {
    /// The membership records, ascending by kind, writer and clock.
    pub(crate) fn records(&self) -> &[MembershipRecord] {
        &self.records
    }

    /// Returns the records about the writer at this place among the message's writers.
    ///
    /// Records ascend by kind and writer, so a binary search for each kind that there is finds them. A full space has tens
    /// of thousands of records.
    pub(crate) fn records_of(&self, writer: u32) -> impl Iterator<Item = &MembershipRecord> {
        let mut rest = self.records();
        let mut of = rest[..0].iter();
        core::iter::from_fn(move || {
            loop {
                if let Some(record) = of.next().filter(|record| record.writer == writer) {
                    return Some(record);
                }
                let kind = rest.first()?.kind();
                let (this, later) =
                    rest.split_at(rest.partition_point(|record| record.kind() == kind));
                rest = later;
                of = this[this.partition_point(|record| record.writer < writer)..].iter();
            }
        })
    }

    /// Whether the message has a record of this kind about the writer at this place among its writers.
    pub(crate) fn has_record(&self, writer: u32, kind: fn(&Statement) -> bool) -> bool {
        self.records_of(writer)
            .any(|record| kind(&record.statement))
    }

    /// Whether the message says that other writers ended this one: by a fence or by its retirement.
    pub(crate) fn has_ended(&self, writer: &WriterId) -> bool {
        let at = self
            .delta
            .writers
            .binary_search_by_key(writer, |it| it.writer);
        at.is_ok_and(|at| {
            let ends = |it: &Statement| matches!(it, Statement::Fence(_) | Statement::Retired(_));
            self.has_record(at as u32, ends)
        })
    }

    /// Whether the space has members, as far as the sender has learned.
    pub(crate) fn is_closed(&self) -> bool {
        GUESTS && self.closed
    }

    /// Whether the message is [complete](Message).
    pub(crate) fn is_complete(&self) -> bool {
        GUESTS && self.complete
    }

    /// Returns the end clock of a writer that the message names.
    pub(crate) fn hi(&self, writer: &WriterId) -> Option<u64> {
        self.delta.hi(writer)
    }

    /// Returns the message as a program sends and receives it that stores no keyed operations.
    pub fn without_keys(&self) -> Message {
        let mut message = self.clone();
        message.without_keys = message.closed;
        message.key_gaps = GuestPart::default();
        message.keyed = GuestPart::default();
        message
    }

    /// Returns a writer of which the message has something, and which no announcement or admission in the
    /// message introduces.
    pub(crate) fn stranger(&self) -> Option<WriterId> {
        let taken_in = |at: u32| {
            self.has_record(at, |statement| {
                matches!(statement, Statement::Announce(_) | Statement::Admit(_))
            })
        };
        let mut named = self.delta.writers.iter().zip(0u32..);
        let stranger = named.find(|(entry, at)| entry.hi > 0 && !taken_in(*at));
        stranger.map(|(entry, _)| entry.writer)
    }

    /// Whether the message says that a writer is a member's. It counts the members of the first configuration
    /// in the message.
    pub(crate) fn states_member(&self, writer: &WriterId) -> bool {
        let is_about =
            |of: &MembershipRecord| self.delta.writers[of.writer as usize].writer == *writer;
        let mut records = self.records().iter();
        let members = records.find_map(|record| match &record.statement {
            Statement::Configuration(_, members) => Some(members),
            _ => None,
        });
        self.records().iter().any(|record| match &record.statement {
            Statement::Announce(it) => {
                is_about(record) && members.is_some_and(|members| members.has(&it.owner))
            }
            _ => false,
        })
    }

    /// Whether the message has everything that its sender had, in a space with members. Such a message can
    /// replace everything that was stored before.
    pub fn is_whole(&self) -> bool {
        self.is_complete() && self.delta.writers.iter().all(|entry| entry.lo == 0)
    }

    /// Whether some of its keys are reserved, so that they name no plain counter. Keys ascend, so the first
    /// one decides.
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

    /// Whether it contains nothing new of any writer.
    pub fn is_empty(&self) -> bool {
        self.delta.is_empty()
    }
}
