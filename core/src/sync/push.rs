//! Pushes: sending fresh local changes, and receiving those of others.
//!
//! A push names what it builds on. One that builds on something missing waits, within bounds, while the
//! machine asks its source. The delay before a push grows with the rate of writes, so that one large push
//! replaces many small ones.

use super::members::origin;
use super::scope::WriterShares;
use super::{Link, Millis, Output, PeerHello, Session, SyncMachine};
use crate::bounds::{FRAME_BYTES_MAX, PUSH_BYTES_MAX, WAITING_BYTES_MAX, WAITING_PUSHES_MAX};
use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::message::records::Statement;
use crate::optional::{GUESTS, MEMBERS};
use crate::replica::{Mark, Push, Replica};
use crate::wire::{Body, encode};
use alloc::vec::Vec;

/// Number of local transactions that fit into a push if their keys have the usual length.
const TRANSACTIONS_MAX: u64 = 2_000;
/// With fewer transactions than this within the delay of pushes, the delay is not doubled.
const TRANSACTIONS_MIN: u64 = TRANSACTIONS_MAX / 64;
/// Maximum number of doublings of the delay while the changes fit. A few large pushes are less work for all
/// sides than many small ones.
const DOUBLINGS_MAX: u32 = 3;
/// Maximum number of doublings while they do not fit. Then peers pull them.
const BULK_DOUBLINGS: u32 = 7;

/// A push takes a frame on each link. Its delay is at least a millisecond for each such number of links, as
/// long as the changes meanwhile fit into one push.
const LINKS_FOR_EACH_MS: Millis = 8;

/// Maximum size in bytes of the copies of a push for all links, if it has more than a push of counters has.
const COPIES_BYTES_MAX: usize = 64 << 20;

/// Number of doublings of the push delay that give the time for which a push may wait for a missing one.
const PATIENCE_DOUBLINGS: u32 = 3;

/// Local changes that are to be pushed, and pushes that wait for missing transactions.
#[derive(Clone)]
pub(super) struct Pushes {
    mark: Mark,
    due: Option<Millis>,
    /// When the last push was made, and the own clock at that time.
    last: (Millis, u64),
    /// How many times the delay is doubled.
    doublings: u32,
    /// Time in milliseconds for which a push is expected to have room, computed from the last one.
    room: Millis,
    /// The oldest first.
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// The link to ask for missing transactions, and when to ask, if they have not arrived by then.
    lacking: Option<(Millis, Link)>,
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
            last: (0, 0),
            doublings: 0,
            room: Millis::MAX,
            waiting: Vec::new(),
            waiting_bytes: 0,
            lacking: None,
        }
    }

    /// Drops the record of earlier pushes, after the replica began again under another writer.
    pub(super) fn restart(&mut self) {
        self.mark = Mark::default();
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.lacking = None;
    }

    /// Adjusts the doublings of the delay to the amount of writes since the last push.
    fn pace(&mut self, delay: Millis, now: (Millis, u64)) {
        let (last, clock) = core::mem::replace(&mut self.last, now);
        let made = now.1.saturating_sub(clock).saturating_mul(delay);
        let within_delay = made / (now.0 - last).max(1);
        let fits = |doublings: &u32| within_delay << doublings <= TRANSACTIONS_MAX;
        self.doublings = match within_delay {
            ..TRANSACTIONS_MIN => 0,
            _ => (0..=DOUBLINGS_MAX)
                .rev()
                .find(fits)
                .unwrap_or(BULK_DOUBLINGS),
        };
    }

    /// Records how many bytes the last push took, for changes of `took` milliseconds.
    fn weigh(&mut self, bytes: usize, took: Millis) {
        let most = PUSH_BYTES_MAX as Millis / 2;
        self.room = took.saturating_mul(most) / (bytes as Millis).max(1);
    }

    /// When the next push is due, or when the machine asks a peer for missing transactions.
    pub(super) fn due(&self) -> Option<Millis> {
        let lacking = self.lacking.map(|(at, _)| at);
        [self.due, lacking].into_iter().flatten().min()
    }
}

impl SyncMachine {
    pub(super) fn local_change(&mut self, now: Millis) {
        #[cfg(feature = "members")]
        self.round_soon(now);
        if self.pushes.due.is_none() {
            self.pushes.due = Some(now + self.push_delay());
        }
    }

    /// How long fresh changes are gathered.
    fn push_delay(&self) -> Millis {
        let delay = Millis::from(self.config.push_delay_ms) << self.pushes.doublings;
        if !MEMBERS {
            return delay;
        }
        let links = self
            .open_sessions()
            .filter(|peer| self.is_pushed_to(peer))
            .count();
        let for_links = links as Millis / LINKS_FOR_EACH_MS;
        delay.max(for_links.min(self.pushes.room))
    }

    /// Pushes the local changes since the last push to all peers, before something is collected. A push builds
    /// on the one before it, and cannot carry what was made and collected since then.
    pub(super) fn push_before_collection(&mut self, now: Millis, replica: &mut Replica) {
        self.pushes.due = self.pushes.due.map(|due| due.min(now));
        self.push_changes(now, replica);
    }

    /// Pushes the local changes since the last push to all peers, if it is time.
    pub(super) fn push_changes(&mut self, now: Millis, replica: &mut Replica) {
        if self.pushes.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        if MEMBERS && (self.open_sessions().next().is_none() || self.is_unsent()) {
            // Building a push takes long in a large state.
            self.pushes.mark = replica.mark();
            return;
        }
        let took = now - self.pushes.last.0.min(now);
        if MEMBERS {
            let delay = Millis::from(self.config.push_delay_ms);
            self.pushes.pace(delay, (now, replica.clock()));
        }
        match replica.push(&mut self.pushes.mark) {
            Push::Nothing => {}
            Push::Message(message) => {
                let body = Body::Push(message);
                let bytes = encode(replica.space(), &body);
                if MEMBERS {
                    self.pushes.weigh(bytes.len(), took);
                }
                if MEMBERS && !self.has_room_for(bytes.len()) {
                    // The estimate does not count membership records.
                    self.announce = Some((now, None));
                } else if let Body::Push(message) = body {
                    self.pass_on(replica, None, false, &message, &bytes);
                }
            }
            Push::TooLarge => {
                self.pushes.room = 0;
                self.announce = Some((now, None));
                // The tick that called this sends it.
            }
        }
    }

    /// Whether a push takes a frame on the peer's link.
    fn is_pushed_to(&self, peer: &Session) -> bool {
        #[cfg(feature = "members")]
        if self.follows(peer.link) {
            return false;
        }
        !peer.broadcast
    }

    /// Whether a push of this size may be sent on all links. Each link takes a copy.
    fn has_room_for(&self, bytes: usize) -> bool {
        let links = self
            .open_sessions()
            .filter(|peer| self.is_pushed_to(peer))
            .count();
        let most = (COPIES_BYTES_MAX / links.max(1)).max(PUSH_BYTES_MAX);
        bytes <= most.min(FRAME_BYTES_MAX)
    }

    /// Sends a push to all peers that may lack it. These are not its source, and not the peers that the
    /// broadcast reaches, which get it by the broadcast. Keyed operations are only for nodes.
    fn pass_on(
        &mut self,
        replica: &Replica,
        from: Option<Link>,
        broadcast: bool,
        message: &Message,
        bytes: &[u8],
    ) {
        let mut plain: Option<Vec<u8>> = None;
        let mut reached = broadcast;
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            if peer.hello.is_none() || Some(peer.link) == from {
                continue;
            }
            #[cfg(feature = "members")]
            if self.follows(peer.link) {
                continue;
            }
            if !self.hands_over(peer.link, message) {
                continue;
            }
            if MEMBERS && peer.broadcast && !self.is_limited(peer.link) {
                if !reached {
                    reached = true;
                    let bytes = bytes.to_vec();
                    self.outputs.push(Output::Broadcast { bytes });
                }
            } else if message.keyed.is_empty() || self.keeps_keys(peer.link) {
                self.send_bytes(peer.link, bytes.to_vec());
            } else {
                let link = peer.link;
                let plain = plain.get_or_insert_with(|| {
                    encode(replica.space(), &Body::Push(message.without_keys()))
                });
                self.send_bytes(link, plain.clone());
            }
        }
    }

    /// Handles a push.
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
            // A dropped push is pulled later.
            let oldest = pushes.waiting.remove(0);
            pushes.waiting_bytes -= oldest.bytes.len();
        }
        if let Some(link) = from {
            self.lacks(now, link);
        }
        Ok(())
    }

    /// Handles a push that builds on something missing here. Usually the missing part is under way, by
    /// another link or behind this push.
    pub(super) fn lacks(&mut self, now: Millis, link: Link) {
        let patience = Millis::from(self.config.push_delay_ms) << PATIENCE_DOUBLINGS;
        self.pushes.lacking.get_or_insert((now + patience, link));
    }

    /// Asks for the missing transactions for which pushes have waited long enough.
    pub(super) fn ask_for_lacking(&mut self, now: Millis, replica: &Replica) {
        if let Some((_, link)) = self.pushes.lacking.take_if(|(at, _)| *at <= now) {
            self.end_rests();
            self.want(now, replica, link);
        }
    }

    /// A start that has announced itself has caught up. It may have been rejected before for too old a state.
    /// Then the machine may pull from it again.
    fn end_rests(&mut self) {
        for waiting in self.pushes.waiting.iter().filter(|_| GUESTS) {
            let message = &waiting.message;
            let mut records = message.records().iter();
            let announced =
                records.find(|record| matches!(record.statement, Statement::Announce(_)));
            let writer =
                announced.map(|record| message.delta.writers[record.writer as usize].writer);
            for peer in &mut self.peers {
                let is_its = |it: &PeerHello| Some(it.writer) == writer;
                if peer.hello.as_ref().is_some_and(is_its) {
                    peer.rests = false;
                }
            }
        }
    }

    /// Merges a push and passes it on. Returns false if it builds on something missing.
    fn take(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        from: Option<Link>,
        broadcast: bool,
        message: &Message,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        if !replica.members().news(message) {
            #[cfg(feature = "members")]
            self.compare_known(replica, from, message);
            return Ok(true);
        }
        #[cfg(feature = "members")]
        let raised = {
            self.attribute(replica, None);
            replica.state.raised_by(&message.delta)
        };
        let new = self.new_of(replica, from, message);
        let changes = &mut self.changed;
        let mut changed = |key_id| changes.push(key_id);
        let live = origin(message);
        match replica.merge_with(message, live, &mut changed) {
            Ok(merged) => {
                self.count_writers(replica, from, &new);
                #[cfg(feature = "members")]
                {
                    self.attribute(replica, from);
                    self.note_raised(replica, from, &raised);
                }
                let shards = merged.shards;
                self.outputs.push(Output::Merged { link: from, shards });
                #[cfg(feature = "members")]
                self.round_soon(now);
                match !MEMBERS || self.has_room_for(bytes.len()) {
                    true => self.pass_on(replica, from, broadcast, message, bytes),
                    false => self.announce_soon(now, from),
                }
                self.withdraw(now, replica);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotCovered | ErrorKind::Unsure) => {
                Ok(false)
            }
            Err(error) => {
                let done = self.not_merged(now, replica, from, message, live, error);
                done.map(|()| true)
            }
        }
    }

    /// Retries the waiting pushes after a merge.
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
        self.pushes.lacking = None;
        let lacking = self.pushes.waiting.iter().find_map(|waiting| waiting.from);
        if let Some(link) = lacking {
            self.lacks(now, link);
        }
    }
}

#[cfg(test)]
mod tests;
