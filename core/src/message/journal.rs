//! The journal's data: own transactions that are unconfirmed, as a store keeps them.

use crate::layers::{Empty, GuestPart};
use crate::message::records::Intro;
use crate::once::Once;
use crate::state::operation::Op;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
/// One writer's slot as a cancel saw it: up to this clock, with this total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saw {
    pub(crate) writer: WriterId,
    pub(crate) clock: u64,
    pub(crate) total: i128,
}

/// One operation of a transaction, with its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Did {
    pub(crate) key: Box<str>,
    pub(crate) op: Op,
    /// For a cancel, the slots of other writers that it cancelled.
    pub(crate) saw: Vec<Saw>,
}

/// The operations of a transaction, where the build stores them.
pub(crate) type Dids = GuestPart<Vec<Did>>;

/// Own transactions of one writer that are unconfirmed: no member is known to have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    pub(crate) writer: Option<WriterId>,
    /// The transactions with their operations, ascending by clock.
    pub(crate) made: Vec<(u64, Vec<Did>)>,
    /// The idempotency keys of transactions that were made under one, ascending by clock.
    pub(crate) keyed: Vec<(u64, Once)>,
    /// Up to this clock the transactions were dropped.
    pub(crate) dropped: u64,
    /// Up to this clock the transactions were made while the space was open, and never stored.
    pub(crate) open: u64,
    /// Up to this clock other replicas may have received the transactions.
    pub(crate) told: u64,
    /// Up to this clock they received them before its owner was a member. Nothing can be forgotten without a
    /// member.
    pub(crate) as_guest: u64,
    /// The sum of all own transactions, as operations, if some were never stored.
    pub(crate) survivors: Vec<Did>,
}

impl Empty for Journal {
    const EMPTY: Journal = Journal {
        writer: None,
        made: Vec::new(),
        keyed: Vec::new(),
        dropped: 0,
        open: 0,
        told: 0,
        as_guest: 0,
        survivors: Vec::new(),
    };
    const NOTHING: &'static Journal = &Journal::EMPTY;
}

impl Journal {
    /// The writer of the transactions. `None` if the journal was never used.
    pub fn writer(&self) -> Option<WriterId> {
        self.writer
    }

    /// How many transactions it has.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether it has no transaction.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// The clock of the last unconfirmed transaction, 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.made.last().map_or(self.open, |made| made.0)
    }

    /// Returns the part after a clock.
    pub(crate) fn after(&self, clock: u64) -> Journal {
        let from = self.made.partition_point(|made| made.0 <= clock);
        Journal {
            writer: self.writer,
            made: self.made[from..].to_vec(),
            keyed: self.keyed[self.keyed.partition_point(|it| it.0 <= clock)..].to_vec(),
            dropped: self.dropped,
            open: self.open,
            told: self.told,
            as_guest: self.as_guest,
            survivors: Vec::new(),
        }
    }

    /// Appends the part that follows.
    pub(crate) fn extend(&mut self, more: &Journal) {
        let last = self.made.last().map_or(0, |made| made.0);
        let new = more.made.iter().filter(|made| made.0 > last);
        self.made.extend(new.cloned());
        // A record that no store wrote may have keys of other transactions.
        let last = self.keyed.last().map_or(last, |keyed| keyed.0.max(last));
        self.keyed
            .extend(more.keyed.iter().filter(|keyed| keyed.0 > last));
        self.open = self.open.max(more.open);
        self.told = self.told.max(more.told);
        self.as_guest = self.as_guest.max(more.as_guest);
        self.survivors.extend_from_slice(&more.survivors);
        self.drop_upto(more.dropped);
    }

    /// Drops the transactions up to a clock, because a member has them durably.
    pub(crate) fn drop_upto(&mut self, clock: u64) {
        let held = self.made.partition_point(|made| made.0 <= clock);
        self.made.drain(..held);
        let held = self.keyed.partition_point(|it| it.0 <= clock);
        self.keyed.drain(..held);
        self.dropped = self.dropped.max(clock);
        if clock >= self.open {
            self.open = 0;
        }
    }

    /// Whether the sum of the transactions has to be computed while the state still exists.
    pub(crate) fn needs_survivors(&self) -> bool {
        self.open > 0 && self.survivors.is_empty()
    }
}

/// An earlier writer of this owner, with its unconfirmed transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EarlierWriter {
    pub(crate) writer: WriterId,
    pub(crate) journal: Journal,
    /// The admission of the writer, if this replica received it. For a member's writer, its own announcement.
    pub(crate) intro: Option<Intro>,
    /// Up to this clock other replicas had received it while its owner was no member. The clock is that
    /// before the link came up by which this replica began again.
    pub(crate) before: u64,
    /// Whether it was found in the store.
    pub(crate) stored: bool,
    /// Whether that store was an old copy. The transactions here may have been made again since the copy.
    pub(crate) doubtful: bool,
    /// Whether the replica left this writer before its place was certain. Some members may have accepted
    /// transactions that others reject, and a member that accepted them then rejoins without them.
    pub(crate) unsure: bool,
}

impl EarlierWriter {
    /// An earlier writer of this process.
    pub(crate) fn new(writer: WriterId, journal: Journal) -> EarlierWriter {
        EarlierWriter {
            writer,
            journal,
            intro: None,
            before: 0,
            stored: false,
            doubtful: false,
            unsure: false,
        }
    }

    /// The clock of its last transaction that may have to be made again.
    pub(crate) fn last(&self) -> u64 {
        self.journal.last()
    }
}

#[cfg(test)]
mod tests;
