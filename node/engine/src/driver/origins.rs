//! The peers at the ends of links. A peer stays on record for a while after its link is closed. So
//! this node can name the peer if a shard from it proves to be forged.

use crate::driver::NewLink;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tallymesh_core::Link;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::Origin;

/// Closed links that can still be named. A forged shard shows within seconds, unless its writer is
/// cut off, and an admitted peer opens a few links a second at most.
const GONE_MAX: usize = 4_096;

/// The open links, and the last closed ones.
#[derive(Default)]
pub(super) struct Origins {
    of: BTreeMap<Link, Arc<Origin>>,
    /// The closed links, the oldest first.
    gone: VecDeque<Link>,
}

impl Origins {
    pub(super) fn connected(&mut self, new: &NewLink) {
        let limited = new.spaces.iter().flatten().find_map(|it| it.limits);
        let origin = Origin {
            link: new.link.0,
            peer: new.peer.clone(),
            kind: new.kind,
            owner: new.from.owner.or(limited.map(|it| it.owner)),
            address: new.from.address.clone(),
            ticket: new.from.ticket.clone(),
        };
        self.of.insert(new.link, Arc::new(origin));
    }

    pub(super) fn disconnected(&mut self, link: Link) {
        self.gone.push_back(link);
        if self.gone.len() > GONE_MAX
            && let Some(oldest) = self.gone.pop_front()
        {
            self.of.remove(&oldest);
        }
    }

    /// Whether a link is open to this owner.
    pub(super) fn is_linked(&self, owner: OwnerKey) -> bool {
        let its = |it: &(&Link, &Arc<Origin>)| it.1.owner == Some(owner);
        self.of
            .iter()
            .filter(its)
            .any(|it| !self.gone.contains(it.0))
    }

    /// The peer that is, or was, at the other end.
    pub(super) fn of(&self, link: Link) -> Option<Arc<Origin>> {
        self.of.get(&link).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::model::{PeerKind, Sender};
    use tokio::sync::mpsc;

    fn link(number: u32) -> NewLink {
        NewLink {
            link: Link(number),
            spaces: None,
            kind: PeerKind::Post,
            peer: format!("post-{number}"),
            broadcast: false,
            outbox: mpsc::channel(1).0,
            from: Sender {
                ticket: Some("t".to_owned()),
                ..Sender::default()
            },
        }
    }

    #[test]
    fn a_closed_link_is_named_until_so_many_others_are() {
        let mut origins = Origins::default();
        origins.connected(&link(0));
        origins.connected(&link(1));
        origins.disconnected(Link(1));
        for number in 2..2 + GONE_MAX as u32 {
            assert!(origins.of(Link(1)).is_some());
            origins.connected(&link(number));
            origins.disconnected(Link(number));
        }
        assert_eq!(origins.of(Link(1)), None);
        let open = origins.of(Link(0)).expect("it is open");
        assert_eq!((&*open.peer, open.ticket.as_deref()), ("post-0", Some("t")));
        assert_eq!(origins.of.len(), GONE_MAX + 1);
    }
}
