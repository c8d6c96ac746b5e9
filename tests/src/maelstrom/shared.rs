//! The counter that a node shares with the others: a replica, the core's sync machine, and links. The links
//! are made of messages that may be lost, repeated and reordered.
//!
//! The machine needs a hello at the start of each link, and tolerates all other losses. So every message
//! contains the hello, until the other end confirms that it has it. The hello is also sent by itself once in
//! an interval.
//!
//! The links between two nodes are numbered, and both ends use the greater number. A node that has to close a
//! link opens the next one.

use super::message::{Message, Refusal};
use super::node::{Nonces, Said};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::collections::VecDeque;
use tallymesh_core::{
    Error, Input, Link, Millis, Output, Owner, Replica, Space, SyncConfig, SyncMachine, WriterId,
};

/// The type of the messages between nodes. The body has the link's `number`, and `heard`: whether the sender
/// has the receiver's hello on this link. It may have the sender's `hello` and a `frame`, in base64.
pub(super) const FRAME: &str = "frame";

/// The key of the one counter.
const KEY: &str = "counter";

/// See the [module](self).
pub(super) struct Shared {
    id: String,
    replica: Replica,
    sync: SyncMachine,
    interval_ms: u32,
    nonces: Nonces,
    others: Vec<String>,
    /// One entry for each other node, once links are open.
    peers: Vec<Peer>,
    /// How many links were opened.
    links: u32,
    said: VecDeque<Said>,
}

/// Another node.
struct Peer {
    link: Link,
    /// The number of the present link with this node.
    number: i64,
    /// Our hello on this link: the first frame that the machine sends.
    hello: Option<String>,
    /// Whether the machine has handled the other node's hello.
    has_hello: bool,
    /// Whether the other node has our hello.
    heard: bool,
    /// When the hello is sent again, until the other node has it.
    hello_at: Millis,
}

impl Shared {
    /// A counter at 0 of the node `id`.
    pub(super) fn new(
        id: &str,
        others: Vec<String>,
        interval_ms: u32,
        mut nonces: Nonces,
    ) -> Shared {
        let interval_ms = interval_ms.max(1);
        let config = SyncConfig {
            interval_ms,
            pull_timeout_ms: interval_ms.saturating_mul(2),
            ..SyncConfig::default()
        };
        let seed = u128::from_le_bytes(nonces()) as u64;
        Shared {
            id: id.to_owned(),
            replica: Replica::new(Space::default(), mint(id, &mut nonces)),
            sync: SyncMachine::new(config, seed),
            interval_ms,
            nonces,
            others,
            peers: Vec::new(),
            links: 0,
            said: VecDeque::new(),
        }
    }

    /// Opens the links, if they are not open. Not before the node can be sure that all nodes have started,
    /// because Maelstrom rejects messages to a node that has not.
    pub(super) fn open(&mut self, now: Millis) {
        for at in self.peers.len()..self.others.len() {
            self.peers.push(Peer {
                link: Link(0),
                number: 0,
                hello: None,
                has_hello: false,
                heard: false,
                hello_at: now,
            });
            self.connect(now, at, 0);
        }
    }

    /// The counter's value here.
    pub(super) fn value(&self) -> i128 {
        self.replica.value(KEY).unwrap_or(0)
    }

    /// Adds to the counter.
    ///
    /// # Errors
    /// The error of the replica. Then nothing was added.
    pub(super) fn add(&mut self, now: Millis, delta: i64) -> Result<(), Error> {
        self.replica.add(KEY, delta)?;
        self.handle(now, Input::Changed);
        Ok(())
    }

    /// Handles the time that has passed.
    pub(super) fn tick(&mut self, now: Millis) {
        for at in 0..self.peers.len() {
            if !self.peers[at].heard && self.peers[at].hello_at <= now {
                self.peers[at].hello_at = now + Millis::from(self.interval_ms);
                self.say(at, None);
            }
        }
        self.handle(now, Input::Tick);
    }

    /// When [`Shared::tick`] is due.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let unheard = self.peers.iter().filter(|peer| !peer.heard);
        let hello = unheard.map(|peer| peer.hello_at).min();
        [hello, self.sync.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next thing to be printed.
    pub(super) fn poll(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// Handles a message of another node.
    ///
    /// # Errors
    /// If it is not a message that a node sends. A frame that the machine rejects is only noted.
    pub(super) fn take(&mut self, now: Millis, message: &Message) -> Result<(), Refusal> {
        let from = self.others.iter().position(|id| *id == message.src);
        let at = from.ok_or_else(|| Refusal::Stranger {
            id: message.src.clone(),
        })?;
        let number = message.integer("number")?;
        let heard = message.body.get("heard") == Some(&Value::Bool(true));
        let (hello, frame) = (bytes(message, "hello")?, bytes(message, "frame")?);
        self.open(now);
        if number < self.peers[at].number {
            return Ok(()); // the hello on the newer link notifies the other node
        }
        if number > self.peers[at].number {
            self.connect(now, at, number);
        }
        let peer = &mut self.peers[at];
        if !peer.has_hello && hello.is_none() {
            // The other node sent its hello to an earlier process of this name. The earlier process has
            // ended.
            self.connect(now, at, number.saturating_add(1));
            return Ok(());
        }
        peer.heard |= heard;
        let hello = hello.filter(|_| !peer.has_hello);
        peer.has_hello = true;
        let link = peer.link;
        // If the machine rejects the hello, it closes the link and ignores the frame.
        for bytes in [hello, frame].into_iter().flatten() {
            let bytes = &bytes;
            self.handle(now, Input::Frame { link, bytes });
        }
        Ok(())
    }

    /// Closes the link with another node, if one is open, and opens the one with this number.
    fn connect(&mut self, now: Millis, at: usize, number: i64) {
        let old = self.peers[at].link;
        self.links += 1;
        let link = Link(self.links);
        // The first hello is sent at once. Two nodes that reject each other's hello do not get faster.
        let pause = match number {
            0 => 0,
            _ => Millis::from(self.interval_ms),
        };
        self.peers[at] = Peer {
            link,
            number,
            hello: None,
            has_hello: false,
            heard: false,
            hello_at: now + pause,
        };
        self.handle(now, Input::Disconnected { link: old });
        let broadcast = false;
        self.handle(now, Input::Connected { link, broadcast });
    }

    fn handle(&mut self, now: Millis, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
        while let Some(output) = self.sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(link, &bytes),
                Output::Renew => {
                    let writer = mint(&self.id, &mut self.nonces);
                    self.note(format!("goes on as writer {writer}"));
                    let input = Input::Renew { writer };
                    self.sync.handle(now, &mut self.replica, input);
                }
                Output::Refused { close, error } => {
                    self.note(format!("refused what came: {error}"));
                    let of = |peer: &Peer| Some(peer.link) == close;
                    if let Some(at) = self.peers.iter().position(of) {
                        let next = self.peers[at].number.saturating_add(1);
                        self.connect(now, at, next);
                    }
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, text: String) {
        self.said.push_back(Said::Note(text));
    }

    /// Sends a frame. The first frame on a link is its hello, which waits for the next tick.
    fn send(&mut self, link: Link, bytes: &[u8]) {
        let Some(at) = self.peers.iter().position(|peer| peer.link == link) else {
            return; // the link was closed meanwhile
        };
        let text = BASE64.encode(bytes);
        match self.peers[at].hello {
            None => self.peers[at].hello = Some(text),
            Some(_) => self.say(at, Some(text)),
        }
    }

    /// Prints a message to another node.
    fn say(&mut self, at: usize, frame: Option<String>) {
        let peer = &self.peers[at];
        let mut body = json!({"type": FRAME, "number": peer.number, "heard": peer.has_hello});
        let hello = peer.hello.clone().filter(|_| !peer.heard);
        for (name, text) in [("hello", hello), ("frame", frame)] {
            if let Some(text) = text {
                body[name] = text.into();
            }
        }
        let message = Message::new(&self.id, &self.others[at], body);
        self.said.push_back(Said::Line(message.line()));
    }
}

/// Mints a fresh writer id. There are no keys here, so the node's name stands for its owner.
fn mint(id: &str, nonces: &mut Nonces) -> WriterId {
    let mut owner: Owner = [0; 32];
    for (to, from) in owner.iter_mut().zip(id.bytes()) {
        *to = from;
    }
    WriterId::mint(&Space::default(), &owner, &nonces())
}

/// The decoded base64 bytes of a field, if the field is there.
fn bytes(message: &Message, name: &'static str) -> Result<Option<Vec<u8>>, Refusal> {
    if message.body.get(name).is_none() {
        return Ok(None);
    }
    let text = message.text(name)?;
    let bytes = BASE64.decode(text).map_err(|error| Refusal::Field {
        name,
        wanted: "base64",
        found: error.to_string(),
    })?;
    Ok(Some(bytes))
}
