//! The reachable states of the replicas of a configuration. Each different state of a single replica is
//! stored once, and each call of the core is made once.
//!
//! Millions of states of the whole combine a few states of single replicas. So single states are stored and
//! numbered, and a state of the whole is a handful of numbers. The effect of a step on a replica depends on
//! that replica alone, and on the message. Hence the step runs on the real core the first time only, and its
//! result is stored.

use super::Local;
use super::configs::Config;
use crate::oracle::{Call, Issue, Key, Kind, Oracle, View};
use crate::search::{MessageId, NodeId, State};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::{Encode, Message, Replica, Space, VersionVector, WriterId};

/// The number of a transaction. A transaction has a greater number than those that it saw.
type TxnId = u32;
/// The number of a set of transactions that a replica can see.
type CutId = u32;
/// The identity of a single replica's state: its place, its time, its cut, and the digest of its bytes.
type NodeKey = (u8, u8, CutId, u128);

/// A map that never iterates.
type Map<K, V> = HashMap<K, V, FixedState>;

struct Node {
    replica: Replica,
    who: u8,
    /// How many times its clock has passed.
    time: u8,
    cut: CutId,
    /// The digest of its canonical bytes.
    bytes: u128,
}

struct Txn {
    writer: WriterId,
    clock: u64,
    /// The vector of its issuer before it.
    before: VersionVector,
    issued: Vec<(Key, Issue)>,
}

struct Sent {
    message: Message,
    from: u8,
    /// The vector that a receiver must cover.
    lo: VersionVector,
    /// The receiver's vector after the merge.
    hi: VersionVector,
    cut: CutId,
}

/// All states of single replicas that the search met.
pub(super) struct World<'a> {
    config: &'a Config,
    keys: Vec<String>,
    nodes: Vec<Node>,
    node_ids: Map<NodeKey, NodeId>,
    txns: Vec<Txn>,
    txn_ids: Map<(u8, u8, CutId, Local), TxnId>,
    cuts: Vec<Vec<TxnId>>,
    cut_ids: Map<Vec<TxnId>, CutId>,
    /// The digest of the bytes of replicas that see a cut.
    cut_bytes: Map<CutId, u128>,
    sent: Vec<Sent>,
    sent_ids: Map<(u128, CutId), MessageId>,
    performed: Map<(NodeId, Local), NodeId>,
    snapshots: Map<(NodeId, CutId), MessageId>,
    delivered: Map<(NodeId, MessageId), NodeId>,
    executed: usize,
}

impl<'a> World<'a> {
    /// The replicas at the start of a configuration.
    pub(super) fn new(config: &'a Config) -> Result<(World<'a>, State), String> {
        let mut world = World {
            config,
            keys: (0..config.keys).map(|key| format!("key {key}")).collect(),
            nodes: Vec::new(),
            node_ids: Map::default(),
            txns: Vec::new(),
            txn_ids: Map::default(),
            cuts: Vec::new(),
            cut_ids: Map::default(),
            cut_bytes: Map::default(),
            sent: Vec::new(),
            sent_ids: Map::default(),
            performed: Map::default(),
            snapshots: Map::default(),
            delivered: Map::default(),
            executed: 0,
        };
        let nothing = world.cut(Vec::new());
        let mut nodes = Vec::new();
        for who in 0..config.replicas as u8 {
            let replica = Replica::new(Space::default(), writer(who));
            nodes.push(world.node(replica, who, 0, nothing)?);
        }
        let first = config.alphabet.len();
        for txn in first..first + config.start.len() {
            nodes[0] = world.perform(nodes[0], Local::Transact(txn as u8))?;
        }
        let message = world.snapshot(nodes[0], None)?;
        for node in &mut nodes[1..] {
            *node = world.deliver(*node, message)?;
        }
        Ok((world, State::new(&nodes)))
    }

    /// Number of states of single replicas that the search met.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of calls of the core.
    pub(super) fn executed(&self) -> usize {
        self.executed
    }

    /// Number of transactions that the replica made.
    pub(super) fn transactions_of(&self, node: NodeId) -> usize {
        self.nodes[node as usize].replica.clock() as usize
    }

    /// Number of steps of its clock.
    pub(super) fn passes_of(&self, node: NodeId) -> usize {
        usize::from(self.nodes[node as usize].time)
    }

    /// Performs a step that a replica takes by itself, and returns its state after it.
    pub(super) fn perform(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        if let Some(&after) = self.performed.get(&(node, step)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = match step {
            Local::Pass => self.pass(node),
            Local::Transact(_) | Local::Materialize(_) => self.write(node, step),
        }?;
        self.performed.insert((node, step), after);
        Ok(after)
    }

    /// Makes the message of a replica: the part that the other lacks, or everything.
    pub(super) fn snapshot(
        &mut self,
        node: NodeId,
        to: Option<NodeId>,
    ) -> Result<MessageId, String> {
        let from = &self.nodes[node as usize];
        // A cut has one vector. Without a receiver it is the empty cut.
        let (lo, since) = match to.map(|to| &self.nodes[to as usize]) {
            Some(to) => (to.replica.vector(), to.cut),
            None => (VersionVector::default(), 0),
        };
        if let Some(&message) = self.snapshots.get(&(node, since)) {
            return Ok(message);
        }
        self.executed += 1;
        let (cut, hi) = (from.cut, from.replica.vector());
        let bytes = guarded(|| from.replica.delta(&lo).encode())?;
        let message = guarded(|| Message::decode(&bytes))?
            .map_err(|error| format!("a message of ours does not decode: {error}"))?;
        if message.encode() != bytes {
            return Err("a decoded message encodes to other bytes".into());
        }
        let id = match self.sent_ids.get(&(digest(&bytes), cut)) {
            Some(&id) => id,
            None => {
                let who = from.who;
                self.sent.push(Sent {
                    message,
                    from: who,
                    lo,
                    hi,
                    cut,
                });
                let id = self.sent.len() as MessageId - 1;
                self.sent_ids.insert((digest(&bytes), cut), id);
                id
            }
        };
        self.snapshots.insert((node, since), id);
        Ok(id)
    }

    /// Delivers a message to a replica, and returns its state after it.
    pub(super) fn deliver(&mut self, node: NodeId, message: MessageId) -> Result<NodeId, String> {
        if let Some(&after) = self.delivered.get(&(node, message)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = self.merge(node, message)?;
        self.delivered.insert((node, message), after);
        Ok(after)
    }

    /// Whether two replicas see the same operations and have the same bytes.
    pub(super) fn same(&self, a: NodeId, b: NodeId) -> Result<(), String> {
        let [a, b] = [a, b].map(|id| &self.nodes[id as usize]);
        if a.cut != b.cut {
            let [a, b] = [a, b].map(|node| node.replica.vector());
            return Err(format!("after all deliveries one sees {a:?}, one {b:?}"));
        }
        if a.bytes != b.bytes {
            return Err("after all deliveries the bytes differ".into());
        }
        Ok(())
    }

    fn now(&self, time: u8) -> u64 {
        match time {
            0 => 0,
            _ => self.config.times[usize::from(time) - 1],
        }
    }

    fn pass(&mut self, node: NodeId) -> Result<NodeId, String> {
        let from = &self.nodes[node as usize];
        let (who, time, cut) = (from.who, from.time + 1, from.cut);
        if usize::from(time) > self.config.times.len() {
            return Ok(node);
        }
        let mut replica = from.replica.clone();
        guarded(|| replica.set_time(self.now(time)))?;
        self.adopt(replica, who, time, cut)
    }

    /// Makes a transaction, or deletes an expired counter.
    fn write(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        let from = &self.nodes[node as usize];
        let (who, time, cut) = (from.who, from.time, from.cut);
        let (writer, before) = (from.replica.writer(), from.replica.vector());
        let now = self.now(time);
        let mut replica = from.replica.clone();
        let (mut oracle, mut view) = self.oracle(cut, &before)?;
        let (made, issued) = match step {
            Local::Materialize(key) => {
                let key = Key::from(key);
                let made = guarded(|| oracle.materialize(&mut view, &mut replica, now, key))??;
                (made, vec![(key, Kind::Delete.into())])
            }
            Local::Transact(number) => {
                let ops = self.config.transaction(number, who, replica.clock());
                let plan = oracle.plan(&view, writer, now, &ops);
                let issued = plan.map_or(Vec::new(), |plan| plan.issued);
                let call = Call::Single;
                let made = guarded(|| oracle.transact(&mut view, &mut replica, now, &ops, call))??;
                (made, issued)
            }
            Local::Pass => (false, Vec::new()),
        };
        if !made {
            return Ok(node);
        }
        let clock = replica.clock();
        let txn = *self
            .txn_ids
            .entry((who, time, cut, step))
            .or_insert_with(|| {
                self.txns.push(Txn {
                    writer,
                    clock,
                    before,
                    issued,
                });
                self.txns.len() as TxnId - 1
            });
        let mut txns = self.cuts[cut as usize].clone();
        txns.push(txn);
        let cut = self.cut(txns);
        self.adopt(replica, who, time, cut)
    }

    fn merge(&mut self, node: NodeId, message: MessageId) -> Result<NodeId, String> {
        let (to, sent) = (&self.nodes[node as usize], &self.sent[message as usize]);
        let (who, time) = (to.who, to.time);
        let held = to.replica.vector();
        let below = |(writer, lo): (_, u64)| lo.min(sent.hi.get(&writer)) <= held.get(&writer);
        let covered = sent.lo.iter().all(below);
        let mut replica = to.replica.clone();
        match guarded(|| replica.merge(&sent.message))? {
            Ok(merged) => {
                if !covered {
                    return Err("a message was merged whose base is missing".into());
                }
                if merged.new == held.covers(&sent.hi) {
                    return Err(format!("the merge says new: {}", merged.new));
                }
                let mut txns = self.cuts[to.cut as usize].clone();
                txns.extend(&self.cuts[sent.cut as usize]);
                txns.sort_unstable();
                txns.dedup();
                let cut = self.cut(txns);
                self.adopt(replica, who, time, cut)
            }
            Err(error) if covered => Err(format!("a message was refused: {error}")),
            Err(error) if error.code() != "not_covered" => {
                Err(format!("a message whose base is missing gave {error}"))
            }
            Err(_) => {
                if digest(&replica.canonical_bytes()) != to.bytes {
                    return Err("a message that was refused changed the replica".into());
                }
                Ok(node)
            }
        }
    }

    /// Checks a replica that changed, and numbers it.
    fn adopt(&mut self, replica: Replica, who: u8, time: u8, cut: CutId) -> Result<NodeId, String> {
        let (oracle, view) = self.oracle(cut, &replica.vector())?;
        guarded(|| oracle.check(&view, &replica, self.now(time)))??;
        if view.seen().len() != self.ops_of(cut) {
            return Err("its vector claims other operations than reached it".into());
        }
        self.node(replica, who, time, cut)
    }

    fn ops_of(&self, cut: CutId) -> usize {
        let txns = self.cuts[cut as usize].iter();
        txns.map(|txn| self.txns[*txn as usize].issued.len()).sum()
    }

    /// An oracle of the operations in a cut, and the view of a replica that sees the cut and claims this
    /// vector.
    fn oracle(&self, cut: CutId, claimed: &VersionVector) -> Result<(Oracle, View), String> {
        let mut oracle = Oracle::new(self.keys.clone());
        for txn in &self.cuts[cut as usize] {
            let txn = &self.txns[*txn as usize];
            let mut view = View::default();
            oracle.learn(&mut view, txn.before.iter())?;
            oracle.issue(&mut view, (txn.writer, txn.clock), &txn.issued)?;
        }
        let mut view = View::default();
        oracle.learn(&mut view, claimed.iter())?;
        Ok((oracle, view))
    }

    fn cut(&mut self, txns: Vec<TxnId>) -> CutId {
        let next = self.cuts.len() as CutId;
        let id = *self.cut_ids.entry(txns.clone()).or_insert(next);
        if id == next {
            self.cuts.push(txns);
        }
        id
    }

    fn node(&mut self, replica: Replica, who: u8, time: u8, cut: CutId) -> Result<NodeId, String> {
        let bytes = digest(&guarded(|| replica.canonical_bytes())?);
        if *self.cut_bytes.entry(cut).or_insert(bytes) != bytes {
            return Err("another replica that saw the same has other bytes".into());
        }
        let next = self.nodes.len() as NodeId;
        let id = *self.node_ids.entry((who, time, cut, bytes)).or_insert(next);
        if id == next {
            self.nodes.push(Node {
                replica,
                who,
                time,
                cut,
                bytes,
            });
        }
        Ok(id)
    }

    /// Describes a step in words.
    pub(super) fn describe(&self, node: NodeId, step: Local) -> String {
        let node = &self.nodes[node as usize];
        match step {
            Local::Transact(number) => {
                let clock = node.replica.clock();
                let ops = self.config.transaction(number, node.who, clock);
                let ops = ops.iter().map(|(key, op)| format!("{op:?} on key {key}"));
                format!(
                    "{} at clock {}",
                    ops.collect::<Vec<_>>().join(", "),
                    clock + 1
                )
            }
            Local::Pass => format!("its clock shows {}", self.now(node.time + 1)),
            Local::Materialize(key) => format!("deletes key {key} if it has expired"),
        }
    }

    /// Describes a message in words.
    pub(super) fn describe_message(&self, message: MessageId) -> String {
        let sent = &self.sent[message as usize];
        let text = |vector: &VersionVector| {
            let clocks = (0..self.config.replicas as u8).map(|who| vector.get(&writer(who)));
            clocks.map(|c| c.to_string()).collect::<Vec<_>>().join(" ")
        };
        let (lo, hi) = (text(&sent.lo), text(&sent.hi));
        format!(
            "what replica {} sent at clocks {hi} to one at {lo}",
            sent.from
        )
    }
}

/// The fixed writer id of a replica.
fn writer(who: u8) -> WriterId {
    WriterId::from_bytes([who + 1; 16])
}

/// A digest of 128 bits, by which equal bytes are recognised.
fn digest<T: Hash + ?Sized>(of: &T) -> u128 {
    let half = |seed| u128::from(FixedState::with_seed(seed).hash_one(of));
    half(3) << 64 | half(4)
}

/// Calls the core. A panic becomes an error, so that the steps that lead to it are reported.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        format!("panic: {}", text.unwrap_or_default())
    })
}
