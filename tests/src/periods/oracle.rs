//! The bounds on allowed amounts, computed from outside of the members.

use super::World;
use crate::sim::EPOCH_MS;
use std::collections::BTreeMap;
use tallymesh_core::{Configuration, WriterId};

/// A transaction: its writer, and its clock.
pub(super) type Dot = (WriterId, u64);

/// The configurations that took effect, as seen from outside of the members.
#[derive(Default)]
pub(super) struct Decided {
    by_number: BTreeMap<u64, Configuration>,
    /// For each number, the time by which all members had this configuration or a later one.
    known: BTreeMap<u64, u64>,
}

impl Decided {
    fn note(&mut self, it: &Configuration) {
        self.by_number.insert(it.number, it.clone());
    }

    /// The most that may be allowed in a period whose first use was not before `first`.
    fn bound(&self, key: &str, since: u64, first: u64) -> u64 {
        let known = self.known.iter().filter(|it| *it.1 < first);
        let from = known.map(|it| *it.0).max().unwrap_or(0);
        let later = self.by_number.range(from..).map(|it| it.1);
        let of = |it: &Configuration| {
            let limit = it.limit_of(key).filter(|it| it.since == since);
            limit.map_or(0, |it| it.limit)
        };
        later.map(of).max().unwrap_or(0)
    }
}

/// The end, the configuration that the limit began with, and the key, from the name of a period.
fn period_parts(name: &str) -> (u64, u64, &str) {
    let number = |at: usize| u64::from_str_radix(&name[at..at + 16], 16).unwrap_or(0);
    (number(0), number(16), &name[32..])
}

impl World {
    /// Checks that a member's view is within the limits.
    pub(super) fn check(&mut self, at: usize) -> Result<(), String> {
        let replica = &self.nodes[at].replica;
        if replica.forks().fault_count() > 0 {
            let faults: Vec<_> = replica.forks().faults().iter().collect();
            return Err(format!("{at} finds {faults:?}"));
        }
        let own = &mut self.own;
        if let Some(present) = replica.members().configuration()
            && !own.decided.by_number.contains_key(&present.number)
        {
            own.metrics.decided += 1;
            own.decided.note(present);
        }
        let running = self.nodes.iter();
        let numbers = running.map(|it| {
            it.replica
                .members()
                .configuration()
                .map_or(0, |it| it.number)
        });
        let least = numbers.min().unwrap_or(0);
        own.decided
            .known
            .entry(least)
            .or_insert(EPOCH_MS + self.now);
        own.metrics.counters = own.metrics.counters.max(replica.quota().period_counters());
        let clock = self.wall(at);
        let replica = &self.nodes[at].replica;
        let mut shares: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, amount) in replica.quota().period_shares() {
            *shares.entry(name).or_default() += amount;
        }
        let mut rights: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, _, held) in replica.quota().period_rights() {
            if clock < period_parts(name).0 && held < 0 {
                return Err(format!("{at} sees {held} in {name}"));
            }
            *rights.entry(name).or_default() += held;
        }
        for (name, brought) in shares {
            let (most, left) = (self.bound(name), rights.get(name).copied().unwrap_or(0));
            if brought > i128::from(most) || clock < period_parts(name).0 && left > brought {
                return Err(format!(
                    "{at} sees {brought} brought into {name}, of {most}, {left} left"
                ));
            }
        }
        Ok(())
    }

    /// The most that may be allowed in a period.
    fn bound(&self, name: &str) -> u64 {
        let (end, since, key) = period_parts(name);
        let decided = &self.own.decided;
        let period = decided.by_number.values();
        let period = period.filter_map(|it| it.limit_of(key).filter(|it| it.since == since));
        let period = period.map(|it| it.period_ms).next().unwrap_or(0);
        // The fastest clock may be this much ahead of the slowest one.
        let first = end.saturating_sub(period + 2 * self.settings.trouble.skew_ms);
        decided.bound(key, since, first)
    }

    /// Notes an amount that a member has allowed and acknowledged, if all members count it.
    pub(super) fn note_allowed(&mut self, name: String, dot: Dot, cost: u64) -> Result<(), String> {
        if self.own.seen.insert(name.clone()) {
            self.own.metrics.period_count += 1;
        }
        let most = self.bound(&name);
        let (sum, made) = self.own.allowed.entry(name.clone()).or_default();
        *sum += cost;
        made.push((dot, cost));
        if *sum > most && self.own.plan.moves > 0 {
            self.forget_lost(&name);
        }
        let sum = self.own.allowed[&name].0;
        // Transactions that a disk lost when it was put back do not count. This shows later.
        match sum > most && self.settings.trouble.old == 0 {
            true => Err(format!("{cost} is allowed, so {sum} of {most} in {name}")),
            false => Ok(()),
        }
    }

    /// Checks that no more counts than the limits allow.
    pub(super) fn check_counted(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.own.allowed.keys().cloned().collect();
        for name in names {
            self.forget_lost(&name);
            let (sum, most) = (self.own.allowed[&name].0, self.bound(&name));
            if sum > most {
                return Err(format!("{sum} of {most} counts in {name}"));
            }
        }
        Ok(())
    }

    /// Removes amounts that do not count. A member allowed them, and then was taken out or had its disk put
    /// back, before it replicated them.
    fn forget_lost(&mut self, name: &str) {
        let nodes = &self.nodes;
        let is_lost = |(writer, clock): Dot| {
            let ends = nodes
                .iter()
                .filter_map(|it| it.replica.members().final_clock(&writer));
            ends.min().is_some_and(|last| clock > last)
        };
        if let Some((sum, made)) = self.own.allowed.get_mut(name) {
            let lost = made.extract_if(.., |it| is_lost(it.0));
            let lost: u64 = lost.map(|it| it.1).sum();
            *sum -= lost;
            self.own.metrics.uncounted += lost;
        }
    }

    /// The counters of periods that are left. There should be none.
    pub(super) fn is_left(&self, at: usize) -> Option<String> {
        let digest = self.nodes[at].replica.digest();
        for (at, node) in self.nodes.iter().enumerate() {
            // A guest drops a deleted counter once it has the deletion as stable, and this may be later.
            let left = match node.replica.members().is_member() {
                true => node.replica.quota().period_counters(),
                false => node.replica.quota().period_rights().count(),
            };
            if left > 0 || node.replica.digest() != digest {
                let of: Vec<_> = node.replica.quota().period_rights().collect();
                let told = self.tell();
                return Some(format!(
                    "{at} keeps {left} counters of periods: {of:?}; {told}"
                ));
            }
            let parts = node.replica.quota().budget_parts().count();
            if parts > 4 {
                return Some(format!("{at} keeps {parts} reserved counters"));
            }
        }
        None
    }
}
