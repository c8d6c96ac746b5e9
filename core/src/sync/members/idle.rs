//! Idle pages hand over: a page that has counted, and counts no more, gives up its writer. So living writers follow recent
//! activity, and not how many pages are open.
//!
//! The page asks a member to end its writer, as one does that [rejoins](super::rejoin). As members have all that it made,
//! the page goes on from what it has, and downloads nothing. A member admits the page again with the page's next
//! transaction. The page repeats what it makes before it hears of the end.

use crate::optional::Optional;
use crate::replica::Replica;
use crate::sync::{Link, Millis, Session, SyncMachine};

/// The longest time in milliseconds without an own transaction, in a space with more than [`CROWD`] writers.
const CROWDED_MS: Millis = 5_000;
const CROWD: usize = 4_096;

/// A page with more counters keeps its writer, because to go on from what it has builds its state anew.
const COUNTERS_MAX: usize = 10_000;

impl SyncMachine {
    /// Begins to hand over, if this page has been idle for long enough, all that it made is confirmed, and it holds nothing
    /// of a budget.
    #[cfg(feature = "guests")]
    pub(super) fn hand_over_idle(&mut self, now: Millis, replica: &Replica) {
        if self.config.owner.is_some() {
            return;
        }
        let clock = replica.clock();
        let (before, since) = self.guests.idle;
        if before != clock {
            self.guests.update(|it| it.idle = (clock, now));
            return;
        }
        let idle_ms = Millis::from(self.config.idle_ms);
        let idle_ms = match replica.members().writer_count() > CROWD {
            true => CROWDED_MS.min(idle_ms),
            false => idle_ms,
        };
        let is_open = replica.consistency().unconfirmed() > 0
            || !replica.rejoin.earlier().is_empty()
            || replica.has_accounts();
        let is_writer = replica.membership.sponsor_number().is_some();
        if !is_writer || now < since + idle_ms || is_open || replica.len() > COUNTERS_MAX {
            return;
        }
        if let Some(link) = self.followed_member(replica) {
            self.begin_rejoin(now, replica, link);
            // The next transaction may have the clock of the last one, under a fresh writer.
            self.guests.update(|it| it.idle = (u64::MAX, now));
        }
    }

    /// A link to a member whose rounds this page follows.
    fn followed_member(&self, replica: &Replica) -> Option<Link> {
        let mut peers = self.peers.iter();
        let follows = |peer: &&Session| {
            peer.following.is_somewhere() && self.leads_to_member(replica, peer.link)
        };
        peers.find(follows).map(|peer| peer.link)
    }
}
