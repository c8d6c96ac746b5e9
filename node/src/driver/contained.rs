//! The state that a panic in the work of one client leaves behind.
//!
//! Each command of the queue, and each turn of a Redis client, is contained by itself. Work that only reads
//! leaves nothing behind, so that work alone ends. Work that was about to change a replica may have left it
//! half changed, and nothing here can tell whether it did. No number of that space is to be trusted then,
//! and none may reach the store or a peer. So the node stops: it acknowledges and publishes nothing more,
//! keeps what the other spaces have, and names the space. The next start reads the space from the store,
//! which holds whole transactions only. To read it again while the node runs would have to undo as well
//! what links, waits and watched keys know of the replica, all of which a start has anyway.

use super::command::Command;
use super::{Driver, SYNC};
use crate::contain::contain;
use crate::handle::SpaceId;
use crate::store::StoreError;
use mio::{Events, Poll};
use tallymesh_core::wire::Frame;
use tallymesh_core::{Error, Link, frame_space};

/// The spaces that may be half changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalfChanged {
    Space(SpaceId),
    /// More than one, or it is not known which.
    Any,
}

impl HalfChanged {
    /// The space that was noted before, or else this one.
    pub(super) fn later(before: Option<Self>, space: Option<usize>) -> Option<Self> {
        before.or(space.map(SpaceId).map(HalfChanged::Space))
    }
}

impl Driver {
    /// Applies a command, whose panic ends that alone.
    pub(super) fn apply_contained(&mut self, command: Command) {
        let (command, permit) = command.with_permit();
        if let Some(permit) = &permit
            && !permit.is_good(&self.spaces, self.clock.now())
        {
            return; // A client that waits for an answer finds the reason in the permit.
        }
        if let Command::Frame { link, bytes } = command {
            return self.frame_contained(link, bytes);
        }
        let changes = command.may_change().then(|| match command.space() {
            Some(space) => HalfChanged::Space(space),
            None => HalfChanged::Any,
        });
        if let Err(panicked) = contain(|| self.apply(command, permit)) {
            panicked.tell(&self.metrics, "request");
            self.panicked(changes);
        }
    }

    fn frame_contained(&mut self, link: Link, bytes: Vec<u8>) {
        self.kept.touch();
        let now = self.now();
        let Err(panicked) = contain(|| {
            #[cfg(test)]
            crate::resp::tests::panic_if_told(&bytes, crate::resp::tests::BEFORE);
            self.frame(now, link, &bytes);
        }) else {
            return;
        };
        panicked.tell(&self.metrics, SYNC);
        // To decode changes nothing. Where that alone panics, or refuses, no replica was touched.
        let decodes = contain(|| Frame::decode(&bytes).is_ok()).unwrap_or(false);
        let space = frame_space(&bytes)
            .ok()
            .and_then(|name| self.spaces.find(name));
        let changed = space.map_or(HalfChanged::Any, HalfChanged::Space);
        self.panicked(decodes.then_some(changed));
        if self.half_changed.is_none() {
            self.close(now, link, Error::NotAFrame);
        }
    }

    fn panicked(&mut self, changed: Option<HalfChanged>) {
        self.half_changed = self.half_changed.or(changed);
        self.spaces.forget_sizes();
    }

    /// Whether all replicas are whole.
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

    /// Keeps what the spaces have that are whole. Nobody is told anything.
    pub(super) fn keep_others(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
    ) -> Result<(), StoreError> {
        let Some(HalfChanged::Space(space)) = self.half_changed else {
            return Ok(());
        };
        self.kept.forget_waiting();
        self.spaces.leave_out(space);
        self.kept.commit(&mut self.spaces, true)?;
        while !self.kept.is_done() {
            super::turn::sleep(poll, events, None)?;
            self.bell.answer();
            self.kept.commit(&mut self.spaces, true)?;
        }
        Ok(())
    }
}
