//! Limits for each period: a maximum for a key in a minute, an hour or a day, in the whole mesh.
//!
//! A period of a key is a budget that begins without an operation. Each member brings in its share of the
//! limit with its first use of the period, by its own wall clock. It allows as much as it holds. Rights move
//! to members that are short of them, like those of budgets (`sync/wants.rs`). Nobody uses a period that is
//! over, and its counters are deleted (`period/over.rs`).
//!
//! The shares that all members bring into a period never add up to more than the limit:
//! - **Once for each owner, not for each start.** A counter of the period records that a share was brought
//!   in. A start brings a share in only where it would see this counter. This is so in periods that began
//!   after the start, and once all earlier starts of its owner have retired.
//! - **By one configuration.** Members may have different configurations. A member uses the share of a later
//!   configuration if all members had received it before the period began. So it relies on the others having
//!   it too. Each member brings in the smallest of its shares in all configurations that it has, from that
//!   one on. If it lacks one of them, it brings in nothing, and uses what other members give it.

mod over;

pub(super) use over::is_over;

use super::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
use crate::bounds::{LIMITS_MAX, SKEW_MS_MAX};
use crate::error::{Error, MemberError, QuotaError, Short};
use crate::ledger::period::{
    PeriodId, PeriodKey, PeriodPart, check_period_key, is_known_key, received_key, rights_key,
    share_key,
};
use crate::ledger::{Holding, RightKind};
use crate::membership::Membership;
use crate::message::records::{Configuration, Limit, Owner, Ruling};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of recent configurations that are stored.
const REMEMBERED: usize = 32;

/// Number of these configurations for which the state stores when all members had received them.
const KNOWN_KEPT: usize = 4;

/// Configurations, the present one included.
#[derive(Clone, Default)]
pub(super) struct Periods {
    /// The last decided configurations, with consecutive numbers. The present one is last.
    decided: Vec<Configuration>,
}

/// The present period of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The limit that covers the key.
    pub limit: Limit,
    /// When the period began, in milliseconds since 1970.
    pub begins: u64,
    /// When the period ends, in milliseconds since 1970.
    pub ends: u64,
    /// The amount still allowed, according to this replica.
    pub left: Holding,
    /// The name under which its rights are requested.
    pub name: String,
}

impl Period {
    /// The amount that was allowed in it, according to this replica.
    pub fn used(&self) -> i128 {
        let left = self.left.here + self.left.elsewhere;
        (i128::from(self.limit.limit) - left).max(0)
    }
}

/// The share of a limit that an owner may bring in. It is 0 if the owner is no member, or if the
/// configuration does not have the limit.
fn share(configuration: &Configuration, owner: &Owner, limit: &Limit) -> u64 {
    let same = |it: &&Limit| {
        it.name == limit.name && (it.since, it.period_ms) == (limit.since, limit.period_ms)
    };
    let (Ok(rank), Some(limit)) = (
        configuration.members.binary_search(owner),
        configuration.limits.iter().find(same),
    ) else {
        return 0;
    };
    let members = configuration.members.len() as u64;
    limit.limit / members + u64::from((rank as u64) < limit.limit % members)
}

impl Periods {
    /// Stores the present configuration. It follows the stored ones, or replaces them if its number does not.
    pub(super) fn note_configuration(&mut self, membership: &Membership) {
        let Some((_, present)) = membership.stamped_configuration() else {
            return;
        };
        let decided = &mut self.decided;
        if let Some(last) = decided.last() {
            if last == present {
                return;
            }
            if (last.era, last.number + 1) != (present.era, present.number) {
                decided.clear();
            }
        }
        decided.push(present.clone());
        if decided.len() > REMEMBERED {
            decided.remove(0);
        }
    }
}

/// Limits in the form in which the next configuration has them.
fn limits_to_propose(membership: &Membership, limits: &[Limit]) -> Result<Vec<Limit>, Error> {
    let present = membership.configuration();
    let present = present.map_or(&[][..], |it| &it.limits);
    let number = membership.next_number().map_or(0, |it| it.1);
    let mut limits = limits.to_vec();
    limits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    limits.dedup_by(|a, b| a.name == b.name);
    if limits.len() > LIMITS_MAX {
        let limits = limits.len();
        return Err(QuotaError::LimitsFull { limits }.into());
    }
    for limit in &mut limits {
        limit.check()?;
        let same = |it: &&Limit| (&it.name, it.period_ms) == (&limit.name, limit.period_ms);
        limit.since = present.iter().find(same).map_or(number, |it| it.since);
    }
    Ok(limits)
}

impl<'a> QuotaRef<'a> {
    /// The present period of a key.
    ///
    /// # Errors
    /// [`QuotaError::NoLimit`] if no limit covers the key, [`MemberError::NotAMember`] if this replica is no
    /// member. For a key, the errors of [`Replica::add`](crate::Replica::add), and
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge) over
    /// [`PERIOD_KEY_BYTES_MAX`](crate::bounds::PERIOD_KEY_BYTES_MAX).
    pub fn period(self, key: &str) -> Result<Period, Error> {
        check_period_key(key)?;
        let limit = self
            .membership
            .configuration()
            .and_then(|it| it.limit_of(key));
        let limit = limit.ok_or(match self.membership.is_member() {
            true => Error::from(QuotaError::NoLimit),
            false => Error::from(MemberError::NotAMember),
        })?;
        let begins = self.state.time() - self.state.time() % limit.period_ms;
        let ends = begins.saturating_add(limit.period_ms);
        let (end, since) = (ends, limit.since);
        let period = PeriodId { end, since, key }.name();
        Ok(Period {
            begins,
            ends,
            left: self.left_in(&period),
            limit: limit.clone(),
            name: period,
        })
    }

    /// The amount that this writer may bring into a period and has not yet brought in.
    fn own_share(self, name: &str) -> u64 {
        let (Some(owner), Some(period)) = (self.membership.owner_of(OWN), PeriodId::parse(name))
        else {
            return 0;
        };
        let limit = self
            .membership
            .configuration()
            .and_then(|it| it.limit_of(period.key));
        let Some(limit) = limit.filter(|it| it.since == period.since) else {
            return 0;
        };
        let begins = period.end.saturating_sub(limit.period_ms);
        let is_now = (begins..period.end).contains(&self.state.time());
        // A period of another length could have the same name.
        let is_whole = period.end % limit.period_ms == 0;
        if !is_now || !is_whole || self.state.value(&share_key(&owner, name)).is_some() {
            return 0;
        }
        match self.may_begin(&owner, begins) {
            true => self.share_in(&owner, limit, begins),
            false => 0,
        }
    }

    /// Whether this replica sees each share that an earlier start of the owner can have brought into a
    /// period. `begins` is the period's beginning, in milliseconds since 1970.
    fn may_begin(self, owner: &Owner, begins: u64) -> bool {
        let Some((_, began)) = self
            .membership
            .incarnation(self.state, &self.state.writer())
        else {
            return false;
        };
        if !self.membership.is_established() {
            return false;
        }
        if begins > began.saturating_add(SKEW_MS_MAX) {
            return true;
        }
        let over = |number| self.membership.writer(number).retired.is_some();
        self.membership
            .is_sure_member(self.state, &self.state.writer())
            && self
                .membership
                .incarnations(owner)
                .all(|number| number == OWN || over(number))
    }

    /// The share of a limit that an owner may bring into a period with this beginning.
    fn share_in(self, owner: &Owner, limit: &Limit, begins: u64) -> u64 {
        let decided = &self.quota.periods.decided;
        let is_known = |it: &&Configuration| {
            let at = self.state.value(&received_key(it));
            at.is_some_and(|at| at + i128::from(SKEW_MS_MAX) < i128::from(begins))
        };
        let known = decided
            .iter()
            .rev()
            .find(is_known)
            .map_or(0, |it| it.number);
        // No member has the limit from before it was set.
        let from = limit.since.max(known);
        if decided.first().is_none_or(|it| it.number > from) {
            return 0;
        }
        let since = decided.iter().filter(|it| it.number >= from);
        since.map(|it| share(it, owner, limit)).min().unwrap_or(0)
    }

    /// The amounts left in a period, according to this replica. Shares that members may still bring in count.
    fn left_in(self, name: &str) -> Holding {
        let own = self.state.writer();
        let held = |writer| self.state.value(&rights_key(writer, name)).unwrap_or(0);
        let here = held(own) + i128::from(self.own_share(name));
        let others = self.state.index().holders().filter(|it| *it != own);
        let mut elsewhere: i128 = others.map(held).sum();
        let members = self
            .membership
            .configuration()
            .map_or(&[][..], |it| &it.members);
        let others = members
            .iter()
            .filter(|it| Some(**it) != self.membership.owner_of(OWN));
        elsewhere += others.map(|it| self.share_to_come(it, name)).sum::<i128>();
        Holding {
            here,
            pending: 0,
            elsewhere,
        }
    }

    /// The share that another owner may still bring into the period of this [name](Period::name), according to
    /// this replica. It is 0 if the period is over, or if the owner has brought in its share or has none.
    pub fn share_to_come(self, owner: &Owner, name: &str) -> i128 {
        let period = PeriodId::parse(name).filter(|it| !is_over(self.state, it.end));
        let of = |it: PeriodId<'_>| {
            let present = self.membership.configuration()?;
            let limit = present
                .limit_of(it.key)
                .filter(|limit| limit.since == it.since)?;
            let brought = self.state.value(&share_key(owner, name)).is_some();
            (!brought).then(|| i128::from(share(present, owner, limit)))
        };
        period.and_then(of).unwrap_or(0)
    }

    /// The amounts left in a period, or `None` if it is over.
    pub(super) fn rights_in_period(self, name: &str) -> Option<Holding> {
        let period = PeriodId::parse(name)?;
        (!is_over(self.state, period.end)).then(|| self.left_in(name))
    }

    /// The amount of a period that a writer holds or may bring in.
    pub(super) fn rights_in_period_of(self, name: &str, writer: WriterId) -> i128 {
        let held = self.state.value(&rights_key(writer, name)).unwrap_or(0);
        let owner = self
            .membership
            .incarnation(self.state, &writer)
            .map(|it| it.0);
        held + owner.map_or(0, |it| self.share_to_come(&it, name))
    }

    /// Each period with rights left, with the writer that holds them and their amount, in no stated order. A
    /// comparison of replicas uses it.
    pub fn period_rights(self) -> impl Iterator<Item = (&'a str, WriterId, i128)> {
        self.state.index().periods().filter_map(move |(_, key_id)| {
            let key = PeriodKey::parse(self.state.keys().get(key_id)?)?;
            let held = self.state.value_at(key_id)?;
            match key.part {
                PeriodPart::Rights(writer) => Some((key.name, writer, held)),
                PeriodPart::Share(_) => None,
            }
        })
    }

    /// Each share that was brought into a period and is still stored, in no stated order.
    pub fn period_shares(self) -> impl Iterator<Item = (&'a str, i128)> {
        self.state.index().periods().filter_map(move |(_, key_id)| {
            let key = PeriodKey::parse(self.state.keys().get(key_id)?)?;
            let brought = self.state.value_at(key_id)?;
            matches!(key.part, PeriodPart::Share(_)).then_some((key.name, brought))
        })
    }

    /// Number of counters that store periods.
    pub fn period_counters(self) -> usize {
        self.state.index().periods().count()
    }

    /// Whether the present configuration has limits, and the state does not yet record that all members have
    /// received it.
    pub(super) fn awaits_known(self) -> bool {
        let present = self
            .membership
            .configuration()
            .filter(|it| !it.limits.is_empty());
        present.is_some_and(|it| self.state.value(&received_key(it)).is_none())
    }

    fn is_known_to_all(self) -> bool {
        let Some((by, present)) = self.membership.stamped_configuration() else {
            return false;
        };
        // A removed owner may lack the configuration and go on, until its writers have retired.
        let is_out = self.membership.starts().any(|number| {
            let writer_state = self.membership.writer(number);
            let announce = writer_state
                .announce
                .as_ref()
                .filter(|_| writer_state.retired.is_none());
            announce.is_some_and(|it| !present.has(&it.owner))
        });
        let quorum = self.membership.quorum(self.state);
        !is_out && quorum.firm && self.membership.acknowledged(&quorum, *by)
    }
}

impl QuotaMut<'_> {
    /// Proposes the limits of the next configuration, as [`propose`](crate::MembersMut::propose)
    /// proposes its members. The value of `since` is ignored.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is no member, [`QuotaError::LimitsFull`], and the errors
    /// of [`Limit::check`].
    pub fn propose_limits(&mut self, limits: &[Limit]) -> Result<(), Error> {
        let membership = &self.replica.membership;
        let members = membership.configuration().map(|it| it.members.clone());
        let members = members.unwrap_or_default();
        let limits = limits_to_propose(membership, limits)?;
        self.replica
            .members_mut()
            .put_forward(Ruling { members, limits })
    }

    /// Allows `cost` for a key in its present period if this replica has enough. Makes transactions of its
    /// own, and adds each counter that changed to `changed`. Returns the period with the amounts left after
    /// it.
    ///
    /// # Errors
    /// The errors of [`QuotaRef::period`], [`QuotaError::LimitReached`] and [`QuotaError::AmountRange`].
    /// After an error, nothing is changed.
    pub fn allow(
        &mut self,
        key: &str,
        cost: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<Period, Error> {
        self.bring_in_for(key, cost, changed)?;
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().allow(key, cost)?;
        transaction.commit(changed);
        self.read().period(key)
    }

    /// Brings the own share into the present period of a key, as a transaction of its own. It does so only if
    /// the share then suffices to [allow](QuotaTransaction::allow) `cost`. A transaction of its own is
    /// needed, because one under an idempotency key may be withdrawn.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub fn bring_in_for(
        &mut self,
        key: &str,
        cost: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        match self.read().period(key) {
            Ok(period) if period.left.here >= i128::from(cost) => {
                self.bring_in(&period.name, changed)
            }
            _ => Ok(()),
        }
    }

    /// Brings the own share into a period, if this replica may and has not done so.
    pub(crate) fn bring_in(&mut self, name: &str, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        let (Some(owner), share) = (
            self.replica.membership.owner_of(OWN),
            self.read().own_share(name),
        ) else {
            return Ok(());
        };
        let Ok(by) = i64::try_from(share) else {
            return Ok(());
        };
        if by == 0 {
            return Ok(());
        }
        let steps = [
            (share_key(&owner, name), Op::Add(by)),
            (rights_key(self.replica.writer(), name), Op::Add(by)),
        ];
        self.make(&steps, changed)
    }

    /// Moves rights of a period to another member.
    pub(super) fn grant_period(
        &mut self,
        name: &str,
        to: WriterId,
        amount: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        self.bring_in(name, changed)?;
        let own = rights_key(self.replica.writer(), name);
        let held = self.replica.value(&own).unwrap_or(0);
        let Ok(by) = i64::try_from(amount) else {
            return Err(QuotaError::AmountRange { amount }.into());
        };
        if held < i128::from(amount) {
            let held = self.read().left_in(name);
            let short = Short {
                asked: amount,
                held,
            };
            return Err(QuotaError::LimitReached(Box::new(short)).into());
        }
        let steps = [(own, Op::Add(-by)), (rights_key(to, name), Op::Add(by))];
        self.make(&steps, changed)
    }

    /// Records when all members had received the present configuration, if it has limits and they have.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub(crate) fn note_known(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        if !self.replica.membership.is_established()
            || !self.read().awaits_known()
            || !self.read().is_known_to_all()
        {
            return Ok(());
        }
        let (Some(present), Ok(now)) = (
            self.replica.membership.configuration(),
            i64::try_from(self.replica.state.time()),
        ) else {
            return Ok(());
        };
        let mut steps = Vec::from([(received_key(present), Op::Set(now))]);
        let reserved = self
            .replica
            .state
            .index()
            .reserved(self.replica.state.keys());
        let older = reserved
            .filter(|(key_id, key)| is_known_key(key) && self.replica.value_at(*key_id).is_some());
        // Periods that are not over may depend on earlier configurations.
        let last = self
            .replica
            .quota
            .periods
            .decided
            .iter()
            .rev()
            .take(KNOWN_KEPT);
        let last: Vec<String> = last.map(received_key).collect();
        let remembered = |key: &str| last.iter().any(|it| it == key);
        let older = older.filter(|(_, key)| !remembered(key));
        steps.extend(older.map(|(_, key)| (String::from(key), Op::Delete)));
        self.make(&steps, changed)
    }
}

impl QuotaPreview<'_, '_> {
    /// The present period of a key, after the uses of this transaction so far.
    ///
    /// # Errors
    /// As [`QuotaRef::period`].
    pub fn period(self, key: &str) -> Result<Period, Error> {
        let mut period = self.transaction.replica().quota().period(key)?;
        let rights = rights_key(self.transaction.replica().writer(), &period.name);
        let before = self.transaction.replica().value(&rights).unwrap_or(0);
        // A share that was not brought in yet counts, because it can be brought in.
        period.left.here -= before - self.transaction.value(&rights).unwrap_or(0);
        Ok(period)
    }
}

impl QuotaTransaction<'_, '_> {
    /// Allows `cost` for a key in its present period, together with the other operations of the transaction.
    /// It uses rights that were already brought in: call [`QuotaMut::bring_in_for`] before.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is no member, [`QuotaError::NoLimit`] if no limit covers
    /// the key, [`QuotaError::LimitReached`] if less is left here, [`QuotaError::AmountRange`],
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge). For a key, the errors of
    /// [`QuotaRef::period`]. After an error, the transaction is as it was before and may go on.
    pub fn allow(&mut self, key: &str, cost: u64) -> Result<(), Error> {
        self.transaction.room_for(1)?;
        if !self.transaction.replica().members().may_take() {
            return Err(MemberError::NotAMember.into());
        }
        let by = i64::try_from(cost).map_err(|_| QuotaError::AmountRange { amount: cost })?;
        let Period {
            name: period, left, ..
        } = self.preview().period(key)?;
        let rights = rights_key(self.transaction.replica().writer(), &period);
        let here = self.transaction.value(&rights).unwrap_or(0);
        if here < i128::from(cost) {
            let (asked, held) = (cost, left);
            return Err(QuotaError::LimitReached(Box::new(Short { asked, held })).into());
        }
        if cost > 0 {
            let mut saved = self.transaction.savepoint();
            let key_id = self.add_to(&rights, -by, &mut saved)?;
            self.transaction.noted_mut().uses.push((key_id, cost));
        }
        self.transaction.count_op()
    }
}

/// The period's name and the kind of its rights, if the key stores this writer's rights in a period.
pub(super) fn used_of(key: &str, writer: WriterId) -> Option<(&str, RightKind)> {
    let key = PeriodKey::parse(key)?;
    (key.part == PeriodPart::Rights(writer)).then_some((key.name, RightKind::Period))
}

#[cfg(test)]
mod tests;
