//! Budgets: amounts that many writers spend from at once, and that never go below their floor.
//!
//! Each unspent unit is a right that one writer holds. The rights of a writer are a plain counter of their
//! own. Any writer may add to this counter, and exactly one writer takes from it. This is the writer that
//! holds the rights or, once it has retired, its successor. The successor has seen everything that the
//! retired writer took (`quota/inherit.rs`).
//!
//! So the taking writer has seen all that was taken before, and enough of what was added. The other writers
//! only add. Therefore no causal cut shows a value below zero in this counter.
//!
//! All parts of an operation are made in one transaction. In each view, the rights add up to the value minus
//! the floor. The room is the right to mint under a cap: it adds up to the cap minus the value.
//!
//! Rights that writers hold and move come from the bounded counter: Balegas et al., "Extending Eventually
//! Consistent Cloud Databases for Enforcing Numeric Invariants", 2015.

use super::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
use crate::error::{Error, MemberError, QuotaError, Short};
use crate::indexed_state::State;
use crate::ledger::Holding;
use crate::ledger::account::{
    Account, Kind, LeaseId, LeaseKey, Part, budget_name, check_leased_name, check_name, is_reserved,
};
use crate::replica::Savepoint;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// An operation on a budget. Amounts are at most 2^63 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Pays in, or gives back. This replica gets as many rights. Makes a budget without a cap if the name has
    /// none. Under a cap, it takes room that this replica holds.
    Mint(u64),
    /// Spends rights that this replica holds.
    Spend(u64),
    /// Moves rights from this replica to another member.
    Grant {
        /// The member's present writer.
        to: WriterId,
        /// How many.
        amount: u64,
    },
    /// Moves room from this replica to another member.
    GrantRoom {
        /// The member's present writer.
        to: WriterId,
        /// How much.
        amount: u64,
    },
    /// Lowers the floor. This replica gets as many rights. Makes a budget without a cap if the name has none.
    LowerFloor(u64),
    /// Raises the floor, and takes the rights for it from those that this replica holds.
    RaiseFloor(u64),
    /// Raises the cap. This replica gets as much room. Makes a budget with a cap if the name has none.
    RaiseCap(u64),
    /// Lowers the cap, and takes the room for it from the room that this replica holds.
    LowerCap(u64),
    /// Sets rights of this replica aside for a client that spends them without asking until the lease ends.
    Lease {
        /// Its id. A second lease with the same id and the same end is added to the first.
        id: LeaseId,
        /// When the rest of the lease [comes back](crate::lease_until), in milliseconds since 1970.
        until: u64,
        /// How many.
        amount: u64,
    },
    /// Spends the rest of a lease here first, and then rights that this replica holds. If the lease is over
    /// or another member gave it, all of the amount is spent from the rights.
    SpendLeased {
        /// Its id.
        id: LeaseId,
        /// How many.
        amount: u64,
    },
    /// Takes back the rest of a lease here.
    EndLease {
        /// Its id.
        id: LeaseId,
    },
}

impl Flow {
    fn amount(self) -> u64 {
        match self {
            Flow::Mint(amount)
            | Flow::Spend(amount)
            | Flow::Grant { amount, .. }
            | Flow::GrantRoom { amount, .. }
            | Flow::LowerFloor(amount)
            | Flow::RaiseFloor(amount)
            | Flow::RaiseCap(amount)
            | Flow::LowerCap(amount)
            | Flow::Lease { amount, .. }
            | Flow::SpendLeased { amount, .. } => amount,
            Flow::EndLease { .. } => 0,
        }
    }

    /// Whether it applies only to a budget with a cap.
    fn needs_cap(self) -> bool {
        matches!(
            self,
            Flow::RaiseCap(_) | Flow::LowerCap(_) | Flow::GrantRoom { .. }
        )
    }

    /// The kind of budget that it makes.
    fn makes(self) -> Option<Kind> {
        match self {
            Flow::Mint(_) | Flow::LowerFloor(_) => Some(Kind::Budget),
            Flow::RaiseCap(_) => Some(Kind::CappedBudget),
            _ => None,
        }
    }

    /// The writer to which it moves something.
    fn to(self) -> Option<WriterId> {
        match self {
            Flow::Grant { to, .. } | Flow::GrantRoom { to, .. } => Some(to),
            _ => None,
        }
    }

    /// The amounts that it adds to the parts of a budget, if `own` makes it.
    pub(super) fn steps(self, own: WriterId, capped: bool, by: i64) -> Vec<(Part, i64)> {
        let (rights, room) = (Part::Rights(own), Part::Room(own));
        let mut steps = Vec::from(match self {
            Flow::Mint(_) => [(Part::Value, by), (rights, by)],
            Flow::Spend(_) | Flow::SpendLeased { .. } => [(Part::Value, -by), (rights, -by)],
            Flow::Grant { to, .. } => [(rights, -by), (Part::Rights(to), by)],
            Flow::GrantRoom { to, .. } => [(room, -by), (Part::Room(to), by)],
            Flow::LowerFloor(_) => [(Part::Floor, -by), (rights, by)],
            Flow::RaiseFloor(_) => [(Part::Floor, by), (rights, -by)],
            Flow::RaiseCap(_) => [(Part::Cap, by), (room, by)],
            Flow::LowerCap(_) => [(Part::Cap, -by), (room, -by)],
            Flow::Lease { id, until, .. } => {
                let lease = LeaseKey { until, id };
                [(rights, -by), (Part::Leased(own, lease), by)]
            }
            Flow::EndLease { .. } => [(rights, by), (rights, -by)],
        });
        match self {
            Flow::Mint(_) if capped => steps.push((room, -by)),
            Flow::Spend(_) | Flow::SpendLeased { .. } if capped => steps.push((room, by)),
            _ => {}
        }
        steps.retain(|step| step.1 != 0);
        steps
    }
}

/// The amounts of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The sum of all mints minus the sum of all spends.
    pub value: i128,
    /// The value never goes below this.
    pub floor: i128,
    /// The value never goes above this. `None` if the budget has no cap.
    pub cap: Option<i128>,
    /// The rights that can be spent, without those on lease.
    pub rights: Holding,
    /// The rights on lease, of all members.
    pub leased: i128,
    /// The room that can be minted into, if there is a cap.
    pub room: Option<Holding>,
}

/// The amounts of a budget that one writer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The writer. If it has retired, its successor may use these amounts.
    pub writer: WriterId,
    /// The rights that can be spent, without those on lease.
    pub rights: i128,
    /// The rights on lease.
    pub leased: i128,
    /// The room that can be minted into, if there is a cap.
    pub room: i128,
}

/// Rejects a key that only operations of its kind may change.
fn check_typed(key: &str) -> Result<(), Error> {
    match is_reserved(key) {
        true => Err(QuotaError::ReservedKey.into()),
        false => Ok(()),
    }
}

impl<'a> QuotaRef<'a> {
    /// The amounts of a budget at this replica, or `None` if the name has no budget.
    pub fn budget(self, name: &str) -> Option<Budget> {
        let account = self.account(name)?;
        Some(self.budget_of(&account, &|key| self.state.value(key)))
    }

    /// The amounts of a budget, computed from the values of its parts.
    fn budget_of(self, account: &Account<'_>, value: &dyn Fn(&str) -> Option<i128>) -> Budget {
        let value = |part| value(&account.key_of(part)).unwrap_or(0);
        let (of_value, floor) = (value(Part::Value), value(Part::Floor));
        let own = self.state.writer();
        let holding = |part, all: i128| {
            let held = value(part);
            let pending = self.pending_of(&account.key_of(part));
            Holding {
                here: held - pending,
                pending,
                elsewhere: all - held,
            }
        };
        let cap = account.capped.then(|| value(Part::Cap));
        let leases = self
            .state
            .index()
            .leases_of(self.state.keys(), account.name);
        let leases = leases.filter(|it| it.1.capped == account.capped);
        Budget {
            value: of_value,
            floor,
            cap,
            rights: holding(Part::Rights(own), of_value - floor),
            leased: leases.map(|it| value(it.1.part)).sum(),
            room: cap.map(|cap| holding(Part::Room(own), cap - of_value)),
        }
    }

    /// The kind of the thing with this name here. If there are several kinds, the budget with a cap comes
    /// first, then the budget without a cap, then the counter.
    pub fn kind_of(self, name: &str) -> Option<Kind> {
        kind_of(self.state, name)
    }

    /// The name of the budget to which a counter belongs, by the counter's [`KeyId`]. It maps a change
    /// notification to its budget.
    pub fn budget_at(self, key_id: KeyId) -> Option<&'a str> {
        budget_name(self.state.keys().get(key_id)?)
    }

    /// Calls `take` with the name of each budget, in no stated order. If both kinds of budget exist under one
    /// name, `take` gets this name twice.
    pub fn each_budget(self, take: &mut dyn FnMut(&str)) {
        for (key_id, key) in self.state.index().reserved(self.state.keys()) {
            let value = Account::parse(key).filter(|it| it.part == Part::Value);
            if let Some(account) = value.filter(|_| self.state.value_at(key_id).is_some()) {
                take(account.name);
            }
        }
    }

    /// The holders of a budget with their amounts, ascending by writer. The cost grows with the number of
    /// writers that hold anything of any budget.
    pub fn holders_of(self, name: &str) -> Vec<Holder> {
        let Some(account) = self.account(name) else {
            return Vec::new();
        };
        let mut leased: BTreeMap<WriterId, i128> = BTreeMap::new();
        for lease in self.leases_of(name) {
            *leased.entry(lease.writer).or_default() += lease.left;
        }
        let holder = |writer| {
            let held = |part| self.state.value(&account.key_of(part));
            let rights = held(Part::Rights(writer));
            let room = held(Part::Room(writer)).filter(|_| account.capped);
            let leased = leased.get(&writer).copied();
            rights.or(room).or(leased)?;
            Some(Holder {
                writer,
                rights: rights.unwrap_or(0),
                leased: leased.unwrap_or(0),
                room: room.unwrap_or(0),
            })
        };
        self.state.index().holders().filter_map(holder).collect()
    }

    /// Each existing counter that is a part of a budget, in no stated order. A comparison of replicas uses
    /// it.
    pub fn budget_parts(self) -> impl Iterator<Item = (KeyId, &'a str)> {
        let reserved = self.state.index().reserved(self.state.keys());
        reserved.filter(move |(key_id, _)| self.state.value_at(*key_id).is_some())
    }

    pub(super) fn account<'n>(self, name: &'n str) -> Option<Account<'n>> {
        account(self.state, name)
    }
}

/// The keys of the budget with this name. The budget with a cap comes first.
fn account<'n>(state: &State, name: &'n str) -> Option<Account<'n>> {
    if state.index().are_plain() || check_name(name).is_err() {
        return None;
    }
    let account = |capped| Account {
        capped,
        part: Part::Value,
        name,
    };
    let mut both = [true, false].into_iter().map(account);
    both.find(|it| state.value(&it.key()).is_some())
}

fn kind_of(state: &State, name: &str) -> Option<Kind> {
    match account(state, name) {
        Some(Account { capped: true, .. }) => Some(Kind::CappedBudget),
        Some(_) => Some(Kind::Budget),
        None if is_reserved(name) => None,
        None => state.value(name).map(|_| Kind::Counter),
    }
}

/// Rejects a plain operation on a key that is not a plain counter.
pub(super) fn check_plain(state: &State, key: &str) -> Result<(), Error> {
    check_typed(key)?;
    if state.index().are_plain() || state.value(key).is_some() {
        return Ok(());
    }
    match kind_of(state, key) {
        None | Some(Kind::Counter) => Ok(()),
        Some(kind) => Err(QuotaError::WrongKind { kind }.into()),
    }
}

/// Like [`check_plain`], for a key given by its [`KeyId`].
pub(super) fn check_plain_at(state: &State, key_id: KeyId) -> Result<(), Error> {
    if state.index().are_plain() {
        return Ok(());
    }
    match state.keys().get(key_id) {
        Some(key) if state.plain_own_row(key_id).is_some() => check_typed(key),
        Some(key) => check_plain(state, key),
        None => Ok(()),
    }
}

impl QuotaMut<'_> {
    /// Makes one operation on a budget, as a transaction of its own.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, and as [`QuotaTransaction::flow`]. Nothing is
    /// changed then.
    pub fn flow(&mut self, name: &str, flow: Flow) -> Result<(), Error> {
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().flow(name, flow)?;
        transaction.commit(&mut Vec::new());
        Ok(())
    }
}

impl QuotaPreview<'_, '_> {
    /// The amounts of a budget after the operations so far, like [`QuotaRef::budget`].
    pub fn budget(self, name: &str) -> Option<Budget> {
        check_name(name).ok()?;
        let account = self.account(name)?;
        let value = |key: &str| self.transaction.value(key);
        Some(
            self.transaction
                .replica()
                .quota()
                .budget_of(&account, &value),
        )
    }

    /// The keys of the budget with this name. The budget with a cap comes first.
    fn account<'n>(self, name: &'n str) -> Option<Account<'n>> {
        let account = |capped| Account {
            capped,
            part: Part::Value,
            name,
        };
        let mut both = [true, false].into_iter().map(account);
        both.find(|it| self.transaction.value(&it.key()).is_some())
    }
}

impl QuotaTransaction<'_, '_> {
    /// Makes an operation on a budget, after the earlier operations of the transaction.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is no member, [`QuotaError::WrongKind`],
    /// [`QuotaError::NoBudget`], [`QuotaError::AmountRange`],
    /// [`WriteError::Overflow`](crate::WriteError::Overflow) and
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge).
    /// [`QuotaError::RightsShort`] and [`QuotaError::RoomShort`] if this replica holds too little.
    /// [`MemberError::UnknownWriter`] if the operation moves something to a writer that is no other member's
    /// present writer. For a name, the errors of [`Replica::add`](crate::Replica::add) for a key, and
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge) over
    /// [`BUDGET_NAME_BYTES_MAX`](crate::bounds::BUDGET_NAME_BYTES_MAX).
    ///
    /// After an error, the transaction is as it was before and may go on.
    pub fn flow(&mut self, name: &str, flow: Flow) -> Result<(), Error> {
        self.all_or_nothing(|it, saved| it.make_flow(name, flow, saved))
    }

    /// Spends an amount of one budget, and pays each of the other budgets its share of it.
    ///
    /// # Errors
    /// The errors of [`flow`](QuotaTransaction::flow), and [`QuotaError::AmountRange`] if the sum of the
    /// shares is over its limit. After an error, the transaction is as it was before and may go on.
    pub fn transfer(&mut self, from: &str, to: &[(&str, u64)]) -> Result<(), Error> {
        let shares = to.iter().map(|share| share.1);
        let amount = shares.fold(0, u64::saturating_add);
        self.all_or_nothing(|it, saved| {
            it.make_flow(from, Flow::Spend(amount), saved)?;
            to.iter()
                .try_for_each(|(name, share)| it.make_flow(name, Flow::Mint(*share), saved))
        })
    }

    /// Calls `make`, which saves each draft that it is about to change. If `make` fails, restores these
    /// drafts.
    fn all_or_nothing(
        &mut self,
        make: impl FnOnce(&mut Self, &mut Savepoint) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let uses = self.transaction.noted().uses.len();
        let mut saved = self.transaction.savepoint();
        let done = make(self, &mut saved);
        if done.is_err() {
            self.transaction.roll_back(saved);
            self.transaction.noted_mut().uses.truncate(uses);
        }
        done
    }

    fn make_flow(&mut self, name: &str, flow: Flow, saved: &mut Savepoint) -> Result<(), Error> {
        check_name(name)?;
        self.transaction.count_op()?;
        if !self.transaction.replica().members().may_take() {
            return Err(MemberError::NotAMember.into());
        }
        let amount = flow.amount();
        let by = i64::try_from(amount).map_err(|_| QuotaError::AmountRange { amount })?;
        if let Some(writer) = flow.to()
            && (writer == self.transaction.replica().writer()
                || !self.transaction.replica().has_counted_member(&writer))
        {
            return Err(MemberError::UnknownWriter { writer }.into());
        }
        let leases = matches!(flow, Flow::Lease { .. });
        if leases {
            check_leased_name(name)?;
        }
        let account = self.account_for(name, flow)?;
        let mut steps = self.steps(&account, flow, by)?;
        for (part, by) in steps.iter().filter(|step| step.1 < 0) {
            self.check_held(&account, *part, by.unsigned_abs())?;
        }
        // The operation makes the budget even if another one made it and is withdrawn later.
        if flow.makes().is_some() && steps.iter().all(|step| step.0 != Part::Value) {
            steps.push((Part::Value, 0));
        }
        let uses = matches!(
            flow,
            Flow::Mint(_) | Flow::Spend(_) | Flow::SpendLeased { .. } | Flow::Lease { .. }
        );
        for (part, by) in steps {
            let key_id = self.add_to(&account.key_of(part), by, saved)?;
            if uses && by < 0 && matches!(part, Part::Rights(_) | Part::Room(_)) {
                let uses = &mut self.transaction.noted_mut().uses;
                uses.push((key_id, by.unsigned_abs()));
            }
        }
        self.transaction.noted_mut().leases |= leases;
        Ok(())
    }

    /// The budget to which an operation applies, or which it makes.
    fn account_for<'a>(&self, name: &'a str, flow: Flow) -> Result<Account<'a>, Error> {
        if let Some(account) = self.preview().account(name) {
            return match flow.needs_cap() && !account.capped {
                true => Err(QuotaError::WrongKind { kind: Kind::Budget }.into()),
                false => Ok(account),
            };
        }
        if self.transaction.value(name).is_some() {
            let kind = Kind::Counter;
            return Err(QuotaError::WrongKind { kind }.into());
        }
        let kind = flow.makes().ok_or(QuotaError::NoBudget)?;
        Ok(Account {
            capped: kind == Kind::CappedBudget,
            part: Part::Value,
            name,
        })
    }

    /// Rejects an amount that is larger than the amount of the part that this replica holds.
    fn check_held(&self, account: &Account<'_>, part: Part, asked: u64) -> Result<(), Error> {
        let value = |part| self.transaction.value(&account.key_of(part)).unwrap_or(0);
        let all = match part {
            Part::Rights(_) => value(Part::Value) - value(Part::Floor),
            Part::Room(_) => value(Part::Cap) - value(Part::Value),
            Part::Value | Part::Floor | Part::Cap | Part::Leased(..) => return Ok(()),
        };
        let own = value(part);
        if own >= i128::from(asked) && self.transaction.replica().quota.pending.is_empty() {
            return Ok(());
        }
        let pending = self.read().pending_of(&account.key_of(part));
        let here = own - pending;
        if here >= i128::from(asked) {
            return Ok(());
        }
        let elsewhere = all - own;
        let held = Holding {
            here,
            pending,
            elsewhere,
        };
        let short = Box::new(Short { asked, held });
        Err(match part {
            Part::Room(_) => Error::from(QuotaError::RoomShort(short)),
            _ => Error::from(QuotaError::RightsShort(short)),
        })
    }

    pub(super) fn add_to(
        &mut self,
        key: &str,
        by: i64,
        saved: &mut Savepoint,
    ) -> Result<KeyId, Error> {
        self.transaction.step(key, Op::Add(by), saved)
    }
}

#[cfg(test)]
pub(crate) mod tests;
