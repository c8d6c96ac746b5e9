//! Standing aside: what a start does that runs on a copy of a member's data.
//!
//! A start in the [place](crate::Predecessor) of the earlier one knows that the earlier one has ended. A start in
//! another place does not: the original may run on, beside it. The program finds out which of the two it is; a
//! node compares the identity of its lock file (`node/engine/src/driver/places.rs`), and `docs/budgets.md` has the
//! cases that it cannot tell. No message tells the two cases apart. If the copy
//! took the rights of the original, both could spend them. So it stands aside:
//! - It does not announce itself. So it fences nobody, has no rights and no vote, and counts for no level.
//! - It takes part as a guest does, under its own writer: it adds, reads and syncs.
//! - It has none of the original's writers ended, and makes none of their transactions again. The original does
//!   that itself.
//! - Its hello says so, and peers count it as no start of a member.
//!
//! An operator who knows that the original is gone for good lets the copy [take its
//! place](crate::MembersMut::adopt). Then it is a start like one from a disk that was put back. It
//! [votes](crate::membership::votes) once enough other members have acknowledged it. It has the rights of the
//! original once all of them have acknowledged the original's end.
//!
//! If both run nevertheless, the newest start wins. The program of the other one sees that its start is over, and that
//! its owner has a [newer start](crate::Members::newest_start) that it did not make, and lets it stand aside.
//!
//! For a copy the rule departs from fencing tokens (Kleppmann 2016), which let the newest start win. An original that is
//! fenced may spend on for as long as it does not hear of that.

use super::{MembersMut, Replica};
use crate::optional::Optional;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl MembersMut<'_> {
    /// Lets this replica stand aside, as a start on a copy of another one's data must. Call it before it has
    /// links, or once another process took its place; then its links have to begin anew.
    ///
    /// `originals` are the writers of the original with unconfirmed transactions: the
    /// [earlier writers](crate::Consistency::earlier_writers) at the first start of the copy. The program
    /// stores them for later starts of the copy. A process that lost its place has none.
    pub fn stand_aside(&mut self, originals: Vec<WriterId>) {
        self.replica.aside.set(Some(originals));
    }

    /// Ends the standing aside. Call it only by the word of an operator that the original is gone for good.
    /// Its acknowledged spends that no other member has are lost if the copy does not have them.
    pub fn adopt(&mut self) {
        self.replica.aside.take();
    }
}

impl Replica {
    /// Whether this replica [stands aside](crate::MembersMut::stand_aside).
    #[inline]
    pub fn stands_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Whether a writer is the original's, from which this replica was copied. The original may still write
    /// under it, or make its transactions again.
    pub(crate) fn is_of_original(&self, writer: &WriterId) -> bool {
        let originals = self.aside.as_ref();
        originals.is_some_and(|originals| originals.contains(writer))
    }
}

#[cfg(all(test, feature = "budgets"))]
mod tests;
