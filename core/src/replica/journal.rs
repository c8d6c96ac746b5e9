//! The late return: how a replica that was given up, or that went on from too old a state, comes
//! back under a new writer with what was not taken over from it.
//!
//! In a closed space a replica keeps its own transactions until a member is known to hold them.
//! It comes back from a member's whole state, and makes again those that were not taken over.
//! Adds, sets and resets are made again exactly, and so is the cancelling of its own operations.
//! Of what a cancel saw of others, only what is still told apart can be cancelled now; the rest is
//! not, and is reported: never is more cancelled than was seen.

use super::Replica;
use crate::closed::{Closed, Empty};
use crate::error::{Error, detail};
use crate::membership::records::Configuration;
use crate::once::Once;
use crate::state::counter::{self, Act};
use crate::state::delta::Message;
use crate::state::keys::Handle;
use crate::state::page::OWN;
use crate::state::slot::{Base, Cut, Slot};
use crate::writer_id::WriterId;
use crate::{MEMBERS, Op};
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
pub(super) type Dids = Closed<Vec<Did>>;

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
    pub(super) fn last(&self) -> u64 {
        self.made.last().map_or(self.open, |made| made.0)
    }

    /// The part after a clock.
    pub(super) fn after(&self, clock: u64) -> Journal {
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
    pub(super) fn extend(&mut self, more: &Journal) {
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
    pub(super) fn drop_upto(&mut self, clock: u64) {
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
    pub(super) fn needs_survivors(&self) -> bool {
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

impl Replica {
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
    pub fn held_by_member(&mut self, clock: u64) {
        let own = self.state.clocks[OWN as usize];
        self.journal.drop_upto(clock.min(own));
        // A guest was judged by what it had seen at first. Who does not know it now has forgotten it.
        let card = &mut self.membership.table.cards[OWN as usize];
        if clock > 0 && card.announce.is_none() && card.intro.is_some() {
            card.base = None;
        }
    }

    /// Drops what a sole member has kept: nobody else can end its writer. After a forced change
    /// somebody else may think so too, and only one of them is right.
    pub(crate) fn keep_no_journal_alone(&mut self) {
        let alone = |it: &Configuration| it.era == 0 && it.members.len() == 1;
        if self.membership.is_member() && self.membership.configuration().is_some_and(alone) {
            self.held_by_member(self.clock());
        }
    }

    /// Notes that the space has members from now on.
    pub(super) fn begin_journal(&mut self) {
        self.journal.open = self.clock();
    }

    /// What is left of a writer's transactions, as adds.
    pub(super) fn survivors(&self, writer: u32) -> Vec<Did> {
        let mut survivors = Vec::new();
        for handle in self.state.slots_of(&[writer]) {
            let slots = self.state.slots(handle);
            let sums = counter::sums(&slots, &self.state.writers);
            let own = counter::find(&slots, writer).ok().map(|at| sums[at]);
            let mut rest = own.and_then(|sum| sum.value()).unwrap_or(0);
            let mut first = own.is_some_and(|sum| sum.exists());
            while rest != 0 || core::mem::take(&mut first) {
                let by = rest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                rest -= i128::from(by);
                first = false;
                survivors.push(self.did(handle, Op::Add(by), 0, &slots));
            }
        }
        survivors
    }

    /// Keeps a transaction.
    pub(super) fn keep(&mut self, clock: u64, mut did: Dids) {
        if MEMBERS && !did.is_empty() {
            self.journal.made.push((clock, core::mem::take(&mut *did)));
        }
    }

    /// What an operation did to the slots of a counter; `cut` tells if it cancelled.
    pub(super) fn did(&self, handle: Handle, op: Op, clock: u64, slots: &[Slot]) -> Did {
        let cancels = matches!(op, Op::Reset | Op::Delete | Op::Set(_));
        let own = |cut: &&Cut| cut.by.writer == OWN && cut.by.clock == clock;
        let cuts = slots.iter().filter(|_| cancels);
        let cuts =
            cuts.filter_map(|slot| Some((slot.writer(), slot.side.cut.as_ref().filter(own)?)));
        Did {
            key: self.state.keys.get(handle).unwrap_or_default().into(),
            op,
            saw: cuts
                .map(|(number, cut)| Saw {
                    writer: self.state.writers[number as usize],
                    clock: cut.clock,
                    total: cut.total,
                })
                .collect(),
        }
    }

    /// Drops everything but the keys that are interned, and goes on as `writer`, freshly minted, from
    /// the whole state of another replica. Gives back the own transactions that may not be part of
    /// that state, to be [made again](Replica::make_again) once it is certain which are not. Names
    /// each counter that may have changed.
    ///
    /// # Errors
    /// [`Error::Outdated`] if the message is not a whole state of a closed space,
    /// [`Error::Stranger`] if it has something of a writer that nobody took in, and as
    /// [`merge`](Replica::merge). Nothing is changed then.
    pub fn begin_again(
        &mut self,
        writer: WriterId,
        state: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<Journal, Error> {
        self.begin_again_staged(writer, &[], state, changed)
    }

    /// As [`begin_again`](Replica::begin_again), from a state that came in encoded chunks.
    pub(crate) fn begin_again_staged(
        &mut self,
        writer: WriterId,
        staged: &[Vec<u8>],
        last: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<Journal, Error> {
        if !last.is_complete() || last.writers.iter().any(|entry| entry.lo > 0) {
            return Err(Error::Outdated);
        }
        if let Some(writer) = last.stranger() {
            return Err(Error::Stranger {
                writer: detail(writer),
            });
        }
        let mut fresh = Replica::new(self.state.space.clone(), writer);
        fresh.merge_staged(staged, last, None, &mut |_| ())?;
        if self.membership.configuration().is_none() {
            self.begin_journal();
        }
        let mut journal = core::mem::replace(&mut *self.journal, Journal::EMPTY);
        journal.writer = Some(self.writer());
        if journal.open > 0 {
            journal.survivors = self.survivors(OWN);
        }
        let keyed = self.idempotency.known_keyed(&self.state, &self.membership);
        #[cfg(feature = "budgets")]
        let owner = self
            .membership
            .owner_of(OWN)
            .filter(|_| self.membership.is_member());
        self.clear(writer).into_iter().for_each(&mut *changed);
        self.merge_staged(staged, last, None, changed)?;
        for (before, last, made) in keyed {
            self.idempotency
                .claim_keyed(&self.state, &mut self.membership, before, last, made);
        }
        #[cfg(feature = "budgets")]
        {
            let members = self.membership.configuration();
            self.is_next_start = owner.is_some_and(|it| members.is_some_and(|all| all.has(&it)));
        }
        Ok(journal)
    }

    /// Makes transactions of a former writer again, before any other of this one. `upto` is the last
    /// of its clocks that [was taken over](Replica::taken_over), 0 if none was; `None` if nobody
    /// remembers: then what was published, up to the clock `published`, is left alone and reported
    /// as unknown. Of a writer that began before the space had members, and of which nothing was
    /// taken over, what is left is added.
    pub fn make_again(
        &mut self,
        journal: Journal,
        upto: Option<u64>,
        published: u64,
        changed: &mut dyn FnMut(Handle),
    ) -> Returned {
        // Of what nobody was told nothing counts.
        let upto = upto.or((published == 0).then_some(0));
        if upto == Some(0) && !journal.survivors.is_empty() {
            let before = self.clock();
            let ops = self.transact_again(journal.survivors, None, changed);
            let clock = Some(self.clock()).filter(|clock| *clock > before);
            let was = journal.open;
            let again = Again {
                was,
                clock,
                refused: ops.is_none(),
                ops: ops.unwrap_or_default(),
            };
            return Returned {
                again: Vec::from([again]),
                unknown: None,
            };
        }
        let from = upto.unwrap_or(published);
        let unknown = match upto {
            Some(upto) if upto < journal.open => Some((upto + 1, journal.open)),
            Some(upto) if upto < journal.dropped => Some((upto + 1, journal.dropped)),
            // What was made while the space was open is not told apart.
            None if from > journal.dropped => Some((journal.dropped + 1, from.max(journal.open))),
            _ => None,
        };
        let made = journal.made.into_iter().filter(|made| made.0 > from);
        let again = made.map(|(was, did)| {
            let keyed = journal.keyed.binary_search_by_key(&was, |it| it.0);
            let once = keyed.ok().map(|at| journal.keyed[at].1);
            let before = self.clock();
            let ops = match once.is_some_and(|once| self.idempotency.is_made(&once)) {
                true => Some(Vec::new()), // somebody else took it
                false => self.transact_again(did, once, changed),
            };
            let clock = Some(self.clock()).filter(|clock| *clock > before);
            Again {
                was,
                clock,
                refused: ops.is_none(),
                ops: ops.unwrap_or_default(),
            }
        });
        Returned {
            again: again.collect(),
            unknown,
        }
    }

    /// Makes a transaction again, under its idempotency key if it had one. What can't be done is left
    /// out; but of one that takes more of a budget than is held here nothing is made, and that is `None`.
    fn transact_again(
        &mut self,
        did: Vec<Did>,
        once: Option<Once>,
        changed: &mut dyn FnMut(Handle),
    ) -> Option<Vec<AgainOp>> {
        #[cfg(feature = "budgets")]
        let did = self.flows_again(did)?;
        let Ok(clock) = self.membership.next_clock(&self.state) else {
            return Some(Vec::new());
        };
        let mut drafts = Vec::new();
        let (mut ops, mut again) = (Vec::new(), Dids::default());
        for it in did {
            let Ok(handle) = self.state.keys.find_or_insert(&it.key) else {
                continue;
            };
            let at = self.state.draft_of(&mut drafts, handle);
            let draft = &mut drafts[at];
            let (mut cancels, mut left) = (Vec::new(), 0);
            let base = match it.op {
                Op::Reset => Some(Some(Base::Reset)),
                Op::Set(value) => Some(Some(Base::Set(value))),
                Op::Delete => Some(None),
                Op::Add(_) | Op::Expire(_) | Op::Persist => None,
            };
            #[cfg(feature = "guests")]
            if base.is_some() && self.adds_only {
                continue;
            }
            match base {
                None if self.step(draft, clock, it.op, &mut again).is_err() => {
                    #[cfg(feature = "budgets")]
                    if crate::account::is_reserved(&it.key) {
                        return None; // all parts of it or none
                    }
                    continue;
                }
                None => {}
                Some(base) => {
                    let seen = it.saw.len();
                    cancels = self.cancel_again(&mut draft.slots, it.saw, &self.state.act(clock));
                    left = seen - cancels.len();
                    let own = counter::find(&draft.slots, OWN);
                    let sums = counter::sums(&draft.slots, &self.state.writers);
                    let own_alive = own.is_ok_and(|at| sums[at].is_alive());
                    self.state
                        .act(clock)
                        .cancel_own(&mut draft.slots, base, own_alive);
                    draft.changed = true;
                    again.push(self.did(handle, it.op, clock, &draft.slots));
                }
            }
            changed(handle);
            ops.push(AgainOp {
                key: it.key,
                op: it.op,
                cancels,
                left,
            });
        }
        #[cfg(feature = "members")]
        if let Some(once) = once {
            // It was small enough the first time.
            let _ = self.remember_keyed(clock, (once, None), &drafts);
        }
        for draft in &mut drafts {
            self.commit(clock, draft);
        }
        if once.is_some() {
            self.membership.made(&mut self.state, clock);
        }
        self.keep(clock, again);
        Some(ops)
    }

    /// Cuts what a cancel had seen of others, as far as it is still told apart: not what was absorbed
    /// meanwhile, nor where something absorbed since is folded into.
    fn cancel_again(
        &self,
        slots: &mut [Slot],
        saw: Vec<Saw>,
        act: &Act<'_>,
    ) -> Vec<(WriterId, u64)> {
        let mut cancels = Vec::new();
        let collected = self.membership.horizons().next().is_some();
        for it in saw {
            let Some(number) = self.state.numbers.get(&it.writer) else {
                continue;
            };
            let card = &self.membership.table.cards[number as usize];
            let given_up = card.fence.is_some() || card.retired.is_some();
            if given_up || self.state.clocks[number as usize] < it.clock {
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

#[cfg(test)]
mod tests;
