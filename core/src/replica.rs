//! One copy of a space's state: local transactions, reads, and merge.

mod absorb;
#[cfg(feature = "members")]
mod adds;
#[cfg(feature = "budgets")]
mod budgets;
mod build;
#[cfg(feature = "members")]
mod changes;
mod collect;
mod empty;
mod forget;
mod fork;
mod former;
mod homes;
mod index;
mod journal;
#[cfg(feature = "members")]
mod keyed;
#[cfg(not(feature = "members"))]
#[path = "replica/keyless.rs"]
mod keyed;
mod levels;
mod listing;
#[cfg(feature = "explore")]
mod local;
mod members;
mod merge;
#[cfg(feature = "members")]
mod moved;
mod ops;
mod recent;
mod restore;
#[cfg(feature = "guests")]
mod role;
pub(crate) mod room;
#[cfg(feature = "members")]
mod snapshot;
mod standing;
#[cfg(feature = "budgets")]
mod tickets;
pub(crate) mod touched;
mod transaction;
mod version;
mod votes;
mod walk;
#[cfg(feature = "budgets")]
mod windows;

#[cfg(feature = "budgets")]
pub use budgets::{Budget, Flow, Holder, Holding, Lease, Stock, lease_until};
pub use build::Mark;
pub(crate) use build::Push;
#[cfg(feature = "members")]
pub use changes::Moment;
pub use fork::{Contents, Evidence, Fault};
pub(crate) use former::Former;
pub use journal::{Again, AgainOp, Journal, Returned};
pub(crate) use journal::{Did, Saw};
#[cfg(feature = "members")]
pub use keyed::{Asked, Asker, KeyedBounds};
#[cfg(feature = "members")]
pub(crate) use levels::newest;
pub use listing::{Fate, Listed, Member};
pub use merge::Merged;
pub use ops::Op;
#[cfg(feature = "members")]
pub use snapshot::{Part, Restoring, Snapshot};
#[cfg(feature = "budgets")]
pub(crate) use tickets::{Given, Watching};
#[cfg(feature = "budgets")]
pub use tickets::{Reached, Sequence, Watched};
pub use transaction::Transaction;
pub(crate) use walk::Walk;
#[cfg(feature = "budgets")]
pub use windows::Period;

use crate::MEMBERS;
#[cfg(feature = "budgets")]
use crate::account::is_reserved;
use crate::closed::Closed;
use crate::counter;
use crate::error::{Error, detail};
use crate::keys::{Handle, Keys};
use crate::numbers::Numbers;
use crate::shard::{OWN, PAGE, Page, Row, Shard, bits};
use crate::sort::sort_by;
use crate::vector::VersionVector;
use crate::writer_id::{Space, WriterId};
use alloc::vec::Vec;
use touched::Touched;

/// One copy of a space's state, written under one writer id.
///
/// It takes writes with no network, and merges what other replicas send: for each counter and
/// writer the shard with the greater clock stays. It does no I/O; whoever holds it moves the
/// bytes, by hand with [`delta`](Replica::delta) and [`merge`](Replica::merge), or with
/// [`Sync`](crate::Sync).
///
/// ```
/// use tallymesh_core::{Replica, Space, VersionVector, WriterId};
/// # fn main() -> Result<(), tallymesh_core::Error> {
/// let space = Space::default();
/// let writer = |nonce| WriterId::mint(&Space::default(), &[7; 32], &[nonce; 16]);
/// let mut here = Replica::new(space.clone(), writer(1));
/// let mut there = Replica::new(space, writer(2));
/// here.add("likes", 2)?;
/// there.add("likes", 3)?;
/// here.merge(&there.delta(&here.vector()))?;
/// assert_eq!(here.value("likes"), Some(5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    space: Space,
    keys: Keys,
    pages: Vec<Page>,
    touched: Touched,
    /// Goes up with each mark; a page touched in an epoch changed since that epoch's mark.
    epoch: u64,
    /// The writers by local number.
    writers: Vec<WriterId>,
    /// The version vector by local number. The own writer's entry is its logical clock.
    clocks: Vec<u64>,
    /// The own clock when each writer's entry grew last: own transactions up to it do not build on
    /// that growth, later ones do.
    merged_at: Vec<u64>,
    /// What was held of each writer at the last own transaction, if something was merged since.
    seen_at_last: Closed<Vec<u64>>,
    numbers: Numbers,
    roster: Closed<members::Roster>,
    journal: Closed<Journal>,
    former: Closed<Vec<former::Former>>,
    /// The epoch in which a whole state last took the place of all that was held.
    began: u64,
    /// Whether something was ever collected here: then what is covered and absent is not taken in
    /// again. Before that it can only be a forked writer's.
    collected: bool,
    /// How often a walk over the state in parts, if there was one, became void: local numbers were
    /// given to other writers, or something went or came that no newer clock tells of.
    voided: Closed<u64>,
    /// How often counters were dropped of which nothing is left.
    dropped: Closed<u64>,
    /// The wall clock by which counters expire, in milliseconds since 1970.
    time: u64,
    sums: Closed<fork::Sums>,
    /// Writers that were found forked since the sync machine last asked.
    forked: Closed<Vec<WriterId>>,
    #[cfg(feature = "members")]
    moved: moved::Moved,
    #[cfg(feature = "members")]
    keyed: keyed::Table,
    #[cfg(feature = "budgets")]
    pending: budgets::Pending,
    #[cfg(feature = "budgets")]
    used: budgets::Used,
    #[cfg(feature = "budgets")]
    tickets: tickets::Tickets,
    #[cfg(feature = "budgets")]
    windows: windows::Windows,
    /// Whether this writer follows one of a member's, and is to be announced as its next start.
    #[cfg(feature = "budgets")]
    is_next_start: bool,
    faults: Closed<Vec<Fault>>,
    /// Those that nobody has taken yet, to be laid to links.
    #[cfg(feature = "members")]
    fresh_faults: Vec<Fault>,
    fault_count: u64,
    /// Whether this replica only adds: see [`set_adds_only`](Replica::set_adds_only).
    #[cfg(feature = "guests")]
    adds_only: bool,
}

impl Replica {
    /// An empty replica. `writer` must be freshly [minted](WriterId::mint) at each start.
    pub fn new(space: Space, writer: WriterId) -> Replica {
        let seed = u64::from_le_bytes(core::array::from_fn(|i| writer.as_bytes()[i]));
        let mut replica = Replica {
            space,
            keys: Keys::new(seed),
            pages: Vec::new(),
            touched: Touched::default(),
            epoch: 1,
            writers: Vec::from([writer]),
            clocks: Vec::from([0]),
            merged_at: Vec::from([0]),
            seen_at_last: Closed::default(),
            numbers: Numbers::new(writer, OWN),
            roster: Closed::default(),
            journal: Closed::default(),
            former: Closed::default(),
            began: 0,
            collected: false,
            voided: Closed::default(),
            dropped: Closed::default(),
            time: 0,
            sums: Closed::default(),
            forked: Closed::default(),
            #[cfg(feature = "members")]
            moved: moved::Moved::NONE,
            #[cfg(feature = "members")]
            keyed: keyed::Table::default(),
            #[cfg(feature = "budgets")]
            pending: budgets::Pending::default(),
            #[cfg(feature = "budgets")]
            used: budgets::Used::default(),
            #[cfg(feature = "budgets")]
            tickets: tickets::Tickets::default(),
            #[cfg(feature = "budgets")]
            windows: windows::Windows::default(),
            #[cfg(feature = "budgets")]
            is_next_start: false,
            faults: Closed::default(),
            #[cfg(feature = "members")]
            fresh_faults: Vec::new(),
            fault_count: 0,
            #[cfg(feature = "guests")]
            adds_only: false,
        };
        if MEMBERS {
            *replica.roster = members::Roster::new();
            replica.seen_at_last.push(0);
        }
        replica
    }

    /// The space it is a copy of.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The writer it writes under.
    pub fn writer(&self) -> WriterId {
        self.writers[OWN as usize]
    }

    /// Its own logical clock: how many transactions it has made.
    pub fn clock(&self) -> u64 {
        self.clocks[OWN as usize]
    }

    /// Adds `by`, which may be negative or 0, to a counter. A counter that is absent begins at 0.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::Overflow`] if this writer's total would leave `i64`,
    /// [`Error::ClockExhausted`], [`Error::CountersFull`], [`Error::WritersFull`] for a writer's first
    /// transaction in a full space. Nothing is changed then.
    #[inline]
    pub fn add(&mut self, key: &str, by: i64) -> Result<Handle, Error> {
        if let Some(handle) = self.keys.find(key)
            && self.add_again(handle, by)
        {
            return Ok(handle);
        }
        self.add_new(key, by)
    }

    /// Adds `by` to the counter that goes by `handle`: the fastest way to count.
    ///
    /// # Errors
    /// As [`add`](Replica::add), and [`Error::UnknownHandle`].
    #[inline]
    pub fn add_at(&mut self, handle: Handle, by: i64) -> Result<(), Error> {
        if self.add_again(handle, by) {
            return Ok(());
        }
        self.add_first(handle, by)
    }

    /// Adds to a counter that this writer has a plain shard of already. False, with nothing
    /// changed, if it has none or something is wrong.
    #[inline(always)]
    fn add_again(&mut self, handle: Handle, by: i64) -> bool {
        let (page_at, slot) = place(handle);
        let keeps = self.keeps_journal();
        let Some(page) = self.pages.get_mut(page_at) else {
            return false;
        };
        if keeps || page.is_odd(slot) {
            return false;
        }
        let Some(row) = page.own.get_mut(slot) else {
            return false;
        };
        let own = &mut self.clocks[OWN as usize];
        let (Some(clock), Some(total)) = (own.checked_add(1), row.total.checked_add(by)) else {
            return false;
        };
        *row = Row { clock, total };
        *own = clock;
        page.own.newest = clock;
        if page.touch.note(1 << slot, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
        true
    }

    /// An add to a counter whose key may be new.
    #[cold]
    fn add_new(&mut self, key: &str, by: i64) -> Result<Handle, Error> {
        self.next_clock()?;
        #[cfg(feature = "budgets")]
        self.check_plain(key)?;
        let handle = self.keys.find_or_insert(key)?;
        self.add_first(handle, by)?;
        Ok(handle)
    }

    /// This writer's first add to a counter, one to a counter that is not plain, or one that fails.
    #[cold]
    fn add_first(&mut self, handle: Handle, by: i64) -> Result<(), Error> {
        if self.keys.get(handle).is_none() {
            return Err(Error::UnknownHandle {
                handle: detail(handle.0),
            });
        }
        #[cfg(feature = "budgets")]
        self.check_plain_at(handle)?;
        let clock = self.next_clock()?;
        let (page_at, slot) = place(handle);
        let keeps = self.keeps_journal();
        let page = self.page_mut(page_at);
        if keeps || page.is_odd(slot) {
            return self.apply_at(handle, Op::Add(by)).map(|_| ());
        }
        if let Some(&Row { total, .. }) = page.own.get(slot) {
            let total = i128::from(total);
            return Err(Error::Overflow {
                total: detail(total),
                by: detail(by),
            });
        }
        page.own.insert(slot, Row { clock, total: by });
        self.touch(page_at, 1 << slot);
        self.made(clock);
        Ok(())
    }

    /// The clock of the next own transaction.
    fn next_clock(&self) -> Result<u64, Error> {
        self.room_for_start()?;
        self.clock_after()
    }

    /// The same of a transaction for which there is room always.
    fn clock_after(&self) -> Result<u64, Error> {
        let next = self.clock().checked_add(1);
        next.filter(|clock| !MEMBERS || *clock < u64::MAX)
            .ok_or(Error::ClockExhausted)
    }

    /// The page, made if need be.
    fn page_mut(&mut self, page_at: usize) -> &mut Page {
        if page_at >= self.pages.len() {
            self.pages.resize_with(page_at + 1, Page::default);
            self.touched.resize(page_at + 1);
        }
        &mut self.pages[page_at]
    }

    /// Makes walks over the state in parts void.
    fn void_walks(&mut self) {
        if MEMBERS {
            *self.voided = self.voided.wrapping_add(1);
        }
    }

    /// Marks counters of a page as changed.
    #[inline]
    fn touch(&mut self, page_at: usize, slots: u64) {
        if self.pages[page_at].touch.note(slots, self.epoch) {
            self.touched.note(page_at, self.epoch);
        }
    }

    /// A handle for `key` that stays valid until it is [released](Replica::release) as often as
    /// it was interned, whether the counter exists or not.
    ///
    /// # Errors
    /// [`Error::KeyLength`], [`Error::CountersFull`].
    pub fn intern(&mut self, key: &str) -> Result<Handle, Error> {
        let handle = self.keys.find_or_insert(key)?;
        self.keys.pin(handle);
        Ok(handle)
    }

    /// Gives an interned handle back. The counter, if it exists, stays.
    ///
    /// # Errors
    /// [`Error::UnknownHandle`] if it is not interned.
    pub fn release(&mut self, handle: Handle) -> Result<(), Error> {
        if self.keys.unpin(handle)? {
            self.forget_unused(handle);
        }
        Ok(())
    }

    /// Forgets the key if nothing is kept under it.
    fn forget_unused(&mut self, handle: Handle) {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        let used = page.is_some_and(|page| page.rows(slot).next().is_some());
        if !used && !self.keys.is_pinned(handle) {
            self.keys.remove(handle);
        }
    }

    /// The counter's value, `None` if it is absent or has expired by [`set_time`](Replica::set_time).
    pub fn value(&self, key: &str) -> Option<i128> {
        self.value_at(self.keys.find(key)?)
    }

    /// The value of the counter that goes by `handle`, as [`value`](Replica::value).
    pub fn value_at(&self, handle: Handle) -> Option<i128> {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at)?;
        if page.is_odd(slot) {
            return self.odd_value(page, slot);
        }
        let mut rows = page.rows(slot);
        let (_, first) = rows.next()?;
        Some(rows.fold(i128::from(first.total), |sum, (_, row)| {
            sum + i128::from(row.total)
        }))
    }

    #[cold]
    fn odd_value(&self, page: &Page, slot: u32) -> Option<i128> {
        let sum = counter::sum(&page.slots(slot), &self.writers);
        match self.is_past(sum.expiry()) {
            true => None,
            false => sum.value(),
        }
    }

    /// When the counter expires, in milliseconds since 1970; `None` if it is absent or stays.
    pub fn expiry_at(&self, handle: Handle) -> Option<u64> {
        let expiry = self.effective_expiry(handle);
        expiry.filter(|_| !self.is_past(expiry))
    }

    /// When the counter expires or expired, in milliseconds since 1970, whatever the time is; `None`
    /// if it is absent or stays.
    pub fn effective_expiry(&self, handle: Handle) -> Option<u64> {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at)?;
        if !page.is_odd(slot) {
            return None;
        }
        counter::sum(&page.slots(slot), &self.writers).expiry()
    }

    /// Sets the wall clock by which counters expire, in milliseconds since 1970, until the next
    /// call. A new replica's stands at 0, when nothing has expired. It may go back.
    pub fn set_time(&mut self, unix_ms: u64) {
        self.time = unix_ms;
    }

    fn is_past(&self, expiry: Option<u64>) -> bool {
        expiry.is_some_and(|at| at <= self.time)
    }

    /// The handle of a key that is known here, without interning it.
    pub fn handle(&self, key: &str) -> Option<Handle> {
        self.keys.find(key)
    }

    /// The key that goes by `handle`.
    pub fn key(&self, handle: Handle) -> Option<&str> {
        self.keys.get(handle)
    }

    /// Calls `take` with each counter that exists, in no stated order.
    pub fn each_counter(&self, take: &mut dyn FnMut(Handle)) {
        for (at, page) in self.pages.iter().enumerate() {
            for slot in bits(self.existing(page)) {
                let handle = Handle((at * PAGE) as u32 + slot);
                #[cfg(feature = "budgets")]
                if self.is_reserved(handle) {
                    continue;
                }
                take(handle);
            }
        }
    }

    /// Whether a handle is of a part of a budget, and not of a counter.
    #[cfg(feature = "budgets")]
    fn is_reserved(&self, handle: Handle) -> bool {
        !self.keys.are_plain() && self.keys.get(handle).is_some_and(is_reserved)
    }

    /// Each counter that exists, in no stated order.
    pub fn counters(&self) -> impl Iterator<Item = (Handle, &str)> {
        self.pages.iter().enumerate().flat_map(move |(at, page)| {
            bits(self.existing(page)).filter_map(move |slot| {
                let handle = Handle(at as u32 * PAGE as u32 + slot);
                #[cfg(feature = "budgets")]
                if self.is_reserved(handle) {
                    return None;
                }
                Some((handle, self.keys.get(handle)?))
            })
        })
    }

    /// How many counters exist.
    pub fn len(&self) -> usize {
        let mut count = 0;
        for page in &self.pages {
            count += self.existing(page).count_ones() as usize;
        }
        #[cfg(feature = "budgets")]
        for (handle, _) in self.keys.reserved() {
            count -= usize::from(self.value_at(handle).is_some());
        }
        count
    }

    /// One more than the greatest handle's number.
    pub fn handles_end(&self) -> u32 {
        (self.pages.len() * PAGE) as u32
    }

    /// Bytes of all keys that are known. At [`KEY_TABLE_BYTES_MAX`](crate::limits::KEY_TABLE_BYTES_MAX)
    /// no new key has room any more ([`Error::CountersFull`]).
    pub fn key_bytes(&self) -> usize {
        self.keys.bytes() as usize
    }

    /// Sets another bound than that, for tests.
    #[cfg(any(test, feature = "explore"))]
    pub fn set_key_bytes_max(&mut self, bytes: u32) {
        self.keys.bytes_max = bytes;
    }

    /// Goes up when a whole state takes the place of all that was held: its counters have other
    /// handles.
    pub fn generation(&self) -> u64 {
        self.began
    }

    /// Which counters of a page exist.
    fn existing(&self, page: &Page) -> u64 {
        let odd = page.odd();
        let mut set = page.present();
        for slot in bits(odd & set) {
            if self.odd_value(page, slot).is_none() {
                set &= !(1 << slot);
            }
        }
        set
    }

    /// Whether no counter exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shards of one counter, ascending by writer. An absorbed writer's are part of its heir's.
    pub fn shards(&self, handle: Handle) -> impl Iterator<Item = Shard> {
        let mut shards = Vec::new();
        self.each_shard(handle, &mut |shard| shards.push(shard));
        shards.into_iter()
    }

    /// Calls `take` with each of the [`shards`](Replica::shards) of one counter.
    pub fn each_shard(&self, handle: Handle, take: &mut dyn FnMut(Shard)) {
        let (page_at, slot) = place(handle);
        let page = self.pages.get(page_at);
        let slots = page.map_or(Vec::new(), |page| page.slots(slot));
        let sums = counter::sums(&slots, &self.writers);
        let winner = counter::sum(&slots, &self.writers).base;
        let id = |at: u32| self.writers[slots[at as usize].writer() as usize];
        let mut order: Vec<u32> = (0..slots.len() as u32).collect();
        sort_by(&mut order, &|a, b| id(a).cmp(&id(b)));
        for at in order.iter().copied() {
            let (slot, sum) = (&slots[at as usize], &sums[at as usize]);
            if slot.side.moved.is_some() || !sum.exists() {
                continue;
            }
            let base = sum.base.filter(|base| Some(*base) == winner);
            take(Shard {
                writer: id(at),
                clock: slot.row.clock,
                total: sum.amount + base.map_or(0, |base| i128::from(base.value)),
            });
        }
    }

    /// How many shards are held.
    pub fn shard_count(&self) -> usize {
        let mut count = 0;
        for page in &self.pages {
            for column in page.columns() {
                count += column.rows.len();
            }
        }
        count
    }

    /// The version vector, ascending by writer.
    pub fn writers(&self) -> impl Iterator<Item = (WriterId, u64)> {
        self.numbers
            .iter()
            .map(|(writer, number)| (writer, self.clocks[number as usize]))
            .filter(|(_, clock)| *clock > 0)
    }

    /// The version vector: what is held and visible here.
    pub fn vector(&self) -> VersionVector {
        let mut entries = crate::list(self.numbers.len());
        for (writer, number) in self.numbers.iter() {
            let clock = self.clocks[number as usize];
            if clock > 0 {
                entries.push((writer, clock));
            }
        }
        VersionVector::from_sorted(entries)
    }

    /// The evidence of faults that were detected, up to
    /// [`FAULTS_KEPT_MAX`](crate::limits::FAULTS_KEPT_MAX): the first ones of those that are alike.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many faults were detected.
    pub fn fault_count(&self) -> u64 {
        self.fault_count
    }

    /// Gives back memory that growth has set aside. Worth its time after a large load.
    pub fn shrink(&mut self) {
        for page in &mut self.pages {
            page.own.rows.shrink_to_fit();
            page.others.shrink_to_fit();
            for column in &mut page.others {
                column.rows.shrink_to_fit();
            }
        }
        self.pages.shrink_to_fit();
        self.touched.shrink();
        self.keys.shrink();
    }

    /// The heap bytes that the shards and their keys take, as allocated.
    pub fn heap_bytes(&self) -> usize {
        self.pages.iter().map(Page::heap_bytes).sum::<usize>()
            + self.pages.capacity() * size_of::<Page>()
            + self.touched.heap_bytes()
            + self.keys.heap_bytes()
            + self.sums.heap_bytes()
    }
}

/// A handle's page and its place therein.
#[inline]
fn place(handle: Handle) -> (usize, u32) {
    (handle.0 as usize / PAGE, handle.0 % PAGE as u32)
}
