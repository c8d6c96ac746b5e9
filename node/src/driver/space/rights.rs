//! Writes that wait for rights of a budget, or for room under its cap.

use super::{OpenSpace, Refusal};
use crate::driver::levels::Reply;
use crate::driver::{Operation, OperationError, Release, Transacted, Written};
use crate::handle::Demand;
use crate::metrics::Metrics;
use tallymesh_core::{Error, Once};

/// A write as it was asked for.
pub(in crate::driver) struct Write {
    pub(in crate::driver) ops: Vec<Operation>,
    pub(in crate::driver) once: Option<Once>,
    pub(in crate::driver) demand: Demand,
    pub(in crate::driver) reply: Reply<Written<Transacted>>,
    /// Until when it waits for rights, in milliseconds since the start.
    pub(in crate::driver) until: u64,
}

/// What a write waits for.
struct Shortage {
    /// The budget.
    name: String,
    /// Whether it is room, and not rights.
    room: bool,
    /// How much has to be held here.
    needed: i128,
}

/// A write that waits.
pub(super) struct Short {
    write: Write,
    shortage: Shortage,
}

impl OpenSpace {
    /// Makes a write, or has it wait for rights; what to answer at once if there is nothing to wait for.
    pub(in crate::driver) fn write(
        &mut self,
        now: u64,
        write: Write,
        metrics: &Metrics,
    ) -> Option<Release> {
        let checked = self.check(&write.demand);
        let done = checked.and_then(|()| self.transact(&write.ops, write.once));
        match &done {
            Ok(done) if !done.again => metrics.operations(&write.ops),
            Ok(_) => {}
            Err(refusal) => {
                let short = self
                    .shortage(&write.ops, refusal)
                    .filter(|_| write.until > now);
                if let Some(shortage) = short {
                    self.shorts.push(Short { write, shortage });
                    return None;
                }
            }
        }
        let Write {
            once,
            demand,
            reply,
            ..
        } = write;
        self.reach(now, done, once, &demand, reply)
    }

    /// What is missing here, if a write was refused for that.
    fn shortage(&self, ops: &[Operation], refusal: &Refusal) -> Option<Shortage> {
        let Refusal::Op { index, error, .. } = refusal else {
            return None;
        };
        let (short, room) = match error {
            OperationError::Core(Error::RightsShort(short)) => (short, false),
            OperationError::Core(Error::RoomShort(short)) => (short, true),
            _ => return None,
        };
        let asked = i128::from(short.asked);
        let here = |name: &str| self.held(name, room).unwrap_or(0);
        let name = match &ops.get(*index)? {
            // It was short of room in one of those that it pays into.
            Operation::Transfer { to, .. } if room => {
                let full = to.iter().find(|(name, amount)| {
                    i128::from(*amount) == asked && self.held(name, true).is_some()
                });
                &full?.0
            }
            operation => operation.key(),
        };
        // What operations before it take of the same has to be there, too.
        let needed = asked + here(name) - short.held.here;
        Some(Shortage {
            name: name.to_owned(),
            room,
            needed,
        })
    }

    /// How much of a budget may be used here now.
    fn held(&self, name: &str, room: bool) -> Option<i128> {
        let budget = self.replica.budget(name)?;
        match room {
            true => budget.room.map(|it| it.here),
            false => Some(budget.rights.here),
        }
    }

    /// When what waits for rights has waited for long enough.
    pub(super) fn shorts_due(&self) -> Option<u64> {
        self.shorts.iter().map(|it| it.write.until).min()
    }

    /// Takes the writes for which there is enough by now, or that have waited for long enough.
    pub(in crate::driver) fn take_due_writes(&mut self, now: u64) -> Vec<Write> {
        let mut due = Vec::new();
        for short in std::mem::take(&mut self.shorts) {
            let Shortage { name, room, needed } = &short.shortage;
            let is_there = self.held(name, *room).is_some_and(|held| held >= *needed);
            match is_there || short.write.until <= now {
                true => due.push(short.write),
                false => self.shorts.push(short),
            }
        }
        due
    }
}
