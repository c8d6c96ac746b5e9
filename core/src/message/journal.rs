//! The journal's data: own transactions that are unconfirmed, as a store keeps them.

use crate::layers::{Empty, GuestPart};
use crate::message::records::Intro;
use crate::once::Once;
use crate::state::operation::Op;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
/// A cancel saw a writer's slot: up to this clock, at this total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saw {
    pub(crate) writer: WriterId,
    pub(crate) clock: u64,
    pub(crate) total: i128,
}

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Did {
    pub(crate) key: Box<str>,
    pub(crate) op: Op,
    /// Of a cancel, what it cut of others.
    pub(crate) saw: Vec<Saw>,
}

/// What a transaction did, where that is kept.
pub(crate) type Dids = GuestPart<Vec<Did>>;

/// Own transactions of a writer that no member is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    pub(crate) writer: Option<WriterId>,
    /// By clock.
    pub(crate) made: Vec<(u64, Vec<Did>)>,
    /// Which of them were made under an idempotency key, by clock.
    pub(crate) keyed: Vec<(u64, Once)>,
    /// Up to this clock the transactions were dropped.
    pub(crate) dropped: u64,
    /// Up to this clock they were made while the space was open, and never kept.
    pub(crate) open: u64,
    /// Up to this clock others may have been told of them.
    pub(crate) told: u64,
    /// So far, before its owner was a member: without a member nothing can be forgotten.
    pub(crate) as_guest: u64,
    /// What all the own transactions come to, if some were never kept.
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
    /// Whose transactions they are; `None` of a journal that was never used.
    pub fn writer(&self) -> Option<WriterId> {
        self.writer
    }

    /// How many transactions it holds.
    pub fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether it holds no transaction.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// The last transaction that no member is known to hold, 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.made.last().map_or(self.open, |made| made.0)
    }

    /// The part after a clock.
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

    /// Adds the part that follows.
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

    /// Drops what a member holds for good.
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

    /// Whether what it comes to has to be found out as long as the state is there.
    pub(crate) fn needs_survivors(&self) -> bool {
        self.open > 0 && self.survivors.is_empty()
    }
}

/// A former writer, and its transactions that no member is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) writer: WriterId,
    pub(crate) journal: Journal,
    /// Who took it in, if that was heard of; of a member, its own announcement.
    pub(crate) intro: Option<Intro>,
    /// The clock up to which others had been told of it, while its owner was no member, before the link
    /// came up by which this replica began again.
    pub(crate) before: u64,
    /// Whether it was found in the store.
    pub(crate) stored: bool,
    /// Whether that store was an old copy: what is kept here may have been made again meanwhile.
    pub(crate) doubtful: bool,
    /// Whether it was left before its place was certain: what some members took in others may refuse, and
    /// whoever took it in then comes back without it.
    pub(crate) unsure: bool,
}

impl Former {
    /// One that this process knows of itself.
    pub(crate) fn new(writer: WriterId, journal: Journal) -> Former {
        Former {
            writer,
            journal,
            intro: None,
            before: 0,
            stored: false,
            doubtful: false,
            unsure: false,
        }
    }

    /// Its last transaction that may have to be made again.
    pub(crate) fn last(&self) -> u64 {
        self.journal.last()
    }
}
