//! The reachable states of single replicas. Each is stored once, and each call of the core is made once.

use super::configs::{Config, Places};
use super::digest;
use super::links::PLACES_MAX;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::Hash;
use tallymesh_core::explore::{accepted, local_text, note_linked};
use tallymesh_core::{
    Encode, Error, Limit, Mark, Message, Owner, Predecessor, Replica, Space, VersionVector,
    WriterId,
};

/// The number of a state of a single replica.
pub(super) type NodeId = u32;

/// How far the number of a copy's start is from that of its original.
const COPIES: u8 = 100;

/// An action of a replica by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Local {
    /// Does its duties, with links to this many other members. 0 leaves that as it is.
    Tend(u8),
    Announce,
    /// Proposes the members with a limit. Each number is another one.
    Propose(u8),
    /// Proposes the members without this one.
    Remove(u8),
    Write,
    /// Ends, and starts again in its place.
    Restart,
    /// The same, from nothing.
    Wipe,
    /// A copy takes the place of its original, which is gone.
    Adopt,
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
    /// Whether it has not regained the vote that it lost with its disk.
    pub(super) fn is_lost(&self) -> bool {
        self.lost && !self.replica.members().has_vote()
    }

    /// Era and number of its configuration.
    pub(super) fn number(&self) -> Option<(u64, u64)> {
        let it = self.replica.members().configuration();
        it.map(|it| (it.era, it.number))
    }

    /// Whether its configuration names this member.
    pub(super) fn names(&self, at: usize) -> bool {
        let it = self.replica.members().configuration();
        it.is_some_and(|it| it.has(&owner(at as u8)))
    }

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

/// Something that must have one content only, in all of a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fact {
    /// The configuration of this era and number.
    Decided((u64, u64)),
    /// What a member accepted on this number, under this ballot.
    Accepted(Owner, (u64, u64), (u64, Owner)),
}

/// Facts and their contents by number, ascending.
pub(super) type History = Vec<(u32, u32)>;

/// A write: the member, the writer and the transaction.
pub(super) type Write = (u8, WriterId, u64);

/// Different values, each with a number.
struct Numbers<T>(HashMap<T, u32, FixedState>, Vec<T>);

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn new() -> Numbers<T> {
        Numbers(HashMap::default(), Vec::new())
    }

    fn number(&mut self, value: T) -> u32 {
        let next = self.1.len() as u32;
        let id = *self.0.entry(value.clone()).or_insert(next);
        if id == next {
            self.1.push(value);
        }
        id
    }

    fn at(&self, number: u32) -> &T {
        &self.1[number as usize]
    }
}

type Map<K, V> = HashMap<K, V, FixedState>;

pub(super) struct World<'a> {
    pub(super) config: &'a Config,
    nodes: Vec<Node>,
    node_ids: Map<u128, NodeId>,
    performed: Map<(NodeId, Local), NodeId>,
    pulled: Map<(NodeId, NodeId), NodeId>,
    begun: Map<(NodeId, NodeId), NodeId>,
    /// The facts that each replica knows.
    known: Vec<History>,
    facts: Numbers<Fact>,
    contents: Numbers<String>,
    histories: Numbers<History>,
    writes: Numbers<Write>,
    /// The replicas at the start.
    pub(super) first: [NodeId; PLACES_MAX],
    executed: usize,
}

impl<'a> World<'a> {
    pub(super) fn new(config: &'a Config) -> World<'a> {
        let mut histories = Numbers::new();
        histories.number(History::new());
        World {
            config,
            nodes: Vec::new(),
            node_ids: Map::default(),
            performed: Map::default(),
            pulled: Map::default(),
            begun: Map::default(),
            known: Vec::new(),
            facts: Numbers::new(),
            contents: Numbers::new(),
            histories,
            writes: Numbers::new(),
            first: [NodeId::MAX; PLACES_MAX],
            executed: 0,
        }
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

    pub(super) fn write(&self, number: u32) -> Write {
        *self.writes.at(number)
    }

    /// The number of the last write of a replica.
    pub(super) fn wrote(&mut self, node: NodeId) -> u32 {
        let node = &self.nodes[node as usize];
        let write = (node.at, node.replica.writer(), node.replica.clock());
        self.writes.number(write)
    }

    /// Adds the facts that a replica knows to a history. The error is a contradiction.
    pub(super) fn learn(&mut self, history: u32, node: NodeId) -> Result<u32, String> {
        let mut facts = self.histories.at(history).clone();
        let count = facts.len();
        for &(fact, content) in &self.known[node as usize] {
            match facts.binary_search_by_key(&fact, |it| it.0) {
                Err(at) => facts.insert(at, (fact, content)),
                Ok(at) if facts[at].1 == content => {}
                Ok(at) => {
                    let [fact, first, second] = [
                        format!("{:?}", self.facts.at(fact)),
                        self.contents.at(facts[at].1).clone(),
                        self.contents.at(content).clone(),
                    ];
                    return Err(format!("{fact}: {first} and {second}"));
                }
            }
        }
        match facts.len() == count {
            true => Ok(history),
            false => Ok(self.histories.number(facts)),
        }
    }

    /// The facts that a replica knows.
    fn facts_of(&mut self, at: u8, replica: &Replica) -> History {
        let mut facts = History::new();
        let Some(it) = replica.members().configuration() else {
            return facts;
        };
        let mut add = |fact: Fact, content: String| {
            facts.push((self.facts.number(fact), self.contents.number(content)));
        };
        add(Fact::Decided((it.era, it.number)), format!("{it:?}"));
        // A vote that nobody else has received is no promise to anybody.
        let own = owner(at);
        for (of, number, ballot, content) in accepted(replica) {
            if of != own {
                add(Fact::Accepted(of, number, ballot), content);
            }
        }
        facts
    }

    pub(super) fn adopt(&mut self, node: Node) -> NodeId {
        let text = local_text(&node.replica);
        let bytes = node.replica.canonical_bytes();
        let claim = node.claim.map(|it| (*it.writer.as_bytes(), it.clock));
        let aside = node.replica.stands_aside();
        let key = digest(&(bytes, text, node.at, node.starts, claim, node.lost, aside));
        let next = self.nodes.len() as NodeId;
        let id = *self.node_ids.entry(key).or_insert(next);
        if id == next {
            let facts = self.facts_of(node.at, &node.replica);
            self.known.push(facts);
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
            Local::Tend(linked) => self.change(node, |replica| {
                if linked > 0 {
                    note_linked(replica, usize::from(linked));
                }
                tend(replica)
            }),
            Local::Announce => {
                let named = self.node(node).replica.members().configuration();
                let may = named.is_some_and(|it| it.has(&owner(at)));
                match may && !self.is_refused(node) {
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
            Local::Remove(which) => {
                let members = self.node(node).replica.members();
                let present = members.configuration().filter(|_| members.is_member());
                let mut owners = present.map_or(Vec::new(), |it| it.members.clone());
                let count = owners.len();
                owners.retain(|it| *it != owner(which));
                match owners.is_empty() || owners.len() == count {
                    true => Ok(node),
                    false => self.change(node, |it| it.members_mut().propose(&owners)),
                }
            }
            Local::Write => self.change(node, |it| it.add("written", 1).map(|_| ())),
            Local::Restart => self.restart(node, node, false),
            Local::Wipe => Ok(self.start(at, starts + 1, None)),
            Local::Adopt => self.change(node, |it| {
                it.members_mut().adopt();
                Ok(())
            }),
        }?;
        self.performed.insert((node, step), after);
        Ok(after)
    }

    /// Whether a start is a copy that the core refuses to announce.
    fn is_refused(&self, node: NodeId) -> bool {
        let Node { at, starts, .. } = self.nodes[node as usize];
        let mut replica = self.node(node).replica.clone();
        let (nonce, time) = (nonce(at, starts), u64::from(starts) + 1);
        let announced = replica.members_mut().announce(&owner(at), &nonce, time);
        replica.stands_aside() && announced.is_err()
    }

    /// A member starts again in its place, from an older copy of its disk.
    pub(super) fn put_back(&mut self, node: NodeId, older: NodeId) -> Result<NodeId, String> {
        if let Some(&after) = self.begun.get(&(node, older)) {
            return Ok(after);
        }
        let after = self.restart(node, older, true)?;
        self.begun.insert((node, older), after);
        Ok(after)
    }

    /// The first start from a copy of a running member's disk. It stands aside.
    pub(super) fn copy(&mut self, node: NodeId) -> Result<NodeId, String> {
        self.executed += 1;
        // The original's next start has another number.
        let (at, starts) = (self.node(node).at, self.node(node).starts + COPIES);
        let stored = &self.node(node).replica;
        let message = Message::decode_stored(&stored.snapshot().encode_stored());
        let message = message.map_err(|error| format!("a copy's message: {error}"))?;
        let mut replica = Replica::new(Space::default(), writer(at, starts));
        let restored = replica.restore(&message);
        restored.map_err(|error| format!("the copy's log does not replay: {error}"))?;
        let originals = replica.consistency().earlier_writers().collect();
        replica.members_mut().stand_aside(originals);
        Ok(self.adopt(Node {
            replica,
            at,
            starts,
            claim: None,
            lost: true,
        }))
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
