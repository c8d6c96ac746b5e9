//! Rejoin: how a replica that was passed over goes on under a fresh writer, and keeps
//! what it can of its own.
//!
//! # What it adds
//! In a space with members a replica may be too late. Members fenced it as a silent guest, its disk was an older
//! copy, or it counted before it heard of members. Then its writer is over: up to some clock its transactions
//! count, and the rest never will. The replica takes a member's whole state under a fresh writer, and makes the
//! rest again.
//!
//! | file | holds |
//! |---|---|
//! | [`journal`] | own transactions that are *unconfirmed*: no member is known to hold them for good |
//! | [`earlier`] | the same of *earlier writers* of this owner, until it is certain what of each counts, over restarts |
//! | `replica/rejoin.rs` | beginning again, and making the transactions again |
//! | `sync/earlier.rs`, `sync/members.rs` | finding out from members which clock of an earlier writer counts |
//!
//! # What it guarantees
//! - A transaction that is known not to count is made again once. One that counted is never made again.
//! - Adds, sets and resets are made again exactly. So is the cancelling of own operations.
//! - A cancel is made again of others' operations only as far as they can still be told apart. The rest stays,
//!   and [`Returned`] reports it. Never is more cancelled than was seen.
//! - Where it is not known whether transactions count, they are not made again, and are reported
//!   ([`Returned::unknown`]).
//!
//! `ARCHITECTURE.md`, *Members*, lists the cases that are not covered yet, such as the folder of a guest that is
//! put back to an older copy.
//!
//! # What it follows, and where it departs
//! Unconfirmed transactions are the tentative writes of Bayou (Terry et al. 1995). A replica shows them at once,
//! and makes them again if they turn out not to count. Rejoin departs from Bayou in two points. No primary
//! orders the writes, because adds commute. And only a replica that was passed over makes anything again, under
//! a fresh writer; nobody else ever undoes a write.

pub(crate) mod earlier;
pub(crate) mod journal;

use crate::message::journal::{EarlierWriter, Journal};
use crate::optional::GuestPart;
use alloc::vec::Vec;

pub(crate) use earlier::OfEarlier;
pub use journal::{Again, AgainOp, Returned};

/// Unconfirmed own transactions, of the present writer and of earlier ones.
#[derive(Clone, Default)]
pub(crate) struct Rejoin {
    journal: GuestPart<Journal>,
    earlier: GuestPart<Vec<EarlierWriter>>,
}

impl Rejoin {
    /// The earlier writers, with their unconfirmed transactions.
    pub(crate) fn earlier(&self) -> &[EarlierWriter] {
        &self.earlier
    }
}

#[cfg(test)]
impl Rejoin {
    pub(crate) fn earlier_mut(&mut self) -> &mut Vec<EarlierWriter> {
        crate::optional::Optional::stored(&mut self.earlier)
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}
