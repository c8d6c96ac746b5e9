//! Shares of the room for writers.
//!
//! A space has room for a bounded number of writers. In an open space they stay for ever. So each peer of
//! limited rights may bring only a bounded number of them. The same is true of all peers with one ticket, and
//! of all peers of one address. [`membership::room`](crate::membership::room) decides how much room all of
//! them together leave to members.
//!
//! A writer counts until it is forgotten. The counts begin anew with the process, because no store records
//! which peer brought a writer.

use super::scope::{ScopeChecks, WriterShares};
use super::{Link, Millis, SyncMachine};
use crate::error::{Error, ScopeError, Share};
use crate::idempotency::Party;
use crate::message::Message;
use crate::message::records::Owner;
use crate::replica::Replica;
use crate::writer_id::WriterId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Shortest interval in milliseconds between two searches for forgotten writers.
const SWEEP_MS: Millis = 5_000;

/// The shares in which a peer's writers count: its owner's key, the ticket, and the address.
type Holders = [Option<[u8; 32]>; 3];

const SHARES: [Share; 3] = [Share::Owner, Share::Ticket, Share::Address];

/// The writers that peers with limited rights brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    links: BTreeMap<Link, Holders>,
    writers: BTreeMap<WriterId, Holders>,
    counts: [BTreeMap<[u8; 32], usize>; 3],
    /// The new writers in the chunks so far of the transfer on a link.
    staged: BTreeMap<Link, BTreeSet<WriterId>>,
    /// When the next search for forgotten writers is due.
    due: Millis,
}

impl Shares {
    pub(super) fn connected(&mut self, link: Link, owner: Owner) {
        self.links.insert(link, [Some(owner), None, None]);
    }

    pub(super) fn gone(&mut self, link: Link) {
        self.links.remove(&link);
        self.staged.remove(&link);
    }

    /// Whether there is room for `more` further writers of a link's peer.
    fn has_room(&self, link: Link, more: usize) -> Result<(), Share> {
        let Some(holders) = self.links.get(&link) else {
            return Ok(());
        };
        for ((holder, counts), share) in holders.iter().zip(&self.counts).zip(SHARES) {
            let used = holder.and_then(|holder| counts.get(&holder).copied());
            if used.unwrap_or(0) + more > share.max() && holder.is_some() {
                return Err(share);
            }
        }
        Ok(())
    }

    /// Counts a writer that arrived by a link.
    fn count(&mut self, link: Link, writer: WriterId) {
        let Some(holders) = self.links.get(&link).copied() else {
            return;
        };
        if self.writers.contains_key(&writer) {
            return;
        }
        self.writers.insert(writer, holders);
        for (holder, counts) in holders.iter().zip(&mut self.counts) {
            if let Some(holder) = holder {
                *counts.entry(*holder).or_default() += 1;
            }
        }
    }

    fn sweep(&mut self, replica: &Replica) {
        let counts = &mut self.counts;
        self.writers.retain(|writer, holders| {
            if replica.state.knows(writer) {
                return true;
            }
            for (holder, counts) in holders.iter().zip(counts.iter_mut()) {
                if let Some(holder) = holder
                    && let Some(count) = counts.get_mut(holder)
                {
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(holder);
                    }
                }
            }
            false
        });
    }
}

impl SyncMachine {
    /// Sets the shares, beside its owner's, in which the writers of a link's peer with limited rights count.
    /// Call it when the link is new.
    pub fn set_party(&mut self, link: Link, party: Party) {
        let wide = |number: u128| {
            let mut wide = [0; 32];
            wide[..16].copy_from_slice(&number.to_be_bytes());
            wide
        };
        if let Some(holders) = self.shares.links.get_mut(&link) {
            (holders[1], holders[2]) = (party.ticket.map(wide), party.address.map(wide));
        }
    }
}

impl WriterShares for SyncMachine {
    fn room_in_share(&self, link: Link, more: usize) -> Result<(), Error> {
        let room = match more {
            0 => Ok(()),
            more => self.shares.has_room(link, more),
        };
        room.map_err(|share| Error::from(ScopeError::ShareFull { share }))
    }

    fn count_writer(&mut self, replica: &Replica, link: Link, writer: WriterId) {
        if replica.state.knows(&writer) {
            self.shares.count(link, writer);
        }
    }

    fn count_writers(&mut self, replica: &Replica, link: Option<Link>, new: &[WriterId]) {
        for writer in new {
            if let Some(link) = link {
                self.count_writer(replica, link, *writer);
            }
        }
    }

    fn stage_writers(
        &mut self,
        replica: &Replica,
        link: Link,
        (message, first): (&Message, bool),
    ) -> Result<(), Error> {
        if !self.is_held_to(link) {
            return Ok(());
        }
        let new = self.new_of(replica, Some(link), message);
        let all = self.shares.staged.entry(link).or_default();
        if first {
            all.clear();
        }
        all.extend(new);
        let count = all.len();
        self.room_in_share(link, count)
    }

    fn take_staged(&mut self, link: Link) -> Vec<WriterId> {
        let staged = self.shares.staged.remove(&link);
        staged.into_iter().flatten().collect()
    }

    fn new_of(&self, replica: &Replica, link: Option<Link>, message: &Message) -> Vec<WriterId> {
        let peer = link.and_then(|link| self.peer(link));
        let Some(peer) = peer.filter(|peer| peer.scope.is_some()) else {
            return Vec::new();
        };
        let writers = message.delta.writers.iter().map(|it| it.writer);
        writers
            .filter(|writer| peer.proved.contains(writer) && !replica.state.knows(writer))
            .collect()
    }

    fn sweep_shares(&mut self, now: Millis, replica: &Replica) {
        if self.shares.due <= now {
            self.shares.due = now + SWEEP_MS;
            self.shares.sweep(replica);
        }
    }
}

#[cfg(test)]
mod tests;
