//! Limits for each period: so much is allowed of a key in a minute, an hour or a day, in the whole mesh.
//!
//! A period of a key is a budget that nobody has to begin. Each member brings its share of
//! the limit in by itself, with its first use of the period, by its own wall clock; what it holds it allows,
//! and rights move to those who are short as those of budgets do (`sync/wants.rs`). When a period is over
//! nobody uses anything of it, and what was kept of it is deleted (`period/over.rs`).
//!
//! What all members bring into a period never adds up to more than the limit:
//! - **Once for each owner, not for each start.** That a share was brought in is a counter of the period. A
//!   start brings one in only where it would see that counter: in periods that began after the start itself
//!   did, or once all earlier starts of its owner were taken over.
//! - **By one configuration.** Members may know of different ones. Whoever uses a later one's share, as all
//!   members knew of it before the period began, may rely on the others' knowing it too. So each brings in
//!   the least of its shares by all configurations from that one on that it knows of. If it does not know
//!   them all, it brings in nothing, and lives by what others give it.

mod over;

pub(super) use over::is_over;

use super::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
use crate::error::{Error, Short};
use crate::ledger::period::{
    PeriodId, PeriodKey, PeriodPart, check_period_key, is_known_key, known_key, rights_key,
    share_key,
};
use crate::ledger::{Holding, Stock};
use crate::limits::{LIMITS_MAX, SKEW_MS_MAX, TRANSACTION_OPS_MAX};
use crate::membership::Membership;
use crate::message::records::{Configuration, Limit, Owner, Ruling};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// So many of the last configurations are remembered.
const REMEMBERED: usize = 32;

/// Of so many of them it is kept when all members knew of them.
const KNOWN_KEPT: usize = 4;

/// What is known of configurations beside the present one.
#[derive(Clone, Default)]
pub(super) struct Periods {
    /// The last ones that were decided, one number after another, the present one last.
    decided: Vec<Configuration>,
}

/// The present period of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// The limit that covers the key.
    pub limit: Limit,
    /// When it began, in milliseconds since 1970.
    pub begins: u64,
    /// When it is over.
    pub ends: u64,
    /// What is left to be allowed, as far as is known here.
    pub left: Holding,
    /// By what name its rights are asked for.
    pub name: String,
}

impl Period {
    /// How much was allowed in it, as far as is known here.
    pub fn used(&self) -> i128 {
        let left = self.left.here + self.left.elsewhere;
        (i128::from(self.limit.limit) - left).max(0)
    }
}

/// The share that an owner may bring in of a limit; nothing if it is no member, or the limit is none of
/// this configuration.
fn share(configuration: &Configuration, owner: &Owner, limit: &Limit) -> u64 {
    let same = |it: &&Limit| {
        it.name == limit.name && (it.born, it.period_ms) == (limit.born, limit.period_ms)
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
    /// Notes the present configuration, which follows those before it or begins anew.
    pub(super) fn note_configuration(&mut self, membership: &Membership) {
        let Some((_, present)) = &membership.table.configuration else {
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

/// Limits as the next configuration has them.
fn limits_to_propose(membership: &Membership, limits: &[Limit]) -> Result<Vec<Limit>, Error> {
    let present = membership.configuration();
    let present = present.map_or(&[][..], |it| &it.limits);
    let number = membership.next_number().map_or(0, |it| it.1);
    let mut limits = limits.to_vec();
    limits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    limits.dedup_by(|a, b| a.name == b.name);
    if limits.len() > LIMITS_MAX {
        let limits = limits.len();
        return Err(Error::LimitsFull { limits });
    }
    for limit in &mut limits {
        limit.check()?;
        let same = |it: &&Limit| (&it.name, it.period_ms) == (&limit.name, limit.period_ms);
        limit.born = present.iter().find(same).map_or(number, |it| it.born);
    }
    Ok(limits)
}

impl<'a> QuotaRef<'a> {
    /// The present period of a key.
    ///
    /// # Errors
    /// [`Error::NoLimit`] if no limit covers it, [`Error::NotAMember`] if this replica is none; of a key as
    /// [`Replica::add`](crate::Replica::add), and [`Error::TooLarge`] over
    /// [`WINDOW_KEY_BYTES_MAX`](crate::limits::WINDOW_KEY_BYTES_MAX).
    pub fn period(self, key: &str) -> Result<Period, Error> {
        check_period_key(key)?;
        let limit = self
            .membership
            .configuration()
            .and_then(|it| it.limit_of(key));
        let limit = limit.ok_or(match self.membership.is_member() {
            true => Error::NoLimit,
            false => Error::NotAMember,
        })?;
        let begins = self.state.time - self.state.time % limit.period_ms;
        let ends = begins.saturating_add(limit.period_ms);
        let (end, born) = (ends, limit.born);
        let period = PeriodId { end, born, key }.name();
        Ok(Period {
            begins,
            ends,
            left: self.left_in(&period),
            limit: limit.clone(),
            name: period,
        })
    }

    /// What this writer may bring into a period, and has not.
    fn own_share(self, name: &str) -> u64 {
        let (Some(owner), Some(period)) = (self.membership.owner_of(OWN), PeriodId::parse(name))
        else {
            return 0;
        };
        let limit = self
            .membership
            .configuration()
            .and_then(|it| it.limit_of(period.key));
        let Some(limit) = limit.filter(|it| it.born == period.born) else {
            return 0;
        };
        let begins = period.end.saturating_sub(limit.period_ms);
        let is_now = (begins..period.end).contains(&self.state.time);
        // One whose period is another one's would have the same name.
        let is_whole = period.end % limit.period_ms == 0;
        if !is_now || !is_whole || self.state.value(&share_key(&owner, name)).is_some() {
            return 0;
        }
        match self.may_begin(&owner, begins) {
            true => self.share_in(&owner, limit, begins),
            false => 0,
        }
    }

    /// Whether no earlier start of the owner's can have brought a share into a period that began then
    /// without its being seen here.
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
        let over = |number| {
            self.membership.table.cards[number as usize]
                .retired
                .is_some()
        };
        self.membership
            .is_sure_member(self.state, &self.state.writer())
            && self
                .membership
                .incarnations(owner)
                .all(|number| number == OWN || over(number))
    }

    /// What an owner may bring in of a limit for a period that begins then.
    fn share_in(self, owner: &Owner, limit: &Limit, begins: u64) -> u64 {
        let decided = &self.quota.periods.decided;
        let is_known = |it: &&Configuration| {
            let at = self.state.value(&known_key(it));
            at.is_some_and(|at| at + i128::from(SKEW_MS_MAX) < i128::from(begins))
        };
        let known = decided
            .iter()
            .rev()
            .find(is_known)
            .map_or(0, |it| it.number);
        // Nobody knows the limit from before it was set.
        let from = limit.born.max(known);
        if decided.first().is_none_or(|it| it.number > from) {
            return 0;
        }
        let since = decided.iter().filter(|it| it.number >= from);
        since.map(|it| share(it, owner, limit)).min().unwrap_or(0)
    }

    /// What is left in a period, as far as is known here: with what members may still bring in.
    fn left_in(self, name: &str) -> Holding {
        let own = self.state.writer();
        let held = |writer| self.state.value(&rights_key(writer, name)).unwrap_or(0);
        let here = held(own) + i128::from(self.own_share(name));
        let others = self.state.keys.index.holders().filter(|it| *it != own);
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

    /// What another owner may still bring into a period, as far as is known here.
    fn share_to_come(self, owner: &Owner, name: &str) -> i128 {
        let period = PeriodId::parse(name);
        let of = |it: PeriodId<'_>| {
            let present = self.membership.configuration()?;
            let limit = present
                .limit_of(it.key)
                .filter(|limit| limit.born == it.born)?;
            let brought = self.state.value(&share_key(owner, name)).is_some();
            (!brought).then(|| i128::from(share(present, owner, limit)))
        };
        period.and_then(of).unwrap_or(0)
    }

    /// What is left in a period, `None` if it is over.
    pub(super) fn period_stock(self, name: &str) -> Option<Holding> {
        let period = PeriodId::parse(name)?;
        (!is_over(self.state, period.end)).then(|| self.left_in(name))
    }

    /// What a writer holds of a period, or may bring in.
    pub(super) fn period_stock_of(self, name: &str, writer: WriterId) -> i128 {
        let held = self.state.value(&rights_key(writer, name)).unwrap_or(0);
        let owner = self
            .membership
            .incarnation(self.state, &writer)
            .map(|it| it.0);
        held + owner.map_or(0, |it| self.share_to_come(&it, name))
    }

    /// Each period that something is left of, the writer and how much it holds, in no stated order: for
    /// whoever compares replicas.
    pub fn period_rights(self) -> impl Iterator<Item = (&'a str, WriterId, i128)> {
        self.state
            .keys
            .index
            .periods()
            .filter_map(move |(_, handle)| {
                let key = PeriodKey::parse(self.state.keys.get(handle)?)?;
                let held = self.state.value_at(handle)?;
                match key.part {
                    PeriodPart::Rights(writer) => Some((key.name, writer, held)),
                    PeriodPart::Share(_) => None,
                }
            })
    }

    /// Each share that was brought into a period and is still known, in no stated order.
    pub fn period_shares(self) -> impl Iterator<Item = (&'a str, i128)> {
        self.state
            .keys
            .index
            .periods()
            .filter_map(move |(_, handle)| {
                let key = PeriodKey::parse(self.state.keys.get(handle)?)?;
                let brought = self.state.value_at(handle)?;
                matches!(key.part, PeriodPart::Share(_)).then_some((key.name, brought))
            })
    }

    /// How many counters are kept of periods.
    pub fn period_counters(self) -> usize {
        self.state.keys.index.periods().count()
    }

    /// Whether it is not known yet that all members know of the present configuration, and limits wait for
    /// that.
    pub(super) fn awaits_known(self) -> bool {
        let present = self
            .membership
            .configuration()
            .filter(|it| !it.limits.is_empty());
        present.is_some_and(|it| self.state.value(&known_key(it)).is_none())
    }

    fn is_known_to_all(self) -> bool {
        let Some((by, present)) = &self.membership.table.configuration else {
            return false;
        };
        // Who is out may not know it, and go on, until what counts of it is certain.
        let is_out = self.membership.starts().any(|number| {
            let card = &self.membership.table.cards[number as usize];
            let announce = card.announce.as_ref().filter(|_| card.retired.is_none());
            announce.is_some_and(|it| !present.has(&it.owner))
        });
        let quorum = self.membership.quorum(self.state);
        !is_out && quorum.firm && self.membership.acknowledged(&quorum, *by)
    }
}

impl QuotaMut<'_> {
    /// Proposes what the next configuration is to allow in each period, as
    /// [`propose_members`](crate::MembersMut::propose) does members. What is in `born` does not matter.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, and as [`Limit::check`]; [`Error::LimitsFull`].
    pub fn propose_limits(&mut self, limits: &[Limit]) -> Result<(), Error> {
        let membership = &self.replica.membership;
        let members = membership.configuration().map(|it| it.members.clone());
        let members = members.unwrap_or_default();
        let limits = limits_to_propose(membership, limits)?;
        self.replica
            .members_mut()
            .put_forward(Ruling { members, limits })
    }

    /// Allows so much of a key in its present period if it is left here, as transactions of its own, and
    /// adds each counter that changed to `changed`. Tells what is left then.
    ///
    /// # Errors
    /// As [`QuotaRef::period`], and [`Error::LimitReached`], [`Error::AmountRange`]. Nothing is changed then.
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

    /// Brings the own share into the present period of a key, as a transaction of its own, if that has to
    /// be before so much of it is [allowed](QuotaTransaction::allow), and is enough for it. It has to be one of
    /// its own, as what is made under an idempotency key may be withdrawn.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`], [`Error::CountersFull`].
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

    /// Brings the own share into a period, if it may and has not.
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
            return Err(Error::AmountRange { amount });
        };
        if held < i128::from(amount) {
            let held = self.read().left_in(name);
            let short = Short {
                asked: amount,
                held,
            };
            return Err(Error::LimitReached(Box::new(short)));
        }
        let steps = [(own, Op::Add(-by)), (rights_key(to, name), Op::Add(by))];
        self.make(&steps, changed)
    }

    /// Notes when all members know of the present configuration, if it has limits and they do by now.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`], [`Error::CountersFull`].
    pub(crate) fn note_known(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        if !self.replica.membership.is_established()
            || !self.read().awaits_known()
            || !self.read().is_known_to_all()
        {
            return Ok(());
        }
        let (Some(present), Ok(now)) = (
            self.replica.membership.configuration(),
            i64::try_from(self.replica.state.time),
        ) else {
            return Ok(());
        };
        let mut steps = Vec::from([(known_key(present), Op::Set(now))]);
        let reserved = self
            .replica
            .state
            .keys
            .index
            .reserved(&self.replica.state.keys);
        let older = reserved
            .filter(|(handle, key)| is_known_key(key) && self.replica.value_at(*handle).is_some());
        // Periods that go on may rely on those before it.
        let last = self
            .replica
            .quota
            .periods
            .decided
            .iter()
            .rev()
            .take(KNOWN_KEPT);
        let last: Vec<String> = last.map(known_key).collect();
        let remembered = |key: &str| last.iter().any(|it| it == key);
        let older = older.filter(|(_, key)| !remembered(key));
        steps.extend(older.map(|(_, key)| (String::from(key), Op::Delete)));
        self.make(&steps, changed)
    }
}

impl QuotaPreview<'_, '_> {
    /// The present period of a key, with what this transaction has used of it by now.
    ///
    /// # Errors
    /// As [`QuotaRef::period`].
    pub fn period(self, key: &str) -> Result<Period, Error> {
        let mut period = self.transaction.replica.quota().period(key)?;
        let rights = rights_key(self.transaction.replica.writer(), &period.name);
        let before = self.transaction.replica.value(&rights).unwrap_or(0);
        // What was not brought in counts, as it is there to be had.
        period.left.here -= before - self.transaction.value(&rights).unwrap_or(0);
        Ok(period)
    }
}

impl QuotaTransaction<'_, '_> {
    /// Allows so much of a key in its present period, of what was brought in here by now
    /// ([`QuotaMut::bring_in_for`] is to be called before) and is left, with whatever else the transaction
    /// does.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::NoLimit`] if no limit covers the key,
    /// [`Error::LimitReached`] if less is left here, [`Error::AmountRange`]; of a key as
    /// [`QuotaRef::period`]; [`Error::TransactionTooLarge`]. The transaction stays as it was then, and may go
    /// on.
    pub fn allow(&mut self, key: &str, cost: u64) -> Result<(), Error> {
        let ops = self.transaction.ops + 1;
        if ops > TRANSACTION_OPS_MAX {
            return Err(Error::TransactionTooLarge { ops });
        }
        if !self.transaction.replica.members().is_member() {
            return Err(Error::NotAMember);
        }
        let by = i64::try_from(cost).map_err(|_| Error::AmountRange { amount: cost })?;
        let Period {
            name: period, left, ..
        } = self.preview().period(key)?;
        let rights = rights_key(self.transaction.replica.writer(), &period);
        let here = self.transaction.value(&rights).unwrap_or(0);
        if here < i128::from(cost) {
            let (asked, held) = (cost, left);
            return Err(Error::LimitReached(Box::new(Short { asked, held })));
        }
        if cost > 0 {
            let handle = self.add_to(&rights, -by, &mut Vec::new())?;
            self.transaction.quota.uses.push((handle, cost));
        }
        self.transaction.ops = ops;
        Ok(())
    }
}

/// The stock of a period that a handle is of, if it is this writer's.
pub(super) fn used_of(key: &str, writer: WriterId) -> Option<(&str, Stock)> {
    let key = PeriodKey::parse(key)?;
    (key.part == PeriodPart::Rights(writer)).then_some((key.name, Stock::Period))
}

#[cfg(test)]
mod tests;
