//! Numbers of one sequence that clients are handed out at three members, over real sync machines, links
//! with a delay, losses, cuts, and restarts, from old copies of the store too: each number at most once,
//! whatever happens. Time is simulated, so all follows from the seed.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::{
    Error, Input, Link, Mark, Message, Output, Owner, Reached, Replica, Sequence, Space, Sync,
    SyncConfig, WantId, Watched, WriterId,
};

const MEMBERS: usize = 3;
const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];
const NAME: &str = "visits";
/// The type of the frame that opens a link.
const HELLO: u8 = 1;
/// One way of a link, in milliseconds.
const DELAY_MS: (u64, u64) = (10, 30);
/// How long a client thinks between two numbers.
const THINK_MS: (u64, u64) = (20, 400);
const PATIENCE_MS: u64 = 2_000;
const TEND_MS: u64 = 200;
/// When all that are connected have heard of a watch.
const HEARD_MS: u64 = 500;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many clients draw at each member.
    pub clients: [usize; 3],
    /// Until when links are cut and members start again, in milliseconds.
    pub trouble_ms: u64,
    /// How many in a thousand frames are lost on the way, and how many arrive twice.
    pub lost: u64,
    /// How many in a thousand restarts are from an old copy of the store.
    pub old: u64,
    /// How many members begin the sequence, all at once.
    pub begins: usize,
    /// How long it is, in milliseconds, from one watch of a number to the next; 0 for none.
    pub watch_ms: u64,
    /// When it ends, in milliseconds.
    pub end_ms: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How many numbers were handed out.
    pub issued: u64,
    /// How many draws waited, and how long altogether.
    pub waited: u64,
    /// In milliseconds.
    pub waited_ms: u64,
    /// How many draws were given up.
    pub refused: u64,
    /// How many restarts there were, and how many of them from an old copy.
    pub restarts: u64,
    /// How many of them from an old copy.
    pub old: u64,
    /// How many links were cut.
    pub cuts: u64,
    /// How many numbers were lost.
    pub lost: u64,
    /// How many numbers were held and not handed out when a number was, summed up over all.
    pub ahead: u64,
    /// How many watched numbers were handed out, and noted as that.
    pub reached: u64,
    /// How many of them were not handed out as the one of that rank, of those that were not lost, though
    /// they were not given before all had heard of the watch.
    pub astray: u64,
    /// By how many ranks altogether.
    pub astray_by: u64,
    /// By how many at most.
    pub astray_most: u64,
}

struct Member {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    log: Vec<Vec<u8>>,
    /// Copies of the log.
    copies: Vec<Vec<Vec<u8>>>,
    started: u64,
    tend_at: u64,
    waiting: VecDeque<(usize, u64, WantId)>,
}

struct World {
    random: Random,
    plan: Plan,
    now: u64,
    figures: Figures,
    members: Vec<Member>,
    links: BTreeMap<Link, [usize; 2]>,
    next_link: u32,
    flights: BTreeMap<(u64, u64), (usize, Link, Vec<u8>)>,
    arrivals: BTreeMap<(Link, usize), u64>,
    sent: u64,
    cut: BTreeMap<[usize; 2], u64>,
    trouble_at: u64,
    begun: u64,
    /// At whom each client draws, and when next; none while it waits.
    clients: Vec<(usize, Option<u64>)>,
    issued: BTreeSet<u64>,
    watch_at: u64,
    watched: BTreeSet<u64>,
    /// Those of which not all have heard, and when they have.
    fresh: Vec<(u64, u64)>,
    /// Those that were given before that.
    late: BTreeSet<u64>,
    /// Who started from an old copy last, and what others knew of what it lost.
    owed: Option<(usize, Vec<(WriterId, u64)>)>,
    /// Whether nobody draws any more.
    over: bool,
}

fn owner(at: usize) -> Owner {
    [at as u8 + 1; 32]
}

fn text(error: Error) -> String {
    error.to_string()
}

/// Plays a plan.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, plan: &Plan) -> Result<Figures, String> {
    let mut world = World::new(seed, plan);
    let played = world.play();
    played.map_err(|error| format!("TALLYMESH_SEED={seed}: {} ms: {error}", world.now))?;
    Ok(world.figures)
}

impl World {
    fn new(seed: u64, plan: &Plan) -> World {
        let mut world = World {
            random: Random::new(seed ^ 0x71c4),
            plan: *plan,
            now: 1,
            figures: Figures::default(),
            members: Vec::new(),
            links: BTreeMap::new(),
            next_link: 0,
            flights: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sent: 0,
            cut: BTreeMap::new(),
            trouble_at: 0,
            begun: 0,
            clients: Vec::new(),
            issued: BTreeSet::new(),
            watch_at: 0,
            watched: BTreeSet::new(),
            fresh: Vec::new(),
            late: BTreeSet::new(),
            owed: None,
            over: false,
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
            copies: Vec::new(),
            started: self.now,
            tend_at: 0,
            waiting: VecDeque::new(),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.found()?;
        for at in 0..self.plan.begins {
            let begun = self.members[at]
                .replica
                .begin_sequence(NAME, &mut Vec::new());
            begun.map_err(text)?;
            self.handle(at, Input::Changed)?;
        }
        self.begun = self.now;
        self.watch_at = self.now + self.plan.watch_ms;
        self.trouble_at = self.now + 1_000;
        for at in 0..MEMBERS {
            for _ in 0..self.plan.clients[at] {
                let first = self.now + self.random.below(THINK_MS.1);
                self.clients.push((at, Some(first)));
            }
        }
        self.pass(self.plan.end_ms)?;
        self.rest()
    }

    /// Nobody draws any more: all members see the same, and it is true.
    fn rest(&mut self) -> Result<(), String> {
        self.plan.trouble_ms = 0;
        self.over = true;
        self.cut.clear();
        self.clients.iter_mut().for_each(|it| it.1 = None);
        self.pass(20_000)?;
        if self.figures.issued == 0 && self.plan.begins == 1 {
            return Err("nothing was handed out".into());
        }
        let seen: Vec<Option<Sequence>> = self
            .members
            .iter()
            .map(|it| it.replica.sequence(NAME))
            .collect();
        if seen.iter().any(|it| *it != seen[0]) {
            return Err(format!("the members see {seen:?}"));
        }
        let Some(known) = &seen[0] else {
            return match self.plan.begins {
                1 => Err("it is gone".into()),
                _ => Ok(()),
            };
        };
        self.figures.lost = known.lost + known.gaps.iter().map(|it| it.end - it.start).sum::<u64>();
        let held: u64 = known.held.iter().map(|it| it.0.end - it.0.start).sum();
        let all = known.issued + held + self.figures.lost;
        // Of whom an old copy does not tell, it may take longer to find out that it is over.
        let current = |writer| {
            let mut members = self.members.iter();
            members.any(|it| it.replica.writer() == writer)
        };
        self.watches_tell(known)?;
        let own = self.figures.old > 0 || known.held.iter().all(|it| current(it.1));
        let issued = self.figures.issued;
        let bounds = known.issued <= issued && issued < known.next;
        match all == known.next - 1 && own && bounds {
            true => Ok(()),
            false => Err(format!("{issued} were handed out, and they see {known:?}")),
        }
    }

    /// What all see of watched numbers is true.
    fn watches_tell(&self, known: &Sequence) -> Result<(), String> {
        let told: BTreeSet<u64> = known.watched.iter().map(|it| it.number).collect();
        let all = self.figures.old > 0 || self.watched.is_subset(&told);
        let is_true = |it: &Watched| match it.reached {
            Reached::NotYet => !self.issued.contains(&it.number),
            Reached::HandedOut { .. } | Reached::Passed => self.issued.contains(&it.number),
            // It may have been handed out before that.
            Reached::Lost => true,
        };
        // What was handed out and lost with an old copy is told as lost, or as held until then.
        let is_true = |it: &Watched| self.figures.old > 0 || is_true(it);
        match all && known.watched.iter().all(is_true) {
            true => Ok(()),
            false => Err(format!("of {:?} they see {known:?}", self.watched)),
        }
    }

    /// The least number that was never given to anybody.
    fn next(&self) -> u64 {
        let known = self.members.iter().map(|it| it.replica.sequence(NAME));
        known.flatten().map(|it| it.next).max().unwrap_or_default()
    }

    /// Notes which numbers were given before all had heard that they are watched.
    fn note_heard(&mut self) {
        let (now, next) = (self.now, self.next());
        let heard = self.fresh.extract_if(.., |it| it.0 <= now || it.1 < next);
        let late = heard.filter(|it| it.1 < next);
        self.late.extend(late.map(|it| it.1));
    }

    /// Somebody watches one of the numbers to come.
    fn watch(&mut self) -> Result<(), String> {
        self.watch_at = self.now + self.plan.watch_ms;
        let ahead = self.random.range(3, 200);
        let at = self.random.index(MEMBERS);
        let number = self.next() + ahead;
        let replica = &mut self.members[at].replica;
        match replica.watch_number(NAME, number, &mut Vec::new()) {
            Ok(()) => {
                self.watched.insert(number);
                self.fresh.push((self.now + HEARD_MS, number));
                self.handle(at, Input::Changed)
            }
            Err(Error::NotAMember | Error::NoSequence | Error::WatchesFull) => Ok(()),
            Err(error) => Err(format!("{at} watches {number}: {error}")),
        }
    }

    /// Looks whether a watched number was handed out as the one of that rank.
    fn note_reached(&mut self, number: u64, known: &Sequence) -> Result<(), String> {
        let mut watched = known.watched.iter();
        let Some(watched) = watched.find(|it| it.number == number) else {
            return Ok(());
        };
        let Reached::HandedOut { below, .. } = watched.reached else {
            return Err(format!("{number} is handed out, and seen as {watched:?}"));
        };
        let gaps = known.gaps.iter().map(|it| it.start..it.end.min(number));
        let gaps: u64 = gaps.map(|it| it.end.saturating_sub(it.start)).sum();
        let lost = known.lost + gaps;
        let before = self.issued.range(..number).count() as u64;
        if number - 1 - before > below + lost {
            return Err(format!("{before} were handed out below {watched:?}"));
        }
        self.figures.reached += 1;
        if self.late.contains(&number) {
            return Ok(());
        }
        let rank = self.issued.len() as u64;
        let astray = rank.abs_diff(number - lost);
        self.figures.astray += u64::from(astray > 0);
        self.figures.astray_by += astray;
        self.figures.astray_most = self.figures.astray_most.max(astray);
        Ok(())
    }

    fn found(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (0..MEMBERS).map(owner).collect();
        let first = &mut self.members[0].replica;
        first.found(&owners[0], &[0; 16], 1).map_err(text)?;
        first.force_members(&owners).map_err(text)?;
        for pair in PAIRS {
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
        let members = self.members.iter().flat_map(|it| {
            let refusal = it.waiting.front().map(|it| it.1 + PATIENCE_MS);
            [it.sync.next_deadline(), Some(it.tend_at), refusal]
        });
        let next = flight.into_iter().chain(clients).chain(members.flatten());
        let next = next.min().unwrap_or(self.now).max(self.now);
        // Some things have no time of their own.
        self.now = next.clamp(self.now, self.now + 20);
        if next <= self.now {
            self.happen()?;
        }
        if self.plan.watch_ms > 0 && self.begun > 0 && !self.over && self.watch_at <= self.now {
            self.watch()?;
        }
        self.note_heard();
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
            if self.clients[client].1.is_some_and(|due| due <= self.now) {
                self.ask(client)?;
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
        }
        Ok(())
    }

    fn handle(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let now = self.now;
        let member = &mut self.members[at];
        member.sync.handle(now, &mut member.replica, input);
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
        Ok(())
    }

    fn ask(&mut self, client: usize) -> Result<(), String> {
        let at = self.clients[client].0;
        self.clients[client].1 = None;
        if self.members[at].waiting.is_empty() && self.draw(at)? {
            self.think(client);
            return Ok(());
        }
        let now = self.now;
        let member = &mut self.members[at];
        let want = member.sync.want_numbers(now, NAME, 1, now + PATIENCE_MS);
        member.waiting.push_back((client, now, want));
        self.handle(at, Input::Tick)
    }

    fn think(&mut self, client: usize) {
        if self.over {
            return;
        }
        let think = self.random.range(THINK_MS.0, THINK_MS.1);
        self.clients[client].1 = Some(self.now + think);
    }

    /// Hands a number out; false if there is none here.
    fn draw(&mut self, at: usize) -> Result<bool, String> {
        match self.members[at].replica.next_ticket(NAME, &mut Vec::new()) {
            Ok(number) => {
                self.handle(at, Input::Changed)?;
                self.figures.issued += 1;
                if number == 0 || !self.issued.insert(number) {
                    return Err(format!("{at} hands {number} out again"));
                }
                let known = self.members[at]
                    .replica
                    .sequence(NAME)
                    .ok_or("it is gone")?;
                self.figures.ahead += known
                    .held
                    .iter()
                    .map(|it| it.0.end - it.0.start)
                    .sum::<u64>();
                self.note_reached(number, &known)?;
                Ok(true)
            }
            Err(Error::NumbersShort | Error::NoSequence | Error::NotAMember) => Ok(false),
            Err(error) => Err(format!("{at} draws: {error}")),
        }
    }

    /// Serves who waits, and lets those go who have waited for long enough.
    fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some((client, since, want)) = self.members[at].waiting.front().copied() {
            let served = self.draw(at)?;
            if !served && since + PATIENCE_MS > self.now {
                break;
            }
            self.members[at].waiting.pop_front();
            self.members[at].sync.end_numbers(self.now, want);
            match served {
                true => {
                    self.figures.waited += 1;
                    self.figures.waited_ms += self.now - since;
                }
                false => self.figures.refused += 1,
            }
            self.think(client);
        }
        Ok(())
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

    /// Cuts and mends links, copies stores, and begins members again.
    fn trouble(&mut self) -> Result<(), String> {
        let troubled = self.begun > 0 && self.now < self.begun + self.plan.trouble_ms;
        if troubled && self.trouble_at <= self.now {
            self.trouble_at = self.now + self.random.range(200, 1_500);
            let pair = *self.random.pick(&PAIRS);
            let copied = self.random.index(MEMBERS);
            let copy = self.members[copied].log.clone();
            self.members[copied].copies.push(copy);
            let until = self.now + self.random.range(100, 3_000);
            let alone = (0..MEMBERS).find(|at| {
                let mut own = PAIRS.iter().filter(|pair| pair.contains(at));
                own.all(|pair| self.cut.contains_key(pair))
            });
            match self.random.below(100) {
                0..60 => {
                    self.figures.cuts += 1;
                    self.cut.insert(pair, until);
                }
                60..80 => {
                    self.figures.cuts += 1;
                    let own = PAIRS.iter().filter(|it| it.contains(&pair[1]));
                    self.cut.extend(own.map(|it| (*it, until)));
                }
                // What one did alone is lost with it, if it starts from an old copy.
                _ => self.restart(alone.unwrap_or(pair[0]))?,
            }
        }
        let now = self.now;
        self.cut.retain(|_, until| *until > now);
        let cut: Vec<[usize; 2]> = self.cut.keys().copied().collect();
        self.disconnect(|ends| cut.contains(ends))?;
        for pair in PAIRS {
            let open = self.links.values().any(|ends| *ends == pair);
            if !open && !cut.contains(&pair) && self.next_link > 0 {
                self.connect(pair)?;
            }
        }
        Ok(())
    }

    /// Whether all that others know of what a member lost last with an old copy is known there again; notes
    /// what this one is about to lose.
    fn may_lose(&mut self, at: usize) -> bool {
        let seen = |member: &Member, writer| {
            let vector = member.replica.vector();
            let mut entries = vector.iter();
            entries.find(|it| it.0 == writer).map(|it| it.1)
        };
        if let Some((owing, owed)) = &self.owed
            && *owing != at
        {
            let again = owed.iter().all(|(writer, clock)| {
                let forgotten = || self.members.iter().all(|it| seen(it, *writer).is_none());
                seen(&self.members[*owing], *writer) >= Some(*clock) || forgotten()
            });
            if !again {
                return false;
            }
        }
        let others = (0..MEMBERS).filter(|other| *other != at);
        let others: Vec<&Member> = others.map(|other| &self.members[other]).collect();
        let held = self.members[at].replica.vector();
        let owed = held.iter().filter_map(|(writer, clock)| {
            let known = others.iter().filter_map(|it| seen(it, writer)).max();
            Some((writer, clock.min(known?)))
        });
        self.owed = Some((at, owed.collect()));
        true
    }

    /// A member's process ends, and another begins from what it had stored, or from an old copy of that.
    fn restart(&mut self, at: usize) -> Result<(), String> {
        self.figures.restarts += 1;
        self.disconnect(|ends| ends.contains(&at))?;
        let mut fresh = self.member(at);
        let old = !self.members[at].copies.is_empty() && self.random.chance(self.plan.old);
        // What most members held must not be lost with the disks of most of them.
        let old = old && self.may_lose(at);
        fresh.log = match old {
            true => self.random.pick(&self.members[at].copies).clone(),
            false => self.members[at].log.clone(),
        };
        self.figures.old += u64::from(old);
        for record in &fresh.log {
            let record = Message::decode_stored(record).map_err(text)?;
            fresh.replica.restore(&record).map_err(text)?;
        }
        fresh.mark = fresh.replica.mark();
        std::mem::swap(&mut fresh, &mut self.members[at]);
        self.members[at].copies = fresh.copies;
        for (client, ..) in fresh.waiting {
            self.think(client);
        }
        Ok(())
    }
}
