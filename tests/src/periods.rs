//! Scenario: rate limits at three or more members of a [mesh](crate::sim) whose clocks differ.
//!
//! The sum that is allowed in a period never exceeds the limit. After all is healed, the whole limit can be
//! used, and nothing is left of ended periods.

mod clients;
mod oracle;

use crate::sim::{self, Counts, Mesh, Scenario, Settings, Trouble, owner, text};
use clients::{Client, Waiting};
use oracle::Decided;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tallymesh_core::{Error, Limit, MemberError, RightKind};

/// Most members of a run.
pub const MEMBERS_MAX: usize = 10;

/// The clients and the events of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Most members.
    pub members: usize,
    /// Number of members at the start.
    pub founders: usize,
    /// Number of clients at each member.
    pub clients: [usize; MEMBERS_MAX],
    /// Number of keys with a limit, at most three.
    pub keys: usize,
    /// Whether clients wait if a request is not allowed at once.
    pub waits: bool,
    /// Whether everything is healed at the end. Then the usable amounts and the remaining counters are
    /// checked.
    pub rests: bool,
    /// The limit of a period at the start.
    pub limit: u64,
    /// The length of a period, in milliseconds.
    pub period_ms: u64,
    /// The faults of the members.
    pub trouble: Trouble,
    /// Faults of 1000 that are a change of the limits.
    pub rules: u64,
    /// Faults of 1000 that are a change of the members.
    pub moves: u64,
    /// When the run ends, in milliseconds.
    pub end_ms: u64,
}

/// Metrics of a run.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// The amount that was allowed.
    pub allowed: u64,
    /// Number of requests that were rejected.
    pub refused: u64,
    /// Number of allowed requests that had waited.
    pub waited: u64,
    /// The amount that a member allowed after others had stopped counting it.
    pub uncounted: u64,
    /// Number of periods.
    pub period_count: u64,
    /// Number of configurations that took effect.
    pub decided: u64,
    /// Most counters of periods that one member had at the same time.
    pub counters: usize,
    /// The requested and allowed amounts of each period, by its name.
    pub periods: BTreeMap<String, Metered>,
    /// Counts of the mesh.
    pub mesh: Counts,
}

/// The requested and allowed amounts of a period.
#[derive(Clone, Debug)]
pub struct Metered {
    /// The limit.
    pub limit: u64,
    /// The requested amount at each member.
    pub asked: Vec<u64>,
    /// The amount that was allowed at once.
    pub allowed: u64,
}

impl Metered {
    /// The most that any policy could have allowed.
    pub fn most(&self) -> u64 {
        self.limit.min(self.asked.iter().sum())
    }

    /// The amount that members would have allowed if each had a fixed part of the limit.
    pub fn fixed(&self) -> u64 {
        let parts = self.asked.len() as u64;
        let part = |at: u64| self.limit / parts + u64::from(at < self.limit % parts);
        let allowed = self.asked.iter().zip(0..);
        allowed.map(|(asked, at)| part(at).min(*asked)).sum()
    }
}

/// The state of this scenario: the limits and their clients.
pub struct Periods {
    plan: Plan,
    metrics: Metrics,
    clients: Vec<Client>,
    /// The waiting clients at each member, the longest wait first.
    waiting: Vec<VecDeque<Waiting>>,
    decided: Decided,
    /// The allowed amounts that count, by the period: the sum, and the amount of each transaction.
    allowed: BTreeMap<String, (u64, Vec<(oracle::Dot, u64)>)>,
    seen: BTreeSet<String>,
    /// Whether the requests have stopped.
    over: bool,
}

type World = Mesh<Periods>;

fn limit(name: &str, limit: u64, period_ms: u64) -> Limit {
    Limit {
        name: name.into(),
        limit,
        period_ms,
        since: 0,
    }
}

/// Plays a plan.
///
/// # Errors
/// The failure and the seed, as text.
pub fn play(seed: u64, traced: bool, plan: &Plan) -> Result<Metrics, String> {
    let periods = Periods {
        plan: *plan,
        metrics: Metrics::default(),
        clients: Vec::new(),
        waiting: (0..plan.members).map(|_| VecDeque::new()).collect(),
        decided: Decided::default(),
        allowed: BTreeMap::new(),
        seen: BTreeSet::new(),
        over: false,
    };
    let mesh = Mesh::new(seed, traced, Settings::under(plan.trouble), periods);
    sim::run(seed, mesh, |mesh| {
        mesh.play_periods()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.metrics))
    })
}

impl Scenario for Periods {
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

    /// Changes the limits or the members.
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
    fn play_periods(&mut self) -> Result<(), String> {
        let plan = self.own.plan;
        self.add_members(plan.members)?;
        self.found(plan.founders)?;
        let first = limit("api", plan.limit, plan.period_ms);
        self.nodes[0]
            .replica
            .quota_mut()
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

    /// All is healed. The whole of a limit can be used, and then all counters of periods are removed.
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
        // If a process that wrote something is gone for good, the members wait until its guest timeout ends.
        if self.own.plan.moves > 0 && self.is_left(at).is_some() {
            self.pass(600_000)?;
        }
        self.is_left(at).map_or(Ok(()), Err)
    }

    /// Members decide on a last limit. Returns the member that proposed it.
    fn decide_last(&mut self, most: u64, period: u64) -> Result<usize, String> {
        let last = [limit("last", most, period)];
        for _ in 0..20 {
            // An earlier decision may still change the members.
            let mut members = 0..self.nodes.len();
            let at = members.find(|at| self.nodes[*at].replica.members().is_member());
            let at = at.ok_or("nobody is a member")?;
            if self.nodes[at].replica.quota().period("last").is_ok() {
                return Ok(at);
            }
            if self.nodes[at]
                .replica
                .quota_mut()
                .propose_limits(&last)
                .is_ok()
            {
                self.changed(at)?;
            }
            self.pass(3_000)?;
        }
        Err(format!("nothing is decided: {}", self.tell()))
    }

    /// Uses some of the last limit at a member. Returns the amount.
    fn use_last(&mut self, at: usize, left: u64) -> Result<u64, String> {
        let cost = (1 + self.random.below(3)).min(left);
        if cost == 0 || !self.nodes[at].replica.members().is_member() {
            return Ok(0);
        }
        if self.allow(at, "last", cost, None)? {
            return Ok(cost);
        }
        if let Ok(period) = self.nodes[at].replica.quota().period("last") {
            let now = self.now;
            let sync = &mut self.nodes[at].sync;
            sync.lack_rights(now, &period.name, RightKind::Period, cost);
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
        match self.nodes[at].replica.quota_mut().propose_limits(&limits) {
            Ok(()) | Err(Error::Member(MemberError::NotAMember)) => self.changed(at),
            Err(error) => Err(text(error)),
        }
    }

    /// A member leaves, or another one joins.
    fn change_members(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        let other = owner(self.random.index(self.nodes.len()));
        if !self.nodes[at].alive {
            return Ok(());
        }
        let replica = &mut self.nodes[at].replica;
        let members = replica.members().configuration();
        let mut members = members.map_or(Vec::new(), |it| it.members.clone());
        match members.contains(&other) {
            true if members.len() > 2 => members.retain(|it| *it != other),
            true => {}
            false => members.push(other),
        }
        match replica.members_mut().propose(&members) {
            Ok(()) | Err(Error::Member(MemberError::NotAMember)) => self.changed(at),
            Err(error) => Err(text(error)),
        }
    }
}
