//! The known addresses of other nodes, and when each node is dialled.

use super::redial::Chance;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tallymesh_node_store as store;
use tallymesh_node_store::{ADDRESSES_BYTES_MAX, ADDRESSES_FILE};

/// Most nodes whose addresses are remembered. Later ones find no room.
pub(super) const PEERS_MAX: usize = 4096;

/// Most addresses of one node.
pub(super) const PER_PEER_MAX: usize = 16;

/// Most parts of an address.
const PARTS_MAX: usize = 12;

/// How often the file is written if no address was added or removed.
const RESAVE_MS: u64 = 60 * 60 * 1000;

/// How long addresses are tried again, in milliseconds, if all of them have expired. The node was
/// away for long, or its folder is a backup, and it has no other addresses.
const AGAIN_MS: u64 = 24 * 60 * 60 * 1000;

/// The prefix of each key of the book that is an address.
const KEY: &str = "addr/";

/// The wait after a node was dialled. It doubles until the node is reached.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The addresses of one node, each with its expiry, in milliseconds since 1970.
pub(super) type NodeAddresses = BTreeMap<Multiaddr, u64>;

/// The key of an address in the book.
pub(super) fn key(peer: &PeerId, address: &Multiaddr) -> String {
    format!("{KEY}{peer}{address}")
}

/// Reads a key of the book. Returns `None` if it is no address that can be dialled.
pub(super) fn read_key(key: &str) -> Option<(PeerId, Multiaddr)> {
    let rest = key.strip_prefix(KEY)?;
    let (peer, address) = rest.split_at(rest.find('/')?);
    let (peer, address) = (peer.parse().ok()?, address.parse().ok()?);
    is_dialable(&address).then_some((peer, address))
}

/// Whether an address names a place, without the node at its end, which the key names.
fn is_dialable(address: &Multiaddr) -> bool {
    let parts: Vec<Protocol<'_>> = address.iter().take(PARTS_MAX + 1).collect();
    let place = match parts.first() {
        Some(Protocol::Ip4(ip)) => !ip.is_unspecified(),
        Some(Protocol::Ip6(ip)) => !ip.is_unspecified(),
        Some(Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_)) => true,
        _ => false,
    };
    let named = matches!(parts.last(), Some(Protocol::P2p(_)));
    place && !named && (2..=PARTS_MAX).contains(&parts.len())
}

/// When a node is dialled next.
struct Attempt {
    wait: Duration,
    next: Instant,
}

/// The addresses of other nodes. They outlive this process if there is a folder for their file.
pub(super) struct Addresses {
    peers: BTreeMap<PeerId, NodeAddresses>,
    attempts: HashMap<PeerId, Attempt>,
    folder: Option<PathBuf>,
    /// When the file was last written, in milliseconds since 1970.
    saved_ms: u64,
}

impl Addresses {
    /// Reads the valid addresses in the file that have not expired. If all have expired, they get
    /// some more time.
    pub(super) fn load(folder: Option<PathBuf>, own: &PeerId, unix_ms: u64) -> Addresses {
        let mut addresses = Addresses {
            peers: BTreeMap::new(),
            attempts: HashMap::new(),
            folder: None,
            saved_ms: unix_ms,
        };
        let kept = folder.as_deref().map(read_in).unwrap_or_default();
        let kept = kept.into_iter().filter_map(|(key, until)| {
            let (peer, address) = read_key(&key)?;
            (peer != *own).then_some((peer, address, until))
        });
        let kept: Vec<(PeerId, Multiaddr, u64)> = kept.collect();
        let again = match kept.iter().any(|it| it.2 > unix_ms) {
            true => 0,
            false => unix_ms.saturating_add(AGAIN_MS),
        };
        for (peer, address, until) in kept {
            let until = until.max(again);
            if until > unix_ms {
                addresses.add(peer, address, until);
            }
        }
        addresses.folder = folder;
        addresses
    }

    /// The address of each node that was announced last.
    pub(super) fn latest(&self) -> impl Iterator<Item = (&PeerId, &Multiaddr)> {
        let nodes = self.peers.iter();
        nodes.filter_map(|(peer, held)| {
            let latest = held.iter().max_by_key(|(_, until)| **until)?;
            Some((peer, latest.0))
        })
    }

    fn add(&mut self, peer: PeerId, address: Multiaddr, until: u64) {
        let room = self.peers.len() < PEERS_MAX || self.peers.contains_key(&peer);
        if room {
            let held = self.peers.entry(peer).or_default();
            if held.len() < PER_PEER_MAX || held.contains_key(&address) {
                held.insert(address, until);
            }
        }
    }

    /// Stores addresses from the book, which replace all earlier addresses of the same nodes, and
    /// drops the expired ones.
    pub(super) fn heard(&mut self, heard: BTreeMap<PeerId, NodeAddresses>, unix_ms: u64) {
        let before = self.peers.clone();
        for (peer, held) in heard {
            if self
                .peers
                .get(&peer)
                .is_none_or(|known| !known.keys().eq(held.keys()))
            {
                // The node is at another place now.
                self.attempts.remove(&peer);
            }
            self.peers.remove(&peer);
            for (address, until) in held {
                self.add(peer, address, until);
            }
        }
        for held in self.peers.values_mut() {
            held.retain(|_, until| *until > unix_ms);
        }
        self.peers.retain(|_, held| !held.is_empty());
        let peers = &self.peers;
        self.attempts.retain(|peer, _| peers.contains_key(peer));
        let same = |(one, other): ((&PeerId, &NodeAddresses), (&PeerId, &NodeAddresses))| {
            one.0 == other.0 && one.1.keys().eq(other.1.keys())
        };
        let is_same = before.len() == self.peers.len() && before.iter().zip(&self.peers).all(same);
        // A later expiry alone is rarely saved, because the addresses last for long anyway.
        if !is_same || unix_ms.abs_diff(self.saved_ms) > RESAVE_MS {
            self.save();
            self.saved_ms = unix_ms;
        }
    }

    /// Returns up to `most` nodes to dial now, chosen at random, and all due nodes of `wanted`. A
    /// returned node is due again after a wait.
    pub(super) fn due(
        &mut self,
        most: usize,
        wanted: &BTreeSet<PeerId>,
        now: Instant,
        chance: &mut Chance,
        skip: impl Fn(&PeerId) -> bool,
    ) -> Vec<(PeerId, Vec<Multiaddr>)> {
        let is_due = |peer: &PeerId| {
            let attempt = self.attempts.get(peer);
            attempt.is_none_or(|attempt| attempt.next <= now) && !skip(peer)
        };
        let due = self.peers.keys().filter(|peer| is_due(peer)).copied();
        let (mut chosen, mut others): (Vec<PeerId>, Vec<PeerId>) =
            due.partition(|peer| wanted.contains(peer));
        for _ in 0..most.saturating_sub(chosen.len()).min(others.len()) {
            let place = chance.below(others.len());
            chosen.push(others.swap_remove(place));
        }
        let dial = |peer: PeerId| {
            let attempt = self.attempts.entry(peer).or_insert(Attempt {
                wait: WAIT_MIN,
                next: now,
            });
            attempt.next = now + chance.about(attempt.wait);
            attempt.wait = (attempt.wait * 2).min(WAIT_MAX);
            let held = self.peers.get(&peer)?;
            Some((peer, held.keys().cloned().collect()))
        };
        chosen.into_iter().filter_map(dial).collect()
    }

    /// Records that a node was reached.
    pub(super) fn reached(&mut self, peer: &PeerId) {
        self.attempts.remove(peer);
    }

    /// Makes all nodes due at once, as after a healed cut.
    pub(super) fn hurry(&mut self) {
        self.attempts.clear();
    }

    /// Writes the file. If some of it is lost, the only cost is to ask another node again.
    fn save(&self) {
        let Some(folder) = &self.folder else {
            return;
        };
        let file = folder.join(ADDRESSES_FILE);
        let each = |(peer, held): (&PeerId, &NodeAddresses)| {
            let peer = *peer;
            let held = held.iter();
            held.map(move |(address, until)| (key(&peer, address), *until))
                .collect::<Vec<_>>()
        };
        let all: BTreeMap<String, u64> = self.peers.iter().flat_map(each).collect();
        let part = file.with_extension("part");
        let written = serde_json::to_vec(&all)
            .map_err(std::io::Error::from)
            .and_then(|bytes| std::fs::write(&part, bytes))
            .and_then(|()| std::fs::rename(&part, &file));
        if let Err(error) = written {
            tracing::debug!(%error, "the addresses of other nodes were not kept");
        }
    }
}

/// The addresses in the file of a folder; none if it can't be read.
fn read_in(folder: &Path) -> BTreeMap<String, u64> {
    let read = store::read_small(folder, ADDRESSES_FILE, ADDRESSES_BYTES_MAX);
    let bytes = read.ok().flatten();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: usize) -> Multiaddr {
        let text = format!("/ip4/10.0.0.1/tcp/{port}");
        text.parse().expect("an address")
    }

    fn held(ports: impl IntoIterator<Item = usize>, until: u64) -> NodeAddresses {
        ports
            .into_iter()
            .map(|port| (address(port), until))
            .collect()
    }

    fn known(addresses: &Addresses, peer: &PeerId) -> Vec<Multiaddr> {
        let held = addresses.peers.get(peer);
        held.map(|held| held.keys().cloned().collect())
            .unwrap_or_default()
    }

    #[test]
    fn keys_that_are_no_addresses_are_passed_over() {
        let peer = PeerId::random();
        let relay = PeerId::random();
        let circuit = format!("/ip4/10.0.0.1/tcp/1/p2p/{relay}/p2p-circuit");
        for text in ["/ip4/10.0.0.1/tcp/1", "/dns4/a.example/tcp/1/ws", &circuit] {
            let address: Multiaddr = text.parse().expect(text);
            assert_eq!(read_key(&key(&peer, &address)), Some((peer, address)));
        }
        let long = "/tcp/1".repeat(PARTS_MAX);
        for text in [
            "",
            "addr/",
            "addr/x/ip4/10.0.0.1/tcp/1",
            &format!("addr/{peer}"),
            &format!("addr/{peer}/"),
            &format!("addr/{peer}/ip4/10.0.0.1"),
            &format!("addr/{peer}/ip4/0.0.0.0/tcp/1"),
            &format!("addr/{peer}/tcp/1/tcp/2"),
            &format!("addr/{peer}/ip4/10.0.0.1/tcp/1/p2p/{relay}"),
            &format!("addr/{peer}/ip4/10.0.0.1{long}"),
            &format!("other/{peer}/ip4/10.0.0.1/tcp/1"),
        ] {
            assert_eq!(read_key(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_heard_takes_the_place_of_what_was_known_within_bounds() {
        let own = PeerId::random();
        let folder = tempfile::tempdir().expect("a folder");
        let at = Some(folder.path().to_owned());
        let mut addresses = Addresses::load(at.clone(), &own, 0);
        let [one, two] = [0, 1].map(|_| PeerId::random());
        let heard = BTreeMap::from([(one, held([1, 2], 100)), (two, held([3], 50))]);
        addresses.heard(heard, 10);
        addresses.heard(BTreeMap::from([(one, held([4], 100))]), 20);
        assert_eq!(known(&addresses, &one), [address(4)]);
        assert_eq!(known(&addresses, &two), [address(3)]);
        // The next start has the addresses, too, until they expire.
        let again = Addresses::load(at.clone(), &own, 60);
        assert_eq!(known(&again, &one), [address(4)]);
        assert!(known(&again, &two).is_empty());
        // A node that was away until all of them expired has no others to try.
        let mut late = Addresses::load(at.clone(), &own, 1_000);
        assert_eq!(known(&late, &one), [address(4)]);
        assert_eq!(known(&late, &two), [address(3)]);
        late.heard(BTreeMap::from([(one, held([5], 9_000))]), 2_000);
        assert_eq!(known(&late, &one), [address(5)]);
        let itself = Addresses::load(at.clone(), &one, 60);
        assert!(known(&itself, &one).is_empty());
        addresses.heard(BTreeMap::new(), 60);
        assert!(
            known(&addresses, &two).is_empty(),
            "it does not hold any more"
        );
        std::fs::write(folder.path().join(ADDRESSES_FILE), b"[nonsense").expect("written");
        assert!(Addresses::load(at, &own, 0).peers.is_empty());

        addresses.heard(BTreeMap::from([(one, held(1..1000, 100))]), 60);
        assert_eq!(known(&addresses, &one).len(), PER_PEER_MAX);
        let many = (0..PEERS_MAX + 100).map(|_| (PeerId::random(), held([1], 100)));
        addresses.heard(many.collect(), 60);
        assert_eq!(addresses.peers.len(), PEERS_MAX);
    }

    #[test]
    fn nodes_are_tried_more_and_more_seldom_and_at_once_where_they_moved() {
        let own = PeerId::random();
        let mut addresses = Addresses::load(None, &own, 0);
        let mut chance = Chance::new(7);
        let peers: Vec<PeerId> = (0..10).map(|_| PeerId::random()).collect();
        let heard = peers.iter().map(|peer| (*peer, held([1], 100)));
        addresses.heard(heard.collect(), 0);
        let mut now = Instant::now();
        let none = BTreeSet::new();
        let mut due = |addresses: &mut Addresses, most, wanted: &BTreeSet<_>, now| {
            let skip = |peer: &PeerId| *peer == peers[0];
            let due = addresses.due(most, wanted, now, &mut chance, skip);
            due.into_iter().map(|(peer, _)| peer).collect::<Vec<_>>()
        };
        assert_eq!(due(&mut addresses, 3, &none, now).len(), 3);
        let rest = due(&mut addresses, 100, &none, now);
        assert_eq!(rest.len(), 6, "all but those, and one that is skipped");
        assert!(due(&mut addresses, 100, &none, now).is_empty());
        now += Duration::from_secs(2);
        let wanted = BTreeSet::from([peers[3], peers[4]]);
        let chosen = due(&mut addresses, 0, &wanted, now);
        assert_eq!(chosen.len(), 2, "those that are wanted, beyond the limit");
        let moved = BTreeMap::from([(peers[3], held([2], 100))]);
        addresses.heard(moved, 0);
        assert_eq!(due(&mut addresses, 0, &wanted, now), [peers[3]]);
        let mut waits = 0;
        let end = now + Duration::from_secs(3600);
        while now < end {
            now += Duration::from_secs(1);
            waits += due(&mut addresses, 0, &wanted, now).len();
        }
        assert!(
            (20..=50).contains(&waits),
            "{waits} tries of two in an hour"
        );
        addresses.hurry();
        assert_eq!(due(&mut addresses, 100, &none, now).len(), 9);
    }
}
