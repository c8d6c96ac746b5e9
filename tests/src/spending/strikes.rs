//! What happens to one of the members: it is gone for good and taken out, or its process is copied.

use super::Strike;
use super::world::{MEMBERS, NAME, World};
use std::collections::BTreeMap;
use tallymesh_core::{Error, Input, Link, Owner, Replica, WriterId};

/// After so many milliseconds an operator takes a member out by force, if nothing is decided.
const FORCED_MS: u64 = 5_000;
/// After so many milliseconds an operator finds the copy of a process, ends both, and starts one again.
const COPIED_MS: u64 = 3_000;

/// What happened, and what was spent under which writer.
#[derive(Default)]
pub(super) struct Struck {
    /// The process that is gone.
    pub(super) gone: Option<usize>,
    /// When something happened last.
    at: u64,
    /// The writer's clock when it was copied.
    clock: u64,
    /// What could be spent there then.
    held: i128,
    /// The member that was copied, and the writer that both wrote under at first.
    pub(super) copied: Option<(usize, WriterId)>,
    /// Units by writer, process and clock.
    spent: BTreeMap<(WriterId, usize, u64), u64>,
}

impl World {
    /// Notes that a unit was spent by a member's last transaction.
    pub(super) fn note_spent(&mut self, at: usize) {
        if self.plan.strike.is_some() {
            let replica = &self.members[at].replica;
            let place = (replica.writer(), at, replica.clock());
            *self.struck.spent.entry(place).or_default() += 1;
        }
    }

    /// Whether nothing is left to be spent.
    pub(super) fn is_spent(&self) -> bool {
        if self.plan.strike.is_none() {
            return self.figures.spent >= self.plan.minted;
        }
        let happened = self.struck.gone.is_some();
        // Of two that wrote under one writer a part may be lost, of the value or of the rights.
        let none = |replica: &Replica| match self.struck.copied {
            Some(_) => {
                let holders = replica.holders_of(NAME);
                holders.iter().map(|it| it.rights).sum::<i128>() <= 0
            }
            None => replica.budget(NAME).is_some_and(|it| it.value <= 0),
        };
        happened && self.living().all(|(_, it)| none(&it.replica))
    }

    /// Lets it happen, once, and sees to it that members agree on it.
    pub(super) fn strike(&mut self) -> Result<(), String> {
        let due = self.begun + self.plan.trouble_ms / 4;
        if self.begun == 0 || self.now < due {
            return Ok(());
        }
        match self.plan.strike {
            Some(Strike::TakenOut) => self.take_out(),
            Some(Strike::Copied) => match self.struck.copied {
                None => self.copy(),
                Some((at, _))
                    if self.struck.gone.is_none() && self.now > self.struck.at + COPIED_MS =>
                {
                    self.stop(MEMBERS, at)?;
                    self.restart(at)
                }
                Some(_) => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn take_out(&mut self) -> Result<(), String> {
        if self.struck.gone.is_none() {
            let gone = self.random.index(MEMBERS);
            self.stop(gone, (gone + 1) % MEMBERS)?;
        }
        let Some(gone) = self.struck.gone else {
            return Ok(());
        };
        let lost = self.members[gone].owner;
        let by = (gone + 1) % MEMBERS;
        let replica = &mut self.members[by].replica;
        let present = replica.configuration().filter(|it| it.has(&lost));
        let Some(present) = present.filter(|_| replica.is_established()) else {
            return Ok(());
        };
        let left = present.members.iter().filter(|it| **it != lost);
        let left: Vec<Owner> = left.copied().collect();
        let done = match self.now > self.struck.at + FORCED_MS {
            // The other one has started again, and its vote takes both that it knew.
            true => replica.force_members(&left),
            false if replica.proposal().is_some() => return Ok(()),
            false => replica.propose_members(&left),
        };
        match done {
            // Who has just started is none for a while.
            Ok(()) | Err(Error::NotAMember) => self.handle(by, Input::Changed),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A process ends for good, and its clients ask another one.
    fn stop(&mut self, gone: usize, next: usize) -> Result<(), String> {
        self.disconnect(|ends| ends.contains(&gone))?;
        (self.struck.gone, self.struck.at) = (Some(gone), self.now);
        self.members[gone].waiting.clear();
        for client in self.clients.iter_mut().filter(|it| it.at == gone) {
            client.at = next;
            client.due = Some(self.now + 100);
        }
        Ok(())
    }

    /// A process goes on twice: the second one has the memory of the first, and links of its own.
    fn copy(&mut self) -> Result<(), String> {
        let at = self.random.index(MEMBERS);
        let writer = self.members[at].replica.writer();
        let mut copy = self.members[at].clone();
        copy.waiting.clear();
        self.members.push(copy);
        let second = self.members.len() - 1;
        self.copy_clock(at);
        self.struck.copied = Some((at, writer));
        self.struck.at = self.now;
        self.struck.clock = self.members[at].replica.clock();
        self.struck.held = self.members[at]
            .replica
            .budget(NAME)
            .map_or(0, |it| it.rights.here);
        let links = self.links.iter().filter(|it| it.1.contains(&at));
        let links: Vec<Link> = links.map(|it| *it.0).collect();
        for link in links {
            self.handle(second, Input::Disconnected { link })?;
        }
        let clients = self.clients.iter_mut().filter(|it| it.at == at);
        for client in clients.skip(1).step_by(2) {
            client.at = second;
            client.due = Some(self.now + 100);
        }
        Ok(())
    }

    /// Counts what does not count, and how much too much was spent.
    pub(super) fn count_struck(&mut self) -> Result<(), String> {
        let Some((_, first)) = self.living().next() else {
            return Ok(());
        };
        let replica = &first.replica;
        if let Some((at, writer)) = self.struck.copied {
            let clock = self.struck.clock;
            let by = |process: usize| -> u64 {
                let one =
                    |it: &(WriterId, usize, u64)| (it.0, it.1) == (writer, process) && it.2 > clock;
                let spent = self.struck.spent.iter().filter(|it| one(it.0));
                spent.map(|it| it.1).sum()
            };
            let [one, two] = [at, MEMBERS].map(by);
            let over = self.figures.spent.saturating_sub(self.plan.minted);
            let own = self.members[at].replica.writer();
            // What it held then, and what it was given after that, of which each spent some.
            let most = self.struck.held + i128::from(one.max(two));
            if i128::from(over) > most || own == writer {
                return Err(format!(
                    "{over} too much, {one} and {two} under one writer that held {}; {own} now",
                    self.struck.held
                ));
            }
            self.figures.overdrawn = over;
            return Ok(());
        }
        let lost = |((writer, _, clock), _): &(&(WriterId, usize, u64), &u64)| {
            let held = replica.last_of(writer);
            *clock > held.unwrap_or_else(|| replica.vector().get(writer))
        };
        let lost = self.struck.spent.iter().filter(lost).map(|it| it.1).sum();
        self.figures.lost = lost;
        Ok(())
    }
}
