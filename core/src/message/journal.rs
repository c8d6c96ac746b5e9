//! The journal's data: own transactions that are unconfirmed, as a store keeps them.
//!
//! This file has the data. [Rejoin](crate::rejoin) has the reason: a replica whose writer was passed over makes
//! these transactions again.
//!
//! # Bundles
//! Peers receive states, and never single transactions. So they hold this writer up to a clock at which
//! something was sent. Transactions between two such clocks count together, or none of them does. So a
//! transaction that only adds may be *bundled* with an earlier one that adds to the same counters, in the same
//! order: if nothing was sent between the two, and nothing else was done to these counters. The bundle is
//! stored as one transaction, and made again as one. This puts an add at an earlier place in the order. Adds
//! commute, so that changes nothing.
//!
//! *Sent* means that a peer may have received it: each input of the sync machine with an open link counts.
//!
//! While no link leads to a member, transactions are bundled. So the journal of a replica that is cut off grows
//! with the counters that it adds to, and not with its adds. A member confirms transactions soon. With a link to
//! one they are bundled only beyond [`APART_MAX`].
//!
//! A transaction under an idempotency key is never bundled, because it may have been made elsewhere, too. The
//! same holds for reserved keys, such as those of budgets: each is made again alone, or refused.
//!
//! No correct member says that it has a part of a bundle. If one does, the rest of it is reported as unknown, and
//! not made again ([`bundled_across`](Journal::bundled_across)).

use crate::hash::hash_bytes;
use crate::message::records::Intro;
use crate::once::Once;
use crate::optional::{Empty, GuestPart};
use crate::reserved::RESERVED;
use crate::sort::sort;
use crate::state::operation::Op;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bundles::{Bundles, Latest};

mod bundles;

/// With more unconfirmed transactions than this, they are bundled also while a link leads to a member: it may
/// carry nothing.
const APART_MAX: usize = 1_024;

/// The journal gives memory back when it has room for more than this many transactions, and uses a quarter of
/// that.
const ROOM_MIN: usize = 1_024;

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
    /// For a delete that is the [end](crate::expired) of an expired counter, its time, else 0. Such an end lists no
    /// slots: members end theirs by the same expiry.
    pub(crate) ends: u64,
}

impl Did {
    /// An operation that is no cancel.
    pub(crate) fn new(key: &str, op: Op) -> Did {
        Did {
            key: key.into(),
            op,
            saw: Vec::new(),
            ends: 0,
        }
    }

    /// The amount of this add with that of another one. `None` if it would leave `i64`, if one of the two is no
    /// add, or if they are of different counters, or of a budget.
    fn sum_with(&self, other: &Did) -> Option<i64> {
        match (self.op, other.op) {
            (Op::Add(one), Op::Add(two))
                if self.key == other.key && !self.key.starts_with(RESERVED) =>
            {
                one.checked_add(two)
            }
            _ => None,
        }
    }
}

fn hash_of(did: &Did) -> u64 {
    hash_bytes(0, did.key.as_bytes())
}

/// The operations of a transaction, where the build stores them.
pub(crate) type Dids = GuestPart<Vec<Did>>;

/// A transaction, or a [bundle](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The clock of the first one.
    pub(crate) clock: u64,
    /// The clock of the last one.
    pub(crate) last: u64,
    /// How many there are.
    pub(crate) count: u64,
    pub(crate) did: Vec<Did>,
}

impl Made {
    /// One transaction.
    pub(crate) fn one(clock: u64, did: Vec<Did>) -> Made {
        Made {
            clock,
            last: clock,
            count: 1,
            did,
        }
    }
}

/// Own transactions of one writer that are unconfirmed: no member is known to have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    pub(crate) writer: Option<WriterId>,
    /// The transactions with their operations, ascending by clock.
    pub(crate) made: Vec<Made>,
    /// Where each bundle ends.
    pub(crate) bundled: Bundles,
    /// Whether transactions are bundled, however few there are.
    pub(crate) bundles: bool,
    /// If they may, the clock in `made` of the last transaction on each counter since something was sent, by
    /// the hash of its key. Counters with one hash share the entry of the last one.
    pub(crate) latest: Latest,
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
        bundled: Bundles::EMPTY,
        bundles: false,
        latest: Latest::EMPTY,
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

    /// How many transactions it has. Each one of a bundle counts.
    pub fn len(&self) -> usize {
        let bundled = self.bundled.after(&self.made, 0);
        let bundled = bundled.filter_map(|(_, clock)| self.find(clock).ok());
        let more = bundled.map(|at| self.made[at].count as usize - 1);
        self.made.len() + more.sum::<usize>()
    }

    /// Whether it has no transaction.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// The clock of the last unconfirmed transaction, 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        let bundled = self.bundled.after(&self.made, 0).next_back();
        let bundled = bundled.map_or(0, |it| it.0);
        let made = self.made.last().map_or(self.open, |made| made.clock);
        made.max(bundled)
    }

    /// The place in `made` of a transaction, by its first clock.
    fn find(&self, clock: u64) -> Result<usize, usize> {
        bundles::find(&self.made, clock)
    }

    fn is_keyed(&self, clock: u64) -> bool {
        self.keyed.binary_search_by_key(&clock, |it| it.0).is_ok()
    }

    /// Adds a transaction, the last one. It is [bundled](self) with an earlier one if it can be.
    pub(crate) fn note(&mut self, clock: u64, did: Vec<Did>) {
        if !self.bundles && self.made.len() < APART_MAX {
            self.separate();
        } else {
            if self.bundle(clock, &did).is_some() {
                return;
            }
            for it in &did {
                self.latest.insert(hash_of(it), clock);
            }
        }
        self.made.push(Made::one(clock, did));
    }

    fn bundle(&mut self, clock: u64, did: &[Did]) -> Option<()> {
        let (one, others) = did.split_first()?;
        let first = self.latest.get(hash_of(one))?;
        let is_latest = |it: &Did| self.latest.get(hash_of(it)) == Some(first);
        if self.is_keyed(clock) || self.is_keyed(first) || !others.iter().all(is_latest) {
            return None;
        }
        let at = self.find(first).ok()?;
        let made = &mut self.made[at];
        if made.did.len() != did.len() {
            return None;
        }
        // All of them fit, or none is changed.
        for (it, other) in made.did.iter().zip(did) {
            it.sum_with(other)?;
        }
        for (it, other) in made.did.iter_mut().zip(did) {
            it.op = Op::Add(it.sum_with(other)?);
        }
        (made.last, made.count) = (clock, made.count + 1);
        self.bundled.push(&self.made, clock, first);
        Some(())
    }

    /// Sets whether transactions are bundled from now on. None is bundled with one from before.
    pub(crate) fn set_bundles(&mut self, bundles: bool) {
        if self.bundles != bundles {
            self.bundles = bundles;
            self.latest.clear();
        }
    }

    /// Has no later transaction bundled with one so far, because something may be sent in between.
    pub(crate) fn separate(&mut self) {
        self.latest.clear();
    }

    /// Notes that others may receive all transactions up to this clock.
    pub(crate) fn note_sent(&mut self, clock: u64) {
        self.told = clock;
        self.separate();
    }

    /// The first clocks of the bundles that begin before a clock, or at it, and end after it.
    fn across(&self, clock: u64) -> Vec<u64> {
        let bundled = self.bundled.after(&self.made, clock).map(|it| it.1);
        let mut across: Vec<u64> = bundled.filter(|first| *first <= clock).collect();
        sort(&mut across);
        across
    }

    /// The last clock of a bundle with transactions up to this clock and after it.
    /// `None` if there are none.
    pub(crate) fn bundled_across(&self, clock: u64) -> Option<u64> {
        let mut bundled = self.bundled.after(&self.made, clock).rev();
        bundled.find(|it| it.1 <= clock).map(|it| it.0)
    }

    /// Returns the part after a clock. Bundles that end after it are in it.
    pub(crate) fn after(&self, clock: u64) -> Journal {
        let from = self.made.partition_point(|made| made.clock <= clock);
        let across = self.across(clock);
        let across = across.iter().filter_map(|first| self.find(*first).ok());
        let across = across.map(|at| &self.made[at]);
        let mut part = Journal {
            writer: self.writer,
            keyed: self.keyed[self.keyed.partition_point(|it| it.0 <= clock)..].to_vec(),
            dropped: self.dropped,
            open: self.open,
            told: self.told,
            as_guest: self.as_guest,
            ..Journal::EMPTY
        };
        part.set_made(across.chain(&self.made[from..]).cloned().collect());
        part
    }

    /// Sets the transactions, ascending by clock.
    pub(crate) fn set_made(&mut self, made: Vec<Made>) {
        self.bundled = Bundles::of(&made);
        self.made = made;
    }

    /// Appends the part that follows. It may have a bundle of this one again, with more transactions.
    pub(crate) fn extend(&mut self, more: &Journal) {
        let end = self.made.last().map_or(0, |made| made.clock);
        let mut new = Vec::new();
        for made in &more.made {
            match self.find(made.clock) {
                Ok(at) if self.made[at].last < made.last => self.made[at].clone_from(made),
                Err(_) if made.clock > end => self.made.push(made.clone()),
                _ => continue,
            }
            new.push(made);
        }
        self.bundled.extend(new.into_iter());
        // A record that no store wrote may have keys of other transactions.
        let end = self.keyed.last().map_or(end, |keyed| keyed.0.max(end));
        self.keyed
            .extend(more.keyed.iter().filter(|keyed| keyed.0 > end));
        self.open = self.open.max(more.open);
        self.told = self.told.max(more.told);
        self.as_guest = self.as_guest.max(more.as_guest);
        self.survivors.extend_from_slice(&more.survivors);
        self.drop_upto(more.dropped);
    }

    /// Drops the transactions up to a clock, because a member has them durably. No member has a part of a
    /// bundle.
    pub(crate) fn drop_upto(&mut self, clock: u64) {
        let held = self.made.partition_point(|made| made.clock <= clock);
        if held > 0 {
            let across = self.across(clock);
            let mut at = 0;
            self.made.retain(|made| {
                at += 1;
                at > held || across.binary_search(&made.clock).is_ok()
            });
            self.bundled.drop_upto(clock);
            if self.made.capacity() > ROOM_MIN && self.made.len() < self.made.capacity() / 4 {
                self.made.shrink_to_fit();
            }
        }
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
