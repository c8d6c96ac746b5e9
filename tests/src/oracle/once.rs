//! Transactions under idempotency keys. One of each key must count.

use super::{Dot, Issued, Key, Kind, OpId, Oracle, Seen, View};
use tallymesh_core::{KeyStatus, Once, Replica, WriterId};

/// The number of an idempotency key. It always asks for the same operations.
pub type OnceId = usize;

/// The key of this number.
pub fn once(number: OnceId) -> Once {
    Once::new(&number.to_le_bytes(), b"the same")
}

impl Oracle {
    /// Compares a replica's answer about a key with its view: whether it has a transaction under the key.
    /// Returns whether the operation has to be made.
    ///
    /// # Errors
    /// The replica's answer, if it is wrong.
    pub fn ask(&self, view: &View, replica: &Replica, number: OnceId) -> Result<bool, String> {
        let asked = replica.keyed().lookup(&once(number));
        let seen = |(writer, clock): Dot| {
            let held = view.vector.get(&writer).copied().unwrap_or(0);
            held >= clock && self.keyed.get(&(writer, clock)) == Some(&number)
        };
        match asked {
            // The transaction may have come through a page, which sends no keys.
            KeyStatus::New if replica.keyed().has_gaps() || !self.is_seen(view, number) => Ok(true),
            KeyStatus::Before(Some(dot)) if seen(dot) => Ok(false),
            // The replica may no longer have its maker, or the transaction may wait to be replayed.
            KeyStatus::Before(None) => Ok(false),
            asked => Err(format!("key {number} is {asked:?}")),
        }
    }

    /// Notes that the next transaction is made under a key.
    pub fn key(&mut self, dot: Dot, number: OnceId) {
        self.keyed.insert(dot, number);
    }

    /// Whether the view contains a transaction of the key.
    pub(super) fn is_seen(&self, view: &View, number: OnceId) -> bool {
        self.instances(view, number).next().is_some()
    }

    /// The transactions of a key in the view.
    fn instances(&self, view: &View, number: OnceId) -> impl Iterator<Item = Dot> {
        let of_key = self.keyed.iter().filter(move |(_, it)| **it == number);
        let held = |writer: &WriterId| view.vector.get(writer).copied().unwrap_or(0);
        of_key
            .map(|(dot, _)| *dot)
            .filter(move |(writer, clock)| held(writer) >= *clock)
    }

    /// The adds that a transaction made on a counter.
    fn adds(&self, dot: Dot, key: Key) -> Seen {
        let mut adds = Seen::default();
        let ops = self.stamps.get(&dot).cloned().unwrap_or_default();
        let add =
            |id: &OpId| self.ops[*id].key == key && matches!(self.ops[*id].kind, Kind::Add(_));
        ops.filter(add).for_each(|id| adds.insert(id));
        adds
    }

    /// Adds a transaction of the replica of `view` that withdraws the adds of earlier transactions, each on
    /// one counter.
    ///
    /// # Errors
    /// If one of the withdrawn transactions has no other one of its key, or has no add on that counter.
    pub fn withdraw(
        &mut self,
        view: &mut View,
        (writer, clock): Dot,
        withdrawn: &[(String, Dot)],
    ) -> Result<(), String> {
        let first = self.ops.len();
        view.vector.insert(writer, clock);
        for (name, dot) in withdrawn {
            let key = self.number(name).ok_or("an unknown counter")?;
            let number = self.keyed.get(dot).copied();
            let number = number.ok_or_else(|| format!("{dot:?} has no idempotency key"))?;
            let others = self.instances(view, number).filter(|other| other != dot);
            if others.count() == 0 {
                return Err(format!(
                    "{dot:?} of key {number} is withdrawn and is the only one"
                ));
            }
            let withdraws = self.adds(*dot, key);
            if withdraws.is_empty() {
                return Err(format!("{dot:?} added nothing to {name}"));
            }
            let id = self.ops.len();
            self.by_key[key].push(id);
            self.ops.push(Issued {
                key,
                kind: Kind::Delete,
                writer,
                clock,
                saw: view.seen.clone(),
                begins_life: false,
                withdraws: Some(withdraws),
                ends: None,
                floor: 0,
                void: Seen::default(),
            });
            view.seen.insert(id);
            self.recount(view, key);
        }
        self.stamps.insert((writer, clock), first..self.ops.len());
        Ok(())
    }

    /// The transactions of a key that a replica has.
    pub fn makers(&self, replica: &Replica, number: OnceId) -> Vec<Dot> {
        replica.keyed().makers(&once(number))
    }

    /// Checks the keyed transactions in a view that is complete. At least one transaction of each key was not
    /// withdrawn. On one counter, at most one of them adds, among those whose key is `known` to some replica.
    ///
    /// # Errors
    /// The key that breaks this rule.
    pub fn check_once(&self, view: &View, known: &dyn Fn(Dot) -> bool) -> Result<(), String> {
        let numbers: std::collections::BTreeSet<OnceId> = self.keyed.values().copied().collect();
        for number in numbers {
            let instances: Vec<Dot> = self.instances(view, number).collect();
            for key in 0..self.keys.len() {
                let live = self.live(&view.seen, key);
                let counts = |dot: &&Dot| {
                    let adds = self.adds(**dot, key);
                    live.iter().any(|(id, _)| adds.contains(*id))
                };
                let live = instances.iter().filter(|dot| known(**dot));
                let live: Vec<&Dot> = live.filter(counts).collect();
                if live.len() > 1 {
                    return Err(format!("key {number} counts for each of {live:?}"));
                }
            }
            let withdrawn = |dot: &Dot| {
                let mut seen = self
                    .ops
                    .iter()
                    .enumerate()
                    .filter(|it| view.seen.contains(it.0));
                let ops = self.stamps.get(dot).cloned().unwrap_or_default();
                seen.any(|(_, op)| {
                    let of = op.withdraws.as_ref();
                    of.is_some_and(|of| ops.clone().any(|id| of.contains(id)))
                })
            };
            if !instances.is_empty() && instances.iter().all(withdrawn) {
                return Err(format!("all of key {number} were withdrawn: {instances:?}"));
            }
        }
        Ok(())
    }
}
