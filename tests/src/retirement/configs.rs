//! The configurations that are explored, as data.

mod refreshes;
mod share;

pub use share::share;

use crate::explore::Act;
use crate::oracle::{Key, Kind, OnceId};
use crate::search::{MESSAGES_MAX, REPLICAS_MAX};
use tallymesh_core::{Flow, WriterId};

/// A small space with members, and bounds on what may happen in it.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many members there are.
    pub members: usize,
    /// Tabs that member 0 has admitted at the start. Each has an add on key 0 that all replicas see.
    pub tabs: usize,
    /// Tabs that have a member's state, and that no member has admitted yet.
    pub strangers: usize,
    /// How many keys there are.
    pub keys: usize,
    /// Transactions that member 0 makes, and that all replicas see before anything else happens.
    pub start: Vec<Vec<(Key, Act)>>,
    /// The transactions to choose from.
    pub alphabet: Vec<Vec<(Key, Act)>>,
    /// Operations on a budget, each with its amount. If there are any, they take the place of transactions.
    /// Grants are for the first start of the next member.
    pub flows: Vec<Flow>,
    /// How many of them, the last ones, are made under an idempotency key. Each operation has its own key.
    pub keyed: usize,
    /// Most transactions that are made.
    pub ops: usize,
    /// Most different snapshots that are sent.
    pub snapshots: usize,
    /// Whether only whole states are sent.
    pub wholes: bool,
    /// Most acknowledgements that are made.
    pub acks: usize,
    /// Whether replicas collect.
    pub gc: bool,
    /// Most tabs that leave.
    pub leaves: usize,
    /// Most replicas that are fenced.
    pub fences: usize,
    /// Most restarts of members.
    pub restarts: usize,
    /// Whether a member may also restart from any state of its own that it has sent. Its later changes are
    /// then lost, unless other replicas have them.
    pub backups: bool,
    /// Most times that tabs rejoin after they were given up.
    pub returns: usize,
    /// Sets of members, by place, that may be proposed. A place beyond the last one is an owner without a
    /// replica.
    pub proposals: Vec<Vec<u8>>,
    /// Most proposals that are made.
    pub proposed: usize,
    /// The times of each replica's wall clock, in order, in milliseconds. They begin at 0.
    pub times: Vec<u64>,
    /// Most steps of clocks, over all replicas.
    pub passes: usize,
    /// Whether each replica may end a counter that has an expiry at any time, as a transaction.
    pub early: bool,
    /// Whether other replicas also pass messages on.
    pub relays: bool,
    /// Whether everything is also put in order with each replica gone for good.
    pub crashes: bool,
    /// Everything is put in order from every state whose number is a multiple of this. 0 means from none.
    pub settle_each: usize,
    /// Most states. A run that meets this bound is incomplete.
    pub states_max: usize,
}

impl Config {
    /// # Errors
    /// The number that is out of its bounds, as text.
    pub(super) fn check(&self) -> Result<(), String> {
        let bounds = [
            ("replicas", self.replicas(), REPLICAS_MAX),
            ("snapshots", self.snapshots, MESSAGES_MAX),
            // Powers of four below 2^62.
            (
                "transactions in all",
                self.replicas() * (self.ops + 1) + self.keyed,
                30,
            ),
        ];
        for (what, count, most) in bounds {
            if count > most {
                return Err(format!("{count} {what}, at most {most}"));
            }
        }
        Ok(())
    }

    /// Its name in reports: its replicas and the events that may happen.
    pub fn name(&self) -> String {
        let named = |acts: &Vec<(Key, Act)>| match acts[..] {
            [(_, act)] => format!("{act:?}").to_lowercase(),
            _ => "transfer".into(),
        };
        let acts: Vec<String> = self.alphabet.iter().map(named).collect();
        let flows: Vec<String> = self.flows.iter().map(named_flow).collect();
        let acts = if flows.is_empty() { acts } else { flows };
        let acts = (self.ops > 0).then(|| format!("{} of {}", self.ops, acts.join(", ")));
        let keyed = (self.keyed > 0).then(|| format!("the last {} keyed", self.keyed));
        let sent = if self.wholes {
            "whole state"
        } else {
            "snapshot"
        };
        let (from, relays) = (" from what was sent", " passed on");
        let parts = [
            many(self.members, "member", ""),
            many(self.tabs, "tab", ""),
            many(self.strangers, "stranger", ""),
            many(self.keys, "key", "").filter(|_| self.keys > 1),
            acts,
            keyed,
            many(self.snapshots, sent, if self.relays { relays } else { "" }),
            many(self.acks, "ack", ""),
            self.gc.then(|| "collection".into()),
            many(self.leaves, "farewell", ""),
            many(self.fences, "fence", ""),
            many(
                self.restarts,
                "restart",
                if self.backups { from } else { "" },
            ),
            many(self.returns, "return", ""),
            many(self.proposed, "proposal", &self.proposed_members()),
            many(self.passes, "passing", " of a clock"),
            self.early.then(|| "ends at any time".into()),
            self.crashes.then(|| "crashes".into()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }

    fn proposed_members(&self) -> String {
        let lists = self.proposals.iter().map(|members| format!("{members:?}"));
        format!(" of {}", lists.collect::<Vec<_>>().join(" or "))
    }

    /// How many replicas there are.
    pub fn replicas(&self) -> usize {
        self.members + self.tabs + self.strangers
    }

    /// An amount of its own for the transaction of number `made` of the replica at `at`.
    pub(super) fn amount(&self, at: u8, made: u8) -> i64 {
        1 << (2 * (usize::from(at) * (self.ops + 1) + usize::from(made)))
    }

    /// The idempotency key of a transaction, if it has one.
    pub(super) fn key(&self, number: u8) -> Option<OnceId> {
        let first = self.alphabet.len() - self.keyed;
        let number = usize::from(number);
        number.checked_sub(first).filter(|key| *key < self.keyed)
    }

    /// The operations of a transaction.
    pub(super) fn transaction(&self, number: u8, at: u8, made: u8) -> Vec<(Key, Kind)> {
        let started = usize::from(number).checked_sub(self.alphabet.len());
        // Transactions of the start are no others' numbers.
        let made = if started.is_some() { 0 } else { made };
        let amount = match self.key(number) {
            // The amount is the same for every maker. It is greater than any replica's own amounts.
            Some(key) => self.amount(self.replicas() as u8, key as u8),
            None => self.amount(at, made),
        };
        let kind = |act| match act {
            Act::Add => Kind::Add(amount),
            Act::Take => Kind::Add(-amount),
            Act::Reset => Kind::Reset,
            Act::Set => Kind::Set(3 * amount),
            Act::Delete => Kind::Delete,
            // Replicas begin with different times where these are compared.
            Act::Expire => {
                let nth = usize::from(made) + usize::from(at) * usize::from(self.early);
                Kind::Expire(self.times[nth % self.times.len()])
            }
            Act::Persist => Kind::Persist,
        };
        let acts = match started {
            Some(number) => &self.start[number],
            None => &self.alphabet[usize::from(number)],
        };
        acts.iter().map(|(key, act)| (*key, kind(*act))).collect()
    }
}

fn named_flow(flow: &Flow) -> String {
    match flow {
        Flow::Grant { amount, .. } => format!("grant {amount}"),
        Flow::GrantRoom { amount, .. } => format!("grant room {amount}"),
        other => format!("{other:?}").to_lowercase().replace(['(', ')'], " "),
    }
    .trim()
    .into()
}

/// A count of something, for a name. `None` if the count is 0.
fn many(count: usize, one: &str, more: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}{more}")),
        _ => Some(format!("{count} {one}s{more}")),
    }
}

fn singles(acts: &[Act]) -> Vec<Vec<(Key, Act)>> {
    acts.iter().map(|act| vec![(0, *act)]).collect()
}

/// A config with this many members, and tabs that the first member has admitted. They make two transactions.
fn base(members: usize, tabs: usize) -> Config {
    Config {
        members,
        tabs,
        strangers: 0,
        keys: 1,
        start: Vec::new(),
        alphabet: singles(&[Act::Add, Act::Delete]),
        flows: Vec::new(),
        keyed: 0,
        ops: 2,
        snapshots: 3,
        wholes: false,
        acks: 0,
        gc: false,
        leaves: 0,
        fences: 0,
        restarts: 0,
        backups: false,
        returns: 0,
        proposals: Vec::new(),
        proposed: 0,
        times: Vec::new(),
        passes: 0,
        early: false,
        relays: false,
        crashes: false,
        settle_each: 50,
        states_max: 30_000_000,
    }
}

/// The same with collection, and at most this many acknowledgements.
fn collecting(members: usize, tabs: usize, acks: usize) -> Config {
    Config {
        acks,
        gc: true,
        ..base(members, tabs)
    }
}

/// Retirement by leaves, in chains, of transactions over two keys, and with collection.
fn leaves() -> Vec<Config> {
    let mut transfers = singles(&[Act::Add, Act::Delete]);
    transfers.push(vec![(0, Act::Take), (1, Act::Add)]);
    let configs = [
        Config {
            ops: 3,
            ..base(1, 2)
        },
        Config {
            ops: 3,
            ..base(2, 1)
        },
        Config {
            keys: 2,
            alphabet: transfers,
            ..base(1, 2)
        },
        Config {
            ops: 3,
            ..collecting(1, 1, 1)
        },
        Config {
            alphabet: singles(&[Act::Add, Act::Delete, Act::Set]),
            ..collecting(1, 1, 2)
        },
    ];
    let one = |config| Config {
        leaves: 1,
        ..config
    };
    let mut configs: Vec<Config> = configs.into_iter().map(one).collect();
    configs.push(Config {
        snapshots: 4,
        leaves: 2,
        ..base(1, 2)
    });
    configs
}

/// Fences, with collection.
fn fences() -> Vec<Config> {
    let one = |config| Config {
        fences: 1,
        ..config
    };
    vec![
        one(Config {
            snapshots: 2,
            ..collecting(2, 1, 2)
        }),
        one(Config {
            ops: 1,
            ..collecting(2, 1, 3)
        }),
        one(Config {
            ops: 1,
            ..collecting(3, 0, 2)
        }),
        Config {
            ops: 1,
            fences: 2,
            settle_each: 100,
            ..collecting(3, 0, 2)
        },
    ]
}

/// Retirement with a replica that is gone, with one that restarts, and with one that no member has admitted.
fn crashes() -> Vec<Config> {
    vec![
        Config {
            leaves: 1,
            crashes: true,
            settle_each: 200,
            ..collecting(1, 2, 0)
        },
        Config {
            snapshots: 2,
            restarts: 1,
            crashes: true,
            settle_each: 200,
            ..collecting(2, 1, 1)
        },
        Config {
            strangers: 1,
            leaves: 1,
            settle_each: 100,
            ..collecting(2, 0, 1)
        },
        Config {
            ops: 1,
            leaves: 1,
            restarts: 1,
            settle_each: 200,
            ..collecting(2, 1, 2)
        },
    ]
}

/// Members that lose the end of their writes, or start from an old copy of them. Messages that other replicas
/// pass on.
fn losses() -> Vec<Config> {
    vec![
        Config {
            restarts: 1,
            backups: true,
            crashes: true,
            ..collecting(2, 0, 2)
        },
        Config {
            snapshots: 2,
            restarts: 1,
            backups: true,
            settle_each: 100,
            ..collecting(2, 1, 1)
        },
        Config {
            ops: 1,
            restarts: 2,
            backups: true,
            settle_each: 100,
            ..collecting(2, 0, 2)
        },
        Config {
            ops: 1,
            leaves: 1,
            relays: true,
            crashes: true,
            ..collecting(2, 1, 1)
        },
        Config {
            strangers: 1,
            ops: 1,
            leaves: 1,
            restarts: 1,
            relays: true,
            settle_each: 100,
            ..collecting(2, 0, 1)
        },
    ]
}

/// Tabs that were given up and rejoin, while other replicas add and cancel.
fn returns() -> Vec<Config> {
    let late = |config| Config {
        fences: 1,
        returns: 1,
        settle_each: 100,
        ..config
    };
    vec![
        late(base(1, 2)),
        late(Config {
            ops: 3,
            alphabet: singles(&[Act::Add, Act::Delete, Act::Set]),
            ..collecting(1, 1, 1)
        }),
        late(Config {
            snapshots: 2,
            ..collecting(2, 1, 1)
        }),
        late(Config {
            ops: 1,
            snapshots: 4,
            ..collecting(2, 1, 2)
        }),
        late(Config {
            ops: 1,
            returns: 2,
            fences: 2,
            snapshots: 2,
            ..collecting(1, 2, 1)
        }),
    ]
}

/// Members that decide on the next members: all orders of their votes, on two proposals at once.
fn voting(snapshots: usize, proposals: [&[u8]; 2]) -> Config {
    Config {
        ops: 0,
        snapshots,
        wholes: true,
        proposals: proposals.map(<[u8]>::to_vec).to_vec(),
        proposed: 2,
        settle_each: 100,
        ..base(3, 0)
    }
}

/// The same with a member that restarts from a state that it has sent. The state may be older than its
/// promises. Also with one proposal and more messages.
fn votes() -> Vec<Config> {
    let (one, other) = (&[0, 1, 2, 7][..], &[0, 1, 2, 8][..]);
    vec![
        voting(4, [one, other]),
        voting(4, [&[0, 1], &[0, 2]]),
        voting(5, [&[0, 1], &[1, 2]]),
        Config {
            restarts: 1,
            backups: true,
            ..voting(3, [&[0, 1], &[0, 2]])
        },
        Config {
            proposed: 1,
            acks: 2,
            restarts: 1,
            backups: true,
            ..voting(4, [&[0, 1], &[1, 2]])
        },
        Config {
            proposals: vec![one.to_vec()],
            proposed: 1,
            ..voting(6, [one, other])
        },
    ]
}

/// Expiries, where each replica has its own clock, and members delete what has expired.
fn expiries() -> Vec<Config> {
    let expiring = |config| Config {
        alphabet: singles(&[Act::Add, Act::Expire]),
        times: vec![1_000, 2_000],
        passes: 2,
        settle_each: 100,
        ..config
    };
    vec![
        expiring(Config {
            ops: 3,
            snapshots: 2,
            ..collecting(2, 0, 1)
        }),
        expiring(Config {
            snapshots: 2,
            ..collecting(2, 1, 1)
        }),
        expiring(Config {
            leaves: 1,
            ..collecting(1, 1, 1)
        }),
        expiring(Config {
            snapshots: 2,
            leaves: 2,
            passes: 1,
            ..collecting(1, 2, 1)
        }),
    ]
}

/// A tab's successor that is fenced itself, or restarts, once and twice.
fn successors() -> Vec<Config> {
    let leaving = |config| Config {
        ops: 1,
        leaves: 1,
        settle_each: 200,
        ..config
    };
    vec![
        leaving(Config {
            fences: 1,
            ..collecting(2, 1, 2)
        }),
        leaving(Config {
            snapshots: 2,
            restarts: 2,
            ..collecting(2, 1, 1)
        }),
        leaving(Config {
            snapshots: 2,
            fences: 1,
            restarts: 1,
            ..collecting(2, 1, 2)
        }),
    ]
}

/// One operation that several replicas make under one key, with cancels and retirement.
fn keyed() -> Vec<Config> {
    let keyed = |acts: &[Act], config| Config {
        alphabet: singles(acts),
        keyed: 1,
        settle_each: 100,
        ..config
    };
    // Tabs begin with the first act.
    let add = |config| keyed(&[Act::Add, Act::Delete, Act::Add], config);
    let alone = |act, cancel| {
        let config = Config {
            ops: 3,
            ..base(2, 0)
        };
        keyed(&[cancel, act], config)
    };
    vec![
        alone(Act::Add, Act::Delete),
        alone(Act::Add, Act::Reset),
        alone(Act::Add, Act::Set),
        alone(Act::Add, Act::Add),
        alone(Act::Set, Act::Delete),
        alone(Act::Delete, Act::Add),
        keyed(&[Act::Delete, Act::Add], base(3, 0)),
        add(Config {
            ops: 3,
            ..base(2, 0)
        }),
        keyed(
            &[Act::Delete, Act::Add],
            Config {
                ops: 3,
                ..collecting(2, 0, 2)
            },
        ),
        add(Config {
            leaves: 1,
            ..collecting(1, 1, 2)
        }),
        add(Config {
            snapshots: 2,
            leaves: 1,
            ..collecting(2, 1, 1)
        }),
        add(Config {
            snapshots: 2,
            fences: 1,
            ..collecting(2, 1, 1)
        }),
        keyed(
            &[Act::Delete, Act::Add],
            Config {
                restarts: 1,
                backups: true,
                ..collecting(2, 0, 2)
            },
        ),
        add(Config {
            snapshots: 2,
            fences: 1,
            returns: 1,
            ..collecting(1, 1, 1)
        }),
    ]
}

/// Budgets, at members that move rights, restart, and are fenced. The first member makes the first of the
/// flows at the start.
pub fn budgets() -> Vec<Config> {
    let to = WriterId::from_bytes([0; 16]);
    let grant = |amount| Flow::Grant { to, amount };
    let config = |members, acks, flows: &[Flow]| Config {
        flows: flows.to_vec(),
        ops: 2,
        snapshots: 2,
        settle_each: 20,
        ..collecting(members, 0, acks)
    };
    let some = [Flow::Mint(2), Flow::Spend(2), grant(2)];
    vec![
        Config {
            ops: 3,
            gc: false,
            ..config(3, 0, &some)
        },
        Config {
            restarts: 1,
            ..config(2, 2, &some)
        },
        Config {
            restarts: 1,
            backups: true,
            ops: 3,
            ..config(2, 1, &some)
        },
        Config {
            fences: 1,
            ..config(3, 1, &some)
        },
    ]
}

/// Every configuration that is explored.
pub fn full() -> Vec<Config> {
    let all = [
        leaves(),
        fences(),
        crashes(),
        losses(),
        returns(),
        votes(),
        expiries(),
        refreshes::full(),
        successors(),
        keyed(),
        budgets(),
    ];
    all.concat()
}
