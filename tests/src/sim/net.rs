//! Links between replicas, and frames on their way.

use super::gossip::Passed;
use super::{Carrier, Event, Mesh, Scenario};
use std::collections::BTreeMap;
use tallymesh_core::wire::Frame;
use tallymesh_core::{Input, Link, Millis};

/// How long a transport waits for the hello of a peer, in milliseconds.
pub(super) const HANDSHAKE_MS: Millis = 1_000;
/// Frames of 1000 that are very late while there is trouble.
const STRAGGLERS: u64 = 5;

/// The effect of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// No frame gets through, and both ends are notified: the link closes.
    Closed,
    /// No frame gets through, and no end is notified.
    Silent,
    /// No frame gets through from the first end to the second.
    OneWay,
}

/// Two replicas that should have a link.
struct Edge {
    ends: [usize; 2],
    /// The ends of the cuts, from the first replica to the second and back.
    cut_until: [Millis; 2],
    /// The connection, until both ends have noticed that it is closed.
    conn: Option<u32>,
    /// Whether the two should still have a link.
    wanted: bool,
}

/// A connection. A number is never used again, so it is the link's number at both ends.
struct Conn {
    edge: usize,
    /// Whether it carries broadcasts.
    broadcast: bool,
    open: [bool; 2],
    /// Whether it is being closed.
    closing: bool,
    /// When the last frame towards each end arrives. A stream keeps the order.
    arrival: [Millis; 2],
}

/// All edges and connections.
#[derive(Default)]
pub(super) struct Net {
    edges: Vec<Edge>,
    /// The places of the edges, by their ends.
    by_ends: BTreeMap<[usize; 2], usize>,
    conns: Vec<Conn>,
}

impl Net {
    fn edges_of(&self, at: usize) -> impl Iterator<Item = usize> {
        let edges = self.edges.iter().enumerate();
        let of = edges.filter(move |it| it.1.wanted && it.1.ends.contains(&at));
        of.map(|it| it.0)
    }
}

/// A pair in the order in which an edge stores it.
fn ascending(a: usize, b: usize) -> [usize; 2] {
    [a.min(b), a.max(b)]
}

impl<S: Scenario> Mesh<S> {
    /// Longest time until an end notices that a link is closed, or until a link is opened, in milliseconds.
    fn late_ms(&self) -> Millis {
        match self.troubled {
            true => self.settings.trouble.notice_ms,
            false => 0,
        }
    }

    /// Links two replicas from now on, whenever they can have a link.
    pub fn link(&mut self, a: usize, b: usize) {
        let ends = ascending(a, b);
        let next = self.net.edges.len();
        let edge = *self.net.by_ends.entry(ends).or_insert(next);
        if edge == next {
            self.net.edges.push(Edge {
                ends,
                cut_until: [0; 2],
                conn: None,
                wanted: true,
            });
        }
        self.net.edges[edge].wanted = true;
        self.schedule_within(0, self.late_ms(), Event::Open(edge));
    }

    /// Removes the link of two replicas for good.
    pub fn unlink(&mut self, a: usize, b: usize) {
        if let Some(&edge) = self.net.by_ends.get(&ascending(a, b)) {
            self.net.edges[edge].wanted = false;
            self.close_edge(edge);
        }
    }

    /// Removes all links of a replica for good.
    pub fn unlink_all(&mut self, at: usize) {
        for other in self.linked_with(at) {
            self.unlink(at, other);
        }
    }

    /// The replicas that should have a link with this one.
    pub fn linked_with(&self, at: usize) -> Vec<usize> {
        let ends = self.net.edges_of(at).map(|edge| self.net.edges[edge].ends);
        ends.map(|ends| ends[usize::from(ends[0] == at)]).collect()
    }

    /// All pairs that should have a link.
    pub fn pairs(&self) -> Vec<[usize; 2]> {
        let edges = self.net.edges.iter().filter(|it| it.wanted);
        edges.map(|it| it.ends).collect()
    }

    /// Whether two replicas have a link now.
    pub fn is_linked(&self, a: usize, b: usize) -> bool {
        let edge = self.net.by_ends.get(&ascending(a, b));
        let conn = edge.and_then(|edge| self.net.edges[*edge].conn);
        conn.is_some_and(|conn| self.net.conns[conn as usize].open == [true; 2])
    }

    /// Whether a replica is cut off from all others.
    pub fn is_alone(&self, at: usize) -> bool {
        let now = self.now;
        let mut edges = self.net.edges_of(at).map(|edge| &self.net.edges[edge]);
        edges.all(|edge| edge.cut_until.iter().any(|until| *until > now))
    }

    /// Cuts the link of two replicas for this long.
    pub fn cut(&mut self, a: usize, b: usize, cut: Cut, ms: Millis) {
        let Some(&edge) = self.net.by_ends.get(&ascending(a, b)) else {
            return;
        };
        self.counts.cuts += 1;
        self.note(|| format!("cut {a} {b} {cut:?} for {ms} ms"));
        let until = self.now + ms;
        let directions = match cut {
            Cut::Closed | Cut::Silent => [true, true],
            Cut::OneWay => [a < b, b < a],
        };
        let its = &mut self.net.edges[edge].cut_until;
        for (at, is_cut) in its.iter_mut().zip(directions) {
            *at = (*at).max(if is_cut { until } else { 0 });
        }
        if cut == Cut::Closed {
            self.close_edge(edge);
        }
    }

    /// Ends the cut between two replicas.
    pub fn mend(&mut self, a: usize, b: usize) {
        if let Some(&edge) = self.net.by_ends.get(&ascending(a, b)) {
            self.mend_edge(edge);
        }
    }

    pub(super) fn mend_all(&mut self) {
        for edge in 0..self.net.edges.len() {
            self.mend_edge(edge);
            if let Some(conn) = self.net.edges[edge].conn {
                self.schedule(self.now + HANDSHAKE_MS, Event::Handshake(conn));
            }
        }
    }

    fn mend_edge(&mut self, edge: usize) {
        self.net.edges[edge].cut_until = [0; 2];
        self.schedule_within(0, self.late_ms(), Event::Open(edge));
    }

    /// Closes the link of two replicas, if they have one.
    pub fn close_link(&mut self, a: usize, b: usize) {
        if let Some(&edge) = self.net.by_ends.get(&ascending(a, b)) {
            self.close_edge(edge);
        }
    }

    fn close_edge(&mut self, edge: usize) {
        if let Some(conn) = self.net.edges[edge].conn {
            self.close(conn, None);
        }
    }

    /// Delays all frames on the link of two replicas until this long from now. They keep their order.
    pub(super) fn stall(&mut self, [a, b]: [usize; 2], ms: Millis) {
        let edge = self.net.by_ends.get(&ascending(a, b));
        if let Some(conn) = edge.and_then(|edge| self.net.edges[*edge].conn) {
            self.note(|| format!("the link of {a} and {b} stalls for {ms} ms"));
            let until = (self.now + ms).min(self.heal_at);
            let conn = &mut self.net.conns[conn as usize];
            conn.arrival = conn.arrival.map(|at| at.max(until));
        }
    }

    pub(super) fn open_links_of(&mut self, at: usize) {
        let edges: Vec<usize> = self.net.edges_of(at).collect();
        for edge in edges {
            self.schedule_within(0, self.late_ms(), Event::Open(edge));
        }
    }

    /// Closes all links of a replica. The replica notices this if it is not gone.
    pub(super) fn close_links_of(&mut self, at: usize, is_gone: bool) {
        let edges = self.net.edges.iter().filter(|it| it.ends.contains(&at));
        let conns: Vec<u32> = edges.filter_map(|it| it.conn).collect();
        for conn in conns {
            self.close(conn, is_gone.then_some(at));
        }
    }

    /// The replica at this end of a connection, if the end is open.
    pub(super) fn receiver(&self, conn: u32, end: usize) -> Option<usize> {
        let conn = &self.net.conns[conn as usize];
        conn.open[end].then(|| self.net.edges[conn.edge].ends[end])
    }

    pub(super) fn open(&mut self, at: usize) -> Result<(), String> {
        let edge = &self.net.edges[at];
        let [a, b] = edge.ends;
        if !edge.wanted || edge.conn.is_some() || !self.nodes[a].alive || !self.nodes[b].alive {
            return Ok(()); // a later start or close opens it again
        }
        let cut_until = edge.cut_until[0].max(edge.cut_until[1]);
        if cut_until > self.now {
            let late = self.random.range(0, self.late_ms());
            self.schedule(cut_until + late, Event::Open(at));
            return Ok(());
        }
        let number = self.net.conns.len() as u32;
        let [for_a, for_b] = [(a, b), (b, a)].map(|(at, to)| S::opens(self, Link(number), at, to));
        let broadcast = |input: &Input<'_>| {
            matches!(
                input,
                Input::Connected {
                    broadcast: true,
                    ..
                }
            )
        };
        self.net.edges[at].conn = Some(number);
        self.net.conns.push(Conn {
            edge: at,
            broadcast: broadcast(&for_a) && broadcast(&for_b),
            open: [true; 2],
            closing: false,
            arrival: [0; 2],
        });
        self.note(|| format!("link {number} opens: {a} to {b}"));
        self.schedule(self.now + HANDSHAKE_MS, Event::Handshake(number));
        self.input(a, for_a)?;
        self.input(b, for_b)
    }

    /// Starts to close a connection. Each end notices it after some time, except one that is `gone`.
    pub(super) fn close(&mut self, number: u32, gone: Option<usize>) {
        let conn = &mut self.net.conns[number as usize];
        let ends = self.net.edges[conn.edge].ends;
        for (open, node) in conn.open.iter_mut().zip(ends) {
            *open &= gone != Some(node);
        }
        if !conn.closing || gone.is_some() {
            conn.closing = true;
            self.counts.closes += 1;
            for end in 0..2 {
                let close = Event::Close { conn: number, end };
                self.schedule_within(0, self.late_ms(), close);
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
            self.schedule_within(0, self.late_ms(), Event::Open(edge));
        }
        if was_open {
            let link = Link(number);
            self.note(|| format!("link {number} is closed at {node}"));
            self.input(node, Input::Disconnected { link })?;
        }
        Ok(())
    }

    /// The replicas that a broadcast reaches from here, each with the link.
    pub(super) fn passes_on(&self, at: usize) -> Vec<Passed> {
        let edges = self.net.edges_of(at).map(|edge| &self.net.edges[edge]);
        let passes = edges.filter_map(|edge| {
            let number = edge.conn?;
            let conn = &self.net.conns[number as usize];
            let end = usize::from(edge.ends[0] == at);
            let passes =
                conn.broadcast && conn.open == [true; 2] && edge.cut_until[1 - end] <= self.now;
            passes.then_some((edge.ends[end], Link(number)))
        });
        passes.collect()
    }

    /// A transport closes a connection whose peer has sent no hello.
    pub(super) fn time_out_handshake(&mut self, number: u32) {
        for end in 0..2 {
            if let Some(node) = self.receiver(number, end) {
                let mut links = self.nodes[node].sync.links();
                let has_hello = links.any(|it| it.link == Link(number) && it.agent.is_some());
                drop(links);
                if !has_hello {
                    self.close(number, None);
                }
            }
        }
    }

    pub(super) fn delay(&mut self) -> Millis {
        if self.troubled
            && self.settings.carrier == Carrier::Datagrams
            && self.random.chance(STRAGGLERS)
        {
            // The frame is very late, and others may have overtaken it.
            self.counts.stragglers += 1;
            return self.random.range(1, (self.heal_at - self.now).max(1));
        }
        self.random
            .range(self.settings.delay_ms.0, self.settings.delay_ms.1)
    }

    /// Tells a sync machine which links have not delivered the frames before, if it is about to make a round.
    pub(super) fn note_busy(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if !node.sync.is_round_due(self.now) {
            return;
        }
        let until = self.now + self.settings.delay_ms.1;
        for edge in self.net.edges.iter().filter(|it| it.ends.contains(&at)) {
            if let Some(number) = edge.conn {
                let other = usize::from(edge.ends[0] == at);
                let busy = self.net.conns[number as usize].arrival[other] > until;
                node.sync.note_busy(Link(number), busy);
            }
        }
    }

    /// Sends a frame from a replica on a link.
    pub(super) fn send(&mut self, link: Link, from: usize, bytes: Vec<u8>) {
        let number = link.0;
        self.note(|| {
            let body = Frame::decode(&bytes).map(|it| it.body);
            format!("{from} sends on link {number}: {body:?}")
        });
        self.counts.frames += 1;
        self.counts.bytes += bytes.len() as u64;
        let conn = &self.net.conns[number as usize];
        let edge = &self.net.edges[conn.edge];
        let end = usize::from(edge.ends[0] == from); // the other end
        if !conn.open[1 - end] || edge.ends[1 - end] != from {
            return; // a copied process still has links of the original
        }
        let cut = edge.cut_until[1 - end] > self.now || !conn.open[end];
        let (is_closing, is_stream) = (conn.closing, self.settings.carrier == Carrier::Stream);
        let is_lost = self.troubled && self.random.chance(self.settings.trouble.lost);
        if cut || is_closing || is_lost {
            self.counts.drops += 1;
            self.note(|| format!("{from} loses {} bytes on link {number}", bytes.len()));
            if is_stream {
                self.close(number, None); // it breaks here, and nothing follows
            }
            return;
        }
        let repeats =
            self.troubled && !is_stream && self.random.chance(self.settings.trouble.twice);
        self.counts.repeats += u64::from(repeats);
        for bytes in repeats.then(|| bytes.clone()).into_iter().chain([bytes]) {
            let mut when = self.now + self.delay();
            let conn = &mut self.net.conns[number as usize];
            if is_stream || !self.troubled {
                when = when.max(conn.arrival[end]);
            }
            conn.arrival[end] = conn.arrival[end].max(when);
            let conn = number;
            self.schedule(when, Event::Frame { conn, end, bytes });
        }
    }
}
