//! Indexes of the keys of budgets, leases, sequences and limits.

use super::account::{Account, Part, is_reserved};
use super::period::PeriodKey;
use super::sequence::SequenceKey;
use crate::state::keys::{KeyId, KeyIndex};
use crate::writer_id::WriterId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

type Keys = crate::state::keys::Keys<QuotaIndex>;

/// The writer that holds the amount under a key.
fn holder(key: &str) -> Option<WriterId> {
    if let Some(account) = Account::parse(key) {
        return account.part.holder();
    }
    match PeriodKey::parse(key) {
        Some(period) => period.holder(),
        None => SequenceKey::parse(key)?.holder(),
    }
}

/// The name of the budget, if the key is a lease's.
fn leased(key: &str) -> Option<&str> {
    let account = Account::parse(key)?;
    matches!(account.part, Part::Leased(..)).then_some(account.name)
}

/// Removes a handle from the handles of a name.
fn forget(handles: &mut BTreeMap<String, BTreeSet<u32>>, name: &str, handle: KeyId) {
    if let Some(of_name) = handles.get_mut(name) {
        of_name.remove(&handle.0);
        if of_name.is_empty() {
            handles.remove(name);
        }
    }
}

/// The keys of everything that is no plain counter.
#[derive(Clone, Default)]
pub(crate) struct QuotaIndex {
    /// All these keys, by the writer that holds the amount there.
    reserved: BTreeMap<Option<WriterId>, BTreeSet<u32>>,
    /// The keys of periods, by the end of the period in milliseconds since 1970.
    periods: BTreeSet<(u64, u32)>,
    /// The keys of leases, by the budget's name.
    leases: BTreeMap<String, BTreeSet<u32>>,
    /// The keys of sequences, by the sequence's name.
    sequences: BTreeMap<String, BTreeSet<u32>>,
    /// The sequences with watched numbers, each with its number of watches.
    watched: BTreeMap<String, u32>,
}

impl KeyIndex for QuotaIndex {
    fn added(&mut self, key: &str, handle: KeyId) {
        if !is_reserved(key) {
            return;
        }
        let handle = handle.0;
        self.reserved.entry(holder(key)).or_default().insert(handle);
        if let Some(period) = PeriodKey::parse(key) {
            self.periods.insert((period.end(), handle));
        }
        if let Some(name) = leased(key) {
            self.leases.entry(name.into()).or_default().insert(handle);
        }
        if let Some(key) = SequenceKey::parse(key) {
            let of = self.sequences.entry(key.name.into()).or_default();
            of.insert(handle);
            if key.is_watch() {
                *self.watched.entry(key.name.into()).or_default() += 1;
            }
        }
    }

    fn removed(&mut self, key: &str, handle: KeyId) {
        if !is_reserved(key) {
            return;
        }
        let holder = holder(key);
        if let Some(end) = PeriodKey::parse(key).map(|it| it.end()) {
            self.periods.remove(&(end, handle.0));
        }
        if let Some(handles) = self.reserved.get_mut(&holder) {
            handles.remove(&handle.0);
            if handles.is_empty() {
                self.reserved.remove(&holder);
            }
        }
        if let Some(name) = leased(key) {
            forget(&mut self.leases, name, handle);
        }
        if let Some(key) = SequenceKey::parse(key) {
            self.forget_sequence(key.name, handle, key.is_watch());
        }
    }
}

impl QuotaIndex {
    /// Whether all keys are plain counters'.
    #[inline]
    pub(crate) fn are_plain(&self) -> bool {
        self.reserved.is_empty()
    }

    /// The keys of everything that is no plain counter.
    pub(crate) fn reserved<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = (KeyId, &'a str)> {
        let handles = self.reserved.values().flatten();
        handles.filter_map(|handle| Some((KeyId(*handle), keys.get(KeyId(*handle))?)))
    }

    /// The counters of periods, with the ends of their periods, ascending by end.
    pub(crate) fn periods(&self) -> impl Iterator<Item = (u64, KeyId)> {
        self.periods
            .iter()
            .map(|(end, handle)| (*end, KeyId(*handle)))
    }

    /// The writers that hold something here.
    pub(crate) fn holders(&self) -> impl Iterator<Item = WriterId> {
        self.reserved.keys().filter_map(|holder| *holder)
    }

    /// The keys of everything that this writer holds.
    pub(crate) fn held_by(&self, writer: WriterId) -> impl Iterator<Item = KeyId> {
        let handles = self.reserved.get(&Some(writer)).into_iter().flatten();
        handles.map(|handle| KeyId(*handle))
    }

    fn forget_sequence(&mut self, name: &str, handle: KeyId, is_watch: bool) {
        forget(&mut self.sequences, name, handle);
        if let Some(watched) = self.watched.get_mut(name).filter(|_| is_watch) {
            *watched -= 1;
            if *watched == 0 {
                self.watched.remove(name);
            }
        }
    }

    /// The leases of a budget.
    pub(crate) fn leases_of<'a>(
        &'a self,
        keys: &'a Keys,
        name: &str,
    ) -> impl Iterator<Item = (KeyId, Account<'a>)> {
        let handles = self.leases.get(name).into_iter().flatten();
        handles.filter_map(|handle| Self::account(keys, *handle))
    }

    /// All leases.
    pub(crate) fn leases<'a>(
        &'a self,
        keys: &'a Keys,
    ) -> impl Iterator<Item = (KeyId, Account<'a>)> {
        let handles = self.leases.values().flatten();
        handles.filter_map(|handle| Self::account(keys, *handle))
    }

    fn account(keys: &Keys, handle: u32) -> Option<(KeyId, Account<'_>)> {
        let handle = KeyId(handle);
        Some((handle, Account::parse(keys.get(handle)?)?))
    }

    /// The keys of a sequence.
    pub(crate) fn of_sequence<'a>(
        &'a self,
        keys: &'a Keys,
        name: &str,
    ) -> impl Iterator<Item = (KeyId, SequenceKey<'a>)> {
        let handles = self.sequences.get(name).into_iter().flatten();
        let handles = handles.map(|handle| KeyId(*handle));
        handles.filter_map(|handle| Some((handle, keys.get(handle).and_then(SequenceKey::parse)?)))
    }

    /// The sequences with keys here.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = &str> {
        self.sequences.keys().map(String::as_str)
    }

    /// The sequences that may have watched numbers.
    pub(crate) fn watched(&self) -> impl Iterator<Item = &str> {
        self.watched.keys().map(String::as_str)
    }
}
