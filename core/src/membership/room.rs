//! Room for writers. Merges, local writes, admissions and stores are judged here. The bytes of keys have
//! levels by the same rule, and [`state::keys`](crate::state::keys) judges them.
//!
//! The rule: a replica can write everything that it accepts, and read back everything that it wrote. So a
//! bound has levels, each above the one before. Nothing is judged by a lower level after a higher one
//! has accepted it:
//!
//! | brought by | writers | bytes of keys |
//! |---|---|---|
//! | peers of limited rights, admissions | [`WRITERS_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX) |
//! | peers of full rights | [`WRITERS_MERGED_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX) |
//! | this replica's own start; what a peer may tell | [`WRITERS_TOLD_MAX`] | [`KEY_TABLE_BYTES_MAX`](crate::bounds::KEY_TABLE_BYTES_MAX) |
//! | its store | no bound | 2^32 |
//!
//! The own writer has its place from the begin on, also before its first transaction. But it takes no
//! place in what is told or stored until then, so a start that adds nothing leaves nothing.
//!
//! [`KEY_TABLE_BYTES_MAX`]: crate::bounds::KEY_TABLE_BYTES_MAX

use super::Membership;
use crate::bounds::{WRITERS_MAX, WRITERS_MERGED_MAX, WRITERS_TOLD_MAX};
use crate::error::{Error, WriteError, detail};
use crate::indexed_state::State;
use crate::writer_id::WriterId;

/// Whether the replica checks its own start. A page merges only messages that leave room for its writer, and
/// has no store that brings more.
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
    /// Checks that there is room for so many new writers beside those in the table, the own one included.
    ///
    /// # Errors
    /// [`WriteError::WritersFull`].
    pub(crate) fn room_for_writers(
        &self,
        state: &State,
        new: usize,
        by: Bringer,
    ) -> Result<(), Error> {
        let known = state.writer_count();
        let max = match by {
            Bringer::Guest => WRITERS_MAX,
            // A replica that knows nobody accepts all writers of another replica. The own writer counts only
            // if it is told, and one that is refused its first transaction never is.
            Bringer::Peer if known == 1 => {
                WRITERS_TOLD_MAX + usize::from(JUDGES_STARTS && state.clock() == 0)
            }
            Bringer::Peer => WRITERS_MERGED_MAX,
        };
        match new > 0 && known + new > max {
            true => Err(full(known + new, max)),
            false => Ok(()),
        }
    }

    /// The same for one writer, which may be in the table already.
    pub(crate) fn room_for_writer(
        &self,
        state: &State,
        writer: &WriterId,
        by: Bringer,
    ) -> Result<(), Error> {
        let new = state.number_of(writer).is_none();
        self.room_for_writers(state, usize::from(new), by)
    }

    /// Checks that there is room for the first transaction of the own writer. Others may have taken all
    /// places, its own one too.
    ///
    /// In a space with members the admission checks a writer's place. A member always has one, because its
    /// transactions are what makes room.
    #[inline]
    pub(crate) fn room_for_start(&self, state: &State) -> Result<(), Error> {
        let known = state.writer_count();
        let first = JUDGES_STARTS && state.clock() == 0;
        match first && known > WRITERS_TOLD_MAX && self.configuration().is_none() {
            true => Err(full(known, WRITERS_TOLD_MAX)),
            false => Ok(()),
        }
    }
}

fn full(writers: usize, max: usize) -> Error {
    Error::from(WriteError::WritersFull {
        writers: detail(writers),
        max: detail(max),
    })
}
