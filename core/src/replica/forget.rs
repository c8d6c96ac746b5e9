//! Forgetting retired writers: their stamps become their successors', and their numbers are free.

use super::{QuotaHooks, Replica};
use crate::DUTIES;
use crate::layers::Quota;
use crate::membership::stability::Quorum;
use crate::message::records::Retired;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Replica {
    /// Forgets writers that were absorbed and of whom nothing is left.
    pub(super) fn forget(&mut self, quorum: &Quorum, kept: &[u64]) -> bool {
        let mut left = alloc::vec![false; self.state.writers.len()];
        for page in self.state.pages.iter().filter(|page| page.odd.is_some()) {
            for column in page.columns().filter(|column| column.present != 0) {
                left[column.writer as usize] = true;
            }
        }
        let mut named = alloc::vec![false; self.state.writers.len()];
        for (card, _) in self.membership.ended_cards() {
            card.successor()
                .into_iter()
                .for_each(|it| named[it as usize] = true);
        }
        let ended: Vec<u32> = self.membership.ended_cards().map(|it| it.1).collect();
        let mut gone: Vec<(u32, Stamp, u64)> = Vec::new();
        for number in ended {
            let at = number as usize;
            let Some(Retired { to, upto }) =
                self.membership.table.cards[at].retired.filter(|_| at > 0)
            else {
                continue;
            };
            let is_kept = to.clock <= kept[to.writer as usize] && upto <= kept[at];
            let free = is_kept && !named[at] && !left[at] && self.membership.is_stable(quorum, to);
            let free = free && !Quota::keeps(&self.state, number);
            match free {
                true => gone.push((number, to, upto)),
                false => self.membership.table.waiting = true,
            }
        }
        self.forget_writers(&gone);
        !gone.is_empty()
    }

    /// Forgets writers, which ascend and none of which is another one's heir, with the absorption and the
    /// last clock of each; whatever they stamped is stamped by their absorptions from now on.
    pub(super) fn forget_writers(&mut self, gone: &[(u32, Stamp, u64)]) {
        if gone.is_empty() {
            return;
        }
        let absorption = |number: u32| {
            let at = gone.binary_search_by_key(&number, |it| it.0).ok()?;
            Some(gone[at].1)
        };
        let is_gone = |number: u32| absorption(number).is_some();
        for (number, to, _) in gone {
            let card = core::mem::take(&mut self.membership.table.cards[*number as usize]);
            if let Some(announce) = card.announce {
                self.membership
                    .take_gone(*to, announce.owner, announce.generation);
            }
        }
        let again = |stamp: &mut Stamp| {
            if let Some(to) = absorption(stamp.writer) {
                *stamp = to;
            }
        };
        self.membership.table.vouched.retain(|it| !is_gone(it.1));
        let mut renamed = Vec::new();
        for (card, of) in self.membership.table.cards.iter_mut().zip(0u32..) {
            if let Some(base) = &mut card.base
                && base.iter().any(|entry| is_gone(entry.0))
            {
                let left = base.iter().copied().filter(|entry| !is_gone(entry.0));
                let mut left: Vec<(u32, u64)> = left.collect();
                if of == OWN && left.is_empty() {
                    left.push((OWN, 1)); // whoever takes this writer in must not think it saw nothing
                }
                *base = left.into();
            }
            let before = (card.intro, card.home, card.fence);
            for admit in [&mut card.intro, &mut card.home].into_iter().flatten() {
                again(&mut admit.by);
            }
            // The home stays the later one, whatever ranks these have now: who begins from this state
            // tells them apart by that.
            if (card.intro, card.home) != (before.0, before.1)
                && card.intro != card.home
                && let Some(home) = &mut card.home
            {
                home.turn |= 1;
            }
            if let Some(fence) = &mut card.fence {
                again(&mut fence.by);
            }
            if let Some(ack) = &mut card.ack {
                ack.seen.retain(|entry| !is_gone(entry.0));
            }
            if (card.intro, card.home, card.fence) != before {
                renamed.push(of);
            }
        }
        let gone_too = gone.iter().map(|it| it.0);
        for number in renamed.into_iter().chain(gone_too) {
            self.membership.table.changed(number, self.state.epoch);
        }
        if let Some((by, _)) = &mut self.membership.table.configuration {
            again(by);
        }
        for (_, _, by) in &mut self.membership.table.gone {
            again(by);
        }
        for page in &mut self.state.pages {
            for side in page.sides_mut() {
                if let Some(cut) = &mut side.cut {
                    again(&mut cut.by);
                }
                if let Some(lift) = &mut side.lift {
                    again(&mut lift.by);
                }
                for withdrawal in side.withdrawals.iter_mut() {
                    again(&mut withdrawal.by);
                }
            }
            page.others.retain(|column| !is_gone(column.writer));
        }
        for attached in &mut self.membership.table.attached {
            attached.seen.retain(|entry| !is_gone(entry.0));
        }
        self.membership
            .table
            .attached
            .retain(|it| !is_gone(it.writer));
        self.membership
            .table
            .floor
            .resize(self.state.writers.len(), 0);
        if DUTIES {
            let numbers: Vec<u32> = gone.iter().map(|it| it.0).collect();
            self.idempotency
                .forget_keyed(&mut self.membership, &numbers);
        }
        for (number, to, _) in gone {
            self.membership.forget_clocks(&mut self.state, *number, *to);
        }
        let id = |number: u32| self.state.writers[number as usize];
        let remembered = gone.iter().map(|(number, _, upto)| (id(*number), *upto));
        let remembered: Vec<(WriterId, u64)> = remembered.collect();
        match DUTIES {
            true => self.membership.remember_all(remembered),
            false => remembered
                .into_iter()
                .for_each(|it| self.membership.remember(it.0, it.1)),
        }
        self.state.numbers.retain(|number| !is_gone(number));
        if let Some(prospect) = &mut self.membership.table.prospect {
            prospect.fences.retain(|guest| !is_gone(*guest));
        }
    }

    #[cfg(test)]
    pub(super) fn forget_writer(&mut self, number: u32, to: Stamp, upto: u64) {
        self.forget_writers(&[(number, to, upto)]);
    }
}
