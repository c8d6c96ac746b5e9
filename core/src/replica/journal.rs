//! Rejoin: beginning again under a fresh writer, and making unconfirmed transactions again.
//! [The rules](crate::rejoin) stand with the parts.

use super::{QuotaHooks, Replica};
use crate::closed::Empty;
use crate::error::{Error, detail};
use crate::layers::Quota;
use crate::message::Message;
use crate::message::journal::{Did, Dids, Journal};
use crate::once::Once;
use crate::rejoin::{Again, AgainOp, Returned};
use crate::state::counter;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::state::slot::Base;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// The own clock up to which others may have been told of this replica's transactions while its
    /// owner was no member.
    pub(crate) fn told_as_guest(&self) -> u64 {
        self.rejoin.told_as_guest()
    }

    /// The own clock up to which others may have been told of this replica's transactions.
    pub(crate) fn told_upto(&self) -> u64 {
        self.rejoin.told_upto()
    }

    /// Notes that a member holds this replica's transactions up to `clock` for good.
    pub fn held_by_member(&mut self, clock: u64) {
        self.rejoin
            .held_by_member(&self.state, &mut self.membership, clock)
    }

    /// Drops what a sole member has kept: nobody else can end its writer. After a forced change
    /// somebody else may think so too, and only one of them is right.
    pub(crate) fn keep_no_journal_alone(&mut self) {
        self.rejoin
            .keep_no_journal_alone(&self.state, &mut self.membership)
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
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Journal, Error> {
        self.begin_again_staged(writer, &[], state, changed)
    }

    /// As [`begin_again`](Replica::begin_again), from a state that came in encoded chunks.
    pub(crate) fn begin_again_staged(
        &mut self,
        writer: WriterId,
        staged: &[Vec<u8>],
        last: &Message,
        changed: &mut dyn FnMut(KeyId),
    ) -> Result<Journal, Error> {
        if !last.is_complete() || last.delta.writers.iter().any(|entry| entry.lo > 0) {
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
            self.rejoin.begin_journal(&self.state);
        }
        let mut journal = core::mem::replace(&mut *self.rejoin.journal, Journal::EMPTY);
        journal.writer = Some(self.writer());
        if journal.open > 0 {
            journal.survivors = self.rejoin.survivors(&self.state, OWN);
        }
        let keyed = self.idempotency.known_keyed(&self.state, &self.membership);
        let owner = match self.membership.is_member() {
            true => self.membership.owner_of(OWN),
            false => None,
        };
        self.clear(writer).into_iter().for_each(&mut *changed);
        self.merge_staged(staged, last, None, changed)?;
        for (before, last, made) in keyed {
            self.idempotency
                .claim_keyed(&self.state, &mut self.membership, before, last, made);
        }
        self.quota.begun_again(owner, &self.membership);
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
        changed: &mut dyn FnMut(KeyId),
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
        changed: &mut dyn FnMut(KeyId),
    ) -> Option<Vec<AgainOp>> {
        let did = Quota::made_again(self, did)?;
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
                    if Quota::owns(&self.state, handle) {
                        return None; // all parts of it or none
                    }
                    continue;
                }
                None => {}
                Some(base) => {
                    let seen = it.saw.len();
                    cancels = self.rejoin.cancel_again(
                        &self.state,
                        &self.membership,
                        &mut draft.slots,
                        it.saw,
                        &self.state.act(clock),
                    );
                    left = seen - cancels.len();
                    let own = counter::find(&draft.slots, OWN);
                    let sums = counter::sums(&draft.slots, &self.state.writers);
                    let own_alive = own.is_ok_and(|at| sums[at].is_alive());
                    self.state
                        .act(clock)
                        .cancel_own(&mut draft.slots, base, own_alive);
                    draft.changed = true;
                    again.push(
                        self.rejoin
                            .did(&self.state, handle, it.op, clock, &draft.slots),
                    );
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
        self.rejoin.keep(clock, again);
        Some(ops)
    }
}

#[cfg(test)]
mod tests;
