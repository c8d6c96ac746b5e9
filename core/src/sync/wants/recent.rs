//! Recent use of rights. Members keep rights close to where they are used.

use super::RightsId;
use crate::ledger::RightKind;
use crate::ledger::period::lasting_name;
use crate::sort::sort;
use crate::sync::Millis;
use alloc::collections::BTreeMap;

/// Time in milliseconds in which the weight of a use halves. A steady use of `r` a second gives an amount
/// between `2 r` and `4 r`.
pub(super) const RECENT_HALVES_MS: Millis = 2_000;

/// Maximum number of budgets, rooms and periods with a recorded use. Beyond it, those with the smallest use are
/// forgotten first.
pub(super) const RECENT_MAX: usize = 4_096;

/// The id under which a use is recorded. All periods of a key have one id, so the use of one period counts in
/// the next.
fn lasting(name: &str, kind: RightKind) -> RightsId {
    match kind {
        RightKind::Period => (lasting_name(name).into(), kind),
        _ => (name.into(), kind),
    }
}

/// The recent use, by the rights that were used.
#[derive(Clone, Default)]
pub(super) struct Recent {
    of: BTreeMap<RightsId, Use>,
}

#[derive(Clone, Copy)]
struct Use {
    amount: u64,
    /// When the amount was last halved.
    since: Millis,
    /// When more may be requested again without a waiting caller.
    due: Millis,
}

impl Use {
    fn now(&self, now: Millis) -> u64 {
        let halves = now.saturating_sub(self.since) / RECENT_HALVES_MS;
        self.amount.checked_shr(halves.min(64) as u32).unwrap_or(0)
    }
}

impl Recent {
    pub(super) fn note(&mut self, now: Millis, name: &str, kind: RightKind, amount: u64) {
        if self.of.len() >= RECENT_MAX {
            self.shrink(now);
        }
        let id = lasting(name, kind);
        let it = self.of.entry(id).or_insert(Use {
            amount: 0,
            since: now,
            due: 0,
        });
        it.amount = it.now(now).saturating_add(amount);
        let halves = now.saturating_sub(it.since) / RECENT_HALVES_MS;
        it.since += halves * RECENT_HALVES_MS;
    }

    pub(super) fn amount(&self, now: Millis, id: &RightsId) -> u64 {
        self.of
            .get(&lasting(&id.0, id.1))
            .map_or(0, |it| it.now(now))
    }

    /// Whether more of these rights may be requested without a waiting caller. If so, it counts as requested.
    pub(super) fn is_due(&mut self, now: Millis, id: &RightsId, again: Millis) -> bool {
        let it = self.of.get_mut(&lasting(&id.0, id.1));
        let it = it.filter(|it| it.due <= now);
        it.map(|it| it.due = now + again).is_some()
    }

    /// Forgets at least half of the recorded uses, the smallest ones.
    fn shrink(&mut self, now: Millis) {
        let mut amounts: alloc::vec::Vec<u64> = self.of.values().map(|it| it.now(now)).collect();
        sort(&mut amounts);
        let least = amounts[amounts.len() / 2];
        self.of.retain(|_, it| it.now(now) > least);
    }
}
