//! Scenario: clients draw numbers of one sequence at three members of a [mesh](crate::sim). Each number is
//! handed out at most once, under all faults.

use crate::sim::{self, Counts, Mesh, Scenario, Settings, Trouble, text};
use std::collections::{BTreeSet, VecDeque};
use tallymesh_core::{
    Error, Input, MemberError, QuotaError, Reached, RequestId, Sequence, Watched,
};

const MEMBERS: usize = 3;
const NAME: &str = "visits";
/// How long a client pauses between two draws, in milliseconds.
const THINK_MS: (u64, u64) = (20, 400);
const PATIENCE_MS: u64 = 2_000;
/// Time until all connected members have received a watch, in milliseconds.
const HEARD_MS: u64 = 500;

/// The clients and the events of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of clients at each member.
    pub clients: [usize; MEMBERS],
    /// The faults of the members.
    pub trouble: Trouble,
    /// Number of members that begin the sequence, all at once.
    pub begins: usize,
    /// Milliseconds between two watches of numbers. 0 means no watches.
    pub watch_ms: u64,
    /// When the run ends, in milliseconds.
    pub end_ms: u64,
}

/// Metrics of a run.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Numbers that were handed out.
    pub issued: u64,
    /// Draws that had to wait.
    pub waited: u64,
    /// Sum of their waits, in milliseconds.
    pub waited_ms: u64,
    /// Draws that the client gave up.
    pub refused: u64,
    /// Numbers that were lost.
    pub lost: u64,
    /// At each number that was handed out, the numbers that members had in reserve. Summed up over all.
    pub ahead: u64,
    /// Watched numbers that were handed out, and whose rank was noted.
    pub reached: u64,
    /// Watched numbers whose rank among the numbers that were not lost differs from their value. Numbers that
    /// a member had reserved before all members received the watch are not counted.
    pub astray: u64,
    /// Sum of these differences.
    pub astray_by: u64,
    /// Greatest of these differences.
    pub astray_most: u64,
    /// Counts of the mesh.
    pub mesh: Counts,
}

struct Client {
    at: usize,
    /// Whether it has an open request.
    asks: bool,
}

struct Waiting {
    client: usize,
    since: u64,
    want: RequestId,
}

/// The state of this scenario: the sequence and its clients.
pub struct Draws {
    plan: Plan,
    metrics: Metrics,
    clients: Vec<Client>,
    /// The waiting clients at each member, the longest wait first.
    waiting: [VecDeque<Waiting>; MEMBERS],
    /// All numbers that a client received.
    issued: BTreeSet<u64>,
    /// All numbers that a member drew, including those that were lost before a client received them.
    drawn: BTreeSet<u64>,
    watched: BTreeSet<u64>,
    /// Watched numbers that a member had reserved before all members received the watch.
    late: BTreeSet<u64>,
    /// Watched numbers whose watch has not reached all members.
    fresh: BTreeSet<u64>,
    /// Whether the draws have stopped.
    over: bool,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// A client sends a request.
    Ask(usize),
    /// A client receives its number.
    Told(usize, u64),
    /// A member watches a number.
    Watch,
    /// All members have received the watch of this number.
    Heard(u64),
}

type World = Mesh<Draws>;

/// Plays a plan.
///
/// # Errors
/// The failure and the seed, as text.
pub fn play(seed: u64, traced: bool, plan: &Plan) -> Result<Metrics, String> {
    let draws = Draws {
        plan: *plan,
        metrics: Metrics::default(),
        clients: Vec::new(),
        waiting: [const { VecDeque::new() }; MEMBERS],
        issued: BTreeSet::new(),
        drawn: BTreeSet::new(),
        watched: BTreeSet::new(),
        late: BTreeSet::new(),
        fresh: BTreeSet::new(),
        over: false,
    };
    let mesh = Mesh::new(seed, traced, Settings::under(plan.trouble), draws);
    sim::run(seed, mesh, |mesh| {
        mesh.play_draws()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(mesh.own.metrics.clone())
    })
}

impl Scenario for Draws {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Ask(_) | Event::Watch if mesh.own.over => Ok(()),
            Event::Ask(client) => mesh.ask(client),
            Event::Told(client, number) => mesh.told(client, number),
            Event::Watch => mesh.watch(),
            Event::Heard(number) => {
                mesh.own.fresh.remove(&number);
                if number < mesh.next() {
                    mesh.own.late.insert(number);
                }
                Ok(())
            }
        }
    }

    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.serve(at)
    }

    /// Puts a disk back in addition, whenever this is allowed, because it seldom is.
    fn fault(mesh: &mut World) -> Result<(), String> {
        if mesh.random.chance(mesh.settings.trouble.old / 2) {
            let at = mesh.random.index(MEMBERS);
            mesh.strike_disk(at);
        }
        Ok(())
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.own.waiting[at].clear();
        for client in 0..mesh.own.clients.len() {
            let it = &mesh.own.clients[client];
            if it.at == at && it.asks {
                mesh.think(client);
            }
        }
    }
}

impl World {
    fn play_draws(&mut self) -> Result<(), String> {
        let plan = self.own.plan;
        self.add_members(MEMBERS)?;
        self.found(MEMBERS)?;
        for at in 0..plan.begins {
            let replica = &mut self.nodes[at].replica;
            replica
                .quota_mut()
                .begin_sequence(NAME, &mut Vec::new())
                .map_err(text)?;
            self.changed(at)?;
        }
        for (at, count) in plan.clients.into_iter().enumerate() {
            for _ in 0..count {
                let client = self.own.clients.len();
                self.own.clients.push(Client { at, asks: false });
                self.after((0, THINK_MS.1), Event::Ask(client));
            }
        }
        if plan.watch_ms > 0 {
            self.at(self.now + plan.watch_ms, Event::Watch);
        }
        self.trouble();
        self.pass(plan.end_ms)?;
        self.rest()
    }

    /// Stops the draws. Then all members must see the same sequence, and it must be right.
    fn rest(&mut self) -> Result<(), String> {
        self.heal();
        self.own.over = true;
        self.pass(20_000)?;
        let begins = self.own.plan.begins;
        if self.own.metrics.issued == 0 && begins == 1 {
            return Err("nothing was handed out".into());
        }
        let seen = self
            .nodes
            .iter()
            .map(|it| it.replica.quota().sequence(NAME));
        let seen: Vec<Option<Sequence>> = seen.collect();
        if seen.iter().any(|it| *it != seen[0]) {
            return Err(format!("the members see {seen:?}"));
        }
        let Some(known) = &seen[0] else {
            return match begins {
                1 => Err("it is gone".into()),
                _ => Ok(()),
            };
        };
        let lost = known.lost + known.gaps.iter().map(|it| it.end - it.start).sum::<u64>();
        self.own.metrics.lost = lost;
        let held: u64 = known.held.iter().map(|it| it.0.end - it.0.start).sum();
        let all = known.issued + held + lost;
        // An old disk copy may have an entry of a writer that no other replica has. Its end is then noticed
        // later.
        let current = |writer| self.nodes.iter().any(|it| it.replica.writer() == writer);
        self.watches_tell(known)?;
        let own = self.counts.old > 0 || known.held.iter().all(|it| current(it.1));
        let issued = self.own.metrics.issued;
        let bounds = known.issued <= issued && issued < known.next;
        match all == known.next - 1 && own && bounds {
            true => Ok(()),
            false => Err(format!("{issued} were handed out, and they see {known:?}")),
        }
    }

    /// Checks that the members' state of watched numbers is right.
    fn watches_tell(&self, known: &Sequence) -> Result<(), String> {
        let (issued, watched) = (&self.own.issued, &self.own.watched);
        let told: BTreeSet<u64> = known.watched.iter().map(|it| it.number).collect();
        // A number that was handed out or watched, and lost with a disk, is marked as lost or missing.
        let is_exact = self.counts.old == 0 && self.settings.trouble.flush_ms == 0;
        let is_true = |it: &Watched| match it.reached {
            Reached::NotYet => !issued.contains(&it.number),
            Reached::HandedOut { .. } | Reached::Passed => issued.contains(&it.number),
            // It may have been handed out before it was lost.
            Reached::Lost => true,
        };
        let all_told = watched.is_subset(&told) && known.watched.iter().all(is_true);
        match all_told || !is_exact {
            true => Ok(()),
            false => Err(format!("of {watched:?} they see {known:?}")),
        }
    }

    /// The least number that no member has reserved.
    fn next(&self) -> u64 {
        let known = self
            .nodes
            .iter()
            .map(|it| it.replica.quota().sequence(NAME));
        known.flatten().map(|it| it.next).max().unwrap_or_default()
    }

    /// A member watches one of the next numbers.
    fn watch(&mut self) -> Result<(), String> {
        self.at(self.now + self.own.plan.watch_ms, Event::Watch);
        let ahead = self.random.range(3, 200);
        let at = self.random.index(MEMBERS);
        let number = self.next() + ahead;
        if !self.nodes[at].alive {
            return Ok(());
        }
        let replica = &mut self.nodes[at].replica;
        match replica
            .quota_mut()
            .watch_number(NAME, number, &mut Vec::new())
        {
            Ok(()) => {
                self.own.watched.insert(number);
                self.own.fresh.insert(number);
                self.at(self.now + HEARD_MS, Event::Heard(number));
                self.changed(at)
            }
            Err(
                Error::Member(MemberError::NotAMember)
                | Error::Quota(QuotaError::NoSequence | QuotaError::WatchesFull),
            ) => Ok(()),
            Err(error) => Err(format!("{at} watches {number}: {error}")),
        }
    }

    /// Compares the rank of a watched number, once it is handed out, with its value.
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
        let before = self.own.drawn.range(..number).count() as u64;
        if number - 1 - before > below + lost {
            return Err(format!("{before} were handed out below {watched:?}"));
        }
        let metrics = &mut self.own.metrics;
        metrics.reached += 1;
        if self.own.late.contains(&number) || self.own.fresh.contains(&number) {
            return Ok(());
        }
        let rank = self.own.drawn.len() as u64;
        let astray = rank.abs_diff(number.saturating_sub(lost));
        metrics.astray += u64::from(astray > 0);
        metrics.astray_by += astray;
        metrics.astray_most = metrics.astray_most.max(astray);
        Ok(())
    }

    fn ask(&mut self, client: usize) -> Result<(), String> {
        let at = self.own.clients[client].at;
        self.own.clients[client].asks = true;
        if !self.nodes[at].alive {
            self.think(client);
            return Ok(());
        }
        if self.own.waiting[at].is_empty() && self.draw(at, client)? {
            return Ok(());
        }
        let since = self.now;
        let sync = &mut self.nodes[at].sync;
        let want = sync.request_numbers(since, NAME, 1, since + PATIENCE_MS);
        self.own.waiting[at].push_back(Waiting {
            client,
            since,
            want,
        });
        self.look_at(since + PATIENCE_MS, at);
        self.input(at, Input::Tick)
    }

    fn think(&mut self, client: usize) {
        self.own.clients[client].asks = false;
        self.after(THINK_MS, Event::Ask(client));
    }

    /// Hands out a number. Returns false if this member has none.
    fn draw(&mut self, at: usize, client: usize) -> Result<bool, String> {
        let replica = &mut self.nodes[at].replica;
        match replica.quota_mut().draw(NAME, &mut Vec::new()) {
            Ok(number) => {
                let known = replica.quota().sequence(NAME).ok_or("it is gone")?;
                let held = known.held.iter().map(|it| it.0.end - it.0.start);
                self.own.metrics.ahead += held.sum::<u64>();
                self.own.drawn.insert(number);
                self.note_reached(number, &known)?;
                self.when_written(at, Event::Told(client, number));
                self.changed(at)?;
                Ok(true)
            }
            Err(
                Error::Quota(QuotaError::NumbersShort | QuotaError::NoSequence)
                | Error::Member(MemberError::NotAMember),
            ) => Ok(false),
            Err(error) => Err(format!("{at} draws: {error}")),
        }
    }

    fn told(&mut self, client: usize, number: u64) -> Result<(), String> {
        self.own.metrics.issued += 1;
        if number == 0 || !self.own.issued.insert(number) {
            let at = self.own.clients[client].at;
            return Err(format!("{at} hands {number} out again"));
        }
        self.think(client);
        Ok(())
    }

    /// Serves the waiting clients, and ends the waits that have timed out.
    fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some(&Waiting {
            client,
            since,
            want,
        }) = self.own.waiting[at].front()
        {
            let served = self.draw(at, client)?;
            if !served && since + PATIENCE_MS > self.now {
                self.look_at(since + PATIENCE_MS, at);
                break;
            }
            self.own.waiting[at].pop_front();
            self.nodes[at].sync.end_numbers(self.now, want);
            match served {
                true => {
                    self.own.metrics.waited += 1;
                    self.own.metrics.waited_ms += self.now - since;
                }
                false => {
                    self.own.metrics.refused += 1;
                    self.think(client);
                }
            }
        }
        Ok(())
    }
}
