//! Earlier writers of a replica: their unconfirmed transactions are kept until it is certain which of them
//! count, over restarts too.

use super::Rejoin;
use crate::hash::hash_bytes;
use crate::indexed_state::State;
use crate::membership::Membership;
use crate::message::journal::Journal;
use crate::message::records::Intro;
use crate::optional::{Empty, Optional};
use crate::rejoin::EarlierWriter;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The part of the earlier writers that a message for a store carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfEarlier {
    Nothing,
    /// For each writer, the clocks up to which members have its transactions and others may have received
    /// them.
    Clocks,
    All,
}

impl Rejoin {
    /// Returns the record of the present writer, which is about to be an earlier one.
    pub(crate) fn to_leave(
        &self,
        state: &State,
        members: &Membership,
        before: u64,
    ) -> EarlierWriter {
        let writer = state.writer();
        EarlierWriter {
            intro: members.intro(state),
            before,
            unsure: members.is_unsure(state, &writer),
            ..EarlierWriter::new(writer, Journal::EMPTY)
        }
    }

    /// Stores an earlier writer's transactions until it is certain which of them count.
    pub(crate) fn keep_earlier(&mut self, earlier: EarlierWriter) {
        self.earlier.update(|it| it.push(earlier));
    }

    /// Notes that the store was an old copy, because a later start of its owner exists. The transactions of
    /// earlier writers in that copy may have been made again since.
    pub(crate) fn doubt_earlier(&mut self) {
        let earlier = self.earlier.get_mut().into_iter().flatten();
        for earlier in earlier.filter(|it| it.stored) {
            earlier.doubtful = true;
            earlier.journal.told = earlier.last().max(earlier.journal.told);
        }
    }

    /// Restores the stored record of a writer.
    pub(crate) fn restore_earlier(&mut self, state: &State, stored: &EarlierWriter) {
        if stored.writer == state.writer() {
            self.journal.update(|it| it.extend(&stored.journal));
            return;
        }
        let Some(all) = self.earlier.get_mut() else {
            return;
        };
        let known = |it: &EarlierWriter| it.writer == stored.writer;
        let at = match all.iter().rposition(known) {
            Some(at) => {
                let earlier = &mut all[at];
                earlier.intro = stored.intro.or(earlier.intro);
                earlier.journal.extend(&stored.journal);
                at
            }
            None => {
                all.push(stored.clone());
                all.len() - 1
            }
        };
        let earlier = &mut all[at];
        earlier.before = earlier.journal.as_guest;
        earlier.stored = true;
        earlier.doubtful |= stored.doubtful;
        earlier.unsure |= stored.unsure;
    }

    /// Returns the records for a store: the own transactions after this clock, and the part `earlier` of
    /// earlier writers.
    pub(crate) fn to_store(
        &self,
        state: &State,
        members: &Membership,
        after: u64,
        earlier: OfEarlier,
    ) -> Vec<EarlierWriter> {
        let clocks = |it: &EarlierWriter| EarlierWriter {
            intro: it.intro,
            doubtful: it.doubtful,
            ..EarlierWriter::new(it.writer, it.journal.after(u64::MAX))
        };
        let mut all: Vec<EarlierWriter> = match earlier {
            OfEarlier::Nothing => Vec::new(),
            OfEarlier::Clocks => self.earlier.iter().map(clocks).collect(),
            OfEarlier::All => (*self.earlier).clone(),
        };
        let mut journal = self.journal.after(after);
        journal.writer = Some(state.writer());
        if members.configuration().is_none() && state.clock() > after {
            journal.open = state.clock();
        }
        // Members wait also for a writer without transactions, once it was admitted. The process may end
        // before it learns of the admission.
        let taken_in = members.writer(OWN).intro.is_some();
        let waited =
            members.is_early() || taken_in && members.is_waited_for(state, &state.writer());
        let waited = state.clock() == 0 && waited;
        if journal.last() > 0 || journal.dropped > 0 || journal.told > 0 || waited {
            all.push(EarlierWriter::new(state.writer(), journal));
        }
        all
    }

    /// Notes that others may receive everything of the own writer. `member` says whether this replica's owner
    /// is a member.
    pub(crate) fn note_sent(&mut self, state: &State, member: bool) {
        let clock = state.clock();
        if self.journal.told != clock {
            self.journal.update(|it| {
                it.note_sent(clock);
                if !member {
                    it.as_guest = clock;
                }
            });
        }
    }

    /// Notes that others may receive everything of earlier writers that is in this replica's state.
    pub(crate) fn note_earlier_told(&mut self, state: &State) {
        for earlier in self.earlier.get_mut().into_iter().flatten() {
            let (last, held) = (earlier.last(), state.held(&earlier.writer));
            if held >= last {
                earlier.journal.told = last.max(earlier.journal.told);
            }
        }
    }

    /// Returns a number that depends on the clocks of earlier writers. It changes if others may have received
    /// more, if members have more, or if the store turns out to be an old copy.
    pub(crate) fn earlier_clocks(&self) -> u64 {
        let clocks = |it: &EarlierWriter| {
            let clocks = it.journal.told.wrapping_add(it.journal.dropped);
            let clocks = clocks.wrapping_add(u64::from(it.doubtful));
            // Each writer has its own factor, so that a writer that is dropped cannot hide a change of
            // another one.
            clocks.wrapping_mul(hash_bytes(0, it.writer.as_bytes()))
        };
        let earlier = self.earlier.iter().map(clocks);
        earlier.fold(0, u64::wrapping_add)
    }

    /// How many own transactions, under this and earlier writers, are unconfirmed. 0 while the space is open.
    pub(crate) fn unheld(&self, members: &Membership) -> usize {
        // Those from before the space had members were never stored one by one, and count as one.
        let unheld = |it: &Journal| it.len() + usize::from(it.open > 0);
        let earlier = self.earlier.iter().map(|it| unheld(&it.journal));
        match members.configuration() {
            Some(_) => unheld(&self.journal) + earlier.sum::<usize>(),
            None => 0,
        }
    }

    /// Whether a writer is an earlier one of this replica, with transactions that may have to be made again.
    pub(crate) fn is_earlier(&self, writer: &WriterId) -> bool {
        let earlier = self.earlier.iter().find(|it| it.writer == *writer);
        earlier.is_some_and(|it| it.last() > 0)
    }

    /// Notes that a member has earlier writers' transactions up to `clock`. If the place of such a writer is
    /// certain, and that of each start here, it has them for good.
    pub(crate) fn earlier_held(&mut self, members: &Membership, clock: impl Fn(&WriterId) -> u64) {
        if members.has_unsure_start() {
            return;
        }
        for earlier in self.earlier.get_mut().into_iter().flatten() {
            if !earlier.unsure {
                earlier.journal.drop_upto(clock(&earlier.writer));
            }
        }
    }

    /// Drops the transactions of earlier writers that certainly count. It then drops the writers about which
    /// nothing is left to find out. `early` is as for [`Membership::note_early`].
    pub(crate) fn drop_earlier(&mut self, state: &State, members: &Membership, early: bool) {
        for earlier in self.earlier.get_mut().into_iter().flatten() {
            let upto = members.last_of(state, &earlier.writer).unwrap_or(0);
            earlier.journal.drop_upto(upto);
        }
        // A member that admitted such a writer sends the admission before it acknowledges this start.
        let unheard = early || members.is_unsure(state, &state.writer());
        self.take_earlier(|it| {
            it.last() == 0 && !unheard && !members.is_waited_for(state, &it.writer)
        });
    }

    /// Removes and returns some of the earlier writers.
    pub(crate) fn take_earlier(
        &mut self,
        which: impl Fn(&EarlierWriter) -> bool,
    ) -> Vec<EarlierWriter> {
        let taken = self.earlier.iter().map(which);
        let taken: Vec<bool> = taken.collect();
        if !taken.contains(&true) {
            return Vec::new();
        }
        let mut taken = taken.into_iter();
        let all = self.earlier.take().into_iter();
        let (taken, left) = all.partition(|_| taken.next() == Some(true));
        self.earlier.set(left);
        taken
    }

    /// Returns the earlier writers for which members still wait, though no process writes under them any
    /// more. Each comes with its admission.
    pub(crate) fn left_behind(
        &self,
        state: &State,
        members: &Membership,
    ) -> Vec<(WriterId, Option<Intro>)> {
        let waited = |it: &&EarlierWriter| members.is_waited_for(state, &it.writer);
        let earlier = self.earlier.iter().filter(waited);
        earlier.map(|it| (it.writer, it.intro)).collect()
    }

    /// Whether this replica's state has transactions of an earlier writer that certainly do not count. No
    /// member had received anything of that writer when it was declared dead.
    pub(crate) fn state_has_buried(&self, state: &State, members: &Membership) -> bool {
        self.earlier.iter().any(|it| {
            let number = state.number_of(&it.writer);
            let writer_state = number.map(|number| members.writer(number));
            writer_state.is_some_and(|writer_state| writer_state.is_burial())
                && state.held(&it.writer) > 0
        })
    }

    /// The earlier writers whose transactions are not all part of this replica's state.
    pub(crate) fn lost(
        &self,
        state: &State,
        members: &Membership,
    ) -> impl Iterator<Item = &EarlierWriter> {
        self.earlier
            .iter()
            .filter(|it| self.is_lost(state, members, it))
    }

    pub(crate) fn is_lost(
        &self,
        state: &State,
        _members: &Membership,
        earlier: &EarlierWriter,
    ) -> bool {
        earlier.last() > state.held(&earlier.writer)
    }

    /// Removes and returns these writers, so that the caller makes their transactions again.
    /// Writers for which `is_own` is false stay.
    pub(crate) fn take_lost(
        &mut self,
        state: &State,
        is_own: impl Fn(&WriterId) -> bool,
    ) -> Vec<EarlierWriter> {
        self.take_earlier(|it| it.last() > state.held(&it.writer) && is_own(&it.writer))
    }

    /// Notes the admissions of the earlier writers, where this replica has them by now.
    pub(crate) fn note_intros(&mut self, state: &State, members: &Membership) {
        for earlier in self.earlier.get_mut().into_iter().flatten() {
            if let Some(number) = state.number_of(&earlier.writer) {
                let intro = members.intro_of(state, number);
                earlier.intro = intro.or(earlier.intro);
            }
        }
    }

    /// Notes of the earlier writers everything that the present state shows and a later one will not.
    pub(crate) fn note_earlier(&mut self, state: &State, members: &Membership) {
        self.note_intros(state, members);
        for at in 0..self.earlier.len() {
            let earlier = &self.earlier[at];
            let Some(number) = state.number_of(&earlier.writer) else {
                continue;
            };
            let needs = earlier.journal.needs_survivors();
            let survivors = needs.then(|| self.survivors(state, number));
            self.earlier.update(|it| {
                let earlier = &mut it[at];
                if let Some(survivors) = survivors {
                    earlier.journal.survivors = survivors;
                }
                earlier.unsure |= members.writer(number).is_unsure();
            });
        }
    }
}
