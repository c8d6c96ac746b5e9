//! Handles the state that a panic in the work of one client leaves behind.
//!
//! Each command of the queue, and each turn of a Redis client, is contained by itself. Work that
//! only reads leaves nothing behind, so only that work ends.
//!
//! Work that was about to change a replica may have left it half changed, and nothing can tell
//! whether it did. Then no value of that space can be trusted, and none may reach the store or a
//! peer. So the node stops. It acknowledges and publishes nothing more, stores the state of the
//! other spaces, and names the half changed space.
//!
//! The next start reads the space from the store, which has whole transactions only. To read it
//! again in the running node would also have to reset every link, wait and watched key that refers
//! to the replica. A start does all that anyway.

use super::command::{Command, Queued};
use super::{Driver, SYNC};
use crate::contain::contain;
use mio::{Events, Poll};
use tallymesh_core::wire::Frame;
use tallymesh_core::{Error, Link, LinkError, frame_space};
use tallymesh_node_ground::model::SpaceId;
use tallymesh_node_store::StoreError;

/// The spaces that may be half changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfChanged {
    Space(SpaceId),
    /// More than one space, or it is not clear which.
    Any,
}

impl HalfChanged {
    /// The space that was recorded before, or else this one.
    pub(super) fn later(before: Option<Self>, space: Option<usize>) -> Option<Self> {
        before.or(space.map(SpaceId).map(HalfChanged::Space))
    }
}

impl Driver {
    /// Applies a command so that a panic ends only that command.
    pub(super) fn apply_contained(&mut self, queued: Queued) {
        let Queued { command, permit } = queued;
        if let Some(permit) = &permit
            && !permit.is_good(&self.spaces, self.clock.now())
        {
            return; // A client that waits for an answer finds the reason in the permit.
        }
        let changes = command.may_change();
        if changes.is_some() {
            self.gate.touch();
        }
        if let Command::Frame { link, bytes } = command {
            return self.frame_contained(link, bytes);
        }
        if let Err(panicked) = contain(|| self.apply(command, permit)) {
            panicked.tell(&self.metrics, "request");
            self.panicked(changes);
        }
    }

    fn frame_contained(&mut self, link: Link, bytes: Vec<u8>) {
        let now = self.now();
        let Err(panicked) = contain(|| {
            #[cfg(test)]
            crate::contain::tests::panic_if_told(&bytes, crate::contain::tests::BEFORE);
            self.frame(now, link, &bytes);
        }) else {
            return;
        };
        panicked.tell(&self.metrics, SYNC);
        // Decoding changes nothing. If decoding alone panics or fails, no replica was changed.
        let decodes = contain(|| Frame::decode(&bytes).is_ok()).unwrap_or(false);
        let space = frame_space(&bytes)
            .ok()
            .and_then(|name| self.spaces.find(name));
        let changed = space.map_or(HalfChanged::Any, HalfChanged::Space);
        self.panicked(decodes.then_some(changed));
        if self.half_changed.is_none() {
            self.close(now, link, Error::Link(LinkError::NotAFrame));
        }
    }

    fn panicked(&mut self, changed: Option<HalfChanged>) {
        self.half_changed = self.half_changed.or(changed);
        self.spaces.forget_sizes();
    }

    /// Checks that no replica is half changed.
    ///
    /// # Errors
    /// [`StoreError::HalfChanged`], with which the node stops.
    pub(super) fn check_whole(&self) -> Result<(), StoreError> {
        let space = match self.half_changed {
            None => return Ok(()),
            Some(HalfChanged::Any) => None,
            Some(HalfChanged::Space(space)) => Some(self.spaces.name(space).clone()),
        };
        let error = StoreError::HalfChanged { space };
        tracing::error!(%error, "this node stops");
        Err(error)
    }

    /// Stores the changes of the spaces that are whole. It sends no answer and no frame.
    pub(super) fn keep_others(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
    ) -> Result<(), StoreError> {
        let Some(HalfChanged::Space(space)) = self.half_changed else {
            return Ok(());
        };
        self.gate.forget_waiting();
        self.spaces.leave_out(space);
        self.gate.commit(&mut self.spaces, true)?;
        while !self.gate.is_done() {
            super::turn::sleep(poll, events, None)?;
            self.bell.answer();
            self.gate.commit(&mut self.spaces, true)?;
        }
        Ok(())
    }
}
