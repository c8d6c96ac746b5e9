//! Forgetting retired writers: their stamps become their successors', and their numbers are free.

use super::quota::Quota;
use super::{QuotaHooks, Replica};
use crate::membership::stability::Quorum;
use crate::message::records::Retired;
use crate::optional::MEMBERS;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// Forgets writers that were retired and have nothing left.
    pub(super) fn forget(&mut self, quorum: &Quorum, stored: &[u64]) -> bool {
        let left = self.state.owners_in_odd_pages();
        let mut named = alloc::vec![false; self.state.ids().len()];
        for (writer_state, _) in self.membership.ended_states() {
            writer_state
                .successor()
                .into_iter()
                .for_each(|it| named[it as usize] = true);
        }
        let ended: Vec<u32> = self.membership.ended_states().map(|it| it.1).collect();
        let mut gone: Vec<(u32, Stamp, u64)> = Vec::new();
        for number in ended {
            let at = number as usize;
            let Some(Retired { to, upto }) =
                self.membership.writer(number).retired.filter(|_| at > 0)
            else {
                continue;
            };
            let is_stored = to.clock <= stored[to.writer as usize] && upto <= stored[at];
            let free =
                is_stored && !named[at] && !left[at] && self.membership.is_stable(quorum, to);
            let free = free && !Quota::keeps(&self.state, number);
            match free {
                true => gone.push((number, to, upto)),
                false => self.membership.note_waiting(true),
            }
        }
        self.forget_writers(&gone);
        !gone.is_empty()
    }

    /// Forgets writers, which ascend, each with the stamp of its retirement and its last clock. None of them
    /// is the successor of another one. Their stamps become those of their retirements.
    pub(super) fn forget_writers(&mut self, gone: &[(u32, Stamp, u64)]) {
        if gone.is_empty() {
            return;
        }
        self.membership.forget_writers(&self.state, gone);
        if MEMBERS {
            let numbers: Vec<u32> = gone.iter().map(|it| it.0).collect();
            self.idempotency
                .forget_keyed(&mut self.membership, &numbers);
        }
        for (number, to, _) in gone {
            self.membership.forget_clocks(*number, *to);
        }
        let id = |number: u32| self.state.id(number);
        let remembered = gone.iter().map(|(number, _, upto)| (id(*number), *upto));
        let remembered: Vec<(WriterId, u64)> = remembered.collect();
        match MEMBERS {
            true => self.membership.remember_all(remembered),
            false => remembered
                .into_iter()
                .for_each(|it| self.membership.remember(it.0, it.1)),
        }
        self.state.forget(gone);
    }

    #[cfg(test)]
    pub(crate) fn forget_writer(&mut self, number: u32, to: Stamp, upto: u64) {
        self.forget_writers(&[(number, to, upto)]);
    }
}
