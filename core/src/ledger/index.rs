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

/// Removes an id from the ids of a name.
fn forget(key_ids: &mut BTreeMap<String, BTreeSet<u32>>, name: &str, key_id: KeyId) {
    if let Some(of_name) = key_ids.get_mut(name) {
        of_name.remove(&key_id.0);
        if of_name.is_empty() {
            key_ids.remove(name);
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
    fn added(&mut self, key: &str, key_id: KeyId) {
        if !is_reserved(key) {
            return;
        }
        let key_id = key_id.0;
        self.reserved.entry(holder(key)).or_default().insert(key_id);
        if let Some(period) = PeriodKey::parse(key) {
            self.periods.insert((period.end(), key_id));
        }
        if let Some(name) = leased(key) {
            self.leases.entry(name.into()).or_default().insert(key_id);
        }
        if let Some(key) = SequenceKey::parse(key) {
            let of = self.sequences.entry(key.name.into()).or_default();
            of.insert(key_id);
            if key.is_watch() {
                *self.watched.entry(key.name.into()).or_default() += 1;
            }
        }
    }

    fn removed(&mut self, key: &str, key_id: KeyId) {
        if !is_reserved(key) {
            return;
        }
        let holder = holder(key);
        if let Some(end) = PeriodKey::parse(key).map(|it| it.end()) {
            self.periods.remove(&(end, key_id.0));
        }
        if let Some(key_ids) = self.reserved.get_mut(&holder) {
            key_ids.remove(&key_id.0);
            if key_ids.is_empty() {
                self.reserved.remove(&holder);
            }
        }
        if let Some(name) = leased(key) {
            forget(&mut self.leases, name, key_id);
        }
        if let Some(key) = SequenceKey::parse(key) {
            self.forget_sequence(key.name, key_id, key.is_watch());
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
        let key_ids = self.reserved.values().flatten();
        key_ids.filter_map(|key_id| Some((KeyId(*key_id), keys.get(KeyId(*key_id))?)))
    }

    /// The counters of periods, with the ends of their periods, ascending by end.
    pub(crate) fn periods(&self) -> impl Iterator<Item = (u64, KeyId)> {
        self.periods
            .iter()
            .map(|(end, key_id)| (*end, KeyId(*key_id)))
    }

    /// The writers that hold something here.
    pub(crate) fn holders(&self) -> impl Iterator<Item = WriterId> {
        self.reserved.keys().filter_map(|holder| *holder)
    }

    /// The keys of everything that this writer holds.
    pub(crate) fn held_by(&self, writer: WriterId) -> impl Iterator<Item = KeyId> {
        let key_ids = self.reserved.get(&Some(writer)).into_iter().flatten();
        key_ids.map(|key_id| KeyId(*key_id))
    }

    fn forget_sequence(&mut self, name: &str, key_id: KeyId, is_watch: bool) {
        forget(&mut self.sequences, name, key_id);
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
        let key_ids = self.leases.get(name).into_iter().flatten();
        key_ids.filter_map(|key_id| Self::account(keys, *key_id))
    }

    /// All leases.
    pub(crate) fn leases<'a>(
        &'a self,
        keys: &'a Keys,
    ) -> impl Iterator<Item = (KeyId, Account<'a>)> {
        let key_ids = self.leases.values().flatten();
        key_ids.filter_map(|key_id| Self::account(keys, *key_id))
    }

    fn account(keys: &Keys, key_id: u32) -> Option<(KeyId, Account<'_>)> {
        let key_id = KeyId(key_id);
        Some((key_id, Account::parse(keys.get(key_id)?)?))
    }

    /// The keys of a sequence.
    pub(crate) fn of_sequence<'a>(
        &'a self,
        keys: &'a Keys,
        name: &str,
    ) -> impl Iterator<Item = (KeyId, SequenceKey<'a>)> {
        let key_ids = self.sequences.get(name).into_iter().flatten();
        let key_ids = key_ids.map(|key_id| KeyId(*key_id));
        key_ids.filter_map(|key_id| Some((key_id, keys.get(key_id).and_then(SequenceKey::parse)?)))
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
