//! Limits for each period at three or four members of a [mesh](crate::sim) whose clocks are apart: what is
//! allowed in a period never adds up to more than its limit, and when all is healed all of it can be used,
//! and nothing is left of periods that are over.

mod clients;
mod oracle;

use crate::sim::{self, Counts, Mesh, Scenario, Settings, Trouble, owner, text};
use clients::{Client, Waiting};
use oracle::Decided;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::{Error, Limit, Stock};

/// So many members are played at most.
pub const MEMBERS_MAX: usize = 10;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many members there are at most.
    pub members: usize,
    /// How many of them there are at first.
    pub founders: usize,
    /// How many clients ask at each.
    pub clients: [usize; MEMBERS_MAX],
    /// How many keys they ask for, at most three.
    pub keys: usize,
    /// Whether they wait for what is not allowed at once.
    pub waits: bool,
    /// Whether all is mended in the end, and looked at what can be used then and what is left.
    pub rests: bool,
    /// How much is allowed in a period, at first.
    pub limit: u64,
    /// How long a period is, in milliseconds.
    pub period_ms: u64,
    /// What befalls the members.
    pub trouble: Trouble,
    /// How many in a thousand troubles are a change of the limits.
    pub rules: u64,
    /// How many in a thousand troubles are a change of the members.
    pub moves: u64,
    /// When it ends, in milliseconds.
    pub end_ms: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How much was allowed, and how often that was refused.
    pub allowed: u64,
    /// How often it was refused.
    pub refused: u64,
    /// How many of those who were allowed something had waited for it.
    pub waited: u64,
    /// How much a member allowed that others did not count any more.
    pub uncounted: u64,
    /// How many windows there were.
    pub windows: u64,
    /// How many configurations were decided.
    pub decided: u64,
    /// The most counters that a member kept of windows at once.
    pub counters: usize,
    /// What was asked for in each window, by its name, and allowed at once.
    pub periods: BTreeMap<String, Metered>,
    /// What happened in the mesh.
    pub mesh: Counts,
}

/// What was asked for in a window.
#[derive(Clone, Debug)]
pub struct Metered {
    /// How much may be allowed.
    pub limit: u64,
    /// How much was asked for at each member.
    pub asked: Vec<u64>,
    /// How much was allowed, at once.
    pub allowed: u64,
}

impl Metered {
    /// The most that anybody could have allowed.
    pub fn most(&self) -> u64 {
        self.limit.min(self.asked.iter().sum())
    }

    /// What members would have allowed that each have a part of the limit which stays theirs.
    pub fn fixed(&self) -> u64 {
        let parts = self.asked.len() as u64;
        let part = |at: u64| self.limit / parts + u64::from(at < self.limit % parts);
        let allowed = self.asked.iter().zip(0..);
        allowed.map(|(asked, at)| part(at).min(*asked)).sum()
    }
}

/// The limits, and who uses them.
pub struct Windows {
    plan: Plan,
    figures: Figures,
    clients: Vec<Client>,
    /// Who waits at each member, the longest first.
    waiting: Vec<VecDeque<Waiting>>,
    decided: Decided,
    /// What was allowed and counts, by the window: the sum, and by which transactions.
    allowed: BTreeMap<String, (u64, Vec<(oracle::Dot, u64)>)>,
    seen: BTreeSet<String>,
    /// Whether nobody asks any more.
    over: bool,
}

type World = Mesh<Windows>;

fn limit(name: &str, limit: u64, period_ms: u64) -> Limit {
    Limit {
        name: name.into(),
        limit,
        period_ms,
        born: 0,
    }
}

/// Plays a plan.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, traced: bool, plan: &Plan) -> Result<Figures, String> {
    let windows = Windows {
        plan: *plan,
        figures: Figures::default(),
        clients: Vec::new(),
        waiting: (0..plan.members).map(|_| VecDeque::new()).collect(),
        decided: Decided::default(),
        allowed: BTreeMap::new(),
        seen: BTreeSet::new(),
        over: false,
    };
    let mesh = Mesh::new(seed, traced, Settings::under(plan.trouble), windows);
    sim::run(seed, mesh, |mesh| {
        mesh.play_windows()?;
        mesh.own.figures.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.figures))
    })
}

impl Scenario for Windows {
    type Event = clients::Event;
    type Seen = ();

    fn event(mesh: &mut World, event: clients::Event) -> Result<(), String> {
        mesh.client(event)
    }

    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.serve(at)
    }

    fn written(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.check(at)
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.own.waiting[at].clear();
        for client in 0..mesh.own.clients.len() {
            if mesh.own.clients[client].waits_at(at) {
                mesh.think(client);
            }
        }
    }

    /// Limits and members change.
    fn fault(mesh: &mut World) -> Result<(), String> {
        if mesh.random.chance(mesh.own.plan.rules) {
            mesh.change_limits()?;
        }
        if mesh.random.chance(mesh.own.plan.moves) {
            mesh.change_members()?;
        }
        Ok(())
    }
}

impl World {
    fn play_windows(&mut self) -> Result<(), String> {
        let plan = self.own.plan;
        self.add_members(plan.members)?;
        self.found(plan.founders)?;
        let first = limit("api", plan.limit, plan.period_ms);
        self.nodes[0]
            .replica
            .propose_limits(&[first])
            .map_err(text)?;
        self.changed(0)?;
        self.pass(1_000)?;
        self.begin_clients();
        self.trouble();
        self.pass(plan.end_ms)?;
        match plan.rests {
            true => self.rest(),
            false => Ok(()),
        }
    }

    /// All is healed: all of a limit can be used, and then all that was kept of windows goes.
    fn rest(&mut self) -> Result<(), String> {
        self.heal();
        self.own.over = true;
        self.pass(15_000)?;
        self.check_counted()?;
        let (most, period) = (self.own.plan.limit, 10_000);
        let at = self.decide_last(most, period)?;
        self.pass(5_000)?;
        let left = period - self.wall(at) % period;
        self.pass(left + self.settings.trouble.skew_ms + 50)?;
        let begun = self.now;
        let mut used = 0;
        while self.now < begun + 6_000 && used < most {
            for at in 0..self.nodes.len() {
                used += self.use_last(at, most - used)?;
            }
            self.pass(20)?;
        }
        if used < most {
            return Err(format!(
                "only {used} of {most} can be used: {}",
                self.tell()
            ));
        }
        self.pass(60_000)?;
        // A process that wrote something and is gone for good is waited for until its lease is over.
        if self.own.plan.moves > 0 && self.is_left(at).is_some() {
            self.pass(600_000)?;
        }
        self.is_left(at).map_or(Ok(()), Err)
    }

    /// Members decide on a last limit; tells who proposed it.
    fn decide_last(&mut self, most: u64, period: u64) -> Result<usize, String> {
        let last = [limit("last", most, period)];
        for _ in 0..20 {
            // Members may change still, as was decided before.
            let mut members = 0..self.nodes.len();
            let at = members.find(|at| self.nodes[*at].replica.is_member());
            let at = at.ok_or("nobody is a member")?;
            if self.nodes[at].replica.period("last").is_ok() {
                return Ok(at);
            }
            if self.nodes[at].replica.propose_limits(&last).is_ok() {
                self.changed(at)?;
            }
            self.pass(3_000)?;
        }
        Err(format!("nothing is decided: {}", self.tell()))
    }

    /// Uses some of the last limit at a member; tells how much.
    fn use_last(&mut self, at: usize, left: u64) -> Result<u64, String> {
        let cost = (1 + self.random.below(3)).min(left);
        if cost == 0 || !self.nodes[at].replica.is_member() {
            return Ok(0);
        }
        if self.allow(at, "last", cost, None)? {
            return Ok(cost);
        }
        if let Ok(period) = self.nodes[at].replica.period("last") {
            let now = self.now;
            let sync = &mut self.nodes[at].sync;
            sync.lack_rights(now, &period.name, Stock::Period, cost);
            self.input(at, tallymesh_core::Input::Tick)?;
        }
        Ok(0)
    }

    fn change_limits(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        let (most, period) = (self.own.plan.limit, self.own.plan.period_ms);
        let most = *self.random.pick(&[most / 2, most, 2 * most, 3 * most]);
        let limits = match self.random.below(8) {
            0 => Vec::new(),
            1 => vec![limit("api", most, 2 * period)],
            2 => vec![limit("api", most, period), limit("api:a", most / 2, period)],
            _ => vec![limit("api", most, period)],
        };
        if !self.nodes[at].alive {
            return Ok(());
        }
        match self.nodes[at].replica.propose_limits(&limits) {
            Ok(()) | Err(Error::NotAMember) => self.changed(at),
            Err(error) => Err(text(error)),
        }
    }

    /// One goes, or another one comes.
    fn change_members(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        let other = owner(self.random.index(self.nodes.len()));
        if !self.nodes[at].alive {
            return Ok(());
        }
        let replica = &mut self.nodes[at].replica;
        let members = replica.configuration();
        let mut members = members.map_or(Vec::new(), |it| it.members.clone());
        match members.contains(&other) {
            true if members.len() > 2 => members.retain(|it| *it != other),
            true => {}
            false => members.push(other),
        }
        match replica.propose_members(&members) {
            Ok(()) | Err(Error::NotAMember) => self.changed(at),
            Err(error) => Err(text(error)),
        }
    }
}
