//! The key table: strings to dense local numbers ([`KeyId`]) and back.
//!
//! A key is interned once, and hot paths work with its number. A number never leaves the process, because
//! another process may give it to another key. Strings are compared only when a message or a caller brings
//! one.

use crate::bounds::{KEY_BYTES_MAX, KEY_TABLE_BYTES_MAX};
use crate::error::{Error, WriteError, detail};
use crate::state::delta::SortedKeys;
use alloc::string::String;
use alloc::vec::Vec;

#[cfg(target_family = "wasm")]
use crate::hash::table::Table;
#[cfg(not(target_family = "wasm"))]
use core::hash::{BuildHasher, Hasher};

#[cfg(not(target_family = "wasm"))]
type Table = hashbrown::HashTable<u32>;

/// Whether there is memory for more text than 32-bit offsets can address.
const HUGE: bool = !cfg!(target_family = "wasm");

/// The seed of the hashes of keys.
#[cfg(not(target_family = "wasm"))]
type Seed = foldhash::fast::FixedState;
#[cfg(target_family = "wasm")]
type Seed = u64;

#[cfg(not(target_family = "wasm"))]
fn seed(random: u64) -> Seed {
    Seed::with_seed(random)
}

#[cfg(target_family = "wasm")]
fn seed(random: u64) -> Seed {
    random
}

/// The local number of a key. It is never on the wire. It stays valid while the counter exists or a caller
/// has the key interned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) u32);

impl KeyId {
    /// The key id of this number.
    pub const fn from_u32(number: u32) -> KeyId {
        KeyId(number)
    }

    /// Its number.
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

/// The place of a key's bytes. A length of 0 marks a free number.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    /// At most [`KEY_BYTES_MAX`].
    len: u16,
    /// How often the application has interned the number. At its maximum the count stays, and the number is
    /// never freed.
    pins: u16,
}

/// An index by which a layer above finds keys. The key table keeps the index in step with its keys.
pub(crate) trait KeyIndex: Clone + Default {
    /// A key was added under this number.
    fn added(&mut self, key: &str, key_id: KeyId);
    /// A key is about to be removed.
    fn removed(&mut self, key: &str, key_id: KeyId);
}

/// No index.
#[derive(Clone, Default)]
pub(crate) struct NoIndex;

impl KeyIndex for NoIndex {
    fn added(&mut self, _: &str, _: KeyId) {}

    fn removed(&mut self, _: &str, _: KeyId) {}
}

/// All keys, with their bytes in one string. A key's number indexes `spans`. The hash table has numbers only,
/// so a counter costs its key's bytes and about 14 more here.
#[derive(Clone)]
pub(crate) struct Keys<I = NoIndex> {
    table: Table,
    spans: Vec<Span>,
    text: String,
    /// Bytes of `text` that belong to no key any more.
    garbage_bytes: usize,
    free: Vec<u32>,
    seed: Seed,
    index: I,
    /// A lower bound, for tests that have less memory.
    #[cfg(any(test, feature = "explore"))]
    bytes_max: u32,
}

impl<I: KeyIndex> Keys<I> {
    /// An empty table. `random` prevents an adversary from predicting which keys collide.
    pub(crate) fn new(random: u64) -> Keys<I> {
        Keys {
            table: Table::new(),
            spans: Vec::new(),
            text: String::new(),
            garbage_bytes: 0,
            free: Vec::new(),
            seed: seed(random),
            index: I::default(),
            #[cfg(any(test, feature = "explore"))]
            bytes_max: KEY_TABLE_BYTES_MAX,
        }
    }

    /// The index by which a layer above finds keys.
    #[cfg(feature = "budgets")]
    #[inline]
    pub(crate) fn index(&self) -> &I {
        &self.index
    }

    /// Sets a lower bound of all keys' bytes.
    #[cfg(any(test, feature = "explore"))]
    pub(crate) fn set_bytes_max(&mut self, bytes: u32) {
        self.bytes_max = bytes;
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
    fn text_of<'a>(text: &'a str, spans: &[Span], key_id: u32) -> &'a str {
        let span = spans[key_id as usize];
        &text[span.start as usize..][..span.len as usize]
    }

    #[inline]
    pub(crate) fn find(&self, key: &str) -> Option<KeyId> {
        let hash = Keys::<I>::hash(&self.seed, key);
        self.table
            .find(hash, |&key_id| {
                let span = self.spans[key_id as usize];
                let text = self.text.as_bytes().get(span.start as usize..);
                span.len as usize == key.len()
                    && text.is_some_and(|text| text.starts_with(key.as_bytes()))
            })
            .map(|&key_id| KeyId(key_id))
    }

    /// Whether the keys from `first` on are these, in this order. `text` is the given keys joined. `ends` has
    /// the end of each in it, counted from `from`.
    ///
    /// Keys that arrived together tend to lie together, and are compared together.
    pub(crate) fn is_run(&self, first: KeyId, text: &str, ends: &[u32], from: u32) -> bool {
        let first = first.0 as usize;
        let Some(spans) = self.spans.get(first..first + ends.len()) else {
            return false;
        };
        let Some(start) = spans.first().map(|span| span.start) else {
            return false;
        };
        let mut same = true;
        let mut at = from;
        for (span, end) in spans.iter().zip(ends) {
            // A freed number has no length, and no key is empty.
            same &= span.start.wrapping_sub(start) == at - from;
            same &= u32::from(span.len) == end - at;
            at = *end;
        }
        let ours = self.text.as_bytes().get(start as usize..);
        same && ours.is_some_and(|ours| ours.starts_with(text.as_bytes()))
    }

    /// Checks the length of a key.
    ///
    /// # Errors
    /// [`WriteError::KeyLength`].
    pub(crate) fn check(&self, key: &str) -> Result<(), Error> {
        match key.len() {
            1..=KEY_BYTES_MAX => Ok(()),
            bytes => Err(WriteError::KeyLength {
                bytes: detail(bytes),
            }
            .into()),
        }
    }

    /// Returns the number of `key`. A key without a number receives one.
    pub(crate) fn find_or_insert(&mut self, key: &str) -> Result<KeyId, Error> {
        if let Some(key_id) = self.find(key) {
            return Ok(key_id);
        }
        self.room_for(key.len())?;
        self.insert(key)
    }

    /// The same for a key that came with others, whose total size was checked before.
    pub(crate) fn find_or_take(&mut self, key: &str) -> Result<KeyId, Error> {
        match self.find(key) {
            Some(key_id) => Ok(key_id),
            None => self.insert(key),
        }
    }

    /// Gives a number to a key that has none.
    fn insert(&mut self, key: &str) -> Result<KeyId, Error> {
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
        let key_id = match self.free.pop() {
            Some(key_id) => {
                self.spans[key_id as usize] = span;
                key_id
            }
            None => {
                self.spans.push(span);
                (self.spans.len() - 1) as u32
            }
        };
        self.index.added(key, KeyId(key_id));
        let Keys {
            table,
            spans,
            text,
            seed,
            ..
        } = self;
        table.insert_unique(Keys::<I>::hash(seed, key), key_id, |&other| {
            Keys::<I>::hash(seed, Keys::<I>::text_of(text, spans, other))
        });
        Ok(KeyId(key_id))
    }

    /// Checks that there is room for so many bytes of new keys.
    ///
    /// # Errors
    /// [`WriteError::CountersFull`].
    pub(crate) fn room_for(&self, key_bytes: usize) -> Result<(), Error> {
        self.room_up_to(key_bytes, self.bytes_max())
    }

    /// The same for a record of the own store, which may bring more.
    pub(crate) fn room_for_stored(&self, keys: &SortedKeys) -> Result<(), Error> {
        self.room_up_to(self.unknown_bytes(keys, u32::MAX), u32::MAX)
    }

    /// Checks that 32-bit offsets and numbers can address the new bytes, and that the lower bound `max`
    /// allows them.
    fn room_up_to(&self, new: usize, max: u32) -> Result<(), Error> {
        let bytes = self.bytes() + new as u64;
        if new > 0 && (bytes > u64::from(max) || self.spans.len() as u64 >= u64::from(u32::MAX)) {
            return Err(WriteError::CountersFull {
                counters: detail(self.table.len()),
            }
            .into());
        }
        Ok(())
    }

    /// Bytes of all keys in the table.
    pub(crate) fn bytes(&self) -> u64 {
        (self.text.len() - self.garbage_bytes) as u64
    }

    /// Returns how many bytes a message's keys add to those of the table. The result may be too great, but is
    /// exact where it decides.
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

    /// Returns the key of a number, `None` if the number is free.
    #[inline]
    pub(crate) fn get(&self, key_id: KeyId) -> Option<&str> {
        let live = self.spans.get(key_id.0 as usize)?.len > 0;
        live.then(|| Keys::<I>::text_of(&self.text, &self.spans, key_id.0))
    }

    pub(crate) fn pin(&mut self, key_id: KeyId) {
        let pins = &mut self.spans[key_id.0 as usize].pins;
        *pins = pins.saturating_add(1);
    }

    pub(crate) fn is_pinned(&self, key_id: KeyId) -> bool {
        self.spans
            .get(key_id.0 as usize)
            .is_some_and(|span| span.pins > 0)
    }

    /// Removes one pin. Returns whether it was the last one.
    pub(crate) fn unpin(&mut self, key_id: KeyId) -> Result<bool, Error> {
        match self.spans.get_mut(key_id.0 as usize) {
            Some(span) if span.pins > 0 => {
                if span.pins < u16::MAX {
                    span.pins -= 1;
                }
                Ok(span.pins == 0)
            }
            _ => Err(WriteError::UnknownKeyId {
                key_id: detail(key_id.0),
            }
            .into()),
        }
    }

    /// Removes a key. Another key may receive its number.
    pub(crate) fn remove(&mut self, key_id: KeyId) {
        let Some(key) = self.get(key_id) else { return };
        let hash = Keys::<I>::hash(&self.seed, key);
        let bytes = key.len();
        let key = Keys::<I>::text_of(&self.text, &self.spans, key_id.0);
        self.index.removed(key, key_id);
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == key_id.0) {
            entry.remove();
        }
        self.spans[key_id.0 as usize].len = 0;
        self.free.push(key_id.0);
        self.garbage_bytes += bytes;
        if self.garbage_bytes > 4096 && self.garbage_bytes > self.text.len() / 2 {
            self.compact();
        }
    }

    /// Heap bytes as allocated; the hash table's are 4 a bucket and 1 for its control byte.
    pub(crate) fn heap_bytes(&self) -> usize {
        let buckets = (self.table.capacity() * 8).div_ceil(7);
        buckets * 5 + self.spans.capacity() * size_of::<Span>() + self.text.capacity()
    }

    /// Frees the memory that growth has reserved.
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
        table.shrink_to_fit(|&other| Keys::<I>::hash(seed, Keys::<I>::text_of(text, spans, other)));
    }

    /// Reserves memory for so many more keys, where that avoids moving them.
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
            Keys::<I>::hash(seed, Keys::<I>::text_of(text, spans, other))
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
