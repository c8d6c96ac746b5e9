//! Hostile clients, as scripts: the fuzz target `resp` and seeded noise both play these.
//!
//! This file and the host depend on nothing else in the tests. So a fuzzer need not build the rest
//! of the node with its instruments.

use super::host::Node;
use crate::protocol::limits::*;
use crate::protocol::{Flow, RespConfig, Session};
use std::sync::Arc;
use tallymesh_core::{Replica, SplitMix64};
use tallymesh_node_ground::model::{Event, Notice};

/// Most bytes that a script sends and receives. It is more than an argument may have, and more than
/// a session answers while the client reads nothing.
const BYTES_MAX: usize = 5 << 18;

/// The same for a long script: more than a session stores. Few scripts need that, and they are
/// slow.
const LONG_BYTES_MAX: usize = HELD_BYTES_MAX + (2 << 20);

/// Steps of a script that are played.
const STEPS_MAX: usize = 256;

/// Bytes that a node reads from a connection at once.
const READ_BYTES: usize = 64 << 10;

/// Events that subscribers receive at once.
const TOLD_MAX: usize = 64;

/// The words that a script can choose with one byte, by index.
const WORDS: &str = "auth client command config dbsize decr decrby del discard echo exec exists \
    expire expireat expiretime flushall flushdb get getdel getex getset hello incr incrby info \
    keys mget mset multi object persist pexpire pexpireat pexpiretime ping psetex psubscribe \
    pttl punsubscribe quit randomkey reset scan select set setex setnx subscribe touch ttl type \
    unlink unsubscribe unwatch wait watch a b c own0 0 1 2 3 -1 100 9223372036854775807 \
    -9223372036854775808 NX XX GET EX PX EXAT KEEPTTL PERSIST COUNT MATCH * __key*__:* \
    __keyspace@0__:a SETNAME SETINFO LIB-NAME LIST INFO DOCS secret default encoding once LEVEL \
    quorum";

/// Plays a script twice, with the bytes cut into pieces in different ways. Its sessions must stay
/// within their bounds and send well-formed answers, the same both times. Another client's session
/// at the same node must count exactly.
///
/// The first byte selects the node's configuration, and the others are steps: a command and its
/// arguments. See [`Play::step`].
pub(crate) fn client(script: &[u8]) {
    let [setup, steps @ ..] = script else {
        return;
    };
    let config = RespConfig {
        password: (setup & 1 != 0).then(|| "secret".to_owned()),
        strict: setup & 2 != 0,
        flush: setup & 4 != 0,
        ..RespConfig::default()
    };
    let bytes_max = match setup & 8 {
        0 => BYTES_MAX,
        _ => LONG_BYTES_MAX,
    };
    let play = |cuts| play(Play::new(&config, bytes_max, cuts), steps);
    let (one, other) = (play(None), play(Some(1)));
    let same = one.transcript.len().min(other.transcript.len());
    // A list of clients contains how many of their bytes are unread.
    let tells = |play: &Play| find(&play.transcript, b"qbuf=");
    if !tells(&one) && !tells(&other) {
        assert!(
            one.transcript[..same] == other.transcript[..same],
            "pieces are answered otherwise than the whole"
        );
        if !one.is_over() && !other.is_over() {
            assert_eq!(one.transcript.len(), other.transcript.len());
        }
    }
    if !one.is_over() && !other.is_over() {
        for (one, other) in one.node.replicas.iter().zip(&other.node.replicas) {
            assert_eq!(one.canonical_bytes(), other.canonical_bytes());
        }
    }
}

fn play(mut play: Play, mut steps: &[u8]) -> Play {
    for _ in 0..STEPS_MAX {
        let Some((&command, rest)) = steps.split_first() else {
            break;
        };
        steps = rest;
        play.step(command, &mut steps);
        play.tell();
        play.count();
        if play.is_over() {
            break;
        }
    }
    play
}

/// A node, its two hostile clients, and one that only counts.
struct Play {
    config: Arc<RespConfig>,
    node: Node,
    peer: Replica,
    hostile: [Client; 2],
    honest: Session,
    /// The number of the honest client's counter, and the value that it has counted there.
    own: (u32, i64),
    sessions: u64,
    bytes_max: usize,
    sent: usize,
    /// The random cuts, if the sent bytes are cut into small pieces.
    cuts: Option<SplitMix64>,
    /// The events that were not sent to subscribers yet.
    events: Vec<(usize, String, Event)>,
    /// All answers.
    transcript: Vec<u8>,
}

/// A client, without its session.
struct Client {
    session: Session,
    /// The bytes that the client has not read yet.
    unread: Vec<u8>,
    reads: bool,
    sent: usize,
    /// The number of bytes that the client sent after its session stopped executing commands.
    kept: usize,
    /// The number of replies that the client got, and whether some of them may be pushed messages.
    replies: u64,
    pushed: bool,
    flow: Flow,
}

impl Client {
    fn new(id: u64, config: Arc<RespConfig>) -> Client {
        Client {
            session: Session::new(id, config),
            unread: Vec::new(),
            reads: true,
            sent: 0,
            kept: 0,
            replies: 0,
            pushed: false,
            flow: Flow::Open,
        }
    }

    /// Checks the bytes that the client got from an offset on, which must be whole replies. Returns
    /// the offset of the last reply.
    fn look(&mut self, from: usize) -> usize {
        let (mut at, mut last) = (from, from);
        while at < self.unread.len() {
            let rest = &self.unread[at..];
            let (end, is_push) = reply(rest, 0).unwrap_or_else(|| {
                let shown = String::from_utf8_lossy(&rest[..rest.len().min(200)]);
                panic!("no reply: {shown:?}")
            });
            self.pushed |= is_push;
            self.replies += 1;
            last = at;
            at += end;
        }
        last
    }

    /// Gives a piece to the client's session. The session answers at once, and only as long as
    /// answers may pile up.
    fn feed(&mut self, piece: &[u8], node: &mut Node) {
        let (before, was) = (self.unread.len(), self.flow);
        self.flow = self.session.feed(piece, node, &mut self.unread);
        let last = self.look(before);
        // A subscription is answered once for each name.
        let most = match self.pushed {
            true => OUT_BYTES_PAUSE + SUBSCRIPTIONS_MAX * (PATTERN_BYTES_MAX + 64),
            false => OUT_BYTES_PAUSE,
        };
        if self.flow != Flow::Close {
            assert!(last <= most.max(before), "a reply begins at {last}");
        }
        self.kept = match was == self.flow && self.flow != Flow::Open {
            true => self.kept + piece.len(),
            false => 0,
        };
        if self.flow != Flow::Close {
            assert!(self.kept <= HELD_BYTES_MAX, "{} bytes wait", self.kept);
        }
        self.check_replies();
        self.check_memory();
    }

    fn read(&mut self, transcript: &mut Vec<u8>) {
        transcript.append(&mut self.unread);
    }

    /// Each command has one reply, unless it waits, or the bytes were no command.
    fn check_replies(&self) {
        if self.pushed {
            return;
        }
        let commands = self.session.commands();
        match self.flow {
            Flow::Close => assert!(self.replies.abs_diff(commands) <= 1),
            _ => {
                let waits = u64::from(self.session.wait().is_some());
                assert_eq!(self.replies + waits, commands, "replies");
            }
        }
    }

    fn check_memory(&self) {
        let heap = self.session.heap_bytes();
        let most = 2 * (HELD_BYTES_MAX + QUEUED_BYTES_MAX)
            + 16 * (QUEUED_ARGS_MAX + 2 * QUEUED_COMMANDS_MAX + AHEAD_MAX * ARGS_MAX);
        assert!(heap <= most, "{heap} bytes");
        // Memory is used for the bytes that arrived, and not for the announced length.
        let came = 16 * self.sent + 4 * IDLE_BYTES_MAX;
        assert!(heap <= came, "{heap} bytes, and {} came", self.sent);
    }
}

impl Play {
    fn new(config: &RespConfig, bytes_max: usize, cuts: Option<u64>) -> Play {
        let config = Arc::new(config.clone());
        let node = Node::new();
        Play {
            peer: node.other(),
            node,
            hostile: [1, 2].map(|id| Client::new(id, config.clone())),
            honest: Session::new(0, config.clone()),
            config,
            own: (0, 0),
            sessions: 2,
            bytes_max,
            sent: 0,
            cuts: cuts.map(SplitMix64::new),
            events: Vec::new(),
            transcript: Vec::new(),
        }
    }

    /// Whether a script has sent enough bytes.
    fn is_over(&self) -> bool {
        self.sent.max(self.transcript.len()) >= self.bytes_max
    }

    fn step(&mut self, command: u8, rest: &mut &[u8]) {
        let at = usize::from(command >> 7);
        match command & 0x7f {
            // Bytes, after their number.
            0..=39 => {
                let bytes = sized(rest).to_vec();
                self.send(at, &bytes);
            }
            // A well-formed command: the number of arguments, then each of them.
            40..=71 => {
                let bytes = request(rest);
                self.send(at, &bytes);
            }
            // The same bytes many times.
            72..=87 => {
                let bytes = sized(rest);
                let room = self.bytes_max.saturating_sub(self.sent) / bytes.len().max(1);
                let bytes = bytes.repeat(room.min(1 << (command & 15)));
                self.send(at, &bytes);
            }
            88..=95 => self
                .node
                .set_time(self.node.now + (1 << (4 * (command & 7)))),
            96..=103 => self.hostile[at].reads ^= true,
            104..=111 => {
                let client = &mut self.hostile[at];
                let members = usize::from(command & 7);
                let before = client.unread.len();
                client.session.answer_wait(members, &mut client.unread);
                client.look(before);
                self.feed(at, b"");
            }
            112..=119 => self.merge(command),
            _ => {
                self.sessions += 1;
                self.hostile[at] = Client::new(self.sessions, self.config.clone());
            }
        }
    }

    /// Sends bytes in pieces, as a network would deliver them.
    fn send(&mut self, at: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over() {
            let size = match &mut self.cuts {
                None => READ_BYTES,
                Some(cuts) => 1 + cuts.next_u64() as usize % (1 + bytes.len().min(READ_BYTES) / 4),
            };
            let (piece, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            self.sent += piece.len();
            self.hostile[at].sent += piece.len();
            self.feed(at, piece);
        }
    }

    /// Lets a session execute what it received, as long as the client reads the answers.
    fn feed(&mut self, at: usize, piece: &[u8]) {
        let mut piece = piece;
        loop {
            self.hostile[at].feed(piece, &mut self.node);
            piece = b"";
            self.note();
            let client = &mut self.hostile[at];
            if client.reads {
                client.read(&mut self.transcript);
            }
            if client.flow == Flow::Turn {
                continue;
            }
            let is_full = client.flow == Flow::Full;
            if !is_full || !client.reads || self.is_over() {
                return;
            }
        }
    }

    /// Records the events of a step. If one of them is on the honest client's counter, that client
    /// uses another counter.
    fn note(&mut self) {
        let own = self.own_key();
        let is_own = |(space, key, _): &(usize, String, Event)| *space == 0 && *key == own;
        if self.node.wrote.iter().any(is_own) {
            self.own = (self.own.0 + 1, 0);
        }
        let room = TOLD_MAX - self.events.len();
        self.events.extend(self.node.wrote.drain(..).take(room));
    }

    /// Sends subscribers the events of a step.
    fn tell(&mut self) {
        for (space, key, event) in std::mem::take(&mut self.events) {
            let notice = Notice::new(space, &key, event);
            for client in &mut self.hostile {
                if client.session.is_subscribed() && client.unread.len() <= OUT_BYTES_MAX {
                    let before = client.unread.len();
                    client.session.hear(&notice, &mut client.unread);
                    client.look(before);
                }
            }
        }
        for client in &mut self.hostile {
            if client.reads {
                client.read(&mut self.transcript);
            }
        }
    }

    /// Merges another replica's writes.
    fn merge(&mut self, command: u8) {
        let key = ["a", "b", "c", "d"][usize::from(command) % 4];
        self.peer.add(key, i64::from(command)).expect("room");
        let message = self.peer.snapshot();
        self.node.replicas[0]
            .merge(&message)
            .expect("a good message");
    }

    fn own_key(&self) -> String {
        format!("own{}", self.own.0)
    }

    /// The honest client counts, and gets the value that it has counted.
    fn count(&mut self) {
        while self.node.replicas[0].value(&self.own_key())
            != (self.own.1 != 0).then_some(self.own.1.into())
        {
            // Only a counter that was never this client's may have any value.
            assert_eq!(self.own.1, 0, "somebody changed {}", self.own_key());
            self.own.0 += 1;
        }
        self.own.1 += 1;
        let (key, value) = (self.own_key(), self.own.1.to_string());
        let mut wanted = format!(":{value}\r\n${}\r\n{value}\r\n", value.len());
        let mut sent = format!(
            "*2\r\n$4\r\nINCR\r\n${0}\r\n{key}\r\nGET {key}\r\n",
            key.len()
        );
        if self.honest.commands() == 0 && self.config.password.is_some() {
            sent.insert_str(0, "AUTH secret\r\n");
            wanted.insert_str(0, "+OK\r\n");
        }
        let mut out = Vec::new();
        let flow = self.honest.feed(sent.as_bytes(), &mut self.node, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), wanted);
        assert_eq!(flow, Flow::Open);
        let told = std::mem::take(&mut self.node.wrote);
        assert!(told.len() == 1 && told[0].1 == key, "{told:?}");
    }
}

/// As many bytes as the first one says, or all that are left.
fn sized<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let Some((len, after)) = rest.split_first() else {
        return b"";
    };
    let (head, tail) = after.split_at(usize::from(*len).min(after.len()));
    *rest = tail;
    head
}

/// A well-formed command. One byte gives the number of arguments; each of these is a word, or a
/// number of bytes.
fn request(rest: &mut &[u8]) -> Vec<u8> {
    let count = sized_count(rest);
    let mut bytes = format!("*{count}\r\n").into_bytes();
    for _ in 0..count {
        let arg = match rest.first() {
            Some(word @ 0x80..) => {
                *rest = &rest[1..];
                let mut words = WORDS.split(' ').cycle();
                words
                    .nth(usize::from(word & 0x7f))
                    .unwrap_or_default()
                    .as_bytes()
            }
            _ => sized(rest),
        };
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn sized_count(rest: &mut &[u8]) -> usize {
    let Some((count, after)) = rest.split_first() else {
        return 1;
    };
    *rest = after;
    1 + usize::from(count % 16)
}

/// The length of the reply at the start of `bytes`, and whether it may be a pushed message that
/// answers no command. Returns `None` if the reply is malformed.
pub(crate) fn reply(bytes: &[u8], depth: usize) -> Option<(usize, bool)> {
    let line_end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &bytes[1..line_end];
    let from = line_end + 2;
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'+' | b'-' => {
            let well = !line.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
            well.then_some((from, false))
        }
        b':' => number().map(|_| (from, false)),
        b'_' => line.is_empty().then_some((from, false)),
        b'$' | b'*' if line == b"-1" => Some((from, false)),
        b'$' | b'=' => {
            let end = from + usize::try_from(number()?).ok()?;
            (bytes.get(end..end + 2)? == b"\r\n").then_some((end + 2, false))
        }
        kind @ (b'*' | b'~' | b'>' | b'%') if depth < 8 => {
            let count = usize::try_from(number()?).ok()?;
            let count = count * if kind == b'%' { 2 } else { 1 };
            let mut end = from;
            for _ in 0..count {
                end += reply(bytes.get(end..)?, depth + 1)?.0;
            }
            let is_push = kind == b'>' || pushes(&bytes[from..end]);
            Some((end, is_push))
        }
        _ => None,
    }
}

/// Whether an array begins as a message, or as the answer to a subscription.
fn pushes(body: &[u8]) -> bool {
    let words = [
        "message",
        "pmessage",
        "subscribe",
        "psubscribe",
        "unsubscribe",
        "punsubscribe",
    ];
    words
        .iter()
        .any(|word| body.starts_with(format!("${}\r\n{word}\r\n", word.len()).as_bytes()))
}

fn find(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
