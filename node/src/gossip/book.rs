//! The address book: a space that the network keeps by itself, in which nodes say where they are, and
//! which tickets are revoked.
//!
//! Each node keeps the counters `addr/<peer id><address>` there, which expire after a day and are
//! renewed at half of that. It is replicated as every space is, by frames on the links, but it is the
//! network's own: no user sees it, and the driver knows nothing of it. A node learns from any one
//! node where all others are. In the same way there are counters `revoked/<statement>`, which
//! [`Revocations`] reads. They are signed, so that it does not matter who writes them: each node that
//! goes by one sees to that it is there. A node that neither tells nor uses addresses keeps the book for
//! these.
//!
//! Nobody can be kept from writing nonsense. So there are bounds for each kind where it is read, in
//! [`Addresses`] and in the ledger, and each node writes no more than its share of a kind: neither
//! takes the other's room.
//!
//! What an open space remembers, it remembers for ever, and each start that writes is a writer. So
//! the book has one space a day, `_mesh.<days since 1970>`, and what was heard of in the last one is
//! kept beside it, in [`Addresses`], as long as it holds. A start writes only if what it has to say is
//! not there already. So no book has more writers than starts that moved and nodes that renewed in one
//! day, and those who are first to miss a revocation. Days begin by each node's wall clock: while two
//! nodes are not on the same day, they hear nothing new of each other. A link carries one hello for each
//! day, and of two clocks one is ahead: so the hello of another day is kept until that day begins.

use super::addresses::{self, Addresses, Held, PEERS_MAX, PER_PEER_MAX};
use super::peers::greeting;
use super::redial::Chance;
use super::removals::Removals;
use super::revocations::{Revocations, Say, Told};
use super::{Address, Identity};
use crate::clock::WallClock;
use crate::driver::OwnerKey;
use crate::trust::{Ledger, REMOVED_MAX, REVOKED_MAX};
use libp2p::{Multiaddr, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tallymesh_core::{
    Error, Input, KeyId, Link, Op, Output, Replica, Role, Space, SyncConfig, SyncMachine, WriterId,
    frame_space,
};

/// The names of the node's own spaces begin so; users can't have such.
pub(crate) const RESERVED: char = '_';

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// How long an address holds that is not renewed.
const HOLDS_MS: u64 = DAY_MS;

/// How long after its first link a node waits before it writes, as others may tell it what it would.
const SETTLE: Duration = Duration::from_millis(500);

/// How often the book is read, if it changed, and looked through for what is to be written.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The wait between two writes that say the same; it doubles up to its limit. Of two nodes with one key
/// each takes out what the other writes, and so does whoever is up to no good.
const WRITE_WAIT_MIN: Duration = Duration::from_secs(1);
const WRITE_WAIT_MAX: Duration = Duration::from_secs(600);

/// A book of more counters than this takes no more: it is filled by somebody who is up to no good. All
/// addresses that are ever read fit, and twice the revocations and removals that a node knows, as others
/// may know other ones.
const COUNTERS_MAX: usize = PEERS_MAX * PER_PEER_MAX + 2 * (REVOKED_MAX + REMOVED_MAX);

/// How long a node waits, by chance, before it writes what somebody else revoked: who signed that does
/// so at once, and all but the first of the others find it there.
const OTHERS_WAIT_MIN: Duration = Duration::from_secs(1);
const OTHERS_WAIT_SPREAD_MS: usize = 9_000;

/// Longest hello that is kept for another day, in bytes. Those of nodes are a few hundred.
const HELLO_BYTES_MAX: usize = 4_096;

/// What the book wants of the network.
pub(super) enum Want {
    /// Send a frame on a link.
    Send(Link, Vec<u8>),
    /// Drop a link, as its peer broke the protocol.
    Close(Link, Error),
}

/// The book, as this node has it.
pub(super) struct Book {
    own: PeerId,
    /// The public key under which writer ids are minted.
    owner: [u8; 32],
    clock: WallClock,
    begun: Instant,
    /// Addresses that are told beside those that are listened on; nothing if none are told or used.
    announce: Option<BTreeSet<Multiaddr>>,
    revocations: Revocations,
    removals: Removals,
    day: u64,
    replica: Replica,
    sync: SyncMachine,
    /// The links, each with the key of its peer if that may only read.
    links: BTreeMap<Link, Option<OwnerKey>>,
    /// The session of each peer that has greeted on this day.
    greeted: BTreeMap<Link, u64>,
    /// The last hello of another day on each link.
    other_day: BTreeMap<Link, Vec<u8>>,
    /// How much later than others this node writes what somebody else revoked.
    others_wait: Duration,
    /// What this node tells, if it is not in the book already.
    told: BTreeSet<Multiaddr>,
    write_wait: Duration,
    write_next: Instant,
    /// When the first of these links was made, and the day began.
    settled: Option<Instant>,
    looked: Instant,
    /// Whether the book changed since it was read.
    changed: bool,
}

impl Book {
    /// An empty book of this day.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub(super) fn new(
        own: PeerId,
        identity: &Identity,
        ledger: Ledger,
        clock: WallClock,
        announce: Option<BTreeSet<Multiaddr>>,
        now: Instant,
    ) -> Result<Book, getrandom::Error> {
        let (day, owner) = (clock.now() / DAY_MS, identity.public_key());
        let (replica, sync) = open(day, &owner)?;
        Ok(Book {
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
            greeted: BTreeMap::new(),
            other_day: BTreeMap::new(),
            told: BTreeSet::new(),
            write_wait: WRITE_WAIT_MIN,
            write_next: now,
            settled: None,
            looked: now,
            changed: false,
        })
    }

    /// Whether addresses are told and used.
    pub(super) fn has_addresses(&self) -> bool {
        self.announce.is_some()
    }

    /// Whether this is the book's space, of its day.
    pub(super) fn is_of(&self, space: &Space) -> bool {
        self.replica.space() == space
    }

    /// Whether a frame is the book's, of whichever day.
    pub(super) fn has(space: &str) -> bool {
        space.starts_with("_mesh.")
    }

    /// A link is open. To a `reader`, whose key this is, the book is told, and nothing is taken of it.
    pub(super) fn connected(&mut self, link: Link, reader: Option<OwnerKey>, now: Instant) {
        self.links.insert(link, reader);
        self.settled.get_or_insert(now + SETTLE);
        self.greet(link, reader, now);
    }

    fn greet(&mut self, link: Link, reader: Option<OwnerKey>, now: Instant) {
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
        self.greeted.remove(&link);
        self.other_day.remove(&link);
        if self.links.remove(&link).is_some() {
            self.handle(now, Input::Disconnected { link });
        }
        if self.links.is_empty() {
            self.settled = None;
        }
    }

    /// A frame of the book came. One of another day is passed over, but for the hello.
    pub(super) fn frame(&mut self, link: Link, space: &str, bytes: &[u8], now: Instant) {
        let Some(reader) = self.links.get(&link).copied() else {
            return;
        };
        let greeting = greeting(bytes);
        if space != self.replica.space().as_str() {
            if greeting.is_some() && bytes.len() <= HELLO_BYTES_MAX {
                self.other_day.insert(link, bytes.to_vec());
            }
            return;
        }
        if let Some((_, session)) = greeting {
            match self.greeted.insert(link, session) {
                // It came before, on another day.
                Some(before) if before == session => return,
                // The peer was on another day meanwhile, and begins this one anew.
                Some(_) => {
                    self.handle(now, Input::Disconnected { link });
                    self.greet(link, reader, now);
                }
                None => {}
            }
        } else if !self.greeted.contains_key(&link) {
            // It was said before the peer heard that this node begins the day anew.
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

    /// Does what is due: turns over to the next day, writes what this node has to say, and tells
    /// `known` what was heard. `listen` is where this node listens.
    ///
    /// # Errors
    /// When the system gives no random bytes.
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

    /// Whether it is time to tell who has a say in each space that this node has open.
    pub(super) fn is_to_judge(&mut self, now: Instant) -> bool {
        let wall = self.clock.now();
        // Both look, also where one is enough to judge.
        self.revocations.is_due(wall, now) | self.removals.is_due(now)
    }

    /// The members of a space are others.
    pub(super) fn members_changed(&mut self) {
        self.removals.members_changed();
    }

    /// Has the revocations of the book count that were signed by somebody with a say.
    pub(super) fn judge(&mut self, says: &[Say], now: Instant) {
        let wall = self.clock.now();
        self.revocations.judge(says, self.others_wait, wall, now);
        self.removals.judge(says, wall, now);
    }

    fn turn_over(&mut self, day: u64, now: Instant) -> Result<(), getrandom::Error> {
        (self.replica, self.sync) = open(day, &self.owner)?;
        self.day = day;
        self.others_wait = others_wait(&self.own, day);
        self.revocations.turn_over();
        self.removals.turn_over();
        self.write_wait = WRITE_WAIT_MIN;
        self.write_next = now;
        self.settled = (!self.links.is_empty()).then_some(now + SETTLE);
        self.greeted.clear();
        for (link, reader) in self.links.clone() {
            self.greet(link, reader, now);
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

    /// Writes what others do not know, or will soon not know any more: of this node, and what is
    /// revoked.
    fn write(&mut self, own: BTreeSet<Multiaddr>, wall: u64, now: Instant) {
        let (revoked, is_new) = self.revocations.told();
        let is_removed = self.removals.has_more_to_tell(now);
        if self.told != own || is_new || is_removed {
            (self.told, self.write_wait) = (own, WRITE_WAIT_MIN);
            self.write_next = now;
        }
        let Some(settled) = self.settled.filter(|settled| now >= *settled) else {
            return; // Nobody is there to be told, or is about to tell what is known.
        };
        if now < self.write_next {
            return;
        }
        // Each is a transaction of its own: one that can't be made does not keep the other back.
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

    /// What makes the book say of this node what it is to say.
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

    /// What makes the book say what this node knows to be revoked: what others signed only if they
    /// had the time to do so.
    fn lacking_revocations(&self, told: &[Told], wall: u64, others: bool) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        let is_told = |told: &&Told| (told.is_own || others) && !told.revocation.is_over(wall);
        for told in told.iter().filter(is_told) {
            let wait = match told.is_own {
                true => 0,
                false => self.others_wait.as_millis() as u64,
            };
            self.renew(&told.key, wall, HOLDS_MS / 2 - wait, &mut ops);
        }
        ops
    }

    /// Changes of the book that state removals, as far as this node is to state them.
    fn lacking_removals(&self, wall: u64) -> Vec<(String, Op)> {
        let mut ops = Vec::new();
        for key in self.removals.to_tell() {
            self.renew(key, wall, HOLDS_MS / 2, &mut ops);
        }
        ops
    }

    /// Adds what makes an entry hold, if it does not for at least `least_ms`.
    fn renew(&self, key: &str, wall: u64, least_ms: u64, ops: &mut Vec<(String, Op)>) {
        let expiry = self.replica.handle(key).and_then(|it| self.expiry(it));
        if expiry.is_none_or(|until| until < wall + least_ms) {
            if expiry.is_none() {
                ops.push((key.to_owned(), Op::Set(1)));
            }
            ops.push((key.to_owned(), Op::Expire(wall + HOLDS_MS)));
        }
    }

    /// Until when an entry holds; nothing if it is absent or says no.
    fn expiry(&self, entry: KeyId) -> Option<u64> {
        let value = self.replica.value_at(entry)?;
        (value >= 1).then(|| self.replica.expiry_at(entry))?
    }

    /// The addresses of all others that are in the book.
    fn read(&self, wall: u64) -> BTreeMap<PeerId, Held> {
        let mut heard: BTreeMap<PeerId, Held> = BTreeMap::new();
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

    /// What the network is to do, until there is nothing left.
    ///
    /// # Errors
    /// When the system gives no random bytes.
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
        ..SyncConfig::default()
    };
    let sync = SyncMachine::new(config, u64::from_le_bytes(seed));
    Ok((Replica::new(space, writer), sync))
}

/// How long this node waits on a day before it writes what others signed.
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

/// What this node tells: where it listens, without loopback if it listens elsewhere too, and what it
/// is told to announce.
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
    // What is announced on purpose finds room first.
    let all = announce.iter().cloned().chain(listened);
    all.take(PER_PEER_MAX).collect()
}

#[cfg(test)]
mod tests;
