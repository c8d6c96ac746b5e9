//! Random histories of every kind of operation, without a sync machine. Replicas exchange deltas that are
//! stale, repeated, out of order, or made for another replica. After each step, every read at the replica
//! that changed is compared with the oracle.
//!
//! It is not a scenario of the simulated mesh (`sim`), because a sync machine never sends deltas like these.

use crate::oracle::{Call, Key, Oracle, View};
use crate::random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::{
    Encode, Error, Mark, MergeError, Message, Op, Replica, Space, VersionVector, WriterId,
};

/// Wall clocks start here. Each replica's clock moves independently of the others.
pub const TIME: u64 = 1_800_000_000_000;

/// A replica, the view that it should have, and its log.
struct Node {
    replica: Replica,
    view: View,
    /// The time of its wall clock, in milliseconds since 1970.
    wall: u64,
    mark: Mark,
    log: Vec<Vec<u8>>,
}

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Transactions made.
    pub transactions: u64,
    /// Expiries that a replica materialised.
    pub expiries: u64,
    /// Messages merged.
    pub merges: u64,
    /// Messages rejected because the changes that they build on were missing.
    pub uncovered: u64,
    /// Logs replayed.
    pub logs: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.transactions += other.transactions;
        self.expiries += other.expiries;
        self.merges += other.merges;
        self.uncovered += other.uncovered;
        self.logs += other.logs;
    }
}

struct Run {
    random: Random,
    oracle: Oracle,
    nodes: Vec<Node>,
    /// Every message that was ever sent, encoded.
    sent: Vec<Vec<u8>>,
    /// Amounts, each a bit of its own or random bits.
    amounts: Amounts,
    trace: bool,
    metrics: Metrics,
}

/// The way in which the amounts of a run are drawn. In each way, no two sets of adds have one sum.
enum Amounts {
    /// A power of two each, with either sign, as long as unused ones are left.
    Bits(u32),
    /// Some 50 random bits each.
    Random,
    /// The same, and the ends of the range, so that totals overflow.
    Extreme,
}

/// A new replica.
pub fn replica(nonce: u64) -> Replica {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&nonce.to_le_bytes());
    let space = Space::default();
    let writer = WriterId::mint(&space, &[1; 32], &bytes);
    Replica::new(space, writer)
}

impl Run {
    fn new(seed: u64, trace: bool) -> Run {
        let mut random = Random::new(seed);
        let keys = random.range(1, 3);
        let amounts = match random.below(4) {
            0 | 1 => Amounts::Bits(0),
            2 => Amounts::Random,
            _ => Amounts::Extreme,
        };
        let nodes = (0..random.range(5, 8)).map(|_| Node {
            replica: replica(random.next_u64()),
            view: View::default(),
            wall: TIME + random.below(250),
            mark: Mark::default(),
            log: Vec::new(),
        });
        Run {
            nodes: nodes.collect(),
            oracle: Oracle::new((0..keys).map(|key| format!("k{key}")).collect()),
            sent: Vec::new(),
            amounts,
            random,
            trace,
            metrics: Metrics::default(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let steps = *self.random.pick(&[12, 40, 40, 120]);
        for _ in 0..steps {
            self.step()?;
        }
        self.settle()
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{}", text());
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        let outcome = match self.random.below(100) {
            0..=41 => self.write(at),
            42..=54 => self.send(at),
            55..=84 => self.deliver(at),
            85..=92 => self.turn_clock(at),
            93..=96 => self.materialize(at),
            97 | 98 => self.append(at),
            _ => self.replay(at),
        };
        outcome.map_err(|error| format!("replica {at}: {error}"))
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let keys: Vec<Key> = (0..self.random.range(1, 3))
            .map(|_| self.random.index(self.oracle.keys().len()))
            .collect();
        let count = *self.random.pick(&[1, 1, 1, 2, 3, 4]);
        let ops: Vec<(Key, Op)> = (0..count)
            .map(|_| (*self.random.pick(&keys), self.op()))
            .collect();
        let call = *self.random.pick(&[Call::Single, Call::Transact]);
        let Node {
            replica,
            view,
            wall,
            ..
        } = &mut self.nodes[at];
        let made = self.oracle.transact(view, replica, *wall, &ops, call)?;
        self.note(|| format!("{at} writes {ops:?} {call:?}: {made}"));
        if made {
            self.metrics.transactions += 1;
        }
        self.check(at)
    }

    fn op(&mut self) -> Op {
        match self.random.below(20) {
            0..=7 => Op::Add(self.amount()),
            8 | 9 => Op::Reset,
            10..=12 => Op::Delete,
            13 | 14 => Op::Set(self.amount()),
            // Clocks are up to some hundred milliseconds apart, so the expiry has passed for some of them.
            15..=17 => Op::Expire(TIME + self.random.below(250)),
            _ => Op::Persist,
        }
    }

    fn amount(&mut self) -> i64 {
        let sign = if self.random.chance(300) { -1 } else { 1 };
        match &mut self.amounts {
            _ if self.random.chance(50) => 0,
            Amounts::Bits(next) if *next < 62 => {
                *next += 1;
                sign * (1 << (*next - 1))
            }
            Amounts::Extreme if self.random.chance(300) => {
                *self.random.pick(&[i64::MAX, i64::MIN, i64::MAX - 1])
            }
            _ => sign * (self.random.next_u64() >> self.random.range(12, 20)) as i64,
        }
    }

    /// Makes a message: the whole state, the part that the receiver lacks, or the part that another replica
    /// lacks.
    fn send(&mut self, at: usize) -> Result<(), String> {
        let since = match self.random.below(4) {
            0 => VersionVector::default(),
            _ => {
                let other = self.random.index(self.nodes.len());
                self.nodes[other].replica.vector()
            }
        };
        let message = self.nodes[at].replica.delta(&since);
        let bytes = message.encode();
        if Message::decode(&bytes).as_ref() != Ok(&message) {
            return Err(format!("a message does not mean itself: {bytes:02x?}"));
        }
        self.sent.push(bytes);
        self.note(|| format!("{at} sends m{}", self.sent.len() - 1));
        Ok(())
    }

    /// Delivers any message that was ever sent to any replica. Most of these messages are late.
    fn deliver(&mut self, at: usize) -> Result<(), String> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let recent = self.sent.len().min(6);
        let which = match self.random.chance(700) {
            true => self.sent.len() - 1 - self.random.index(recent),
            false => self.random.index(self.sent.len()),
        };
        self.merge(at, which)
    }

    fn merge(&mut self, at: usize, which: usize) -> Result<(), String> {
        let message = Message::decode(&self.sent[which]).map_err(|error| error.to_string())?;
        let node = &mut self.nodes[at];
        let before = (node.replica.vector(), node.replica.canonical_bytes());
        let merged = node.replica.merge(&message);
        match &merged {
            Ok(merged) if merged.new == (before.0 == node.replica.vector()) => {
                return Err(format!(
                    "m{which}: {merged:?} of a vector that tells otherwise"
                ));
            }
            Ok(merged) if !merged.new && before.1 != node.replica.canonical_bytes() => {
                return Err(format!(
                    "m{which}: the state changed and the vector did not"
                ));
            }
            Ok(_) => self.metrics.merges += 1,
            Err(Error::Merge(MergeError::NotCovered(_)))
                if before.1 == node.replica.canonical_bytes() =>
            {
                self.metrics.uncovered += 1;
            }
            Err(error) => return Err(format!("m{which}: {error}")),
        };
        self.note(|| format!("{at} gets m{which}: {merged:?}"));
        self.check(at)
    }

    /// Moves a wall clock, or makes it jump.
    fn turn_clock(&mut self, at: usize) -> Result<(), String> {
        let jump = self.random.chance(200);
        let random = self.random.below(if jump { 500 } else { 60 });
        let node = &mut self.nodes[at];
        node.wall = if jump { TIME } else { node.wall } + random;
        node.replica.set_time(node.wall);
        let wall = node.wall - TIME;
        self.note(|| format!("{at} has {wall} ms"));
        self.check(at)
    }

    fn materialize(&mut self, at: usize) -> Result<(), String> {
        for key in 0..self.oracle.keys().len() {
            let Node {
                replica,
                view,
                wall,
                ..
            } = &mut self.nodes[at];
            let due = self.oracle.materialize(view, replica, *wall, key)?;
            self.note(|| format!("{at} materialises k{key}: {due}"));
            self.metrics.expiries += u64::from(due);
        }
        self.check(at)
    }

    /// Compares every read at a replica.
    fn check(&mut self, at: usize) -> Result<(), String> {
        let Node {
            replica,
            view,
            wall,
            ..
        } = &mut self.nodes[at];
        replica.set_time(*wall);
        self.oracle.learn(view, replica.writers())?;
        self.oracle.check(view, replica, *wall)?;
        match replica.forks().faults().first() {
            Some(fault) => Err(format!("a fault: {fault:?}")),
            None => Ok(()),
        }
    }

    /// Writes what changed since the last time to the replica's log.
    fn append(&mut self, at: usize) -> Result<(), String> {
        let node = &mut self.nodes[at];
        if let Some(message) = node.replica.since(&mut node.mark) {
            node.log.push(message.encode());
        }
        let length = node.log.len();
        self.note(|| format!("{at} appends, {length} records"));
        Ok(())
    }

    /// Replays the log into a fresh replica, and checks that it equals the present replica.
    fn replay(&mut self, at: usize) -> Result<(), String> {
        self.append(at)?;
        self.note(|| format!("{at} is replayed"));
        let fresh = self.random.next_u64();
        let node = &self.nodes[at];
        let mut copy = replica(fresh);
        let mut view = View::default();
        copy.set_time(node.wall);
        for (which, record) in node.log.iter().enumerate() {
            let message = Message::decode_stored(record).map_err(|error| error.to_string())?;
            let wrong = |error| format!("record {which} of the log: {error}");
            copy.merge(&message).map_err(|e| wrong(e.to_string()))?;
            // Each prefix of the log is a state that the replica once had.
            let learned = self.oracle.learn(&mut view, copy.writers());
            learned.map_err(wrong)?;
            self.oracle.check(&view, &copy, node.wall).map_err(wrong)?;
        }
        if view != node.view || copy.canonical_bytes() != node.replica.canonical_bytes() {
            return Err("the log replayed is not the replica".into());
        }
        self.metrics.logs += 1;
        Ok(())
    }

    /// Every replica gets every whole state and many old messages, in an order of its own. Then all states
    /// must be equal.
    fn settle(&mut self) -> Result<(), String> {
        self.note(|| "settle".into());
        for at in 0..self.nodes.len() {
            self.sent.push(
                self.nodes[at]
                    .replica
                    .delta(&VersionVector::default())
                    .encode(),
            );
            self.replay(at).map_err(|e| format!("replica {at}: {e}"))?;
        }
        let old = self.sent.len() - self.nodes.len();
        for at in 0..self.nodes.len() {
            let mut order: Vec<usize> = (0..self.sent.len()).collect();
            order.retain(|which| *which >= old || self.random.chance(250));
            for place in (1..order.len()).rev() {
                order.swap(place, self.random.index(place + 1));
            }
            for which in order {
                self.merge(at, which)
                    .map_err(|e| format!("replica {at} in the end: {e}"))?;
            }
        }
        let bytes = self.nodes[0].replica.canonical_bytes();
        for (at, node) in self.nodes.iter().enumerate() {
            if node.replica.vector() != self.nodes[0].replica.vector() {
                return Err(format!("replica {at} does not see what replica 0 sees"));
            }
            if node.replica.canonical_bytes() != bytes {
                return Err(format!("replica {at} sees the same in other bytes"));
            }
            if node.view.seen().len() != self.oracle.op_count() {
                return Err(format!("replica {at} does not see everything"));
            }
        }
        Ok(())
    }
}

/// Plays one seed.
///
/// # Errors
/// The failure and the seed, as text.
pub fn run(seed: u64, trace: bool) -> Result<Metrics, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, trace);
        run.run().map(|()| run.metrics)
    }));
    let failure = match outcome {
        Ok(Ok(metrics)) => return Ok(metrics),
        Ok(Err(failure)) => failure,
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(text) => format!("panicked: {text}"),
            None => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        },
    };
    Err(format!("TALLYMESH_SEED={seed}: {failure}"))
}
