//! One open space: its replica, its sync machine, and how far the store has followed.

mod copies;
mod existing;
mod faults;
mod key_retention;
mod levels;
mod members;
mod membership;
mod place;
mod quiet;
mod reading;
mod rights;
mod stuck;
mod writes;

pub(super) use levels::{Ended, Settled, VolatileState};
pub(super) use rights::Write;

use super::expiries::Expiries;
use super::nonces::{Nonce, Nonces};
use super::origins::Origins;
use super::places::Places;
use super::replay::Replay;
use super::watchers::Watchers;
use crate::network::NodeTable;
use existing::Existing;
use key_retention::KeyRetention;
use members::Part;
use place::InPlace;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::{
    Encode, Error, Input, KeyId, KeyedBounds, Link, LinkStatus, Mark, Output, Party, Replica,
    ScopeError, Space, SyncConfig, SyncMachine, WriterId,
};
use tallymesh_node_ground::clock::{OwnClock, SpaceClock, WallClock};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    Event, MemberName, News, Notice, PeerScope, Refusal, Renewal, Role, Sizes, SpaceStatus,
};
use tallymesh_node_store::{Kind, Record, Store, StoreError};

/// Most changed counters that are listed for the store. With more changes, a search of the replica
/// costs little in comparison.
const UNSAVED_MAX: usize = 1 << 16;

/// When a space looks again at counters that have expired by a clock that may end none, in milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

/// How often a slow start reports its progress.
pub const TELL_PROGRESS: Duration = Duration::from_secs(1);

/// The peer at the other end of a link, as a space sees it.
#[derive(Clone, Copy)]
pub(super) struct LinkEnd {
    /// Its scope, if it may do less than a member.
    pub(super) limits: Option<PeerScope>,
    pub(super) party: Party,
    /// The owner whose key the link has authenticated.
    pub(super) owner: Option<OwnerKey>,
}

/// A space that this node has open.
pub struct OpenSpace {
    pub replica: Replica,
    /// The public key under which writer ids are minted.
    owner: [u8; 32],
    /// How often the node has changed its writer id here since the start.
    renewals: u64,
    /// A random number that distinguishes positions of this start and space from all others.
    start: u64,
    /// Readers of events.
    pub(super) watchers: Watchers,
    /// The events that they are to receive.
    news: Vec<News>,
    sync: SyncMachine,
    sync_config: SyncConfig,
    /// The state that was given to the store.
    given: Mark,
    /// The state that is durable in the store.
    stored: Mark,
    /// How many records the store was given, and how many of them are durable.
    given_record: u64,
    durable_record: u64,
    /// Counters that changed since the last look.
    changed: Vec<KeyId>,
    /// Counters that changed since the store was last given a record, perhaps with duplicates.
    /// `None` if there are too many to list.
    unsaved: Option<Vec<KeyId>>,
    /// The events of counters since then, if any Redis client subscribes.
    events: Vec<(KeyId, Event)>,
    listening: bool,
    expiries: Expiries,
    /// Tracks which counters exist. `looked` is how many entries of `changed` it has already seen.
    existing: Existing,
    looked: usize,
    /// Whether local transactions were made since the sync machine was last informed.
    wrote: bool,
    /// The time by which counters expire in the present batch, in milliseconds since 1970.
    unix_ms: u64,
    /// That time against the own clock.
    clock: SpaceClock,
    part: Part,
    /// The role of this node here: by its tickets, where it is no member.
    role: Role,
    /// How long idempotency keys are remembered.
    key_retention: KeyRetention,
    fault_reports: faults::FaultReports,
    /// Requests that wait for a level, or for the state on which a session depends.
    waits: Vec<levels::Wait>,
    /// Writes that wait for rights, the longest waiting first.
    shorts: Vec<Write>,
    /// Commands of Redis clients that wait for rights.
    commands: Vec<rights::Short>,
    /// What members hold that are away.
    stuck: stuck::Stuck,
    /// The copies of other nodes' data folders that have said so.
    copies: copies::Copies,
    /// The addresses of other nodes.
    node_table: NodeTable,
}

impl OpenSpace {
    /// Sets where the addresses of other nodes are.
    pub(super) fn set_node_table(&mut self, node_table: NodeTable) {
        self.node_table = node_table;
    }

    /// How texts name a member.
    pub(super) fn named(&self, owner: OwnerKey) -> MemberName {
        let address = self.node_table.address_of(&owner);
        MemberName { owner, address }
    }

    /// Sets how many idempotency keys are remembered.
    pub(super) fn set_keyed_bounds(&mut self, bounds: KeyedBounds) {
        self.replica.keyed_mut().set_bounds(bounds);
    }

    /// Replays the stored records of `space` under a fresh writer id. So no start can repeat a
    /// clock, whatever happened to the files. The last argument is what the folder knows of earlier
    /// starts.
    pub(super) fn load(
        space: Space,
        owner: &[u8; 32],
        guest_timeout_ms: u32,
        key_window: Duration,
        store: &mut dyn Store,
        durable: bool,
        (nonces, starts): (&mut Nonces, &mut Places),
    ) -> Result<OpenSpace, StoreError> {
        let (writer, nonce) = mint(&space, owner)?;
        let mut replay = Replay::new(space.clone(), writer);
        let mut told = Instant::now();
        store.load(&space, &mut |kept, bytes| {
            if told.elapsed() >= TELL_PROGRESS {
                told = Instant::now();
                let (done, total) = (kept.done, kept.total);
                tracing::info!(%space, done, total, "reading what is kept, in bytes");
            }
            replay.take(kept.kind, bytes)
        })?;
        let mut replica = replay.end();
        if replica.consistency().unconfirmed() == 0 {
            // Otherwise some writers that the replica does not list may still be announced.
            let known: BTreeSet<WriterId> = replica.writers().map(|it| it.0).collect();
            nonces.retain(replica.space(), owner, &|writer| known.contains(writer));
        }
        nonces.note(replica.space(), nonce);
        let earlier = replica.consistency().earlier_writers().collect();
        let originals = starts.originals(replica.space(), earlier);
        let follows = replica.members().only_start(owner);
        let follows = follows.filter(|_| originals.is_none());
        let before = follows;
        let follows = before.filter(|it| starts.may_follow(replica.space(), *it));
        let members = replica.members().configuration();
        if before.is_some() && follows.is_none() && members.is_some_and(|it| it.members.len() > 1) {
            starts.note_unfollowed();
        }
        if let Some(originals) = originals {
            replica.members_mut().stand_aside(originals);
        }
        let place = InPlace::after(follows);
        starts.set(replica.space(), place.followed(writer));
        let config = SyncConfig {
            agent: concat!("tallymesh-node/", env!("CARGO_PKG_VERSION")).into(),
            owner: durable.then_some(*owner),
            guest_timeout_ms,
            // A node may go on at another member when one dies. By a round it could have what only the dead one had.
            follows: false,
            ..SyncConfig::default()
        };
        // Everything that was replayed is already stored.
        let stored = replica.mark();
        let mut expiries = Expiries::default();
        // At the initial time 0 nothing has expired, so all counters are listed with their
        // expiries.
        for (counter, _) in replica.counters() {
            expiries.note(counter, replica.expiry_at(counter));
        }
        let mut existing = Existing::default();
        existing.recount(&replica, 0);
        Ok(OpenSpace {
            replica,
            owner: *owner,
            renewals: 0,
            start: u64::from_le_bytes(random()?),
            watchers: Watchers::default(),
            news: Vec::new(),
            sync: SyncMachine::new(config.clone(), u64::from_le_bytes(random()?)),
            sync_config: config,
            given: stored.clone(),
            stored,
            given_record: 0,
            durable_record: 0,
            changed: Vec::new(),
            unsaved: Some(Vec::new()),
            events: Vec::new(),
            listening: false,
            expiries,
            existing,
            looked: 0,
            wrote: false,
            unix_ms: 0,
            clock: SpaceClock::default(),
            part: Part::new((writer, nonce), durable, place),
            role: Role::Member,
            key_retention: KeyRetention::new(key_window),
            fault_reports: faults::FaultReports::default(),
            waits: Vec::new(),
            shorts: Vec::new(),
            commands: Vec::new(),
            stuck: stuck::Stuck::default(),
            copies: copies::Copies::default(),
            node_table: NodeTable::default(),
        })
    }

    /// The writer under which this node writes here.
    pub(super) fn writer(&self) -> WriterId {
        self.replica.writer()
    }

    pub fn name(&self) -> &Space {
        self.replica.space()
    }

    /// Sets the time by which counters expire. `wall` is the own clock, in milliseconds since 1970.
    ///
    /// A member judges by the median of the clocks of the members that it is linked to, itself included. Another
    /// node judges by the median of the linked members alone. Without such links, a member judges by its own clock,
    /// unless another member's clock is awaited ([`OwnClock::OneOfSeveral`]).
    /// So does another node in an open space. While no clock counts in a space with members, the node ends nothing
    /// ([`is_time_unsure`](OpenSpace::is_time_unsure)), and its reads go by its own clock.
    pub(super) fn judge_time(&mut self, wall: u64, clock: &WallClock) {
        let members = self.replica.members();
        let configuration = members.configuration();
        let is_member = |owner: &[u8; 32]| configuration.is_some_and(|it| it.has(owner));
        let count = configuration.map_or(0, |it| it.members.len());
        let own = OwnClock::of(is_member(&self.owner), count);
        self.clock.judge(wall, clock, own, is_member);
        self.set_time(self.clock.time(wall));
        let unsure = !self.clock.is_known();
        self.replica.members_mut().set_time_unsure(unsure);
    }

    /// Whether no clock counts in this space with members. Then this node's own clock ends nothing.
    pub(super) fn is_time_unsure(&self) -> bool {
        !self.clock.is_known() && self.replica.members().configuration().is_some()
    }

    /// Whether this node is a member, and awaits the clock of another one before it goes by the time.
    pub fn awaits_clock(&self) -> bool {
        let configuration = self.replica.members().configuration();
        let named = || configuration.is_some_and(|it| it.has(&self.owner));
        !self.clock.is_known() && named() && !self.is_copied()
    }

    /// The time by which counters expire in the present batch, in milliseconds since 1970.
    pub(super) fn time(&self) -> u64 {
        self.unix_ms
    }

    /// The own clock in the present batch, in milliseconds since 1970. Tickets end by it.
    pub(super) fn wall(&self) -> u64 {
        self.clock.wall(self.unix_ms)
    }

    /// The time by which counters expire when the own clock shows `wall`. It holds for a space that sleeps, too.
    pub(super) fn time_at(&self, wall: u64) -> u64 {
        self.clock.time(wall)
    }

    /// Sets the time by which counters expire, in milliseconds since 1970. It may go back.
    pub(super) fn set_time(&mut self, unix_ms: u64) {
        if unix_ms < self.unix_ms {
            self.existing.forget(); // What had expired may be there again.
        }
        self.unix_ms = unix_ms;
        self.replica.set_time(unix_ms);
    }

    /// Sets the mean interval of digests to peers. Call it before there are links.
    pub(super) fn set_interval(&mut self, interval_ms: u32) -> Result<(), StoreError> {
        self.sync_config.interval_ms = interval_ms;
        let seed = u64::from_le_bytes(random()?);
        self.sync = SyncMachine::new(self.sync_config.clone(), seed);
        Ok(())
    }

    /// Makes the sync machine prove the node's writers to peers that accept no others. Call it
    /// before there are links.
    pub(super) fn prove(&mut self, nonces: &[Nonce]) {
        for nonce in nonces {
            let writer = WriterId::mint(self.replica.space(), &self.owner, nonce);
            let nonce = *nonce;
            self.handle(0, Input::Own { writer, nonce });
        }
    }

    /// The role of this node here.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Sets the role of this node here.
    pub(super) fn set_role(&mut self, role: Role) {
        let before = std::mem::replace(&mut self.role, role);
        tracing::info!(space = self.name().as_str(), %before, now = %role, "this node's role");
        let only_adds = only_adds(role);
        if self::only_adds(before) && !only_adds {
            // At time 0 nothing has expired, so all counters are listed.
            self.replica.set_time(0);
            for (counter, _) in self.replica.counters() {
                self.expiries.note(counter, self.replica.expiry_at(counter));
            }
            self.replica.set_time(self.unix_ms);
        }
        self.replica.members_mut().set_adds_only(only_adds);
        self.existing.forget();
    }

    /// The replica for a write. The node of a reader may not write.
    ///
    /// # Errors
    /// [`ScopeError::BeyondRole`].
    #[inline]
    pub fn writable(&mut self) -> Result<&mut Replica, Error> {
        match self.role {
            Role::Reader => Err(Error::Scope(ScopeError::BeyondRole)),
            _ => Ok(&mut self.replica),
        }
    }

    /// Sets whether Redis clients receive events from now on.
    pub(super) fn set_listening(&mut self, listening: bool) {
        self.listening = listening;
    }

    /// Whether it has nothing that a peer could need.
    pub(super) fn is_blank(&self) -> bool {
        self.replica.vector().is_empty() && self.replica.members().configuration().is_none()
    }

    pub(super) fn connected(&mut self, now: u64, link: Link, broadcast: bool, from: LinkEnd) {
        let LinkEnd {
            limits,
            party,
            owner,
        } = from;
        self.handle(
            now,
            match limits {
                // A node that accepts nothing from others accepts no broadcast.
                None => {
                    let broadcast = broadcast && self.role == Role::Member;
                    Input::Connected { link, broadcast }
                }
                Some(PeerScope { owner, role }) => {
                    let owner = owner.0;
                    Input::Limited { link, owner, role }
                }
            },
        );
        self.sync.set_party(link, party);
        if let Some(OwnerKey(owner)) = owner.filter(|_| limits.is_none()) {
            self.sync.set_owner(link, owner);
        }
    }

    pub(super) fn disconnected(&mut self, now: u64, link: Link) {
        self.note_heard(link);
        self.handle(now, Input::Disconnected { link });
    }

    pub(super) fn compare(&mut self, now: u64, link: Link) {
        self.sync.compare_soon(now, link);
        self.handle(now, Input::Tick);
    }

    pub(super) fn frame(&mut self, now: u64, link: Link, bytes: &[u8]) {
        self.handle(now, Input::Frame { link, bytes });
    }

    pub(super) fn broadcast(&mut self, now: u64, from: Option<Link>, bytes: &[u8]) {
        self.handle(now, Input::Broadcast { from, bytes });
    }

    /// Notes for which links frames wait, before a round. The duties of a member make one, too.
    pub(super) fn note_busy(&mut self, now: u64, links: impl Iterator<Item = (Link, bool)>) {
        let tends = self.tend_due().is_some_and(|due| due <= now);
        if tends || self.sync.is_round_due(now) {
            links.for_each(|(link, busy)| self.sync.note_busy(link, busy));
        }
    }

    /// Does the duties of a member and drops keys older than the window. Then informs the sync
    /// machine of local writes, and of the time if it is due. Returns whether there is something to
    /// store.
    pub(super) fn tick(&mut self, now: u64) -> bool {
        self.drop_keys(now);
        self.tend(now);
        let wrote = std::mem::take(&mut self.wrote);
        if wrote {
            self.handle(now, Input::Changed);
        }
        if self
            .sync
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.handle(now, Input::Tick);
        }
        wrote
    }

    fn handle(&mut self, now: u64, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
    }

    fn tell_renewal(&mut self, was: String, writer: String) {
        let renewal = Renewal { was, writer };
        self.news.push(News::Renewed(Arc::new(renewal)));
    }

    /// Takes the events for readers, once their content may be shown.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        let own = [
            self.tend_due(),
            self.waits_due(),
            self.shorts_due(),
            self.keys_due(),
        ];
        let deadlines = own.into_iter().chain([self.sync.next_deadline()]);
        deadlines.flatten().min()
    }

    /// When the next counter expires by the own clock, in milliseconds since 1970. If it may not end any, it is when
    /// to look again.
    pub(super) fn next_expiry_by_wall(&self) -> Option<u64> {
        let next = self.expiries.next().map(|at| self.clock.wall(at))?;
        Some(match self.is_time_unsure() {
            true => next.max(self.wall().saturating_add(LOOK_AGAIN_MS)),
            false => next,
        })
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.sync.poll()
    }

    pub(super) fn links(&self) -> impl Iterator<Item = LinkStatus> {
        self.sync.links()
    }

    /// The record of the changes that the store lacks.
    pub(super) fn record(&mut self) -> Option<Record> {
        let adds = self.adds();
        // In each case the store lacks no earlier change after this record.
        self.unsaved.get_or_insert_default().clear();
        let (kind, bytes) = match adds {
            Some(adds) => (Kind::Adds, adds),
            None => {
                let changes = self.replica.since(&mut self.given)?;
                let kind = match changes.is_whole() {
                    true => Kind::Whole,
                    false => Kind::Change,
                };
                (kind, changes.encode_stored())
            }
        };
        self.given_record += 1;
        self.part.place.given(self.given_record);
        Some(Record {
            space: self.name().clone(),
            kind,
            bytes,
        })
    }

    /// The record of the changes that the store lacks, if they are only adds to listed counters.
    fn adds(&mut self) -> Option<Vec<u8>> {
        let unsaved = self.unsaved.as_mut()?;
        unsaved.sort_unstable();
        unsaved.dedup();
        self.replica.adds_since(&mut self.given, unsaved)
    }

    /// Records that all records given so far are durable.
    pub(super) fn stored(&mut self) {
        self.stored.clone_from(&self.given);
        self.durable_record = self.given_record;
    }

    /// Records that a local transaction changed a counter.
    #[inline]
    pub fn wrote(&mut self, counter: KeyId, event: Event) {
        self.wrote = true;
        self.note(counter, event);
    }

    /// Records that a local transaction changed no counter, but is to be sent to others.
    pub fn made(&mut self) {
        self.wrote = true;
    }

    /// Records that a merge changed a counter.
    pub(super) fn changed(&mut self, counter: KeyId) {
        self.note(counter, Event::Merge);
    }

    #[inline]
    fn note(&mut self, counter: KeyId, event: Event) {
        self.changed.push(counter);
        if self.listening {
            self.events.push((counter, event));
        }
    }

    /// The events since the last call, for subscribed Redis clients.
    fn notices(&mut self, place: usize) -> Vec<Notice> {
        let mut events = std::mem::take(&mut self.events);
        // The parts of a budget change together, and are reported as one.
        events.dedup_by(|later, before| {
            let budget = |it: &(KeyId, Event)| self.replica.quota().budget_at(it.0);
            later.1 == before.1 && budget(later).is_some() && budget(later) == budget(before)
        });
        let told = |(counter, event): (KeyId, Event)| {
            Some(Notice::new(place, self.name_of(counter)?, event))
        };
        events.into_iter().filter_map(told).collect()
    }

    /// How many counters exist, and how many of these expire. The cost depends only on the counters
    /// that changed or expired since the last call.
    pub(super) fn sizes(&mut self) -> Sizes {
        self.look_at_changed();
        if !self.existing.is_of(&self.replica) {
            self.existing.recount(&self.replica, self.unix_ms);
        }
        let (from, until) = self.existing.pass(self.unix_ms);
        for counter in self.expiries.between(from, until) {
            self.existing.look(&self.replica, counter);
        }
        Sizes {
            counters: self.existing.count(),
            expiring: self.expiries.len(),
        }
    }

    /// Makes the next call of [`sizes`](OpenSpace::sizes) count all counters again.
    pub(super) fn forget_sizes(&mut self) {
        self.existing.forget();
    }

    /// Checks for each changed counter whether it exists, and when it expires.
    fn look_at_changed(&mut self) {
        for counter in self.changed.get(self.looked..).unwrap_or_default() {
            self.existing.look(&self.replica, *counter);
            let at = self.replica.effective_expiry(*counter);
            self.expiries.note(*counter, at);
        }
        self.looked = self.changed.len();
    }

    /// Requests an acknowledgement from the other members at once.
    pub(super) fn ask_for_acknowledgement(&mut self) {
        self.replica.members_mut().request_acknowledgement();
        self.part.due = self.part.due.min(self.part.done + self.part.rest);
    }

    /// Ends a batch. Records when the changed counters expire, and sends each change once to the
    /// readers of events. Returns the notices for subscribers.
    pub(super) fn settle(&mut self, place: usize, origins: &Origins) -> Vec<Notice> {
        let notices = self.notices(place);
        if self.looked == 0 {
            self.changed.sort_unstable();
            self.changed.dedup();
        }
        self.look_at_changed();
        let mut changed = std::mem::take(&mut self.changed);
        self.looked = 0;
        changed.sort_unstable();
        changed.dedup();
        if !changed.is_empty() && self.watchers.want_changes() {
            let changes = Arc::new(self.changes(&changed));
            let position = self.position();
            self.news.push(News::Changed(changes, position));
        }
        if let Some(unsaved) = &mut self.unsaved {
            unsaved.extend_from_slice(&changed);
            if unsaved.len() > UNSAVED_MAX {
                self.unsaved = None;
            }
        }
        changed.clear();
        if changed.capacity() > UNSAVED_MAX {
            changed.shrink_to(UNSAVED_MAX);
            give_back_memory();
        }
        self.changed = changed;
        self.tell_faults(origins);
        self.tell_copies(origins);
        self.tell_members();
        notices
    }

    pub(super) fn status(&mut self, now: u64) -> SpaceStatus {
        let sizes = self.sizes();
        debug_assert_eq!(sizes.counters, self.replica.len(), "counters that exist");
        let closed = self.replica.members().configuration().is_some();
        SpaceStatus {
            space: self.name().to_string(),
            role: self.role.limit().map(|_| self.role),
            writer: self.replica.writer().to_string(),
            clock: self.replica.clock(),
            counters: sizes.counters,
            expiring: sizes.expiring,
            shards: self.replica.shard_count(),
            key_bytes: self.replica.key_bytes(),
            writers: self.replica.writers().count(),
            digest: hex(&self.replica.digest()),
            contents: hex(&self.replica.forks_mut().content_digest().to_be_bytes()),
            faults: self.replica.forks().fault_count(),
            evidence: self.evidence(),
            renewals: self.renewals,
            keyed: self.replica.keyed().count(),
            withdrawn: self.replica.keyed().withdrawn_count(),
            stuck: self.stuck(now),
            copied: self.is_copied(),
            copies: self.copies(now),
            membership: closed.then(|| self.membership(now)),
        }
    }
}

/// Whether a node of this role only adds.
fn only_adds(role: Role) -> bool {
    role < Role::Editor
}

/// Makes the allocator return the memory of a large transfer to the system, where it does not do so
/// by itself. glibc keeps up to 64 MiB of it.
fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number and touches nothing but the allocator's free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A fresh writer id, and the nonce with which it was minted.
fn mint(space: &Space, owner: &[u8; 32]) -> Result<(WriterId, [u8; 16]), StoreError> {
    let nonce = random()?;
    Ok((WriterId::mint(space, owner, &nonce), nonce))
}

/// Fresh random bytes from the system.
fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Io {
        doing: "draw random bytes".into(),
        problem: error.to_string(),
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
