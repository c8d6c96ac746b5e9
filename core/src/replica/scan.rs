//! A scan over the state in parts, while local writes and merges go on.
//!
//! A scan goes over the pages. A shard that is overwritten behind it gets a newer clock. So another scan over
//! everything newer than the first one's begin sends it again. This repeats until a scan fits one part. The
//! last part is taken at one moment, and carries the version vector of that moment. By then the parts have
//! everything that the vector covers, and nothing else.
//!
//! It is a fuzzy checkpoint, as of main-memory databases (Hagmann 1986), whose log is the state itself:
//! clocks find what changed meanwhile.

use super::Replica;
use crate::idempotency::KeyedScan;
use crate::message::Message;
use crate::optional::{GUESTS, GuestPart, Optional};
use crate::state::build::{Cursor, NOTHING};
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// A place in the scans over the shard map.
///
/// It depends on local numbers, and on clocks that only grow: see `Replica::voided`. Once one of these fails,
/// it is [void](Scan::is_void) and must not be continued.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// This scan sends what is newer than this, by the writers' local numbers.
    lows: Vec<u64>,
    /// The version vector when this scan began: the next scan's `lows`.
    begin: Vec<u64>,
    cursor: Cursor,
    keyed: KeyedScan,
    /// How many scans came before this one.
    number: u32,
    /// The only writers whose records are sent, or `None` for all writers.
    only: GuestPart<Option<Vec<WriterId>>>,
    /// How many times scans had become void when the first one began.
    voided: GuestPart<u64>,
}

impl Scan {
    /// The first scan, over what this replica has beyond `since`, and over keyed operations if they are
    /// wanted. It leaves out the records of writers that a native node, which wants those, has forgotten.
    pub(crate) fn new(replica: &Replica, since: &VersionVector, keyed: bool) -> Scan {
        let lows = replica.membership.lows(&replica.state, since);
        #[cfg(all(feature = "members", not(target_family = "wasm")))]
        let lows = match keyed {
            true => replica.membership.past_forgotten(&replica.state, lows),
            false => lows,
        };
        Scan {
            keyed: KeyedScan::new(&lows, keyed),
            lows,
            begin: replica.clocks().to_vec(),
            cursor: Cursor::default(),
            number: 0,
            only: GuestPart::default(),
            voided: *replica.state.voided(),
        }
    }

    /// Whether something has happened since the first scan began that the parts so far can't express.
    pub(crate) fn is_void(&self, replica: &Replica) -> bool {
        *self.voided != **replica.state.voided()
    }

    /// The first scan over the records that only these writers made beyond `since`. They build on what their
    /// writers had of others, so a replica that lacks some of that accepts them later.
    pub(crate) fn over(replica: &Replica, since: &VersionVector, only: Vec<WriterId>) -> Scan {
        let mut scan = Scan::new(replica, since, false);
        scan.lows = replica.state.clocks_in(since);
        scan.only.set(Some(only));
        scan
    }

    /// How many scans came before this one. Later scans may use larger parts, so that only a very fast stream
    /// of writes keeps ahead of them.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The present part of the scan, of about `budget` bytes, and where the next one begins. The latter is
    /// `None` after the last part, which is complete. `since` is the begin of the first scan.
    pub(crate) fn step(
        mut self,
        replica: &Replica,
        since: &VersionVector,
        budget: usize,
    ) -> (Message, Option<Scan>) {
        // Writers that arrived since start from nothing, even if the peer had something of them. A repeated
        // part must not reach further than before, or the records in between are left out.
        let writers = replica.clocks().len();
        self.lows.resize(writers, 0);
        self.begin.resize(writers, 0);
        let only = self.only.as_ref().filter(|_| GUESTS);
        if let Some(only) = only {
            replica.leave_out(&mut self.lows, only);
        }
        let only = only.is_some();
        let keyed = &mut self.keyed;
        let (mut message, cursor) =
            replica.chunk(since, (&self.lows, only), self.cursor, keyed, budget);
        if only {
            message = message.without_keys();
        }
        let fresh = self.cursor == Cursor::default();
        let next = match cursor {
            Some(cursor) => Some(Scan { cursor, ..self }),
            // This scan fits one part, so all of it is of this moment.
            None if fresh => None,
            None => Some(Scan {
                lows: self.begin,
                begin: replica.clocks().to_vec(),
                cursor: Cursor::default(),
                keyed: self.keyed,
                number: self.number.saturating_add(1),
                only: self.only,
                voided: self.voided,
            }),
        };
        (message, next)
    }
}

impl Replica {
    /// Lets only the records of these writers through.
    pub(super) fn leave_out(&self, lows: &mut [u64], only: &[WriterId]) {
        for (low, writer) in lows.iter_mut().zip(self.state.ids()) {
            if !only.contains(writer) {
                *low = NOTHING;
            }
        }
    }

    /// The part of `since` for the writers that `lows` lets through, and nothing for the others.
    pub(super) fn part_since(&self, since: &VersionVector, lows: &[u64]) -> Vec<u64> {
        let told = self.state.clocks_in(since).into_iter().zip(lows);
        let told = told.map(|(told, low)| match *low {
            NOTHING => NOTHING,
            low => told.min(low),
        });
        told.collect()
    }

    /// The clocks of other writers on which a message builds that has only the writers which `lows` lets
    /// through. These are the clocks that the last own transaction had. If another writer has something new,
    /// it is everything here, because its base is not known. If there is nothing new at all, there are none.
    pub(super) fn built_on(&self, since: &VersionVector, lows: &[u64]) -> Vec<u64> {
        let told = self.part_since(since, lows);
        let news = |at: &usize| told[*at] < self.state.clocks()[*at];
        let last = (0..told.len()).rev().find(news);
        let seen = |at: usize| {
            let clock = self.state.clocks()[at];
            let seen = match last == Some(OWN as usize) {
                // A member that admits a start requires the message to name each other start that it has.
                true if self.membership.writer(at as u32).announce.is_some() => {
                    self.state.seen_at_last(at as u32).max(clock.min(1))
                }
                true => self.state.seen_at_last(at as u32),
                false => clock,
            };
            match seen {
                0 => NOTHING,
                seen => seen,
            }
        };
        let of = (0..told.len()).map(|at| match last {
            Some(_) if told[at] == NOTHING => seen(at),
            _ => NOTHING,
        });
        of.collect()
    }

    /// Makes a message build on `seen` for the writers of which it has no records.
    pub(super) fn build_on(&self, mut message: Message, lows: &[u64], seen: &[u64]) -> Message {
        for entry in &mut message.delta.writers {
            let at = self.state.number_of(&entry.writer).unwrap_or(OWN) as usize;
            if lows[at] == NOTHING && seen[at] != NOTHING {
                (entry.lo, entry.hi) = (seen[at], seen[at]);
            }
        }
        message
    }
}
