//! Scenario: the cost of cutting a space's members into halves, by the share of time with a cut. It measures
//! a plain counter used as a limit, a budget, and a sequence, in a [mesh](crate::sim).

mod clients;
mod cuts;
mod metrics;

pub use metrics::{Half, Metrics};

use crate::sim::{self, Cause, Mesh, Scenario, Settings, Trouble, text};
use clients::{Client, Waiting};
use cuts::Cuts;
use std::collections::{BTreeSet, VecDeque};
use tallymesh_core::bounds::WATCHES_MAX;
use tallymesh_core::{Error, Flow};

const NAME: &str = "gift";

/// Number of members. A cut leaves the majority of three on one side, and two on the other.
pub const MEMBERS: usize = 5;

/// The work of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Count one more in a plain counter, unless the client sees that it has reached the limit.
    Limit(u64),
    /// Spend a unit of a budget. The first member minted this many units.
    Budget(u64),
    /// As `Budget`, and one member is gone for good some time after the start, and is taken out.
    Retired(u64),
    /// Draw numbers of a sequence that the first member began. Each number divisible by this is watched from
    /// the start, up to the limit on watches, and only watched ones are measured. With 0 none is watched, and
    /// all are measured.
    Sequence(u64),
}

/// The work of clients, and the share of time with a cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The work of the clients.
    pub work: Work,
    /// The share of the time in which the members are in two halves, in hundredths.
    pub cut_percent: u64,
    /// Number of clients at each member.
    pub clients: [usize; MEMBERS],
    /// How long clients of a budget or a sequence wait before they are refused, in milliseconds.
    pub patience_ms: u64,
    /// The additional faults of the members.
    pub trouble: Trouble,
    /// When the run ends, if nothing ends it earlier, in milliseconds.
    pub end_ms: u64,
}

/// The state of this scenario: the clients, their numbers and units, and the cuts.
pub struct Partitions {
    plan: Plan,
    metrics: Metrics,
    clients: Vec<Client>,
    /// The waiting clients at each member, the longest wait first.
    waiting: [VecDeque<Waiting>; MEMBERS],
    /// All numbers that clients received.
    numbers: BTreeSet<u64>,
    /// All draws in the order of time: virtual time and number.
    drawn: Vec<(u64, u64)>,
    /// Units that transactions have taken, including those that are not acknowledged yet.
    taken: u64,
    cuts: Cuts,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// A client sends a request.
    Ask(usize),
    /// A client receives an acknowledgement, with its number if it drew one.
    Told(usize, u64),
    /// A cut begins or ends.
    Cut,
    /// A member is gone for good.
    Gone,
    /// The operator takes that member out.
    TakeOut,
    /// Checks whether other members have its rights now.
    TakenOver,
}

type World = Mesh<Partitions>;

/// Plays a plan until its work is done. A limit is done when all clients see that it is reached, and a budget
/// when all of it is spent. With a member that is gone, it is done when others may spend the member's rights.
/// A sequence is drawn from until the end of the time.
///
/// # Errors
/// The failure and the seed, as text.
pub fn play(seed: u64, traced: bool, plan: &Plan) -> Result<Metrics, String> {
    let partitions = Partitions {
        plan: *plan,
        metrics: Metrics::default(),
        clients: Vec::new(),
        waiting: [const { VecDeque::new() }; MEMBERS],
        numbers: BTreeSet::new(),
        drawn: Vec::new(),
        taken: 0,
        cuts: Cuts::default(),
    };
    let mesh = Mesh::new(seed, traced, Settings::under(plan.trouble), partitions);
    sim::run(seed, mesh, |mesh| {
        mesh.play_partitions()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.metrics))
    })
}

impl Scenario for Partitions {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Ask(client) => mesh.ask(client),
            Event::Told(client, number) => mesh.told(client, number),
            Event::Cut => {
                mesh.next_cut();
                Ok(())
            }
            Event::Gone => {
                mesh.lose_one();
                Ok(())
            }
            Event::TakeOut => mesh.take_out(),
            Event::TakenOver => {
                mesh.look_for_successor();
                Ok(())
            }
        }
    }

    fn handled(mesh: &mut World, at: usize, cause: Cause) -> Result<(), String> {
        match cause {
            Cause::Frame(_) => mesh.check(at),
            _ => Ok(()),
        }
    }

    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.serve(at)
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.own.waiting[at].clear();
        for client in 0..mesh.own.clients.len() {
            if mesh.own.clients[client].waits_at(at) {
                mesh.think(client);
            }
        }
    }
}

impl World {
    fn play_partitions(&mut self) -> Result<(), String> {
        let plan = self.own.plan;
        self.add_members(MEMBERS)?;
        self.found(MEMBERS)?;
        self.begin_work(plan.work).map_err(text)?;
        self.changed(0)?;
        self.pass(1_000)?;
        self.begin_cuts();
        let begun = self.now;
        for at in 0..MEMBERS {
            for _ in 0..plan.clients[at] {
                let client = self.own.clients.len();
                self.own.clients.push(Client::new(at));
                self.after((0, clients::THINK_MS.1), Event::Ask(client));
            }
        }
        self.trouble();
        let done = self.until(plan.end_ms, World::is_done)?;
        self.note_cut_time();
        self.own.metrics.played_ms = self.now - begun;
        self.judge(done)
    }

    fn begin_work(&mut self, work: Work) -> Result<(), Error> {
        let first = &mut self.nodes[0].replica;
        match work {
            Work::Limit(_) => {}
            Work::Budget(minted) | Work::Retired(minted) => {
                first.quota_mut().flow(NAME, Flow::Mint(minted))?
            }
            Work::Sequence(watched) => {
                first.quota_mut().begin_sequence(NAME, &mut Vec::new())?;
                for nth in (1..=WATCHES_MAX as u64).filter(|_| watched > 0) {
                    first
                        .quota_mut()
                        .watch_number(NAME, nth * watched, &mut Vec::new())?;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        match self.own.plan.work {
            Work::Limit(_) => self.own.clients.iter().all(Client::has_stopped),
            Work::Budget(minted) => self.own.metrics.made == minted,
            Work::Retired(_) => !self.own.metrics.back_ms.is_empty(),
            Work::Sequence(_) => false,
        }
    }

    fn judge(&mut self, done: bool) -> Result<(), String> {
        let every = match self.own.plan.work {
            Work::Sequence(watched) => watched.max(1),
            _ => 1,
        };
        let metrics = &mut self.own.metrics;
        let drawn = self.own.drawn.iter().enumerate();
        for (at, (time, number)) in drawn.filter(|it| it.1.1.is_multiple_of(every)) {
            let place = number - 1;
            metrics.errors.push(place.abs_diff(at as u64));
            // A number beyond the count of draws has no known turn yet.
            if let Some((turn, _)) = self.own.drawn.get(place as usize) {
                metrics.off_ms.push(time.abs_diff(*turn));
            }
        }
        match self.own.plan.work {
            Work::Limit(limit) if done => metrics.over.push(metrics.made - limit),
            Work::Budget(_) if done => metrics.spent_ms.push(metrics.played_ms),
            Work::Limit(_) => return Err("not all saw that the limit was reached".into()),
            Work::Retired(_) if !done => return Err("what was stranded did not return".into()),
            _ => {}
        }
        Ok(())
    }

    /// Checks that no view of a budget is out of its bounds, and that its rights add up.
    fn check(&self, at: usize) -> Result<(), String> {
        let (Work::Budget(minted) | Work::Retired(minted)) = self.own.plan.work else {
            return Ok(());
        };
        let replica = &self.nodes[at].replica;
        let Some(budget) = replica.quota().budget(NAME) else {
            return Ok(());
        };
        let least = i128::from(minted) - i128::from(self.own.taken);
        let holders = replica.quota().holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights).sum();
        let less = holders.iter().any(|it| it.rights < 0);
        let out = budget.value < least || budget.value > i128::from(minted);
        match out || less || rights != budget.value {
            true => Err(format!("{at} sees {budget:?} held as {holders:?}")),
            false => Ok(()),
        }
    }
}
