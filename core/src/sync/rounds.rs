//! Rounds: a link is a change mark, not a queue of frames.
//!
//! Pages and other guests of a node receive what changed in rounds. A round is one delta, from a mark in this
//! replica's own order of changes up to now. All links at that mark get the same bytes. Changes to one counter in
//! between conflate. A link that has not taken its last round gets none, and stays at its mark. So load makes rounds
//! longer and fewer. It makes no queue.
//!
//! # What it guarantees
//! - A round names what it builds on by a *position*, the number of a mark in this process. A receiver merges a
//!   round only if it [follows](super::follow) this replica from that position. So it always shows a causal cut.
//! - A round with all that the next collection drops goes before it ([`SyncMachine::close_rounds`]). Links at older marks leave
//!   the rounds then, and pull.
//! - A member acknowledges nothing that its last rounds may not have brought to their receivers yet
//!   ([`SyncMachine::note_pages`]). So it can admit a page with the page's first transaction.
//! - At most [`MARKS_MAX`] marks are kept. Links at more marks than these get rounds from an earlier mark than their own.
//!
//! Nodes that keep idempotency keys get [pushes](super::push), which carry these and are passed on unchanged.
//!
//! # What it follows
//! Delta intervals of each neighbour (Almeida, Shoker, Baquero 2018), with one buffer for all neighbours at one
//! mark.

use super::scope::ScopeChecks;
use super::{Body, Digests, FrameBytes, Link, Millis, Session, SyncMachine};
use crate::bounds::FRAME_BYTES_MAX;
use crate::replica::{Mark, Push, Replica};
use crate::state::vector::VersionVector;
use crate::wire::{Followed, Names, Position, Round, encode};
use crate::writer_id::WriterId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Whether this program makes rounds. The members in the stories of the demo page have few links, and no room for the
/// code. They send pushes to each other.
const MAKES_ROUNDS: bool = !cfg!(target_family = "wasm");

/// Shortest time in milliseconds between two rounds.
const BETWEEN_MS: Millis = 10;
/// The time between two rounds is at least a millisecond for each such number of links. A send on a link takes about
/// ten microseconds, so rounds take at most some 40 % of a core.
const LINKS_FOR_EACH_MS: Millis = 40;

/// Shortest time in milliseconds between two digests that tell news to peers that follow and are not in the rounds.
/// Such a peer is usually about to be sent everything.
const OUTSIDE_MS: Millis = 250;

/// Most marks that are kept. Each has eight bytes for each writer.
const MARKS_MAX: usize = 8;

/// A page is taken to have a round so many milliseconds after that was made. Lower has more pages rejoin that count for the
/// first time on a slow link. Higher delays acknowledgements, and so collection and members' starts.
const TAKEN_MS: Millis = 500;

/// Most rounds of which the members' clocks are kept. Between two looks at a member's duties there are at most some hundred.
const MADE_MAX: usize = 128;

/// Most positions of which the members' clocks are kept, for guests that report how far they have followed.
const POSITIONS_MAX: usize = 64;

/// A link of a peer that follows rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// The position up to which the peer was sent everything. `None` while it is not in the rounds.
    position: Option<u64>,
    /// Whether the link has not taken its last round.
    busy: bool,
    /// The number of the last collection that it was told of.
    collection: u64,
    /// Whether what it answered to the last pull builds on something missing here. A peer that follows does not pull
    /// when there is news, so this replica asks it again.
    waits: bool,
}

impl Sent {
    pub(super) fn is_in_rounds(&self) -> bool {
        self.position.is_some()
    }

    /// Whether something is to be done about the peer, beside the rounds, when there is news: a digest, or another pull.
    pub(super) fn needs_news(&self) -> bool {
        self.waits || !self.is_in_rounds()
    }
}

/// The marks of the rounds.
#[derive(Clone, Default)]
pub(super) struct Rounds {
    /// The marks that links are at, with their positions, ascending. The last one is the present position.
    marks: Vec<(u64, Mark)>,
    /// The last position. Each is used once.
    position: u64,
    due: Option<Millis>,
    /// When the last round was made.
    last: Millis,
    /// When peers that are not in the rounds may be told again that there is news.
    outside: Millis,
    /// The number of the last collection, and the horizon since then.
    collection: u64,
    horizon: VersionVector,
    /// The members' clocks at positions that were told to guests, the oldest first.
    told: VecDeque<(u64, Vec<(WriterId, u64)>)>,
    /// The members' clocks in the last rounds, and when each was made, the oldest first.
    made: VecDeque<(Millis, Vec<(WriterId, u64)>)>,
}

impl Rounds {
    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }

    /// Leaves the marks that no link needs. The last one stays.
    fn drop_unused(&mut self, used: impl Fn(u64) -> bool) {
        let last = self.position;
        self.marks.retain(|it| it.0 == last || used(it.0));
    }
}

impl SyncMachine {
    /// Whether a round is due, so that the program says first which links have not taken the last one
    /// ([`note_busy`](SyncMachine::note_busy)).
    pub fn is_round_due(&self, now: Millis) -> bool {
        self.rounds.due.is_some_and(|due| due <= now)
    }

    /// Notes whether a link's transport still has frames that it has not sent. A busy link gets no round. It gets one
    /// with everything since its last one when it is not busy any more.
    pub fn note_busy(&mut self, link: Link, busy: bool) {
        if let Some(peer) = self.peer_mut(link) {
            peer.sent.busy = busy;
        }
    }

    /// Whether the peer gets what changed in rounds.
    pub(super) fn follows(&self, link: Link) -> bool {
        let peer = self.peer(link).filter(|peer| !peer.broadcast);
        let takes = peer
            .and_then(|peer| peer.hello.as_ref())
            .is_some_and(|it| it.follows);
        MAKES_ROUNDS && takes && !self.keeps_keys(link) && self.only(link).is_none()
    }

    /// Whether the peer is in the rounds, so that it needs no push and no digest to learn of news.
    pub(super) fn is_in_rounds(&self, link: Link) -> bool {
        self.peer(link).is_some_and(|peer| peer.sent.is_in_rounds())
    }

    /// Makes a round soon, because something changed.
    pub(super) fn round_soon(&mut self, now: Millis) {
        if self.rounds.due.is_none() && self.open_sessions().any(|peer| self.follows(peer.link)) {
            let soon = now + Millis::from(self.config.push_delay_ms);
            self.rounds.due = Some(soon.max(self.next_round()));
        }
    }

    /// The earliest time of the next round.
    fn next_round(&self) -> Millis {
        let links = self.peers.len() as Millis;
        self.rounds.last + BETWEEN_MS.max(links / LINKS_FOR_EACH_MS)
    }

    /// Takes a link's peer into the rounds, which was just sent everything, or has the same state.
    pub(super) fn joins_rounds(&mut self, replica: &mut Replica, link: Link, pull: u32) {
        if !self.follows(link) {
            return;
        }
        if !self.peers.iter().any(|peer| peer.sent.is_in_rounds()) {
            // A mark from long ago would make the next round large.
            self.rounds.position += 1;
            self.rounds.marks.clear();
            let mark = replica.mark();
            self.rounds.marks.push((self.rounds.position, mark));
            self.rounds.made.clear();
            self.note_made(0, replica);
        }
        let at = self.rounds.position;
        if let Some(peer) = self.peer_mut(link) {
            peer.sent.position = Some(at);
        }
        // The receiver of a transfer looks at no digest.
        let vector = match pull {
            0 => replica.cached_digest(),
            _ => [0; 16],
        };
        self.tell_position(
            replica,
            link,
            pull,
            Digests {
                vector,
                contents: 0,
            },
        );
    }

    fn tell_position(&mut self, replica: &Replica, link: Link, pull: u32, digests: Digests) {
        let (at, collection) = (self.rounds.position, self.rounds.collection);
        let mut stable = VersionVector::default();
        let peer = self.peer_mut(link).filter(|_| pull == 0);
        if peer
            .is_some_and(|it| core::mem::replace(&mut it.sent.collection, collection) < collection)
        {
            stable = self.rounds.horizon.clone();
        }
        let position = Position {
            at,
            pull,
            digests,
            stable,
        };
        self.send(replica, link, Body::Position(position));
    }

    /// Notes that something was collected directly after the last round, so that whoever follows up to there may drop
    /// the same. Otherwise a page would keep it, and pull for the difference.
    pub(super) fn note_collected(&mut self, replica: &Replica) {
        self.rounds.collection += 1;
        self.rounds.horizon = replica.membership.horizon_vector(&replica.state);
    }

    /// Sends a link's peer in the rounds the present position with the digests, in place of a digest. A busy link gets
    /// it when it is due again.
    pub(super) fn send_position(&mut self, replica: &Replica, link: Link, digests: Digests) {
        let sent = self
            .peer(link)
            .map(|peer| peer.sent.clone())
            .unwrap_or_default();
        if sent.busy || sent.position != Some(self.rounds.position) {
            return;
        }
        let Some((at, mark)) = self.rounds.marks.last() else {
            return;
        };
        if self.rounds.told.back().is_none_or(|it| it.0 != *at) {
            self.rounds.told.push_back((*at, replica.members_at(mark)));
            if self.rounds.told.len() > POSITIONS_MAX {
                self.rounds.told.pop_front();
            }
        }
        self.tell_position(replica, link, 0, digests);
    }

    /// Handles a guest's report that it has everything up to a position.
    pub(super) fn followed_came(&self, replica: &mut Replica, link: Link, followed: Followed) {
        let Some(writer) = self.writer_of(link) else {
            return;
        };
        let mut told = self.rounds.told.iter();
        let Some((_, clocks)) = told.find(|it| it.0 == followed.at) else {
            return;
        };
        // Something that it had made before may still be on its way here.
        if replica.members().is_member() && replica.state.held(&writer) >= followed.clock {
            let seen = |writer: &WriterId| {
                let known = clocks.iter().find(|it| it.0 == *writer);
                known.map_or(0, |it| it.1)
            };
            replica
                .membership
                .note_clocks(&replica.state, &writer, &seen);
        }
    }

    /// Notes that what a link's peer answered to a pull builds on something missing here. Only a limited peer leaves
    /// that out of its answer.
    pub(super) fn note_waits(&mut self, link: Link) {
        let limited = self.is_held_to(link);
        if let Some(peer) = self.peer_mut(link) {
            peer.sent.waits = limited;
        }
    }

    /// Asks a link's peer again for what built on something missing here, because there is news.
    pub(super) fn ask_again(&mut self, now: Millis, replica: &Replica, link: Link) {
        let waiting = self.peer_mut(link).filter(|peer| peer.sent.waits);
        if let Some(peer) = waiting {
            (peer.sent.waits, peer.rests) = (false, false);
            self.want(now, replica, link);
        }
    }

    /// Takes all links out of the rounds, because their marks do not belong to the present state.
    pub(super) fn end_rounds(&mut self, now: Millis) {
        if self.rounds.marks.is_empty() {
            return;
        }
        self.rounds.marks.clear();
        self.rounds.made.clear();
        self.rounds.due = None;
        for peer in &mut self.peers {
            peer.sent.position = None;
        }
        self.announce_soon(now, None);
    }

    /// Makes the last round before something is collected. No later one could carry what was made and collected
    /// meanwhile.
    pub(super) fn close_rounds(&mut self, now: Millis, replica: &mut Replica) {
        if self.is_unsent() {
            return self.end_rounds(now);
        }
        self.make_round(now, replica);
        let last = self.rounds.position;
        let mut left = false;
        for peer in &mut self.peers {
            left |= peer.sent.position.take_if(|it| *it != last).is_some();
        }
        self.rounds.drop_unused(|_| false);
        if left {
            self.announce_soon(now, None);
        }
    }

    /// Makes a round if it is time.
    pub(super) fn send_rounds(&mut self, now: Millis, replica: &mut Replica) {
        if self.rounds.due.take_if(|due| *due <= now).is_some() {
            self.make_round(now, replica);
        }
    }

    fn make_round(&mut self, now: Millis, replica: &mut Replica) {
        if !MAKES_ROUNDS || self.is_unsent() {
            return;
        }
        self.rounds.last = now;
        // Others learn from a digest that there is something to pull, and some are asked again.
        let outside = |peer: &Session| peer.sent.needs_news() && self.follows(peer.link);
        if self.open_sessions().any(outside) {
            match self.rounds.outside <= now {
                true => {
                    self.rounds.outside = now + OUTSIDE_MS;
                    self.announce_soon(now, None);
                }
                false => self.rounds.due = Some(self.rounds.outside),
            }
        }
        if !self.peers.iter().any(|peer| peer.sent.is_in_rounds()) {
            self.rounds.marks.clear();
            return;
        }
        let from = self.rounds.position;
        let changed = self
            .rounds
            .marks
            .last()
            .is_some_and(|it| replica.has_news(&it.1));
        let to = from + u64::from(changed);
        for at in 0..self.rounds.marks.len() {
            self.send_round(now, replica, at, to);
        }
        let is_used = |of: u64| self.peers.iter().any(|peer| peer.sent.position == Some(of));
        if changed {
            let stays = is_used(from);
            let marks = &mut self.rounds.marks;
            match marks.last_mut() {
                Some((position, mark)) if !stays => {
                    *position = to;
                    replica.move_mark(mark);
                }
                _ => marks.push((to, replica.mark())),
            }
            self.rounds.position = to;
            self.note_made(now, replica);
        }
        let peers = &self.peers;
        self.rounds
            .drop_unused(|of| peers.iter().any(|peer| peer.sent.position == Some(of)));
        if self.rounds.marks.len() > MARKS_MAX {
            self.join_marks();
        }
        if self.rounds.marks.len() > 1 {
            let next = self.next_round();
            self.rounds.due = Some(self.rounds.due.map_or(next, |due| due.min(next)));
        }
    }

    /// Moves the links at one mark to the mark before it. Their next round has something that they have already, which
    /// does no harm. It takes the two marks that are closest to each other, as that is least.
    fn join_marks(&mut self) {
        let marks = &mut self.rounds.marks;
        let later = 1..marks.len() - 1; // the last one is the present position
        let Some(later) = later.min_by_key(|at| marks[*at].0 - marks[at - 1].0) else {
            return;
        };
        let (from, to) = (marks.remove(later).0, marks[later - 1].0);
        for peer in &mut self.peers {
            if peer.sent.position == Some(from) {
                peer.sent.position = Some(to);
            }
        }
    }

    fn note_made(&mut self, now: Millis, replica: &Replica) {
        if let Some((_, mark)) = self.rounds.marks.last() {
            let clocks = replica.members_at(mark);
            self.rounds.made.push_back((now, clocks));
        }
        if self.rounds.made.len() > MADE_MAX {
            // The oldest one stays, so that nothing is acknowledged too early.
            self.rounds.made.remove(1);
        }
    }

    /// Says which of the members' transactions the pages in the rounds have. This member acknowledges no more: members
    /// admit a page with its first transaction, if it had seen all that they had acknowledged.
    pub(super) fn note_pages(&mut self, now: Millis, replica: &mut Replica) {
        let made = &mut self.rounds.made;
        if !self.peers.iter().any(|peer| peer.sent.is_in_rounds()) {
            made.clear();
        }
        while made.get(1).is_some_and(|it| it.0 + TAKEN_MS <= now) {
            made.pop_front();
        }
        let have = made.front().map(|it| it.1.clone());
        replica.membership.note_pages(have);
    }

    /// Sends all links at a mark that are not busy what changed since then.
    fn send_round(&mut self, now: Millis, replica: &Replica, mark: usize, to: u64) {
        let (from, ref mark) = self.rounds.marks[mark];
        if from == to {
            return;
        }
        let at_mark = |sent: &Sent| sent.position == Some(from) && !sent.busy;
        let peers = self.peers.iter().filter(|peer| at_mark(&peer.sent));
        let links: Vec<Link> = peers.map(|peer| peer.link).collect();
        if links.is_empty() {
            return;
        }
        let bytes = match replica.round(mark) {
            Push::Message(message) => {
                let find = |first: &_, last: &_| replica.state.only_within(first, last);
                let is_known = |writer: &_| replica.had(mark, writer);
                let names = Names::of(&message, replica.state.writer_count(), find, is_known);
                let round = Round {
                    from,
                    to,
                    names,
                    message,
                };
                Some(encode(replica.space(), &Body::Round(round)))
            }
            _ => None,
        };
        let bytes = bytes.filter(|bytes| bytes.len() <= FRAME_BYTES_MAX);
        let bytes = bytes.map(frame_bytes);
        for link in links {
            let position = bytes.is_some().then_some(to);
            if let Some(peer) = self.peer_mut(link) {
                peer.sent.position = position;
            }
            match &bytes {
                Some(bytes) => self.send_bytes(link, FrameBytes::clone(bytes)),
                // It pulls.
                None => self.announce_soon(now, None),
            }
        }
    }
}

/// The bytes of a frame for several links.
fn frame_bytes(bytes: impl Into<FrameBytes>) -> FrameBytes {
    bytes.into()
}

#[cfg(test)]
pub(super) mod tests;
