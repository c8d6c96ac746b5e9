//! The network between nodes, the clients that send requests, and a judge of the answers.
//!
//! A run has four parts:
//! - All nodes receive `init`, over a healthy network.
//! - In the *storm*, messages between nodes are lost, repeated, late and so out of order. Nodes are cut off
//!   from each other, and the cuts end again. Requests and answers are lost too, so clients do not learn
//!   whether some of their adds were made.
//! - The network is healthy again. Clients send nothing until all requests on their way have arrived.
//! - All clients read, round by round. The run ends when all reads were right for some rounds in a row, or
//!   after too many rounds.
//!
//! A final read must be possible by Maelstrom's rule ([`Sums`]). It must also be the exact sum of the adds
//! that nodes have acknowledged, even if the acknowledgement did not reach the client. The judge sees the
//! messages of the network, so it has more knowledge than the clients. In this way all nodes must agree.
//!
//! In the storm, a read must lie between a least and a greatest sum. Each is the sum of its node's own adds
//! and a subset of the other nodes' adds. Both count acknowledged adds only.
//!
//! The fate of each message follows from the seed, from the messages, and from their times.

use super::Workload;
use super::message::{Message, Refusal};
use super::sums::Sums;
use crate::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use tallymesh_core::Millis;

/// How many nodes there are.
pub const NODES: usize = 5;
/// Two for each node, so that a node has several open requests.
const CLIENTS: usize = 2 * NODES;
/// Mean interval of the nodes in a play, in milliseconds.
pub const INTERVAL_MS: u32 = 50;
/// Longest wait of a client for an answer in the storm, in milliseconds.
const PATIENCE_MS: Millis = 60;
/// Longest wait of a client outside the storm, in milliseconds. Every request gets an answer then, on a slow
/// machine late.
const LONG_PATIENCE_MS: Millis = 10_000;
/// Longest time of a message on its way, if it is not late, in milliseconds.
const WAY_MS: u64 = 8;
/// Longest time of a late message on its way, in milliseconds.
const LATE_MS: u64 = 300;
/// Amounts are below this. So few unknown adds lead to few possible sums.
const DELTA_MAX: i64 = 1_000;
/// Rounds of reads that must agree, one interval apart.
const QUIET_ROUNDS: u32 = 4;
/// Rounds after which the nodes must have agreed: half a minute of them.
const ROUNDS_MAX: u64 = 600;

/// Metrics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Adds that clients requested.
    pub adds: u64,
    /// Adds of which no client got an acknowledgement.
    pub unknown: u64,
    /// Adds without an acknowledgement that were made nevertheless.
    pub made: u64,
    /// Reads in the storm.
    pub reads: u64,
    /// Messages that were lost by chance.
    pub lost: u64,
    /// Messages that were lost because two nodes were cut off from each other.
    pub cut: u64,
    /// Messages between nodes.
    pub frames: u64,
    /// Rounds of final reads.
    pub rounds: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.adds += other.adds;
        self.unknown += other.unknown;
        self.made += other.made;
        self.reads += other.reads;
        self.lost += other.lost;
        self.cut += other.cut;
        self.frames += other.frames;
        self.rounds += other.rounds;
    }
}

/// The part of the run that is being played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Until all nodes have answered `init`.
    Begin,
    /// Until this time.
    Storm(Millis),
    /// Until no message of a client is under way.
    Calm,
    /// Until the reads are right.
    Reads,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Init,
    Read,
    /// By its place among all adds.
    Add(usize),
}

#[derive(Clone, Default)]
struct Client {
    /// The id of its last request.
    id: i64,
    /// The open request, and the end of the wait for its answer.
    open: Option<(Request, Millis)>,
    /// When it may send its next request.
    next: Millis,
    /// Its result in this round of final reads.
    read: Option<i128>,
}

struct Add {
    delta: i64,
    node: usize,
    /// Whether the node has acknowledged it.
    made: bool,
    /// Whether the client has received the acknowledgement.
    known: bool,
}

/// Nodes and clients, each numbered from 0. A client asks the node of its number, modulo [`NODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Node(usize),
    Client(usize),
}

impl End {
    /// The names of all nodes.
    fn nodes() -> Vec<String> {
        (0..NODES).map(|at| End::Node(at).to_string()).collect()
    }

    fn of(name: &str) -> Option<End> {
        let (kind, number) = name.split_at_checked(1)?;
        let at = number.parse::<usize>().ok()?.checked_sub(1)?;
        match kind {
            "n" if at < NODES => Some(End::Node(at)),
            "c" if at < CLIENTS => Some(End::Client(at)),
            _ => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Node(at) => write!(f, "n{}", at + 1),
            End::Client(at) => write!(f, "c{}", at + 1),
        }
    }
}

/// A run. The caller passes the lines of [`Play::tick`] to the nodes, and the nodes' lines to
/// [`Play::printed`], until [`Play::over`] returns the metrics.
pub struct Play {
    random: Random,
    workload: Workload,
    storm_ms: Millis,
    part: Part,
    /// Which nodes have begun.
    begun: [bool; NODES],
    /// The messages on their way, by time of arrival and order of sending: sender, receiver and line.
    flights: BTreeMap<(Millis, u64), (End, End, String)>,
    sent: u64,
    /// On which side of a cut each node is.
    sides: [bool; NODES],
    /// When the next cut begins or ends.
    turn: Millis,
    clients: Vec<Client>,
    adds: Vec<Add>,
    /// The adds by client and request id.
    asked: BTreeMap<(usize, i64), usize>,
    /// How many rounds in a row were right.
    quiet: u32,
    metrics: Metrics,
}

impl Play {
    /// A run with a storm of this length.
    pub fn new(seed: u64, workload: Workload, storm_ms: Millis) -> Play {
        Play {
            random: Random::new(seed ^ 0x6d61_656c),
            workload,
            storm_ms,
            part: Part::Begin,
            begun: [false; NODES],
            flights: BTreeMap::new(),
            sent: 0,
            sides: [false; NODES],
            turn: 0,
            clients: vec![Client::default(); CLIENTS],
            adds: Vec::new(),
            asked: BTreeMap::new(),
            quiet: 0,
            metrics: Metrics::default(),
        }
    }

    /// Moves the time to `now`. Returns the lines that arrive at nodes, each with the node's number.
    ///
    /// # Errors
    /// If the nodes' answers are wrong: the reason, as text.
    pub fn tick(&mut self, now: Millis) -> Result<Vec<(usize, String)>, String> {
        let mut lines = Vec::new();
        while let Some(first) = self.flights.first_entry()
            && first.key().0 <= now
        {
            let (from, to, line) = first.remove();
            match (from, to) {
                (End::Node(a), End::Node(b)) if self.sides[a] != self.sides[b] => {
                    self.metrics.cut += 1;
                }
                (_, End::Node(node)) => lines.push((node, line)),
                (_, End::Client(client)) => self.answered(now, client, &line)?,
            }
        }
        self.turn(now);
        for client in 0..CLIENTS {
            self.ask(now, client);
        }
        self.go_on(now)?;
        Ok(lines)
    }

    /// Handles a line that a node printed.
    ///
    /// # Errors
    /// If the line is wrong: the reason, as text.
    pub fn printed(&mut self, now: Millis, node: usize, line: &str) -> Result<(), String> {
        let from = End::Node(node);
        let wrong = |why: &str| format!("{from} prints what is wrong, {why}: {line}");
        let message = Message::parse(line).map_err(|error| wrong(&error.to_string()))?;
        if End::of(&message.src) != Some(from) {
            return Err(wrong("under another name"));
        }
        let to = End::of(&message.dest).ok_or_else(|| wrong("to nobody"))?;
        match to {
            End::Node(_) if self.part == Part::Begin => {
                return Err(wrong("to a node before all have begun"));
            }
            End::Node(_) => self.metrics.frames += 1,
            End::Client(client) => {
                let judged = self.judge(node, client, &message);
                judged.map_err(|why| wrong(&why))?;
            }
        }
        self.send(now, from, to, line);
        Ok(())
    }

    /// The metrics of the run, once it has ended and all was right.
    pub fn over(&self) -> Option<Metrics> {
        let unknown = self.adds.iter().filter(|add| !add.known);
        (self.part == Part::Over).then(|| Metrics {
            adds: self.adds.len() as u64,
            unknown: unknown.clone().count() as u64,
            made: unknown.filter(|add| add.made).count() as u64,
            ..self.metrics
        })
    }

    /// Sends a message: it may be lost, repeated or late.
    fn send(&mut self, now: Millis, from: End, to: End, line: &str) {
        // In thousandths: the shares of messages that are lost, repeated and late.
        let (loss, twice, late) = match (self.part, from, to) {
            (Part::Storm(_), End::Node(_), End::Node(_)) => (100, 50, 50),
            (Part::Storm(_), _, _) => (30, 0, 30),
            _ => (0, 0, 0),
        };
        for _ in 0..1 + u64::from(self.random.chance(twice)) {
            if self.random.chance(loss) {
                self.metrics.lost += 1;
                continue;
            }
            let way = match self.random.chance(late) {
                true => self.random.below(LATE_MS),
                false => self.random.below(WAY_MS),
            };
            self.sent += 1;
            let flight = (from, to, line.to_owned());
            self.flights.insert((now + way, self.sent), flight);
        }
    }

    /// Cuts the nodes into two parts, or ends the cut, if it is time.
    fn turn(&mut self, now: Millis) {
        if matches!(self.part, Part::Storm(_)) && self.turn <= now {
            self.sides = match self.sides.contains(&true) {
                true => [false; NODES],
                false => std::array::from_fn(|_| self.random.chance(500)),
            };
            self.turn = now + self.random.range(50, 400);
        }
    }

    /// A client sends its next request, if it has one, and gives up a request that took too long.
    fn ask(&mut self, now: Millis, at: usize) {
        let client = &mut self.clients[at];
        client.open = client.open.filter(|(_, until)| now < *until);
        if client.open.is_some() || now < client.next {
            return;
        }
        let node = at % NODES;
        let id = client.id + 1;
        let (request, mut body) = match self.part {
            Part::Begin if at < NODES && !self.begun[at] => {
                let ids = End::nodes();
                let body = json!({"type": "init", "node_id": ids[node], "node_ids": ids});
                (Request::Init, body)
            }
            Part::Storm(_) if self.random.chance(600) => {
                let most = self.random.below(DELTA_MAX as u64) as i64;
                let delta = match self.workload {
                    Workload::GrowAndShrink if self.random.chance(500) => -most,
                    _ => most,
                };
                self.asked.insert((at, id), self.adds.len());
                self.adds.push(Add {
                    delta,
                    node,
                    made: false,
                    known: false,
                });
                let body = json!({"type": "add", "delta": delta});
                (Request::Add(self.adds.len() - 1), body)
            }
            Part::Storm(_) => (Request::Read, json!({"type": "read"})),
            Part::Reads if client.read.is_none() => (Request::Read, json!({"type": "read"})),
            _ => return,
        };
        let patience = match self.part {
            Part::Storm(_) => PATIENCE_MS,
            _ => LONG_PATIENCE_MS,
        };
        body["msg_id"] = id.into();
        client.id = id;
        client.open = Some((request, now + patience));
        let (from, to) = (End::Client(at), End::Node(node));
        let message = Message::new(&from.to_string(), &to.to_string(), body);
        self.send(now, from, to, &message.line());
    }

    /// A client receives an answer.
    fn answered(&mut self, now: Millis, at: usize, line: &str) -> Result<(), String> {
        let message = Message::parse(line).map_err(|error| error.to_string())?;
        let id = message.integer("in_reply_to");
        let client = &mut self.clients[at];
        let Some((request, _)) = client.open.take_if(|_| id == Ok(client.id)) else {
            return Ok(()); // it has given this request up
        };
        client.next = now + self.random.below(10);
        match request {
            Request::Init => self.begun[at % NODES] = true,
            Request::Add(add) => self.adds[add].known = true,
            Request::Read if self.part == Part::Reads => {
                let value = message
                    .integer("value")
                    .map_err(|error| error.to_string())?;
                client.read = Some(value.into());
            }
            Request::Read => self.metrics.reads += 1,
        }
        Ok(())
    }

    /// Checks a node's answer, and notes the add that it acknowledges.
    fn judge(&mut self, node: usize, client: usize, answer: &Message) -> Result<(), String> {
        let told = |error: Refusal| error.to_string();
        let id = answer.integer("in_reply_to").map_err(told)?;
        match answer.kind().map_err(told)? {
            "init_ok" => Ok(()),
            "add_ok" => {
                let add = self.asked.get(&(client, id));
                let add = add.map(|at| &mut self.adds[*at]);
                let add = add.filter(|add| add.node == node && !add.made);
                add.ok_or("an answer to no add, or to one twice")?.made = true;
                Ok(())
            }
            "read_ok" => {
                let value = i128::from(answer.integer("value").map_err(told)?);
                let (mut least, mut most) = (0, 0);
                for add in self.adds.iter().filter(|add| add.made) {
                    let delta = i128::from(add.delta);
                    let own = add.node == node;
                    least += if own { delta } else { delta.min(0) };
                    most += if own { delta } else { delta.max(0) };
                }
                match (least..=most).contains(&value) {
                    true => Ok(()),
                    false => Err(format!("not {least} to {most}")),
                }
            }
            _ => Err("no answer, or a refusal of a good request".to_owned()),
        }
    }

    /// Begins the next part, if the present one has ended.
    fn go_on(&mut self, now: Millis) -> Result<(), String> {
        self.part = match self.part {
            Part::Begin if self.begun.iter().all(|begun| *begun) => {
                Part::Storm(now + self.storm_ms)
            }
            Part::Storm(until) if until <= now => {
                self.sides = [false; NODES];
                Part::Calm
            }
            Part::Calm => {
                let of_client = |it: &(End, End, String)| {
                    matches!(it, (End::Client(_), ..) | (_, End::Client(_), _))
                };
                let open = self.clients.iter().any(|client| client.open.is_some());
                match open || self.flights.values().any(of_client) {
                    true => Part::Calm,
                    false => Part::Reads,
                }
            }
            Part::Reads if self.clients.iter().all(|client| client.read.is_some()) => {
                self.round(now)?
            }
            part => part,
        };
        Ok(())
    }

    /// Ends a round of final reads.
    fn round(&mut self, now: Millis) -> Result<Part, String> {
        self.metrics.rounds += 1;
        let verdict = self.verdict();
        self.quiet = match &verdict {
            Ok(()) => self.quiet + 1,
            Err(_) => 0,
        };
        if self.quiet == QUIET_ROUNDS {
            return Ok(Part::Over);
        }
        if self.metrics.rounds == ROUNDS_MAX {
            let why = verdict.err();
            return Err(why.unwrap_or_else(|| "reads are right at times only".to_owned()));
        }
        for client in &mut self.clients {
            client.read = None;
            client.next = now + Millis::from(INTERVAL_MS);
        }
        Ok(Part::Reads)
    }

    /// Whether all reads of this round are right.
    fn verdict(&self) -> Result<(), String> {
        let sum = |is: fn(&Add) -> bool| -> i128 {
            let some = self.adds.iter().filter(|add| is(add));
            some.map(|add| i128::from(add.delta)).sum()
        };
        let mut possible = Sums::new(sum(|add| add.known));
        for add in self.adds.iter().filter(|add| !add.known) {
            possible.perhaps(add.delta);
        }
        let made = sum(|add| add.made);
        for (at, client) in self.clients.iter().enumerate() {
            let (client_name, node) = (End::Client(at), End::Node(at % NODES));
            let value = client.read.unwrap_or_default();
            if !possible.has(value) {
                return Err(format!(
                    "{client_name} reads {value} at {node}, possible is {possible}"
                ));
            }
            if value != made {
                return Err(format!(
                    "{client_name} reads {value} at {node}; what nodes made is {made}"
                ));
            }
        }
        Ok(())
    }
}
