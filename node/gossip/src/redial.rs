//! Decides when to dial the nodes to which this one should be connected.

use super::unreached::Expected;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use std::time::{Duration, Instant};
use tallymesh_core::SplitMix64;

/// The wait after a first failure; it doubles with each further one. It is also the wait after a connection ended.
/// With a shorter one, a copy of this node's data folder, whose turn it is, has no time to exchange anything.
const WAIT_MIN: Duration = Duration::from_millis(250);

/// The longest wait for a node that was connected recently. With a higher value, a healed network
/// stays apart for longer. With a lower one, a dead node is dialled more often.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The longest wait for a node that has been away for [`LONG_GONE`], or was never connected.
const WAIT_LONG_MAX: Duration = Duration::from_secs(60);

/// A node that was not reached for this time is dialled less and less often.
const LONG_GONE: Duration = Duration::from_secs(120);

/// Most addresses that were found and not configured. A machine that announces more on the local
/// network is malicious.
const FOUND_MAX: usize = 256;

/// A connection that was shorter counts as a failure. Otherwise two nodes with one key would
/// displace each other all the time.
const STEADY: Duration = Duration::from_secs(10);

/// The nodes to stay connected to, and when each is dialled next.
pub(super) struct Redial {
    targets: Vec<Target>,
    /// Randomizes waits, so that nodes that lost each other at the same time do not dial at the
    /// same time.
    chance: Chance,
}

struct Target {
    address: Multiaddr,
    /// The peer at the address: from the address itself, or from its first answer.
    peer: Option<PeerId>,
    wait: Duration,
    next: Instant,
    dialling: Option<ConnectionId>,
    /// When it was last reached.
    reached: Option<Instant>,
    /// Since when it has been away.
    gone: Instant,
    /// Whether it was configured, and not found.
    configured: bool,
}

/// Random numbers that may be predictable.
pub(super) struct Chance(SplitMix64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(SplitMix64::new(seed))
    }

    /// A number below `end`, which is above 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() >> 33) as usize % end // 31 bits
    }

    /// A random duration around `wait`: a quarter more or less.
    pub(super) fn about(&mut self, wait: Duration) -> Duration {
        wait * (75 + self.below(51) as u32) / 100
    }
}

impl Redial {
    /// Makes all `addresses` due at `now`. Nodes with different seeds have different waits.
    pub(super) fn new(
        addresses: impl Iterator<Item = Multiaddr>,
        seed: u64,
        now: Instant,
    ) -> Redial {
        let mut redial = Redial {
            targets: Vec::new(),
            chance: Chance::new(seed),
        };
        for address in addresses {
            redial.add(address, true, now);
        }
        redial
    }

    /// Adds an address that was found, due at once.
    pub(super) fn found(&mut self, address: Multiaddr, now: Instant) {
        let found = self.targets.iter().filter(|target| !target.configured);
        if found.count() < FOUND_MAX {
            self.add(address, false, now);
        }
    }

    fn add(&mut self, address: Multiaddr, configured: bool, now: Instant) {
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
            gone: now,
            configured,
        });
    }

    /// The configured peers whose ids are known.
    pub(super) fn configured(&self) -> impl Iterator<Item = PeerId> + '_ {
        let configured = self.targets.iter().filter(|target| target.configured);
        configured.filter_map(|target| target.peer)
    }

    /// Whether the target at `place` is a configured one.
    pub(super) fn is_configured(&self, place: usize) -> bool {
        self.targets[place].configured
    }

    /// The configured addresses, and the peer at each.
    pub(super) fn expected(&self) -> impl Iterator<Item = Expected> + '_ {
        let configured = self.targets.iter().filter(|target| target.configured);
        configured.map(|target| (target.address.clone(), target.peer))
    }

    /// Removes an address that was found.
    pub(super) fn lost_address(&mut self, address: &Multiaddr) {
        self.targets
            .retain(|target| target.configured || target.address != *address);
    }

    /// The addresses to dial now, by their place. The caller must report each to
    /// [`Redial::dialling`].
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

    /// Records that the target at `place` is being dialled, or could not be (`None`).
    pub(super) fn dialling(&mut self, place: usize, attempt: Option<ConnectionId>, now: Instant) {
        let target = &mut self.targets[place];
        target.dialling = attempt;
        if attempt.is_none() {
            target.back_off(now, &mut self.chance);
        }
    }

    /// Records that an attempt has reached `peer`. Returns whether its target is configured.
    pub(super) fn reached(&mut self, attempt: ConnectionId, peer: PeerId, now: Instant) -> bool {
        let mut targets = self.targets.iter_mut();
        let target = targets.find(|target| target.dialling == Some(attempt));
        let Some(target) = target else {
            return false;
        };
        target.dialling = None;
        target.peer = Some(peer);
        target.reached = Some(now);
        target.next = now;
        target.configured
    }

    /// Records that an attempt has failed. Returns the address if it is configured.
    pub(super) fn failed(&mut self, attempt: ConnectionId, now: Instant) -> Option<Multiaddr> {
        let mut targets = self.targets.iter_mut();
        let target = targets.find(|target| target.dialling == Some(attempt))?;
        target.dialling = None;
        target.back_off(now, &mut self.chance);
        target.configured.then(|| target.address.clone())
    }

    /// Records that the last connection to `peer` is gone. If it was short, all addresses of the peer wait.
    pub(super) fn lost(&mut self, peer: PeerId, now: Instant) {
        let targets = self.targets.iter_mut();
        let mut targets: Vec<&mut Target> = targets.filter(|it| it.peer == Some(peer)).collect();
        let reached = targets.iter_mut().filter_map(|it| it.reached.take()).max();
        let is_short = reached.is_some_and(|since| now.duration_since(since) < STEADY);
        for target in targets {
            if !is_short {
                target.wait = WAIT_MIN;
            }
            target.back_off(now, &mut self.chance);
            target.gone = now;
        }
    }

    /// Makes a peer that misbehaved wait for the longest time.
    pub(super) fn avoid(&mut self, peer: PeerId, now: Instant) {
        for target in &mut self.targets {
            if target.peer == Some(peer) {
                target.wait = WAIT_MAX;
                target.back_off(now, &mut self.chance);
            }
        }
    }

    /// Makes all targets due at once, as after a healed cut.
    pub(super) fn hurry(&mut self, now: Instant) {
        for target in &mut self.targets {
            target.wait = WAIT_MIN;
            target.next = now;
        }
    }
}

impl Target {
    fn back_off(&mut self, now: Instant, chance: &mut Chance) {
        self.next = now + chance.about(self.wait);
        let most = match now.duration_since(self.gone) < LONG_GONE {
            true => WAIT_MAX,
            false => WAIT_LONG_MAX,
        };
        self.wait = (self.wait * 2).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: &PeerId) -> bool {
        false
    }

    fn address() -> Multiaddr {
        "/ip4/127.0.0.1/tcp/1".parse().expect("an address")
    }

    /// The wait without its random part.
    fn plain(wait: Duration) -> u64 {
        let plain = [
            250, 500, 1000, 2000, 4000, 5000, 10_000, 20_000, 40_000, 60_000,
        ];
        let wait = wait.as_millis() as u64;
        let fits = |plain: &u64| (plain * 3 / 4..=plain * 5 / 4).contains(&wait);
        // With their random parts, 4000 and 5000 may look the same.
        plain.into_iter().rev().find(fits).unwrap_or(wait)
    }

    #[test]
    fn failures_double_the_wait_up_to_its_limit_and_hurry_ends_it() {
        let start = Instant::now();
        let mut now = start;
        let mut redial = Redial::new([address(), address()].into_iter(), 7, now);
        let mut waits = Vec::new();
        let mut attempt = 0;
        while now - start < Duration::from_secs(600) {
            attempt += 1;
            assert_eq!(redial.due(now, nobody).len(), 1, "attempt {attempt}");
            let id = ConnectionId::new_unchecked(attempt);
            redial.dialling(0, Some(id), now);
            assert!(redial.due(now, nobody).is_empty(), "one dial at a time");
            redial.failed(id, now);
            let next = redial.targets[0].next;
            waits.push((now - start, plain(next - now)));
            let almost = next - Duration::from_millis(1);
            assert!(redial.due(almost, nobody).is_empty());
            now = next;
        }
        let first: Vec<u64> = waits.iter().map(|(_, wait)| *wait).take(4).collect();
        assert_eq!(first, [250, 500, 1000, 2000]);
        for (at, wait) in &waits {
            let most = match *at < LONG_GONE {
                true => 5000,
                false => 60_000,
            };
            assert!(*wait <= most, "{wait} after {at:?}");
        }
        let last: Vec<u64> = waits.iter().rev().map(|(_, wait)| *wait).take(3).collect();
        assert_eq!(last, [60_000; 3]);
        redial.failed(ConnectionId::new_unchecked(9999), now);
        redial.dialling(0, None, now);
        assert!(redial.due(now, nobody).is_empty());
        redial.hurry(now);
        assert_eq!(redial.due(now, nobody).len(), 1);
    }

    #[test]
    fn waits_differ_from_node_to_node() {
        let now = Instant::now();
        let wait = |seed| {
            let mut redial = Redial::new([address()].into_iter(), seed, now);
            redial.dialling(0, None, now);
            redial.targets[0].next - now
        };
        let waits: std::collections::BTreeSet<Duration> = (0..100).map(wait).collect();
        assert!(waits.len() > 20, "{waits:?}");
        let range = WAIT_MIN * 3 / 4..=WAIT_MIN * 5 / 4;
        assert!(waits.iter().all(|wait| range.contains(wait)), "{waits:?}");
    }

    #[test]
    fn a_connected_peer_is_not_dialled_until_it_is_gone() {
        let now = Instant::now();
        let mut redial = Redial::new([address()].into_iter(), 7, now);
        let (id, peer) = (ConnectionId::new_unchecked(1), PeerId::random());
        redial.dialling(0, Some(id), now);
        assert_eq!(redial.configured().count(), 0);
        assert!(redial.reached(id, peer, now), "it was configured");
        assert_eq!(redial.configured().collect::<Vec<_>>(), [peer]);
        assert!(redial.due(now, |connected| *connected == peer).is_empty());
        assert_eq!(redial.due(now, nobody).len(), 1);
        redial.avoid(peer, now);
        assert!(redial.due(now, nobody).is_empty());
    }

    #[test]
    fn a_connection_that_does_not_last_counts_as_a_failure() {
        let mut now = Instant::now();
        let mut redial = Redial::new([address()].into_iter(), 7, now);
        let peer = PeerId::random();
        let mut waits = Vec::new();
        for (attempt, lasts) in [1, 1, 1, 20, 1].into_iter().enumerate() {
            let id = ConnectionId::new_unchecked(attempt);
            redial.dialling(0, Some(id), now);
            redial.reached(id, peer, now);
            now += Duration::from_secs(lasts);
            redial.lost(peer, now);
            let next = redial.targets[0].next.max(now);
            waits.push(plain(next - now));
            now = next;
        }
        assert_eq!(waits, [250, 500, 1000, 250, 500]);
    }

    /// A copy of a data folder is closed out at each address, for as long as it is not its turn.
    #[test]
    fn short_connections_let_all_addresses_of_a_peer_wait() {
        let begun = Instant::now();
        let peer = PeerId::random();
        let at = |port| format!("/ip4/127.0.0.1/tcp/{port}/p2p/{peer}");
        let addresses = (1..=4).map(|port| at(port).parse().expect("an address"));
        let mut redial = Redial::new(addresses, 7, begun);
        let mut dials = 0;
        for ms in (0..60_000).step_by(100) {
            let now = begun + Duration::from_millis(ms);
            for (place, _) in redial.due(now, nobody) {
                dials += 1;
                let id = ConnectionId::new_unchecked(dials);
                redial.dialling(place, Some(id), now);
                redial.reached(id, peer, now);
                redial.lost(peer, now + Duration::from_millis(10));
            }
        }
        assert!(dials < 60, "{dials} in a minute");
    }

    #[test]
    fn what_is_found_is_bounded_and_goes_again() {
        let now = Instant::now();
        let mut redial = Redial::new([address()].into_iter(), 7, now);
        let found = |port| {
            format!("/ip4/10.0.0.1/tcp/{port}")
                .parse()
                .expect("an address")
        };
        for port in 1..1000 {
            redial.found(found(port), now);
        }
        assert_eq!(redial.due(now, nobody).len(), 1 + FOUND_MAX);
        for port in 1..1000 {
            redial.lost_address(&found(port));
        }
        redial.lost_address(&address());
        assert_eq!(redial.due(now, nobody).len(), 1, "what is configured stays");
    }
}
