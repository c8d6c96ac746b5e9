//! Members, links and cuts, event by event.

use super::clients::{Client, THINK_MS, Waiting};
use super::{Figures, MEMBERS, Plan, Work};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::limits::WATCHES_MAX;
use tallymesh_core::{
    Error, Flow, Input, Link, Mark, Output, Owner, Replica, Space, Sync, SyncConfig, WriterId,
};

pub(super) const NAME: &str = "gift";
/// One way of a link, in milliseconds.
const DELAY_MS: (u64, u64) = (10, 30);
/// How long a cut lasts. What is between two is as long as the share of time makes it.
const CUT_MS: (u64, u64) = (2_000, 10_000);
const TEND_MS: u64 = 200;
/// When a member is gone for good, and when it is to be taken out.
const GONE_MS: u64 = 4_000;
const TAKEN_OUT_MS: u64 = 5_000;

pub(super) struct Member {
    pub(super) replica: Replica,
    pub(super) sync: Sync,
    mark: Mark,
    tend_at: u64,
    /// Who waits here, the longest first.
    pub(super) waiting: VecDeque<Waiting>,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) figures: Figures,
    pub(super) members: Vec<Member>,
    /// The open links by their ends, ascending.
    links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    /// By the time of arrival and a number.
    flights: BTreeMap<(u64, u64), (usize, Link, Vec<u8>)>,
    /// When the last frame of a link to an end arrives: a link keeps the order.
    arrivals: BTreeMap<(Link, usize), u64>,
    sent: u64,
    pub(super) clients: Vec<Client>,
    /// All numbers that clients were told.
    pub(super) numbers: BTreeSet<u64>,
    /// Which number was drawn when, in the order of time.
    pub(super) drawn: Vec<(u64, u64)>,
    /// The two that are apart from the three others, while they are.
    apart: Option<[usize; 2]>,
    /// Since when they are, or are not, and until when.
    since: u64,
    until: u64,
    /// When clients began.
    begun: u64,
    /// Who is gone for good, and under which writer.
    gone: Option<(usize, WriterId)>,
    /// When it was to be taken out.
    taken_out: Option<u64>,
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

pub(super) fn text(error: Error) -> String {
    error.to_string()
}

/// All pairs of members.
fn pairs() -> impl Iterator<Item = [usize; 2]> {
    (0..MEMBERS).flat_map(|a| (a + 1..MEMBERS).map(move |b| [a, b]))
}

impl World {
    pub(super) fn new(seed: u64, plan: &Plan) -> World {
        let mut world = World {
            random: Random::new(seed ^ 0x9a47),
            plan: *plan,
            now: 1,
            figures: Figures::default(),
            members: Vec::new(),
            links: BTreeMap::new(),
            next_link: 0,
            flights: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sent: 0,
            clients: Vec::new(),
            numbers: BTreeSet::new(),
            drawn: Vec::new(),
            apart: None,
            since: 0,
            until: u64::MAX,
            begun: 0,
            gone: None,
            taken_out: None,
        };
        for at in 0..MEMBERS {
            let nonce: [u8; 16] = world.random.bytes();
            let space = Space::default();
            let writer = WriterId::mint(&space, &owner(at), &nonce);
            let config = SyncConfig {
                interval_ms: 500,
                pull_timeout_ms: 1_000,
                owner: Some(owner(at)),
                ..SyncConfig::default()
            };
            let seed = world.random.next_u64();
            world.members.push(Member {
                replica: Replica::new(space, writer),
                sync: Sync::new(config, seed),
                mark: Mark::default(),
                tend_at: 0,
                waiting: VecDeque::new(),
            });
        }
        world
    }

    pub(super) fn play(&mut self) -> Result<(), String> {
        self.found()?;
        let first = &mut self.members[0].replica;
        match self.plan.work {
            Work::Limit(_) => {}
            Work::Budget(minted) | Work::Retired(minted) => {
                first.flow(NAME, Flow::Mint(minted)).map_err(text)?;
            }
            Work::Sequence(watched) => {
                first.begin_sequence(NAME, &mut Vec::new()).map_err(text)?;
                for nth in (1..=WATCHES_MAX as u64).filter(|_| watched > 0) {
                    let watch = first.watch_number(NAME, nth * watched, &mut Vec::new());
                    watch.map_err(text)?;
                }
            }
        }
        self.handle(0, Input::Changed)?;
        self.pass(1_000)?;
        self.begin_cuts();
        self.begun = self.now;
        for at in 0..MEMBERS {
            for _ in 0..self.plan.clients[at] {
                let due = Some(self.now + self.random.below(THINK_MS.1));
                self.clients.push(Client { at, due });
            }
        }
        while self.now < self.begun + self.plan.end_ms && !self.is_done() {
            self.event()?;
        }
        self.note_cut_time();
        self.figures.played_ms = self.now - self.begun;
        self.judge()
    }

    fn is_done(&self) -> bool {
        match self.plan.work {
            Work::Limit(_) => self.clients.iter().all(|it| it.due.is_none()),
            Work::Budget(minted) => self.figures.made == minted,
            Work::Retired(_) => !self.figures.back_ms.is_empty(),
            Work::Sequence(_) => false,
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        let done = self.is_done();
        let every = match self.plan.work {
            Work::Sequence(watched) => watched.max(1),
            _ => 1,
        };
        let drawn = self.drawn.iter().enumerate();
        for (at, (time, number)) in drawn.filter(|it| it.1.1.is_multiple_of(every)) {
            let place = number - 1;
            self.figures.errors.push(place.abs_diff(at as u64));
            // Of those beyond all that were drawn nobody knows yet when it would have been their turn.
            if let Some((turn, _)) = self.drawn.get(place as usize) {
                self.figures.off_ms.push(time.abs_diff(*turn));
            }
        }
        let figures = &mut self.figures;
        match self.plan.work {
            Work::Limit(limit) if done => figures.over.push(figures.made - limit),
            Work::Budget(_) if done => figures.spent_ms.push(figures.played_ms),
            Work::Limit(_) => return Err("not all saw that the limit was reached".into()),
            Work::Retired(_) if !done => return Err("what was stranded did not come back".into()),
            _ => {}
        }
        Ok(())
    }

    /// The members come together.
    fn found(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (0..MEMBERS).map(owner).collect();
        let first = &mut self.members[0].replica;
        first.found(&owners[0], &[0; 16], 1).map_err(text)?;
        first.force_members(&owners).map_err(text)?;
        self.relink()?;
        let until = self.now + 30_000;
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

    fn lives(&self, at: usize) -> bool {
        self.gone.is_none_or(|it| it.0 != at)
    }

    /// The next moment at which something happens, and all that does.
    fn event(&mut self) -> Result<(), String> {
        let flight = self.flights.keys().next().map(|it| it.0);
        let clients = self.clients.iter().filter_map(|it| it.due);
        let patience = self.plan.patience_ms;
        let living = (0..MEMBERS).filter(|at| self.lives(*at));
        let members = living.flat_map(|at| {
            let it = &self.members[at];
            let refusal = it.waiting.front().map(|it| it.since + patience);
            [it.sync.next_deadline(), Some(it.tend_at), refusal]
        });
        let next = flight.into_iter().chain(clients).chain(members.flatten());
        let next = next.min().unwrap_or(self.now).max(self.now);
        // Cuts have no time of their own.
        self.now = next.clamp(self.now, self.now + 20);
        if next <= self.now {
            self.happen()?;
        }
        self.cut()?;
        self.retire()?;
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
        for at in 0..MEMBERS {
            if !self.lives(at) {
                continue;
            }
            let member = &self.members[at];
            let due = member.sync.next_deadline();
            if due.is_some_and(|due| due <= self.now) {
                self.handle(at, Input::Tick)?;
            }
            if self.members[at].tend_at <= self.now {
                self.tend(at)?;
            }
            self.serve(at)?;
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let now = self.now;
        let member = &mut self.members[at];
        let is_frame = matches!(input, Input::Frame { .. });
        member.sync.handle(now, &mut member.replica, input);
        // What changed is durable at once.
        let _ = member.replica.since(&mut member.mark);
        while let Some(output) = self.members[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes),
                Output::Renew => return Err(format!("{at} is to take another writer id")),
                Output::Refused { error, .. } => return Err(format!("{at} refuses: {error}")),
                _ => {}
            }
        }
        match is_frame {
            true => self.check(at),
            false => Ok(()),
        }
    }

    /// No view of a budget is out of its bounds, and its rights add up.
    pub(super) fn check(&self, at: usize) -> Result<(), String> {
        let (Work::Budget(minted) | Work::Retired(minted)) = self.plan.work else {
            return Ok(());
        };
        let replica = &self.members[at].replica;
        let Some(budget) = replica.budget(NAME) else {
            return Ok(());
        };
        let least = i128::from(minted - self.figures.made);
        let holders = replica.holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights).sum();
        let less = holders.iter().any(|it| it.rights < 0);
        let out = budget.value < least || budget.value > i128::from(minted);
        match out || less || rights != budget.value {
            true => Err(format!("{at} sees {budget:?} held as {holders:?}")),
            false => Ok(()),
        }
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        let late = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        let last = self.arrivals.entry((link, to)).or_default();
        *last = late.max(*last);
        self.sent += 1;
        self.flights.insert((*last, self.sent), (to, link, bytes));
    }

    fn tend(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        let member = &mut self.members[at];
        member.tend_at = now + TEND_MS;
        let replica = &mut member.replica;
        let late = now >= 5_000;
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

    /// Whether a member is in the smaller half; none if nobody is cut off.
    pub(super) fn is_in_smaller(&self, at: usize) -> Option<bool> {
        self.apart.map(|it| it.contains(&at))
    }

    /// The world begins somewhere in a cut, or between two.
    fn begin_cuts(&mut self) {
        self.since = self.now;
        if self.plan.cut_percent == 0 {
            return;
        }
        let cut = self.random.below(100) < self.plan.cut_percent;
        let length = self.length(cut);
        self.until = self.now + self.random.range(0, length);
        self.apart = cut.then(|| self.two());
        if cut {
            self.note_cut();
        }
    }

    /// How long a cut lasts, or what is between two: the share of time that they make is the plan's.
    fn length(&mut self, cut: bool) -> u64 {
        let length = self.random.range(CUT_MS.0, CUT_MS.1);
        let percent = self.plan.cut_percent;
        match cut {
            true => length,
            false => length * (100 - percent) / percent,
        }
    }

    fn two(&mut self) -> [usize; 2] {
        let pairs: Vec<[usize; 2]> = pairs().collect();
        *self.random.pick(&pairs)
    }

    /// What each half holds as a cut begins.
    fn note_cut(&mut self) {
        self.figures.cuts += 1;
        let (Work::Budget(minted), Some(apart)) = (self.plan.work, self.apart) else {
            return;
        };
        self.figures.left += minted - self.figures.made;
        for at in 0..MEMBERS {
            let here = self.members[at].replica.budget(NAME);
            let here = here.map_or(0, |it| it.rights.here);
            let half = usize::from(apart.contains(&at));
            self.figures.halves[half].held += u64::try_from(here).unwrap_or(0);
        }
    }

    fn note_cut_time(&mut self) {
        if self.apart.is_some() {
            self.figures.cut_ms += self.now - self.since;
        }
    }

    /// Begins and ends cuts.
    fn cut(&mut self) -> Result<(), String> {
        if self.until <= self.now {
            self.note_cut_time();
            let cut = self.apart.is_none();
            self.apart = cut.then(|| self.two());
            self.since = self.now;
            self.until = self.now + self.length(cut);
            if cut {
                self.note_cut();
            }
        }
        self.relink()
    }

    /// Has links be as they are to be: between all that are not apart, and are there.
    fn relink(&mut self) -> Result<(), String> {
        let (apart, gone) = (self.apart, self.gone.map(|it| it.0));
        let linked = |ends: &[usize; 2]| {
            let in_two = |at: usize| apart.is_some_and(|it| it.contains(&at));
            in_two(ends[0]) == in_two(ends[1]) && !ends.iter().any(|at| gone == Some(*at))
        };
        let broken = self.links.iter().filter(|it| !linked(it.1));
        let broken: Vec<(Link, [usize; 2])> = broken.map(|it| (*it.0, *it.1)).collect();
        for (link, ends) in broken {
            self.links.remove(&link);
            for at in ends.into_iter().filter(|at| gone != Some(*at)) {
                self.handle(at, Input::Disconnected { link })?;
            }
        }
        for pair in pairs().filter(linked) {
            if self.links.values().any(|ends| *ends == pair) {
                continue;
            }
            let link = Link(self.next_link);
            self.next_link += 1;
            self.links.insert(link, pair);
            let broadcast = false;
            for at in pair {
                self.handle(at, Input::Connected { link, broadcast })?;
            }
        }
        Ok(())
    }

    /// One is gone for good; later somebody takes it out, and others take over what it held.
    fn retire(&mut self) -> Result<(), String> {
        if self.begun == 0 || !matches!(self.plan.work, Work::Retired(_)) {
            return Ok(());
        }
        let Some((gone, writer)) = self.gone else {
            if self.now >= self.begun + GONE_MS {
                let gone = self.random.index(MEMBERS);
                self.gone = Some((gone, self.members[gone].replica.writer()));
                let held = self.members[gone].replica.budget(NAME);
                let held = held.map_or(0, |it| it.rights.here);
                self.figures.stranded.push(u64::try_from(held).unwrap_or(0));
                self.turn_from(gone);
            }
            return Ok(());
        };
        let living: Vec<usize> = (0..MEMBERS).filter(|at| *at != gone).collect();
        let Some(since) = self.taken_out else {
            if self.now >= self.begun + TAKEN_OUT_MS {
                let left: Vec<Owner> = living.iter().map(|at| owner(*at)).collect();
                let at = *self.random.pick(&living);
                let asked = self.members[at].replica.propose_members(&left);
                asked.map_err(text)?;
                self.taken_out = Some(self.now);
                return self.handle(at, Input::Changed);
            }
            return Ok(());
        };
        // Whoever took it over has added what it held to its own.
        let holds = |at: usize| {
            let holders = self.members[at].replica.holders_of(NAME);
            holders.iter().any(|it| it.writer == writer)
        };
        let over = living
            .iter()
            .any(|at| self.members[*at].replica.taken_over(&writer).is_some() && !holds(*at));
        if over {
            self.figures.back_ms.push(self.now - since);
        }
        Ok(())
    }
}
