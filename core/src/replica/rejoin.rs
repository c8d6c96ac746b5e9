//! Rejoin: beginning again under a fresh writer, and making unconfirmed transactions again.
//! [The rules](crate::rejoin) stand with the parts.

use super::quota::Quota;
use super::{QuotaHooks, Replica};
use crate::error::{AdmissionError, Error, MemberError, detail};
use crate::message::Message;
use crate::message::journal::{Did, Dids, Journal, Made, Saw};
use crate::once::Once;
use crate::optional::Optional;
use crate::rejoin::{Again, AgainOp, Returned};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::{Draft, Op};
use crate::state::page::OWN;
use crate::state::slot::Assignment;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Going on under a fresh writer after this one was passed over: see [`Replica::rejoin_mut`].
pub struct RejoinMut<'a> {
    pub(super) replica: &'a mut Replica,
}

impl RejoinMut<'_> {
    /// Drops everything but the interned keys, and goes on as `writer`, freshly minted, from the whole state
    /// of another replica. Calls `changed` with each counter that may have changed.
    ///
    /// Returns the own transactions that may be missing in that state. They are [made
    /// again](crate::RejoinMut::make_again) once it is certain which ones are missing.
    ///
    /// # Errors
    /// [`AdmissionError::Outdated`] if the message is not a whole state of a space with members.
    /// [`AdmissionError::Stranger`] if it has records of a writer that no member admitted. The errors of
    /// [`merge`](Replica::merge). After an error, nothing is changed.
    pub fn begin_again(
        &mut self,
        writer: WriterId,
        state: &Message,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Journal, Error> {
        self.begin_again_staged(writer, &[], state, changed)
    }

    /// Like [`begin_again`](crate::RejoinMut::begin_again), from a state that arrived in encoded chunks.
    pub(crate) fn begin_again_staged(
        &mut self,
        writer: WriterId,
        staged: &[Vec<u8>],
        last: &Message,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Journal, Error> {
        check_whole(last)?;
        let mut fresh = Replica::new(self.replica.state.space().clone(), writer);
        fresh.merge_staged(staged, last, None, &mut |_| ())?;
        if self.replica.membership.configuration().is_none() {
            self.replica.rejoin.begin_journal(&self.replica.state);
        }
        let journal = self.replica.rejoin.take_journal(&self.replica.state);
        let keyed = self
            .replica
            .idempotency
            .known_keyed(&self.replica.state, &self.replica.membership);
        let owner = match self.replica.membership.is_member() {
            true => self.replica.membership.owner_of(OWN),
            false => None,
        };
        self.replica
            .clear(writer)
            .into_iter()
            .for_each(&mut *changed);
        self.replica.merge_staged(staged, last, None, changed)?;
        let Replica {
            state,
            membership,
            idempotency,
            quota,
            ..
        } = &mut *self.replica;
        for (before, last, made) in keyed {
            idempotency.claim_keyed(state, membership, before, last, made);
        }
        quota.begun_again(owner, membership);
        Ok(journal)
    }

    /// Makes transactions of an earlier writer again, before any other transaction of this one.
    ///
    /// `upto` is the last of its clocks that [counted](crate::Members::retired_clock), or 0 if none did. It
    /// is `None` if no member has a record of that. Then the transactions up to the clock `published` are not
    /// made again, and are reported as unknown. If a writer began before the space had members and none of
    /// its clocks counted, its surviving amounts are added.
    pub fn make_again(
        &mut self,
        journal: Journal,
        upto: Option<u64>,
        published: u64,
        changed: &mut dyn FnMut(KeyId),
    ) -> Returned {
        // What was just received may be answered between transactions from before and these.
        self.replica.rejoin.separate_adds();
        // Transactions that no peer received do not count.
        let upto = upto.or((published == 0).then_some(0));
        if upto == Some(0) && !journal.survivors.is_empty() {
            let all = Made::one(journal.open, journal.survivors);
            let again = self.make_one_again(all, None, changed);
            return Returned {
                again: Vec::from([again]),
                unknown: None,
            };
        }
        let from = upto.unwrap_or(published);
        let unknown = match upto {
            Some(upto) if upto < journal.open => Some((upto + 1, journal.open)),
            Some(upto) if upto < journal.dropped => Some((upto + 1, journal.dropped)),
            // Transactions of the time when the space was open can't be told apart.
            None if from > journal.dropped => Some((journal.dropped + 1, from.max(journal.open))),
            _ => None,
        };
        // No member has a part of a bundle, unless it says what is not so.
        let unknown = match (unknown, journal.bundled_across(from)) {
            (Some((first, end)), Some(last)) => Some((first, last.max(end))),
            (None, Some(last)) => Some((from + 1, last)),
            (unknown, None) => unknown,
        };
        let made = journal.made.into_iter().filter(|made| made.clock > from);
        let again = made.map(|made| {
            let keyed = journal.keyed.binary_search_by_key(&made.clock, |it| it.0);
            let once = keyed.ok().map(|at| journal.keyed[at].1);
            self.make_one_again(made, once, changed)
        });
        Returned {
            again: again.collect(),
            unknown,
        }
    }

    /// Makes a transaction again, unless another one was made under its key.
    fn make_one_again(
        &mut self,
        made: Made,
        once: Option<Once>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Again {
        let before = self.replica.clock();
        let ops = match once.is_some_and(|once| self.replica.idempotency.is_made(&once)) {
            true => Some(Vec::new()),
            // A guest would otherwise lose what it had added to a counter that has expired by its own clock.
            #[cfg(feature = "guests")]
            false => self.replica.at_sure_time(|replica| {
                RejoinMut { replica }.transact_again(made.did, once, changed)
            }),
            #[cfg(not(feature = "guests"))]
            false => self.transact_again(made.did, once, changed),
        };
        let clock = Some(self.replica.clock()).filter(|clock| *clock > before);
        Again {
            was: made.clock,
            count: made.count,
            clock,
            refused: ops.is_none(),
            ops: ops.unwrap_or_default(),
        }
    }

    /// Makes a transaction again, under its idempotency key if it had one. Operations that fail are left out.
    /// If the transaction takes more of a budget than this replica holds, nothing is made, and it returns
    /// `None`.
    fn transact_again(
        &mut self,
        did: Vec<Did>,
        once: Option<Once>,
        changed: &mut dyn FnMut(KeyId),
    ) -> Option<Vec<AgainOp>> {
        let did = Quota::made_again(self.replica, did)?;
        let Ok(clock) = self.replica.membership.next_clock(&self.replica.state) else {
            return Some(Vec::new());
        };
        let mut drafts = Vec::new();
        let (mut ops, mut again) = (Vec::new(), Dids::default());
        let mut weaker = false;
        for it in did {
            let Ok(key_id) = self.replica.state.key_id(&it.key) else {
                weaker = true;
                continue;
            };
            let at = self.replica.state.draft_of(&mut drafts, key_id);
            #[cfg(feature = "guests")]
            if self.replica.adds_only && matches!(it.op, Op::Reset | Op::Delete | Op::Set(_)) {
                weaker = true;
                continue;
            }
            if it.ends > 0 {
                if let Some(op) = self.end_again(&mut drafts[at], clock, &it, &mut again) {
                    changed(key_id);
                    ops.push(op);
                }
                continue;
            }
            match self.step_again(&mut drafts[at], clock, it, &mut again) {
                Some(op) => {
                    changed(key_id);
                    weaker |= op.left > 0;
                    ops.push(op);
                }
                None if Quota::owns(&self.replica.state, key_id) => return None, // all parts of it or none
                None => weaker = true,
            }
        }
        self.commit_again(clock, once.map(|once| (once, weaker)), drafts);
        self.replica.rejoin.keep(clock, again);
        Some(ops)
    }

    /// Ends an expired counter again in its draft, as an earlier writer ended it. If the counter has expired by now,
    /// this ends all of it. Else it ends the own slot alone, because only this replica had seen these adds, and it
    /// had ended them. `None` if there is nothing left to end.
    fn end_again(
        &mut self,
        draft: &mut Draft,
        clock: u64,
        it: &Did,
        again: &mut Dids,
    ) -> Option<AgainOp> {
        let state = &self.replica.state;
        let (act, slots) = (state.act(clock), &mut draft.slots);
        let expiry = counter::sum(slots, state.ids()).expiry();
        let expired = expiry.filter(|it| state.is_past(Some(*it)));
        let time = it.ends.max(expired.unwrap_or(0));
        let mut ends = act.carry_out(slots, time, expired.is_none());
        if ends == 0 {
            let at = counter::find(slots, OWN).ok()?;
            if !counter::certain_sums(slots, state.ids())[at].is_alive() {
                return None;
            }
            // Too much is undecided for a record.
            act.cancel_own(slots, None, true);
            ends = time;
        }
        draft.changed = true;
        let made = Did {
            ends,
            ..Did::new(&it.key, Op::Delete)
        };
        again.update(|it| it.push(made));
        Some(AgainOp {
            key: it.key.clone(),
            op: Op::Delete,
            cancels: Vec::new(),
            left: 0,
        })
    }

    /// Makes an operation again in the draft of its counter. `None` if it fails.
    fn step_again(
        &mut self,
        draft: &mut Draft,
        clock: u64,
        it: Did,
        again: &mut Dids,
    ) -> Option<AgainOp> {
        let base = match it.op {
            Op::Reset => Some(Assignment::Reset),
            Op::Set(value) => Some(Assignment::Set(value)),
            Op::Delete => None,
            Op::Add(_) | Op::Expire(_) | Op::Persist => {
                self.replica.step(draft, clock, it.op, again).ok()?;
                return Some(AgainOp {
                    key: it.key,
                    op: it.op,
                    cancels: Vec::new(),
                    left: 0,
                });
            }
        };
        let seen = it.saw.len();
        let cancels = self.cancel_again(draft, clock, it.saw, base);
        let Replica { state, rejoin, .. } = &*self.replica;
        let made = rejoin.did(state, draft.key_id, (it.op, 0), clock, &draft.slots);
        again.update(|it| it.push(made));
        Some(AgainOp {
            key: it.key,
            op: it.op,
            left: seen - cancels.len(),
            cancels,
        })
    }

    /// Cancels again what a cancel saw. It may leave an assignment. Returns the writers and clocks that it
    /// cancels.
    fn cancel_again(
        &mut self,
        draft: &mut Draft,
        clock: u64,
        saw: Vec<Saw>,
        base: Option<Assignment>,
    ) -> Vec<(WriterId, u64)> {
        let Replica {
            state,
            membership,
            rejoin,
            ..
        } = &*self.replica;
        let act = state.act(clock);
        let cancels = rejoin.cancel_again(state, membership, &mut draft.slots, saw, &act);
        let own = counter::find(&draft.slots, OWN);
        let sums = counter::certain_sums(&draft.slots, state.ids());
        let own_alive = own.is_ok_and(|at| sums[at].is_alive());
        act.cancel_own(&mut draft.slots, base, own_alive);
        draft.changed = true;
        cancels
    }

    /// Commits the drafts of a transaction that was made again. Beside its idempotency key stands whether it
    /// has less effect now.
    fn commit_again(&mut self, clock: u64, once: Option<(Once, bool)>, mut drafts: Vec<Draft>) {
        #[cfg(feature = "members")]
        if let Some((once, weaker)) = once {
            // It was small enough the first time.
            let _ = self
                .replica
                .remember_keyed(clock, (once, None), &drafts, weaker);
        }
        for draft in &mut drafts {
            self.replica.commit(clock, draft);
        }
        if once.is_some() {
            let Replica {
                state, membership, ..
            } = &mut *self.replica;
            membership.made(state, clock);
        }
    }

    /// Takes over the records of another process of the same owner, which has ended. `left` is the replica
    /// that was [restored](Replica::restore) from its store under a writer that never wrote. Calls `changed`
    /// with each counter that changed.
    ///
    /// Transactions of `left` that may be at no member are made again in time, like those of earlier starts
    /// of this replica. In an open space, everything in `left` is merged. Before this replica sends anything,
    /// its store must have a [snapshot](Replica::snapshot) of the result, and the other store must be gone.
    ///
    /// # Errors
    /// [`MemberError::Closed`] if the space has members in `left` and is open here. Then let the other
    /// replica take over this one, or wait until this one has received the members. The errors of
    /// [`merge`](Replica::merge). After an error, nothing is taken over.
    pub fn take_over(
        &mut self,
        left: &mut Replica,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<(), Error> {
        if self.replica.membership.configuration().is_none() {
            if left.members().configuration().is_some() {
                return Err(MemberError::Closed.into());
            }
            self.replica
                .merge_with(&left.delta(&self.replica.vector()), None, changed)?;
        }
        left.rejoin.note_earlier(&left.state, &left.membership);
        for earlier in left.rejoin.earlier() {
            self.replica
                .rejoin
                .restore_earlier(&self.replica.state, earlier);
        }
        Ok(())
    }
}

/// Checks that a message is a whole state of a space with members.
fn check_whole(message: &Message) -> Result<(), Error> {
    if !message.is_whole() {
        return Err(AdmissionError::Outdated.into());
    }
    match message.stranger() {
        Some(writer) => Err(AdmissionError::Stranger {
            writer: detail(writer),
        }
        .into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
