//! A host around real replicas.

use crate::protocol::{Facts, Host, KeyIdRange, Midway, Seen, Session};
use std::time::Duration;
use tallymesh_core::{Error, KeyId, KeyStatus, MemberError, Replica, Space, SplitMix64, WriterId};
use tallymesh_node_ground::model::{
    AtPresent, Event, Lack, LastWrite, Notice, OperationError, Place, Role, Sizes, Turned,
};

/// The wall clock that tests begin at.
pub(crate) const NOW: u64 = 1_000_000;

/// A node with nothing else around it.
pub(crate) struct Node {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) now: u64,
    pub(crate) random: SplitMix64,
    pub(crate) generation: u16,
    pub(crate) holders: usize,
    pub(crate) wrote: Vec<(usize, String, Event)>,
    /// The number of transactions that changed nothing.
    pub(crate) made: usize,
    /// The results of commands under idempotency keys.
    pub(crate) keyed: Vec<KeyStatus>,
    pub(crate) asked: Vec<LastWrite>,
    /// The amounts that other members are to be asked for.
    pub(crate) lacked: Vec<Lack>,
    /// The ticket of the one connection that has one.
    pub(crate) pass: Option<Pass>,
    /// Whether the signer of the tickets is still a member.
    pub(crate) trusts: bool,
    /// The number of logins that may still fail, and the codes of those that failed.
    pub(crate) tries: usize,
    pub(crate) failed: Vec<&'static str>,
    /// The number of times that a ticket was checked.
    pub(crate) judged: std::cell::Cell<usize>,
    /// The number of requests for the count of counters.
    pub(crate) sized: usize,
    /// Whether the node is about to be a member.
    pub(crate) starts: bool,
}

impl Session {
    /// Sends the session all of an event.
    pub(crate) fn hear(&self, notice: &Notice, out: &mut Vec<u8>) {
        let steps = (&mut 0, usize::MAX);
        assert!(self.notify(notice, &mut Midway::default(), steps, out));
    }
}

/// A ticket as tests write it. `writer@1<1500000` is a writer's ticket for the second space that
/// ends at that time. Without `@` it is for every space.
#[derive(Clone)]
pub(crate) struct Pass {
    spaces: Option<usize>,
    until: u64,
}

impl Pass {
    fn parse(text: &str) -> Option<(Role, Pass)> {
        let (text, until) = match text.split_once('<') {
            Some((text, until)) => (text, until.parse().ok()?),
            None => (text, u64::MAX),
        };
        let (role, spaces) = match text.split_once('@') {
            Some((role, space)) => (role, Some(space.parse().ok()?)),
            None => (text, None),
        };
        Some((role.parse().ok()?, Pass { spaces, until }))
    }
}

impl Node {
    pub(crate) fn new() -> Node {
        let names = ["first", "second"];
        let replica = |(at, name): (usize, &str)| {
            let space = Space::new(name).expect("a good name");
            let writer = WriterId::mint(&space, &[7; 32], &[at as u8; 16]);
            let mut replica = Replica::new(space, writer);
            replica.set_time(NOW);
            replica
        };
        Node {
            replicas: names.into_iter().enumerate().map(replica).collect(),
            now: NOW,
            random: SplitMix64::new(1),
            generation: 0,
            holders: 0,
            wrote: Vec::new(),
            made: 0,
            keyed: Vec::new(),
            asked: Vec::new(),
            lacked: Vec::new(),
            pass: None,
            trusts: true,
            tries: 10,
            failed: Vec::new(),
            judged: std::cell::Cell::new(0),
            sized: 0,
            starts: false,
        }
    }

    pub(crate) fn set_time(&mut self, now: u64) {
        self.now = now;
        for replica in &mut self.replicas {
            replica.set_time(now);
        }
    }

    /// Another replica of the first space, as its own writer.
    pub(crate) fn other(&self) -> Replica {
        let space = self.replicas[0].space().clone();
        let mut other = Replica::new(space.clone(), WriterId::mint(&space, &[8; 32], &[9; 16]));
        other.set_time(self.now);
        other
    }

    /// Returns the changes of counters since the last call.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let told = std::mem::take(&mut self.wrote);
        let told = told
            .into_iter()
            .map(|(space, key, event)| format!("{space} {key} {}", event.name()));
        told.collect()
    }
}

impl Host for Node {
    fn spaces(&self) -> usize {
        self.replicas.len()
    }

    fn space_name(&self, space: usize) -> &str {
        self.replicas[space].space().as_str()
    }

    fn replica(&self, space: usize) -> &Replica {
        &self.replicas[space]
    }

    fn writable(&mut self, space: usize) -> Result<&mut Replica, Error> {
        Ok(&mut self.replicas[space])
    }

    fn wrote(&mut self, space: usize, changed: KeyId, event: Event) {
        let key = self.replicas[space].key(changed).expect("a known counter");
        self.wrote.push((space, key.to_owned(), event));
    }

    fn made(&mut self, _: usize) {
        self.made += 1;
    }

    fn asked(&mut self, _: usize, asked: KeyStatus) {
        self.keyed.push(asked);
    }

    fn lacks(&mut self, _: usize, lacked: &Lack) {
        self.lacked.push(lacked.clone());
    }

    fn at_present(&self, _: usize) -> AtPresent {
        AtPresent {
            not_a_member: match self.starts {
                true => OperationError::CatchingUp(Vec::new()),
                false => Error::Member(MemberError::NotAMember).into(),
            },
            awaits_clock: self.starts,
            takes_over: self.starts,
            unreached: Vec::new(),
        }
    }

    fn may_log_in(&mut self) -> Result<(), Duration> {
        match self.failed.len() < self.tries {
            true => Ok(()),
            false => Err(Duration::from_millis(1500)),
        }
    }

    fn log_in_failed(&mut self, code: &'static str) -> Option<Duration> {
        self.failed.push(code);
        (self.failed.len() > self.tries).then_some(Duration::from_millis(1500))
    }

    fn log_in(&mut self, ticket: &[u8]) -> Result<Role, Turned> {
        let wrong = |code, text: &str| Turned {
            code,
            text: text.to_owned(),
        };
        let text = String::from_utf8_lossy(ticket);
        let (role, pass) = Pass::parse(&text).ok_or_else(|| wrong("ticket", "this is none"))?;
        if pass.until <= self.now {
            return Err(wrong("ticket_expired", "it ended"));
        }
        self.pass = Some(pass);
        Ok(role)
    }

    fn judge(&self, place: Place) -> Result<(), Turned> {
        let Some(pass) = &self.pass else {
            return Ok(());
        };
        self.judged.set(self.judged.get() + 1);
        let wrong = |code, text: &str| Turned {
            code,
            text: text.to_owned(),
        };
        if pass.until <= self.now {
            return Err(wrong("ticket_expired", "it ended"));
        }
        let covered = match place {
            Place::Nowhere => return Ok(()),
            Place::Space(space) => pass.spaces.is_none_or(|it| it == space),
            Place::Everywhere => pass.spaces.is_none(),
        };
        match (covered, self.trusts) {
            (false, _) => Err(Turned::forbidden("it does not speak of that")),
            (true, false) => Err(wrong("ticket_issuer", "who signed it is no member")),
            (true, true) => Ok(()),
        }
    }

    fn memory_bytes(&mut self) -> u64 {
        0
    }

    fn sizes(&mut self, space: usize) -> Sizes {
        self.sized += 1;
        let replica = &self.replicas[space];
        let expiring = replica
            .counters()
            .filter(|(counter, _)| replica.expiry_at(*counter).is_some());
        Sizes {
            counters: replica.len(),
            expiring: expiring.count(),
        }
    }

    fn key_ids(&self, space: usize) -> KeyIdRange {
        let numbers = self.replicas[space]
            .counters()
            .map(|(counter, _)| counter.as_u32() + 1);
        KeyIdRange {
            end: numbers.max().unwrap_or(0),
            generation: self.generation,
        }
    }

    fn unix_ms(&self) -> u64 {
        self.now
    }

    fn space_time(&self, _space: usize) -> u64 {
        self.now
    }

    fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn holders(&mut self, writes: &[LastWrite]) -> usize {
        self.asked = writes.to_vec();
        self.holders
    }

    fn facts(&self) -> Facts {
        Facts {
            version: "0.1.0".to_owned(),
            port: 6379,
            connections: 2,
            ..Facts::default()
        }
    }

    fn seen(&self, session: u64) -> Seen {
        Seen {
            peer: format!("127.0.0.1:{session}"),
            local: "127.0.0.1:6379".to_owned(),
            age_s: 3,
            idle_s: 0,
        }
    }

    fn others(&self, take: &mut dyn FnMut(u64, &str)) {
        take(3, "id=3 addr=127.0.0.1:3 flags=P\n");
    }
}
