//! Holders: they spend on a lease without requests. They have clocks of their own, and some of them vanish.

use super::{Dot, Event, MEMBERS, NAME, THINK_MS, World};
use tallymesh_core::bounds::SKEW_MS_MAX;
use tallymesh_core::{Error, Flow, KeyStatus, Lease, LeaseId, MemberError, Once, QuotaError};

/// Units of one lease.
const AMOUNT: (u64, u64) = (3, 20);
/// Length of a lease, in milliseconds.
const LEASE_MS: (u64, u64) = (1_000, 6_000);
/// Largest drift of a holder's clock, in thousandths of the time. It is as much as the bound allows.
const DRIFT: u64 = 10;
/// Time from the end of a holder's spending until it reports, in milliseconds. The rest of the bound is for
/// the clocks of members.
const TELLS_MS: (u64, u64) = (0, 900);
/// Shortest time until a holder repeats a request or a report that was rejected, in milliseconds.
const AGAIN_MS: u64 = 300;
/// Holders of 1000 that vanish with the units that they have spent.
const VANISH: u64 = 150;
/// Holders of 1000 that report to another member.
const ELSEWHERE: u64 = 150;

/// A client that spends on leases.
pub(super) struct Holder {
    at: usize,
    /// How much slower its clock is, in thousandths, plus [`DRIFT`]. A value under `DRIFT` is a faster clock.
    slower: u64,
    leases: u64,
    /// The member to which it has an open request or report.
    awaits: Option<usize>,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Spends(HolderLease),
    /// Reports, to the member of this place.
    Tells(HolderLease, usize),
}

#[derive(Clone, Copy)]
struct HolderLease {
    id: LeaseId,
    /// When it requested the lease, in virtual time.
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

    /// The time that has passed since then by its clock, in milliseconds.
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

    /// Holders that wait for a process that has ended repeat their request or report.
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
            transaction.quota_mut().lease(NAME, id, ms, amount)?;
            transaction.commit(&mut Vec::new());
            Ok(())
        });
        match given {
            Ok(()) => {
                self.own.holders[number].awaits = Some(at);
                self.when_written(at, Event::Leased(number, id, ms, amount));
                self.changed(at)
            }
            Err(
                Error::Quota(QuotaError::RightsShort(_))
                | Error::Member(MemberError::NotAMember)
                | Error::Quota(QuotaError::NoBudget),
            ) => {
                self.next(number, State::Idle, (AGAIN_MS, 2 * AGAIN_MS));
                Ok(())
            }
            Err(error) => Err(format!("{at} leases: {error}")),
        }
    }

    /// It receives a lease.
    pub(super) fn leased(&mut self, number: usize, id: LeaseId, ms: u64, amount: u64) {
        self.own.metrics.leases += 1;
        let held = HolderLease {
            id,
            since: self.now,
            ms,
            left: amount,
            spent: 0,
        };
        self.next(number, State::Spends(held), THINK_MS);
    }

    /// It spends a unit if its clock allows that. Else it stops.
    fn spend_alone(&mut self, number: usize, held: HolderLease) {
        let mut held = held;
        let is_over = self.own.holders[number].passed(held.since, self.now) >= held.ms;
        if !is_over && held.left > 0 {
            held.left -= 1;
            held.spent += 1;
            return self.next(number, State::Spends(held), THINK_MS);
        }
        if held.spent == 0 || self.random.chance(VANISH) {
            self.own.metrics.vanished += held.spent;
            return self.next(number, State::Idle, LEASE_MS);
        }
        let home = self.own.holders[number].at;
        let to = match self.random.chance(ELSEWHERE) {
            true => self.random.index(MEMBERS),
            false => home,
        };
        self.next(number, State::Tells(held, to), TELLS_MS);
    }

    /// It reports the units that it has spent. A member that still has the lease never rejects this.
    fn tell_spent(&mut self, number: usize, held: HolderLease, to: usize) -> Result<(), String> {
        let HolderLease { id, spent, .. } = held;
        self.set_time(to);
        let node = &mut self.nodes[to];
        let own = node.replica.writer();
        let left = |leases: Vec<Lease>| -> i128 {
            let own = leases.iter().filter(|it| (it.id, it.writer) == (id, own));
            own.map(|it| it.left).sum()
        };
        let before = left(node.replica.quota().leases_of(NAME));
        let once = Once::new(id.to_string().as_bytes(), b"told");
        if node.replica.keyed().lookup(&once) != KeyStatus::New {
            self.next(number, State::Idle, LEASE_MS);
            return Ok(());
        }
        let amount = spent;
        let told = node.replica.begin().and_then(|mut transaction| {
            transaction
                .quota_mut()
                .flow(NAME, Flow::SpendLeased { id, amount })?;
            transaction.commit_once(once, &mut Vec::new())
        });
        // The process that gave the lease still runs, so the reserved units must be there.
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
            Err(
                Error::Quota(QuotaError::RightsShort(_))
                | Error::Member(MemberError::NotAMember)
                | Error::Quota(QuotaError::NoBudget),
            ) => {
                self.own.metrics.late += 1;
                self.tell_later(number, held);
                Ok(())
            }
            Err(error) => Err(format!("{to} is told: {error}")),
        }
    }

    fn tell_member(&mut self, number: usize, held: HolderLease, to: usize) -> Result<(), String> {
        match self.nodes[to].alive {
            true => self.tell_spent(number, held, to),
            false => {
                self.tell_later(number, held);
                Ok(())
            }
        }
    }

    /// Repeats the report at the member that gave the lease, because its next start has retired the old
    /// writer. After a long time the holder gives up.
    fn tell_later(&mut self, number: usize, held: HolderLease) {
        let home = self.own.holders[number].at;
        let gone = self.now > held.since + 4 * LEASE_MS.1;
        let state = match gone {
            true => State::Idle,
            false => State::Tells(held, home),
        };
        self.next(number, state, (AGAIN_MS, 2 * AGAIN_MS));
    }

    /// It receives the acknowledgement of its report.
    pub(super) fn noted(&mut self, number: usize, dot: Dot) -> Result<(), String> {
        let spent = match self.own.holders[number].state {
            State::Tells(held, _) => held.spent,
            State::Idle | State::Spends(_) => 0,
        };
        self.own.metrics.told += spent;
        self.next(number, State::Idle, LEASE_MS);
        self.note_spent(dot, spent)
    }
}
