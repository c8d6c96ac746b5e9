//! Scenario: one budget, from which clients spend at three members of a [mesh](crate::sim). It measures how
//! much can be spent, where, and after what wait. Never more may be spent than there is.
//!
//! The members move rights by their own policy. For comparison, one of two plain policies moves them.

mod clients;
mod holders;
mod metrics;
mod oracle;
mod strikes;

pub use metrics::Metrics;

use crate::sim::{self, Cause, Mesh, Scenario, Settings, Trouble, text};
use clients::{Client, Waiting};
use holders::Holder;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use strikes::Struck;
use tallymesh_core::{Flow, LeaseId, SyncConfig, WriterId};

const MEMBERS: usize = 3;
const NAME: &str = "gift";
/// The type of the frame in which members request rights.
const WANT: u8 = 14;
/// How long a client pauses between two spends, in milliseconds.
const THINK_MS: (u64, u64) = (20, 200);

/// The policy that moves rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The members' own policy.
    Members,
    /// Requests just the missing amount, from a random other member that has some.
    Missing,
    /// Requests half of the rights of the richest other member.
    HalfOfRichest,
}

/// A serious fault of one of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The member is gone for good, and an operator takes it out.
    TakenOut,
    /// Its process is copied while it runs, and both go on.
    Copied,
    /// Its disk is copied, and a process on the copy runs beside it for a while.
    DiskCopied,
    /// The same, until the original is gone for good, and its copy is adopted.
    Adopted,
}

/// The clients and the events of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Units that the first member mints.
    pub minted: u64,
    /// Number of clients at each member. Each spends one unit at a time.
    pub clients: [usize; 3],
    /// How long a client waits before it is refused, in milliseconds.
    pub patience_ms: u64,
    /// The start and end of a cut of the last member, in milliseconds.
    pub cut_ms: Option<(u64, u64)>,
    /// The faults of the members.
    pub trouble: Trouble,
    /// Whether clients use idempotency keys, and repeat requests at other members when they get no answer.
    pub keyed: bool,
    /// Wishes of 1000 that give a unit back, under a cap, before the end of the trouble.
    pub given_back: u64,
    /// Number of holders that spend on leases, with clocks of their own.
    pub holders: usize,
    /// The fault of one of the members while there is trouble.
    pub strike: Option<Strike>,
    /// When the run ends, if the budget is not spent earlier, in milliseconds.
    pub end_ms: u64,
}

/// A transaction: its writer, the process, and its clock.
type Dot = (WriterId, usize, u64);

/// The state of this scenario: the budget and its clients.
pub struct Spending {
    plan: Plan,
    policy: Policy,
    metrics: Metrics,
    clients: Vec<Client>,
    holders: Vec<Holder>,
    /// The waiting clients at each member, the longest wait first.
    waiting: Vec<VecDeque<Waiting>>,
    /// When a plain policy may ask again.
    ask_at: Vec<u64>,
    struck: Struck,
    /// The keys of all acknowledged operations, if clients use keys.
    made: BTreeSet<String>,
    /// Units that transactions have taken, including those that were lost before an acknowledgement.
    taken: u64,
    /// Units by the transaction that spent them.
    spent: BTreeMap<Dot, u64>,
    /// A member's clock before its present input.
    clock: u64,
    /// When the clients of the plan start.
    begun: u64,
}

/// A scheduled event of this scenario.
pub enum Event {
    /// A client sends a request.
    Ask(usize),
    /// A client receives the acknowledgement of its wish, with the transaction.
    Told(usize, Dot),
    /// A holder of a lease takes its next step.
    Hold(usize),
    /// A holder receives a lease: its id, its length in milliseconds, and its amount.
    Leased(usize, LeaseId, u64, u64),
    /// A holder receives the acknowledgement of the units that it has spent, with the transaction.
    Noted(usize, Dot),
    /// A request of a plain policy arrives: the receiver, the sender, and the amount.
    Plain(usize, usize, u64),
    /// The last member is cut off for this many milliseconds.
    CutOff(u64),
    /// The fault of one of the members takes its next step.
    Strike,
}

type World = Mesh<Spending>;

/// Plays until the budget is spent, or the time is over.
///
/// # Errors
/// The failure and the seed, as text.
pub fn play(seed: u64, traced: bool, plan: &Plan, policy: Policy) -> Result<Metrics, String> {
    let spending = Spending {
        plan: *plan,
        policy,
        metrics: Metrics::default(),
        clients: Vec::new(),
        holders: Vec::new(),
        waiting: (0..=MEMBERS).map(|_| VecDeque::new()).collect(),
        ask_at: vec![0; MEMBERS + 1],
        struck: Struck::default(),
        made: BTreeSet::new(),
        taken: 0,
        spent: BTreeMap::new(),
        clock: 0,
        begun: 0,
    };
    let mut settings = Settings::under(plan.trouble);
    let copies = [Strike::Copied, Strike::DiskCopied, Strike::Adopted];
    if plan.strike.is_some_and(|it| copies.contains(&it)) {
        // The members wait for new starts of the copy that is gone.
        settings.sync = SyncConfig {
            guest_timeout_ms: 10_000,
            ..settings.sync
        };
        // The bound on the amount that two copies overdraw requires that members can mostly exchange
        // messages.
        settings.fault_ms = (1_500, 4_000);
    }
    let mesh = Mesh::new(seed, traced, settings, spending);
    sim::run(seed, mesh, |mesh| {
        mesh.play_spending()?;
        mesh.own.metrics.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.metrics))
    })
}

impl Scenario for Spending {
    type Event = Event;
    type Seen = ();

    fn event(mesh: &mut World, event: Event) -> Result<(), String> {
        match event {
            Event::Ask(client) => mesh.ask(client),
            Event::Told(client, dot) => mesh.told(client, dot),
            Event::Hold(holder) => mesh.hold(holder),
            Event::Leased(holder, id, ms, amount) => {
                mesh.leased(holder, id, ms, amount);
                Ok(())
            }
            Event::Noted(holder, dot) => mesh.noted(holder, dot),
            Event::Plain(to, from, missing) => mesh.plain_grant(to, from, missing),
            Event::CutOff(ms) => {
                mesh.cut_off(MEMBERS - 1, ms);
                Ok(())
            }
            Event::Strike => mesh.strike(),
        }
    }

    fn before(mesh: &mut World, at: usize, _: Cause) {
        mesh.own.clock = mesh.nodes[at].replica.clock();
    }

    fn handled(mesh: &mut World, at: usize, cause: Cause) -> Result<(), String> {
        let moved = mesh.nodes[at].replica.clock() > mesh.own.clock;
        mesh.own.metrics.moves += u64::from(cause == Cause::Frame(WANT) && moved);
        Ok(())
    }

    fn written(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.check(at)
    }

    fn look(mesh: &mut World, at: usize) -> Result<(), String> {
        mesh.serve(at)?;
        mesh.give_up(at);
        mesh.plain_ask(at);
        Ok(())
    }

    /// With a plain policy, members send no rights requests of their own.
    fn sends(mesh: &mut World, _: usize, bytes: &[u8]) -> Result<bool, String> {
        let asks = bytes[3] == WANT;
        let by_themselves = mesh.own.policy == Policy::Members;
        mesh.own.metrics.requests += u64::from(asks && by_themselves);
        Ok(by_themselves || !asks)
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.clients_of_ended(at);
        mesh.holders_of_ended(at);
    }

    /// Two copies of a process run on until an operator notices them.
    fn may_restart(mesh: &World, at: usize) -> bool {
        let struck = &mesh.own.struck;
        let mut copied = struck.copied.filter(|_| struck.gone.is_none()).into_iter();
        !copied.any(|(one, two, _)| at == one || at == two)
    }
}

impl World {
    fn play_spending(&mut self) -> Result<(), String> {
        let plan = self.own.plan;
        self.add_members(MEMBERS)?;
        self.found(MEMBERS)?;
        let cap = (plan.given_back > 0).then_some(Flow::RaiseCap(plan.minted));
        for flow in cap.into_iter().chain([Flow::Mint(plan.minted)]) {
            self.nodes[0]
                .replica
                .quota_mut()
                .flow(NAME, flow)
                .map_err(text)?;
        }
        self.changed(0)?;
        self.pass(500)?;
        self.own.begun = self.now;
        for at in 0..MEMBERS {
            for _ in 0..plan.clients[at] {
                let client = self.own.clients.len();
                self.own.clients.push(Client::new(at));
                self.after((0, THINK_MS.1), Event::Ask(client));
            }
        }
        self.add_holders();
        if let Some((from, to)) = plan.cut_ms {
            self.at(self.now + from, Event::CutOff(to - from));
        }
        if plan.strike.is_some() {
            self.at(self.now + plan.trouble.ms / 4, Event::Strike);
        }
        self.trouble();
        if !self.until(plan.end_ms, World::is_spent)? {
            return Ok(());
        }
        self.own.metrics.done_ms = self.now - self.own.begun;
        self.rest()
    }

    /// All is spent. Clients go on requesting and get nothing, and no rights move.
    fn rest(&mut self) -> Result<(), String> {
        self.heal();
        self.pass(8_000)?;
        let moves = self.own.metrics.moves;
        self.pass(5_000)?;
        let exact = self.own.struck.copied.is_none();
        match exact {
            true => self.count_lost(),
            false => self.count_overdrawn()?,
        }
        for (at, node) in self.living().filter(|_| exact) {
            let budget = node.replica.quota().budget(NAME).ok_or("it is gone")?;
            if budget.value != 0 {
                return Err(format!("all is spent, and {at} sees {budget:?}"));
            }
        }
        let metrics = &self.own.metrics;
        let counted = metrics.spent - metrics.lost;
        match metrics.moves == moves && (!exact || counted == self.own.plan.minted) {
            true => Ok(()),
            false => Err(format!("it goes on: {metrics:?}")),
        }
    }

    /// Whether the plan cuts the last member off now.
    fn is_cut_off(&self) -> bool {
        let cut = self.own.plan.cut_ms.filter(|_| self.own.begun > 0);
        cut.is_some_and(|(from, to)| (from..to).contains(&(self.now - self.own.begun)))
    }
}
