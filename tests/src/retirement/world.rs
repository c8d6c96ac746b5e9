//! The reachable states of the replicas of a configuration. Each different state of a single replica is
//! stored once, and each call of the core is made once.

use super::Local;
use super::calls::writer;
use super::configs::Config;
use crate::oracle::{Call, Dot, Issue, Key, OnceId};
use crate::search::{MessageId, NodeId};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::explore::local_text;
use tallymesh_core::{
    AdmissionError, Again, Configuration, Encode, Error, Flow, MergeError, Message, Replica, Space,
    VersionVector, WriterId,
};

/// The clock of a replica that ends a counter which others see alive: it is wrong by any amount.
const FAR: u64 = 1 << 50;

/// The number of a transaction. A transaction has a greater number than those that it saw.
pub(super) type TxnId = u32;
/// The number of a set of transactions that a replica can see.
pub(super) type CutId = u32;

/// A map that never iterates.
type Map<K, V> = HashMap<K, V, FixedState>;

/// Number of actions of one place so far, over all its incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Counts {
    pub(super) ops: u8,
    pub(super) acks: u8,
    pub(super) leaves: u8,
    pub(super) fences: u8,
    pub(super) restarts: u8,
    /// How often a tab rejoined.
    pub(super) returns: u8,
    pub(super) proposals: u8,
    /// How often its clock moved on.
    pub(super) passes: u8,
}

impl Counts {
    /// Number of earlier writers of this place.
    pub(super) fn starts(&self) -> u8 {
        self.restarts + self.returns
    }
}

pub(super) struct Node {
    pub(super) replica: Replica,
    /// The place of the replica.
    pub(super) at: u8,
    pub(super) counts: Counts,
    pub(super) cut: CutId,
    /// Digest of its canonical bytes. `local` is the digest of its private state.
    pub(super) bytes: u128,
    local: u128,
}

pub(super) struct Txn {
    pub(super) writer: WriterId,
    pub(super) clock: u64,
    pub(super) before: CutId,
    pub(super) did: Did,
}

/// The effects of a transaction.
#[derive(Default)]
pub(super) struct Did {
    /// Its operations on counters. Empty if it changes none.
    pub(super) issued: Vec<(Key, Issue)>,
    /// Its operation on the budget.
    pub(super) flow: Option<Flow>,
    /// The writers that it retired, each up to this clock.
    pub(super) retires: Vec<(WriterId, u64)>,
    /// The configuration that took effect with it.
    pub(super) decides: Option<Configuration>,
    /// The original, if it is a replayed transaction.
    pub(super) again: Option<Remade>,
    /// Its idempotency key.
    pub(super) once: Option<OnceId>,
    /// The transactions that it withdraws, each with the counter of the withdrawn adds.
    pub(super) withdraws: Vec<(String, Dot)>,
}

/// A replayed transaction.
pub(super) struct Remade {
    pub(super) again: Again,
    pub(super) original: TxnId,
    /// The time of the clock, in milliseconds.
    pub(super) now: u64,
}

struct Sent {
    message: Message,
    from: u8,
    /// The sender's state.
    node: NodeId,
    writer: WriterId,
    lo: VersionVector,
    hi: VersionVector,
    /// The vector that a member has as stable.
    settled: VersionVector,
    cut: CutId,
}

/// The identity of a single replica's state: its writer, its counts, its cut, and the digests of its bytes
/// and of its private state.
type NodeKey = (WriterId, Counts, CutId, u128, u128);

/// The identity of a transaction: its writer, its clock, the cut before it, and its step.
type TxnKey = (WriterId, u64, CutId, Step);

/// The cause of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// A local action, with the number of steps of its clock so far.
    Local(Local, u8),
    /// The admission of the sender of a message.
    Admission(WriterId),
    Withdrawal,
    Again(TxnId),
}

/// All states of single replicas that the search met.
pub(super) struct World<'a> {
    pub(super) config: &'a Config,
    pub(super) keys: Vec<String>,
    nodes: Vec<Node>,
    node_ids: Map<NodeKey, NodeId>,
    pub(super) txns: Vec<Txn>,
    txn_ids: Map<TxnKey, TxnId>,
    pub(super) cuts: Vec<Vec<TxnId>>,
    cut_ids: Map<Vec<TxnId>, CutId>,
    sent: Vec<Sent>,
    sent_ids: Map<(u128, CutId), MessageId>,
    performed: Map<(NodeId, Local), NodeId>,
    snapshots: Map<(NodeId, Option<NodeId>), MessageId>,
    delivered: Map<(NodeId, MessageId, bool), NodeId>,
    pub(super) returned: Map<(NodeId, NodeId), NodeId>,
    pub(super) executed: usize,
    /// Messages rejected, by the code of the error.
    refused: BTreeMap<&'static str, usize>,
}

impl<'a> World<'a> {
    /// The world, and a new replica for each place.
    pub(super) fn new(config: &'a Config) -> Result<(World<'a>, Vec<NodeId>), String> {
        let mut world = World {
            config,
            keys: (0..config.keys).map(|key| format!("key {key}")).collect(),
            nodes: Vec::new(),
            node_ids: Map::default(),
            txns: Vec::new(),
            txn_ids: Map::default(),
            cuts: Vec::new(),
            cut_ids: Map::default(),
            sent: Vec::new(),
            sent_ids: Map::default(),
            performed: Map::default(),
            snapshots: Map::default(),
            delivered: Map::default(),
            returned: Map::default(),
            executed: 0,
            refused: BTreeMap::new(),
        };
        let nothing = world.cut(Vec::new());
        let mut nodes = Vec::new();
        for at in 0..config.replicas() as u8 {
            let replica = Replica::new(Space::default(), writer(config, at, 0));
            nodes.push(world.adopt(replica, at, Counts::default(), nothing)?);
        }
        Ok((world, nodes))
    }

    pub(super) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node as usize]
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn executed(&self) -> usize {
        self.executed
    }

    pub(super) fn refused(&self) -> &BTreeMap<&'static str, usize> {
        &self.refused
    }

    /// Performs an action of a replica by itself, and returns its state after it. It is the same state if the
    /// action changes nothing.
    pub(super) fn perform(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        if let Some(&after) = self.performed.get(&(node, step)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = match step {
            Local::Transact(_) | Local::Materialize(_) | Local::Expire(_) => self.write(node, step),
            Local::Restart(from) => self.restart(node, from),
            Local::Flow(number) => self.flow(node, number),
            _ => self.tend(node, step),
        }?;
        self.performed.insert((node, step), after);
        Ok(after)
    }

    /// Makes a transaction, or deletes an expired counter.
    fn write(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        let from = &self.nodes[node as usize];
        let (at, mut counts, cut) = (from.at, from.counts, from.cut);
        let mut replica = from.replica.clone();
        let now = self.now(&counts);
        let (mut oracle, mut view) = self.oracle(cut)?;
        let mut once = None;
        let (made, issued) = match step {
            Local::Materialize(key) | Local::Expire(key) => {
                let key = Key::from(key);
                let early = matches!(step, Local::Expire(_));
                let now = if early { FAR } else { now };
                let ended = guarded(|| oracle.end_expired(&mut view, &mut replica, now, key))??;
                replica.set_time(self.now(&counts));
                counts.ops += u8::from(early && ended.is_some());
                (
                    ended.is_some(),
                    ended.map(|it| (key, it)).into_iter().collect(),
                )
            }
            Local::Transact(number) => {
                let ops = self.config.transaction(number, at, counts.ops + 1);
                let plan = oracle.plan_for(&view, &replica, now, &ops)?;
                let issued = plan.map_or(Vec::new(), |plan| plan.issued);
                once = self.config.key(number);
                if let Some(once) = once
                    && !oracle.ask(&view, &replica, once)?
                {
                    return Ok(node);
                }
                let call = once.map_or(Call::Single, Call::Once);
                let made = guarded(|| oracle.transact(&mut view, &mut replica, now, &ops, call))??;
                // Those of the start are not counted.
                let counts_it = usize::from(number) < self.config.alphabet.len();
                counts.ops += u8::from(made && counts_it);
                (made, issued)
            }
            _ => (false, Vec::new()),
        };
        if !made {
            return Ok(node);
        }
        let did = Did {
            issued,
            once,
            ..Did::default()
        };
        let stamp = (replica.writer(), replica.clock());
        let cut = self.made(stamp, cut, Step::Local(step, counts.passes), did);
        self.adopt(replica, at, counts, cut)
    }

    /// A replica that has merged a message withdraws duplicates.
    pub(super) fn withdraw(&mut self, replica: &mut Replica, cut: CutId) -> Result<CutId, String> {
        let mut withdrawn = Vec::new();
        let done = guarded(|| {
            replica
                .keyed_mut()
                .withdraw(&mut |handle, dot| withdrawn.push((handle, dot)))
        })?;
        if !done.map_err(|error| error.to_string())? {
            return Ok(cut);
        }
        let name = |handle| replica.key(handle).unwrap_or_default().to_owned();
        let withdraws = withdrawn.iter().map(|&(handle, dot)| (name(handle), dot));
        let did = Did {
            withdraws: withdraws.collect(),
            ..Did::default()
        };
        let stamp = (replica.writer(), replica.clock());
        Ok(self.made(stamp, cut, Step::Withdrawal, did))
    }

    /// The time of a replica's wall clock, in milliseconds.
    pub(super) fn now(&self, counts: &Counts) -> u64 {
        match counts.passes {
            0 => 0,
            passes => self.config.times[usize::from(passes) - 1],
        }
    }

    /// Makes the message of a replica: the part that the other lacks, or everything.
    pub(super) fn snapshot(
        &mut self,
        node: NodeId,
        to: Option<NodeId>,
    ) -> Result<MessageId, String> {
        if let Some(&message) = self.snapshots.get(&(node, to)) {
            return Ok(message);
        }
        self.executed += 1;
        let from = &self.nodes[node as usize];
        let lo = to.map_or(VersionVector::default(), |to| {
            self.nodes[to as usize].replica.vector()
        });
        let bytes = guarded(|| from.replica.delta(&lo).encode())?;
        let message = guarded(|| Message::decode(&bytes))?
            .map_err(|error| format!("a message of ours does not decode: {error}"))?;
        if message.encode() != bytes {
            return Err("a decoded message encodes to other bytes".into());
        }
        let settled = match from.replica.members().is_member() {
            true => from.replica.members().stable(),
            false => VersionVector::default(),
        };
        let told: Vec<_> = settled.iter().collect();
        let key = (digest(&(from.replica.writer(), bytes, told)), from.cut);
        let next = self.sent.len() as MessageId;
        let id = *self.sent_ids.entry(key).or_insert(next);
        if id == next {
            self.sent.push(Sent {
                message,
                from: from.at,
                node,
                writer: from.replica.writer(),
                lo,
                hi: from.replica.vector(),
                settled,
                cut: from.cut,
            });
        }
        self.snapshots.insert((node, to), id);
        Ok(id)
    }

    /// Delivers a message to a replica, and returns its state after it. If `live`, the message comes in a
    /// session of its sender. Else another replica passes it on.
    pub(super) fn deliver(
        &mut self,
        node: NodeId,
        message: MessageId,
        live: bool,
    ) -> Result<NodeId, String> {
        if let Some(&after) = self.delivered.get(&(node, message, live)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = self.merge(node, message, live)?;
        self.delivered.insert((node, message, live), after);
        Ok(after)
    }

    /// The sender of a message: its place and its state.
    pub(super) fn sender(&self, message: MessageId) -> (u8, NodeId) {
        let sent = &self.sent[message as usize];
        (sent.from, sent.node)
    }

    /// The error with which a replica rejects a message.
    pub(super) fn refusal(
        &self,
        node: NodeId,
        message: MessageId,
        live: bool,
    ) -> Option<&'static str> {
        let sent = &self.sent[message as usize];
        let mut replica = self.nodes[node as usize].replica.clone();
        let live = live.then_some(sent.writer);
        let merged = replica.merge_with(&sent.message, live, &mut |_| ());
        merged.err().map(|error| error.code())
    }

    fn merge(&mut self, node: NodeId, message: MessageId, live: bool) -> Result<NodeId, String> {
        let (to, sent) = (&self.nodes[node as usize], &self.sent[message as usize]);
        let (at, counts) = (to.at, to.counts);
        let mut replica = to.replica.clone();
        let before = replica.clock();
        let live = live.then_some(sent.writer);
        match guarded(|| replica.merge_with(&sent.message, live, &mut |_| ()))? {
            Ok(merged) => {
                let mut txns = self.cuts[sent.cut as usize].clone();
                if !merged.replaced {
                    txns.extend(&self.cuts[to.cut as usize]);
                }
                txns.sort_unstable();
                txns.dedup();
                if !replica.members().is_member() {
                    guarded(|| replica.members_mut().accept_stable(&sent.settled, &sent.hi))?;
                }
                let step = Step::Admission(sent.writer);
                let mut cut = self.cut(txns);
                if replica.clock() > before {
                    let stamp = (replica.writer(), replica.clock());
                    cut = self.made(stamp, cut, step, Did::default());
                }
                cut = self.withdraw(&mut replica, cut)?;
                self.adopt(replica, at, counts, cut)
            }
            Err(error) => {
                *self.refused.entry(error.code()).or_default() += 1;
                match error {
                    Error::Merge(MergeError::NotCovered(_))
                    | Error::Admission(
                        AdmissionError::Stranger { .. }
                        | AdmissionError::Behind
                        | AdmissionError::Outdated
                        | AdmissionError::Gone { .. }
                        | AdmissionError::Retired,
                    ) => {}
                    _ => return Err(format!("a message was refused: {error}")),
                }
                let same = digest(&replica.canonical_bytes()) == to.bytes
                    && digest(&local_text(&replica)) == to.local;
                match same {
                    true => Ok(node),
                    false => Err(format!("a refused message ({error}) changed the replica")),
                }
            }
        }
    }

    /// Adds a transaction after a cut, and returns the cut with it.
    pub(super) fn made(
        &mut self,
        (writer, clock): (WriterId, u64),
        before: CutId,
        step: Step,
        did: Did,
    ) -> CutId {
        let next = self.txns.len() as TxnId;
        let key = (writer, clock, before, step);
        let id = *self.txn_ids.entry(key).or_insert(next);
        if id == next {
            self.txns.push(Txn {
                writer,
                clock,
                before,
                did,
            });
        }
        let mut txns = self.cuts[before as usize].clone();
        txns.push(id);
        self.cut(txns)
    }

    fn cut(&mut self, txns: Vec<TxnId>) -> CutId {
        let next = self.cuts.len() as CutId;
        let id = *self.cut_ids.entry(txns.clone()).or_insert(next);
        if id == next {
            self.cuts.push(txns);
        }
        id
    }

    /// Checks a replica that changed, and numbers it.
    pub(super) fn adopt(
        &mut self,
        replica: Replica,
        at: u8,
        counts: Counts,
        cut: CutId,
    ) -> Result<NodeId, String> {
        let (oracle, view) = self.oracle(cut)?;
        let now = self.now(&counts);
        guarded(|| oracle.check(&view, &replica, now))??;
        self.check_budget(cut, &replica)?;
        self.check_decided(cut)?;
        let held: BTreeMap<WriterId, u64> = replica.writers().collect();
        let txns = &self.cuts[cut as usize];
        let retired = |writer: &WriterId| {
            let mut txns = txns.iter().map(|txn| &self.txns[*txn as usize]);
            txns.any(|txn| txn.did.retires.iter().any(|it| it.0 == *writer))
        };
        for (writer, clock) in self.clocks(cut) {
            match held.get(&writer) {
                Some(held) if *held == clock => {}
                None if retired(&writer) => {}
                held => return Err(format!("it holds {held:?} of {writer}, and saw {clock}")),
            }
        }
        if let Some(fault) = replica.forks().faults().first() {
            return Err(format!("a fault: {fault:?}"));
        }
        let bytes = digest(&guarded(|| replica.canonical_bytes())?);
        let local = digest(&local_text(&replica));
        let next = self.nodes.len() as NodeId;
        let key = (replica.writer(), counts, cut, bytes, local);
        let id = *self.node_ids.entry(key).or_insert(next);
        if id == next {
            self.nodes.push(Node {
                replica,
                at,
                counts,
                cut,
                bytes,
                local,
            });
        }
        Ok(id)
    }

    /// Describes an action in words.
    pub(super) fn describe(&self, node: NodeId, step: Local) -> String {
        let Node { at, counts, .. } = &self.nodes[node as usize];
        match step {
            Local::Transact(number) => {
                let ops = self.config.transaction(number, *at, counts.ops + 1);
                let ops = ops.iter().map(|(key, op)| format!("{op:?} on key {key}"));
                ops.collect::<Vec<_>>().join(", ")
            }
            Local::Flow(number) => format!("{:?}", self.config.flows[usize::from(number)]),
            Local::Restart(from) if from == node => "starts again".into(),
            Local::Restart(from) => {
                let clock = self.nodes[from as usize].replica.clock();
                format!("starts again as it was at its clock {clock}")
            }
            Local::Fence(other, number) => format!("declares {other} (start {number}) dead"),
            Local::Propose(number) => {
                let members = &self.config.proposals[usize::from(number)];
                format!("proposes {members:?} as members")
            }
            Local::Pass => format!("its clock moves past {}", self.now(counts)),
            Local::Materialize(key) => format!("ends key {key} if it has expired"),
            Local::Expire(key) => format!("ends key {key} if it has an expiry"),
            other => format!("{other:?}"),
        }
    }

    /// Describes a message in words.
    pub(super) fn describe_message(&self, message: MessageId) -> String {
        let sent = &self.sent[message as usize];
        let text = |vector: &VersionVector| {
            let clocks = vector
                .iter()
                .map(|(writer, clock)| format!("{}@{clock}", &writer.to_string()[..4]));
            clocks.collect::<Vec<_>>().join(" ")
        };
        let (lo, hi) = (text(&sent.lo), text(&sent.hi));
        let name = &sent.writer.to_string()[..4];
        format!(
            "what {} ({name}) sent at [{hi}] to one at [{lo}]",
            sent.from
        )
    }
}

/// A digest of 128 bits, by which equal values are recognised.
fn digest<T: Hash + ?Sized>(of: &T) -> u128 {
    let half = |seed| u128::from(FixedState::with_seed(seed).hash_one(of));
    half(3) << 64 | half(4)
}

/// Calls the core. A panic becomes an error, so that the steps that lead to it are reported.
pub(super) fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        format!("panic: {}", text.unwrap_or_default())
    })
}
