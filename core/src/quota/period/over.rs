//! The end of periods: counters of periods that are over are deleted.
//!
//! One member's delete is enough for everything that it has observed. Members take turns. The first one
//! deletes. The next one deletes only what is still there a while later, because the first one may be away. A
//! member that receives a late change deletes it. Once all members have acknowledged a delete, garbage
//! collection removes the counter like any other.

use crate::bounds::{SKEW_MS_MAX, TRANSACTION_OPS_MAX};
use crate::error::Error;
use crate::indexed_state::State;
use crate::quota::{QuotaMut, QuotaRef};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::page::OWN;
use alloc::string::String;
use alloc::vec::Vec;

/// Minimum time that a period stays after its end, in milliseconds. Until then, it is over by the slowest
/// clock, and its last changes have arrived.
const STAYS_MS: u64 = 2 * SKEW_MS_MAX;
/// Time in milliseconds until the next member deletes what is still there.
const TURN_MS: u64 = 5 * SKEW_MS_MAX;
/// Number of turns. All later members delete in the last turn.
const TURNS_MAX: u64 = 8;
/// Maximum number of transactions in one call.
const AT_ONCE: usize = 8;

/// Whether a period with this end, in milliseconds since 1970, is over by this replica's clock.
pub(crate) fn is_over(state: &State, end: u64) -> bool {
    state.time() >= end
}

impl QuotaRef<'_> {
    /// The remaining counters of periods that are over and that this member may delete now, at most as many
    /// as fit into one transaction.
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
            end.saturating_add(STAYS_MS + wait) <= self.state.time()
        };
        let ended = self.state.index().periods();
        let ended = ended.take_while(|it| it.0.saturating_add(STAYS_MS) <= self.state.time());
        let left = ended.filter(|it| due(it.0) && self.state.value_at(it.1).is_some());
        left.map(|it| it.1).take(TRANSACTION_OPS_MAX).collect()
    }
}

impl QuotaMut<'_> {
    /// Deletes the counters of periods that have been over for long enough, and adds each counter that
    /// changed to `changed`. While the time is unsure, all stay.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub(crate) fn end_periods(&mut self, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        if !self.replica.membership.is_established() || self.replica.is_time_unsure() {
            return Ok(());
        }
        for _ in 0..AT_ONCE {
            let over = self.read().over_periods();
            if over.is_empty() {
                break;
            }
            let key = |key_id: &KeyId| {
                Some((
                    String::from(self.replica.state.keys().get(*key_id)?),
                    Op::Delete,
                ))
            };
            let steps: Vec<(String, Op)> = over.iter().filter_map(key).collect();
            self.make(&steps, changed)?;
        }
        Ok(())
    }
}
