//! Change marks for readers who were away: which counters changed since then.

use super::State;
use super::keys::KeyIndex;
use super::page::{PAGE, bits};
use crate::state::keys::KeyId;

/// A change mark for readers: a moment in a replica's history, by its epoch. It means nothing to another
/// replica, nor to the next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The epoch that began at this moment.
    pub epoch: u64,
    /// How often counters had been dropped because nothing was left of them.
    pub dropped: u64,
}

impl<I: KeyIndex> State<I> {
    /// The present moment.
    pub(crate) fn moment(&mut self) -> Moment {
        Moment {
            epoch: self.begin_epoch(),
            dropped: *self.dropped,
        }
    }

    /// Returns the counters that changed since a moment, from number `from` on, ascending. Some that did not
    /// change may be among them.
    ///
    /// Returns `None` if this replica cannot find them any more. Either another state replaced this one, or
    /// counters were dropped that had become absent.
    ///
    /// The cost follows the changes, not the state.
    pub(crate) fn changed_since(
        &self,
        moment: Moment,
        from: u32,
    ) -> Option<impl Iterator<Item = KeyId>> {
        let is_known = self.began < moment.epoch && moment.epoch <= self.epoch;
        if !is_known || *self.dropped != moment.dropped {
            return None;
        }
        let mut next = from as usize / PAGE;
        let pages = core::iter::from_fn(move || {
            let (at, slots) = self.touched.next(&self.pages, next, moment.epoch)?;
            next = at + 1;
            Some((at, slots))
        });
        let key_ids = pages
            .flat_map(|(at, slots)| bits(slots).map(move |bit| KeyId((at * PAGE) as u32 + bit)));
        Some(key_ids.filter(move |it| it.0 >= from && self.keys.get(*it).is_some()))
    }
}
