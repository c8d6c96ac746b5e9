//! Maintains the address book, and dials nodes of it while there are few links.

use super::Network;
use crate::peer_directory::{PeerDirectory, Want};
use crate::{GossipError, Start};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId};
use std::time::{Duration, Instant};
use tallymesh_node_engine::driver::{Order, Outgoing};
use tallymesh_node_ground::identity::Peer;

/// A node with links to fewer others looks for more. With a lower value, the mesh falls apart when
/// few nodes leave. With a higher one, each node has more links.
const LINKS_MIN: usize = 8;

/// How often to look for nodes to dial.
const FIND_INTERVAL: Duration = Duration::from_millis(500);

/// The address book of a node.
pub(super) fn peer_directory(
    start: &Start<'_>,
    own: PeerId,
    now: Instant,
) -> Result<PeerDirectory, GossipError> {
    let place = |address: &Multiaddr| {
        let mut place = address.clone();
        if place.iter().last() == Some(Protocol::P2p(own)) {
            place.pop();
        }
        place
    };
    let announce = start.config.book.then(|| {
        let announce = start.config.announce.iter();
        announce.map(|address| place(&address.0)).collect()
    });
    let (clock, ledger) = (start.clock.clone(), start.ledger.clone());
    let peer_directory = PeerDirectory::new(own, start.identity, ledger, clock, announce, now);
    peer_directory.map_err(|error| GossipError::Start {
        what: "the address book",
        problem: error.to_string(),
    })
}

impl Network {
    /// Does the due work of the book, and sends its frames.
    pub(super) fn tend_book(&mut self, now: Instant) {
        let Some(peer_directory) = &mut self.peer_directory else {
            return;
        };
        let ticked = peer_directory.tick(self.swarm.listeners(), &mut self.addresses, now);
        if let Err(error) = ticked {
            tracing::warn!(%error, "the address book is not kept any more");
            self.peer_directory = None;
        }
        self.judge_revocations(now);
        self.send_book(now);
    }

    /// Applies the revocations and removals whose issuers are trusted.
    fn judge_revocations(&mut self, now: Instant) {
        let Some(peer_directory) = &mut self.peer_directory else {
            return;
        };
        if peer_directory.is_to_judge(now) {
            peer_directory.judge(&self.rights.says(), now);
        }
    }

    /// Sends the frames of the book.
    pub(super) fn send_book(&mut self, now: Instant) {
        while let Some(Ok(Some(want))) = self
            .peer_directory
            .as_mut()
            .map(|peer_directory| peer_directory.poll(now))
        {
            self.order(match want {
                Want::Send(link, bytes) => Order::Send(link, Outgoing::uncounted(bytes)),
                Want::Close(link, error) => {
                    tracing::warn!(link = link.0, %error, "closing a link: its address book");
                    Order::Close(link, error)
                }
            });
        }
    }

    /// Dials nodes of the book while this one has few links, and members of its spaces in any case.
    pub(super) fn find(&mut self, now: Instant) {
        if now < self.find_next {
            return;
        }
        self.find_next = now + FIND_INTERVAL;
        let uses = self
            .peer_directory
            .as_ref()
            .is_some_and(PeerDirectory::has_addresses);
        if !uses || self.cut.all {
            return;
        }
        let missing = LINKS_MIN.saturating_sub(self.peers.len());
        let (swarm, cut) = (&self.swarm, &self.cut);
        let skip = |peer: &PeerId| swarm.is_connected(peer) || cut.peers.contains(&Peer(*peer));
        let (members, chance) = (&self.fellows, &mut self.chance);
        let due = self.addresses.due(missing, members, now, chance, skip);
        for (peer, addresses) in due {
            // Each address is dialled for this peer. The connection is closed if another peer
            // answers.
            let options = DialOpts::peer_id(peer).addresses(addresses).build();
            // Dialling fails for a peer that is already being dialled.
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "not dialled, though the book names it");
            }
        }
    }
}
