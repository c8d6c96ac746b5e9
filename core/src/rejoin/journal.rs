//! The journal of own transactions that no member is known to hold.

use super::Rejoin;
use crate::Configuration;
use crate::Handle;
use crate::MEMBERS;
use crate::Once;
use crate::Op;
use crate::WriterId;
use crate::closed::Empty;
use crate::layers::State;
use crate::membership::Membership;
use crate::rejoin::Closed;
use crate::state::counter;
use crate::state::counter::Act;
use crate::state::page::OWN;
use crate::state::slot::Cut;
use crate::state::slot::Slot;
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
pub(crate) type Dids = Closed<Vec<Did>>;

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

/// A transaction that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its clock under the writer before.
    pub was: u64,
    /// Its clock now; `None` if it comes to nothing by now.
    pub clock: Option<u64>,
    /// Its operations, those too that expired counters had brought about.
    pub ops: Vec<AgainOp>,
    /// Whether it spends of a budget what is not held here, or the writer is no member's any more, who
    /// alone may do anything to budgets: then nothing of it counts.
    pub refused: bool,
}

/// An operation that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgainOp {
    /// The counter.
    pub key: Box<str>,
    /// The operation.
    pub op: Op,
    /// Of a reset, delete or set: the other writers, and up to which clock, whose part of the
    /// counter it cancels.
    pub cancels: Vec<(WriterId, u64)>,
    /// How many writers' parts it had seen and can't cancel any more.
    pub left: usize,
}

/// What a late return came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The transactions that were made again, in order.
    pub again: Vec<Again>,
    /// Transactions of which it is not known whether they count: the first and the last clock under
    /// the writer before.
    pub unknown: Option<(u64, u64)>,
}

impl Rejoin {
    /// The own clock up to which others may have been told of this replica's transactions while its
    /// owner was no member.
    pub(crate) fn told_as_guest(&self) -> u64 {
        self.journal.as_guest
    }

    /// The own clock up to which others may have been told of this replica's transactions.
    pub(crate) fn told_upto(&self) -> u64 {
        self.journal.told
    }

    /// Notes that a member holds this replica's transactions up to `clock` for good.
    pub(crate) fn held_by_member(&mut self, state: &State, members: &mut Membership, clock: u64) {
        let own = state.clocks[OWN as usize];
        self.journal.drop_upto(clock.min(own));
        // A guest was judged by what it had seen at first. Who does not know it now has forgotten it.
        let card = &mut members.table.cards[OWN as usize];
        if clock > 0 && card.announce.is_none() && card.intro.is_some() {
            card.base = None;
        }
    }

    /// Drops what a sole member has kept: nobody else can end its writer. After a forced change
    /// somebody else may think so too, and only one of them is right.
    pub(crate) fn keep_no_journal_alone(&mut self, state: &State, members: &mut Membership) {
        let alone = |it: &Configuration| it.era == 0 && it.members.len() == 1;
        if members.is_member() && members.configuration().is_some_and(alone) {
            self.held_by_member(state, members, state.clock());
        }
    }

    /// Notes that the space has members from now on.
    pub(crate) fn begin_journal(&mut self, state: &State) {
        self.journal.open = state.clock();
    }

    /// What is left of a writer's transactions, as adds.
    pub(crate) fn survivors(&self, state: &State, writer: u32) -> Vec<Did> {
        let mut survivors = Vec::new();
        for handle in state.slots_of(&[writer]) {
            let slots = state.slots(handle);
            let sums = counter::sums(&slots, &state.writers);
            let own = counter::find(&slots, writer).ok().map(|at| sums[at]);
            let mut rest = own.and_then(|sum| sum.value()).unwrap_or(0);
            let mut first = own.is_some_and(|sum| sum.exists());
            while rest != 0 || core::mem::take(&mut first) {
                let by = rest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                rest -= i128::from(by);
                first = false;
                survivors.push(self.did(state, handle, Op::Add(by), 0, &slots));
            }
        }
        survivors
    }

    /// Keeps a transaction.
    pub(crate) fn keep(&mut self, clock: u64, mut did: Dids) {
        if MEMBERS && !did.is_empty() {
            self.journal.made.push((clock, core::mem::take(&mut *did)));
        }
    }

    /// What an operation did to the slots of a counter; `cut` tells if it cancelled.
    pub(crate) fn did(
        &self,
        state: &State,
        handle: Handle,
        op: Op,
        clock: u64,
        slots: &[Slot],
    ) -> Did {
        let cancels = matches!(op, Op::Reset | Op::Delete | Op::Set(_));
        let own = |cut: &&Cut| cut.by.writer == OWN && cut.by.clock == clock;
        let cuts = slots.iter().filter(|_| cancels);
        let cuts =
            cuts.filter_map(|slot| Some((slot.writer(), slot.side.cut.as_ref().filter(own)?)));
        Did {
            key: state.keys.get(handle).unwrap_or_default().into(),
            op,
            saw: cuts
                .map(|(number, cut)| Saw {
                    writer: state.writers[number as usize],
                    clock: cut.clock,
                    total: cut.total,
                })
                .collect(),
        }
    }

    /// Cuts what a cancel had seen of others, as far as it is still told apart: not what was absorbed
    /// meanwhile, nor where something absorbed since is folded into.
    pub(crate) fn cancel_again(
        &self,
        state: &State,
        members: &Membership,
        slots: &mut [Slot],
        saw: Vec<Saw>,
        act: &Act<'_>,
    ) -> Vec<(WriterId, u64)> {
        let mut cancels = Vec::new();
        let collected = members.horizons().next().is_some();
        for it in saw {
            let Some(number) = state.numbers.get(&it.writer) else {
                continue;
            };
            let card = &members.table.cards[number as usize];
            let given_up = card.fence.is_some() || card.retired.is_some();
            if given_up || state.clocks[number as usize] < it.clock {
                continue;
            }
            let later = |slot: &Slot| {
                let moved = slot.side.moved.as_ref();
                moved.is_some_and(|moved| moved.to.writer == number && moved.to.clock > it.clock)
            };
            let has_later = slots.iter().any(later);
            if let Ok(at) = counter::find(slots, number) {
                let slot = &mut slots[at];
                let fold = slot.side.fold.as_ref();
                if has_later || fold.is_some_and(|fold| fold.clock > it.clock) {
                    continue;
                }
                // Where a life began is forgotten when all know: this may be a later one.
                if collected && slot.born() == 0 && slot.row.clock > it.clock {
                    continue;
                }
                if it.clock >= slot.born() && it.clock > slot.cut_clock() {
                    slot.side.cut = Some(Cut {
                        clock: it.clock,
                        total: it.total,
                        by: act.stamp(),
                    });
                }
            }
            cancels.push((it.writer, it.clock));
        }
        cancels
    }
}
