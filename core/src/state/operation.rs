//! Operations on counters, and the drafts of a transaction.
//!
//! A draft is a copy of one counter's slots. A transaction works on drafts, and puts all of them back once
//! every operation has gone through. So a transaction that is refused has changed nothing.

use super::keys::{KeyId, KeyIndex};
use super::slot::Slot;
use super::{State, place};
use crate::bounds::EXPIRY_MAX;
use crate::error::{Error, detail};
use alloc::vec::Vec;

/// One operation on a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds, also 0 or a negative number. An absent counter begins at 0.
    Add(i64),
    /// Cancels everything that this replica sees of the counter, and leaves it at 0.
    Reset,
    /// Cancels everything that this replica sees of the counter, and leaves it absent.
    Delete,
    /// Cancels everything that this replica sees of the counter, and leaves this value.
    Set(i64),
    /// Lets the counter, if it exists, expire at this time, in milliseconds since 1970. The next replica that
    /// works on it then deletes it. The longest of concurrent expiries counts.
    Expire(u64),
    /// Removes the counter's expiry. It wins over concurrent expiries.
    Persist,
}

impl Op {
    /// Whether it may create an absent counter.
    pub(crate) fn creates(self) -> bool {
        matches!(self, Op::Add(_) | Op::Reset | Op::Set(_))
    }
}

/// A counter of a transaction that is being made.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) handle: KeyId,
    pub(crate) slots: Vec<Slot>,
    pub(crate) changed: bool,
}

impl<I: KeyIndex> State<I> {
    /// Returns the place of a counter's draft. Creates the draft if there is none.
    pub(crate) fn draft_of(&self, drafts: &mut Vec<Draft>, handle: KeyId) -> usize {
        match drafts.binary_search_by_key(&handle, |draft| draft.handle) {
            Ok(at) => at,
            Err(at) => {
                drafts.insert(at, self.draft(handle));
                at
            }
        }
    }

    pub(crate) fn draft(&self, handle: KeyId) -> Draft {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        Draft {
            handle,
            slots: page.map_or(Vec::new(), |page| page.slots(slot)),
            changed: false,
        }
    }
}

/// Checks that an expiry is in range.
///
/// # Errors
/// [`Error::ExpiryRange`].
pub(crate) fn check(op: Op) -> Result<(), Error> {
    match op {
        Op::Expire(at) if at > EXPIRY_MAX => Err(Error::ExpiryRange { at: detail(at) }),
        _ => Ok(()),
    }
}
