//! Serving: the replies to a pull, chunk by chunk, while local writes go on. The chunks are the parts of a
//! [`Scan`].

use super::scope::ScopeChecks;
use super::{Body, Delta, Link, Millis, Pull, SyncMachine};
use crate::bounds::{CHUNK_BYTES_TARGET, CHUNK_DOUBLINGS_MAX, FRAME_BYTES_MAX, RETURNS_SENT_MAX};
use crate::optional::MEMBERS;
use crate::replica::{Replica, Scan};
use crate::state::vector::VersionVector;
use crate::wire::encode;

/// Maximum number of stored transfers. The last one of each peer is stored, even after its end.
const TRANSFERS_MAX: usize = 64;

/// A transfer to a peer.
#[derive(Clone)]
pub(super) struct Transfer {
    /// The process that pulls, and its number for the request.
    session: u64,
    id: u32,
    /// The link of its last request. A copy of the process has the same session, on a link of its own.
    link: Link,
    /// The state that the peer had when it pulled.
    since: VersionVector,
    /// The number of the last chunk, and where it begins.
    chunk: u32,
    at: Scan,
    /// Where the next chunk begins.
    next: Option<Scan>,
    /// Whether further requests get no reply.
    ended: bool,
    /// Whether the peer was told at which position it is with the last chunk.
    #[cfg(feature = "members")]
    told: bool,
}

impl Transfer {
    /// Whether it was ended, or its chunks so far no longer belong to the present state. If no chunk arrives,
    /// the peer pulls anew.
    fn is_over(&self, replica: &Replica) -> bool {
        self.ended || self.at.is_void(replica)
    }
}

impl SyncMachine {
    /// Whether a transfer in several chunks is under way to a connected peer. An ended transfer does not
    /// count, because its peer may never send another request.
    pub(super) fn is_serving(&self, replica: &Replica) -> bool {
        let there = |session| {
            self.open_sessions()
                .any(|peer| peer.hello.as_ref().is_some_and(|it| it.session == session))
        };
        self.serving
            .iter()
            .any(|it| !it.is_over(replica) && it.next.is_some() && there(it.session))
    }

    /// Removes the transfers that do not start from nothing.
    pub(super) fn end_partial_transfers(&mut self) {
        self.serving.retain(|it| it.since.is_empty());
    }

    /// Handles a pull.
    pub(super) fn serve(&mut self, now: Millis, replica: &mut Replica, link: Link, pull: &Pull) {
        let Some(session) = self.session_of(link) else {
            return;
        };
        self.note_peer_vector(replica, link, &pull.vector);
        if self.is_unsent() {
            return;
        }
        // A peer that pulls everything judges the state by itself. Another one gets no reply now.
        if self.is_about_to_go() && !pull.vector.is_empty() {
            return;
        }
        #[cfg(feature = "members")]
        if pull.vector.is_empty() {
            self.admit_again(now, replica, link);
        }
        // A number is used once, because chunks of two transfers under one number could be mixed up. So a
        // late or repeated request begins no transfer.
        let peers = &self.peers;
        let is_gone = |link| match MEMBERS {
            true => peers.binary_search_by_key(&link, |it| it.link).is_err(),
            false => peers.iter().all(|peer| peer.link != link),
        };
        let mine = |t: &Transfer| t.session == session && (t.link == link || is_gone(t.link));
        // A request on a new link is no repetition. It may continue a transfer whose link broke. It may not
        // if a copy of the process sends it, or if the process went back to an earlier state.
        let goes_on = |t: &Transfer| pull.chunk > 0 && t.id == pull.id && mine(t);
        let begun = |t: &&mut Transfer| match t.link == link {
            true => pull.id.wrapping_sub(t.id) as i32 <= 0,
            false => goes_on(t) && pull.vector.covers(&t.since),
        };
        if let Some(transfer) = self.serving.iter_mut().find(begun) {
            transfer.link = link;
            self.asks_on(now, replica, link, (pull.id, pull.chunk));
        } else {
            while let Some(at) = self.serving.iter().position(mine) {
                self.serving.remove(at);
            }
            if self.serving.len() >= TRANSFERS_MAX {
                self.serving.remove(0);
            }
            let keyed = self.keeps_keys(link) && replica.members().configuration().is_some();
            let scan = match self.only(link) {
                Some(only) => Scan::over(replica, &pull.vector, only),
                None => Scan::new(replica, &pull.vector, keyed),
            };
            let mut transfer = Transfer {
                session,
                id: pull.id,
                link,
                since: pull.vector.clone(),
                chunk: 0,
                at: scan,
                next: None,
                ended: false,
                #[cfg(feature = "members")]
                told: false,
            };
            self.send_chunk(replica, link, &mut transfer);
            self.serving.push(transfer);
        }
        if self.is_held_to(link) {
            return self.catch_up(now, replica, link, &pull.vector);
        }
        let own = pull.vector.get(&replica.writer());
        if own > replica.clock() {
            self.doubled(replica, Some(link), own);
        }
        // A replica that has to rejoin merges nothing, and would pull again at once. Each pull of one side
        // would cause one of the other, without end. Digests are enough meanwhile.
        if !self.is_coming_back() && !replica.vector().covers(&pull.vector) {
            self.want(now, replica, link);
        }
    }

    /// Handles a request for the next chunk, or for the last one again. A request for the next one shows that
    /// the peer has received a chunk.
    #[inline(always)]
    pub(super) fn asks_on(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        (id, chunk): (u32, u32),
    ) {
        if MEMBERS && self.is_next(replica, link, id, chunk) {
            self.chunk_taken(now, link);
        }
        self.serve_more(replica, link, id, chunk);
    }

    fn serve_more(&mut self, replica: &mut Replica, link: Link, id: u32, chunk: u32) {
        let known = |t: &Transfer| t.link == link && t.id == id && !t.is_over(replica);
        let asked = |t: &Transfer| {
            chunk == t.chunk || t.next.is_some() && chunk.checked_sub(1) == Some(t.chunk)
        };
        let found = self.serving.iter().position(|t| known(t) && asked(t));
        let Some(found) = found else {
            return; // late or repeated
        };
        let mut transfer = self.serving.swap_remove(found);
        if chunk > transfer.chunk
            && let Some(next) = transfer.next.take()
        {
            transfer.at = next;
            transfer.chunk = chunk;
        }
        self.send_chunk(replica, link, &mut transfer);
        self.serving.push(transfer);
    }

    /// Whether a peer has received a chunk, because it requests the next one.
    fn is_next(&self, replica: &Replica, link: Link, id: u32, chunk: u32) -> bool {
        let of = |t: &&Transfer| t.link == link && t.id == id && !t.is_over(replica);
        self.serving
            .iter()
            .find(of)
            .is_some_and(|t| chunk > t.chunk)
    }

    /// Ends all transfers. Their peers pull again, under new numbers.
    pub(super) fn end_transfers(&mut self) {
        for transfer in &mut self.serving {
            transfer.ended = true;
        }
    }

    /// Sends the present chunk of a transfer, and finds where the next one begins.
    fn send_chunk(&mut self, replica: &mut Replica, link: Link, transfer: &mut Transfer) {
        let number = transfer.at.number().min(CHUNK_DOUBLINGS_MAX);
        let mut budget = CHUNK_BYTES_TARGET << number;
        let mut returns = RETURNS_SENT_MAX;
        loop {
            let scan = transfer.at.clone();
            let (mut message, next) = scan.step(replica, &transfer.since, budget);
            let peer = self.peer_mut(link).and_then(|peer| peer.hello.as_mut());
            let peer = peer.filter(|it| it.remembers && message.is_complete());
            let is_whole = message.is_whole();
            let told = peer.filter(|it| is_whole || it.lacks);
            if told.is_some() {
                replica.membership.add_memory(&mut message, returns);
            }
            let body = Body::Delta(Delta {
                id: transfer.id,
                chunk: transfer.chunk,
                last: next.is_none(),
                message,
            });
            let bytes = encode(replica.space(), &body);
            // A budget is an estimate. Many writers with much beside their shards can take several times as
            // many bytes. The table of all writers has its place in the last chunk alone.
            if MEMBERS && bytes.len() > FRAME_BYTES_MAX && budget + returns > 0 {
                (budget, returns) = (budget / 8, returns / 2);
                continue;
            }
            if let Some(peer) = told {
                peer.lacks &= is_whole;
            }
            transfer.next = next;
            self.send_bytes(link, bytes);
            // A last chunk that is sent again may have more. The peer may have merged the first one.
            #[cfg(feature = "members")]
            if transfer.next.is_none() && !core::mem::replace(&mut transfer.told, true) {
                self.joins_rounds(replica, link, transfer.id);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests;
