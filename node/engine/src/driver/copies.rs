//! The adoption of a copied data folder: this node takes the place of the one that it was copied from.

use super::Driver;
use std::sync::atomic::Ordering;
use tallymesh_node_ground::model::Refusal;

impl Driver {
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
        tracing::warn!(
            "this copy of a data folder takes the place of its original, by the operator's word"
        );
        Ok(true)
    }
}
