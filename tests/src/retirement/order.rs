//! The start of a configuration, and the way in which everything is put in order from a state.

use super::{Local, Space, calls};
use crate::ledger::NAMES;
use crate::search::{NodeId, State};
use std::collections::BTreeSet;
use tallymesh_core::WriterId;
use tallymesh_core::explore::{local_text, open_expiries};

/// Rounds after which everything must be in order.
const ROUNDS: usize = 40;

/// Replicas while they put things in order, by place.
type Nodes = Vec<Option<NodeId>>;

impl Space<'_> {
    /// Founds the space with its members, lets them admit the tabs, and puts everything in order.
    pub(super) fn begin(&mut self, nodes: &[NodeId]) -> Result<State, String> {
        let mut nodes: Nodes = nodes.iter().copied().map(Some).collect();
        let (members, tabs) = (self.config.members, self.config.tabs);
        self.does(&mut nodes, 0, Local::Found)?;
        for at in 1..nodes.len() {
            self.sends(&mut nodes, 0, at)?;
            if at < members {
                self.does(&mut nodes, at, Local::Announce(at as u8))?;
            } else if at < members + tabs {
                self.does(&mut nodes, at, Local::Transact(0))?;
                self.sends(&mut nodes, at, 0)?;
            }
        }
        // Replicas that no member has admitted have the state, and no other replica has them.
        if !self.config.flows.is_empty() {
            self.does(&mut nodes, 0, Local::Flow(0))?;
        }
        let first = self.config.alphabet.len();
        for number in first..first + self.config.start.len() {
            self.does(&mut nodes, 0, Local::Transact(number as u8))?;
        }
        let strangers = nodes.split_off(members + tabs);
        self.in_order(&mut nodes)?;
        nodes.extend(strangers);
        for at in members + tabs..nodes.len() {
            self.sends(&mut nodes, 0, at)?;
        }
        let nodes: Option<Vec<NodeId>> = nodes.into_iter().collect();
        let start = State::new(&nodes.ok_or("a replica ended at the start")?);
        self.made = self.counts(&start);
        Ok(start)
    }

    fn does(&mut self, nodes: &mut Nodes, at: usize, step: Local) -> Result<(), String> {
        if let Some(node) = nodes[at] {
            nodes[at] = Some(self.world.perform(node, step)?);
        }
        Ok(())
    }

    /// One replica sends the other what it lacks. A replica ends if an error requires that it begin again.
    fn sends(&mut self, nodes: &mut Nodes, from: usize, to: usize) -> Result<(), String> {
        let (Some(sender), Some(receiver)) = (nodes[from], nodes[to]) else {
            return Ok(());
        };
        let message = self.world.snapshot(sender, Some(receiver))?;
        let after = self.world.deliver(receiver, message, true)?;
        nodes[to] = Some(after);
        if after != receiver {
            return Ok(());
        }
        match self.world.refusal(receiver, message, true) {
            Some("behind") => self.ends(nodes, from, "behind"),
            Some("outdated") => self.ends(nodes, to, "outdated"),
            // A replica that has left sends nothing more.
            Some("gone") if self.world.node(sender).counts.leaves > 0 => nodes[from] = None,
            Some("gone") => self.ends(nodes, from, "gone"),
            Some("retired") => {
                let gone = |at: usize| {
                    let writer = nodes[at].map(|node| self.world.node(node).replica.writer());
                    writer.is_some_and(|writer| self.is_given_up(nodes, &writer))
                };
                if gone(to) {
                    self.ends(nodes, to, "retired");
                } else if gone(from) {
                    self.ends(nodes, from, "retired");
                } else {
                    return Err("a message was refused as of one who was given up".into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn ends(&mut self, nodes: &mut Nodes, at: usize, code: &'static str) {
        *self.ended.entry(code).or_default() += 1;
        nodes[at] = None;
    }

    /// Whether any present replica has fenced or retired a writer.
    fn is_given_up(&self, nodes: &Nodes, writer: &WriterId) -> bool {
        let mut nodes = nodes.iter().flatten().map(|node| self.world.node(*node));
        nodes.any(|node| {
            !node.replica.members().accepts_from(writer)
                || node.replica.members().retired_clock(writer).is_some()
        })
    }

    /// Puts everything in order from a state, with all replicas. If the config requires it, also with each
    /// replica gone for good.
    pub(super) fn settle_all(&mut self, state: &State) -> Result<(), String> {
        let nodes: Nodes = state.nodes().map(|(_, node)| Some(node)).collect();
        let mut all = nodes.clone();
        self.late(state, &mut all)?;
        self.finish(&mut all)?;
        if self.config.crashes {
            for at in 0..nodes.len() {
                let mut rest = nodes.clone();
                rest[at] = None;
                let wrong = |wrong| format!("with replica {at} gone: {wrong}");
                self.late(state, &mut rest).map_err(wrong)?;
                self.finish(&mut rest).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Delivers all messages that were ever sent.
    fn late(&mut self, state: &State, nodes: &mut Nodes) -> Result<(), String> {
        for node in nodes.iter_mut().flatten() {
            for message in state.messages() {
                *node = self.world.deliver(*node, message, true)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, nodes: &mut Nodes) -> Result<(), String> {
        let mut gone = Vec::new();
        for at in 0..nodes.len() {
            let Some(node) = nodes[at] else { continue };
            let it = self.world.node(node);
            let tab = at >= self.config.members && it.counts.leaves == 0;
            if self.is_given_up(nodes, &it.replica.writer()) {
                nodes[at] = None;
                gone.extend(Some((at, node)).filter(|_| tab && self.config.returns > 0));
            }
        }
        if !self.has_member(nodes) {
            return Ok(());
        }
        let config = self.config;
        let trouble = config.fences + config.restarts + config.proposed > 0;
        let trouble = config.crashes || trouble;
        let before = self.staying(nodes);
        self.in_order(nodes)?;
        if !gone.is_empty() && self.has_member(nodes) {
            self.come_back(nodes, gone)?;
            self.in_order(nodes)?;
        }
        if !trouble && self.staying(nodes) < before {
            return Err("somebody had to begin again, and nobody was given up".into());
        }
        if !self.has_member(nodes) {
            return Ok(());
        }
        for node in nodes.iter().flatten().filter(|_| self.config.keyed > 0) {
            let (oracle, view) = self.world.oracle(self.world.node(*node).cut)?;
            oracle.check_once(&view, &|_| true)?;
        }
        self.check_rights(nodes)?;
        self.check_size(nodes)
    }

    /// Tabs that were given up rejoin.
    fn come_back(&mut self, nodes: &mut Nodes, gone: Vec<(usize, NodeId)>) -> Result<(), String> {
        for (at, node) in gone {
            for by in 0..self.config.members {
                let Some(helper) = nodes[by].filter(|_| self.is_member(nodes, by)) else {
                    continue;
                };
                let back = self.world.comes_back(node, helper)?;
                if nodes[at].is_none() && back != node {
                    nodes[at] = Some(back);
                    self.sends(nodes, at, by)?;
                    self.sends(nodes, by, at)?;
                }
            }
            if nodes[at].is_none() {
                return Err(format!("nobody knows what was taken over from {at}"));
            }
        }
        Ok(())
    }

    /// Number of replicas that have not left.
    fn staying(&self, nodes: &Nodes) -> usize {
        let nodes = nodes.iter().flatten();
        let stays = |node: &&NodeId| self.world.node(**node).counts.leaves == 0;
        nodes.filter(stays).count()
    }

    fn has_member(&self, nodes: &Nodes) -> bool {
        let mut nodes = nodes.iter().flatten();
        nodes.any(|node| self.world.node(*node).replica.members().is_member())
    }

    /// Makes rounds until nothing changes any more.
    fn in_order(&mut self, nodes: &mut Nodes) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let before = nodes.clone();
            self.round(nodes)?;
            if !self.has_member(nodes) {
                return Ok(());
            }
            if *nodes == before {
                let mut bytes = nodes
                    .iter()
                    .flatten()
                    .map(|node| self.world.node(*node).bytes);
                let first = bytes.next();
                return match bytes.all(|bytes| Some(bytes) == first) {
                    true => Ok(()),
                    false => Err(format!("in the end the bytes differ: {}", self.tell(nodes))),
                };
            }
        }
        Err(format!(
            "no order after {ROUNDS} rounds: {}",
            self.tell(nodes)
        ))
    }

    fn round(&mut self, nodes: &mut Nodes) -> Result<(), String> {
        for from in 0..nodes.len() {
            for to in 0..nodes.len() {
                if from != to && (self.speaks(nodes, from) || self.is_member(nodes, to)) {
                    self.sends(nodes, from, to)?;
                }
            }
        }
        for at in 0..nodes.len() {
            if self.is_member(nodes, at) {
                self.bury(nodes, at)?;
                if self.config.proposed > 0 {
                    self.does(nodes, at, Local::Vote)?;
                }
                for key in (0..self.config.keys).filter(|_| !self.config.times.is_empty()) {
                    self.does(nodes, at, Local::Materialize(key as u8))?;
                }
                self.does(nodes, at, Local::Acknowledge)?;
                self.does(nodes, at, Local::Absorb)?;
            }
            self.does(nodes, at, Local::Decide)?;
            self.does(nodes, at, Local::Collect)?;
        }
        Ok(())
    }

    fn is_member(&self, nodes: &Nodes, at: usize) -> bool {
        nodes[at].is_some_and(|node| self.world.node(node).replica.members().is_member())
    }

    /// Whether it is a member or is admitted by one.
    fn speaks(&self, nodes: &Nodes, at: usize) -> bool {
        let home = |node: NodeId| self.world.node(node).replica.members().sponsor().is_some();
        self.is_member(nodes, at) || nodes[at].is_some_and(home)
    }

    /// Fences every writer that this member has and that is gone without a leave.
    fn bury(&mut self, nodes: &mut Nodes, at: usize) -> Result<(), String> {
        let Some(node) = nodes[at] else { return Ok(()) };
        let replica = &self.world.node(node).replica;
        let known = replica
            .writers()
            .map(|it| it.0)
            .chain(replica.members().sponsored());
        let known: BTreeSet<WriterId> = known.collect();
        let configuration = replica.members().configuration().cloned();
        for other in (0..nodes.len()).filter(|other| *other != at) {
            // The later start of a member fences its earlier starts.
            for start in 0..=self.config.restarts.max(self.config.returns) as u8 {
                let writer = calls::writer(self.config, other as u8, start);
                let alive = nodes[other]
                    .is_some_and(|node| self.world.node(node).replica.writer() == writer);
                let owner = calls::owner(other as u8);
                let counts = other < self.config.members
                    && nodes[other].is_none()
                    && configuration.as_ref().is_some_and(|it| it.has(&owner));
                let Some(node) = nodes[at] else { return Ok(()) };
                let takes = self
                    .world
                    .node(node)
                    .replica
                    .members()
                    .accepts_from(&writer);
                if !alive && (counts || known.contains(&writer) && takes) {
                    self.does(nodes, at, Local::Fence(other as u8, start))?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the state is only as large as the living replicas make it, and that no decision is open.
    fn check_size(&self, nodes: &Nodes) -> Result<(), String> {
        let all = || nodes.iter().flatten().map(|node| self.world.node(*node));
        if all().any(|node| {
            node.replica.members().is_member() && node.replica.members().proposal().is_some()
        }) {
            return Err(format!("a proposal is open: {}", self.tell(nodes)));
        }
        let living: Vec<WriterId> = all()
            .filter(|node| node.counts.leaves == 0)
            .map(|node| node.replica.writer())
            .collect();
        for node in all() {
            for (writer, _) in node.replica.writers() {
                if !living.contains(&writer) {
                    return Err(format!("{writer} is still known: {}", self.tell(nodes)));
                }
            }
            let holders = node.replica.quota().holders_of(NAMES[0]);
            if holders.iter().any(|it| !living.contains(&it.writer)) {
                return Err(format!("{holders:?} hold something: {}", self.tell(nodes)));
            }
            if open_expiries(&node.replica) > 0 {
                return Err(format!("an end is not decided: {}", self.tell(nodes)));
            }
            let keys = self.config.keys + usize::from(!holders.is_empty()) + holders.len();
            if node.replica.shard_count() > living.len() * keys {
                return Err(format!("too many shards: {}", self.tell(nodes)));
            }
        }
        Ok(())
    }

    /// Checks that some replica can spend each right.
    fn check_rights(&self, nodes: &Nodes) -> Result<(), String> {
        let replicas = nodes.iter().flatten();
        let replicas = replicas.map(|node| &self.world.node(*node).replica);
        let budgets = replicas.filter_map(|replica| replica.quota().budget(NAMES[0]));
        let (mut here, mut all) = (0, None);
        for budget in budgets {
            here += budget.rights.here;
            all = Some(budget.value - budget.floor);
        }
        match all.is_none_or(|all| all == here) {
            true => Ok(()),
            false => Err(format!(
                "{here} rights of {all:?} can be used: {}",
                self.tell(nodes)
            )),
        }
    }

    fn tell(&self, nodes: &Nodes) -> String {
        let mut text = String::new();
        for node in nodes.iter().flatten() {
            let node = self.world.node(*node);
            let writers = node.replica.writers();
            let writers: Vec<String> = writers
                .map(|(writer, clock)| format!("{}@{clock}", &writer.to_string()[..4]))
                .collect();
            text += &format!(
                "\n  {} ({}) {} knows {writers:?}, local {}",
                node.at,
                &node.replica.writer().to_string()[..4],
                if node.replica.members().is_member() {
                    "member"
                } else {
                    "tab"
                },
                local_text(&node.replica),
            );
        }
        text
    }
}
