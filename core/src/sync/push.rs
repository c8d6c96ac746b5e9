//! Pushing fresh changes, and taking in those of others.

use super::members::origin;
use super::{Link, Millis, Output, Sync};
use crate::BROADCAST;
use crate::delta::Message;
use crate::error::Error;
use crate::limits::{WAITING_BYTES_MAX, WAITING_PUSHES_MAX};
use crate::replica::{Mark, Push, Replica};
use crate::wire::{Body, encode};
use alloc::vec::Vec;

/// Local changes that are to be pushed, and pushes that wait for what they build on.
#[derive(Clone)]
pub(super) struct Pushes {
    mark: Mark,
    due: Option<Millis>,
    /// The oldest first.
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
}

#[derive(Clone)]
struct Waiting {
    from: Option<Link>,
    broadcast: bool,
    message: Message,
    bytes: Vec<u8>,
}

impl Pushes {
    pub(super) fn new(mark: Mark) -> Pushes {
        Pushes {
            mark,
            due: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
        }
    }

    /// Forgets what was pushed, after the replica began again under another writer.
    pub(super) fn restart(&mut self) {
        self.mark = Mark::default();
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }
}

impl Sync {
    pub(super) fn local_change(&mut self, now: Millis) {
        let due = now + Millis::from(self.config.push_delay_ms);
        self.pushes.due.get_or_insert(due);
    }

    /// Pushes the local changes since the last push to everybody.
    pub(super) fn push_changes(&mut self, now: Millis, replica: &mut Replica) {
        self.pushes.due = None;
        if self.peers.iter().all(|peer| peer.greeting.is_none()) {
            // To put a push together takes long where much is held.
            self.pushes.mark = replica.mark();
            return;
        }
        match replica.push(&mut self.pushes.mark) {
            Push::Nothing => {}
            Push::Message(message) => {
                let bytes = encode(replica.space(), &Body::Push(message));
                self.pass_on(None, false, &bytes);
            }
            Push::TooLarge => {
                self.announce = Some((now, None));
                // The tick that called this sends it.
            }
        }
    }

    /// Gives a push to all who may lack it: not to whom it came from, and not to those whom the
    /// broadcast reaches, except by the broadcast.
    fn pass_on(&mut self, from: Option<Link>, broadcast: bool, bytes: &[u8]) {
        let mut reached = broadcast;
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            if peer.greeting.is_none() || Some(peer.link) == from {
                continue;
            }
            if BROADCAST && peer.broadcast {
                if !reached {
                    reached = true;
                    let bytes = bytes.to_vec();
                    self.outputs.push(Output::Broadcast { bytes });
                }
            } else {
                self.send_bytes(peer.link, bytes.to_vec());
            }
        }
    }

    /// A push came.
    pub(super) fn pushed(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        from: Option<Link>,
        broadcast: bool,
        message: Message,
        bytes: &[u8],
    ) -> Result<(), Error> {
        if self.take(now, replica, from, broadcast, &message, bytes)? {
            self.retry_waiting(now, replica);
            return Ok(());
        }
        let bytes = bytes.to_vec();
        self.pushes.waiting_bytes += bytes.len();
        self.pushes.waiting.push(Waiting {
            from,
            broadcast,
            message,
            bytes,
        });
        let pushes = &mut self.pushes;
        while pushes.waiting.len() > WAITING_PUSHES_MAX || pushes.waiting_bytes > WAITING_BYTES_MAX
        {
            // Whatever is dropped here is pulled.
            let oldest = pushes.waiting.remove(0);
            pushes.waiting_bytes -= oldest.bytes.len();
        }
        if let Some(link) = from {
            self.want(now, replica, link);
        }
        Ok(())
    }

    /// Merges a push and passes it on; false if something that it builds on is missing.
    fn take(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        from: Option<Link>,
        broadcast: bool,
        message: &Message,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        if !replica.news(message) {
            return Ok(true);
        }
        let outputs = &mut self.outputs;
        let mut changed = |handle| outputs.push(Output::Changed { handle });
        let live = origin(message);
        match replica.merge_live(message, live, &mut changed) {
            Ok(merged) => {
                let shards = merged.shards;
                self.outputs.push(Output::Merged { link: from, shards });
                self.pass_on(from, broadcast, bytes);
                Ok(true)
            }
            Err(Error::NotCovered(_) | Error::Unsure { .. }) => Ok(false),
            Err(error) => {
                let live = live.map(|live| (live, message.hi(&live).unwrap_or(0)));
                let done = self.not_merged(now, replica, from, live, error);
                done.map(|()| true)
            }
        }
    }

    /// Something was merged: perhaps a waiting push can follow.
    pub(super) fn retry_waiting(&mut self, now: Millis, replica: &mut Replica) {
        let mut progress = true;
        while progress {
            progress = false;
            for _ in 0..self.pushes.waiting.len() {
                let next = self.pushes.waiting.remove(0);
                let Waiting {
                    from,
                    broadcast,
                    ref message,
                    ref bytes,
                } = next;
                match self.take(now, replica, from, broadcast, message, bytes) {
                    Ok(false) => {
                        self.pushes.waiting.push(next);
                        continue;
                    }
                    Ok(true) => progress = true,
                    Err(error) => self.refuse(replica, from, true, error),
                }
                self.pushes.waiting_bytes -= next.bytes.len();
            }
        }
        let lacking = self.pushes.waiting.iter().find_map(|waiting| waiting.from);
        if let Some(link) = lacking {
            self.want(now, replica, link);
        }
    }
}
