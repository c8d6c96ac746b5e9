//! Budgets in random histories of a closed space.

use super::World;
use crate::ledger::{Ledger, Made, NAMES, Name};
use crate::oracle::{Dot, OnceId, Takeovers, View, once};
use crate::random::Random;
use tallymesh_core::{
    Again, Error, Flow, KeyStatus, Kind, LeaseId, MemberError, QuotaError, Replica, WriterId,
};

/// The budget with a cap.
const CAPPED: Name = NAMES.len() - 1;
/// First number of the idempotency keys of budgets. Other keys have lower numbers.
const ONCE_FIRST: OnceId = 1 << 32;

/// Metrics of a run with budgets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Transactions on budgets.
    pub made: u64,
    /// Transactions that were rejected because the replica had too few rights.
    pub short: u64,
    /// Grants of rights or room to other members.
    pub grants: u64,
    /// Rights set aside on lease.
    pub leases: u64,
    /// Spends from a lease.
    pub leased: u64,
    /// Times that the rest of a lease returned to its member after the lease had ended.
    pub came_back: u64,
    /// Transactions under keys.
    pub keyed: u64,
    /// Keyed transactions that were withdrawn.
    pub withdrawn: u64,
    /// Transactions that replicas replayed when they rejoined.
    pub again: u64,
    /// Transactions that such replicas could not replay.
    pub refused: u64,
    /// Runs that ended with all rights where they can be spent.
    pub ended: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.made += other.made;
        self.short += other.short;
        self.grants += other.grants;
        self.leases += other.leases;
        self.leased += other.leased;
        self.came_back += other.came_back;
        self.keyed += other.keyed;
        self.withdrawn += other.withdrawn;
        self.again += other.again;
        self.refused += other.refused;
        self.ended += other.ended;
    }
}

/// The ledger of all operations on budgets.
pub(super) struct BudgetState {
    ledger: Ledger,
    random: Random,
    /// The operations of each idempotency key.
    keys: Vec<Vec<(Name, Flow)>>,
    pub(super) metrics: Metrics,
}

impl BudgetState {
    pub(super) fn new(random: Random) -> BudgetState {
        BudgetState {
            ledger: Ledger::default(),
            random,
            keys: Vec::new(),
            metrics: Metrics::default(),
        }
    }

    pub(super) fn check(
        &self,
        view: &View,
        replica: &Replica,
        taken: &Takeovers,
    ) -> Result<(), String> {
        self.ledger.check(view.vector(), replica)?;
        self.ledger.check_all(taken)
    }

    /// Removes the withdrawals of budget transactions from the given list, and notes them.
    pub(super) fn withdraw(
        &mut self,
        withdrawn: &mut Vec<(String, Dot)>,
        by: Dot,
    ) -> Result<(), String> {
        let mut dots: Vec<Dot> = Vec::new();
        withdrawn.retain(|(key, dot)| {
            let is_counter = !key.starts_with('\0');
            if !is_counter && !dots.contains(dot) {
                dots.push(*dot);
            }
            is_counter
        });
        for dot in dots {
            self.ledger.withdraw(dot, by)?;
            self.metrics.withdrawn += 1;
        }
        Ok(())
    }

    /// Notes a transaction that was replayed. Returns false if it was not one on budgets.
    pub(super) fn reissue(
        &mut self,
        view: &View,
        (was, writer): (WriterId, WriterId),
        again: &Again,
    ) -> Result<bool, String> {
        let Some(made) = self.ledger.get(&(was, again.was)).cloned() else {
            return Ok(false);
        };
        if view
            .vector()
            .get(&was)
            .is_some_and(|held| *held >= again.was)
        {
            return Err(format!(
                "{was}@{} was taken over, and is made again",
                again.was
            ));
        }
        self.metrics.refused += u64::from(again.refused);
        match again.clock {
            Some(_) if again.refused => Err(format!("refused and made again: {again:?}")),
            Some(clock) => {
                self.metrics.again += 1;
                self.ledger.add((writer, clock), made);
                Ok(true)
            }
            // It was rejected, it only moved rights, or another replica made it under the same key.
            None => match again.refused || made.is_void() || made.once.is_some() {
                true => Ok(true),
                false => Err(format!("{made:?} was not made again: {again:?}")),
            },
        }
    }

    /// Checks the number of keys at the end. A replica that is gone must own nothing.
    pub(super) fn check_end(
        &self,
        replica: &Replica,
        living: &[WriterId],
        counters: usize,
    ) -> Result<usize, String> {
        let mut keys = counters;
        for name in NAMES {
            let holders = replica.quota().holders_of(name);
            if let Some(gone) = holders.iter().find(|it| !living.contains(&it.writer)) {
                return Err(format!("{name}: {gone:?} is gone"));
            }
            let leases = replica.quota().leases_of(name);
            if !leases.is_empty() {
                return Err(format!("{name} is still on lease: {leases:?}"));
            }
            keys += 3 + 2 * holders.len();
        }
        Ok(keys)
    }
}

fn is_move(flow: Flow) -> bool {
    matches!(
        flow,
        Flow::Grant { .. } | Flow::GrantRoom { .. } | Flow::Lease { .. } | Flow::EndLease { .. }
    )
}

impl World {
    /// A replica makes a transaction on budgets.
    pub(super) fn flow(&mut self, at: usize) -> Result<(), String> {
        let members: Vec<WriterId> = self
            .actors
            .iter()
            .filter(|it| it.member.is_some() && it.alive)
            .map(|it| it.replica.writer())
            .collect();
        let Some(books) = &mut self.ledger else {
            return Ok(());
        };
        let random = &mut books.random;
        let mut flows = flows(random, &members, self.now);
        if random.chance(800) {
            of_own_lease(random, &self.actors[at].replica, &mut flows[0]);
        }
        let mut number = None;
        if random.chance(300) && flows.iter().all(|flow| !is_move(flow.1)) {
            // One of the last keys, or a new one.
            let it = books.keys.len().saturating_sub(random.index(4));
            match books.keys.get(it) {
                Some(same) => flows.clone_from(same),
                None => books.keys.push(flows.clone()),
            }
            number = Some(ONCE_FIRST + it);
        }
        let super::Actor { replica, view, .. } = &mut self.actors[at];
        // A mint at a replica without the cap would make a different budget of the same name.
        let has_cap = replica.quota().kind_of(NAMES[CAPPED]) == Some(Kind::CappedBudget);
        let makes = matches!(flows[0], (CAPPED, Flow::RaiseCap(_)));
        if !has_cap && !makes && flows.iter().any(|flow| flow.0 == CAPPED) {
            return Ok(());
        }
        if let Some(number) = number
            && replica.keyed().lookup(&once(number)) != KeyStatus::New
        {
            return Ok(());
        }
        let before = replica.clock();
        let on_lease = |replica: &Replica| -> i128 {
            let own = |name| replica.quota().leases_of(name).into_iter();
            let own = NAMES.into_iter().flat_map(own);
            let own = own.filter(|it| it.writer == replica.writer());
            own.map(|it| it.left).sum()
        };
        let leased = on_lease(replica);
        let done = make(replica, &flows, number);
        let dot = (replica.writer(), replica.clock());
        match &done {
            Ok(()) => {
                if replica.clock() > before {
                    books.metrics.made += 1;
                    books.metrics.keyed += u64::from(number.is_some());
                    let is_grant = |it: &(Name, Flow)| {
                        matches!(it.1, Flow::Grant { .. } | Flow::GrantRoom { .. })
                    };
                    books.metrics.grants += u64::from(flows.iter().any(is_grant));
                    let is_lease = matches!(flows[0].1, Flow::Lease { .. });
                    books.metrics.leases += u64::from(is_lease);
                    let is_spend = matches!(flows[0].1, Flow::SpendLeased { .. });
                    let less = on_lease(replica) < leased;
                    books.metrics.leased += u64::from(is_spend && less);
                    let made = Made {
                        flows: flows.clone(),
                        once: number,
                    };
                    books.ledger.add(dot, made);
                    self.oracle.note(view, dot);
                }
            }
            Err(Error::Quota(QuotaError::RightsShort(_) | QuotaError::RoomShort(_))) => {
                books.metrics.short += 1
            }
            Err(
                Error::Quota(QuotaError::NoBudget | QuotaError::NoLease)
                | Error::Member(MemberError::NotAMember | MemberError::UnknownWriter { .. }),
            ) => {}
            Err(error) => return Err(format!("replica {at}: {flows:?}: {error}")),
        }
        if done.is_err() && replica.clock() > before {
            return Err(format!("replica {at} made what it refused: {flows:?}"));
        }
        self.note(|| format!("{at} makes {flows:?} once {number:?}: {done:?}"));
        self.check(at)
    }

    /// A member takes back the rest of its leases that have ended.
    pub(super) fn end_leases(&mut self, at: usize) -> Result<(), String> {
        let replica = &mut self.actors[at].replica;
        let mut changed = Vec::new();
        replica.set_time(self.now);
        let done = replica.quota_mut().end_leases(&mut changed);
        done.map_err(|error| error.to_string())?;
        if let Some(books) = &mut self.ledger {
            books.metrics.came_back += u64::from(!changed.is_empty());
        }
        self.note(|| format!("{at} ends leases: {}", changed.len()));
        self.settle(at)
    }

    /// Checks that some replica can spend each right.
    pub(super) fn check_rights(&mut self) -> Result<(), String> {
        if self.ledger.is_none() {
            return Ok(());
        }
        for (number, name) in NAMES.iter().enumerate() {
            let (mut rights, mut room, mut all) = (0, 0, None);
            for actor in self
                .actors
                .iter()
                .filter(|it| it.alive && it.replica.members().is_member())
            {
                let Some(budget) = actor.replica.quota().budget(name) else {
                    continue;
                };
                let held = budget.room.unwrap_or_default();
                if budget.rights.pending != 0 || held.pending != 0 {
                    return Err(format!("{name} waits for something: {budget:?}"));
                }
                rights += budget.rights.here;
                room += held.here;
                let free = budget.cap.map_or(0, |cap| cap - budget.value);
                all = Some((budget.value - budget.floor, free));
            }
            if all.is_some_and(|all| all != (rights, room)) {
                let text = self.describe();
                return Err(format!(
                    "{name} ({number}): {rights} and room for {room} can be used of {all:?}: {text}"
                ));
            }
        }
        if let Some(books) = &mut self.ledger {
            books.metrics.ended += 1;
        }
        Ok(())
    }
}

fn make(
    replica: &mut Replica,
    flows: &[(Name, Flow)],
    number: Option<OnceId>,
) -> Result<(), Error> {
    let mut transaction = replica.begin()?;
    for (name, flow) in flows {
        transaction.quota_mut().flow(NAMES[*name], *flow)?;
    }
    match number {
        Some(number) => transaction.commit_once(once(number), &mut Vec::new()),
        None => {
            transaction.commit(&mut Vec::new());
            Ok(())
        }
    }
}

/// Changes an operation on a lease to one of this replica's own leases, if it has any.
fn of_own_lease(random: &mut Random, replica: &Replica, (name, flow): &mut (Name, Flow)) {
    let (Flow::SpendLeased { id, .. } | Flow::EndLease { id }) = flow else {
        return;
    };
    let own = |name: Name| {
        let leases = replica.quota().leases_of(NAMES[name]).into_iter();
        leases
            .filter(|it| it.writer == replica.writer())
            .map(move |it| (name, it.id))
    };
    let own: Vec<(Name, LeaseId)> = (0..NAMES.len()).flat_map(own).collect();
    if !own.is_empty() {
        (*name, *id) = own[random.index(own.len())];
    }
}

fn flows(random: &mut Random, members: &[WriterId], now: u64) -> Vec<(Name, Flow)> {
    let amount = random.below(12);
    let id = LeaseId::from_bytes([random.below(6) as u8; 16]);
    let (last, name) = (CAPPED, random.index(NAMES.len()));
    let to = match members.len() {
        0 => WriterId::from_bytes([0; 16]),
        count => members[random.index(count)],
    };
    match random.below(26) {
        0..4 => vec![(name, Flow::Mint(amount + 8))],
        4..10 => vec![(name, Flow::Spend(amount))],
        10..14 => vec![(name, Flow::Grant { to, amount })],
        14 => vec![(last, Flow::GrantRoom { to, amount })],
        // Moves between accounts.
        15..17 => {
            let other = random.index(NAMES.len());
            vec![(name, Flow::Spend(amount)), (other, Flow::Mint(amount))]
        }
        17 => vec![(last, Flow::RaiseCap(amount + 20))],
        18 => vec![(name.min(last - 1), Flow::LowerFloor(amount))],
        19 | 20 => {
            let until = now + random.below(80);
            vec![(name, Flow::Lease { id, until, amount })]
        }
        21..24 => vec![(name, Flow::SpendLeased { id, amount })],
        24 => vec![(name, Flow::EndLease { id })],
        _ => match random.chance(500) {
            true => vec![(name, Flow::RaiseFloor(amount))],
            false => vec![(last, Flow::LowerCap(amount))],
        },
    }
}
