//! Giving rights to a member that asks for them.

use super::share::Case;
use super::{RightsId, SyncMachine};
use crate::replica::Replica;
use crate::sort::sort;
use crate::sync::{Link, Millis};
use crate::wire::{Body, Digests, Want};
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;

/// Maximum number of requests that a link may send at once after a rest. Further ones are ignored.
const REQUESTS_MAX: u64 = 64;
/// A link gets one more request after this time, in milliseconds.
const REQUEST_EVERY_MS: Millis = 10;
/// Maximum number of remembered gifts that may not have arrived yet.
const GIVEN_MAX: usize = 4_096;

/// The gifts to other members, and the request rate of each link.
#[derive(Clone, Default)]
pub(super) struct Gifts {
    /// The own writer that made the gifts in `last`.
    by: Option<WriterId>,
    /// The own clock of the last grant of rights to a writer.
    last: BTreeMap<(WriterId, RightsId), u64>,
    /// For each link: how many more requests it may send, and when that number last grew.
    asked: BTreeMap<Link, (u64, Millis)>,
}

impl Gifts {
    pub(super) fn gone(&mut self, link: Link) {
        self.asked.remove(&link);
    }

    /// Whether one more request of a link is handled. If so, it counts as used.
    pub(super) fn may_ask(&mut self, now: Millis, link: Link) -> bool {
        let (left, since) = self.asked.entry(link).or_insert((REQUESTS_MAX, now));
        let more = now.saturating_sub(*since) / REQUEST_EVERY_MS;
        *left = left.saturating_add(more).min(REQUESTS_MAX);
        *since += more * REQUEST_EVERY_MS;
        let may = *left > 0;
        *left -= u64::from(may);
        may
    }

    fn note(&mut self, by: WriterId, to: WriterId, id: RightsId, clock: u64) {
        if self.by != Some(by) {
            self.last.clear();
            self.by = Some(by);
        }
        self.last.insert((to, id), clock);
        if self.last.len() > GIVEN_MAX {
            // The oldest gifts have probably arrived.
            let mut clocks: alloc::vec::Vec<u64> = self.last.values().copied().collect();
            sort(&mut clocks);
            let middle = clocks[clocks.len() / 2];
            self.last.retain(|_, clock| *clock > middle);
        }
    }

    fn last(&self, by: WriterId, to: WriterId, id: &RightsId) -> u64 {
        let known = self.by == Some(by);
        let last = self.last.get(&(to, id.clone())).filter(|_| known);
        last.copied().unwrap_or(0)
    }
}

impl SyncMachine {
    /// Handles a request for rights. A request from a peer that is no member is ignored.
    pub(in crate::sync) fn wanted(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        link: Link,
        want: Want,
    ) {
        let own = replica.writer();
        let to = self.writer_of(link);
        let to = to.filter(|it| *it != own && replica.members().is_counted_member(it));
        let Some(to) = to.filter(|_| replica.members().is_member() && !self.is_coming_back())
        else {
            return;
        };
        if !self.wants.given.may_ask(now, link) {
            return;
        }
        let Want {
            kind,
            name,
            seen,
            need,
            recent,
        } = want;
        let id = (name, kind);
        if self.wants.given.last(own, to, &id) > seen {
            // The last gift is still on its way, or it was lost. The digest shows this to the peer, which
            // then pulls.
            let digests = Digests {
                vector: replica.digest(),
                contents: 0,
            };
            return self.send(replica, link, Body::Digest(digests));
        }
        let Some(lack) = self.lack(replica, &id) else {
            return;
        };
        let amount = |held: i128| held.clamp(0, i128::from(i64::MAX)) as u64;
        let case = Case {
            writers: (own, to),
            here: amount(lack.holding.here),
            needed: lack.needed,
            recent: self.wants.recent.amount(now, &id),
            theirs: amount(replica.quota().rights_of(&id.0, kind, to)),
            need,
            their_recent: recent,
        };
        let share = case.share();
        if share == 0 {
            return;
        }
        // A writer at its last clock can't give. The requester asks other members.
        let granted = replica
            .quota_mut()
            .grant((&id.0, kind), to, share, &mut self.changed);
        if granted.is_ok() {
            let clock = replica.clock();
            self.wants.given.note(own, to, id, clock);
            self.local_change(now);
        }
    }
}
