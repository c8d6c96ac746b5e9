//! Circuits: this node as a relay for others, and others as relays for this node.
//!
//! Nodes that can't be dialled, such as browsers and nodes behind a router, listen at a relay, and
//! are reached through it (circuit relay v2). A circuit is encrypted from end to end.

use libp2p::core::transport::ListenerId;
use libp2p::{Multiaddr, PeerId, relay};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tallymesh_node_engine::settings::RelayLimits;

/// Most circuits of one peer.
const CIRCUITS_PER_PEER_MAX: usize = 8;

/// The part of the swarm that relays for others.
pub(super) fn relaying(limits: RelayLimits, own: PeerId) -> relay::Behaviour {
    let config = relay::Config {
        max_reservations: limits.reservations,
        max_circuits: limits.circuits,
        max_circuits_per_peer: CIRCUITS_PER_PEER_MAX.min(limits.circuits),
        max_circuit_bytes: limits.circuit_bytes,
        max_circuit_duration: limits.circuit_time,
        ..relay::Config::default()
    };
    relay::Behaviour::new(own, config)
}

/// How many times each peer uses this node as a relay now.
#[derive(Default)]
pub(super) struct Relayed(HashMap<PeerId, usize>);

impl Relayed {
    pub(super) fn uses(&self, peer: &PeerId) -> bool {
        self.0.contains_key(peer)
    }

    pub(super) fn began(&mut self, peer: PeerId) {
        *self.0.entry(peer).or_default() += 1;
    }

    /// Records the end of one use. Returns whether it was the last.
    pub(super) fn ended(&mut self, peer: &PeerId) -> bool {
        match self.0.get_mut(peer) {
            Some(uses) if *uses > 1 => {
                *uses -= 1;
                false
            }
            Some(_) => self.0.remove(peer).is_some(),
            None => false,
        }
    }

    pub(super) fn disconnected(&mut self, peer: &PeerId) {
        self.0.remove(peer);
    }
}

/// The wait after a listener at a relay has ended. It doubles each time that a new one fails.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The listeners of this node at relays. A relay may come and go, so this node opens them again and
/// again.
#[derive(Default)]
pub(super) struct Circuits(Vec<Circuit>);

struct Circuit {
    address: Multiaddr,
    listener: Option<ListenerId>,
    /// Whether the relay has accepted this node.
    is_bound: bool,
    wait: Duration,
    next: Instant,
}

impl Circuits {
    /// Adds an address to listen on, from `now` on.
    pub(super) fn add(&mut self, address: Multiaddr, now: Instant) {
        self.0.push(Circuit {
            address,
            listener: None,
            is_bound: false,
            wait: WAIT_MIN,
            next: now,
        });
    }

    /// Opens the listeners that are due with `listen`.
    pub(super) fn listen(
        &mut self,
        now: Instant,
        mut listen: impl FnMut(Multiaddr) -> Option<ListenerId>,
    ) {
        for circuit in &mut self.0 {
            if circuit.listener.is_none() && circuit.next <= now {
                circuit.listener = listen(circuit.address.clone());
                circuit.next = now + circuit.wait;
                circuit.wait = (circuit.wait * 2).min(WAIT_MAX);
            }
        }
    }

    /// Records that a relay has accepted this node.
    pub(super) fn bound(&mut self, listener: ListenerId) {
        if let Some(circuit) = self.find(listener) {
            (circuit.wait, circuit.is_bound) = (WAIT_MIN, true);
        }
    }

    /// Each address, and whether this node can be reached there.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Multiaddr, bool)> {
        let all = self.0.iter();
        all.map(|circuit| (&circuit.address, circuit.is_bound))
    }

    /// Records that a listener has ended. Returns its address if it was at a relay.
    pub(super) fn ended(&mut self, listener: ListenerId, now: Instant) -> Option<&Multiaddr> {
        let circuit = self.find(listener)?;
        (circuit.listener, circuit.is_bound) = (None, false);
        circuit.next = now + circuit.wait;
        Some(&circuit.address)
    }

    /// Makes all closed listeners due at once, as after a healed cut.
    pub(super) fn hurry(&mut self, now: Instant) {
        for circuit in &mut self.0 {
            circuit.wait = WAIT_MIN;
            circuit.next = now;
        }
    }

    fn find(&mut self, listener: ListenerId) -> Option<&mut Circuit> {
        let mut circuits = self.0.iter_mut();
        circuits.find(|circuit| circuit.listener == Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::identity::relay_of;

    #[test]
    fn a_listener_that_ends_is_made_again_more_and_more_seldom() {
        let mut now = Instant::now();
        let mut circuits = Circuits::default();
        let relay = PeerId::random();
        let address: Multiaddr = format!("/ip4/127.0.0.1/tcp/9/p2p/{relay}/p2p-circuit")
            .parse()
            .expect("an address");
        assert_eq!(relay_of(&address), Some(relay));
        circuits.add(address.clone(), now);
        let mut waits = Vec::new();
        for round in 0..9 {
            let listener = ListenerId::next();
            let mut made = 0;
            circuits.listen(now, |_| {
                made += 1;
                Some(listener)
            });
            assert_eq!(made, 1, "round {round}");
            circuits.listen(now, |_| panic!("it listens"));
            if round == 7 {
                circuits.bound(listener);
            }
            assert_eq!(circuits.ended(listener, now), Some(&address));
            assert_eq!(circuits.ended(listener, now), None);
            waits.push((circuits.0[0].next - now).as_secs());
            now = circuits.0[0].next;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 1, 2]);
        let before = now - Duration::from_secs(1);
        circuits.listen(before, |_| panic!("not yet"));
        circuits.hurry(before);
        let mut made = 0;
        circuits.listen(before, |_| {
            made += 1;
            None
        });
        assert_eq!(made, 1);
    }

    #[test]
    fn uses_of_the_relay_are_counted() {
        let (mut relayed, peer) = (Relayed::default(), PeerId::random());
        assert!(!relayed.ended(&peer));
        relayed.began(peer);
        relayed.began(peer);
        assert!(!relayed.ended(&peer));
        assert!(relayed.uses(&peer));
        assert!(relayed.ended(&peer));
        assert!(!relayed.uses(&peer));
    }
}
