//! The tickets that peers have shown, within bounds.
//!
//! Each ticket, each peer and each address has a share. So a holder of one ticket can't keep others
//! from showing theirs. Tickets of members have room that no lesser ticket takes.
//!
//! The tickets of a connected peer stay. Among peers that are gone, the one that showed a ticket
//! longest ago is forgotten first, because a peer shows its tickets at each connection.

use libp2p::PeerId;
use std::collections::HashMap;
use std::net::IpAddr;
use tallymesh_node_engine::access::Grant;
use tallymesh_node_ground::model::Role;

/// Most peers whose shown tickets are remembered.
pub(super) const SHOWN_MAX: usize = 4096;

/// How many of these places are reserved for peers with a member's ticket.
const MEMBERS_RESERVE: usize = 512;

/// Most peers that have shown one ticket. The next constant is the same for one address.
pub(super) const PER_TICKET_MAX: usize = 1024;
const PER_ADDRESS_MAX: usize = 1024;

/// Most tickets of one peer that count at a time.
pub(super) const PER_PEER_MAX: usize = 8;

/// There is no room for a ticket, because all peers that use it are connected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

struct Entry {
    grants: Vec<Grant>,
    from: IpAddr,
    is_connected: bool,
    /// When it last showed a ticket, as a number that goes up.
    shown: u64,
}

impl Entry {
    fn has(&self, ticket: &Grant) -> bool {
        self.grants.iter().any(|it| it.id == ticket.id)
    }

    fn is_members(&self) -> bool {
        self.grants.iter().any(|it| it.role == Role::Member)
    }
}

/// The tickets that peers have shown.
#[derive(Default)]
pub(super) struct Shown {
    peers: HashMap<PeerId, Entry>,
    count: u64,
}

impl Shown {
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The tickets that one peer has shown.
    pub(super) fn of(&self, peer: &PeerId) -> &[Grant] {
        self.peers.get(peer).map_or(&[], |entry| &entry.grants)
    }

    /// Records that a connected peer at this address has shown a ticket.
    ///
    /// # Errors
    /// [`Full`]; then nothing is remembered.
    pub(super) fn show(&mut self, peer: PeerId, grant: Grant, from: IpAddr) -> Result<(), Full> {
        let is_known = self.peers.contains_key(&peer);
        if !self.of(&peer).iter().any(|it| it.id == grant.id) {
            self.make_room(PER_TICKET_MAX, |entry| entry.has(&grant))?;
        }
        if !is_known {
            self.make_room(PER_ADDRESS_MAX, |entry| entry.from == from)?;
            match grant.role {
                Role::Member => self.make_room(SHOWN_MAX, |_| true)?,
                _ => self.make_room(SHOWN_MAX - MEMBERS_RESERVE, |entry| !entry.is_members())?,
            }
        }
        self.count += 1;
        let entry = self.peers.entry(peer).or_insert(Entry {
            grants: Vec::new(),
            from,
            is_connected: true,
            shown: 0,
        });
        (entry.from, entry.is_connected, entry.shown) = (from, true, self.count);
        entry.grants.retain(|before| before.id != grant.id);
        if entry.grants.len() >= PER_PEER_MAX {
            entry.grants.remove(0);
        }
        entry.grants.push(grant);
        Ok(())
    }

    /// If a share is used up, forgets the peer in it that has been gone longest.
    fn make_room(&mut self, most: usize, takes: impl Fn(&Entry) -> bool) -> Result<(), Full> {
        let takers = || self.peers.iter().filter(|(_, entry)| takes(entry));
        if takers().count() < most {
            return Ok(());
        }
        let gone = takers().filter(|(_, entry)| !entry.is_connected);
        let oldest = gone.min_by_key(|(_, entry)| entry.shown);
        let oldest = *oldest.ok_or(Full)?.0;
        self.peers.remove(&oldest);
        Ok(())
    }

    /// Records that the last connection to a peer is gone.
    pub(super) fn gone(&mut self, peer: &PeerId) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.is_connected = false;
        }
    }

    /// Retains only the tickets for which `keep` is true.
    pub(super) fn retain(&mut self, keep: impl Fn(&PeerId, &Grant) -> bool) {
        self.peers.retain(|peer, entry| {
            entry.grants.retain(|grant| keep(peer, grant));
            !entry.grants.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::samples;
    use std::net::Ipv4Addr;
    use tallymesh_node_ground::identity::OwnerKey;

    fn grant(id: u8, role: Role) -> Grant {
        samples::ticket(id, OwnerKey([1; 32]), role)
    }

    fn from(number: usize) -> IpAddr {
        Ipv4Addr::from(u32::try_from(number).expect("a number")).into()
    }

    #[test]
    fn one_ticket_takes_its_share_only_also_of_peers_that_stay() {
        let mut shown = Shown::default();
        let peers: Vec<PeerId> = (0..SHOWN_MAX).map(|_| PeerId::random()).collect();
        for (at, peer) in peers.iter().enumerate() {
            let showed = shown.show(*peer, grant(1, Role::Reader), from(at));
            assert_eq!(showed.is_ok(), at < PER_TICKET_MAX, "{at}");
        }
        let other = PeerId::random();
        assert_eq!(shown.show(other, grant(2, Role::Editor), from(9)), Ok(()));
        // A peer that is gone makes room, and is forgotten. A connected one is not.
        shown.gone(&peers[7]);
        assert_eq!(
            shown.show(peers[2000], grant(1, Role::Reader), from(1)),
            Ok(())
        );
        assert_eq!(shown.of(&peers[7]), []);
        assert_eq!(shown.of(&peers[8]).len(), 1);
    }

    #[test]
    fn who_is_gone_makes_room_and_members_have_room_of_their_own() {
        let mut shown = Shown::default();
        for at in 0..SHOWN_MAX + 100 {
            let peer = PeerId::random();
            let ticket = grant(u8::try_from(at % 200).expect("small"), Role::Writer);
            shown.show(peer, ticket, from(at)).expect("others are gone");
            shown.gone(&peer);
        }
        assert_eq!(shown.peers.len(), SHOWN_MAX - MEMBERS_RESERVE);
        for entry in shown.peers.values_mut() {
            entry.is_connected = true;
        }
        let full = shown.show(PeerId::random(), grant(201, Role::Writer), from(1));
        assert_eq!(full, Err(Full));
        for at in 0..MEMBERS_RESERVE {
            let peer = PeerId::random();
            let showed = shown.show(peer, grant(202, Role::Member), from(at));
            assert_eq!(showed, Ok(()), "{at}");
        }
    }

    #[test]
    fn one_address_takes_its_share_only() {
        let mut shown = Shown::default();
        let mut show = |at: usize, from| {
            let ticket = grant(u8::try_from(at % 250).expect("small"), Role::Reader);
            shown.show(PeerId::random(), ticket, from).is_ok()
        };
        let taken = (0..PER_ADDRESS_MAX + 10).filter(|at| show(*at, from(1)));
        assert_eq!(taken.count(), PER_ADDRESS_MAX);
        assert!(show(0, from(2)));
    }
}
