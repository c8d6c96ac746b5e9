//! The address book, kept and used: whom it names is dialled, as long as links are few.

use super::Network;
use crate::driver::{Order, OwnerKey};
use crate::gossip::book::{Book, Want};
use crate::gossip::revocations::Say;
use crate::gossip::{GossipError, Peer, Start};
use crate::handle::{Handle, Refusal, SpaceId};
use libp2p::identity::{PublicKey, ed25519};
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Nodes that have links to fewer others look for more. Lower makes a mesh that falls apart when few
/// nodes go, higher makes each node talk with more.
const LINKS_MIN: usize = 8;

/// How often is looked for whom to dial.
const FIND_INTERVAL: Duration = Duration::from_millis(500);

/// How often is looked who the members are.
const MEMBERS_INTERVAL: Duration = Duration::from_secs(10);

/// The members of spaces that this node is in too: they need links to each other.
#[derive(Default)]
pub(super) struct Members {
    peers: BTreeSet<PeerId>,
    looked: Option<Instant>,
}

/// The address book of a node.
pub(super) fn book(start: &Start<'_>, own: PeerId, now: Instant) -> Result<Book, GossipError> {
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
    let book = Book::new(own, start.identity, ledger, clock, announce, now);
    book.map_err(|error| GossipError::Start {
        what: "the address book",
        problem: error.to_string(),
    })
}

impl Network {
    /// Does what the book has to do, and sends what it says.
    pub(super) async fn tend_book(&mut self, now: Instant) {
        let Some(book) = &mut self.book else {
            return;
        };
        let ticked = book.tick(self.swarm.listeners(), &mut self.addresses, now);
        if let Err(error) = ticked {
            tracing::warn!(%error, "the address book is not kept any more");
            self.book = None;
        }
        self.judge_revocations(now).await;
        self.send_book(now);
    }

    /// Has revocations count whose authors have a say.
    async fn judge_revocations(&mut self, now: Instant) {
        let Some(book) = &mut self.book else {
            return;
        };
        // When the driver is gone, so will this be.
        if book.is_to_judge(now)
            && let Ok(says) = says(&self.handle).await
            && let Some(book) = &mut self.book
        {
            book.judge(&says, now);
        }
    }

    /// Sends what the book says.
    pub(super) fn send_book(&mut self, now: Instant) {
        while let Some(Ok(Some(want))) = self.book.as_mut().map(|book| book.poll(now)) {
            self.order(match want {
                Want::Send(link, bytes) => Order::Send(link, bytes),
                Want::Close(link, error) => {
                    tracing::warn!(link = link.0, %error, "closing a link: its address book");
                    Order::Close(link, error)
                }
            });
        }
    }

    /// Dials nodes of the book as long as this one has few links, and members of its spaces anyway.
    pub(super) async fn find(&mut self, now: Instant) {
        if now < self.find_next {
            return;
        }
        self.find_next = now + FIND_INTERVAL;
        self.look_up_members(now).await;
        let uses = self.book.as_ref().is_some_and(Book::has_addresses);
        if !uses || self.cut.all {
            return;
        }
        let missing = LINKS_MIN.saturating_sub(self.peers.len());
        let (swarm, cut) = (&self.swarm, &self.cut);
        let skip = |peer: &PeerId| swarm.is_connected(peer) || cut.peers.contains(&Peer(*peer));
        let (members, chance) = (&self.members.peers, &mut self.chance);
        let due = self.addresses.due(missing, members, now, chance, skip);
        for (peer, addresses) in due {
            // Each address is taken for this peer's: who answers as somebody else is hung up on.
            let options = DialOpts::peer_id(peer).addresses(addresses).build();
            // It fails for one that is being dialled already.
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "not dialled, though the book names it");
            }
        }
    }

    /// Looks who the members are, and keeps room for them.
    async fn look_up_members(&mut self, now: Instant) {
        let is_recent = |at: Instant| now.duration_since(at) < MEMBERS_INTERVAL;
        if self.members.looked.is_some_and(is_recent) {
            return;
        }
        self.members.looked = Some(now);
        // When the driver is gone, so will this be.
        if let Ok(owners) = self.handle.fellow_members().await {
            self.members.peers = owners.iter().filter_map(peer_of).collect();
            for peer in &self.members.peers {
                self.swarm.behaviour_mut().gate.reserve(*peer);
            }
        }
    }
}

/// Who has a say in each space that is open.
async fn says(handle: &Handle) -> Result<Vec<Say>, Refusal> {
    let mut says = Vec::new();
    for (place, space) in handle.spaces().iter().enumerate() {
        let membership = handle.members(SpaceId(place)).await?;
        says.push(Say {
            space: space.clone(),
            owners: match membership.configuration {
                Some(configuration) => configuration.members,
                None => vec![membership.owner],
            },
        });
    }
    Ok(says)
}

/// The peer that has this key.
fn peer_of(owner: &OwnerKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&owner.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}
