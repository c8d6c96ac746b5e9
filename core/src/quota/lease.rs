//! Leases: rights that somebody who is no member may spend without asking, for a while.
//!
//! The member that gives a lease moves the rights from its own to the lease's, a counter of its own that
//! the same member holds. So they are spent by nobody else, and whoever takes over from that member takes
//! over the lease. What its holder has spent is told to the member, which spends it of the lease. When the
//! lease is over for certain, what is left of it comes back to the member's rights.
//!
//! The holder counts the time from before it asked, by its own clocks, and stops when the lease's time has
//! passed by any of them. The member waits for longer: [`lease_until`] has the bound.

use super::budget::Flow;
use super::{QuotaMut, QuotaRef, QuotaTransaction};
use crate::error::Error;
use crate::ledger::account::{Account, LeaseId, LeaseKey, Part};
use crate::limits::{LEASE_DRIFT_PART, LEASE_MS_MAX, LEASE_MS_MIN, SKEW_MS_MAX};
use crate::membership::stability::Quorum;
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// So many leases are ended in one transaction.
const AT_ONCE: usize = 1_000;

/// What is left of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// The writer that gave it, or took it over.
    pub writer: WriterId,
    /// How many rights are left of it.
    pub left: i128,
    /// When these come back to the writer, in milliseconds since 1970.
    pub until: u64,
}

/// When what is left of a lease comes back that is given now, both in milliseconds since 1970: after `ms`,
/// a hundredth of that, by which its holder's clock may be late, and twice what the clocks of two members
/// may be apart.
///
/// # Errors
/// [`Error::LeaseRange`].
pub fn lease_until(now: u64, ms: u64) -> Result<u64, Error> {
    if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ms) {
        return Err(Error::LeaseRange { ms });
    }
    let bound = ms.div_ceil(LEASE_DRIFT_PART) + 2 * SKEW_MS_MAX;
    Ok(now.saturating_add(ms + bound))
}

impl<'a> QuotaRef<'a> {
    /// What is left of the leases of a budget, as far as is known here, in no stated order.
    pub fn leases_of(self, name: &str) -> Vec<Lease> {
        let Some(account) = self.account(name) else {
            return Vec::new();
        };
        let leases = self.state.keys.index.leases_of(&self.state.keys, name);
        let leases = leases.filter(|it| it.1.capped == account.capped);
        let left = leases.filter_map(|(handle, it)| {
            let Part::Leased(writer, LeaseKey { until, id }) = it.part else {
                return None;
            };
            let left = self.state.value_at(handle).filter(|left| *left != 0)?;
            Some(Lease {
                id,
                writer,
                left,
                until,
            })
        });
        left.collect()
    }

    /// Whether something is kept of own leases of which nothing is left.
    pub(crate) fn keeps_spent_leases(self) -> bool {
        self.own_leases()
            .any(|it| self.state.value_at(it.0) == Some(0))
    }

    fn own_leases(self) -> impl Iterator<Item = (KeyId, Account<'a>)> {
        let own = Some(self.state.writer());
        let leases = self.state.keys.index.leases(&self.state.keys);
        leases.filter(move |it| it.1.part.holder() == own)
    }

    /// Whether all who count have seen all that was done to a counter.
    fn is_settled(self, quorum: &Quorum, handle: KeyId) -> bool {
        let mut settled = true;
        for slot in self.state.slots(handle) {
            let (writer, clock) = (slot.writer(), slot.row.clock);
            settled &= self.membership.is_stable(quorum, Stamp { writer, clock });
            let mut of_side = |stamp| settled &= self.membership.is_stable(quorum, stamp);
            slot.side.stamps(&mut of_side);
        }
        settled
    }
}

impl QuotaMut<'_> {
    /// Takes back what is left of the own leases that are over, and forgets those of which nothing is left
    /// as soon as all members have acknowledged that; adds each counter that changed to `changed`.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn end_leases(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        let mut quorum = None;
        let (mut back, mut spent) = (Vec::new(), Vec::new());
        for (handle, account) in self.read().own_leases() {
            let Part::Leased(writer, LeaseKey { until, .. }) = account.part else {
                continue;
            };
            let Some(left) = self.replica.value_at(handle) else {
                continue;
            };
            if left == 0 {
                // What was spent of it under an idempotency key is not withdrawn any more.
                let quorum = quorum
                    .get_or_insert_with(|| self.replica.membership.quorum(&self.replica.state));
                if self.read().is_settled(quorum, handle) {
                    spent.push((account.key(), Op::Delete));
                }
                continue;
            }
            if until > self.replica.state.time {
                continue;
            }
            let key = account.key();
            let free = i64::try_from(left - self.read().pending_of(&key)).unwrap_or(0);
            if free > 0 {
                back.push((account.key_of(Part::Rights(writer)), Op::Add(free)));
                back.push((key, Op::Add(-free)));
            }
        }
        // Both halves of what comes back are in one transaction.
        let mut all = back.chunks(2 * AT_ONCE).chain(spent.chunks(AT_ONCE));
        all.try_for_each(|some| self.make(some, changed))
    }
}

impl QuotaTransaction<'_, '_> {
    /// Gives a lease of so many milliseconds, on what the operations before it did, or tells what is left
    /// of the one that this replica has given under the id before.
    ///
    /// # Errors
    /// [`Error::LeaseRange`], and as [`flow`](QuotaTransaction::flow), of a name [`Error::TooLarge`] over
    /// [`LEASED_NAME_BYTES_MAX`](crate::limits::LEASED_NAME_BYTES_MAX). The transaction stays as it was
    /// then, and may go on.
    pub fn lease(&mut self, name: &str, id: LeaseId, ms: u64, amount: u64) -> Result<Lease, Error> {
        let until = lease_until(self.transaction.replica.state.time, ms)?;
        let own = self.transaction.replica.writer();
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

    /// What is left here of a lease, those parts first that come back first.
    fn lease_parts(&self, account: &Account<'_>, id: LeaseId) -> Vec<(Part, i64)> {
        let own = Some(self.transaction.replica.writer());
        let leases = self
            .transaction
            .replica
            .state
            .keys
            .index
            .leases_of(&self.transaction.replica.state.keys, account.name);
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

    /// What an operation adds to which part.
    ///
    /// # Errors
    /// [`Error::NoLease`] if nothing is left here of a lease that is to be ended.
    pub(super) fn steps(
        &self,
        account: &Account<'_>,
        flow: Flow,
        by: i64,
    ) -> Result<Vec<(Part, i64)>, Error> {
        let own = self.transaction.replica.writer();
        let mut steps = flow.steps(own, account.capped, by);
        match flow {
            Flow::SpendLeased { id, .. } => {
                // Of the lease first.
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
                    return Err(Error::NoLease);
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
