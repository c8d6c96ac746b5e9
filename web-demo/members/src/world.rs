//! Members, the links between them, and time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use tallymesh_core::{
    Error, Input, Link, Mark, MemberError, Message, Output, Owner, Replica, Space, SyncConfig,
    SyncMachine, WriterId,
};

use crate::deeds::{Event, Waiting};
use crate::random::Random;

/// One way of a link while the members come to know each other, which nobody watches.
const FOUNDING_DELAY_MS: u64 = 5;
const FOUNDING_MS_MAX: u64 = 60_000;
/// How often a member does its duties, as a node's.
const TEND_MS: u64 = 1_000;
/// How soon it does after a merge.
const TEND_SOON_MS: u64 = 50;
/// How long time passes at most until somebody looks whether who waits can be served: that most members
/// hold something is found out without an event of its own.
const LOOK_MS: u64 = 20;
/// So many of the last events are kept.
const EVENTS_MAX: usize = 40;

pub(crate) struct Member {
    pub(crate) replica: Replica,
    pub(crate) sync: SyncMachine,
    /// What the member's disk would have.
    mark: Mark,
    tend_at: u64,
    /// Who waits here, the longest first.
    pub(crate) waiting: Vec<Waiting>,
}

/// A frame on its way.
pub(crate) struct Flight {
    pub(crate) id: u64,
    link: Link,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent: u64,
    pub(crate) arrives: u64,
    /// Whether its link was cut meanwhile: it is still to be seen, and never arrives.
    pub(crate) lost: bool,
}

/// What was found in all views at all moments so far. A view is what one member sees.
#[derive(Default)]
pub(crate) struct Findings {
    /// How many views were looked at.
    pub(crate) views: u64,
    /// The least that a view showed of each budget, and that a member held in a view.
    pub(crate) lowest: BTreeMap<String, i128>,
    /// What all budgets together came to in the views that have one.
    pub(crate) sums: BTreeSet<i128>,
    /// In how many views the rights of all were not as many as there was to be spent.
    pub(crate) astray: u64,
    /// All numbers that were handed out, in their order, each with the member that did it.
    pub(crate) issued: Vec<(u64, usize)>,
    /// How many of them had been handed out before.
    pub(crate) twice: u64,
    /// How often a member refused what another told.
    pub(crate) faults: u64,
}

pub(crate) struct World {
    random: Random,
    now: u64,
    delay_ms: u64,
    pub(crate) members: Vec<Member>,
    /// The open links by their ends, ascending.
    links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    pub(crate) flights: Vec<Flight>,
    /// When the last frame of a link to an end arrives: a link keeps the order.
    arrivals: BTreeMap<(Link, usize), u64>,
    sent: u64,
    pub(crate) found: Findings,
    /// The last events, the oldest first, and how many there were before.
    pub(crate) events: Vec<Event>,
    pub(crate) events_before: u64,
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

impl World {
    pub(crate) fn new(count: usize, seed: u64, delay_ms: u64) -> Result<World, Error> {
        let mut world = World {
            random: Random::new(seed),
            now: 1,
            delay_ms: FOUNDING_DELAY_MS,
            members: Vec::new(),
            links: BTreeMap::new(),
            next_link: 0,
            flights: Vec::new(),
            arrivals: BTreeMap::new(),
            sent: 0,
            found: Findings::default(),
            events: Vec::new(),
            events_before: 0,
        };
        for at in 0..count {
            let member = world.member(at);
            world.members.push(member);
        }
        world.come_together()?;
        world.delay_ms = delay_ms;
        Ok(world)
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    fn member(&mut self, at: usize) -> Member {
        let space = Space::default();
        let writer = WriterId::mint(&space, &owner(at), &self.random.bytes());
        let config = SyncConfig {
            owner: Some(owner(at)),
            ..SyncConfig::default()
        };
        Member {
            replica: Replica::new(space, writer),
            sync: SyncMachine::new(config, self.random.next_u64()),
            mark: Mark::default(),
            tend_at: 0,
            waiting: Vec::new(),
        }
    }

    fn come_together(&mut self) -> Result<(), Error> {
        let owners: Vec<Owner> = (0..self.members.len()).map(owner).collect();
        let first = &mut self.members[0].replica;
        first.members_mut().found(&owners[0], &[0; 16], 1)?;
        first.members_mut().force(&owners)?;
        for b in 1..owners.len() {
            (0..b).for_each(|a| self.cut([a, b], false));
        }
        let all = |world: &World| {
            world
                .members
                .iter()
                .all(|it| it.replica.members().is_established())
        };
        while !all(self) {
            if self.now > FOUNDING_MS_MAX {
                return Err(Error::Member(MemberError::NotAMember));
            }
            self.run(self.now + TEND_MS)?;
        }
        // Until nobody has anything to acknowledge any more.
        self.run(self.now + 5 * TEND_MS)
    }

    /// Lets time pass until then, with all that happens meanwhile.
    pub(crate) fn run(&mut self, until: u64) -> Result<(), Error> {
        while let Some(next) = self.next_moment(until) {
            self.now = next;
            self.happen()?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn next_moment(&self, until: u64) -> Option<u64> {
        let flights = self.flights.iter().map(|it| it.arrives);
        let members = self.members.iter().flat_map(|it| {
            let looks = it.waiting.iter().map(|_| self.now + LOOK_MS);
            let due = [Some(it.tend_at), it.sync.next_deadline()];
            due.into_iter().flatten().chain(looks)
        });
        let next = flights.chain(members).min()?;
        // Time passes in any case, also if something stays due.
        Some(next.max(self.now + 1)).filter(|it| *it <= until)
    }

    fn happen(&mut self) -> Result<(), Error> {
        let now = self.now;
        let (mut due, rest): (Vec<Flight>, Vec<Flight>) =
            self.flights.drain(..).partition(|it| it.arrives <= now);
        self.flights = rest;
        due.sort_by_key(|it| (it.arrives, it.id));
        for flight in due.into_iter().filter(|it| !it.lost) {
            let (link, bytes) = (flight.link, &flight.bytes);
            self.handle(flight.to, Input::Frame { link, bytes });
            let member = &mut self.members[flight.to];
            member.tend_at = member.tend_at.min(now + TEND_SOON_MS);
        }
        for at in 0..self.members.len() {
            let due = self.members[at].sync.next_deadline();
            if due.is_some_and(|due| due <= now) {
                self.handle(at, Input::Tick);
            }
            if self.members[at].tend_at <= now {
                self.tend(at)?;
            }
            self.serve(at)?;
        }
        Ok(())
    }

    /// Hands something to a member's sync machine, does what that says, and looks at what the member sees.
    pub(crate) fn handle(&mut self, at: usize, input: Input<'_>) {
        let now = self.now;
        let member = &mut self.members[at];
        member.sync.handle(now, &mut member.replica, input);
        // This is where a node writes it down.
        let _: Option<Message> = member.replica.since(&mut member.mark);
        let mut renew = false;
        while let Some(output) = self.members[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes.to_vec()),
                Output::Renew => renew = true,
                Output::Refused { .. } => self.found.faults += 1,
                _ => {}
            }
        }
        if renew {
            let space = Space::default();
            let writer = WriterId::mint(&space, &owner(at), &self.random.bytes());
            self.handle(at, Input::Renew { writer });
        }
        self.look(at);
    }

    /// Looks whether what a member sees is as it must be.
    fn look(&mut self, at: usize) {
        let (replica, found) = (&self.members[at].replica, &mut self.found);
        let mut names = Vec::new();
        replica
            .quota()
            .each_budget(&mut |name| names.push(String::from(name)));
        found.views += 1;
        if names.is_empty() {
            return;
        }
        let mut sum = 0;
        for name in names {
            let Some(budget) = replica.quota().budget(&name) else {
                continue;
            };
            let holders = replica.quota().holders_of(&name);
            let rights: i128 = holders.iter().map(|it| it.rights).sum();
            let held = holders.iter().map(|it| it.rights);
            let least = held.chain([budget.value]).min().unwrap_or_default();
            let lowest = found.lowest.entry(name).or_insert(least);
            *lowest = least.min(*lowest);
            found.astray += u64::from(rights != budget.value - budget.floor);
            sum += budget.value;
        }
        found.sums.insert(sum);
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        let late = self.delay_ms / 10;
        let delay = self
            .random
            .range(self.delay_ms - late, self.delay_ms + late);
        let last = self.arrivals.entry((link, to)).or_default();
        *last = (self.now + delay).max(*last);
        self.sent += 1;
        self.flights.push(Flight {
            id: self.sent,
            link,
            from,
            to,
            bytes,
            sent: self.now,
            arrives: *last,
            lost: false,
        });
    }

    /// Cuts the link of two, or mends it.
    pub(crate) fn cut(&mut self, pair: [usize; 2], cut: bool) {
        let open = self.links.iter().find(|it| *it.1 == pair).map(|it| *it.0);
        match (open, cut) {
            (Some(link), true) => {
                self.links.remove(&link);
                self.arrivals.retain(|it, _| it.0 != link);
                let flights = self.flights.iter_mut();
                flights
                    .filter(|it| it.link == link)
                    .for_each(|it| it.lost = true);
                for at in pair {
                    self.handle(at, Input::Disconnected { link });
                }
            }
            (None, false) => {
                let link = Link(self.next_link);
                self.next_link += 1;
                self.links.insert(link, pair);
                let broadcast = false;
                for at in pair {
                    self.handle(at, Input::Connected { link, broadcast });
                }
            }
            _ => {}
        }
    }

    fn tend(&mut self, at: usize) -> Result<(), Error> {
        let now = self.now;
        let member = &mut self.members[at];
        member.tend_at = now + TEND_MS;
        let replica = &mut member.replica;
        if !replica.members().is_announced() && member.sync.has_caught_up(replica) {
            let members = replica.members().configuration();
            if members.is_some_and(|it| it.has(&owner(at))) {
                replica.members_mut().announce(&owner(at), &[0; 16], now)?;
            }
        }
        if member.sync.tend(now, &mut member.replica, &member.mark)? {
            self.handle(at, Input::Changed);
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            self.events.remove(0);
            self.events_before += 1;
        }
        self.events.push(event);
    }
}
