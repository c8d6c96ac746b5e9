//! The end of periods: what is kept of periods that are over is deleted.
//!
//! One member's delete is enough for what it has seen. Members take their turns: one of them deletes first,
//! and the next only what is still there a while later, if that one is away. What came later, as it was on
//! its way, is deleted by whoever sees it then. What all have seen to be deleted is collected as of any
//! counter.

use crate::error::Error;
use crate::layers::State;
use crate::limits::{SKEW_MS_MAX, TRANSACTION_OPS_MAX};
use crate::quota::{QuotaMut, QuotaRef};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use alloc::string::String;
use alloc::vec::Vec;

/// How long after its end a period stays at least: until the slowest clock has it over, and what was made
/// last in it has come.
const STAYS_MS: u64 = 2 * SKEW_MS_MAX;
/// How much later the next one deletes what is still there.
const TURN_MS: u64 = 5 * SKEW_MS_MAX;
/// So many take turns; those after them delete with the last of them.
const TURNS_MAX: u64 = 8;
/// So many transactions are made at once.
const AT_ONCE: usize = 8;

/// Whether a period that ends then is over by this clock.
pub(crate) fn is_over(state: &State, end: u64) -> bool {
    state.time >= end
}

impl QuotaRef<'_> {
    /// What is left of periods that are over, and is to be deleted here, as much as a transaction takes.
    fn over_periods(self) -> Vec<KeyId> {
        let owner = self.membership.owner_of(OWN);
        let members = self
            .membership
            .configuration()
            .map_or(&[][..], |it| &it.members);
        let rank = members.iter().position(|it| Some(*it) == owner);
        let (rank, count) = (rank.unwrap_or(0) as u64, members.len().max(1) as u64);
        let turn = |end: u64| (rank + end / 1_000) % count;
        let due = |end: u64| {
            let wait = TURN_MS * turn(end).min(TURNS_MAX);
            end.saturating_add(STAYS_MS + wait) <= self.state.time
        };
        let ended = self.state.keys.index.periods();
        let ended = ended.take_while(|it| it.0.saturating_add(STAYS_MS) <= self.state.time);
        let left = ended.filter(|it| due(it.0) && self.state.value_at(it.1).is_some());
        left.map(|it| it.1).take(TRANSACTION_OPS_MAX).collect()
    }
}

impl QuotaMut<'_> {
    /// Deletes what is kept of periods that have been over for long enough; adds each counter that changed
    /// to `changed`.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub(crate) fn end_periods(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        if !self.replica.membership.is_established() {
            return Ok(());
        }
        for _ in 0..AT_ONCE {
            let over = self.read().over_periods();
            if over.is_empty() {
                break;
            }
            let key = |handle: &KeyId| {
                Some((
                    String::from(self.replica.state.keys.get(*handle)?),
                    Op::Delete,
                ))
            };
            let steps: Vec<(String, Op)> = over.iter().filter_map(key).collect();
            self.make(&steps, changed)?;
        }
        Ok(())
    }
}
