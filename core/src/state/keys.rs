//! The key table: string keys to dense local handles and back.

#[cfg(feature = "budgets")]
use crate::account::{Account, Part, is_reserved};
use crate::error::{Error, detail};
use crate::limits::{KEY_BYTES_MAX, KEY_TABLE_BYTES_MAX};
use crate::state::delta::SortedKeys;
#[cfg(feature = "budgets")]
use crate::ticket::TicketKey;
#[cfg(feature = "budgets")]
use crate::window::WindowKey;
#[cfg(feature = "budgets")]
use crate::writer_id::WriterId;
#[cfg(feature = "budgets")]
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// What keys of kinds begin with.
pub const RESERVED: char = '\0';

#[cfg(target_family = "wasm")]
use crate::state::table::Table;
#[cfg(not(target_family = "wasm"))]
use core::hash::{BuildHasher, Hasher};

#[cfg(not(target_family = "wasm"))]
type Table = hashbrown::HashTable<u32>;

/// Whether there is memory for more text than 32-bit offsets name.
const HUGE: bool = !cfg!(target_family = "wasm");

/// What the hashes of keys begin with.
#[cfg(not(target_family = "wasm"))]
type Seed = foldhash::fast::FixedState;
#[cfg(target_family = "wasm")]
type Seed = u64;

/// The writer that holds what is kept under a key.
#[cfg(feature = "budgets")]
fn holder(key: &str) -> Option<WriterId> {
    if let Some(account) = Account::parse(key) {
        return account.part.holder();
    }
    match WindowKey::parse(key) {
        Some(window) => window.holder(),
        None => TicketKey::parse(key)?.holder(),
    }
}

/// The name of the budget, if it is a lease's key.
#[cfg(feature = "budgets")]
fn leased(key: &str) -> Option<&str> {
    let account = Account::parse(key)?;
    matches!(account.part, Part::Leased(..)).then_some(account.name)
}

/// Takes a handle out of those of a name.
#[cfg(feature = "budgets")]
fn forget(handles: &mut BTreeMap<String, BTreeSet<u32>>, name: &str, handle: Handle) {
    if let Some(of_name) = handles.get_mut(name) {
        of_name.remove(&handle.0);
        if of_name.is_empty() {
            handles.remove(name);
        }
    }
}

#[cfg(not(target_family = "wasm"))]
fn seed(random: u64) -> Seed {
    Seed::with_seed(random)
}

#[cfg(target_family = "wasm")]
fn seed(random: u64) -> Seed {
    random
}

/// The local number of a key. It is never on the wire, and stays valid while the counter exists or
/// somebody holds it interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// The handle of this number.
    pub const fn from_u32(number: u32) -> Handle {
        Handle(number)
    }

    /// Its number.
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

/// Where a key's bytes stand; a length of 0 marks a free handle.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    /// At most [`KEY_BYTES_MAX`].
    len: u16,
    /// How often the handle is interned by the application. At its maximum it stays there: the
    /// handle is then never freed.
    pins: u16,
}

/// All keys, their bytes in one string. A handle indexes `spans`; the hash table holds handles
/// only, so a counter costs its key's bytes and about 14 more here.
#[derive(Clone)]
pub(crate) struct Keys {
    table: Table,
    spans: Vec<Span>,
    text: String,
    /// Bytes of `text` that belong to no key any more.
    garbage_bytes: usize,
    free: Vec<u32>,
    seed: Seed,
    /// A lower bound, for tests that have less memory.
    #[cfg(any(test, feature = "explore"))]
    pub(crate) bytes_max: u32,
    /// The keys that are no plain counters', by the writer that holds what is kept there.
    #[cfg(feature = "budgets")]
    reserved: BTreeMap<Option<WriterId>, BTreeSet<u32>>,
    /// Those of windows, by the end of their periods.
    #[cfg(feature = "budgets")]
    windows: BTreeSet<(u64, u32)>,
    /// Those of leases, by the budget's name.
    #[cfg(feature = "budgets")]
    leases: BTreeMap<String, BTreeSet<u32>>,
    /// Those of sequences, by the sequence's name.
    #[cfg(feature = "budgets")]
    sequences: BTreeMap<String, BTreeSet<u32>>,
    /// The sequences of which numbers are watched, and how many keys tell so.
    #[cfg(feature = "budgets")]
    watched: BTreeMap<String, u32>,
}

impl Keys {
    /// An empty table. `random` keeps an adversary from knowing which keys collide.
    pub(crate) fn new(random: u64) -> Keys {
        Keys {
            table: Table::new(),
            spans: Vec::new(),
            text: String::new(),
            garbage_bytes: 0,
            free: Vec::new(),
            seed: seed(random),
            #[cfg(any(test, feature = "explore"))]
            bytes_max: KEY_TABLE_BYTES_MAX,
            #[cfg(feature = "budgets")]
            reserved: BTreeMap::new(),
            #[cfg(feature = "budgets")]
            windows: BTreeSet::new(),
            #[cfg(feature = "budgets")]
            leases: BTreeMap::new(),
            #[cfg(feature = "budgets")]
            sequences: BTreeMap::new(),
            #[cfg(feature = "budgets")]
            watched: BTreeMap::new(),
        }
    }

    #[cfg(not(target_family = "wasm"))]
    #[inline]
    fn hash(seed: &Seed, key: &str) -> u64 {
        let mut state = seed.build_hasher();
        state.write(key.as_bytes());
        state.finish()
    }

    #[cfg(target_family = "wasm")]
    fn hash(seed: &Seed, key: &str) -> u64 {
        crate::hash::hash_bytes(*seed, key.as_bytes())
    }

    #[inline]
    fn text_of<'a>(text: &'a str, spans: &[Span], handle: u32) -> &'a str {
        let span = spans[handle as usize];
        &text[span.start as usize..][..span.len as usize]
    }

    #[inline]
    pub(crate) fn find(&self, key: &str) -> Option<Handle> {
        let hash = Keys::hash(&self.seed, key);
        self.table
            .find(hash, |&handle| {
                let span = self.spans[handle as usize];
                let text = self.text.as_bytes().get(span.start as usize..);
                span.len as usize == key.len()
                    && text.is_some_and(|text| text.starts_with(key.as_bytes()))
            })
            .map(|&handle| Handle(handle))
    }

    /// Whether the keys from `first` on are these, one after another: `text` is theirs joined, and
    /// `ends` says where each ends in it, counted from `base`. Keys that came together tend to
    /// stand together, and are compared together.
    pub(crate) fn is_run(&self, first: Handle, text: &str, ends: &[u32], base: u32) -> bool {
        let first = first.0 as usize;
        let Some(spans) = self.spans.get(first..first + ends.len()) else {
            return false;
        };
        let Some(start) = spans.first().map(|span| span.start) else {
            return false;
        };
        let mut same = true;
        let mut at = base;
        for (span, end) in spans.iter().zip(ends) {
            // A freed handle has no length, and no key is empty.
            same &= span.start.wrapping_sub(start) == at - base;
            same &= u32::from(span.len) == end - at;
            at = *end;
        }
        let ours = self.text.as_bytes().get(start as usize..);
        same && ours.is_some_and(|ours| ours.starts_with(text.as_bytes()))
    }

    /// Refuses what can't be a key.
    pub(crate) fn check(&self, key: &str) -> Result<(), Error> {
        match key.len() {
            1..=KEY_BYTES_MAX => Ok(()),
            bytes => Err(Error::KeyLength {
                bytes: detail(bytes),
            }),
        }
    }

    /// The handle of `key`, which is given one if it has none.
    pub(crate) fn find_or_insert(&mut self, key: &str) -> Result<Handle, Error> {
        if let Some(handle) = self.find(key) {
            return Ok(handle);
        }
        self.room_for(key.len())?;
        self.insert(key)
    }

    /// The same of a key that came with others, which were judged together.
    pub(crate) fn find_or_take(&mut self, key: &str) -> Result<Handle, Error> {
        match self.find(key) {
            Some(handle) => Ok(handle),
            None => self.insert(key),
        }
    }

    /// Gives a key that has none a handle.
    fn insert(&mut self, key: &str) -> Result<Handle, Error> {
        self.check(key)?;
        if HUGE && self.text.len() + key.len() > u32::MAX as usize {
            self.compact(); // The remains of removed keys use up 32-bit offsets too.
        }
        self.room_up_to(key.len(), u32::MAX)?;
        let start = self.text.len() as u32;
        self.text.push_str(key);
        let span = Span {
            start,
            len: key.len() as u16, // at most KEY_BYTES_MAX
            pins: 0,
        };
        let handle = match self.free.pop() {
            Some(handle) => {
                self.spans[handle as usize] = span;
                handle
            }
            None => {
                self.spans.push(span);
                (self.spans.len() - 1) as u32
            }
        };
        #[cfg(feature = "budgets")]
        if is_reserved(key) {
            self.reserved.entry(holder(key)).or_default().insert(handle);
            if let Some(window) = WindowKey::parse(key) {
                self.windows.insert((window.end(), handle));
            }
            if let Some(name) = leased(key) {
                self.leases.entry(name.into()).or_default().insert(handle);
            }
            if let Some(key) = TicketKey::parse(key) {
                let of = self.sequences.entry(key.name.into()).or_default();
                of.insert(handle);
                if key.is_watch() {
                    *self.watched.entry(key.name.into()).or_default() += 1;
                }
            }
        }
        let Keys {
            table,
            spans,
            text,
            seed,
            ..
        } = self;
        table.insert_unique(Keys::hash(seed, key), handle, |&other| {
            Keys::hash(seed, Keys::text_of(text, spans, other))
        });
        Ok(Handle(handle))
    }

    /// Refuses so many bytes of new keys if there is no room for them.
    pub(crate) fn room_for(&self, key_bytes: usize) -> Result<(), Error> {
        self.room_up_to(key_bytes, self.bytes_max())
    }

    /// The same of a record of the own store, which may bring more.
    pub(crate) fn room_for_stored(&self, keys: &SortedKeys) -> Result<(), Error> {
        self.room_up_to(self.unknown_bytes(keys, u32::MAX), u32::MAX)
    }

    /// Refuses what the 32-bit offsets and handles could not name, or a lower bound does not allow.
    fn room_up_to(&self, new: usize, max: u32) -> Result<(), Error> {
        let bytes = self.bytes() + new as u64;
        if new > 0 && (bytes > u64::from(max) || self.spans.len() as u64 >= u64::from(u32::MAX)) {
            return Err(Error::CountersFull {
                counters: detail(self.table.len()),
            });
        }
        Ok(())
    }

    /// Bytes of the keys that are known.
    pub(crate) fn bytes(&self) -> u64 {
        (self.text.len() - self.garbage_bytes) as u64
    }

    /// Bytes that a message's keys add to those that are known: no less than that, and exactly that if
    /// it matters.
    pub(crate) fn new_bytes(&self, keys: &SortedKeys) -> usize {
        self.unknown_bytes(keys, self.bytes_max())
    }

    fn unknown_bytes(&self, keys: &SortedKeys, max: u32) -> usize {
        if !HUGE || self.bytes() + keys.bytes() as u64 <= u64::from(max) {
            return keys.bytes();
        }
        let new = keys.iter().filter(|key| self.find(key).is_none());
        new.map(str::len).sum()
    }

    #[cfg(not(any(test, feature = "explore")))]
    fn bytes_max(&self) -> u32 {
        KEY_TABLE_BYTES_MAX
    }

    #[cfg(any(test, feature = "explore"))]
    fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// The key of a handle, `None` if the handle is free.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> Option<&str> {
        let live = self.spans.get(handle.0 as usize)?.len > 0;
        live.then(|| Keys::text_of(&self.text, &self.spans, handle.0))
    }

    pub(crate) fn pin(&mut self, handle: Handle) {
        let pins = &mut self.spans[handle.0 as usize].pins;
        *pins = pins.saturating_add(1);
    }

    pub(crate) fn is_pinned(&self, handle: Handle) -> bool {
        self.spans
            .get(handle.0 as usize)
            .is_some_and(|span| span.pins > 0)
    }

    /// Takes one pin off; tells whether it was the last one.
    pub(crate) fn unpin(&mut self, handle: Handle) -> Result<bool, Error> {
        match self.spans.get_mut(handle.0 as usize) {
            Some(span) if span.pins > 0 => {
                if span.pins < u16::MAX {
                    span.pins -= 1;
                }
                Ok(span.pins == 0)
            }
            _ => Err(Error::UnknownHandle {
                handle: detail(handle.0),
            }),
        }
    }

    /// Forgets a key; its handle may be given to another.
    pub(crate) fn remove(&mut self, handle: Handle) {
        let Some(key) = self.get(handle) else { return };
        let hash = Keys::hash(&self.seed, key);
        let bytes = key.len();
        #[cfg(feature = "budgets")]
        if is_reserved(key) {
            let (holder, end) = (holder(key), WindowKey::parse(key).map(|it| it.end()));
            if let Some(end) = end {
                self.windows.remove(&(end, handle.0));
            }
            if let Some(handles) = self.reserved.get_mut(&holder) {
                handles.remove(&handle.0);
                if handles.is_empty() {
                    self.reserved.remove(&holder);
                }
            }
            if let Some(name) = self.get(handle).and_then(leased).map(String::from) {
                forget(&mut self.leases, &name, handle);
            }
            if let Some(key) = self.get(handle).and_then(TicketKey::parse) {
                let (name, is_watch) = (String::from(key.name), key.is_watch());
                self.forget_sequence(&name, handle, is_watch);
            }
        }
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == handle.0) {
            entry.remove();
        }
        self.spans[handle.0 as usize].len = 0;
        self.free.push(handle.0);
        self.garbage_bytes += bytes;
        if self.garbage_bytes > 4096 && self.garbage_bytes > self.text.len() / 2 {
            self.compact();
        }
    }

    /// Whether all keys are plain counters'.
    #[cfg(feature = "budgets")]
    #[inline]
    pub(crate) fn are_plain(&self) -> bool {
        self.reserved.is_empty()
    }

    /// The keys that are no plain counters'.
    #[cfg(feature = "budgets")]
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (Handle, &str)> {
        let handles = self.reserved.values().flatten();
        handles.filter_map(|handle| Some((Handle(*handle), self.get(Handle(*handle))?)))
    }

    /// What is kept of windows, those that end first first, with the ends of their periods.
    #[cfg(feature = "budgets")]
    pub(crate) fn windows(&self) -> impl Iterator<Item = (u64, Handle)> {
        self.windows
            .iter()
            .map(|(end, handle)| (*end, Handle(*handle)))
    }

    /// The writers for whom something is kept that they hold.
    #[cfg(feature = "budgets")]
    pub(crate) fn holders(&self) -> impl Iterator<Item = WriterId> {
        self.reserved.keys().filter_map(|holder| *holder)
    }

    /// The keys of what this writer holds.
    #[cfg(feature = "budgets")]
    pub(crate) fn held_by(&self, writer: WriterId) -> impl Iterator<Item = Handle> {
        let handles = self.reserved.get(&Some(writer)).into_iter().flatten();
        handles.map(|handle| Handle(*handle))
    }

    #[cfg(feature = "budgets")]
    fn forget_sequence(&mut self, name: &str, handle: Handle, is_watch: bool) {
        forget(&mut self.sequences, name, handle);
        if let Some(watched) = self.watched.get_mut(name).filter(|_| is_watch) {
            *watched -= 1;
            if *watched == 0 {
                self.watched.remove(name);
            }
        }
    }

    /// What is kept of the leases of a budget.
    #[cfg(feature = "budgets")]
    pub(crate) fn leases_of(&self, name: &str) -> impl Iterator<Item = (Handle, Account<'_>)> {
        let handles = self.leases.get(name).into_iter().flatten();
        handles.filter_map(|handle| self.account(*handle))
    }

    /// What is kept of all leases.
    #[cfg(feature = "budgets")]
    pub(crate) fn leases(&self) -> impl Iterator<Item = (Handle, Account<'_>)> {
        let handles = self.leases.values().flatten();
        handles.filter_map(|handle| self.account(*handle))
    }

    #[cfg(feature = "budgets")]
    fn account(&self, handle: u32) -> Option<(Handle, Account<'_>)> {
        let handle = Handle(handle);
        Some((handle, Account::parse(self.get(handle)?)?))
    }

    /// The keys of a sequence.
    #[cfg(feature = "budgets")]
    pub(crate) fn of_sequence(&self, name: &str) -> impl Iterator<Item = (Handle, TicketKey<'_>)> {
        let handles = self.sequences.get(name).into_iter().flatten();
        let handles = handles.map(|handle| Handle(*handle));
        handles.filter_map(|handle| Some((handle, self.get(handle).and_then(TicketKey::parse)?)))
    }

    /// The names of sequences of which there are keys.
    #[cfg(feature = "budgets")]
    pub(crate) fn sequences(&self) -> impl Iterator<Item = &str> {
        self.sequences.keys().map(String::as_str)
    }

    /// The sequences of which numbers may be watched.
    #[cfg(feature = "budgets")]
    pub(crate) fn watched(&self) -> impl Iterator<Item = &str> {
        self.watched.keys().map(String::as_str)
    }

    /// Heap bytes as allocated; the hash table's are 4 a bucket and 1 for its control byte.
    pub(crate) fn heap_bytes(&self) -> usize {
        let buckets = (self.table.capacity() * 8).div_ceil(7);
        buckets * 5 + self.spans.capacity() * size_of::<Span>() + self.text.capacity()
    }

    /// Gives back memory that growth has set aside.
    pub(crate) fn shrink(&mut self) {
        self.compact();
        self.spans.shrink_to_fit();
        let Keys {
            table,
            spans,
            text,
            seed,
            ..
        } = self;
        table.shrink_to_fit(|&other| Keys::hash(seed, Keys::text_of(text, spans, other)));
    }

    /// Sets memory aside for so many more keys, where that spares moving them.
    #[cfg(feature = "members")]
    pub(crate) fn reserve(&mut self, keys: usize) {
        let Keys {
            table,
            spans,
            text,
            seed,
            ..
        } = self;
        spans.reserve(keys);
        table.reserve(keys, |&other| {
            Keys::hash(seed, Keys::text_of(text, spans, other))
        });
    }

    fn compact(&mut self) {
        let mut text = String::with_capacity(self.text.len() - self.garbage_bytes);
        for span in self.spans.iter_mut().filter(|span| span.len > 0) {
            let start = text.len() as u32;
            text.push_str(&self.text[span.start as usize..][..span.len as usize]);
            span.start = start;
        }
        self.text = text;
        self.garbage_bytes = 0;
    }
}
