//! The oracle of budgets: every transaction that was ever made on one, and the values that each view must
//! show.
//!
//! It stores operations, and which replicas have seen them. It has no rights, on purpose. So it can check
//! that no view ever shows a value under the floor or over the cap, however rights move. Each view must show
//! exactly the result of the operations in it.

use crate::oracle::{Dot, OnceId, Takeovers};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::{Flow, Replica, WriterId};

/// The names of the budgets; the last one has a cap.
pub const NAMES: [&str; 3] = ["gift", "till", "seats"];

/// The number of a budget.
pub type Name = usize;

/// A transaction on budgets.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its operations, in order.
    pub flows: Vec<(Name, Flow)>,
    /// The number of its idempotency key.
    pub once: Option<OnceId>,
}

/// The amounts of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Whether the budget exists.
    pub exists: bool,
    /// All minted amounts less all spent amounts.
    pub value: i128,
    /// Its floor.
    pub floor: i128,
    /// Its cap.
    pub cap: i128,
}

/// All transactions on budgets.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    made: BTreeMap<Dot, Made>,
    /// The transactions that were withdrawn, each with the transactions that withdrew it.
    withdrawn: BTreeMap<Dot, Vec<Dot>>,
}

type Vector = BTreeMap<WriterId, u64>;

fn covers(vector: &Vector, dot: &Dot) -> bool {
    vector.get(&dot.0).is_some_and(|clock| *clock >= dot.1)
}

impl Ledger {
    /// Notes a transaction.
    pub fn add(&mut self, dot: Dot, made: Made) {
        self.made.insert(dot, made);
    }

    /// The transaction of this writer and clock, if it was one on budgets.
    pub fn get(&self, dot: &Dot) -> Option<&Made> {
        self.made.get(dot)
    }

    /// Notes that another transaction withdrew this one.
    ///
    /// # Errors
    /// If there is no other transaction under its key.
    pub fn withdraw(&mut self, dot: Dot, by: Dot) -> Result<(), String> {
        let once = self.made.get(&dot).and_then(|it| it.once);
        let others = self
            .made
            .iter()
            .filter(|(other, made)| **other != dot && made.once == once);
        if once.is_none() || others.count() == 0 {
            return Err(format!("{dot:?} is withdrawn, and is the only one"));
        }
        self.withdrawn.entry(dot).or_default().push(by);
        Ok(())
    }

    /// The amounts of each budget in a view with this vector.
    pub fn sums(&self, seen: &Vector) -> [Sums; NAMES.len()] {
        let counts = |dot: &Dot| {
            let mut by = self.withdrawn.get(dot).into_iter().flatten();
            covers(seen, dot) && !by.any(|by| covers(seen, by))
        };
        self.sums_of(&counts)
    }

    fn sums_of(&self, counts: &dyn Fn(&Dot) -> bool) -> [Sums; NAMES.len()] {
        let mut sums = [Sums::default(); NAMES.len()];
        for (_, made) in self.made.iter().filter(|it| counts(it.0)) {
            for (name, flow) in &made.flows {
                sums[*name].add(*flow);
            }
        }
        sums
    }

    /// Compares a replica with the view that it has seen.
    ///
    /// # Errors
    /// The difference, as text.
    pub fn check(&self, seen: &Vector, replica: &Replica) -> Result<(), String> {
        for (name, sums) in NAMES.iter().zip(self.sums(seen)) {
            check_one(name, sums, replica)?;
        }
        Ok(())
    }

    /// Checks a view that no replica has: all transactions that were ever made and may still count, each
    /// keyed operation once.
    ///
    /// # Errors
    /// The violation, as text.
    pub fn check_all(&self, taken: &Takeovers) -> Result<(), String> {
        let mut keys = BTreeSet::new();
        let mut counting = BTreeSet::new();
        for (dot, made) in &self.made {
            let last = taken.ends(&dot.0).max();
            if last.is_some_and(|last| dot.1 > last) {
                continue; // it never counts
            }
            if made.once.is_none_or(|once| keys.insert(once)) {
                counting.insert(*dot);
            }
        }
        let sums = self.sums_of(&|dot| counting.contains(dot));
        for (name, sums) in NAMES.iter().zip(sums) {
            if sums.value < sums.floor {
                return Err(format!("{name} is overdrawn: {sums:?}"));
            }
        }
        Ok(())
    }
}

impl Made {
    /// Whether it changes no value, floor or cap, as a move of rights does.
    pub fn is_void(&self) -> bool {
        let mut sums = [Sums::default(); NAMES.len()];
        for (name, flow) in &self.flows {
            sums[*name].add(*flow);
        }
        let void = |it: &Sums| (it.value, it.floor, it.cap) == (0, 0, 0);
        sums.iter().all(void)
    }
}

impl Sums {
    fn add(&mut self, flow: Flow) {
        self.exists = true;
        match flow {
            Flow::Mint(by) => self.value += i128::from(by),
            Flow::Spend(by) | Flow::SpendLeased { amount: by, .. } => {
                self.value -= i128::from(by);
            }
            Flow::LowerFloor(by) => self.floor -= i128::from(by),
            Flow::RaiseFloor(by) => self.floor += i128::from(by),
            Flow::RaiseCap(by) => self.cap += i128::from(by),
            Flow::LowerCap(by) => self.cap -= i128::from(by),
            Flow::Grant { .. }
            | Flow::GrantRoom { .. }
            | Flow::Lease { .. }
            | Flow::EndLease { .. } => {}
        }
    }
}

fn check_one(name: &str, sums: Sums, replica: &Replica) -> Result<(), String> {
    let Some(budget) = replica.quota().budget(name) else {
        return match sums.exists {
            true => Err(format!("there is no {name}, expected {sums:?}")),
            false => Ok(()),
        };
    };
    let read = Sums {
        exists: true,
        value: budget.value,
        floor: budget.floor,
        cap: budget.cap.unwrap_or(0),
    };
    if read != sums || budget.cap.is_some() != (name == NAMES[NAMES.len() - 1]) {
        return Err(format!("{name} is {budget:?}, expected {sums:?}"));
    }
    let over = budget.cap.is_some_and(|cap| budget.value > cap);
    if budget.value < budget.floor || over {
        return Err(format!("{name} is out of its bounds: {budget:?}"));
    }
    let holders = replica.quota().holders_of(name);
    let rights: i128 = holders.iter().map(|it| it.rights + it.leased).sum();
    let room: i128 = holders.iter().map(|it| it.room).sum();
    let free = budget.cap.map_or(0, |cap| cap - budget.value);
    if rights != budget.value - budget.floor || room != free {
        return Err(format!("{name}: {budget:?} is held as {holders:?}"));
    }
    let leases = replica.quota().leases_of(name);
    match holders.iter().any(|it| it.rights < 0 || it.room < 0)
        || leases.iter().any(|it| it.left < 0)
    {
        true => Err(format!(
            "{name}: somebody holds less than nothing: {holders:?}"
        )),
        false => Ok(()),
    }
}
