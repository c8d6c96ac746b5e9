//! Pulls: requesting from a peer what is missing here, chunk by chunk.
//!
//! One pull is open at a time, so the same shards are not fetched from two peers. A peer that does not answer
//! holds up no other one: after a while its pull is laid aside, and the next peer is asked. A late answer
//! still counts.

use super::scope::{ScopeChecks, WriterShares};
use super::{Body, Delta, Link, Millis, Output, Pull, SyncMachine};
use crate::bounds::STAGE_BYTES_MAX;
use crate::error::{DecodeError, Error, ErrorKind, Limited, detail};
use crate::message::Message;
use crate::optional::{GUESTS, MEMBERS, MemberPart, Optional};
use crate::replica::{Merged, Replica};
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Bytes that a staged chunk counts beside its own, so that many tiny chunks count as well.
const CHUNK_OVERHEAD_BYTES: usize = 64;

/// Time in milliseconds that a pull may be open without an answer while another peer waits. Lower fetches the
/// same from more peers where links are slow. Higher lets silent peers hold up others.
const PATIENCE: Millis = 100;
/// This time gets shorter as more peers wait: its divisor grows by one for each such number of peers.
const WAITING_FOR_EACH: usize = 4;

/// A transfer in chunks yields to waiting peers if it has brought fewer bytes than this for each millisecond
/// after the first ten seconds: 125 KiB a second. Higher cuts off slow networks. Lower lets a peer that
/// brings next to nothing hold up others.
const TURN_BYTES: usize = 128;
/// Time in milliseconds that each transfer has in any case. A transfer that yielded goes on after this time.
const TURN_MS: Millis = 10_000;
/// Whether transfers yield. A page has few peers, and no room for the code.
const TURNS: bool = MEMBERS && !cfg!(target_family = "wasm");

/// After a transfer, the machine pulls nothing for a millisecond for each such number of its bytes, 2 MiB a
/// second. So both sides have time for writes.
const REST_BYTES: usize = 2048;
/// Upper bound of this rest, in milliseconds.
const REST_MAX: Millis = 30_000;

/// The open pull, and the peers for the next pulls.
#[derive(Clone, Default)]
pub(super) struct Pulls {
    open: Option<Open>,
    /// Pulls without an answer so far, which were laid aside. At most one of these and the open one has
    /// staged chunks.
    aside: MemberPart<Vec<Open>>,
    /// Peers whose answer comes in chunks. The machine pulls from them again when another peer's chunks are
    /// merged.
    waiting: MemberPart<Vec<Link>>,
    /// Peers whose transfer yielded to these, and when the machine pulls from each again.
    yielded: MemberPart<Vec<(Link, Millis)>>,
    /// A broken transfer. It goes on if the same process connects again before its deadline.
    broken: Option<Open>,
    /// The peers for the next pulls, in order.
    wanted: Vec<Link>,
    /// The machine pulls nothing before this time.
    rests_until: Millis,
    next_id: u32,
}

#[derive(Clone)]
struct Open {
    link: Link,
    /// The process that answers.
    session: u64,
    id: u32,
    /// The number of the next chunk.
    chunk: u32,
    /// The chunks so far, encoded. They are merged all at once when the last chunk is there.
    staged: Vec<Vec<u8>>,
    staged_bytes: usize,
    /// When the first chunk arrived.
    since: Millis,
    /// Writers left out of the vector of the request.
    whole: MemberPart<Vec<WriterId>>,
    /// Whether it was broken and nothing has arrived since.
    resumed: bool,
    deadline: Millis,
}

impl Open {
    /// The time at which it is laid aside if this number of other peers wait.
    fn yields(&self, timeout: Millis, waiting: usize) -> Millis {
        let patience = PATIENCE / (1 + waiting / WAITING_FOR_EACH) as Millis;
        (self.deadline + patience)
            .saturating_sub(timeout)
            .min(self.deadline)
    }

    /// Whether it brings so little that it yields to waiting peers.
    fn is_slow(&self, now: Millis) -> bool {
        let counted = now.saturating_sub(self.since + TURN_MS) as usize;
        self.staged_bytes < counted.saturating_mul(TURN_BYTES)
    }
}

impl Pulls {
    /// When pulls need a tick. `timeout` is the maximum time for an answer.
    pub(super) fn deadline(&self, timeout: Millis) -> Option<Millis> {
        let next = match &self.open {
            Some(open) if self.wanted.is_empty() || !MEMBERS => Some(open.deadline),
            Some(open) => Some(
                open.yields(timeout, self.wanted.len())
                    .max(self.rests_until),
            ),
            None if self.wanted.is_empty() => None,
            None => Some(self.rests_until),
        };
        let aside = self.aside.iter().map(|open| open.deadline).min();
        let yielded = self.yielded.iter().map(|(_, until)| *until).min();
        let broken = self.broken.as_ref().filter(|broken| self.is_idle(broken));
        let broken = broken.map(|broken| broken.deadline);
        [next, aside, yielded, broken].into_iter().flatten().min()
    }

    /// Whether no pull for the rest of a broken transfer is about to begin.
    fn is_idle(&self, broken: &Open) -> bool {
        !self.waiting.contains(&broken.link) && !self.wanted.contains(&broken.link)
    }

    /// Stores the staged chunks of a transfer until a time, in case its process connects again.
    fn breaks(&mut self, open: Open, until: Millis) {
        self.broken = Some(Open {
            deadline: until,
            ..open
        });
    }

    /// Ends the rest between transfers, because a caller waits.
    #[cfg(feature = "members")]
    pub(super) fn end_rest(&mut self, now: Millis) {
        self.rests_until = self.rests_until.min(now);
    }

    /// Pulls from this peer before any other, and at once. The open pull may be at a peer that never answers.
    pub(super) fn put_first(&mut self, now: Millis, link: Link) {
        self.take(link);
        self.rests_until = self.rests_until.min(now);
        self.wanted.extend(self.open.take().map(|open| open.link));
        self.wanted.retain(|wanted| *wanted != link);
        self.yielded.update(|it| it.retain(|it| it.0 != link));
        self.wanted.insert(0, link);
    }

    /// Whether the machine awaits an answer of this peer.
    pub(super) fn is_from(&self, link: Link) -> bool {
        let is_from = |open: &Open| open.link == link;
        self.open.as_ref().is_some_and(is_from) || self.aside.iter().any(is_from)
    }

    /// Ends the pull from this peer, if there is one.
    fn take(&mut self, link: Link) -> Option<Open> {
        let open = self.open.take_if(|open| open.link == link);
        if open.is_some() {
            return open;
        }
        let at = self.aside.iter().position(|open| open.link == link)?;
        self.aside.update(|it| it.remove(at))
    }

    /// Ends a pull that got no answer in time, if there is one.
    fn take_late(&mut self, now: Millis) -> Option<Open> {
        let is_late = |open: &Open| open.deadline <= now;
        if self.open.as_ref().is_some_and(is_late) {
            return self.open.take();
        }
        let at = self.aside.iter().position(is_late)?;
        self.aside.update(|it| it.remove(at))
    }

    /// Lays the open pull aside if it has waited for long enough and another peer waits.
    fn lay_aside(&mut self, now: Millis, timeout: Millis) {
        if MEMBERS && !self.wanted.is_empty() && self.rests_until <= now {
            let waiting = self.wanted.len();
            let open = self
                .open
                .take_if(|open| open.yields(timeout, waiting) <= now);
            self.aside.update(|it| it.extend(open));
        }
    }

    /// Makes the pull that a chunk answers the open one. Returns false if there is none.
    fn answered(&mut self, link: Link, (id, chunk): (u32, u32)) -> bool {
        let expected = |open: &Open| (open.link, open.id, open.chunk) == (link, id, chunk);
        if self.open.as_ref().is_some_and(expected) {
            return true;
        }
        let at = self.aside.iter().position(expected);
        let Some((at, aside)) = at.zip(self.aside.get_mut()) else {
            return false; // late or repeated
        };
        let before = self.open.replace(aside.remove(at));
        aside.extend(before);
        true
    }

    /// Whether chunks of an unfinished transfer are staged.
    fn is_staging(&self) -> bool {
        let mut all = self.open.iter().chain(self.aside.iter());
        all.any(|open| open.chunk > 0)
    }

    /// Whether the first chunk of the open pull may be staged. A broken transfer of which nothing has arrived
    /// since makes room: its staged chunks wait until `until`.
    fn may_stage(&mut self, until: Millis) -> bool {
        let Some(at) = self.aside.iter().position(|open| open.chunk > 0) else {
            return true;
        };
        if !self.aside[at].resumed {
            return false;
        }
        if let Some(resumed) = self.aside.update(|it| it.remove(at)) {
            self.waiting.update(|it| it.push(resumed.link));
            self.breaks(resumed, until);
        }
        true
    }

    /// Queues the peers that waited for the end of a transfer, if none is under way any more. Also queues the
    /// peers that yielded for long enough.
    fn end_waiting(&mut self, now: Millis) {
        if !self.waiting.is_empty() && !self.is_staging() {
            for link in self.waiting.take() {
                if !self.wanted.contains(&link) {
                    self.wanted.push(link);
                }
            }
        }
        while let Some(link) = self.take_due_again(now) {
            if !self.wanted.contains(&link) && !self.is_from(link) {
                self.wanted.push(link);
            }
        }
    }

    /// Removes and returns a peer that yielded for long enough.
    fn take_due_again(&mut self, now: Millis) -> Option<Link> {
        let at = self.yielded.iter().position(|(_, until)| *until <= now)?;
        self.yielded.update(|it| it.remove(at).0)
    }

    /// Ends the turn of the open transfer. It goes on later from its present place.
    fn yields(&mut self, now: Millis, until: Millis) {
        if let Some(open) = self.open.take() {
            self.yielded
                .update(|it| it.push((open.link, now + TURN_MS)));
            self.breaks(open, until);
        }
    }

    #[cfg(test)]
    pub(super) fn is_wanted(&self, link: Link) -> bool {
        self.wanted.contains(&link)
    }

    /// Handles a closed link. Chunks staged from it wait until `resumes_until` for its process to connect
    /// again, or are dropped if that is `None`.
    pub(super) fn gone(&mut self, link: Link, resumes_until: Option<Millis>) {
        let at = self.wanted.iter().position(|wanted| *wanted == link);
        if let Some(at) = at {
            self.wanted.remove(at);
        }
        self.waiting.update(|it| it.retain(|it| *it != link));
        self.yielded.update(|it| it.retain(|it| it.0 != link));
        if let Some(open) = self.take(link)
            && open.chunk > 0
            && let Some(until) = resumes_until
        {
            self.breaks(open, until);
        }
    }

    /// Whether a broken transfer can go on with this process. The transfer then belongs to `link`.
    pub(super) fn resume(&mut self, link: Link, session: u64) -> bool {
        match &mut self.broken {
            Some(broken) if broken.session == session => {
                broken.link = link;
                true
            }
            _ => false,
        }
    }

    /// Lays aside a pull without an answer. Drops the staged chunks of a broken transfer if its process has
    /// not connected again within `resume`.
    pub(super) fn time_out(&mut self, now: Millis, resume: Millis) {
        let late = |broken: &Open| broken.deadline <= now && self.is_idle(broken);
        if self.broken.as_ref().is_some_and(late) {
            self.broken = None;
        }
        while let Some(late) = self.take_late(now) {
            // Other peers come first, and then the late one again, from its present place.
            self.wanted.push(late.link);
            // A resumed pull without an answer is forgotten at the peer, so it begins anew.
            if late.chunk > 0 && !late.resumed {
                self.breaks(late, now + resume);
            }
        }
    }
}

impl SyncMachine {
    /// Queues a pull from this peer, because it has something that is missing here.
    pub(super) fn want(&mut self, now: Millis, replica: &Replica, link: Link) {
        if !self.may_be_asked(link) {
            return;
        }
        let rests = GUESTS && self.peer(link).is_some_and(|peer| peer.rests);
        if rests && !self.wants_all(replica, link) {
            return;
        }
        let yielded = self.pulls.yielded.iter().any(|(it, _)| *it == link);
        let waits = yielded || self.pulls.waiting.contains(&link);
        if !waits && !self.pulls.wanted.contains(&link) && !self.pulls.is_from(link) {
            self.pulls.wanted.push(link);
        }
        self.pull_next(now, replica);
    }

    /// Repeats a pull after the peer has named another writer for itself. The answer to the pull before would
    /// concern the writer before.
    pub(super) fn pull_again(&mut self, now: Millis, replica: &Replica, link: Link) {
        if self.pulls.take(link).is_some() {
            self.want(now, replica, link);
        }
    }

    /// Opens the next pull if none is open, or if the open one has waited for long enough.
    pub(super) fn pull_next(&mut self, now: Millis, replica: &Replica) {
        self.pulls.end_waiting(now);
        self.pulls
            .lay_aside(now, Millis::from(self.config.pull_timeout_ms));
        while self.pulls.open.is_none() && self.pulls.rests_until <= now {
            if self.pulls.wanted.is_empty() {
                return;
            }
            let link = self.pulls.wanted.remove(0);
            let Some(session) = self.session_of(link) else {
                continue;
            };
            // A second request would end the transfer of the first one.
            if self.pulls.is_from(link) {
                continue;
            }
            let is_broken = |it: &Open| it.link == link;
            if MEMBERS
                && self.pulls.broken.as_ref().is_some_and(is_broken)
                && self.pulls.is_staging()
            {
                self.pulls.waiting.update(|it| it.push(link));
                continue;
            }
            let deadline = now + Millis::from(self.config.pull_timeout_ms);
            let open = match self.pulls.broken.take_if(|broken| broken.link == link) {
                Some(broken) => Open {
                    deadline,
                    resumed: true,
                    ..broken
                },
                None => {
                    self.pulls.next_id = self.pulls.next_id.wrapping_add(1);
                    Open {
                        link,
                        session,
                        id: self.pulls.next_id,
                        chunk: 0,
                        staged: Vec::new(),
                        staged_bytes: 0,
                        since: now,
                        whole: match self.peer(link) {
                            Some(peer) => peer.whole.clone(),
                            _ => MemberPart::default(),
                        },
                        resumed: false,
                        deadline,
                    }
                }
            };
            let (id, chunk) = (open.id, open.chunk);
            let vector = match self.wants_all(replica, link) {
                true => VersionVector::default(),
                false => self.vector_for(replica, link, &open.whole),
            };
            self.pulls.open = Some(open);
            self.asks(link, replica);
            self.send(replica, link, Body::Pull(Pull { id, chunk, vector }));
        }
    }

    pub(super) fn session_of(&self, link: Link) -> Option<u64> {
        Some(self.peer(link)?.hello.as_ref()?.session)
    }

    /// Handles a chunk that arrived in a frame of `bytes` bytes.
    pub(super) fn delta(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        delta: Delta,
        bytes: usize,
    ) -> Result<(), Error> {
        let timeout = Millis::from(self.config.pull_timeout_ms);
        if !self.pulls.answered(link, (delta.id, delta.chunk)) {
            return Ok(());
        }
        let until = now + Millis::from(self.config.resume_ms);
        if delta.chunk == 0 && !delta.last && !self.pulls.may_stage(until) {
            self.pulls.open = None;
            self.pulls.waiting.update(|it| it.push(link));
            self.pull_next(now, replica);
            return Ok(());
        }
        let Some(open) = self.pulls.open.as_mut() else {
            return Ok(());
        };
        open.deadline = now + timeout;
        open.resumed = false;
        let first = open.chunk == 0;
        if first {
            open.since = now;
        }
        if let Err(error) = self.stage_writers(replica, link, (&delta.message, first)) {
            self.pulls.open = None;
            return Err(error);
        }
        let Some(open) = self.pulls.open.as_mut() else {
            return Ok(());
        };
        self.guests.update(|it| it.chunk_came(now, link));
        if !delta.last {
            let bytes = delta.message.encode();
            open.staged_bytes += bytes.len() + CHUNK_OVERHEAD_BYTES;
            if open.staged_bytes > STAGE_BYTES_MAX {
                let size = open.staged_bytes;
                self.pulls.open = None;
                return Err(DecodeError::TooLarge {
                    what: detail(Limited::Transfer),
                    size: detail(size),
                    max: detail(STAGE_BYTES_MAX),
                }
                .into());
            }
            open.staged.push(bytes);
            open.chunk += 1;
            if TURNS && !self.pulls.waiting.is_empty() && open.is_slow(now) {
                self.pulls.yields(now, until);
                self.pull_next(now, replica);
                return Ok(());
            }
            let (id, chunk) = (delta.id, open.chunk);
            self.send(replica, link, Body::More { id, chunk });
            return Ok(());
        }
        let staged = core::mem::take(&mut open.staged);
        let whole = core::mem::take(&mut open.whole);
        #[cfg(feature = "guests")]
        let id = open.id;
        let complete = delta
            .message
            .delta
            .writers
            .iter()
            .all(|entry| entry.lo == 0);
        // A replica that had nothing yet pulls soon what was written meanwhile.
        if !complete {
            let rest = ((open.staged_bytes + bytes) / REST_BYTES) as Millis;
            self.pulls.rests_until = now + rest.min(REST_MAX);
        }
        self.pulls.open = None;
        if complete && self.wants_all(replica, link) {
            self.begin_again(now, replica, link, (&staged, &delta.message));
            #[cfg(feature = "guests")]
            self.merged_pull(link, id);
            return Ok(());
        }
        let result = self.commit(now, replica, link, staged, &delta.message);
        if let Ok(merged) = result {
            self.healed(now, replica, link, &whole, merged.unwrap_or(0));
            #[cfg(feature = "guests")]
            if merged.is_some() {
                self.merged_pull(link, id);
            }
        }
        // Pulls writers that were found forked meanwhile. The own writer follows once this replica has
        // another one.
        let whole = self.peer(link).map_or(&[][..], |peer| &peer.whole[..]);
        let forked = whole.iter().any(|writer| *writer != replica.writer());
        if forked || self.wants_all(replica, link) {
            self.want(now, replica, link);
        }
        self.pull_next(now, replica);
        result.map(|_| ())
    }

    /// Merges a whole transfer at once. Returns how many shards were installed, or `None` if it was not merged.
    fn commit(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        staged: Vec<Vec<u8>>,
        last: &Message,
    ) -> Result<Option<usize>, Error> {
        let new = self.take_staged(link);
        let Some(merged) = self.merge_from(now, replica, link, (&staged, last), &new)? else {
            return Ok(None);
        };
        #[cfg(feature = "guests")]
        self.note_receipt(replica, link, last);
        self.is_level(link);
        if !merged.new {
            self.brought_nothing(link);
        }
        Ok(Some(merged.shards))
    }

    /// Merges a message from a peer, after the encoded chunks before it. `new` are the writers that it brings.
    /// Returns `None` if it was not merged.
    pub(super) fn merge_from(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (staged, last): (&[Vec<u8>], &Message),
        new: &[WriterId],
    ) -> Result<Option<Merged>, Error> {
        let live = self.writer_of(link);
        #[cfg(feature = "members")]
        let raised = {
            self.attribute(replica, None);
            replica.state.raised_by(&last.delta)
        };
        let changes = &mut self.changed;
        let mut changed = |key_id| changes.push(key_id);
        let merged = match replica.merge_staged(staged, last, live, &mut changed) {
            Ok(merged) => merged,
            Err(error) => {
                let kind = error.kind();
                let rests = !matches!(kind, ErrorKind::NotCovered | ErrorKind::Unsure);
                #[cfg(feature = "members")]
                if !rests || kind == ErrorKind::Stranger {
                    self.note_waits(link);
                }
                self.not_merged(now, replica, Some(link), last, live, error)?;
                if kind == ErrorKind::Stranger && self.are_both_early(replica, link) {
                    self.is_level(link);
                }
                if let Some(peer) = self.peers.iter_mut().find(|peer| peer.link == link) {
                    // The peer would send the same again at once.
                    peer.rests = rests;
                }
                return Ok(None);
            }
        };
        self.count_writers(replica, Some(link), new);
        #[cfg(feature = "members")]
        {
            self.attribute(replica, Some(link));
            self.note_raised(replica, Some(link), &raised);
        }
        self.withdraw(now, replica);
        #[cfg(feature = "guests")]
        if merged.replaced {
            self.stop_following();
        }
        if merged.new {
            #[cfg(feature = "members")]
            self.round_soon(now);
            let (link, shards) = (Some(link), merged.shards);
            self.outputs.push(Output::Merged { link, shards });
            self.announce_soon(now, link);
            self.retry_waiting(now, replica);
        }
        Ok(Some(merged))
    }
}

#[cfg(test)]
pub(super) mod tests;
