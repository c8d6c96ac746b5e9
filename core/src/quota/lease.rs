//! Leases: rights that a client, which is no member, may spend for a while without asking.
//!
//! The member that gives a lease moves rights from its own account to the lease's account. This is a counter
//! that the same member holds, so no other member spends these rights. A successor of this member takes over
//! the lease. The client reports its spends to the member, which spends them from the lease. Once the lease
//! is certainly over, the rest of it comes back to the member's rights.
//!
//! The client counts the time from before its request, by each of its clocks. It stops when the time of the
//! lease has passed by any of them. The member waits longer: [`lease_until`] has the bound.

use super::budget::Flow;
use super::{QuotaMut, QuotaRef, QuotaTransaction};
use crate::bounds::{LEASE_DRIFT_PART, LEASE_MS_MAX, LEASE_MS_MIN, SKEW_MS_MAX};
use crate::error::{Error, QuotaError};
use crate::ledger::account::{Account, LeaseId, LeaseKey, Part};
use crate::membership::stability::Quorum;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Maximum number of leases that one transaction ends.
const AT_ONCE: usize = 1_000;

/// The rest of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// The writer that gave it or took it over.
    pub writer: WriterId,
    /// How many rights are left.
    pub left: i128,
    /// When these rights come back to the writer, in milliseconds since 1970.
    pub until: u64,
}

/// When the rest of a lease that is given `now` comes back. Both times are in milliseconds since 1970. It
/// comes back after the sum of:
///
/// - `ms`.
/// - A hundredth of `ms`, by which the client's clock may be late.
/// - Twice the largest difference between the clocks of two members.
///
/// # Errors
/// [`QuotaError::LeaseRange`] if `ms` is out of its range.
pub fn lease_until(now: u64, ms: u64) -> Result<u64, Error> {
    if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ms) {
        return Err(QuotaError::LeaseRange { ms }.into());
    }
    let bound = ms.div_ceil(LEASE_DRIFT_PART) + 2 * SKEW_MS_MAX;
    Ok(now.saturating_add(ms + bound))
}

impl<'a> QuotaRef<'a> {
    /// The leases of a budget that are not used up, in no stated order. Leases that this replica has not
    /// received are missing.
    pub fn leases_of(self, name: &str) -> Vec<Lease> {
        let Some(account) = self.account(name) else {
            return Vec::new();
        };
        let leases = self.state.index().leases_of(self.state.keys(), name);
        let leases = leases.filter(|it| it.1.capped == account.capped);
        let left = leases.filter_map(|(key_id, it)| {
            let Part::Leased(writer, LeaseKey { until, id }) = it.part else {
                return None;
            };
            let left = self.state.value_at(key_id).filter(|left| *left != 0)?;
            Some(Lease {
                id,
                writer,
                left,
                until,
            })
        });
        left.collect()
    }

    /// Whether this replica stores own leases that are used up.
    pub(crate) fn keeps_spent_leases(self) -> bool {
        self.own_leases()
            .any(|it| self.state.value_at(it.0) == Some(0))
    }

    fn own_leases(self) -> impl Iterator<Item = (KeyId, Account<'a>)> {
        let own = Some(self.state.writer());
        let leases = self.state.index().leases(self.state.keys());
        leases.filter(move |it| it.1.part.holder() == own)
    }

    /// Whether each change of a counter is stable.
    fn is_counter_stable(self, quorum: &Quorum, key_id: KeyId) -> bool {
        let mut stable = true;
        for slot in self.state.slots(key_id) {
            let (writer, clock) = (slot.writer(), slot.row.clock);
            stable &= self.membership.is_stable(quorum, Stamp { writer, clock });
            let mut of_side = |stamp| stable &= self.membership.is_stable(quorum, stamp);
            slot.side.stamps(&mut of_side);
        }
        stable
    }
}

impl QuotaMut<'_> {
    /// Takes back the rest of own leases that are over, and adds each counter that changed to `changed`.
    /// Deletes leases that are used up, once all members have acknowledged their last use.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn end_leases(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        let mut quorum = None;
        let (mut back, mut spent) = (Vec::new(), Vec::new());
        for (key_id, account) in self.read().own_leases() {
            let Part::Leased(writer, LeaseKey { until, .. }) = account.part else {
                continue;
            };
            let Some(left) = self.replica.value_at(key_id) else {
                continue;
            };
            if left == 0 {
                // The spends under an idempotency key can't be withdrawn any more.
                let quorum = quorum
                    .get_or_insert_with(|| self.replica.membership.quorum(&self.replica.state));
                if self.read().is_counter_stable(quorum, key_id) {
                    spent.push((account.key(), Op::Delete));
                }
                continue;
            }
            if until > self.replica.state.time() || self.replica.is_time_unsure() {
                continue;
            }
            let key = account.key();
            let free = i64::try_from(left - self.read().pending_of(&key)).unwrap_or(0);
            if free > 0 {
                back.push((account.key_of(Part::Rights(writer)), Op::Add(free)));
                back.push((key, Op::Add(-free)));
            }
        }
        // Both halves of a return are in one transaction.
        let mut all = back.chunks(2 * AT_ONCE).chain(spent.chunks(AT_ONCE));
        all.try_for_each(|some| self.make(some, changed))
    }
}

impl QuotaTransaction<'_, '_> {
    /// Gives a lease for `ms` milliseconds, after the earlier operations of the transaction. If this replica
    /// has already given a lease with this id, returns what is left of it instead.
    ///
    /// # Errors
    /// [`QuotaError::LeaseRange`], and the errors of [`flow`](QuotaTransaction::flow).
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge) for a name over
    /// [`LEASED_NAME_BYTES_MAX`](crate::bounds::LEASED_NAME_BYTES_MAX). After an error, the transaction is as
    /// it was before and may go on.
    pub fn lease(&mut self, name: &str, id: LeaseId, ms: u64, amount: u64) -> Result<Lease, Error> {
        let until = lease_until(self.transaction.replica().state.time(), ms)?;
        let own = self.transaction.replica().writer();
        let known = self.read().leases_of(name);
        if let Some(lease) = known.into_iter().find(|it| (it.id, it.writer) == (id, own)) {
            return Ok(lease);
        }
        self.flow(name, Flow::Lease { id, until, amount })?;
        Ok(Lease {
            id,
            writer: own,
            left: amount.into(),
            until,
        })
    }

    /// The rest of a lease here. Parts that come back earlier are first.
    fn lease_parts(&self, account: &Account<'_>, id: LeaseId) -> Vec<(Part, i64)> {
        let own = Some(self.transaction.replica().writer());
        let leases = self
            .transaction
            .replica()
            .state
            .index()
            .leases_of(self.transaction.replica().state.keys(), account.name);
        let parts = leases.filter_map(|(_, it)| match it.part {
            Part::Leased(_, lease)
                if lease.id == id && it.capped == account.capped && it.part.holder() == own =>
            {
                let key = it.key();
                let left = self.transaction.value(&key)? - self.read().pending_of(&key);
                Some((it.part, i64::try_from(left).ok().filter(|left| *left > 0)?))
            }
            _ => None,
        });
        let mut parts: Vec<(Part, i64)> = parts.collect();
        parts.sort_unstable();
        parts
    }

    /// The amounts that an operation adds to the parts of a budget.
    ///
    /// # Errors
    /// [`QuotaError::NoLease`] if the operation ends a lease of which nothing is left here.
    pub(super) fn steps(
        &self,
        account: &Account<'_>,
        flow: Flow,
        by: i64,
    ) -> Result<Vec<(Part, i64)>, Error> {
        let own = self.transaction.replica().writer();
        let mut steps = flow.steps(own, account.capped, by);
        match flow {
            Flow::SpendLeased { id, .. } => {
                // Spend from the lease first.
                let mut rest = by;
                for (part, left) in self.lease_parts(account, id) {
                    steps.push((part, -left.min(rest)));
                    rest -= left.min(rest);
                }
                let rights = steps.iter_mut().find(|it| it.0 == Part::Rights(own));
                rights.into_iter().for_each(|it| it.1 = -rest);
            }
            Flow::EndLease { id } => {
                for (part, left) in self.lease_parts(account, id) {
                    steps.extend([(part, -left), (Part::Rights(own), left)]);
                }
                if steps.is_empty() {
                    return Err(QuotaError::NoLease.into());
                }
            }
            _ => {}
        }
        steps.retain(|step| step.1 != 0);
        Ok(steps)
    }
}

#[cfg(test)]
mod tests;
