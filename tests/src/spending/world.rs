//! Members, clients and links, event by event.

use super::clients::{Client, Waiting};
use super::holders::Holder;
use super::strikes::Struck;
use super::{Figures, Plan, Policy, Strike};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::limits::SKEW_MS_MAX;
use tallymesh_core::{
    Error, Flow, Input, Link, Mark, Message, Output, Owner, Replica, Space, Sync, SyncConfig,
    WriterId,
};

pub(super) const MEMBERS: usize = 3;
pub(super) const NAME: &str = "gift";
/// The type of the frame that opens a link.
const HELLO: u8 = 1;
/// The type of the frame by which members ask for rights.
const WANT: u8 = 14;
/// One way of a link, in milliseconds.
pub(super) const DELAY_MS: (u64, u64) = (10, 30);
/// How long a client thinks between two spends.
pub(super) const THINK_MS: (u64, u64) = (20, 200);
const TEND_MS: u64 = 200;
/// What the wall clocks say at first, in milliseconds.
const WALL_MS: u64 = 1_000_000;

#[derive(Clone)]
pub(super) struct Member {
    /// Whose process it is.
    pub(super) owner: Owner,
    pub(super) replica: Replica,
    pub(super) sync: Sync,
    mark: Mark,
    log: Vec<Vec<u8>>,
    pub(super) started: u64,
    tend_at: u64,
    /// Who waits here, the longest first.
    pub(super) waiting: VecDeque<Waiting>,
    /// When a plain policy may ask again.
    pub(super) ask_at: u64,
}

pub(super) enum Flight {
    Frame(Link, Vec<u8>),
    /// A request of a plain policy: who asks, for how much.
    Ask(usize, u64),
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) policy: Policy,
    pub(super) now: u64,
    pub(super) figures: Figures,
    pub(super) members: Vec<Member>,
    /// The open links by their ends, ascending.
    pub(super) links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    /// By the time of arrival and a number.
    flights: BTreeMap<(u64, u64), (usize, Flight)>,
    /// When the last frame of a link to an end arrives: a link keeps the order.
    arrivals: BTreeMap<(Link, usize), u64>,
    pub(super) clients: Vec<Client>,
    pub(super) holders: Vec<Holder>,
    /// How far the wall clock of each member is ahead, in milliseconds.
    ahead: Vec<u64>,
    pub(super) struck: Struck,
    /// The keys of all that was ever made, if clients use keys.
    pub(super) made: BTreeSet<String>,
    sent: u64,
    trouble_at: u64,
    /// Those that are cut, and until when.
    cut: BTreeMap<[usize; 2], u64>,
    /// When the time of the plan begins.
    pub(super) begun: u64,
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

pub(super) fn text(error: Error) -> String {
    error.to_string()
}

impl World {
    pub(super) fn new(seed: u64, plan: &Plan, policy: Policy) -> World {
        let mut world = World {
            random: Random::new(seed ^ 0x5e4d),
            plan: *plan,
            policy,
            now: 1,
            figures: Figures::default(),
            members: Vec::new(),
            links: BTreeMap::new(),
            next_link: 0,
            flights: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            clients: Vec::new(),
            holders: Vec::new(),
            ahead: vec![0; MEMBERS],
            struck: Struck::default(),
            made: BTreeSet::new(),
            sent: 0,
            trouble_at: 0,
            cut: BTreeMap::new(),
            begun: 0,
        };
        for at in 0..MEMBERS {
            let member = world.member(at);
            world.members.push(member);
        }
        if plan.holders > 0 {
            let ahead = (0..MEMBERS).map(|_| world.random.below(SKEW_MS_MAX + 1));
            world.ahead = ahead.collect();
        }
        world
    }

    fn member(&mut self, at: usize) -> Member {
        let nonce: [u8; 16] = self.random.bytes();
        let space = Space::default();
        let writer = WriterId::mint(&space, &owner(at), &nonce);
        let config = SyncConfig {
            interval_ms: 500,
            pull_timeout_ms: 1_000,
            owner: Some(owner(at)),
            lease_ms: match self.plan.strike {
                // Starts of a copy that is gone are waited for.
                Some(Strike::Copied) => 10_000,
                _ => SyncConfig::default().lease_ms,
            },
            ..SyncConfig::default()
        };
        Member {
            owner: owner(at),
            replica: Replica::new(space, writer),
            sync: Sync::new(config, self.random.next_u64()),
            mark: Mark::default(),
            log: Vec::new(),
            started: self.now,
            tend_at: 0,
            waiting: VecDeque::new(),
            ask_at: 0,
        }
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.found()?;
        let minted = self.plan.minted;
        let cap = (self.plan.given_back > 0).then_some(Flow::RaiseCap(minted));
        for flow in cap.into_iter().chain([Flow::Mint(minted)]) {
            self.members[0].replica.flow(NAME, flow).map_err(text)?;
        }
        self.handle(0, Input::Changed)?;
        self.pass(500)?;
        self.begun = self.now;
        self.trouble_at = self.now + 500;
        for at in 0..MEMBERS {
            for _ in 0..self.plan.clients[at] {
                let first = self.now + self.random.below(THINK_MS.1);
                self.clients.push(Client::new(at, first));
            }
        }
        self.add_holders();
        while self.now < self.begun + self.plan.end_ms && !self.is_spent() {
            self.event()?;
        }
        if !self.is_spent() {
            return Ok(());
        }
        self.figures.done_ms = self.now - self.begun;
        self.rest()
    }

    /// All is spent: clients ask on, and get nothing, and nothing moves.
    fn rest(&mut self) -> Result<(), String> {
        (self.plan.trouble_ms, self.plan.cut_ms) = (0, None);
        self.cut.clear();
        self.pass(5_000)?;
        let moves = self.figures.moves;
        self.pass(5_000)?;
        if self.plan.strike.is_some() {
            self.count_struck()?;
        }
        let exact = self.struck.copied.is_none();
        for (at, member) in self.living().filter(|_| exact) {
            let budget = member.replica.budget(NAME).ok_or("it is gone")?;
            if budget.value != 0 {
                return Err(format!("all is spent, and {at} sees {budget:?}"));
            }
        }
        let counted = self.figures.spent - self.figures.lost;
        let is_right = !exact || counted == self.plan.minted;
        match self.figures.moves == moves && is_right {
            true => Ok(()),
            false => Err(format!("it goes on: {:?}", self.figures)),
        }
    }

    /// The members come together.
    fn found(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (0..MEMBERS).map(owner).collect();
        let first = &mut self.members[0].replica;
        first.found(&owners[0], &[0; 16], 1).map_err(text)?;
        first.force_members(&owners).map_err(text)?;
        for pair in [[0, 1], [0, 2], [1, 2]] {
            self.connect(pair)?;
        }
        let until = self.now + 20_000;
        while self.now < until {
            self.event()?;
            if self.members.iter().all(|it| it.replica.is_established()) {
                return self.pass(2_000);
            }
        }
        Err("they don't all become members".into())
    }

    fn pass(&mut self, time: u64) -> Result<(), String> {
        let until = self.now + time;
        while self.now < until {
            self.event()?;
        }
        Ok(())
    }

    /// The next moment at which something happens, and all that does.
    fn event(&mut self) -> Result<(), String> {
        let flight = self.flights.keys().next().map(|it| it.0);
        let clients = self.clients.iter().filter_map(|it| it.due);
        let clients = clients.chain(self.holders.iter().map(|it| it.due));
        let patience = self.plan.patience_ms;
        let members = self.living().flat_map(|(_, it)| {
            let refusal = it.waiting.front().map(|it| it.since + patience);
            let asks = !it.waiting.is_empty() && self.policy != Policy::Members;
            let asks = asks.then_some(it.ask_at);
            [it.sync.next_deadline(), Some(it.tend_at), refusal, asks]
        });
        let next = flight.into_iter().chain(clients).chain(members.flatten());
        let next = next.min().unwrap_or(self.now).max(self.now);
        // Some things have no time of their own.
        self.now = next.clamp(self.now, self.now + 20);
        if next <= self.now {
            self.happen()?;
        }
        self.trouble()?;
        if next == self.now {
            self.now += 1;
        }
        Ok(())
    }

    fn happen(&mut self) -> Result<(), String> {
        while let Some(entry) = self
            .flights
            .first_entry()
            .filter(|it| it.key().0 <= self.now)
        {
            let (to, flight) = entry.remove();
            match flight {
                Flight::Frame(link, bytes) if self.links.contains_key(&link) => {
                    let bytes = &bytes;
                    self.handle(to, Input::Frame { link, bytes })?;
                }
                Flight::Frame(..) => {}
                Flight::Ask(from, amount) => self.plain_grant(to, from, amount)?,
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].due.is_some_and(|due| due <= self.now) {
                self.ask(client)?;
            }
        }
        for holder in 0..self.holders.len() {
            if self.holders[holder].due <= self.now {
                self.hold(holder)?;
            }
        }
        for at in 0..self.members.len() {
            if self.struck.gone == Some(at) {
                continue;
            }
            if self.members[at]
                .sync
                .next_deadline()
                .is_some_and(|due| due <= self.now)
            {
                self.handle(at, Input::Tick)?;
            }
            if self.members[at].tend_at <= self.now {
                self.tend(at)?;
            }
            self.serve(at)?;
            self.give_up(at);
            self.plain_ask(at);
        }
        Ok(())
    }

    /// The second copy of a process has the clock of the first one.
    pub(super) fn copy_clock(&mut self, at: usize) {
        self.ahead.push(self.ahead[at]);
    }

    /// Tells a member what its wall clock says.
    pub(super) fn set_time(&mut self, at: usize) {
        let time = WALL_MS + self.now + self.ahead[at];
        self.members[at].replica.set_time(time);
    }

    pub(super) fn handle(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let now = self.now;
        self.set_time(at);
        let member = &mut self.members[at];
        let before = member.replica.clock();
        let is_frame = matches!(input, Input::Frame { .. });
        let asked = matches!(&input, Input::Frame { bytes, .. } if bytes[3] == WANT);
        member.sync.handle(now, &mut member.replica, input);
        self.figures.moves += u64::from(asked && member.replica.clock() > before);
        if let Some(message) = member.replica.since(&mut member.mark) {
            if message.is_whole() {
                member.log.clear();
            }
            member.log.push(message.encode_stored());
        }
        let mut renew = false;
        while let Some(output) = self.members[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes),
                Output::Renew => renew = true,
                Output::Refused { error, .. } => return Err(format!("{at} refuses: {error}")),
                _ => {}
            }
        }
        if renew {
            let nonce: [u8; 16] = self.random.bytes();
            let writer = WriterId::mint(&Space::default(), &self.members[at].owner, &nonce);
            self.handle(at, Input::Renew { writer })?;
        }
        match is_frame {
            true => self.check(at),
            false => Ok(()),
        }
    }

    /// The members that run, with their places.
    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Member)> {
        let gone = self.struck.gone;
        let members = self.members.iter().enumerate();
        members.filter(move |it| Some(it.0) != gone)
    }

    /// All two that may have a link.
    fn pairs(&self) -> Vec<[usize; 2]> {
        let living: Vec<usize> = self.living().map(|it| it.0).collect();
        let of = |&to: &usize| {
            let before = living.iter().filter(move |at| **at < to);
            before.map(move |at| [*at, to])
        };
        living.iter().flat_map(of).collect()
    }

    /// No view is out of its bounds, and its rights add up.
    pub(super) fn check(&self, at: usize) -> Result<(), String> {
        if self.struck.copied.is_some() {
            return Ok(()); // what two copies spend may be too much: it is counted in the end
        }
        let replica = &self.members[at].replica;
        let Some(budget) = replica.budget(NAME) else {
            return Ok(());
        };
        // Of what is made twice under one key both may be seen; and what was given back may not be.
        let exact = !self.plan.keyed
            && self.plan.given_back == 0
            && self.plan.holders == 0
            && self.plan.strike.is_none();
        let least = i128::from(self.plan.minted) - i128::from(self.figures.spent);
        let least = if exact { least.max(0) } else { 0 };
        let holders = replica.holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights + it.leased).sum();
        let room: i128 = holders.iter().map(|it| it.room).sum();
        let wrong = budget.value < least || budget.value > i128::from(self.plan.minted);
        let less = holders
            .iter()
            .any(|it| it.rights.min(it.leased).min(it.room) < 0);
        let left = budget.cap.map_or(0, |cap| cap - budget.value);
        match wrong || less || rights != budget.value || room != left {
            true => Err(format!(
                "{at} sees {budget:?} held as {holders:?}, {:?}",
                self.figures
            )),
            false => Ok(()),
        }
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        if bytes[3] == WANT {
            if self.policy != Policy::Members {
                return; // members ask ahead by themselves
            }
            self.figures.requests += 1;
        }
        // A link opens with one hello.
        let lost = if bytes[3] == HELLO { 0 } else { self.plan.lost };
        if lost > 0 && self.random.chance(lost) {
            return;
        }
        let late = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        let last = self.arrivals.entry((link, to)).or_default();
        *last = late.max(*last);
        let arrives = *last;
        if lost > 0 && self.random.chance(lost) {
            self.fly(arrives, to, Flight::Frame(link, bytes.clone()));
        }
        self.fly(arrives, to, Flight::Frame(link, bytes));
    }

    pub(super) fn fly(&mut self, arrives: u64, to: usize, flight: Flight) {
        self.sent += 1;
        self.flights.insert((arrives, self.sent), (to, flight));
    }

    fn connect(&mut self, pair: [usize; 2]) -> Result<(), String> {
        let link = Link(self.next_link);
        self.next_link += 1;
        self.links.insert(link, pair);
        let broadcast = false;
        for at in pair {
            self.handle(at, Input::Connected { link, broadcast })?;
        }
        Ok(())
    }

    pub(super) fn disconnect(&mut self, of: impl Fn(&[usize; 2]) -> bool) -> Result<(), String> {
        let links = self.links.iter().filter(|it| of(it.1));
        let links: Vec<(Link, [usize; 2])> = links.map(|it| (*it.0, *it.1)).collect();
        for (link, ends) in links {
            self.links.remove(&link);
            for at in ends {
                self.handle(at, Input::Disconnected { link })?;
            }
        }
        Ok(())
    }

    fn tend(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        self.set_time(at);
        let member = &mut self.members[at];
        member.tend_at = now + TEND_MS;
        let replica = &mut member.replica;
        let late = member.started + 5_000 <= now;
        if !replica.is_announced() && (late || member.sync.has_caught_up(replica)) {
            let members = replica.configuration();
            if members.is_some_and(|it| it.has(&member.owner)) {
                replica
                    .announce(&member.owner, &[0; 16], now)
                    .map_err(text)?;
            }
        }
        let tended = member.sync.tend(now, &mut member.replica, &member.mark);
        tended.map_err(text)?;
        self.handle(at, Input::Changed)
    }

    pub(super) fn is_cut_off(&self) -> bool {
        let cut = self.plan.cut_ms.filter(|_| self.begun > 0);
        cut.is_some_and(|(from, to)| (from..to).contains(&(self.now - self.begun)))
    }

    /// Cuts and mends links, and begins members again.
    fn trouble(&mut self) -> Result<(), String> {
        if self.is_cut_off() {
            for pair in [[0, 2], [1, 2]] {
                self.cut.insert(pair, self.now + 1);
            }
        }
        if self.begun > 0
            && self.now < self.begun + self.plan.trouble_ms
            && self.trouble_at <= self.now
        {
            self.trouble_at = self.now + self.random.range(200, 1_500);
            let pair = *self.random.pick(&self.pairs());
            match self.random.chance(850) {
                true => {
                    self.figures.cuts += 1;
                    self.cut
                        .insert(pair, self.now + self.random.range(100, 3_000));
                }
                false => self.restart(pair[0])?,
            }
        }
        let now = self.now;
        self.cut.retain(|_, until| *until > now);
        let cut: Vec<[usize; 2]> = self.cut.keys().copied().collect();
        self.disconnect(|ends| cut.contains(ends))?;
        self.strike()?;
        for pair in self.pairs() {
            let open = self.links.values().any(|ends| *ends == pair);
            if !open && !cut.contains(&pair) && self.next_link > 0 {
                self.connect(pair)?;
            }
        }
        Ok(())
    }

    /// A member's process ends, and another begins from what it had stored. Clients ask again.
    pub(super) fn restart(&mut self, at: usize) -> Result<(), String> {
        self.figures.restarts += 1;
        self.disconnect(|ends| ends.contains(&at))?;
        let mut fresh = self.member(at);
        for record in &self.members[at].log {
            let record = Message::decode_stored(record).map_err(text)?;
            fresh.replica.restore(&record).map_err(text)?;
        }
        fresh.mark = fresh.replica.mark();
        std::mem::swap(&mut fresh, &mut self.members[at]);
        self.members[at].log = fresh.log;
        for it in fresh.waiting {
            self.clients[it.client].due = Some(self.now + THINK_MS.1);
        }
        self.check(at)
    }
}
