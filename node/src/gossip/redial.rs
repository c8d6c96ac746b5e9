//! When to dial the nodes that this one should be connected to.

use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::time::{Duration, Instant};

/// The wait after a first failure; it doubles with each further one.
const WAIT_MIN: Duration = Duration::from_millis(250);

/// The longest wait. Higher leaves a healed network apart for longer, lower dials a dead node more
/// often.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A connection that lasted less long counts as a failure: of two nodes with one key each would else
/// take the other's place all the time.
const STEADY: Duration = Duration::from_secs(10);

/// The nodes to stay connected to, and when each is tried next.
pub(super) struct Redial {
    targets: Vec<Target>,
}

struct Target {
    address: Multiaddr,
    /// Who is there: from the address, or learned when it first answered.
    peer: Option<PeerId>,
    wait: Duration,
    next: Instant,
    dialling: Option<ConnectionId>,
    /// When it was reached last.
    reached: Option<Instant>,
}

impl Redial {
    /// All `addresses` are due at `now`.
    pub(super) fn new(addresses: impl Iterator<Item = Multiaddr>, now: Instant) -> Redial {
        let mut redial = Redial {
            targets: Vec::new(),
        };
        for address in addresses {
            redial.add(address, now);
        }
        redial
    }

    /// One more address to stay connected to, due at once.
    pub(super) fn add(&mut self, address: Multiaddr, now: Instant) {
        if self.targets.iter().any(|target| target.address == address) {
            return;
        }
        let peer = match address.iter().last() {
            Some(Protocol::P2p(peer)) => Some(peer),
            _ => None,
        };
        self.targets.push(Target {
            address,
            peer,
            wait: WAIT_MIN,
            next: now,
            dialling: None,
            reached: None,
        });
    }

    /// Takes an address off the list.
    pub(super) fn remove(&mut self, address: &Multiaddr) {
        self.targets.retain(|target| target.address != *address);
    }

    /// The addresses to dial now, by their place; each must be answered by [`Redial::dialling`].
    pub(super) fn due(
        &self,
        now: Instant,
        connected: impl Fn(&PeerId) -> bool,
    ) -> Vec<(usize, Multiaddr)> {
        let due = |target: &Target| {
            target.dialling.is_none()
                && target.next <= now
                && !target.peer.as_ref().is_some_and(&connected)
        };
        let places = self.targets.iter().enumerate();
        let due = places.filter(|(_, target)| due(target));
        due.map(|(place, target)| (place, target.address.clone()))
            .collect()
    }

    /// The target at `place` is being dialled, or could not even be (`None`).
    pub(super) fn dialling(&mut self, place: usize, attempt: Option<ConnectionId>, now: Instant) {
        let target = &mut self.targets[place];
        target.dialling = attempt;
        if attempt.is_none() {
            target.back_off(now);
        }
    }

    /// An attempt has reached `peer`.
    pub(super) fn reached(&mut self, attempt: ConnectionId, peer: PeerId, now: Instant) {
        if let Some(target) = self.find(attempt) {
            target.dialling = None;
            target.peer = Some(peer);
            target.reached = Some(now);
            target.next = now;
        }
    }

    /// An attempt has failed.
    pub(super) fn failed(&mut self, attempt: ConnectionId, now: Instant) {
        if let Some(target) = self.find(attempt) {
            target.dialling = None;
            target.back_off(now);
        }
    }

    /// The last connection to `peer` is gone.
    pub(super) fn lost(&mut self, peer: PeerId, now: Instant) {
        for target in &mut self.targets {
            if target.peer != Some(peer) {
                continue;
            }
            match target.reached.take() {
                Some(since) if now.duration_since(since) < STEADY => target.back_off(now),
                _ => target.wait = WAIT_MIN,
            }
        }
    }

    /// A peer misbehaved: it is tried again only after the longest wait.
    pub(super) fn avoid(&mut self, peer: PeerId, now: Instant) {
        for target in &mut self.targets {
            if target.peer == Some(peer) {
                target.wait = WAIT_MAX;
                target.back_off(now);
            }
        }
    }

    /// All are due at once, as after a healed cut.
    pub(super) fn hurry(&mut self, now: Instant) {
        for target in &mut self.targets {
            target.wait = WAIT_MIN;
            target.next = now;
        }
    }

    fn find(&mut self, attempt: ConnectionId) -> Option<&mut Target> {
        let mut targets = self.targets.iter_mut();
        targets.find(|target| target.dialling == Some(attempt))
    }
}

impl Target {
    fn back_off(&mut self, now: Instant) {
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: &PeerId) -> bool {
        false
    }

    #[test]
    fn failures_double_the_wait_up_to_its_limit_and_hurry_ends_it() {
        let mut now = Instant::now();
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().expect("address");
        let mut redial = Redial::new([address.clone(), address].into_iter(), now);
        let mut waits = Vec::new();
        for attempt in 1..=7 {
            assert_eq!(redial.due(now, nobody).len(), 1, "attempt {attempt}");
            let id = ConnectionId::new_unchecked(attempt);
            redial.dialling(0, Some(id), now);
            assert!(redial.due(now, nobody).is_empty(), "one dial at a time");
            redial.failed(id, now);
            let next = redial.targets[0].next;
            waits.push((next - now).as_millis());
            assert!(
                redial
                    .due(next - Duration::from_millis(1), nobody)
                    .is_empty()
            );
            now = next;
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        redial.failed(ConnectionId::new_unchecked(99), now);
        redial.dialling(0, None, now);
        assert!(redial.due(now, nobody).is_empty());
        redial.hurry(now);
        assert_eq!(redial.due(now, nobody).len(), 1);
    }

    #[test]
    fn a_connected_peer_is_not_dialled_until_it_is_gone() {
        let now = Instant::now();
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().expect("address");
        let mut redial = Redial::new([address].into_iter(), now);
        let (id, peer) = (ConnectionId::new_unchecked(1), PeerId::random());
        redial.dialling(0, Some(id), now);
        redial.reached(id, peer, now);
        assert!(redial.due(now, |connected| *connected == peer).is_empty());
        assert_eq!(redial.due(now, nobody).len(), 1);
        redial.avoid(peer, now);
        assert!(redial.due(now, nobody).is_empty());
    }

    #[test]
    fn a_connection_that_does_not_last_counts_as_a_failure() {
        let mut now = Instant::now();
        let address: Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().expect("address");
        let mut redial = Redial::new([address].into_iter(), now);
        let peer = PeerId::random();
        let mut waits = Vec::new();
        for (attempt, lasts) in [1, 1, 1, 20, 1].into_iter().enumerate() {
            let id = ConnectionId::new_unchecked(attempt);
            redial.dialling(0, Some(id), now);
            redial.reached(id, peer, now);
            now += Duration::from_secs(lasts);
            redial.lost(peer, now);
            let next = redial.targets[0].next.max(now);
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [250, 500, 1000, 0, 250]);
    }
}
