//! The ticket by which something is asked of the driver.
//!
//! A request's ticket is judged when its head has come. By the time its work is done the ticket may have
//! ended, be revoked, or have lost its issuer: the body came late, the request waited for rights, or it
//! waited in the queue. So a [command](super::Command) takes the ticket along, and the driver judges it
//! right before it does the work, and again each time that work goes on after a wait.

use super::clients::Pass;
use super::space::OpenSpace;
use super::spaces::Spaces;
use crate::handle::{Refusal, SpaceId};
use crate::resp::{Place, Turned};
use crate::trust::{Grant, Ledger};
use std::sync::{Arc, OnceLock};

/// A ticket, and the place where it has to be good.
pub(crate) struct Permit {
    pass: Pass,
    place: Place,
    /// Why something was not done that was asked for by it.
    turned: OnceLock<Turned>,
}

impl Permit {
    /// The permit of a ticket in one space, or else in every one.
    pub(crate) fn new(grant: Arc<Grant>, ledger: Ledger, space: Option<SpaceId>) -> Permit {
        Permit {
            pass: Pass::new(grant, ledger),
            place: space.map_or(Place::Everywhere, |space| Place::Space(space.0)),
            turned: OnceLock::new(),
        }
    }

    /// Why the driver has not done something that was asked for by it, if that was so.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.turned.get().cloned().map(refusal)
    }

    /// Whether the ticket is good now; if not, [`refusal`](Permit::refusal) tells why.
    pub(super) fn is_good(&self, spaces: &Spaces, unix_ms: u64) -> bool {
        match self.pass.judge(self.place, spaces, unix_ms) {
            Ok(()) => true,
            Err(turned) => {
                // The first reason is as good as any.
                let _ = self.turned.set(turned);
                false
            }
        }
    }

    /// Judges the ticket in the space where the work is.
    ///
    /// # Errors
    /// When it is worth nothing there.
    pub(super) fn judge_in(&self, space: &OpenSpace, unix_ms: u64) -> Result<(), Refusal> {
        self.pass.judge_timely_in(space, unix_ms).map_err(refusal)
    }
}

fn refusal(turned: Turned) -> Refusal {
    let Turned { code, text } = turned;
    Refusal::Ticket { code, text }
}
