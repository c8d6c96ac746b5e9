//! The configurations that are explored, as data.

use super::{MESSAGES_MAX, REPLICAS_MAX};
use crate::explore::Act;
use crate::oracle::{Key, Kind};

/// A small space with members, and bounds on what may happen in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in reports.
    pub name: String,
    /// How many members there are.
    pub members: usize,
    /// Tabs that member 0 has taken in at the start, each with an add on key 0 that all have seen.
    pub tabs: usize,
    /// Tabs that have a member's state, and that nobody has taken in yet.
    pub strangers: usize,
    /// How many keys there are.
    pub keys: usize,
    /// The transactions to choose from.
    pub alphabet: Vec<Vec<(Key, Act)>>,
    /// How many transactions are made, at most.
    pub ops: usize,
    /// How many different snapshots are sent, at most.
    pub snapshots: usize,
    /// How many acknowledgements are made, at most.
    pub acks: usize,
    /// Whether replicas collect.
    pub gc: bool,
    /// How many tabs leave, at most.
    pub farewells: usize,
    /// How many replicas are declared dead, at most.
    pub fences: usize,
    /// How many members start again, at most.
    pub restarts: usize,
    /// Whether a member may also start again from any state of its own that it has sent: what it did
    /// after that is lost, or others know of it.
    pub backups: bool,
    /// Whether messages are also passed on by others.
    pub relays: bool,
    /// Whether, when everything is put in order, that is also done with each replica gone for good.
    pub crashes: bool,
    /// From each how many-th state everything is put in order; 0: from none.
    pub settle_each: usize,
    /// Most states. A run that meets this bound is incomplete.
    pub states_max: usize,
}

impl Config {
    /// # Errors
    /// Says which number is out of its bounds.
    pub(super) fn check(&self) -> Result<(), String> {
        let bounds = [
            ("replicas", self.replicas(), REPLICAS_MAX),
            ("snapshots", self.snapshots, MESSAGES_MAX),
            // Powers of four below 2^62.
            ("transactions in all", self.replicas() * (self.ops + 1), 30),
        ];
        for (what, count, most) in bounds {
            if count > most {
                return Err(format!("{count} {what}, at most {most}"));
            }
        }
        Ok(())
    }

    /// How many replicas there are.
    pub fn replicas(&self) -> usize {
        self.members + self.tabs + self.strangers
    }

    /// An amount of its own for the `made`-th transaction of the replica at `at`.
    pub(super) fn amount(&self, at: u8, made: u8) -> i64 {
        1 << (2 * (usize::from(at) * (self.ops + 1) + usize::from(made)))
    }

    /// The operations of a transaction.
    pub(super) fn transaction(&self, number: u8, at: u8, made: u8) -> Vec<(Key, Kind)> {
        let amount = self.amount(at, made);
        let kind = |act| match act {
            Act::Add => Kind::Add(amount),
            Act::Take => Kind::Add(-amount),
            Act::Reset => Kind::Reset,
            Act::Set => Kind::Set(3 * amount),
            Act::Delete | Act::Expire => Kind::Delete,
            Act::Persist => Kind::Persist,
        };
        let acts = &self.alphabet[usize::from(number)];
        acts.iter().map(|(key, act)| (*key, kind(*act))).collect()
    }
}

fn singles(acts: &[Act]) -> Vec<Vec<(Key, Act)>> {
    acts.iter().map(|act| vec![(0, *act)]).collect()
}

/// A member with two tabs.
fn base(name: &str) -> Config {
    Config {
        name: name.into(),
        members: 1,
        tabs: 2,
        strangers: 0,
        keys: 1,
        alphabet: singles(&[Act::Add, Act::Delete]),
        ops: 2,
        snapshots: 3,
        acks: 0,
        gc: false,
        farewells: 0,
        fences: 0,
        restarts: 0,
        backups: false,
        relays: false,
        crashes: false,
        settle_each: 50,
        states_max: 30_000_000,
    }
}

/// Retirement by farewell, in chains, of transactions over two keys, and with collection.
fn farewells() -> Vec<Config> {
    let mut transfers = singles(&[Act::Add, Act::Delete]);
    transfers.push(vec![(0, Act::Take), (1, Act::Add)]);
    vec![
        Config {
            ops: 3,
            farewells: 1,
            ..base("1 member, 2 tabs, 3 of add, delete, 3 snapshots, 1 farewell")
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 3,
            farewells: 1,
            ..base("2 members, 1 tab, 3 of add, delete, 3 snapshots, 1 farewell")
        },
        Config {
            snapshots: 4,
            farewells: 2,
            ..base("1 member, 2 tabs, 2 of add, delete, 4 snapshots, 2 farewells")
        },
        Config {
            keys: 2,
            alphabet: transfers,
            farewells: 1,
            ..base("1 member, 2 tabs, 2 keys, 2 of add, delete, transfer, 3 snapshots, 1 farewell")
        },
        Config {
            tabs: 1,
            ops: 3,
            acks: 1,
            gc: true,
            farewells: 1,
            ..base("1 member, 1 tab, 3 of add, delete, 3 snapshots, 1 ack, collection, 1 farewell")
        },
        Config {
            tabs: 1,
            alphabet: singles(&[Act::Add, Act::Delete, Act::Set]),
            acks: 2,
            gc: true,
            farewells: 1,
            ..base(
                "1 member, 1 tab, 2 of add, delete, set, 3 snapshots, 2 acks, collection, \
                 1 farewell",
            )
        },
    ]
}

/// Declared dead, with collection.
fn fences() -> Vec<Config> {
    vec![
        Config {
            members: 2,
            tabs: 1,
            snapshots: 2,
            acks: 2,
            gc: true,
            fences: 1,
            ..base("2 members, 1 tab, 2 of add, delete, 2 snapshots, 2 acks, collection, 1 fence")
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 1,
            acks: 3,
            gc: true,
            fences: 1,
            ..base("2 members, 1 tab, 1 of add, delete, 3 snapshots, 3 acks, collection, 1 fence")
        },
        Config {
            members: 3,
            tabs: 0,
            ops: 1,
            acks: 2,
            gc: true,
            fences: 1,
            ..base("3 members, 1 of add, delete, 3 snapshots, 2 acks, collection, 1 fence")
        },
    ]
}

/// Retirement against a replica that is gone, and one that starts again.
fn crashes() -> Vec<Config> {
    vec![
        Config {
            ops: 2,
            farewells: 1,
            gc: true,
            crashes: true,
            settle_each: 200,
            ..base(
                "1 member, 2 tabs, 2 of add, delete, 3 snapshots, collection, 1 farewell, crashes",
            )
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 2,
            snapshots: 2,
            acks: 1,
            gc: true,
            restarts: 1,
            crashes: true,
            settle_each: 200,
            ..base(
                "2 members, 1 tab, 2 of add, delete, 2 snapshots, 1 ack, collection, 1 restart, crashes",
            )
        },
        Config {
            members: 2,
            tabs: 0,
            strangers: 1,
            ops: 2,
            acks: 1,
            gc: true,
            farewells: 1,
            settle_each: 100,
            ..base(
                "2 members, 1 stranger, 2 of add, delete, 3 snapshots, 1 ack, collection, \
                 1 farewell",
            )
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 1,
            snapshots: 3,
            acks: 2,
            gc: true,
            farewells: 1,
            restarts: 1,
            settle_each: 200,
            ..base(
                "2 members, 1 tab, 1 of add, delete, 3 snapshots, 2 acks, collection, 1 farewell, 1 restart",
            )
        },
    ]
}

/// Members that lose the end of what they wrote, or start from an old copy of it; messages that
/// others pass on.
fn losses() -> Vec<Config> {
    vec![
        Config {
            members: 2,
            tabs: 0,
            acks: 2,
            gc: true,
            restarts: 1,
            backups: true,
            crashes: true,
            ..base(
                "2 members, 2 of add, delete, 3 snapshots, 2 acks, collection, 1 restart from what \
                 was sent, crashes",
            )
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 2,
            snapshots: 2,
            acks: 1,
            gc: true,
            restarts: 1,
            backups: true,
            settle_each: 100,
            ..base(
                "2 members, 1 tab, 2 of add, delete, 2 snapshots, 1 ack, collection, 1 restart from \
                 what was sent",
            )
        },
        Config {
            members: 2,
            tabs: 0,
            ops: 1,
            acks: 2,
            gc: true,
            restarts: 2,
            backups: true,
            settle_each: 100,
            ..base(
                "2 members, 1 of add, delete, 3 snapshots, 2 acks, collection, 2 restarts from what \
                 was sent",
            )
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 1,
            acks: 1,
            gc: true,
            farewells: 1,
            relays: true,
            crashes: true,
            ..base(
                "2 members, 1 tab, 1 of add, delete, 3 snapshots passed on, 1 ack, collection, \
                 1 farewell, crashes",
            )
        },
        Config {
            members: 2,
            tabs: 0,
            strangers: 1,
            ops: 1,
            acks: 1,
            gc: true,
            farewells: 1,
            restarts: 1,
            relays: true,
            settle_each: 100,
            ..base(
                "2 members, 1 stranger, 1 of add, delete, 3 snapshots passed on, 1 ack, collection, \
                 1 farewell, 1 restart",
            )
        },
        Config {
            members: 3,
            tabs: 0,
            ops: 1,
            acks: 2,
            gc: true,
            fences: 2,
            settle_each: 100,
            ..base("3 members, 1 of add, delete, 3 snapshots, 2 acks, collection, 2 fences")
        },
    ]
}

/// Everything that is explored.
pub fn full() -> Vec<Config> {
    let mut configs = farewells();
    configs.extend(fences());
    configs.extend(crashes());
    configs.extend(losses());
    configs
}

/// The share that every test run explores.
pub fn share() -> Vec<Config> {
    vec![
        Config {
            farewells: 1,
            snapshots: 2,
            ..base("1 member, 2 tabs, 2 of add, delete, 2 snapshots, 1 farewell")
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 1,
            snapshots: 2,
            acks: 2,
            gc: true,
            fences: 1,
            crashes: true,
            ..base(
                "2 members, 1 tab, 1 of add, delete, 2 snapshots, 2 acks, collection, 1 fence, crashes",
            )
        },
        Config {
            members: 2,
            tabs: 1,
            ops: 1,
            snapshots: 2,
            acks: 1,
            gc: true,
            restarts: 1,
            ..base("2 members, 1 tab, 1 of add, delete, 2 snapshots, 1 ack, collection, 1 restart")
        },
    ]
}
