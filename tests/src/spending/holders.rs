//! Who spends on a lease, without asking: holders with clocks of their own, some of which vanish.

use super::{Dot, Event, MEMBERS, NAME, THINK_MS, World};
use tallymesh_core::limits::SKEW_MS_MAX;
use tallymesh_core::{Asked, Error, Flow, Lease, LeaseId, Once};

/// How much is leased at once.
const AMOUNT: (u64, u64) = (3, 20);
/// For how long, in milliseconds.
const LEASE_MS: (u64, u64) = (1_000, 6_000);
/// How much a holder's clock is off, in thousandths of the time: as much as the bound allows.
const DRIFT: u64 = 10;
/// How soon it tells what it spent, once it has stopped, in milliseconds: the rest of the bound is for the
/// clocks of members.
const TELLS_MS: (u64, u64) = (0, 900);
/// How soon it asks or tells again that was refused.
const AGAIN_MS: u64 = 300;
/// How many in a thousand holders vanish with what they have spent.
const VANISH: u64 = 150;
/// How many in a thousand tell another member.
const ELSEWHERE: u64 = 150;

/// Somebody who spends on a lease.
pub(super) struct Holder {
    at: usize,
    /// How much slower its clock is, in thousandths; or quicker, if it is under [`DRIFT`].
    slower: u64,
    leases: u64,
    /// Whom it has asked or told, and who has not answered yet.
    awaits: Option<usize>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Spends(Held),
    /// And whom it tells.
    Tells(Held, usize),
}

#[derive(Clone, Copy)]
struct Held {
    id: LeaseId,
    /// When it asked, by everybody's time.
    since: u64,
    ms: u64,
    left: u64,
    spent: u64,
}

impl Holder {
    fn new(at: usize, slower: u64) -> Holder {
        Holder {
            at,
            slower,
            leases: 0,
            awaits: None,
            state: State::Idle,
        }
    }

    /// What its clock says has passed since then.
    fn passed(&self, since: u64, now: u64) -> u64 {
        (now - since) * 1_000 / (1_000 + self.slower - DRIFT)
    }
}

impl World {
    pub(super) fn add_holders(&mut self) {
        for number in 0..self.own.plan.holders {
            let slower = self.random.below(2 * DRIFT + 1);
            let holder = Holder::new(number % MEMBERS, slower);
            self.own.holders.push(holder);
            self.after((0, LEASE_MS.1), Event::Hold(number));
        }
    }

    pub(super) fn hold(&mut self, number: usize) -> Result<(), String> {
        let holder = &self.own.holders[number];
        match holder.state {
            State::Idle => self.lease(number),
            State::Spends(held) => {
                self.spend_alone(number, held);
                Ok(())
            }
            State::Tells(held, to) => self.tell_member(number, held, to),
        }
    }

    fn next(&mut self, number: usize, state: State, range: (u64, u64)) {
        let holder = &mut self.own.holders[number];
        (holder.state, holder.awaits) = (state, None);
        self.after(range, Event::Hold(number));
    }

    /// Whoever waits for a process that has ended asks or tells again.
    pub(super) fn holders_of_ended(&mut self, at: usize) {
        for number in 0..self.own.holders.len() {
            let holder = &self.own.holders[number];
            if holder.awaits == Some(at) {
                self.next(number, holder.state, (AGAIN_MS, 2 * AGAIN_MS));
            }
        }
    }

    fn lease(&mut self, number: usize) -> Result<(), String> {
        let (amount, ms) = (
            self.random.range(AMOUNT.0, AMOUNT.1),
            self.random.range(LEASE_MS.0, LEASE_MS.1),
        );
        let holder = &mut self.own.holders[number];
        holder.leases += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        id[8..].copy_from_slice(&holder.leases.to_be_bytes());
        let (at, id) = (holder.at, LeaseId::from_bytes(id));
        if !self.nodes[at].alive {
            self.next(number, State::Idle, (AGAIN_MS, 2 * AGAIN_MS));
            return Ok(());
        }
        self.set_time(at);
        let replica = &mut self.nodes[at].replica;
        let given = replica.begin().and_then(|mut transaction| {
            transaction.lease(NAME, id, ms, amount)?;
            transaction.commit(&mut Vec::new());
            Ok(())
        });
        match given {
            Ok(()) => {
                self.own.holders[number].awaits = Some(at);
                self.when_written(at, Event::Leased(number, id, ms, amount));
                self.changed(at)
            }
            Err(Error::RightsShort(_) | Error::NotAMember | Error::NoBudget) => {
                self.next(number, State::Idle, (AGAIN_MS, 2 * AGAIN_MS));
                Ok(())
            }
            Err(error) => Err(format!("{at} leases: {error}")),
        }
    }

    /// It has a lease.
    pub(super) fn leased(&mut self, number: usize, id: LeaseId, ms: u64, amount: u64) {
        self.own.figures.leases += 1;
        let held = Held {
            id,
            since: self.now,
            ms,
            left: amount,
            spent: 0,
        };
        self.next(number, State::Spends(held), THINK_MS);
    }

    /// It spends, if its clock says that it may, or stops.
    fn spend_alone(&mut self, number: usize, held: Held) {
        let mut held = held;
        let is_over = self.own.holders[number].passed(held.since, self.now) >= held.ms;
        if !is_over && held.left > 0 {
            held.left -= 1;
            held.spent += 1;
            return self.next(number, State::Spends(held), THINK_MS);
        }
        if held.spent == 0 || self.random.chance(VANISH) {
            self.own.figures.vanished += held.spent;
            return self.next(number, State::Idle, LEASE_MS);
        }
        let home = self.own.holders[number].at;
        let to = match self.random.chance(ELSEWHERE) {
            true => self.random.index(MEMBERS),
            false => home,
        };
        self.next(number, State::Tells(held, to), TELLS_MS);
    }

    /// It tells what it has spent. Where the lease is held still, that is never refused.
    fn tell_spent(&mut self, number: usize, held: Held, to: usize) -> Result<(), String> {
        let Held { id, spent, .. } = held;
        self.set_time(to);
        let node = &mut self.nodes[to];
        let own = node.replica.writer();
        let left = |leases: Vec<Lease>| -> i128 {
            let own = leases.iter().filter(|it| (it.id, it.writer) == (id, own));
            own.map(|it| it.left).sum()
        };
        let before = left(node.replica.leases_of(NAME));
        let once = Once::new(id.to_string().as_bytes(), b"told");
        if node.replica.asked(&once) != Asked::New {
            self.next(number, State::Idle, LEASE_MS);
            return Ok(());
        }
        let amount = spent;
        let told = node.replica.begin().and_then(|mut transaction| {
            transaction.flow(NAME, Flow::SpendLeased { id, amount })?;
            transaction.commit_once(once, &mut Vec::new())
        });
        // It was given by a process that runs on: what was set aside is there.
        let in_time = held.since + held.ms * (1_000 + DRIFT) / 1_000 + 2 * SKEW_MS_MAX;
        let is_home =
            to == self.own.holders[number].at && node.started < held.since && self.now < in_time;
        if is_home && (told.is_err() || before < i128::from(spent)) {
            return Err(format!(
                "{spent} were spent in time, and of the lease {before} are left: {told:?}"
            ));
        }
        match told {
            Ok(()) => {
                let dot = (own, to, node.replica.clock());
                self.own.holders[number].awaits = Some(to);
                self.own.taken += spent;
                self.when_written(to, Event::Noted(number, dot));
                self.changed(to)
            }
            Err(Error::RightsShort(_) | Error::NotAMember | Error::NoBudget) => {
                self.own.figures.late += 1;
                self.tell_later(number, held);
                Ok(())
            }
            Err(error) => Err(format!("{to} is told: {error}")),
        }
    }

    fn tell_member(&mut self, number: usize, held: Held, to: usize) -> Result<(), String> {
        match self.nodes[to].alive {
            true => self.tell_spent(number, held, to),
            false => {
                self.tell_later(number, held);
                Ok(())
            }
        }
    }

    /// At the member that gave it, whose next start takes it over, or nowhere any more.
    fn tell_later(&mut self, number: usize, held: Held) {
        let home = self.own.holders[number].at;
        let gone = self.now > held.since + 4 * LEASE_MS.1;
        let state = match gone {
            true => State::Idle,
            false => State::Tells(held, home),
        };
        self.next(number, state, (AGAIN_MS, 2 * AGAIN_MS));
    }

    /// What it has spent is taken down.
    pub(super) fn noted(&mut self, number: usize, dot: Dot) -> Result<(), String> {
        let spent = match self.own.holders[number].state {
            State::Tells(held, _) => held.spent,
            State::Idle | State::Spends(_) => 0,
        };
        self.own.figures.told += spent;
        self.next(number, State::Idle, LEASE_MS);
        self.note_spent(dot, spent)
    }
}
