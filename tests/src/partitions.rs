//! What is lost while the members of a space are cut into halves, by the share of time that they are:
//! of a plain counter that is used as a limit, of a budget, and of a sequence, in a [mesh](crate::sim).

mod clients;
mod cuts;
mod figures;

pub use figures::{Figures, Half};

use crate::sim::{self, Cause, Mesh, Scenario, Settings, Trouble, text};
use clients::{Client, Waiting};
use cuts::Cuts;
use std::collections::{BTreeSet, VecDeque};
use tallymesh_core::limits::WATCHES_MAX;
use tallymesh_core::{Error, Flow};

const NAME: &str = "gift";

/// How many members there are: a cut leaves three on one side, most of them, and two on the other.
pub const MEMBERS: usize = 5;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Count one more in a plain counter, unless they see that it has reached the limit.
    Limit(u64),
    /// Spend a unit of a budget of so many, which the first member minted.
    Budget(u64),
    /// The same, and one member is gone for good some time after the beginning, and is taken out.
    Retired(u64),
    /// Draw numbers of a sequence that the first member began, of which each so many-th is watched from the
    /// beginning on, as many as can be, and looked at alone; 0 for none, and all are looked at.
    Sequence(u64),
}

/// What clients do, and how often they are cut.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What clients do.
    pub work: Work,
    /// How much of the time the members are in two halves, in hundredths.
    pub cut_percent: u64,
    /// How many clients each member has.
    pub clients: [usize; MEMBERS],
    /// How long clients of a budget or a sequence wait before they are refused, in milliseconds.
    pub patience_ms: u64,
    /// What befalls the members besides.
    pub trouble: Trouble,
    /// When it ends, if nothing else ends it before.
    pub end_ms: u64,
}

/// What clients share, who they are, and who is cut off.
pub struct Partitions {
    plan: Plan,
    figures: Figures,
    clients: Vec<Client>,
    /// Who waits at each member, the longest first.
    waiting: [VecDeque<Waiting>; MEMBERS],
    /// All numbers that clients were told.
    numbers: BTreeSet<u64>,
    /// Which number was drawn when, in the order of time.
    drawn: Vec<(u64, u64)>,
    /// Units that were taken by transactions, also if nobody was told yet.
    taken: u64,
    cuts: Cuts,
}

/// What happens at a time.
pub enum Event {
    /// A client asks.
    Ask(usize),
    /// A client is told that it got something: its number, if it is one.
    Told(usize, u64),
    /// A cut begins or ends.
    Cut,
    /// A member is gone for good.
    Gone,
    /// It is to be taken out.
    TakeOut,
    /// It is looked whether others took over what it held.
    TakenOver,
}

type World = Mesh<Partitions>;

/// Plays a plan: a limit until all see that it is reached, a budget until all is spent, a member that is
/// gone until others may spend what it held, a sequence until the time is over.
///
/// # Errors
/// Says what went wrong, and the seed.
pub fn play(seed: u64, traced: bool, plan: &Plan) -> Result<Figures, String> {
    let partitions = Partitions {
        plan: *plan,
        figures: Figures::default(),
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
        mesh.own.figures.mesh = mesh.counts();
        Ok(std::mem::take(&mut mesh.own.figures))
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
                mesh.look_for_heir();
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
        self.own.figures.played_ms = self.now - begun;
        self.judge(done)
    }

    fn begin_work(&mut self, work: Work) -> Result<(), Error> {
        let first = &mut self.nodes[0].replica;
        match work {
            Work::Limit(_) => {}
            Work::Budget(minted) | Work::Retired(minted) => first.flow(NAME, Flow::Mint(minted))?,
            Work::Sequence(watched) => {
                first.begin_sequence(NAME, &mut Vec::new())?;
                for nth in (1..=WATCHES_MAX as u64).filter(|_| watched > 0) {
                    first.watch_number(NAME, nth * watched, &mut Vec::new())?;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        match self.own.plan.work {
            Work::Limit(_) => self.own.clients.iter().all(Client::has_stopped),
            Work::Budget(minted) => self.own.figures.made == minted,
            Work::Retired(_) => !self.own.figures.back_ms.is_empty(),
            Work::Sequence(_) => false,
        }
    }

    fn judge(&mut self, done: bool) -> Result<(), String> {
        let every = match self.own.plan.work {
            Work::Sequence(watched) => watched.max(1),
            _ => 1,
        };
        let figures = &mut self.own.figures;
        let drawn = self.own.drawn.iter().enumerate();
        for (at, (time, number)) in drawn.filter(|it| it.1.1.is_multiple_of(every)) {
            let place = number - 1;
            figures.errors.push(place.abs_diff(at as u64));
            // Of those beyond all that were drawn nobody knows yet when it would have been their turn.
            if let Some((turn, _)) = self.own.drawn.get(place as usize) {
                figures.off_ms.push(time.abs_diff(*turn));
            }
        }
        match self.own.plan.work {
            Work::Limit(limit) if done => figures.over.push(figures.made - limit),
            Work::Budget(_) if done => figures.spent_ms.push(figures.played_ms),
            Work::Limit(_) => return Err("not all saw that the limit was reached".into()),
            Work::Retired(_) if !done => return Err("what was stranded did not come back".into()),
            _ => {}
        }
        Ok(())
    }

    /// No view of a budget is out of its bounds, and its rights add up.
    fn check(&self, at: usize) -> Result<(), String> {
        let (Work::Budget(minted) | Work::Retired(minted)) = self.own.plan.work else {
            return Ok(());
        };
        let replica = &self.nodes[at].replica;
        let Some(budget) = replica.budget(NAME) else {
            return Ok(());
        };
        let least = i128::from(minted) - i128::from(self.own.taken);
        let holders = replica.holders_of(NAME);
        let rights: i128 = holders.iter().map(|it| it.rights).sum();
        let less = holders.iter().any(|it| it.rights < 0);
        let out = budget.value < least || budget.value > i128::from(minted);
        match out || less || rights != budget.value {
            true => Err(format!("{at} sees {budget:?} held as {holders:?}")),
            false => Ok(()),
        }
    }
}
