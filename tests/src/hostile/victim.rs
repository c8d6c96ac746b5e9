//! The replica and the machine under attack, and the scripts of the attackers.

use super::sized;
use crate::vectors::once;
use tallymesh_core::wire::Frame;
use tallymesh_core::{
    Input, KeyStatus, Level, Link, Mark, Millis, Op, Output, Owner, Replica, Role, SyncMachine,
    Token, WriterId,
};

const PEERS: usize = 2;
/// The owner of peers with limited rights: the one that minted the writer of the golden frame.
const LIMITED: Owner = [7; 32];
/// Most inputs of a script.
const INPUTS_MAX: usize = 256;
/// Most transactions that a member makes by itself for one input. One awaited push may release all waiting
/// pushes, and the member may answer each of them with a withdrawal.
const OWN_TRANSACTIONS_MAX: u64 = 600;
/// The least bytes of a writer in a table, of a counter, and of a keyed operation.
const WRITER_BYTES_MIN: usize = 17;
const COUNTER_BYTES_MIN: usize = 3;
const KEYED_BYTES_MIN: usize = 26;

/// The replica and the machine under attack.
pub(super) struct Victim {
    pub(super) replica: Replica,
    sync: SyncMachine,
    /// The owner of the member, in a space with members.
    owner: Option<Owner>,
    mark: Mark,
    now: Millis,
    /// Transactions under its present id that the script requested.
    adds: u64,
    renewals: u64,
    links: [Option<Link>; PEERS],
    next_link: u32,
    /// Bytes that it has received.
    heard: usize,
    /// Counters, writers and keyed operations that it had before the first input.
    had: usize,
    /// The frames that it sent, each with the number of the peer.
    pub(super) sent: Vec<(usize, Vec<u8>)>,
}

impl Victim {
    pub(super) fn new(replica: Replica, sync: SyncMachine, owner: Option<Owner>) -> Victim {
        let had = replica.len() + replica.writers().count() + replica.keyed().count();
        Victim {
            adds: replica.clock(),
            replica,
            sync,
            owner,
            mark: Mark::default(),
            now: 1,
            renewals: 0,
            links: [None; PEERS],
            next_link: 0,
            heard: 0,
            had,
            sent: Vec::new(),
        }
    }

    /// The present time of the victim.
    pub(super) fn now(&self) -> Millis {
        self.now
    }

    fn input(&mut self, input: Input<'_>) {
        let own = self.replica.clock();
        let before = matches!(input, Input::Frame { .. } | Input::Broadcast { .. });
        let before = before.then(|| self.of_others());
        self.take_part();
        self.sync.handle(self.now, &mut self.replica, input);
        let (mut count, mut refused, mut merged) = (0, false, false);
        while let Some(output) = self.sync.poll() {
            count += 1;
            match output {
                Output::Send { link, bytes } => {
                    check_own(&bytes);
                    let peer = self.links.iter().position(|open| *open == Some(link));
                    self.sent.extend(peer.map(|peer| (peer, bytes.to_vec())));
                }
                Output::Broadcast { bytes } => check_own(&bytes),
                Output::Changed { key_id } => {
                    let known = self.replica.key(key_id).is_some();
                    // A withdrawal may leave nothing of a counter.
                    let told = self.owner.is_some() || self.replica.value_at(key_id).is_some();
                    assert!(known && told);
                }
                Output::Refused { close, .. } => {
                    refused = true;
                    // The caller of the machine has to close this link.
                    if let Some(link) = close {
                        self.links.iter_mut().for_each(|open| {
                            open.take_if(|open| *open == link);
                        });
                        let link = Input::Disconnected { link };
                        self.sync.handle(self.now, &mut self.replica, link);
                    }
                }
                Output::Renew => {
                    merged = true;
                    self.renew();
                }
                Output::Merged { .. } | Output::Returned(_) => merged = true,
            }
        }
        assert!(count < 200_000, "one input made {count} outputs");
        if let Some(before) = before.filter(|_| refused && !merged) {
            assert!(
                before == self.of_others(),
                "what is refused changes nothing"
            );
        }
        self.check(own);
    }

    /// The state that came from others: vector entries, number of shards, and all values.
    fn of_others(&self) -> (Vec<(WriterId, u64)>, usize, Vec<Option<i128>>) {
        let own = self.replica.writer();
        let held = self.replica.writers().filter(|it| it.0 != own);
        let values = self.replica.counters();
        let values = values.map(|(handle, _)| self.replica.value_at(handle));
        (
            held.collect(),
            self.replica.keyed().count(),
            values.collect(),
        )
    }

    /// Checks that its own clock is the expected one after `before`, and that it grew no more than its input
    /// allows.
    fn check(&self, before: u64) {
        let (replica, clock) = (&self.replica, self.replica.clock());
        assert_eq!(replica.vector().get(&replica.writer()), clock);
        match self.owner {
            None => assert_eq!(clock, self.adds, "a peer moved the clock"),
            Some(_) => {
                let moved = clock.saturating_sub(before);
                assert!(
                    moved <= OWN_TRANSACTIONS_MAX,
                    "one input moved it by {moved}"
                );
            }
        }
        let most = |each: usize| self.had + INPUTS_MAX + self.heard / each;
        assert!(replica.keyed().count() <= most(KEYED_BYTES_MIN));
        assert!(replica.writers().count() <= most(WRITER_BYTES_MIN));
        assert!(replica.len() <= most(COUNTER_BYTES_MIN));
    }

    /// A member announces its start before anything else.
    fn take_part(&mut self) {
        if let Some(owner) = self
            .owner
            .filter(|_| !self.replica.members().is_announced())
        {
            let members = self.replica.members().configuration();
            if members.is_some_and(|members| members.has(&owner)) {
                let done = self
                    .replica
                    .members_mut()
                    .announce(&owner, &[0; 16], self.now);
                done.expect("it is a member");
            }
        }
    }

    fn renew(&mut self) {
        let id = u128::from(self.next_link) << 64 | u128::from(self.renewals);
        let writer = WriterId::from_bytes(id.to_be_bytes());
        self.renewals += 1;
        self.adds = 0;
        let renew = Input::Renew { writer };
        self.sync.handle(self.now, &mut self.replica, renew);
        // A member rejoins under this writer once others have ended its present one.
        assert!(self.owner.is_some() || self.replica.writer() == writer);
    }

    fn connect(&mut self, peer: usize, broadcast: bool) {
        self.next_link += 1;
        let link = Link(self.next_link);
        if let Some(link) = self.links[peer].replace(link) {
            self.input(Input::Disconnected { link });
        }
        self.input(Input::Connected { link, broadcast });
    }

    /// A peer connects that has fewer rights than a member.
    fn limit(&mut self, peer: usize, command: u8) {
        self.next_link += 1;
        let link = Link(self.next_link);
        if let Some(link) = self.links[peer].replace(link) {
            self.input(Input::Disconnected { link });
        }
        let role = [Role::Reader, Role::Writer, Role::Editor][usize::from(command & 7) % 3];
        let owner = LIMITED;
        self.input(Input::Limited { link, owner, role });
    }

    fn frame(&mut self, peer: usize, bytes: &[u8]) {
        self.heard += bytes.len();
        if let Some(link) = self.links[peer] {
            self.input(Input::Frame { link, bytes });
        }
    }

    fn tick(&mut self, after: Millis) {
        self.now += after;
        self.input(Input::Tick);
        let deadline = self.sync.next_deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "a tick left work");
    }

    /// Executes a script: each command with its operands. The highest bit of a command selects the peer.
    pub(super) fn play(&mut self, script: &[u8]) {
        let mut rest = script;
        for _ in 0..INPUTS_MAX {
            let Some((&command, after)) = rest.split_first() else {
                break;
            };
            rest = after;
            self.turn(command, &mut rest);
        }
    }

    /// Executes a command.
    pub(super) fn turn(&mut self, command: u8, rest: &mut &[u8]) {
        let peer = usize::from(command >> 7);
        match command & 0x7f {
            // A frame: two bytes of length, then the frame.
            0..=31 => {
                let bytes = sized(rest);
                self.frame(peer, bytes);
            }
            // A frame behind a proper head: its type, two bytes of length, the body.
            32..=63 => {
                let kind = command & 15;
                let mut bytes = b"tm\x01".to_vec();
                bytes.extend_from_slice(&[kind, 7]);
                bytes.extend_from_slice(b"default");
                bytes.extend_from_slice(sized(rest));
                self.frame(peer, &bytes);
            }
            64..=79 => {
                let from = self.links[peer];
                let bytes = sized(rest);
                self.heard += bytes.len();
                self.input(Input::Broadcast { from, bytes });
            }
            80..=87 => self.connect(peer, command & 1 == 1),
            88..=95 => self.limit(peer, command),
            96..=103 => {
                if let Some(link) = self.links[peer].take() {
                    self.input(Input::Disconnected { link });
                }
            }
            104..=111 => self.tick(1 << (command & 15)),
            112..=119 if self.owner.is_some() => self.work(command),
            _ => {
                let key = ["a", "b", "counter:00001"][usize::from(command) % 3];
                if self.replica.add(key, i64::from(command)).is_ok() {
                    self.adds += 1;
                }
                self.input(Input::Changed);
            }
        }
    }

    /// The duties and actions of a member alone.
    fn work(&mut self, command: u8) {
        match command & 7 {
            0 => {
                let (now, level) = (self.now, Level::All);
                if let Ok(token) = self.replica.consistency().token(&Token::default()) {
                    let upto = token.vector().clone();
                    self.sync.ask_for_write(now, &self.replica, level, upto);
                }
            }
            1 => {
                let (now, level) = (self.now, Level::Quorum);
                self.sync.ask_for_read(now, &self.replica, level);
            }
            2 => {
                let _ = self.replica.since(&mut self.mark);
                let Victim { sync, replica, .. } = self;
                let _ = sync.tend(self.now, replica, &self.mark);
            }
            at => self.add_once(["k", "l", "m"][usize::from(at) % 3]),
        }
        self.input(Input::Changed);
    }

    /// Adds to a counter under this key, if the key is new.
    fn add_once(&mut self, key: &str) {
        let once = once(key);
        if self.replica.keyed().lookup(&once) == KeyStatus::New
            && let Ok(mut transaction) = self.replica.begin()
            && transaction.apply("a", Op::Add(5)).is_ok()
        {
            let done = transaction.commit_once(once, &mut Vec::new());
            done.expect("a small operation");
        }
    }
}

/// Checks that a frame that was sent can be decoded.
fn check_own(bytes: &[u8]) {
    let frame = Frame::decode(bytes).expect("a frame of ours decodes");
    assert_eq!(frame.encode(), bytes);
}
