//! The configurations that are explored, as data.

use crate::oracle::{Key, Kind};
use crate::search::{MESSAGES_MAX, REPLICAS_MAX};

/// One operation of a transaction. Its amount and time follow from its maker and the maker's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Adds a power of four, a different one in each transaction. So a sum shows which transactions are in
    /// it.
    Add,
    /// Subtracts the amount that [`Act::Add`] would add.
    Take,
    /// Resets.
    Reset,
    /// Deletes.
    Delete,
    /// Sets the counter to three times the amount that [`Act::Add`] would add.
    Set,
    /// Sets the expiry to one of the configuration's times, in turn.
    Expire,
    /// Removes the expiry.
    Persist,
}

/// A small configuration, and bounds on what may happen in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in reports.
    pub name: String,
    /// How many replicas there are, each with a writer.
    pub replicas: usize,
    /// How many keys there are.
    pub keys: usize,
    /// Transactions that replica 0 makes, and that all replicas see before anything else happens.
    pub start: Vec<Vec<(Key, Act)>>,
    /// The transactions to choose from.
    pub alphabet: Vec<Vec<(Key, Act)>>,
    /// Most transactions that are made.
    pub ops: usize,
    /// Most different snapshots that are sent.
    pub snapshots: usize,
    /// The times of each replica's wall clock, in order, in milliseconds. Each clock begins at 0, and moves
    /// independently of the others.
    pub times: Vec<u64>,
    /// Most steps of clocks, over all replicas.
    pub passes: usize,
    /// Everything is delivered everywhere from every state whose number is a multiple of this. 0 means from
    /// none.
    pub settle_each: usize,
    /// Most states. A run that meets this bound is incomplete.
    pub states_max: usize,
}

impl Config {
    /// # Errors
    /// The number that is out of its bounds, as text.
    pub(super) fn check(&self) -> Result<(), String> {
        let txns = self.alphabet.len() + self.start.len();
        let bounds = [
            ("replicas", self.replicas, REPLICAS_MAX),
            ("snapshots", self.snapshots, MESSAGES_MAX),
            ("different transactions", txns, u8::MAX as usize),
            ("times", self.times.len(), u8::MAX as usize),
            // Powers of four below 2^62.
            ("transactions in all", self.replicas * self.clocks(), 30),
        ];
        for (what, count, most) in bounds {
            if count > most {
                return Err(format!("{count} {what}, at most {most}"));
            }
        }
        Ok(())
    }

    /// Most transactions of one writer.
    fn clocks(&self) -> usize {
        self.ops + self.start.len()
    }

    /// The operations of a transaction that `who` makes at `clock`.
    pub(super) fn transaction(&self, number: u8, who: u8, clock: u64) -> Vec<(Key, Kind)> {
        let number = usize::from(number);
        let started = number.checked_sub(self.alphabet.len());
        let acts = match started {
            Some(number) => &self.start[number],
            None => &self.alphabet[number],
        };
        let index = usize::from(who) * self.clocks() + clock as usize;
        let amount = 1i64 << (2 * index);
        let kind = |act| match act {
            Act::Add => Kind::Add(amount),
            Act::Take => Kind::Add(-amount),
            Act::Reset => Kind::Reset,
            Act::Delete => Kind::Delete,
            Act::Set => Kind::Set(3 * amount),
            Act::Expire => Kind::Expire(self.times[index % self.times.len()]),
            Act::Persist => Kind::Persist,
        };
        acts.iter().map(|(key, act)| (*key, kind(*act))).collect()
    }
}

/// Single operations on key 0.
fn singles(acts: &[Act]) -> Vec<Vec<(Key, Act)>> {
    acts.iter().map(|act| vec![(0, *act)]).collect()
}

/// Moves an amount from key 0 to key 1.
fn transfer() -> Vec<(Key, Act)> {
    vec![(0, Act::Take), (1, Act::Add)]
}

/// A configuration of three replicas, a key and three transactions.
fn base(name: &str) -> Config {
    Config {
        name: name.into(),
        replicas: 3,
        keys: 1,
        start: Vec::new(),
        alphabet: Vec::new(),
        ops: 3,
        snapshots: 2,
        times: Vec::new(),
        passes: 0,
        settle_each: 1,
        states_max: 50_000_000,
    }
}

/// Cancels of two and three replicas, and transactions over two keys.
fn cancels() -> Vec<Config> {
    let four = singles(&[Act::Add, Act::Reset, Act::Delete, Act::Set]);
    let mut transfers = singles(&[Act::Add, Act::Delete]);
    transfers.extend([vec![(1, Act::Add)], vec![(1, Act::Delete)], transfer()]);
    vec![
        Config {
            replicas: 2,
            alphabet: four,
            snapshots: 3,
            ..base("2 replicas, 3 of add, reset, delete, set, 3 snapshots")
        },
        Config {
            alphabet: singles(&[Act::Add, Act::Delete, Act::Set]),
            ..base("3 replicas, 3 of add, delete, set, 2 snapshots")
        },
        Config {
            replicas: 2,
            keys: 2,
            alphabet: transfers,
            ops: 4,
            ..base("2 replicas, 2 keys, 4 of add, delete, transfer, 2 snapshots")
        },
    ]
}

/// The kinds of operation, with the acts of each.
fn kinds() -> [Kinds; 7] {
    [
        ("add", vec![(0, Act::Add)]),
        ("reset", vec![(0, Act::Reset)]),
        ("delete", vec![(0, Act::Delete)]),
        ("set", vec![(0, Act::Set)]),
        ("expire", vec![(0, Act::Expire)]),
        ("persist", vec![(0, Act::Persist)]),
        ("transfer", transfer()),
    ]
}

/// Each pair of kinds at three writers, from a counter that all replicas see. Also from nothing, if both
/// kinds can have an effect there.
fn pairs(snapshots: usize, passes: usize) -> Vec<Config> {
    let kinds = kinds();
    let mut configs = Vec::new();
    for (at, one) in kinds.iter().enumerate() {
        for other in &kinds[at..] {
            configs.extend(pair(one, other, snapshots, passes));
        }
    }
    configs
}

/// The name of a kind of operation, and its acts.
type Kinds = (&'static str, Vec<(Key, Act)>);

fn pair(one: &Kinds, other: &Kinds, snapshots: usize, passes: usize) -> Vec<Config> {
    let names = [one.0, other.0];
    let creates = |name| matches!(name, "add" | "reset" | "set" | "transfer");
    let expires = names.contains(&"expire");
    let mut alphabet = vec![one.1.clone(), other.1.clone()];
    alphabet.dedup();
    let mut starts = vec![("a counter", singles(&[Act::Add]))];
    if names.into_iter().any(creates) {
        starts.push(("nothing", Vec::new()));
    }
    let config = |(from, start)| {
        let kinds = names[..alphabet.len()].join(", ");
        Config {
            keys: 1 + usize::from(names.contains(&"transfer")),
            start,
            alphabet: alphabet.clone(),
            snapshots,
            times: if expires {
                vec![1_000, 2_000]
            } else {
                Vec::new()
            },
            passes: if expires { passes } else { 0 },
            ..base(&format!(
                "3 replicas, 3 of {kinds}, {snapshots} snapshots, from {from}"
            ))
        }
    };
    starts.into_iter().map(config).collect()
}

/// All kinds of single operations.
const ALL: [Act; 6] = [
    Act::Add,
    Act::Reset,
    Act::Delete,
    Act::Set,
    Act::Expire,
    Act::Persist,
];

/// All kinds at once, in three transactions on a counter that all replicas see.
fn all_kinds(passes: usize) -> Config {
    Config {
        start: singles(&[Act::Add]),
        alphabet: singles(&ALL),
        times: vec![1_000, 2_000],
        passes,
        ..base(&format!(
            "3 replicas, 3 of all kinds, {passes} passings of a clock, 2 snapshots, from a counter"
        ))
    }
}

/// Expiries that replace each other, on a counter that has one already.
fn replaced(snapshots: usize) -> Config {
    Config {
        start: singles(&[Act::Add, Act::Expire]),
        alphabet: singles(&[Act::Expire, Act::Persist]),
        snapshots,
        times: vec![1_000, 2_000],
        ..base(&format!(
            "3 replicas, 3 of expire, persist, {snapshots} snapshots, from a counter that expires"
        ))
    }
}

/// More kinds at once, and longer histories, of fewer replicas or snapshots.
fn deep() -> Vec<Config> {
    let mut both = singles(&[Act::Add, Act::Delete]);
    both.extend([
        vec![(0, Act::Delete), (1, Act::Add)],
        vec![(0, Act::Add), (0, Act::Delete), (0, Act::Add)],
    ]);
    vec![
        Config {
            replicas: 2,
            alphabet: singles(&ALL),
            ops: 4,
            snapshots: 3,
            times: vec![1_000, 2_000],
            passes: 1,
            ..base("2 replicas, 4 of all kinds, 1 passing of a clock, 3 snapshots")
        },
        all_kinds(1),
        replaced(3),
        Config {
            replicas: 2,
            alphabet: singles(&[Act::Add, Act::Delete, Act::Set]),
            ops: 5,
            snapshots: 3,
            ..base("2 replicas, 5 of add, delete, set, 3 snapshots")
        },
        Config {
            alphabet: singles(&[Act::Add, Act::Delete]),
            ops: 4,
            snapshots: 3,
            ..base("3 replicas, 4 of add, delete, 3 snapshots")
        },
        Config {
            replicas: 4,
            alphabet: singles(&[Act::Add, Act::Delete]),
            ops: 3,
            snapshots: 3,
            ..base("4 replicas, 3 of add, delete, 3 snapshots")
        },
        Config {
            keys: 2,
            alphabet: both,
            ops: 3,
            snapshots: 3,
            ..base("3 replicas, 2 keys, 3 of add, delete and transactions of them, 3 snapshots")
        },
    ]
}

/// Every configuration that is explored.
pub fn full() -> Vec<Config> {
    let mut configs = cancels();
    configs.extend(deep());
    configs.extend(pairs(3, 2));
    configs
}

/// The share that every test run explores.
pub fn share() -> Vec<Config> {
    let mut configs = cancels();
    configs.truncate(2);
    configs.extend([all_kinds(0), replaced(2)]);
    configs.extend(pairs(2, 1));
    configs
}
