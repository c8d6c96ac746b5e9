//! The ticket by which a request is made to the driver.
//!
//! The server judges a request's ticket when the head of the request arrives. The work may be done
//! much later: the body is slow, the request waits for rights, or it waits in the queue. By then
//! the ticket may have ended or be revoked, or its issuer may have lost its say. So a
//! request carries the ticket through the [queue](super::command::Queued). The driver judges it
//! right before it does the work, and again each time the work continues after a wait.

use super::space::OpenSpace;
use crate::access::{Credentials, Grant, Ledger};
use crate::driver::Spaces;
use std::sync::{Arc, OnceLock};
use tallymesh_node_ground::model::{Place, Refusal, SpaceId, Turned};

/// A ticket, and the place where it has to be valid.
pub struct Permit {
    pass: Credentials,
    place: Place,
    /// The reason why the driver refused a request with this ticket.
    turned: OnceLock<Turned>,
}

impl Permit {
    /// The permit of a ticket in one space, or in every space if `space` is `None`.
    pub fn new(grant: Arc<Grant>, ledger: Ledger, space: Option<SpaceId>) -> Permit {
        Permit {
            pass: Credentials::new(grant, ledger),
            place: space.map_or(Place::Everywhere, |space| Place::Space(space.0)),
            turned: OnceLock::new(),
        }
    }

    /// The reason why the driver refused a request with this ticket, if it did.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.turned.get().cloned().map(refusal)
    }

    /// Whether the ticket is valid now; if not, [`refusal`](Permit::refusal) returns the reason.
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

    /// Judges the ticket in the space of the work.
    ///
    /// # Errors
    /// When it is not valid there.
    pub(super) fn judge_in(&self, space: &OpenSpace, unix_ms: u64) -> Result<(), Refusal> {
        self.pass.judge_timely_in(space, unix_ms).map_err(refusal)
    }
}

fn refusal(turned: Turned) -> Refusal {
    let Turned { code, text } = turned;
    Refusal::Ticket { code, text }
}
