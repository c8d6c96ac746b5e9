//! Copied data folders: the adoption of one, by which this node takes the place of the one that it was copied from,
//! and the loss of that place to another process.

use super::Driver;
use std::sync::atomic::Ordering;
use tallymesh_node_ground::model::Refusal;

impl Driver {
    /// Stands aside in all spaces, because a newer start with this node's key took its place. The folder has that
    /// first, so that a restart changes nothing.
    pub(super) fn stand_aside(&mut self) {
        if let Err(error) = self.starts.stand_aside() {
            tracing::error!(%error, "the next start on this data folder will take part again");
        }
        self.copied.store(true, Ordering::Relaxed);
        let now = self.now();
        for place in 0..self.spaces.count() {
            self.spaces[place].stand_aside(now);
        }
        tracing::warn!(
            "another process with this node's key started later, on a copy of this data folder or on the one that this \
             was copied from, and took this node's place: so this one spends, draws and decides nothing; stop it, or, \
             if the other one is gone for good, run `tallymesh adopt` at this node"
        );
    }

    /// Ends the standing aside in all spaces. The folder has that first: after a crash in between, the next
    /// start takes part, as the operator wants. Returns whether the folder was a copy.
    ///
    /// # Errors
    /// [`Refusal::Internal`] if the folder can't be written. Then nothing is changed.
    pub(super) fn adopt(&mut self) -> Result<bool, Refusal> {
        if !self.starts.is_copied() {
            return Ok(false);
        }
        if let Err(error) = self.starts.adopt() {
            tracing::error!(%error, "this copy is not adopted");
            return Err(Refusal::Internal);
        }
        self.copied.store(false, Ordering::Relaxed);
        let now = self.now();
        for place in 0..self.spaces.count() {
            self.spaces[place].adopt(now);
        }
        tracing::info!(
            "this copy of a data folder takes the place of its original, by the operator's word"
        );
        Ok(true)
    }
}
