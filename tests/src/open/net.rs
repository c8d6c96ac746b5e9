//! Links between replicas, and what befalls them.

use super::{CALM_DELAY_MS, Carrier, Event, HANDSHAKE_MS, Sim};
use crate::oracle::Seen;
use tallymesh_core::{Input, Link, Millis};

/// Two replicas that would be linked.
pub(super) struct Edge {
    pub(super) ends: [usize; 2],
    /// Whether nothing gets from the first to the second, and back.
    pub(super) cut: [bool; 2],
    /// The connection, until both ends know that it is closed.
    conn: Option<u32>,
}

/// A connection. A number is never used again, so it is the link's number at both ends.
struct Conn {
    edge: usize,
    broadcast: bool,
    open: [bool; 2],
    /// Whether it is being closed.
    closing: bool,
    /// When the last frame towards each end arrives: a stream keeps the order.
    arrival: [Millis; 2],
}

pub(super) struct Net {
    pub(super) edges: Vec<Edge>,
    conns: Vec<Conn>,
}

impl Net {
    pub(super) fn new(edges: Vec<(usize, usize)>) -> Net {
        let edge = |(a, b)| Edge {
            ends: [a, b],
            cut: [false; 2],
            conn: None,
        };
        Net {
            edges: edges.into_iter().map(edge).collect(),
            conns: Vec::new(),
        }
    }

    /// The replica at this end of a connection, if the end is open.
    pub(super) fn receiver(&self, conn: u32, end: usize) -> Option<usize> {
        let conn = &self.conns[conn as usize];
        conn.open[end].then(|| self.edges[conn.edge].ends[end])
    }

    /// The connections of which this replica's end is open.
    pub(super) fn conns_of(&self, node: usize) -> Vec<u32> {
        let of = |edge: &Edge| edge.ends.contains(&node).then_some(edge.conn).flatten();
        self.edges.iter().filter_map(of).collect()
    }
}

impl Sim {
    pub(super) fn open(&mut self, at: usize) -> Result<(), String> {
        let edge = &self.net.edges[at];
        let [a, b] = edge.ends;
        if edge.conn.is_some() || !self.nodes[a].alive || !self.nodes[b].alive {
            return Ok(()); // whoever comes back, and whatever closes, opens again
        }
        if edge.cut != [false; 2] {
            self.after(50, 300, Event::Open(at));
            return Ok(());
        }
        let number = self.net.conns.len() as u32;
        let both_durable = self.nodes[a].durable && self.nodes[b].durable;
        let broadcast = self.profile.broadcast && both_durable;
        self.net.edges[at].conn = Some(number);
        self.net.conns.push(Conn {
            edge: at,
            broadcast,
            open: [true; 2],
            closing: false,
            arrival: [0; 2],
        });
        self.note(|| format!("open {number}: {a} to {b}"));
        self.at(self.now + HANDSHAKE_MS, Event::Handshake(number));
        let link = Link(number);
        for node in [a, b] {
            self.input(node, Input::Connected { link, broadcast })?;
        }
        Ok(())
    }

    /// Begins to close a connection: each end finds out in its time, except one that is `gone`.
    pub(super) fn close(&mut self, number: u32, gone: Option<usize>) {
        let conn = &mut self.net.conns[number as usize];
        let ends = self.net.edges[conn.edge].ends;
        for (open, node) in conn.open.iter_mut().zip(ends) {
            *open &= gone != Some(node);
        }
        if !conn.closing || gone.is_some() {
            conn.closing = true;
            self.figures.closes += 1;
            let late = if self.trouble { 2_000 } else { 50 };
            for end in 0..2 {
                let at = self.random.below(late);
                self.at(self.now + at, Event::Close { conn: number, end });
            }
        }
    }

    pub(super) fn closed(&mut self, number: u32, end: usize) -> Result<(), String> {
        let conn = &mut self.net.conns[number as usize];
        let was_open = std::mem::replace(&mut conn.open[end], false);
        let (edge, both) = (conn.edge, conn.open == [false; 2]);
        let node = self.net.edges[edge].ends[end];
        if both && self.net.edges[edge].conn == Some(number) {
            self.net.edges[edge].conn = None;
            self.after(0, if self.trouble { 1_000 } else { 50 }, Event::Open(edge));
        }
        if was_open {
            let link = Link(number);
            self.note(|| format!("closed {number} at {node}"));
            self.input(node, Input::Disconnected { link })?;
        }
        Ok(())
    }

    /// A transport gives up on a peer that does not greet.
    pub(super) fn time_out_handshake(&mut self, number: u32) {
        for end in 0..2 {
            if let Some(node) = self.net.receiver(number, end) {
                let mut links = self.nodes[node].sync.links();
                let greeted = links.any(|s| s.link == Link(number) && s.agent.is_some());
                drop(links);
                if !greeted {
                    self.close(number, None);
                }
            }
        }
    }

    fn delay(&mut self) -> Millis {
        if self.trouble && self.random.chance(5) {
            // Very late, and perhaps by then long overtaken.
            self.figures.stragglers += 1;
            return self.random.range(1, (self.heal_at - self.now).max(1));
        }
        let most = match self.trouble {
            true => self.profile.delay_max,
            false => CALM_DELAY_MS,
        };
        self.random.range(1, most)
    }

    /// Sends a frame from a replica on a connection.
    pub(super) fn send(&mut self, number: u32, from: usize, bytes: Vec<u8>) {
        let conn = &self.net.conns[number as usize];
        let edge = &self.net.edges[conn.edge];
        let end = usize::from(edge.ends[0] == from); // the other end
        if !conn.open[1 - end] {
            return;
        }
        let cut = edge.cut[1 - end] || !conn.open[end];
        let lossy = self.trouble && self.random.chance(self.profile.drop);
        let datagrams = self.profile.carrier == Carrier::Datagrams;
        if cut || conn.closing || (lossy && (datagrams || self.random.chance(100))) {
            self.figures.drops += 1;
            self.note(|| format!("lost {} bytes from {from} on {number}", bytes.len()));
            if !datagrams {
                // A stream breaks here, and nothing follows.
                self.close(number, None);
            }
            return;
        }
        let mut copies = 1;
        if datagrams && self.trouble && self.random.chance(self.profile.repeat) {
            self.figures.repeats += 1;
            copies = 2;
        }
        for _ in 0..copies {
            let delay = self.delay();
            let mut when = self.now + delay;
            let conn = &mut self.net.conns[number as usize];
            if !datagrams || !self.trouble {
                when = when.max(conn.arrival[end]);
            }
            conn.arrival[end] = when;
            let bytes = bytes.clone();
            let conn = number;
            self.at(when, Event::Frame { conn, end, bytes });
        }
    }

    /// Broadcasts a frame over the links of those who take part, as a flood with losses would.
    pub(super) fn gossip(&mut self, from: usize, bytes: &[u8]) {
        let mut reached = vec![false; self.nodes.len()];
        reached[from] = true;
        let mut queue = vec![(from, self.now)];
        let mut next = 0;
        while let Some(&(node, when)) = queue.get(next) {
            next += 1;
            for conn in self.net.conns_of(node) {
                let link = &self.net.conns[conn as usize];
                let edge = &self.net.edges[link.edge];
                let end = usize::from(edge.ends[0] == node);
                let to = edge.ends[end];
                let passes = link.broadcast && link.open == [true; 2] && !edge.cut[1 - end];
                if !passes || reached[to] {
                    continue;
                }
                if self.trouble && self.random.chance(self.profile.drop) {
                    self.figures.drops += 1;
                    continue;
                }
                reached[to] = true;
                let mut copies = 1;
                if self.trouble && self.random.chance(self.profile.repeat) {
                    self.figures.repeats += 1;
                    copies = 2;
                }
                for _ in 0..copies {
                    let when = when + self.delay();
                    let asked = !self.random.chance(100);
                    let from = asked.then_some(Link(conn));
                    let bytes = bytes.to_vec();
                    self.at(when, Event::Gossip { to, from, bytes });
                    if queue.last().is_none_or(|last| last.0 != to) {
                        queue.push((to, when));
                    }
                }
            }
        }
    }

    /// Something breaks.
    pub(super) fn fault(&mut self) {
        let edge = self.random.index(self.net.edges.len().max(1));
        let tabs = self.profile.durable..self.nodes.len();
        match self.random.below(11) {
            0..=2 if !self.net.edges.is_empty() => {
                let dirs = *self
                    .random
                    .pick(&[[true, false], [false, true], [true, true]]);
                self.cut(&[edge], dirs);
            }
            3 => {
                // A part of the mesh is cut from the rest.
                let side: Vec<bool> = self.nodes.iter().map(|_| self.random.chance(400)).collect();
                let between = |e: &super::net::Edge| side[e.ends[0]] != side[e.ends[1]];
                let edges = self.net.edges.iter().enumerate();
                let edges: Vec<usize> = edges.filter(|(_, e)| between(e)).map(|(n, _)| n).collect();
                self.cut(&edges, [true, true]);
            }
            4 | 5 => {
                let open = self.net.edges.get(edge).and_then(|edge| edge.conn);
                if let Some(conn) = open {
                    self.close(conn, None);
                }
            }
            6 | 7 => {
                let node = self.random.index(self.profile.durable);
                self.stop(node);
            }
            8 if self.random.chance(500) => {
                let node = self.random.index(self.profile.durable);
                self.nodes[node].back_up();
                self.note(|| format!("a backup of {node}"));
            }
            8 => {
                let node = self.random.index(self.nodes.len());
                self.nodes[node].skew = self.profile.skew(&mut self.random);
                self.note(|| format!("the clock of {node} jumps"));
            }
            _ if !tabs.is_empty() => {
                let tab = tabs.start + self.random.index(tabs.len());
                self.stop(tab);
            }
            _ => {}
        }
    }

    fn cut(&mut self, edges: &[usize], dirs: [bool; 2]) {
        let lasts = self.random.range(100, 4_000);
        for &edge in edges {
            self.figures.cuts += 1;
            self.net.edges[edge].cut = dirs;
            self.at(self.now + lasts, Event::Mend(edge));
        }
        self.note(|| format!("cut {edges:?} {dirs:?}"));
    }

    fn stop(&mut self, node: usize) {
        if self.nodes[node].alive {
            self.crash(node);
            if self.nodes[node].durable && self.profile.rot && self.random.chance(500) {
                self.betray(node);
            }
            self.after(10, 3_000, Event::Start(node));
        }
    }

    /// The disk of a replica that has crashed is not what it was: its last flushes were not done,
    /// a backup was put back, it is empty, or it is a copy of another's.
    fn betray(&mut self, at: usize) {
        let other = self.random.index(self.profile.durable);
        let what = match self.random.below(4) {
            0 => {
                let (records, part) = (self.random.range(1, 6), self.random.below(40));
                self.nodes[at].tear(records as usize, part as usize);
                "a torn tail"
            }
            1 => {
                let backup = self.nodes[at].backup();
                self.nodes[at].replace_disk(backup);
                "a backup"
            }
            2 => {
                self.nodes[at].replace_disk(Default::default());
                "an empty disk"
            }
            _ => {
                let copy = self.nodes[other].disk();
                self.nodes[at].replace_disk(copy);
                "another's disk"
            }
        };
        self.note(|| format!("{at} has {what}"));
        self.figures.betrayals += 1;
        // What is on no other disk was lost with it, though it was acknowledged. It may come back:
        // others may have heard of it, or hear of it still.
        let mut kept = Seen::default();
        for node in self.nodes.iter().filter(|node| node.durable) {
            kept.union(node.flushed.seen());
        }
        self.acknowledged.intersect(&kept);
    }

    /// The trouble is over: nothing is lost any more, and whatever is broken is found out.
    pub(super) fn heal(&mut self) {
        self.note(|| "heal".into());
        self.trouble = false;
        for edge in 0..self.net.edges.len() {
            self.net.edges[edge].cut = [false; 2];
            self.after(0, 50, Event::Open(edge));
            if let Some(conn) = self.net.edges[edge].conn {
                self.at(self.now + HANDSHAKE_MS, Event::Handshake(conn));
            }
        }
        for node in 0..self.nodes.len() {
            if !self.nodes[node].alive && (self.nodes[node].durable || self.random.chance(500)) {
                self.after(0, 100, Event::Start(node));
            }
        }
    }
}
