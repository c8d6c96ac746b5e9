//! The members, their links and their clients.

mod clients;
mod told;

use super::{Decided, Figures, Plan, limit, owner};
use crate::random::Random;
use clients::{Client, PATIENCE_MS, Waiting};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::{
    Error, Input, Limit, Link, Mark, Message, Output, Owner, Replica, Space, Stock, Sync,
    SyncConfig, WriterId,
};

/// The type of the frame that opens a link.
const HELLO: u8 = 1;
/// One way of a link, in milliseconds.
const DELAY_MS: (u64, u64) = (10, 30);
const TEND_MS: u64 = 200;
/// What clocks show at first: a moment that no period of the plans begins at.
const EPOCH_MS: u64 = 1_800_000_000_123;

struct Member {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    log: Vec<Vec<u8>>,
    /// Copies of the log.
    copies: Vec<Vec<Vec<u8>>>,
    started: u64,
    tend_at: u64,
    waiting: VecDeque<Waiting>,
}

pub(super) struct World {
    random: Random,
    plan: Plan,
    pub(super) now: u64,
    pub(super) figures: Figures,
    members: Vec<Member>,
    /// How much later than the true time each one's clock is, less the greatest.
    skews: Vec<u64>,
    links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    flights: BTreeMap<(u64, u64), (usize, Link, Vec<u8>)>,
    arrivals: BTreeMap<(Link, usize), u64>,
    sent: u64,
    cut: BTreeMap<[usize; 2], u64>,
    trouble_at: u64,
    begun: u64,
    clients: Vec<Client>,
    decided: Decided,
    /// What was allowed and counts, by the window: the sum, and by which transactions.
    allowed: BTreeMap<String, (u64, Vec<(Dot, u64)>)>,
    seen: BTreeSet<String>,
}

/// A transaction: its writer, and its clock.
type Dot = (WriterId, u64);

fn text(error: Error) -> String {
    error.to_string()
}

/// End, birth and key of a window's name.
fn window(name: &str) -> (u64, u64, &str) {
    let number = |at: usize| u64::from_str_radix(&name[at..at + 16], 16).unwrap_or(0);
    (number(0), number(16), &name[32..])
}

impl World {
    pub(super) fn new(seed: u64, plan: &Plan) -> World {
        let mut random = Random::new(seed ^ 0x817d);
        let skews = (0..plan.members).map(|_| random.below(plan.skew_ms + 1));
        let skews = skews.collect();
        let mut world = World {
            random,
            plan: *plan,
            now: 1,
            figures: Figures::default(),
            members: Vec::new(),
            skews,
            links: BTreeMap::new(),
            next_link: 0,
            flights: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sent: 0,
            cut: BTreeMap::new(),
            trouble_at: 0,
            begun: 0,
            clients: Vec::new(),
            decided: Decided::default(),
            allowed: BTreeMap::new(),
            seen: BTreeSet::new(),
        };
        for at in 0..plan.members {
            let member = world.member(at);
            world.members.push(member);
        }
        world
    }

    fn pairs(&self) -> Vec<[usize; 2]> {
        let all = 0..self.plan.members;
        let pairs = all.clone().flat_map(|a| all.clone().map(move |b| [a, b]));
        pairs.filter(|pair| pair[0] < pair[1]).collect()
    }

    /// What a member's clock shows.
    fn clock(&self, at: usize) -> u64 {
        EPOCH_MS + self.now + self.skews[at]
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
        let mut replica = Replica::new(space, writer);
        replica.set_time(self.clock(at));
        Member {
            replica,
            sync: Sync::new(config, self.random.next_u64()),
            mark: Mark::default(),
            log: Vec::new(),
            copies: Vec::new(),
            started: self.now,
            tend_at: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.found()?;
        let first = limit("api", self.plan.limit, self.plan.period_ms);
        self.propose(0, &[first]).map_err(text)?;
        self.pass(1_000)?;
        self.begun = self.now;
        self.trouble_at = self.now + 1_000;
        self.begin_clients();
        self.pass(self.plan.end_ms)
    }

    /// All is mended: all of a limit can be used, and then all that was kept of windows goes.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        self.plan.trouble_ms = 0;
        self.cut.clear();
        self.clients.iter_mut().for_each(|it| it.due = None);
        self.pass(15_000)?;
        let most = self.plan.limit;
        let period = 10_000;
        let last = [limit("last", most, period)];
        let mut at = 0;
        for _ in 0..20 {
            // Members may change still, as was decided before.
            at = self.any_member().ok_or("nobody is a member")?;
            if self.members[at].replica.period("last").is_ok() {
                break;
            }
            let _ = self.propose(at, &last);
            self.pass(3_000)?;
        }
        if let Err(error) = self.members[at].replica.period("last") {
            return Err(format!("nothing is decided: {error}; {}", self.told()));
        }
        self.pass(5_000)?;
        let left = period - self.clock(at) % period;
        self.pass(left + self.plan.skew_ms + 50)?;
        let begun = self.now;
        let mut used = 0;
        while self.now < begun + 6_000 && used < most {
            for at in 0..self.plan.members {
                if !self.members[at].replica.is_member() {
                    continue;
                }
                let cost = 1 + self.random.below(3).min(most - used);
                let cost = cost.min(most - used);
                if cost > 0 && self.allow(at, "last", cost)? {
                    used += cost;
                } else if cost > 0 {
                    let Ok(period) = self.members[at].replica.period("last") else {
                        continue;
                    };
                    let (name, now) = (period.window, self.now);
                    let sync = &mut self.members[at].sync;
                    sync.lack_rights(now, &name, Stock::Window, cost);
                    self.handle(at, Input::Tick)?;
                }
            }
            self.pass(20)?;
        }
        if used < most {
            return Err(format!("only {used} of {most} can be used"));
        }
        self.pass(60_000)?;
        // A process that wrote something and is gone for good is waited for until its lease is over.
        if self.plan.moves > 0 && self.is_left(at).is_some() {
            self.pass(600_000)?;
        }
        self.is_left(at).map_or(Ok(()), Err)
    }

    /// What is left of windows, which should be nothing.
    fn is_left(&self, at: usize) -> Option<String> {
        let digest = self.members[at].replica.digest();
        for (at, member) in self.members.iter().enumerate() {
            // A guest drops what is deleted when it knows that all have seen that, which may be later.
            let left = match member.replica.is_member() {
                true => member.replica.window_counters(),
                false => member.replica.window_rights().count(),
            };
            if left > 0 || member.replica.digest() != digest {
                let of: Vec<_> = member.replica.window_rights().collect();
                return Some(format!(
                    "{at} keeps {left} counters of windows: {of:?}; {}",
                    self.told()
                ));
            }
            let parts = member.replica.budget_parts().count();
            if parts > 4 {
                return Some(format!("{at} keeps {parts} reserved counters"));
            }
        }
        None
    }

    fn any_member(&self) -> Option<usize> {
        (0..self.plan.members).find(|at| self.members[*at].replica.is_member())
    }

    fn propose(&mut self, at: usize, limits: &[Limit]) -> Result<(), Error> {
        self.members[at].replica.propose_limits(limits)
    }

    fn found(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (0..self.plan.founders).map(owner).collect();
        let clock = self.clock(0);
        let first = &mut self.members[0].replica;
        first.found(&owners[0], &[0; 16], clock).map_err(text)?;
        first.force_members(&owners).map_err(text)?;
        for pair in self.pairs() {
            self.connect(pair)?;
        }
        let until = self.now + 20_000;
        while self.now < until {
            self.event()?;
            if self.members[..owners.len()]
                .iter()
                .all(|it| it.replica.is_established())
            {
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
        let members = self.members.iter().flat_map(|it| {
            let refusal = it.waiting.front().map(|it| it.since + PATIENCE_MS);
            [it.sync.next_deadline(), Some(it.tend_at), refusal]
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
            let (to, link, bytes) = entry.remove();
            if self.links.contains_key(&link) {
                let bytes = &bytes;
                self.handle(to, Input::Frame { link, bytes })?;
            }
        }
        for client in 0..self.clients.len() {
            if self.clients[client].due.is_some_and(|due| due <= self.now) {
                self.ask(client)?;
            }
        }
        for at in 0..self.plan.members {
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
        }
        Ok(())
    }

    fn handle(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let (now, clock) = (self.now, self.clock(at));
        let member = &mut self.members[at];
        member.replica.set_time(clock);
        member.sync.handle(now, &mut member.replica, input);
        let changed = member.replica.since(&mut member.mark);
        let news = changed.is_some();
        if let Some(message) = changed {
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
        if news {
            self.look(at)?;
        }
        Ok(())
    }

    /// What a member sees is within the limits.
    fn look(&mut self, at: usize) -> Result<(), String> {
        let replica = &self.members[at].replica;
        if replica.fault_count() > 0 {
            let faults: Vec<_> = replica.faults().iter().collect();
            return Err(format!("{at} finds {faults:?}"));
        }
        if let Some(present) = replica.configuration()
            && !self.decided.by_number.contains_key(&present.number)
        {
            self.figures.decided += 1;
            self.decided.note(present);
        }
        let numbers = self.members.iter();
        let numbers = numbers.map(|it| it.replica.configuration().map_or(0, |it| it.number));
        let least = numbers.min().unwrap_or(0);
        let now = EPOCH_MS + self.now;
        self.decided.known.entry(least).or_insert(now);
        let clock = self.clock(at);
        let replica = &self.members[at].replica;
        self.figures.counters = self.figures.counters.max(replica.window_counters());
        let mut shares: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, amount) in replica.window_shares() {
            *shares.entry(name).or_default() += amount;
        }
        let mut rights: BTreeMap<&str, i128> = BTreeMap::new();
        for (name, _, held) in replica.window_rights() {
            let (end, ..) = window(name);
            if clock < end && held < 0 {
                return Err(format!("{at} sees {held} in {name}"));
            }
            *rights.entry(name).or_default() += held;
        }
        for (name, brought) in shares {
            let (end, ..) = window(name);
            let (most, left) = (self.bound(name), rights.get(name).copied().unwrap_or(0));
            if brought > i128::from(most) || clock < end && left > brought {
                return Err(format!(
                    "{at} sees {brought} brought into {name}, of {most}, {left} left"
                ));
            }
        }
        Ok(())
    }

    fn bound(&self, name: &str) -> u64 {
        let (end, born, key) = window(name);
        let period = self.decided.by_number.values();
        let period = period.filter_map(|it| it.limit_of(key).filter(|it| it.born == born));
        let period = period.map(|it| it.period_ms).next().unwrap_or(0);
        // The fastest clock may show as much more than the slowest.
        let first = end.saturating_sub(period + 2 * self.plan.skew_ms);
        self.decided.bound(key, born, first)
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        // A link opens with one hello.
        let lost = if bytes[3] == HELLO { 0 } else { self.plan.lost };
        if lost > 0 && self.random.chance(lost) {
            return;
        }
        let late = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        let last = self.arrivals.entry((link, to)).or_default();
        *last = late.max(*last);
        let arrives = *last;
        let twice = lost > 0 && self.random.chance(lost);
        for bytes in twice.then(|| bytes.clone()).into_iter().chain([bytes]) {
            self.sent += 1;
            self.flights.insert((arrives, self.sent), (to, link, bytes));
        }
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
        let (now, clock) = (self.now, self.clock(at));
        let member = &mut self.members[at];
        member.tend_at = now + TEND_MS;
        let replica = &mut member.replica;
        replica.set_time(clock);
        let late = member.started + 5_000 <= now;
        if !replica.is_announced() && (late || member.sync.has_caught_up(replica)) {
            let members = replica.configuration();
            if members.is_some_and(|it| it.has(&owner(at))) {
                replica
                    .announce(&owner(at), &[0; 16], clock)
                    .map_err(text)?;
            }
        }
        let tended = member.sync.tend(now, &mut member.replica, &member.mark);
        tended.map_err(text)?;
        self.handle(at, Input::Changed)
    }

    /// Cuts and mends links, copies stores, begins members again, and changes who and how much.
    fn trouble(&mut self) -> Result<(), String> {
        let troubled = self.begun > 0 && self.now < self.begun + self.plan.trouble_ms;
        if troubled && self.trouble_at <= self.now {
            self.trouble_at = self.now + self.random.range(200, 1_500);
            let pairs = self.pairs();
            let pair = *self.random.pick(&pairs);
            let copied = self.random.index(self.plan.members);
            let copy = self.members[copied].log.clone();
            self.members[copied].copies.push(copy);
            let until = self.now + self.random.range(100, 3_000);
            if self.random.chance(self.plan.rules) {
                self.change_limits()?;
            }
            if self.random.chance(self.plan.moves) {
                self.change_members()?;
            }
            match self.random.below(100) {
                0..50 => {
                    self.figures.cuts += 1;
                    self.cut.insert(pair, until);
                }
                50..75 => {
                    self.figures.cuts += 1;
                    let own = pairs.iter().filter(|it| it.contains(&pair[1]));
                    self.cut.extend(own.map(|it| (*it, until)));
                }
                _ => {
                    let at = *self.random.pick(&pair);
                    self.restart(at)?;
                }
            }
        }
        let now = self.now;
        self.cut.retain(|_, until| *until > now);
        let cut: Vec<[usize; 2]> = self.cut.keys().copied().collect();
        self.disconnect(|ends| cut.contains(ends))?;
        for pair in self.pairs() {
            let open = self.links.values().any(|ends| *ends == pair);
            if !open && !cut.contains(&pair) && self.next_link > 0 {
                self.connect(pair)?;
            }
        }
        Ok(())
    }

    fn change_limits(&mut self) -> Result<(), String> {
        let at = self.random.index(self.plan.members);
        let (most, period) = (self.plan.limit, self.plan.period_ms);
        let most = *self.random.pick(&[most / 2, most, 2 * most, 3 * most]);
        let limits = match self.random.below(8) {
            0 => Vec::new(),
            1 => vec![limit("api", most, 2 * period)],
            2 => vec![limit("api", most, period), limit("api:a", most / 2, period)],
            _ => vec![limit("api", most, period)],
        };
        match self.propose(at, &limits) {
            Ok(()) | Err(Error::NotAMember) => self.handle(at, Input::Changed),
            Err(error) => Err(text(error)),
        }
    }

    /// One goes, or another one comes.
    fn change_members(&mut self) -> Result<(), String> {
        let at = self.random.index(self.plan.members);
        let replica = &mut self.members[at].replica;
        let mut members = replica
            .configuration()
            .map_or(Vec::new(), |it| it.members.clone());
        let other = owner(self.random.index(self.plan.members));
        match members.contains(&other) {
            true if members.len() > 2 => members.retain(|it| *it != other),
            true => {}
            false => members.push(other),
        }
        match replica.propose_members(&members) {
            Ok(()) | Err(Error::NotAMember) => self.handle(at, Input::Changed),
            Err(error) => Err(text(error)),
        }
    }

    /// A member's process ends, and another begins from what it had stored, or from an old copy of that.
    fn restart(&mut self, at: usize) -> Result<(), String> {
        self.figures.restarts += 1;
        self.disconnect(|ends| ends.contains(&at))?;
        let mut fresh = self.member(at);
        let old = !self.members[at].copies.is_empty() && self.random.chance(self.plan.old);
        fresh.log = match old {
            true => self.random.pick(&self.members[at].copies).clone(),
            false => self.members[at].log.clone(),
        };
        for record in &fresh.log {
            let record = Message::decode_stored(record).map_err(text)?;
            fresh.replica.restore(&record).map_err(text)?;
        }
        fresh.mark = fresh.replica.mark();
        std::mem::swap(&mut fresh, &mut self.members[at]);
        self.members[at].copies = fresh.copies;
        for it in fresh.waiting {
            self.think(it.client);
        }
        Ok(())
    }
}
