//! The peer directory, which users know as the address book: a space that the network maintains
//! itself. In it nodes publish their addresses, and which tickets are revoked. Its docs call it the
//! book.
//!
//! Each node maintains the counters `addr/<peer id><address>` there, which expire after a day and
//! are renewed after half of it. The book is replicated as every space is, by frames on the links.
//! But it belongs to the network: no user sees it, and the driver does not have it. From any one
//! node, a node receives the addresses of all others.
//!
//! In the same way there are counters `revoked/<statement>`, which [`Revocations`] reads. They are
//! signed, so it does not matter which node writes them. Each node that applies one ensures that it
//! is in the book. A node that neither publishes nor uses addresses maintains the book for these.
//!
//! No rule can keep a node from writing nonsense. So readers have bounds for each kind, in
//! [`Addresses`] and in the ledger. Each node writes no more than its share of a kind, so that
//! neither kind takes the other's room.
//!
//! An open space never forgets its writers, and each start that writes is a writer. So the book has
//! one space for each day, `_mesh.<days since 1970>`. The addresses of the previous day stay in
//! [`Addresses`] until they expire. A start writes only if the book does not have its content
//! already. So only these write into one book: starts that moved, nodes that renewed on that day,
//! and the first nodes that miss a revocation.
//!
//! Days begin by each node's wall clock. While two nodes are on different days, they receive
//! nothing new from each other. A link carries one hello for each day, and one of two clocks is
//! always ahead. So the hello of another day is stored until that day begins.

use super::addresses::{self, Addresses, NodeAddresses, PEERS_MAX, PER_PEER_MAX};
use super::peers::hello_of;
use super::redial::Chance;
use super::removals::Removals;
use super::revocations::{RevocationEntry, Revocations, Say};
use libp2p::{Multiaddr, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::{
    Error, Input, KeyId, Link, Op, Output, Replica, Role, Space, SyncConfig, SyncMachine, WriterId,
    frame_space,
};
use tallymesh_node_engine::access::{Ledger, REMOVED_MAX, REVOKED_MAX};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::{Address, Identity, OwnerKey};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long an address lasts without renewal.
const HOLDS_MS: u64 = DAY_MS;

/// How long a node waits after its first link before it writes, because other nodes may send the
/// same content.
const SETTLE: Duration = Duration::from_millis(250);

/// How often the node reads the book, if it changed, and checks whether something is to be written.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The wait between two writes of the same content. It doubles up to its limit. If two nodes have
/// one key, each removes the other's entries. A malicious node can do the same.
const WRITE_WAIT_MIN: Duration = Duration::from_secs(1);
const WRITE_WAIT_MAX: Duration = Duration::from_secs(600);

/// Most counters of a book that accepts more. A larger book was filled by a malicious node. It has
/// room for all addresses that are ever read. It has room for twice the revocations and removals of
/// one node, because other nodes may have other ones.
const COUNTERS_MAX: usize = PEERS_MAX * PER_PEER_MAX + 2 * (REVOKED_MAX + REMOVED_MAX);

/// The shortest wait before a node writes a revocation of another issuer; a random time is added.
/// The issuer writes it at once. All other nodes but the first then find it in the book.
const OTHERS_WAIT_MIN: Duration = Duration::from_secs(1);
const OTHERS_WAIT_SPREAD_MS: usize = 9_000;

/// Longest hello that is stored for another day, in bytes. Hellos of nodes have a few hundred.
const HELLO_BYTES_MAX: usize = 4_096;

/// An order of the book to the network.
pub(super) enum Want {
    /// Send a frame on a link.
    Send(Link, Arc<[u8]>),
    /// Close a link, because its peer broke the protocol.
    Close(Link, Error),
}

/// The book at this node.
pub(super) struct PeerDirectory {
    own: PeerId,
    /// The public key under which writer ids are minted.
    owner: [u8; 32],
    clock: WallClock,
    begun: Instant,
    /// Addresses to publish beside those of the listeners; `None` if addresses are neither
    /// published nor used.
    announce: Option<BTreeSet<Multiaddr>>,
    revocations: Revocations,
    removals: Removals,
    day: u64,
    replica: Replica,
    sync: SyncMachine,
    /// The links, each with the key of its peer if the peer may only read.
    links: BTreeMap<Link, Option<OwnerKey>>,
    /// The session of each peer that has sent its hello on this day.
    hellos: BTreeMap<Link, u64>,
    /// The last hello of another day on each link.
    other_day: BTreeMap<Link, Vec<u8>>,
    /// How much later than others this node writes the revocations of other issuers.
    others_wait: Duration,
    /// The addresses that this node publishes, unless they are already in the book.
    told: BTreeSet<Multiaddr>,
    write_wait: Duration,
    write_next: Instant,
    /// When this node may begin to write, after the first link and the beginning of the day.
    settled: Option<Instant>,
    looked: Instant,
    /// Whether the book has changed since it was read.
    changed: bool,
}

impl PeerDirectory {
    /// An empty book for this day.
    ///
    /// # Errors
    /// When the system returns no random bytes.
    pub(super) fn new(
        own: PeerId,
        identity: &Identity,
        ledger: Ledger,
        clock: WallClock,
        announce: Option<BTreeSet<Multiaddr>>,
        now: Instant,
    ) -> Result<PeerDirectory, getrandom::Error> {
        let (day, owner) = (clock.now() / DAY_MS, identity.public_key());
        let (replica, sync) = open(day, &owner)?;
        Ok(PeerDirectory {
            own,
            owner,
            clock,
            begun: now,
            announce,
            removals: Removals::new(ledger.clone(), identity.clone(), now),
            revocations: Revocations::new(ledger, identity.clone(), now),
            others_wait: others_wait(&own, day),
            day,
            replica,
            sync,
            links: BTreeMap::new(),
            hellos: BTreeMap::new(),
            other_day: BTreeMap::new(),
            told: BTreeSet::new(),
            write_wait: WRITE_WAIT_MIN,
            write_next: now,
            settled: None,
            looked: now,
            changed: false,
        })
    }

    /// Whether addresses are published and used.
    pub(super) fn has_addresses(&self) -> bool {
        self.announce.is_some()
    }

    /// Whether this is the book's space of the present day.
    pub(super) fn is_of(&self, space: &Space) -> bool {
        self.replica.space() == space
    }

    /// Whether a frame belongs to the book, of any day.
    pub(super) fn has(space: &str) -> bool {
        space.starts_with("_mesh.")
    }

    /// Sets whether this node runs on a copy of a data folder, so that its hellos say so.
    pub(super) fn set_copied(&mut self, copied: bool) {
        let mut members = self.replica.members_mut();
        match copied {
            true => members.stand_aside(Vec::new()),
            false => members.adopt(),
        }
    }

    /// Records an open link. If its peer may only read, `reader` is its key: the peer receives the
    /// book, and this node accepts nothing from it.
    pub(super) fn connected(&mut self, link: Link, reader: Option<OwnerKey>, now: Instant) {
        self.links.insert(link, reader);
        self.settled.get_or_insert(now + SETTLE);
        self.send_hello(link, reader, now);
    }

    fn send_hello(&mut self, link: Link, reader: Option<OwnerKey>, now: Instant) {
        let broadcast = false;
        self.handle(
            now,
            match reader {
                None => Input::Connected { link, broadcast },
                Some(OwnerKey(owner)) => {
                    let role = Role::Reader;
                    Input::Limited { link, owner, role }
                }
            },
        );
    }

    pub(super) fn disconnected(&mut self, link: Link, now: Instant) {
        self.hellos.remove(&link);
        self.other_day.remove(&link);
        if self.links.remove(&link).is_some() {
            self.handle(now, Input::Disconnected { link });
        }
        if self.links.is_empty() {
            self.settled = None;
        }
    }

    /// Handles a frame of the book. A frame of another day is ignored, except the hello.
    pub(super) fn frame(&mut self, link: Link, space: &str, bytes: &[u8], now: Instant) {
        let Some(reader) = self.links.get(&link).copied() else {
            return;
        };
        let hello = hello_of(bytes);
        if space != self.replica.space().as_str() {
            if hello.is_some() && bytes.len() <= HELLO_BYTES_MAX {
                self.other_day.insert(link, bytes.to_vec());
            }
            return;
        }
        if let Some((_, session)) = hello {
            match self.hellos.insert(link, session) {
                // The same hello arrived before, on another day.
                Some(before) if before == session => return,
                // The peer was on another day meanwhile, and begins this day again.
                Some(_) => {
                    self.handle(now, Input::Disconnected { link });
                    self.send_hello(link, reader, now);
                }
                None => {}
            }
        } else if !self.hellos.contains_key(&link) {
            // The frame was sent before the peer learned that this node begins the day again.
            return;
        }
        if self.replica.len() <= COUNTERS_MAX {
            self.handle(now, Input::Frame { link, bytes });
        }
    }

    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let since = now.saturating_duration_since(self.begun).as_millis();
        let millis = u64::try_from(since).unwrap_or(u64::MAX);
        self.sync.handle(millis, &mut self.replica, input);
    }

    /// Does the work that is due. Changes to the next day, writes the content of this node, and
    /// passes the addresses of other nodes to `known`. `listen` has the addresses of this node's
    /// listeners.
    ///
    /// # Errors
    /// When the system returns no random bytes.
    pub(super) fn tick<'a>(
        &mut self,
        listen: impl Iterator<Item = &'a Multiaddr>,
        known: &mut Addresses,
        now: Instant,
    ) -> Result<(), getrandom::Error> {
        self.handle(now, Input::Tick);
        if now.duration_since(self.looked) < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked = now;
        let wall = self.clock.now();
        if wall / DAY_MS != self.day {
            self.turn_over(wall / DAY_MS, now)?;
        }
        self.replica.set_time(wall);
        let announce = self.announce.as_ref();
        let own = announce.map_or_else(BTreeSet::new, |it| own_addresses(listen, it));
        self.write(own, wall, now);
        if std::mem::take(&mut self.changed) {
            if self.has_addresses() {
                known.heard(self.read(wall), wall);
            }
            let keys = || self.replica.counters().map(|(_, key)| key);
            self.changed = self.revocations.read(keys());
            self.changed |= self.removals.read(keys());
        }
        Ok(())
    }

    /// Whether [`judge`](PeerDirectory::judge) is due, with the trusted owners of each open space.
    pub(super) fn is_to_judge(&mut self, now: Instant) -> bool {
        let wall = self.clock.now();
        // Both calls are needed, even if the first result is enough.
        self.revocations.is_due(wall, now) | self.removals.is_due(now)
    }

    /// Records that the members of a space have changed.
    pub(super) fn members_changed(&mut self) {
        self.removals.members_changed();
    }

    /// Applies the revocations and removals in the book whose issuers are trusted.
    pub(super) fn judge(&mut self, says: &[Say], now: Instant) {
        let wall = self.clock.now();
        self.revocations.judge(says, self.others_wait, wall, now);
        self.removals.judge(says, wall, now);
    }

    fn turn_over(&mut self, day: u64, now: Instant) -> Result<(), getrandom::Error> {
        let copied = self.replica.stands_aside();
        (self.replica, self.sync) = open(day, &self.owner)?;
        self.set_copied(copied);
        self.day = day;
        self.others_wait = others_wait(&self.own, day);
        self.revocations.turn_over();
        self.removals.turn_over();
        self.write_wait = WRITE_WAIT_MIN;
        self.write_next = now;
        self.settled = (!self.links.is_empty()).then_some(now + SETTLE);
        self.hellos.clear();
        for (link, reader) in self.links.clone() {
            self.send_hello(link, reader, now);
        }
        let name = self.replica.space().to_string();
        let is_of_today = |it: &(Link, Vec<u8>)| frame_space(&it.1) == Ok(&*name);
        let all = std::mem::take(&mut self.other_day).into_iter();
        let (hellos, others): (Vec<_>, _) = all.partition(is_of_today);
        self.other_day = others.into_iter().collect();
        for (link, hello) in hellos {
            self.frame(link, &name, &hello, now);
        }
        Ok(())
    }

    /// Writes entries that are missing in the book or expire soon: the addresses of this node,
    /// revocations and removals.
    fn write(&mut self, own: BTreeSet<Multiaddr>, wall: u64, now: Instant) {
        let (revoked, is_new) = self.revocations.told();
        let is_removed = self.removals.has_more_to_tell(now);
        if self.told != own || is_new || is_removed {
            (self.told, self.write_wait) = (own, WRITE_WAIT_MIN);
            self.write_next = now;
        }
        let Some(settled) = self.settled.filter(|settled| now >= *settled) else {
            return; // There is no peer to receive the entries, or a peer may be about to send the same.
        };
        if now < self.write_next {
            return;
        }
        // Each is a transaction of its own. If one fails, the others are still made.
        let addresses = self.lacking(wall);
        let others = now >= settled + self.others_wait;
        let revoked = self.lacking_revocations(&revoked, wall, others);
        let removed = self.lacking_removals(wall);
        if addresses.is_empty() && revoked.is_empty() && removed.is_empty() {
            return;
        }
        self.write_next = now + self.write_wait;
        self.write_wait = (self.write_wait * 2).min(WRITE_WAIT_MAX);
        for (what, ops) in [
            ("addresses", addresses),
            ("revocations", revoked),
            ("removals", removed),
        ] {
            if ops.is_empty() {
                continue;
            }
            match self.replica.transact(&ops) {
                Ok(_) => self.handle(now, Input::Changed),
                Err(error) => tracing::warn!(%error, what, "not written into the address book"),
            }
        }
    }

    /// The operations that bring the addresses of this node in the book up to date.
    fn lacking(&self, wall: u64) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        if !self.has_addresses() {
            return ops;
        }
        for address in &self.told {
            let key = addresses::key(&self.own, address);
            self.renew(&key, wall, HOLDS_MS / 2, &mut ops);
        }
        for (_, key) in self.replica.counters() {
            let read = addresses::read_key(key).filter(|(peer, _)| *peer == self.own);
            if read.is_some_and(|(_, address)| !self.told.contains(&address)) {
                ops.push((key.to_owned(), Op::Delete));
            }
        }
        ops
    }

    /// The operations that add missing revocations to the book. With `others`, it includes those of
    /// other issuers, which have had the time to do so themselves.
    fn lacking_revocations(
        &self,
        told: &[RevocationEntry],
        wall: u64,
        others: bool,
    ) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        let is_told =
            |told: &&RevocationEntry| (told.is_own || others) && !told.revocation.is_over(wall);
        for told in told.iter().filter(is_told) {
            let wait = match told.is_own {
                true => 0,
                false => self.others_wait.as_millis() as u64,
            };
            self.renew(&told.key, wall, HOLDS_MS / 2 - wait, &mut ops);
        }
        ops
    }

    /// The operations that add removals to the book, as far as this node has to state them.
    fn lacking_removals(&self, wall: u64) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        for key in self.removals.to_tell() {
            self.renew(key, wall, HOLDS_MS / 2, &mut ops);
        }
        ops
    }

    /// Adds the operations that renew an entry, unless it lasts for at least `least_ms`.
    fn renew(&self, key: &str, wall: u64, least_ms: u64, ops: &mut Vec<(String, Op)>) {
        let expiry = self.replica.key_id(key).and_then(|it| self.expiry(it));
        if expiry.is_none_or(|until| until < wall + least_ms) {
            if expiry.is_none() {
                ops.push((key.to_owned(), Op::Set(1)));
            }
            ops.push((key.to_owned(), Op::Expire(wall + HOLDS_MS)));
        }
    }

    /// The expiry of an entry; `None` if it is absent or its value is below 1.
    fn expiry(&self, entry: KeyId) -> Option<u64> {
        let value = self.replica.value_at(entry)?;
        (value >= 1).then(|| self.replica.expiry_at(entry))?
    }

    /// The addresses of all other nodes in the book.
    fn read(&self, wall: u64) -> BTreeMap<PeerId, NodeAddresses> {
        let mut heard: BTreeMap<PeerId, NodeAddresses> = BTreeMap::new();
        for (entry, key) in self.replica.counters() {
            let read = addresses::read_key(key).filter(|(peer, _)| *peer != self.own);
            let until = self.expiry(entry).filter(|until| *until > wall);
            if let (Some((peer, address)), Some(until)) = (read, until) {
                let held = heard.entry(peer).or_default();
                held.insert(address, until.min(wall + HOLDS_MS));
            }
        }
        heard
    }

    /// The next order to the network; `None` if there is none left.
    ///
    /// # Errors
    /// When the system returns no random bytes.
    pub(super) fn poll(&mut self, now: Instant) -> Result<Option<Want>, getrandom::Error> {
        while let Some(output) = self.sync.poll() {
            match output {
                Output::Send { link, bytes } => return Ok(Some(Want::Send(link, bytes))),
                Output::Refused {
                    close: Some(link),
                    error,
                } => return Ok(Some(Want::Close(link, error))),
                Output::Changed { .. } | Output::Merged { .. } => self.changed = true,
                Output::Renew => {
                    let writer = mint(self.replica.space(), &self.owner)?;
                    self.handle(now, Input::Renew { writer });
                }
                Output::Broadcast { .. } | Output::Returned(_) | Output::Refused { .. } => {}
            }
        }
        Ok(None)
    }
}

fn open(day: u64, owner: &[u8; 32]) -> Result<(Replica, SyncMachine), getrandom::Error> {
    let space = Space::new(&format!("_mesh.{day}")).expect("a name as names are");
    let writer = mint(&space, owner)?;
    let mut seed = [0; 8];
    getrandom::fill(&mut seed)?;
    let config = SyncConfig {
        agent: concat!("tallymesh-node/", env!("CARGO_PKG_VERSION")).into(),
        follows: false,
        ..SyncConfig::default()
    };
    let sync = SyncMachine::new(config, u64::from_le_bytes(seed));
    Ok((Replica::new(space, writer), sync))
}

/// How long this node waits on a day before it writes the revocations of other issuers.
fn others_wait(own: &PeerId, day: u64) -> Duration {
    let bytes = own.to_bytes();
    let last = bytes.last_chunk::<8>().copied().unwrap_or_default();
    let mut chance = Chance::new(u64::from_le_bytes(last) ^ day);
    OTHERS_WAIT_MIN + Duration::from_millis(chance.below(OTHERS_WAIT_SPREAD_MS) as u64)
}

fn mint(space: &Space, owner: &[u8; 32]) -> Result<WriterId, getrandom::Error> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)?;
    Ok(WriterId::mint(space, owner, &nonce))
}

/// The addresses that this node publishes: those of its listeners and the announced ones. Loopback
/// addresses are left out if there are others.
fn own_addresses<'a>(
    listen: impl Iterator<Item = &'a Multiaddr>,
    announce: &BTreeSet<Multiaddr>,
) -> BTreeSet<Multiaddr> {
    let (near, far): (Vec<_>, Vec<_>) = listen
        .cloned()
        .partition(|it| Address(it.clone()).is_loopback());
    let listened = match far.is_empty() {
        true => near,
        false => far,
    };
    // Announced addresses find room first.
    let all = announce.iter().cloned().chain(listened);
    all.take(PER_PEER_MAX).collect()
}

#[cfg(test)]
mod tests;
