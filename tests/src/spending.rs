//! One budget that clients spend from at three members of a [mesh](crate::sim): how much of it can be spent,
//! where, and after what wait, and never more than there is.
//!
//! Rights move as the members do it by themselves, or by one of two plain policies beside it.

mod clients;
mod figures;
mod holders;
mod oracle;
mod strikes;

pub use figures::Figures;

use crate::sim::{self, Cause, Mesh, Scenario, Settings, Trouble, text};
use clients::{Client, Waiting};
use holders::Holder;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use strikes::Struck;
use tallymesh_core::{Flow, LeaseId, SyncConfig, WriterId};

const MEMBERS: usize = 3;
const NAME: &str = "gift";
/// The type of the frame by which members ask for rights.
const WANT: u8 = 14;
/// How long a client thinks between two spends.
const THINK_MS: (u64, u64) = (20, 200);

/// How rights move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As the members do it by themselves.
    Members,
    /// Just what is missing, from a random other member that holds some.
    Missing,
    /// Half of what the richest other member holds.
    HalfOfRichest,
}

/// What happens to one of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// It is gone for good, and taken out by an operator.
    TakenOut,
    /// Its process is copied while it runs, and both go on.
    Copied,
}

/// Who spends where, and what happens meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What the first member mints.
    pub minted: u64,
    /// How many clients spend at each member, each a unit at a time.
    pub clients: [usize; 3],
    /// How long a client waits before it is refused, in milliseconds.
    pub patience_ms: u64,
    /// From when to when the last member is cut off, in milliseconds.
    pub cut_ms: Option<(u64, u64)>,
    /// What befalls the members.
    pub trouble: Trouble,
    /// Whether clients ask under idempotency keys, and ask others again when they get no answer.
    pub keyed: bool,
    /// How many in a thousand wishes are to give a unit back, under a cap, before it is quiet.
    pub given_back: u64,
    /// How many spend on leases, with clocks of their own.
    pub holders: usize,
    /// What happens to one of the members while there is trouble.
    pub strike: Option<Strike>,
    /// When it ends, if not all is spent before.
    pub end_ms: u64,
}

/// A transaction: its writer, the process, and its clock.
type Dot = (WriterId, usize, u64);

/// The budget, and who spends from it.
pub struct Spending {
    plan: Plan,
    policy: Policy,
    figures: Figures,
    clients: Vec<Client>,
    holders: Vec<Holder>,
    /// Who waits at each member, the longest first.
    waiting: Vec<VecDeque<Waiting>>,
    /// When a plain policy may ask again.
    ask_at: Vec<u64>,
    struck: Struck,
    /// The keys of all that was ever made, if clients use keys.
    made: BTreeSet<String>,
    /// Units that were taken by transactions, also if those were lost before anybody was told.
    taken: u64,
    /// Units by the transaction that spent them.
    spent: BTreeMap<Dot, u64>,
    /// A member's clock before it handled what it was handed.
    clock: u64,
    /// When the time of the plan begins.
    begun: u64,
}

/// What happens at a time.
pub enum Event {
    /// A client asks.
    Ask(usize),
    /// A client is told that its wish was made, by which transaction.
    Told(usize, Dot),
    /// A holder of a lease goes on.
    Hold(usize),
    /// A holder is told that it has a lease: of so much, for so long.
    Leased(usize, LeaseId, u64, u64),
    /// What a holder has spent is taken down, by which transaction.
    Noted(usize, Dot),
    /// A request of a plain policy arrives: at whom, by whom, for how much.
    Plain(usize, usize, u64),
    /// The last member is cut off for so long.
    CutOff(u64),
    /// Something happens to one of the members.
    Strike,
}

type World = Mesh<Spending>;

/// Plays until all is spent, or the time is over.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, traced: bool, plan: &Plan, policy: Policy) -> Result<Figures, String> {
    let spending = Spending {
        plan: *plan,
        policy,
        figures: Figures::default(),
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
    if plan.strike == Some(Strike::Copied) {
        // Starts of a copy that is gone are waited for.
        settings.sync = SyncConfig {
            lease_ms: 10_000,
            ..settings.sync
        };
        // The bound on what two copies overdraw holds if members mostly hear of each other.
        settings.fault_ms = (1_500, 4_000);
    }
    let mesh = Mesh::new(seed, traced, settings, spending);
    sim::run(seed, mesh, |mesh| {
        mesh.play_spending()?;
        mesh.own.figures.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.figures))
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
        mesh.own.figures.moves += u64::from(cause == Cause::Frame(WANT) && moved);
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

    /// With a plain policy, members do not ask ahead by themselves.
    fn sends(mesh: &mut World, _: usize, bytes: &[u8]) -> Result<bool, String> {
        let asks = bytes[3] == WANT;
        let by_themselves = mesh.own.policy == Policy::Members;
        mesh.own.figures.requests += u64::from(asks && by_themselves);
        Ok(by_themselves || !asks)
    }

    fn ended(mesh: &mut World, at: usize) {
        mesh.clients_of_ended(at);
        mesh.holders_of_ended(at);
    }

    /// Two copies of a process run on until an operator finds that.
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
            self.nodes[0].replica.flow(NAME, flow).map_err(text)?;
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
        self.own.figures.done_ms = self.now - self.own.begun;
        self.rest()
    }

    /// All is spent: clients ask on, and get nothing, and nothing moves.
    fn rest(&mut self) -> Result<(), String> {
        self.heal();
        self.pass(8_000)?;
        let moves = self.own.figures.moves;
        self.pass(5_000)?;
        let exact = self.own.struck.copied.is_none();
        match exact {
            true => self.count_lost(),
            false => self.count_overdrawn()?,
        }
        for (at, node) in self.living().filter(|_| exact) {
            let budget = node.replica.budget(NAME).ok_or("it is gone")?;
            if budget.value != 0 {
                return Err(format!("all is spent, and {at} sees {budget:?}"));
            }
        }
        let figures = &self.own.figures;
        let counted = figures.spent - figures.lost;
        match figures.moves == moves && (!exact || counted == self.own.plan.minted) {
            true => Ok(()),
            false => Err(format!("it goes on: {figures:?}")),
        }
    }

    /// Whether the last member is cut off by the plan.
    fn is_cut_off(&self) -> bool {
        let cut = self.own.plan.cut_ms.filter(|_| self.own.begun > 0);
        cut.is_some_and(|(from, to)| (from..to).contains(&(self.now - self.own.begun)))
    }
}
