//! Members, clients and links, event by event.

use super::{Figures, Plan, Policy};
use crate::random::Random;
use std::collections::{BTreeMap, VecDeque};
use tallymesh_core::{
    Error, Flow, Input, Link, Mark, Message, Output, Owner, Replica, Space, Stock, Sync,
    SyncConfig, WantId, WriterId,
};

const MEMBERS: usize = 3;
const NAME: &str = "gift";
/// The type of the frame by which members ask for rights.
const WANT: u8 = 14;
/// One way of a link, in milliseconds.
const DELAY_MS: (u64, u64) = (10, 30);
/// How long a client thinks between two spends.
const THINK_MS: (u64, u64) = (20, 200);
/// How often the plain policies ask: an answer takes up to 60 ms.
const PLAIN_AGAIN_MS: u64 = 60;
const TEND_MS: u64 = 200;

struct Member {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    log: Vec<Vec<u8>>,
    started: u64,
    tend_at: u64,
    /// Who waits here, the longest first.
    waiting: VecDeque<Waiting>,
    /// When a plain policy may ask again.
    ask_at: u64,
}

struct Waiting {
    client: usize,
    since: u64,
    want: Option<WantId>,
}

enum Flight {
    Frame(Link, Vec<u8>),
    /// A request of a plain policy: who asks, for how much.
    Ask(usize, u64),
}

pub(super) struct World {
    random: Random,
    plan: Plan,
    policy: Policy,
    pub(super) now: u64,
    pub(super) figures: Figures,
    members: Vec<Member>,
    /// The open links by their ends, ascending.
    links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    /// By the time of arrival and a number.
    flights: BTreeMap<(u64, u64), (usize, Flight)>,
    /// When the last frame of a link to an end arrives: a link keeps the order.
    arrivals: BTreeMap<(Link, usize), u64>,
    /// When each client spends next, and at whom; none while it waits.
    clients: Vec<(usize, Option<u64>)>,
    sent: u64,
    trouble_at: u64,
    /// Those that are cut, and until when.
    cut: BTreeMap<[usize; 2], u64>,
    /// When the time of the plan begins.
    begun: u64,
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

fn text(error: Error) -> String {
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
            sent: 0,
            trouble_at: 0,
            cut: BTreeMap::new(),
            begun: 0,
        };
        for at in 0..MEMBERS {
            let member = world.member(at);
            world.members.push(member);
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
            ..SyncConfig::default()
        };
        Member {
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
        let flow = Flow::Mint(self.plan.minted);
        self.members[0].replica.flow(NAME, flow).map_err(text)?;
        self.handle(0, Input::Changed)?;
        self.pass(500)?;
        self.begun = self.now;
        self.trouble_at = self.now + 500;
        for at in 0..MEMBERS {
            for _ in 0..self.plan.clients[at] {
                let first = self.now + self.random.below(THINK_MS.1);
                self.clients.push((at, Some(first)));
            }
        }
        while self.now < self.begun + self.plan.end_ms && self.figures.spent < self.plan.minted {
            self.event()?;
        }
        if self.figures.spent < self.plan.minted {
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
        for (at, member) in self.members.iter().enumerate() {
            let budget = member.replica.budget(NAME).ok_or("it is gone")?;
            if budget.value != 0 {
                return Err(format!("all is spent, and {at} sees {budget:?}"));
            }
        }
        match self.figures.moves == moves && self.figures.spent == self.plan.minted {
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
        let clients = self.clients.iter().filter_map(|it| it.1);
        let patience = self.plan.patience_ms;
        let members = self.members.iter().flat_map(|it| {
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
            if self.clients[client].1.is_some_and(|at| at <= self.now) {
                self.begin_spend(client)?;
            }
        }
        for at in 0..MEMBERS {
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

    fn handle(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let now = self.now;
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
            let writer = WriterId::mint(&Space::default(), &owner(at), &nonce);
            self.handle(at, Input::Renew { writer })?;
        }
        match is_frame {
            true => self.check(at),
            false => Ok(()),
        }
    }

    /// No view is out of its bounds, and its rights add up.
    fn check(&self, at: usize) -> Result<(), String> {
        let replica = &self.members[at].replica;
        let Some(budget) = replica.budget(NAME) else {
            return Ok(());
        };
        let least = i128::from(self.plan.minted) - i128::from(self.figures.spent);
        let holders = replica.holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights).sum();
        let wrong = budget.value < least.max(0) || budget.value > i128::from(self.plan.minted);
        let less = holders.iter().any(|it| it.rights < 0);
        match wrong || less || rights != budget.value {
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
        let late = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        let last = self.arrivals.entry((link, to)).or_default();
        *last = late.max(*last);
        let arrives = *last;
        self.fly(arrives, to, Flight::Frame(link, bytes));
    }

    fn fly(&mut self, arrives: u64, to: usize, flight: Flight) {
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

    fn disconnect(&mut self, of: impl Fn(&[usize; 2]) -> bool) -> Result<(), String> {
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
        let member = &mut self.members[at];
        member.tend_at = now + TEND_MS;
        let replica = &mut member.replica;
        let late = member.started + 5_000 <= now;
        if !replica.is_announced() && (late || member.sync.has_caught_up(replica)) {
            let members = replica.configuration();
            if members.is_some_and(|it| it.has(&owner(at))) {
                replica.announce(&owner(at), &[0; 16], now).map_err(text)?;
            }
        }
        let tended = member.sync.tend(now, &mut member.replica, &member.mark);
        tended.map_err(text)?;
        self.handle(at, Input::Changed)
    }

    fn is_cut_off(&self) -> bool {
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
            let pair = *self.random.pick(&[[0, 1], [0, 2], [1, 2]]);
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
        for pair in [[0, 1], [0, 2], [1, 2]] {
            let open = self.links.values().any(|ends| *ends == pair);
            if !open && !cut.contains(&pair) && self.next_link > 0 {
                self.connect(pair)?;
            }
        }
        Ok(())
    }

    /// A member's process ends, and another begins from what it had stored. Clients ask again.
    fn restart(&mut self, at: usize) -> Result<(), String> {
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
            self.clients[it.client].1 = Some(self.now + THINK_MS.1);
        }
        self.check(at)
    }

    fn begin_spend(&mut self, client: usize) -> Result<(), String> {
        let at = self.clients[client].0;
        self.clients[client].1 = None;
        // Who came before is served before.
        let nobody = self.members[at].waiting.is_empty();
        if nobody && self.spend(at)? {
            self.figures.at_once += 1;
            self.ends(client, true);
            return Ok(());
        }
        let until = self.now + self.plan.patience_ms;
        let now = self.now;
        let member = &mut self.members[at];
        let asks = self.policy == Policy::Members;
        let want = asks.then(|| member.sync.want_rights(now, NAME, Stock::Rights, 1, until));
        let since = now;
        member.waiting.push_back(Waiting {
            client,
            since,
            want,
        });
        self.handle(at, Input::Tick)
    }

    /// Spends a unit; false if there is none here.
    fn spend(&mut self, at: usize) -> Result<bool, String> {
        let replica = &mut self.members[at].replica;
        match replica.flow(NAME, Flow::Spend(1)) {
            Ok(()) => {
                self.figures.spent += 1;
                if self.figures.spent > self.plan.minted {
                    return Err("more was spent than there is".into());
                }
                self.handle(at, Input::Changed)?;
                self.check(at)?;
                Ok(true)
            }
            // Who has just started is no member yet, or knows of nothing.
            Err(Error::RightsShort(_) | Error::NotAMember | Error::NoBudget) => Ok(false),
            Err(error) => Err(format!("{at} spends: {error}")),
        }
    }

    fn ends(&mut self, client: usize, served: bool) {
        let think = self.random.range(THINK_MS.0, THINK_MS.1);
        self.clients[client].1 = Some(self.now + think);
        if self.is_cut_off() && self.clients[client].0 == 2 {
            self.figures.cut.0 += u64::from(served);
            self.figures.cut.1 += u64::from(!served);
        }
    }

    /// Serves who waits.
    fn serve(&mut self, at: usize) -> Result<(), String> {
        while !self.members[at].waiting.is_empty() && self.spend(at)? {
            let Some(it) = self.members[at].waiting.pop_front() else {
                break;
            };
            let now = self.now;
            if let Some(want) = it.want {
                self.members[at].sync.end_want(now, want);
            }
            self.figures.waits.push(now - it.since);
            self.ends(it.client, true);
        }
        Ok(())
    }

    fn give_up(&mut self, at: usize) {
        let (now, patience) = (self.now, self.plan.patience_ms);
        let late = |it: &Waiting| it.since + patience <= now;
        while self.members[at].waiting.front().is_some_and(late)
            && let Some(it) = self.members[at].waiting.pop_front()
        {
            if let Some(want) = it.want {
                self.members[at].sync.end_want(now, want);
            }
            self.figures.refused += 1;
            let early = self.figures.spent < self.plan.minted / 10 * 9;
            self.figures.refused_early += u64::from(early);
            self.ends(it.client, false);
        }
    }

    /// Asks by a plain policy.
    fn plain_ask(&mut self, at: usize) {
        let member = &self.members[at];
        let missing = member.waiting.len() as u64;
        if self.policy == Policy::Members || missing == 0 || member.ask_at > self.now {
            return;
        }
        self.members[at].ask_at = self.now + PLAIN_AGAIN_MS;
        let replica = &self.members[at].replica;
        let linked = |other: usize| {
            self.links
                .values()
                .any(|it| it.contains(&at) && it.contains(&other))
        };
        let held = |other: usize| {
            let writer = self.members[other].replica.writer();
            let holders = replica.holders_of(NAME);
            holders
                .iter()
                .find(|it| it.writer == writer)
                .map_or(0, |it| it.rights)
        };
        let others =
            (0..MEMBERS).filter(|other| *other != at && linked(*other) && held(*other) > 0);
        let others: Vec<usize> = others.collect();
        let to = match self.policy {
            _ if others.is_empty() => return,
            Policy::Missing => others[self.random.index(others.len())],
            _ => others
                .iter()
                .copied()
                .max_by_key(|other| held(*other))
                .unwrap_or(0),
        };
        self.figures.requests += 1;
        let arrives = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        self.fly(arrives, to, Flight::Ask(at, missing));
    }

    fn plain_grant(&mut self, at: usize, from: usize, missing: u64) -> Result<(), String> {
        let linked = self
            .links
            .values()
            .any(|it| it.contains(&at) && it.contains(&from));
        let to = self.members[from].replica.writer();
        let replica = &mut self.members[at].replica;
        let here = replica.budget(NAME).map_or(0, |it| it.rights.here);
        let here = u64::try_from(here).unwrap_or(0);
        let amount = match self.policy {
            Policy::Missing => missing.min(here),
            _ => here.div_ceil(2),
        };
        if !linked || amount == 0 || replica.flow(NAME, Flow::Grant { to, amount }).is_err() {
            return Ok(());
        }
        self.figures.moves += 1;
        self.handle(at, Input::Changed)
    }
}
