//! Bounds of a replica's state. Merges, local writes, admissions and stores are judged here and nowhere else.
//!
//! The rule: a replica can write everything that it accepts, and read back everything that it wrote. So a
//! bound has levels, each above the one before. Nothing is judged by a lower level after a higher one
//! has accepted it:
//!
//! | brought by | writers | bytes of keys |
//! |---|---|---|
//! | peers of limited rights, admissions | [`WRITERS_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::limits::KEY_TABLE_BYTES_MAX) |
//! | peers of full rights | [`WRITERS_MERGED_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::limits::KEY_TABLE_BYTES_MAX) |
//! | this replica's own start; what a peer may tell | [`WRITERS_TOLD_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::limits::KEY_TABLE_BYTES_MAX) |
//! | its store | no bound | 2^32 |
//!
//! The own writer has its place from the begin on, also before its first transaction. But it takes no
//! place in what is told or stored until then, so a start that adds nothing leaves nothing.
//!
//! [`KEY_TABLE_BYTES_MAX`]: crate::limits::KEY_TABLE_BYTES_MAX

use super::Membership;
use crate::error::{Error, detail};
use crate::layers::State;
use crate::limits::{WRITERS_MAX, WRITERS_MERGED_MAX, WRITERS_TOLD_MAX};
use crate::writer_id::WriterId;

/// Whether own starts are judged. A page merges no more than leaves room for its writer, and has no
/// store that brings more.
const JUDGES_STARTS: bool = !cfg!(target_family = "wasm");

/// The source of writers that are new to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bringer {
    /// A peer of limited rights, or a member that admits a guest.
    #[cfg_attr(not(feature = "guests"), allow(dead_code))]
    Guest,
    /// A peer of full rights.
    Peer,
}

impl Membership {
    /// Refuses so many new writers if there is no room for them beside those that are known, the own
    /// one included.
    ///
    /// # Errors
    /// [`Error::WritersFull`].
    pub(crate) fn room_for_writers(
        &self,
        state: &State,
        new: usize,
        by: Bringer,
    ) -> Result<(), Error> {
        let known = state.numbers.len();
        let max = match by {
            Bringer::Guest => WRITERS_MAX,
            // An empty replica takes all that another one holds.
            Bringer::Peer if known == 1 => WRITERS_TOLD_MAX + 1,
            Bringer::Peer => WRITERS_MERGED_MAX,
        };
        match new > 0 && known + new > max {
            true => Err(full(known + new, max)),
            false => Ok(()),
        }
    }

    /// The same of one writer, which may be known.
    pub(crate) fn room_for_writer(
        &self,
        state: &State,
        writer: &WriterId,
        by: Bringer,
    ) -> Result<(), Error> {
        let new = state.numbers.get(writer).is_none();
        self.room_for_writers(state, usize::from(new), by)
    }

    /// Refuses the first transaction of the own writer if others have taken all places, its own one
    /// too. In a space with members a writer's place is judged where it is admitted, and a member has
    /// one always: its transactions are what makes room.
    #[inline]
    pub(crate) fn room_for_start(&self, state: &State) -> Result<(), Error> {
        let known = state.numbers.len();
        let first = JUDGES_STARTS && state.clock() == 0;
        match first && known > WRITERS_TOLD_MAX && self.configuration().is_none() {
            true => Err(full(known, WRITERS_TOLD_MAX)),
            false => Ok(()),
        }
    }
}

fn full(writers: usize, max: usize) -> Error {
    Error::WritersFull {
        writers: detail(writers),
        max: detail(max),
    }
}
