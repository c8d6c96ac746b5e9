//! Pipelines of all commands, as scripts. The fuzz target `resp_session` and a test with seeded
//! scripts play them.
//!
//! A script chooses the commands, the places where the bytes are cut, the ends of waits, and the
//! times at which the client reads. Each script is played twice: as it says, and command by command
//! with a client that reads at once.
//!
//! Both runs must give the same well-formed answers. So each command runs from a buffer that is
//! partly executed, and from one that is not.

use super::host::Node;
use super::hostile::reply;
use crate::protocol::limits::{HELD_BYTES_MAX, OUT_BYTES_PAUSE};
use crate::protocol::{Flow, RespConfig, Session, Unmet, Wait};
use std::sync::{Arc, LazyLock};
use tallymesh_core::SplitMix64;
use tallymesh_node_ground::model::{Event, Notice};

/// Most commands of a script.
const COMMANDS_MAX: usize = 200;

/// Arguments that are at some limit, or name something that exists.
const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "own",
    "",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "50",
    "127",
    "65535",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "01",
    "1.5",
    "x",
    "*",
    "a*",
    "[",
    "__key*__:*",
    "__keyspace@0__:a",
    "NX",
    "XX",
    "GET",
    "EX",
    "PX",
    "EXAT",
    "KEEPTTL",
    "ENX",
    "LBOUND",
    "UBOUND",
    "SATURATE",
    "COUNT",
    "MATCH",
    "TYPE",
    "string",
    "local",
    "quorum",
    "all",
    "TO",
    "default",
    "secret",
    "AUTH",
    "SETNAME",
    "id",
    "incr",
    "exec",
    "8640000000000000",
    "keyspace",
];

/// Commands whose effects change how the next ones are executed.
const STATES: &[&str] = &[
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH a",
    "WAIT 1 50",
    "WAIT 0 0",
    "CLIENT LEVEL quorum",
    "CLIENT LEVEL all 10",
    "CLIENT LEVEL local",
    "CLIENT RIGHTS-WAIT 100",
    "SUBSCRIBE a",
    "PSUBSCRIBE *",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "HELLO 3",
    "HELLO 2",
    "RESET",
    "SELECT 1",
    "SELECT 0",
    "BUDGET.MINT pot 5",
    "BUDGET.SPEND pot 9",
    "SEQUENCE.BEGIN seq",
    "SEQUENCE.NEXT seq",
    "CLIENT INFO",
    "CLIENT LIST",
    "ONCE k INCRBY a 2",
    "ONCE k EXEC",
    "INCR a",
    "GET a",
];

/// The rest of a script. At its end it yields 0.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    /// An index below `count`.
    fn pick(&mut self, count: usize) -> usize {
        match count {
            0..=256 => self.byte() % count.max(1),
            _ => (self.byte() << 8 | self.byte()) % count,
        }
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.pick(WORDS.len())]
    }
}

/// Plays a script.
pub(crate) fn pipelines(script: &[u8]) {
    let mut script = Script(script);
    let setup = script.byte();
    let mut commands = Vec::new();
    while !script.0.is_empty() && commands.len() < COMMANDS_MAX {
        commands.push(command(&mut script, &SHAPES));
    }
    let (seed, slow) = (script.byte() as u64 + commands.len() as u64, setup & 1 != 0);
    let apart = Play::new(setup).play(&commands, None);
    let together = Play::new(setup).play(&commands, Some((seed, slow)));
    let (apart, together) = (replies(&apart), replies(&together));
    let shown = |at: usize| {
        let shown = |all: &[Vec<u8>]| {
            all.get(at)
                .map(|it| String::from_utf8_lossy(it).into_owned())
        };
        format!("{:?} apart, {:?} together", shown(&apart), shown(&together))
    };
    let count = apart.len().max(together.len());
    if let Some(at) = (0..count).find(|at| apart.get(*at) != together.get(*at)) {
        panic!("reply {at} differs: {}", shown(at));
    }
}

/// The commands and subcommands that exist, and the least number of words of each, as `COMMAND`
/// lists them.
static SHAPES: LazyLock<Vec<(String, usize)>> = LazyLock::new(|| {
    let mut out = Vec::new();
    let mut session = Session::new(1, Arc::new(RespConfig::default()));
    session.feed(b"COMMAND\r\n", &mut Node::new(), &mut out);
    let text = String::from_utf8_lossy(&out);
    let mut shapes = Vec::new();
    for entry in text.split("*10\r\n").skip(1) {
        let mut lines = entry.lines().skip(1);
        let name = lines.next().unwrap_or_default().replace('|', " ");
        let arity = lines
            .next()
            .and_then(|it| it.strip_prefix(':')?.parse::<i64>().ok());
        let words = name.split(' ').count();
        let least = usize::try_from(arity.unwrap_or(1).unsigned_abs()).unwrap_or(1);
        shapes.push((name, least.max(words) - words));
    }
    assert!(shapes.len() > 80, "{} commands", shapes.len());
    shapes
});

/// A command: one that changes the session's state, or any of the table with arguments.
fn command(script: &mut Script<'_>, shapes: &[(String, usize)]) -> Vec<u8> {
    let kind = script.byte();
    let words: Vec<String> = match kind % 4 {
        0 => {
            let state = STATES[script.pick(STATES.len())];
            state.split(' ').map(str::to_owned).collect()
        }
        _ => {
            let (name, least) = &shapes[script.pick(shapes.len())];
            let more = match kind % 8 {
                7 => script.pick(6),
                _ => 0,
            };
            let mut words: Vec<String> = name.split(' ').map(str::to_owned).collect();
            words.extend((0..least + more).map(|_| script.word().to_owned()));
            words
        }
    };
    if kind >= 240 && words.iter().all(|it| !it.is_empty() && it != "[") {
        return format!("{}\r\n", words.join(" ")).into_bytes();
    }
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in &words {
        // Some arguments are long, so that only a small part of a buffer is executed when the next
        // wait begins.
        let pad = if kind == 239 && word.is_empty() {
            700
        } else {
            0
        };
        bytes.extend(format!("${}\r\n{word}{}\r\n", word.len() + pad, "p".repeat(pad)).bytes());
    }
    bytes
}

/// One session at a node, and its client.
struct Play {
    session: Session,
    node: Node,
    flow: Flow,
    /// The bytes that the client has not read, and those that it has.
    unread: Vec<u8>,
    read: Vec<u8>,
    waits: usize,
}

impl Play {
    fn new(setup: usize) -> Play {
        let config = RespConfig {
            password: (setup & 2 != 0).then(|| "secret".to_owned()),
            strict: setup & 4 != 0,
            flush: setup & 8 != 0,
            ..RespConfig::default()
        };
        let mut node = Node::new();
        if setup & 16 == 0 {
            let now = node.now;
            let found = node.replicas[0]
                .members_mut()
                .found(&[7; 32], &[0; 16], now);
            found.expect("the first member");
        }
        let mut play = Play {
            session: Session::new(7, Arc::new(config)),
            node,
            flow: Flow::Open,
            unread: Vec::new(),
            read: Vec::new(),
            waits: 0,
        };
        if setup & 2 != 0 && setup & 32 != 0 {
            play.feed(b"AUTH secret\r\n");
            play.go_on();
        }
        play
    }

    /// Sends the commands one after the other, or all together in pieces that a seed chooses. In
    /// the second case the client may read only when it must. Returns all answers.
    fn play(mut self, commands: &[Vec<u8>], together: Option<(u64, bool)>) -> Vec<u8> {
        let Some((seed, slow)) = together else {
            for command in commands {
                self.feed(command);
                self.go_on();
                self.take();
            }
            return self.read;
        };
        let mut random = SplitMix64::new(seed);
        let all = commands.concat();
        let mut rest = all.as_slice();
        while !rest.is_empty() && self.flow != Flow::Close {
            let most = match random.next_u64() % 4 {
                0 => 3,
                1 => 100,
                _ => rest.len(),
            };
            let size = 1 + random.next_u64() as usize % most.min(rest.len());
            let (piece, after) = rest.split_at(size);
            rest = after;
            self.feed(piece);
            // A piece may arrive while the session waits. A node does not read then, but it could.
            if !random.next_u64().is_multiple_of(4) {
                self.go_on();
            }
            if !slow || self.unread.len() >= OUT_BYTES_PAUSE {
                self.take();
            }
        }
        self.go_on();
        self.take();
        self.read
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.flow = self.session.feed(bytes, &mut self.node, &mut self.unread);
        assert!(self.session.heap_bytes() <= 4 * HELD_BYTES_MAX);
    }

    fn take(&mut self) {
        self.read.append(&mut self.unread);
    }

    /// Lets the session execute all that arrived: ends waits, and reads the replies that have to be
    /// read.
    fn go_on(&mut self) {
        for _ in 0..100_000 {
            match self.flow {
                Flow::Close => return,
                Flow::Open => {
                    self.tell();
                    return;
                }
                Flow::Waits => self.end_wait(),
                Flow::Full => self.take(),
                Flow::Turn => {}
            }
            self.feed(b"");
        }
        panic!("a session does not come to an end");
    }

    /// Ends a wait. The result depends only on the number of the wait.
    fn end_wait(&mut self) {
        self.waits += 1;
        let (at, out) = (self.waits, &mut self.unread);
        match self.session.wait().expect("it waits") {
            Wait::Holders { .. } => self.session.answer_wait(at % 3, out),
            Wait::Write { .. } | Wait::Read { .. } => {
                let unmet = || Unmet {
                    code: "level_not_reached",
                    text: "too few".to_owned(),
                };
                let met = if at.is_multiple_of(4) {
                    Err(unmet())
                } else {
                    Ok(())
                };
                self.session.answer_level(met, out);
            }
            Wait::Pause { .. } => self.session.answer_pause(),
            Wait::Rights { .. } | Wait::Membership { .. } => self
                .session
                .answer_rights(if at.is_multiple_of(2) { 0 } else { 5 }),
        }
    }

    /// Sends subscribers an event, to check that it fits between replies. The event is not
    /// recorded, because its place differs between the runs.
    fn tell(&mut self) {
        self.node.wrote.clear();
        if self.session.is_subscribed() {
            let mut out = Vec::new();
            self.session
                .hear(&Notice::new(0, "a", Event::IncrBy), &mut out);
            assert!(out.is_empty() || reply(&out, 0).is_some());
        }
    }
}

/// The replies one by one, without those that contain how much of a pipeline waits.
fn replies(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let (end, _) = reply(bytes, 0).unwrap_or_else(|| panic!("no reply: {:?}", shown()));
        let (one, rest) = bytes.split_at(end);
        if !one.windows(6).any(|part| part == b" qbuf=") {
            all.push(one.to_vec());
        }
        bytes = rest;
    }
    all
}
