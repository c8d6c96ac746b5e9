//! Membership: which owners count, who has seen what, what is stable, and who takes over.
//!
//! A space is *open* until a [configuration](crate::message::records::Configuration) names its members. An
//! open space drops no record of a writer. In a space with members each replica is a member's start, a guest,
//! or a stranger whom no member has admitted.
//!
//! # What it adds
//! Members write [records](crate::message::records) about writers. A record is made in a transaction, stamped
//! with it, and travels with the shards. So records arrive in causal order, as everything else does.
//!
//! | file | the rule it owns |
//! |---|---|
//! | [`table`], [`writer_state`] | the writer table, and all that is known of one writer |
//! | [`records`] | how records come into the table, and out of it |
//! | [`members`] | incarnations, announcements, leaves, and fences |
//! | [`admission`] | which messages a replica accepts: strangers, forgotten writers, starts from too old a state |
//! | [`sponsors`] | which member admits a guest, and answers for what the guest has seen |
//! | [`stability`] | acknowledgements, what is stable by them, and [what may be collected](stability#collection) |
//! | [`retire`], [`forget`] | which writer takes over from one that is gone; what is remembered of it |
//! | [`votes`] | how members agree on the next configuration |
//! | [`place`] | which start continues the votes of the one before |
//! | [`gaps`] | how far a writer may be acknowledged while idempotency keys are missing |
//! | [`room`] | the bounds of writers, judged at one place; those of keys are in `state/keys.rs` |
//! | [`index`], [`listing`], [`none`] | finding writers fast; what a user can see; the empty table of an open space |
//! | `local` | private state as text, for tests with the feature `explore` |
//!
//! # What it guarantees
//! - **Two configurations of one number never both take effect.** A forced one begins a new era.
//! - **Retirement changes no value.** A writer's total moves to its successor, and what was unseen is not
//!   lost: its process makes it again, by [rejoin](crate::rejoin).
//! - **A record is collected only when it can mean nothing to anybody**, wherever messages are still under
//!   way.
//! - **A disk that is put back is found out.** A start says what it had seen at its first transaction: its
//!   *base*. A replica refuses a start whose base lacks what may have been collected.
//!
//! # What it follows, and where it departs
//! | source | used here | departure |
//! |---|---|---|
//! | Causal stability (Baquero, Almeida, Shoker 2014) | only what is stable is collected | members count, and answer for their guests, in place of all replicas |
//! | Single-decree Paxos (Lamport 1998) | one decision for each configuration number | a vote is a register in the state; no message goes to one receiver |
//! | Fencing tokens (Kleppmann 2016) | a fence bounds up to which clock of a writer anything counts | no lock service gives out numbers: the writer's clock is the number, and all who count acknowledge the fence |
//! | Leases (Gray and Cheriton 1989) | a guest that is silent for a time loses its place | the member's clock alone counts, and safety does not need it: the fence decides what counts |

pub(crate) mod admission;
pub(crate) mod forget;
pub(crate) mod gaps;
pub(crate) mod index;
pub(crate) mod listing;
#[cfg(feature = "explore")]
mod local;
pub(crate) mod members;
pub(crate) mod none;
pub(crate) mod place;
mod records;
pub(crate) mod retire;
pub(crate) mod room;
pub(crate) mod sponsors;
pub(crate) mod stability;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod votes;
pub(crate) mod writer_state;

use crate::membership::writer_state::WriterState;
use crate::optional::{GUESTS, GuestPart, Optional};
use table::WriterTable;

/// The membership of a space, as one replica has it.
#[derive(Clone)]
pub(crate) struct Membership {
    table: GuestPart<WriterTable>,
}

impl Membership {
    /// The membership of an open space of one writer.
    pub(crate) fn new() -> Membership {
        let mut table = GuestPart::<WriterTable>::default();
        if GUESTS {
            table.set(WriterTable::new());
        }
        Membership { table }
    }

    /// The table, for tests that look at it or change it by hand.
    #[cfg(test)]
    pub(crate) fn table(&self) -> &GuestPart<WriterTable> {
        &self.table
    }

    /// The same, to be changed.
    #[cfg(test)]
    pub(crate) fn table_mut(&mut self) -> &mut GuestPart<WriterTable> {
        &mut self.table
    }

    /// All that is known of a writer, by its local number.
    #[inline(always)]
    pub(crate) fn writer(&self, number: u32) -> &WriterState {
        &self.table.writer_states[number as usize]
    }

    /// Extends the table to at least this many local numbers.
    pub(crate) fn fit(&mut self, writers: usize) {
        if let Some(table) = self.table.get_mut() {
            while table.writer_states.len() < writers {
                table.writer_states.push(WriterState::default());
            }
        }
    }
}
