//! The bounds on the members' views of the budget, and on the units that are spent.

use super::{Dot, NAME, Strike, World};
use tallymesh_core::Replica;

impl World {
    /// Whether acknowledged spends may not count in the end, because a process is gone for good or a disk was
    /// put back.
    fn may_be_lost(&self) -> bool {
        let strikes = self
            .own
            .plan
            .strike
            .is_some_and(|it| it != Strike::DiskCopied);
        strikes || self.own.plan.trouble.old > 0
    }

    /// Notes units that a transaction spent and that were acknowledged.
    pub(super) fn note_spent(&mut self, dot: Dot, units: u64) -> Result<(), String> {
        self.own.metrics.spent += units;
        *self.own.spent.entry(dot).or_default() += units;
        match self.own.metrics.spent > self.own.plan.minted && !self.may_be_lost() {
            true => Err("more was spent than there is".into()),
            false => Ok(()),
        }
    }

    /// Checks that a view is within its bounds, and that its rights add up.
    pub(super) fn check(&self, at: usize) -> Result<(), String> {
        if self.own.struck.copied.is_some() {
            return Ok(()); // two copies may overspend, which is counted at the end
        }
        let (plan, replica) = (&self.own.plan, &self.nodes[at].replica);
        let Some(budget) = replica.quota().budget(NAME) else {
            return Ok(());
        };
        // A view may see both duplicates of one key, and may miss a unit that was given back.
        let exact = !plan.keyed && plan.given_back == 0 && plan.holders == 0 && !self.may_be_lost();
        let least = i128::from(plan.minted) - i128::from(self.own.taken);
        let least = if exact { least.max(0) } else { 0 };
        let holders = replica.quota().holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights + it.leased).sum();
        let room: i128 = holders.iter().map(|it| it.room).sum();
        let wrong = budget.value < least || budget.value > i128::from(plan.minted);
        let mut each = holders.iter();
        let less = each.any(|it| it.rights.min(it.leased).min(it.room) < 0);
        let left = budget.cap.map_or(0, |cap| cap - budget.value);
        match wrong || less || rights != budget.value || room != left {
            true => Err(format!(
                "{at} sees {budget:?} held as {holders:?}, {:?}",
                self.own.metrics
            )),
            false => Ok(()),
        }
    }

    /// Whether nothing is left to be spent.
    pub(super) fn is_spent(&self) -> bool {
        let happened = self.own.plan.strike.is_none() || self.own.struck.gone.is_some();
        if !self.may_be_lost() {
            let waits = self.own.plan.strike.is_some() && (self.troubled || !happened);
            return self.own.metrics.spent >= self.own.plan.minted && !waits;
        }
        // After two processes wrote under one writer, a part of the value or of the rights may be lost.
        let none = |replica: &Replica| match self.own.struck.copied {
            Some(_) => {
                let holders = replica.quota().holders_of(NAME);
                holders.iter().map(|it| it.rights).sum::<i128>() <= 0
            }
            None => replica.quota().budget(NAME).is_some_and(|it| it.value <= 0),
        };
        let awaited = self.nodes.iter().filter(|it| !it.is_gone());
        let mut awaited = awaited.map(|it| it.alive && none(&it.replica));
        let troubled = self.troubled && self.own.plan.strike != Some(Strike::TakenOut);
        happened && !troubled && awaited.all(|it| it)
    }

    /// Counts the lost units. Their process had replicated them to no other member before it was gone or its
    /// disk was put back.
    pub(super) fn count_lost(&mut self) {
        let Some((_, first)) = self.living().next() else {
            return;
        };
        let replica = &first.replica;
        let lost = |((writer, _, clock), _): &(&Dot, &u64)| {
            let held = replica.members().final_clock(writer);
            *clock > held.unwrap_or_else(|| replica.vector().get(writer))
        };
        let lost = self.own.spent.iter().filter(lost).map(|it| it.1);
        let lost: u64 = lost.sum();
        self.own.metrics.lost = if self.may_be_lost() { lost } else { 0 };
    }

    /// Counts the units beyond the amount that there was, spent by two copies of a process.
    pub(super) fn count_overdrawn(&mut self) -> Result<(), String> {
        let struck = &self.own.struck;
        let Some((at, second, writer)) = struck.copied else {
            return Ok(());
        };
        let by = |process: usize| -> u64 {
            let one = |it: &Dot| (it.0, it.1) == (writer, process) && it.2 > struck.clock;
            let spent = self.own.spent.iter().filter(|it| one(it.0));
            spent.map(|it| it.1).sum()
        };
        let [one, two] = [at, second].map(by);
        let over = self.own.metrics.spent.saturating_sub(self.own.plan.minted);
        let own = self.nodes[at].replica.writer();
        // The rights at the time of the copy, and the rights that came after it. Each copy spent some of
        // these.
        let most = struck.held + i128::from(one.max(two));
        if i128::from(over) > most || own == writer {
            return Err(format!(
                "{over} too much, {one} and {two} under one writer that held {}; {own} now",
                struck.held
            ));
        }
        self.own.metrics.overdrawn = over;
        Ok(())
    }
}
