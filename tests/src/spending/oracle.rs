//! What members may see of the budget, and how much may be spent.

use super::{Dot, NAME, Strike, World};
use tallymesh_core::Replica;

impl World {
    /// Whether what was spent may not count in the end: its process is gone for good, or its disk was put back.
    fn may_be_lost(&self) -> bool {
        self.own.plan.strike.is_some() || self.own.plan.trouble.old > 0
    }

    /// Notes that so many units were spent by a transaction, and a client was told.
    pub(super) fn note_spent(&mut self, dot: Dot, units: u64) -> Result<(), String> {
        self.own.figures.spent += units;
        *self.own.spent.entry(dot).or_default() += units;
        match self.own.figures.spent > self.own.plan.minted && !self.may_be_lost() {
            true => Err("more was spent than there is".into()),
            false => Ok(()),
        }
    }

    /// No view is out of its bounds, and its rights add up.
    pub(super) fn check(&self, at: usize) -> Result<(), String> {
        if self.own.struck.copied.is_some() {
            return Ok(()); // what two copies spend may be too much: it is counted in the end
        }
        let (plan, replica) = (&self.own.plan, &self.nodes[at].replica);
        let Some(budget) = replica.budget(NAME) else {
            return Ok(());
        };
        // Of what is made twice under one key both may be seen; and what was given back may not be.
        let exact = !plan.keyed && plan.given_back == 0 && plan.holders == 0 && !self.may_be_lost();
        let least = i128::from(plan.minted) - i128::from(self.own.taken);
        let least = if exact { least.max(0) } else { 0 };
        let holders = replica.holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights + it.leased).sum();
        let room: i128 = holders.iter().map(|it| it.room).sum();
        let wrong = budget.value < least || budget.value > i128::from(plan.minted);
        let mut each = holders.iter();
        let less = each.any(|it| it.rights.min(it.leased).min(it.room) < 0);
        let left = budget.cap.map_or(0, |cap| cap - budget.value);
        match wrong || less || rights != budget.value || room != left {
            true => Err(format!(
                "{at} sees {budget:?} held as {holders:?}, {:?}",
                self.own.figures
            )),
            false => Ok(()),
        }
    }

    /// Whether nothing is left to be spent.
    pub(super) fn is_spent(&self) -> bool {
        if !self.may_be_lost() {
            return self.own.figures.spent >= self.own.plan.minted;
        }
        let happened = self.own.plan.strike.is_none() || self.own.struck.gone.is_some();
        // Of two that wrote under one writer a part may be lost, of the value or of the rights.
        let none = |replica: &Replica| match self.own.struck.copied {
            Some(_) => {
                let holders = replica.holders_of(NAME);
                holders.iter().map(|it| it.rights).sum::<i128>() <= 0
            }
            None => replica.budget(NAME).is_some_and(|it| it.value <= 0),
        };
        let awaited = self.nodes.iter().filter(|it| !it.is_gone());
        let mut awaited = awaited.map(|it| it.alive && none(&it.replica));
        let troubled = self.troubled && self.own.plan.strike != Some(Strike::TakenOut);
        happened && !troubled && awaited.all(|it| it)
    }

    /// Counts what does not count: what was told to nobody by a process that is gone, or whose disk was put
    /// back.
    pub(super) fn count_lost(&mut self) {
        let Some((_, first)) = self.living().next() else {
            return;
        };
        let replica = &first.replica;
        let lost = |((writer, _, clock), _): &(&Dot, &u64)| {
            let held = replica.last_of(writer);
            *clock > held.unwrap_or_else(|| replica.vector().get(writer))
        };
        let lost = self.own.spent.iter().filter(lost).map(|it| it.1);
        let lost: u64 = lost.sum();
        self.own.figures.lost = if self.may_be_lost() { lost } else { 0 };
    }

    /// Counts how much too much was spent by two copies of a process.
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
        let over = self.own.figures.spent.saturating_sub(self.own.plan.minted);
        let own = self.nodes[at].replica.writer();
        // What it held then, and what it was given after that, of which each spent some.
        let most = struck.held + i128::from(one.max(two));
        if i128::from(over) > most || own == writer {
            return Err(format!(
                "{over} too much, {one} and {two} under one writer that held {}; {own} now",
                struck.held
            ));
        }
        self.own.figures.overdrawn = over;
        Ok(())
    }
}
