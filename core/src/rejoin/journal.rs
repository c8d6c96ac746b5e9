//! The journal: own transactions that are unconfirmed, with what their cancels saw.

use super::Rejoin;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::message::journal::{Did, Dids, Journal, Saw};
use crate::message::records::Configuration;
#[cfg(feature = "members")]
use crate::once::Once;
use crate::optional::Optional;
use crate::state::counter;
use crate::state::counter::Act;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::state::slot::{Slot, Watermark};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A transaction that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its clock under the writer before. For several transactions that are made again as one, the clock of
    /// the first.
    pub was: u64,
    /// How many transactions it was. More than one if they only added to the same counters, and no peer could
    /// have received one of them without the others.
    pub count: u64,
    /// Its clock now. `None` if none of it has any effect any more.
    pub clock: Option<u64>,
    /// Its operations, including those that expired counters caused.
    pub ops: Vec<AgainOp>,
    /// Whether nothing of it counts. Either it spends more of a budget than is here, or the writer is no
    /// member's any more: only members may change budgets.
    pub refused: bool,
}

/// An operation that was made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgainOp {
    /// The counter.
    pub key: Box<str>,
    /// The operation.
    pub op: Op,
    /// For a reset, delete or set: the other writers whose part of the counter it cancels, each up to a
    /// clock.
    pub cancels: Vec<(WriterId, u64)>,
    /// How many writers' parts it had seen and can't cancel any more.
    pub left: usize,
}

/// The result of a rejoin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The transactions that were made again, in order.
    pub again: Vec<Again>,
    /// Transactions for which nobody remembers whether they count: the first and the last clock under the
    /// writer before.
    pub unknown: Option<(u64, u64)>,
}

impl Rejoin {
    /// The own clock up to which others may have received this replica's transactions while its owner was no
    /// member.
    pub(crate) fn sent_as_guest(&self) -> u64 {
        self.journal.as_guest
    }

    /// The own clock up to which others may have received this replica's transactions.
    pub(crate) fn sent_upto(&self) -> u64 {
        self.journal.told
    }

    /// Notes that a member has this replica's transactions up to `clock`. The journal keeps them while the place of
    /// some start here is not certain. If such a start began from too old a state, all that merged its records rejoin,
    /// this replica and that member among them. A transaction that no other member had received is lost then, unless
    /// it is made again.
    pub(crate) fn confirm(&mut self, state: &State, members: &mut Membership, clock: u64) {
        if !members.has_unsure_start() {
            self.drop_journal(state, clock);
        }
        if clock > 0 {
            members.note_confirmed();
        }
    }

    fn drop_journal(&mut self, state: &State, clock: u64) {
        let own = state.clock_at(OWN);
        self.journal.update(|it| it.drop_upto(clock.min(own)));
    }

    /// Drops the journal of a sole member, because no other replica can end its writer. After a forced change
    /// another replica may also be a sole member, and only one of them is right.
    pub(crate) fn keep_no_journal_alone(&mut self, state: &State, members: &Membership) {
        let alone = |it: &Configuration| it.era == 0 && it.members.len() == 1;
        if members.is_member() && members.configuration().is_some_and(alone) {
            self.drop_journal(state, state.clock());
        }
    }

    /// Notes that the space has members from now on.
    pub(crate) fn begin_journal(&mut self, state: &State) {
        self.journal.update(|it| it.open = state.clock());
    }

    /// Returns the part of a writer's transactions that survives, as adds.
    pub(crate) fn survivors(&self, state: &State, writer: u32) -> Vec<Did> {
        let mut survivors = Vec::new();
        for key_id in state.slots_of(&[writer]) {
            let slots = state.slots(key_id);
            let sums = counter::sums(&slots, state.ids());
            let own = counter::find(&slots, writer).ok().map(|at| sums[at]);
            let mut rest = own.and_then(|sum| sum.value()).unwrap_or(0);
            let mut first = own.is_some_and(|sum| sum.exists());
            while rest != 0 || core::mem::take(&mut first) {
                let by = rest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                rest -= i128::from(by);
                first = false;
                survivors.push(self.did(state, key_id, (Op::Add(by), 0), 0, &slots));
            }
        }
        survivors
    }

    /// Removes and returns the journal of the present writer, which the replica leaves.
    pub(crate) fn take_journal(&mut self, state: &State) -> Journal {
        let mut journal = self.journal.take();
        journal.writer = Some(state.writer());
        if journal.open > 0 {
            journal.survivors = self.survivors(state, OWN);
        }
        journal
    }

    /// Sets whether own transactions are [bundled](crate::message::journal) in the journal: no link leads to a
    /// member.
    pub(crate) fn bundle_adds(&mut self, bundles: bool) {
        self.journal.update(|it| it.set_bundles(bundles));
    }

    /// Has no later transaction bundled with one so far.
    pub(crate) fn separate_adds(&mut self) {
        self.journal.update(Journal::separate);
    }

    /// Stores the key of a transaction.
    #[cfg(feature = "members")]
    pub(crate) fn keep_key(&mut self, clock: u64, once: Once) {
        self.journal.update(|it| it.keyed.push((clock, once)));
    }

    /// Stores a transaction. Its idempotency key, if it has one, is stored before.
    pub(crate) fn keep(&mut self, clock: u64, mut did: Dids) {
        if !did.is_empty() {
            self.journal.update(|it| it.note(clock, did.take()));
        }
    }

    /// Returns the record of an operation on a counter, with the slots that it cancelled if it is a cancel. `ends`
    /// is the time of the end of an expired counter, else 0.
    pub(crate) fn did(
        &self,
        state: &State,
        key_id: KeyId,
        (op, ends): (Op, u64),
        clock: u64,
        slots: &[Slot],
    ) -> Did {
        let cancels = matches!(op, Op::Reset | Op::Delete | Op::Set(_));
        let own =
            |watermark: &&Watermark| watermark.by.writer == OWN && watermark.by.clock == clock;
        let watermarks = slots.iter().filter(|_| cancels);
        let watermarks = watermarks
            .filter_map(|slot| Some((slot.writer(), slot.side.watermark.as_ref().filter(own)?)));
        Did {
            key: state.keys().get(key_id).unwrap_or_default().into(),
            op,
            saw: watermarks
                .map(|(number, watermark)| Saw {
                    writer: state.id(number),
                    clock: watermark.clock,
                    total: watermark.total,
                })
                .collect(),
            ends,
        }
    }

    /// Repeats the watermarks of a cancel as far as other writers' parts can still be distinguished. It skips
    /// slots that were absorbed since, and slots into which an absorbed one was folded since.
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
            let Some(number) = state.number_of(&it.writer) else {
                continue;
            };
            let writer_state = members.writer(number);
            let is_over = writer_state.fence.is_some() || writer_state.retired.is_some();
            if is_over || state.clock_at(number) < it.clock {
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
                // The clock at which a lifetime began is dropped when all have seen it, so this may be a later
                // lifetime.
                if collected && slot.began() == 0 && slot.row.clock > it.clock {
                    continue;
                }
                if it.clock >= slot.began() && it.clock > slot.watermark_clock() {
                    slot.side.watermark = Some(Watermark {
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
