//! The reachable states of single replicas. Each is stored once, and each call of the core is made once.

use super::configs::{Config, Places};
use super::digest;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use tallymesh_core::explore::local_text;
use tallymesh_core::{
    Encode, Error, Limit, Mark, Message, Owner, Predecessor, Replica, Space, VersionVector,
    WriterId,
};

/// The number of a state of a single replica.
pub(super) type NodeId = u32;

/// An action of a replica by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Local {
    Tend,
    Announce,
    /// Proposes the members with a limit. Each number is another one.
    Propose(u8),
    Write,
    /// Ends, and starts again in its place.
    Restart,
    /// The same, from the state in which it was at the start.
    PutBack,
    /// The same, from nothing.
    Wipe,
}

pub(super) struct Node {
    pub(super) replica: Replica,
    pub(super) at: u8,
    /// How many starts of the member there were.
    starts: u8,
    /// The start that this one claims to follow, until it has announced itself.
    claim: Option<Predecessor>,
    /// Whether its disk was put back or replaced, or its state was dropped.
    pub(super) lost: bool,
}

impl Node {
    /// Whether it has not announced itself yet.
    pub(super) fn is_early(&self) -> bool {
        !self.replica.members().is_announced()
    }

    /// The start that a next one in this place may follow.
    fn leaves(&self) -> Option<Predecessor> {
        let members = self.replica.members();
        let only = members.only_start(&owner(self.at));
        if self.is_early() {
            return self.claim.filter(|it| only == Some(*it));
        }
        let may = members.follows() || members.has_vote();
        only.filter(|it| may && it.writer == self.replica.writer())
    }
}

/// Something that has happened for good.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fact {
    /// The configuration of this era and number.
    Decided((u64, u64)),
    /// What a member accepted on this number, under this ballot.
    Accepted(Owner, (u64, u64), (u64, Owner)),
    /// A write was made at this member.
    Wrote,
    /// It was acknowledged by a quorum.
    Acknowledged,
}

/// The content of a fact: what was decided or accepted, or the write's place and transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Ruling(String),
    Write(u8, WriterId, u64),
}

pub(super) type History = BTreeMap<Fact, What>;

type Map<K, V> = HashMap<K, V, FixedState>;

pub(super) struct World<'a> {
    pub(super) config: &'a Config,
    nodes: Vec<Node>,
    node_ids: Map<u128, NodeId>,
    performed: Map<(NodeId, Local), NodeId>,
    pulled: Map<(NodeId, NodeId), NodeId>,
    histories: Vec<History>,
    history_ids: Map<History, u32>,
    /// The states at the start.
    pub(super) first: Vec<NodeId>,
    executed: usize,
}

impl<'a> World<'a> {
    pub(super) fn new(config: &'a Config) -> World<'a> {
        let mut world = World {
            config,
            nodes: Vec::new(),
            node_ids: Map::default(),
            performed: Map::default(),
            pulled: Map::default(),
            histories: Vec::new(),
            history_ids: Map::default(),
            first: Vec::new(),
            executed: 0,
        };
        world.history(History::new());
        world
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

    pub(super) fn facts(&self, history: u32) -> &History {
        &self.histories[history as usize]
    }

    pub(super) fn wrote(&self, history: u32) -> bool {
        self.facts(history).contains_key(&Fact::Wrote)
    }

    /// The number of a history.
    pub(super) fn history(&mut self, facts: History) -> u32 {
        let next = self.histories.len() as u32;
        let id = *self.history_ids.entry(facts.clone()).or_insert(next);
        if id == next {
            self.histories.push(facts);
        }
        id
    }

    pub(super) fn adopt(&mut self, node: Node) -> NodeId {
        let text = local_text(&node.replica);
        let bytes = node.replica.canonical_bytes();
        let claim = node.claim.map(|it| (*it.writer.as_bytes(), it.clock));
        let key = digest(&(bytes, text, node.at, node.starts, claim, node.lost));
        let next = self.nodes.len() as NodeId;
        let id = *self.node_ids.entry(key).or_insert(next);
        if id == next {
            self.nodes.push(node);
        }
        id
    }

    /// A replica of a member's first start.
    pub(super) fn beginner(&mut self, at: u8) -> NodeId {
        let replica = Replica::new(Space::default(), writer(at, 0));
        self.adopt(Node {
            replica,
            at,
            starts: 0,
            claim: None,
            lost: false,
        })
    }

    /// The member of place 0 founds the space.
    pub(super) fn found(&mut self, node: NodeId) -> Result<NodeId, String> {
        let owners: Vec<Owner> = (0..self.config.members as u8).map(owner).collect();
        self.change(node, |replica| {
            replica.members_mut().found(&owner(0), &nonce(0, 0), 1)?;
            replica.members_mut().force(&owners)
        })
    }

    fn change(
        &mut self,
        node: NodeId,
        change: impl FnOnce(&mut Replica) -> Result<(), Error>,
    ) -> Result<NodeId, String> {
        self.executed += 1;
        let from = &self.nodes[node as usize];
        let mut replica = from.replica.clone();
        change(&mut replica).map_err(|error| format!("member {}: {error}", from.at))?;
        let claim = from.claim.filter(|_| !replica.members().is_announced());
        let (at, starts, lost) = (from.at, from.starts, from.lost);
        Ok(self.adopt(Node {
            replica,
            at,
            starts,
            claim,
            lost,
        }))
    }

    /// Collects once, so that the starts that all have acknowledged are certain.
    pub(super) fn collect(&mut self, node: NodeId) -> Result<NodeId, String> {
        self.change(node, |replica| {
            let mut mark = Mark::default();
            replica.since(&mut mark);
            replica.members_mut().collect(&mark);
            Ok(())
        })
    }

    /// Performs an action of a replica by itself.
    pub(super) fn perform(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        if let Some(&after) = self.performed.get(&(node, step)) {
            return Ok(after);
        }
        let Node {
            at, starts, claim, ..
        } = self.nodes[node as usize];
        let after = match step {
            Local::Tend => self.change(node, tend),
            Local::Announce => {
                let named = self.node(node).replica.members().configuration();
                match named.is_some_and(|it| it.has(&owner(at))) {
                    false => Ok(node),
                    true => self.change(node, |replica| {
                        let nonce = nonce(at, starts);
                        let time = u64::from(starts) + 1;
                        let mut members = replica.members_mut();
                        members.announce_after(&owner(at), &nonce, time, claim)
                    }),
                }
            }
            Local::Propose(number) => {
                let limit = Limit {
                    name: "asked".into(),
                    limit: u64::from(number) + 1,
                    period_ms: 1_000,
                    since: 0,
                };
                match self.node(node).replica.members().is_member() {
                    true => self.change(node, |it| it.quota_mut().propose_limits(&[limit])),
                    false => Ok(node),
                }
            }
            Local::Write => self.change(node, |it| it.add("written", 1).map(|_| ())),
            Local::Restart => self.restart(node, node, false),
            Local::PutBack => {
                let first = self.first[usize::from(at)];
                self.restart(node, first, true)
            }
            Local::Wipe => Ok(self.start(at, starts + 1, None)),
        }?;
        self.performed.insert((node, step), after);
        Ok(after)
    }

    fn start(&mut self, at: u8, starts: u8, claim: Option<Predecessor>) -> NodeId {
        let replica = Replica::new(Space::default(), writer(at, starts));
        self.adopt(Node {
            replica,
            at,
            starts,
            claim,
            lost: true,
        })
    }

    /// A member that was in the state `was` starts again from a store with the state `from`.
    fn restart(&mut self, was: NodeId, from: NodeId, put_back: bool) -> Result<NodeId, String> {
        self.executed += 1;
        let (at, starts) = (self.node(was).at, self.node(was).starts + 1);
        let stored = &self.node(from).replica;
        if stored.members().configuration().is_none() {
            return Ok(self.start(at, starts, None));
        }
        let message = Message::decode_stored(&stored.snapshot().encode_stored());
        let message = message.map_err(|error| format!("a store's message: {error}"))?;
        let left = match (self.config.places, put_back) {
            (Places::Unknown, _) | (Places::Known, true) => None,
            (Places::Known, false) | (Places::Deceived, _) => self.node(from).leaves(),
        };
        let mut replica = Replica::new(Space::default(), writer(at, starts));
        let restored = replica.restore(&message);
        restored.map_err(|error| format!("the log does not replay: {error}"))?;
        let is_it = |it: &Predecessor| left.is_some_and(|left| same(it, &left));
        let claim = replica.members().only_start(&owner(at)).filter(is_it);
        let lost = put_back || self.node(was).lost && !self.node(was).replica.members().has_vote();
        Ok(self.adopt(Node {
            replica,
            at,
            starts,
            claim,
            lost,
        }))
    }

    /// A member receives what it lacks of another one's state. If it can't go on, it begins again from all of
    /// that state.
    pub(super) fn pull(&mut self, to: NodeId, from: NodeId) -> Result<NodeId, String> {
        if let Some(&after) = self.pulled.get(&(to, from)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = self.merge(to, from)?;
        self.pulled.insert((to, from), after);
        Ok(after)
    }

    fn merge(&mut self, to: NodeId, from: NodeId) -> Result<NodeId, String> {
        let (node, sender) = (self.node(to), self.node(from));
        // A start that has not announced itself has nothing of its own.
        if sender.is_early() {
            return Ok(to);
        }
        let mut replica = node.replica.clone();
        let message = sender.replica.delta(&replica.vector()).encode();
        let message = Message::decode(&message).map_err(|error| format!("a message: {error}"))?;
        let live = Some(sender.replica.writer());
        let (at, mut starts, mut claim, mut lost) = (node.at, node.starts, node.claim, node.lost);
        match replica.merge_with(&message, live, &mut |_| ()) {
            Ok(_) => {}
            Err(Error::Admission(error))
                if ["outdated", "retired"].contains(&Error::from(error.clone()).code()) =>
            {
                let whole = sender.replica.delta(&VersionVector::default()).encode();
                let whole = Message::decode(&whole).map_err(|error| format!("{error}"))?;
                (starts, claim, lost) = (starts + 1, None, true);
                let writer = writer(at, starts);
                let begun = replica
                    .rejoin_mut()
                    .begin_again(writer, &whole, &mut |_| ());
                begun.map_err(|error| format!("member {at} begins again: {error}"))?;
            }
            Err(Error::Admission(_) | Error::Merge(_)) => return Ok(to),
            Err(error) => return Err(format!("a message was refused: {error}")),
        }
        Ok(self.adopt(Node {
            replica,
            at,
            starts,
            claim,
            lost,
        }))
    }
}

/// Whether two stores end with the same start at the same clock.
fn same(a: &Predecessor, b: &Predecessor) -> bool {
    (a.writer, a.clock) == (b.writer, b.clock)
}

/// A member's duties, in the order of the sync machine. Nothing is collected after the start, because each
/// collection asks for acknowledgements, and there would be no end.
fn tend(replica: &mut Replica) -> Result<(), Error> {
    replica.members_mut().vote()?;
    replica.members_mut().fence_strays()?;
    replica.members_mut().retire()?;
    replica.members_mut().acknowledge().map(|_| ())
}

/// The owner of a member's place.
pub(super) fn owner(at: u8) -> Owner {
    [at + 1; 32]
}

fn nonce(at: u8, start: u8) -> [u8; 16] {
    let mut nonce = [start; 16];
    nonce[0] = at;
    nonce
}

/// The writer of a member's start of this number.
fn writer(at: u8, start: u8) -> WriterId {
    WriterId::mint(&Space::default(), &owner(at), &nonce(at, start))
}
