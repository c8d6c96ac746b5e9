//! Forgetting writers that were absorbed, and what is remembered of them.

use super::Replica;
use super::collect::Quorum;
use crate::limits::RETURNS_MAX;
use crate::roster::Retired;
use crate::state::delta::Message;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use crate::{DUTIES, MEMBERS};
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
        for (card, _) in self.ended_cards() {
            card.successor()
                .into_iter()
                .for_each(|it| named[it as usize] = true);
        }
        let ended: Vec<u32> = self.ended_cards().map(|it| it.1).collect();
        let mut gone: Vec<(u32, Stamp, u64)> = Vec::new();
        for number in ended {
            let at = number as usize;
            let Some(Retired { to, upto }) = self.roster.cards[at].retired.filter(|_| at > 0)
            else {
                continue;
            };
            let is_kept = to.clock <= kept[to.writer as usize] && upto <= kept[at];
            let free = is_kept && !named[at] && !left[at] && self.is_stable(quorum, to);
            #[cfg(feature = "budgets")]
            let free = free && !self.has_accounts(number);
            match free {
                true => gone.push((number, to, upto)),
                false => self.roster.waiting = true,
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
            let card = core::mem::take(&mut self.roster.cards[*number as usize]);
            if let Some(announce) = card.announce {
                self.take_gone(*to, announce.owner, announce.generation);
            }
        }
        let again = |stamp: &mut Stamp| {
            if let Some(to) = absorption(stamp.writer) {
                *stamp = to;
            }
        };
        self.roster.vouched.retain(|it| !is_gone(it.1));
        let mut renamed = Vec::new();
        for (card, of) in self.roster.cards.iter_mut().zip(0u32..) {
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
            self.roster.changed(number, self.state.epoch);
        }
        if let Some((by, _)) = &mut self.roster.configuration {
            again(by);
        }
        for (_, _, by) in &mut self.roster.gone {
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
        for attached in &mut self.roster.attached {
            attached.seen.retain(|entry| !is_gone(entry.0));
        }
        self.roster.attached.retain(|it| !is_gone(it.writer));
        self.roster.floor.resize(self.state.writers.len(), 0);
        if DUTIES {
            let numbers: Vec<u32> = gone.iter().map(|it| it.0).collect();
            self.forget_keyed(&numbers);
        }
        for (number, to, _) in gone {
            self.forget_clocks(*number, *to);
        }
        let id = |number: u32| self.state.writers[number as usize];
        let remembered = gone.iter().map(|(number, _, upto)| (id(*number), *upto));
        let remembered: Vec<(WriterId, u64)> = remembered.collect();
        match DUTIES {
            true => self.remember_all(remembered),
            false => remembered
                .into_iter()
                .for_each(|it| self.remember(it.0, it.1)),
        }
        self.state.numbers.retain(|number| !is_gone(number));
        if let Some(prospect) = &mut self.roster.prospect {
            prospect.fences.retain(|guest| !is_gone(*guest));
        }
    }

    #[cfg(test)]
    pub(super) fn forget_writer(&mut self, number: u32, to: Stamp, upto: u64) {
        self.forget_writers(&[(number, to, upto)]);
    }

    /// Forgets a writer's clocks and its number.
    fn forget_clocks(&mut self, number: u32, to: Stamp) {
        let at = number as usize;
        self.roster.floor[at] = 0;
        let floor = &mut self.roster.floor[to.writer as usize];
        *floor = to.clock.max(*floor);
        if let Some((_, held)) = &mut self.roster.pending
            && let Some(clock) = held.get_mut(at)
        {
            *clock = 0;
        }
        if let Some(clock) = self.roster.settled.get_mut(at) {
            *clock = 0;
        }
        if let Some(prospect) = &mut self.roster.prospect {
            let held = prospect.held.iter_mut().filter_map(|it| it.get_mut(at));
            let least = prospect.least.get_mut(at).into_iter();
            held.chain(least).for_each(|clock| *clock = 0);
        }
        self.state.clocks[at] = 0;
        self.state.merged_at[at] = 0;
        self.state.note_moved(number);
        self.state.free.push(number);
    }

    /// Remembers up to which clock a forgotten writer was taken over, should it come back.
    pub(super) fn remember(&mut self, writer: WriterId, upto: u64) {
        let roster = &mut *self.roster;
        let returns = &mut roster.returns;
        if let Err(at) = returns.binary_search_by(|entry| entry.0.cmp(&writer)) {
            returns.insert(at, (writer, upto));
            roster.returned.push_back(writer);
            roster.remembered += 1;
        }
        if returns.len() > RETURNS_MAX
            && let Some(oldest) = roster.returned.pop_front()
            && let Ok(at) = returns.binary_search_by(|entry| entry.0.cmp(&oldest))
        {
            returns.remove(at);
            roster.gaps = true;
        }
    }

    /// Remembers writers that are forgotten at once, as [`remember`](Replica::remember) would one after
    /// the other, which moves for each of them all that come after it.
    fn remember_all(&mut self, forgotten: Vec<(WriterId, u64)>) {
        let roster = &mut *self.roster;
        let returns = &roster.returns;
        let is_known = |writer: &WriterId| returns.binary_search_by(|it| it.0.cmp(writer)).is_ok();
        let fresh = forgotten.into_iter().filter(|it| !is_known(&it.0));
        let fresh: Vec<(WriterId, u64)> = fresh.collect();
        roster.returned.extend(fresh.iter().map(|it| it.0));
        roster.remembered += fresh.len() as u64;
        roster.returns.extend(fresh);
        roster.returns.sort_unstable_by_key(|it| it.0);
        let more = roster.returns.len().saturating_sub(RETURNS_MAX);
        if more > 0 {
            let mut oldest: Vec<WriterId> = roster.returned.drain(..more).collect();
            oldest.sort_unstable();
            let is_oldest = |writer: &WriterId| oldest.binary_search(writer).is_ok();
            roster.returns.retain(|it| !is_oldest(&it.0));
            roster.gaps = true;
        }
    }

    /// Remembers what a message says of forgotten writers; whether this replica begins with it to know of
    /// the space's members.
    pub(super) fn take_memory(&mut self, message: &Message, begins: bool) {
        self.roster.gaps = match message.gaps {
            Some(false) => false,
            _ => self.roster.gaps || begins,
        };
        for (writer, upto) in message.returns.iter() {
            if self.state.numbers.get(writer).is_none() {
                self.remember(*writer, *upto);
            }
        }
    }

    /// Tells in what completes a transfer what is remembered of so many forgotten writers, the last ones.
    pub(crate) fn tell_memory(&self, message: &mut Message, most: usize) {
        if MEMBERS && message.is_complete() {
            *message.returns = self.remembered(most as u64);
            let more = self.roster.returned.len() > most;
            message.gaps = Some(self.roster.gaps || more);
        }
    }

    /// Whether it is known of each writer that was forgotten up to which clock it was taken over.
    pub(crate) fn remembers_all(&self) -> bool {
        self.configuration().is_some() && !self.roster.gaps
    }

    /// What is remembered of the writers that were forgotten last, so many, the longest forgotten
    /// first.
    pub(super) fn remembered(&self, last: u64) -> Vec<(WriterId, u64)> {
        let returned = &self.roster.returned;
        let skipped = (returned.len() as u64).saturating_sub(last) as usize;
        let returned = returned.iter().skip(skipped);
        returned
            .filter_map(|writer| Some((*writer, self.taken_over(writer)?)))
            .collect()
    }
}
