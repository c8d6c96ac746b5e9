//! Expiries that were carried out in spaces with members, and refreshes: the expires and persists.
//!
//! There, the end of an expired counter is an operation of its own. Its *time* is the counter's expiry, or more:
//! it is greater than the time of each end in force, and not yet decided, that its issuer saw. The greatest of
//! these is the *floor*, which a refresh notes. The oracle knows no acknowledgements, which decide ends.
//! So it takes the floor from the replica, and checks that it is possible.
//!
//! The ends in a view are judged from the greatest time down. An end is *void* in either case:
//! - It is spared: the view has a refresh, an end, or an add that began a lifetime whose issuer saw it void.
//! - A refresh stands, and neither issuer had seen the other operation. Its floor is below the end's time, and its
//!   expiry above. No end that was found in force had seen it.
//!
//! Else it is *in force*, and cancels what its issuer had seen, like a delete. A refresh *stands* unless a reset, a
//! delete, a set, a later refresh or an add that began a lifetime had seen it.

use super::{Issued, Key, Kind, OpId, Oracle, Seen, View};
use tallymesh_core::Replica;
use tallymesh_core::explore::expiry_floor;

/// An operation as it is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The operation. For the end of an expired counter, a delete.
    pub kind: Kind,
    /// The time of the end of an expired counter, in a space with members.
    pub ends: Option<u64>,
    /// The greatest time of an end in force that the issuer of a refresh saw, 0 for none.
    pub floor: u64,
}

impl From<Kind> for Issue {
    fn from(kind: Kind) -> Issue {
        Issue {
            kind,
            ends: None,
            floor: 0,
        }
    }
}

impl Issue {
    /// The end of an expired counter.
    pub(super) fn end(time: u64) -> Issue {
        Issue {
            ends: Some(time),
            ..Issue::from(Kind::Delete)
        }
    }

    /// An operation that notes this floor if it is a refresh.
    pub(super) fn with_floor(kind: Kind, floor: u64) -> Issue {
        match kind {
            Kind::Expire(_) | Kind::Persist => Issue {
                floor,
                ..Issue::from(kind)
            },
            _ => Issue::from(kind),
        }
    }
}

impl Issued {
    /// When the counter expires by a refresh. `None` for other operations.
    fn until(&self) -> Option<u64> {
        match self.kind {
            Kind::Expire(at) => Some(at),
            Kind::Persist => Some(u64::MAX),
            _ => None,
        }
    }

    /// Whether an end that its issuer saw void is spared by it.
    fn spares(&self) -> bool {
        self.ends.is_some() || self.replaces_expiry()
    }
}

impl Oracle {
    /// The ends of a counter in a view, with whether each is in force.
    pub(super) fn judged(&self, seen: &Seen, key: Key) -> Vec<(OpId, bool)> {
        let ends = self
            .visible(seen, key)
            .filter_map(|(id, op)| Some((op.ends?, op.clock, op.writer, id)));
        let mut ends: Vec<_> = ends.collect();
        if ends.is_empty() {
            return Vec::new();
        }
        ends.sort_unstable();
        let standing = self.standing(seen, key);
        let mut judged: Vec<(OpId, bool)> = Vec::new();
        for (time, _, _, id) in ends.into_iter().rev() {
            let end = &self.ops[id];
            let spared = self.visible(seen, key).any(|(_, op)| op.void.contains(id));
            let saves = |it: &OpId| {
                let refresh = &self.ops[*it];
                let mut found = judged.iter().filter(|it| it.1);
                !end.saw.contains(*it)
                    && !refresh.saw.contains(id)
                    && refresh.floor < time
                    && refresh.until().is_some_and(|until| time < until)
                    && !found.any(|other| self.ops[other.0].saw.contains(*it))
            };
            let holds = !spared && !standing.iter().any(saves);
            judged.push((id, holds));
        }
        judged
    }

    /// The refreshes of a counter in a view that stand.
    fn standing(&self, seen: &Seen, key: Key) -> Vec<OpId> {
        let mut over = Seen::default();
        for (_, op) in self.visible(seen, key) {
            let cancels = op.cancels() && op.withdraws.is_none();
            if cancels || op.replaces_expiry() {
                over.union(&op.saw);
            }
        }
        let refreshes = self.visible(seen, key).filter(|it| it.1.until().is_some());
        let stands = refreshes.filter(|(id, _)| !over.contains(*id));
        stands.map(|it| it.0).collect()
    }

    /// The ends that an operation spares: those that its issuer saw void. `seen` is its whole view.
    pub(super) fn spared_by(&self, op: &Issued, seen: &Seen) -> Seen {
        let mut void = Seen::default();
        if op.spares() {
            let judged = self.judged(seen, op.key).into_iter();
            let ids = judged.filter(|it| !it.1).map(|it| it.0);
            ids.for_each(|id| void.insert(id));
        }
        void
    }

    /// The greatest time of an end in force in a view, 0 for none.
    pub(super) fn floor(&self, seen: &Seen, key: Key) -> u64 {
        let judged = self.judged(seen, key).into_iter().filter(|it| it.1);
        let times = judged.filter_map(|it| self.ops[it.0].ends);
        times.max().unwrap_or(0)
    }

    /// The floor by a replica, in a space with members.
    ///
    /// # Errors
    /// If no end in force in the view has this time.
    pub(super) fn floor_of(
        &self,
        view: &View,
        replica: &Replica,
        key: Key,
    ) -> Result<Option<u64>, String> {
        if replica.members().configuration().is_none() {
            return Ok(None);
        }
        let floor = expiry_floor(replica, &self.keys[key]);
        let mut judged = self.judged(&view.seen, key).into_iter().filter(|it| it.1);
        match floor == 0 || judged.any(|it| self.ops[it.0].ends == Some(floor)) {
            true => Ok(Some(floor)),
            false => Err(format!("key {key}: no end in force has the time {floor}")),
        }
    }
}
