//! Reads of a space: counters one by one and in pages, changed counters, shards, and writers.

use super::OpenSpace;
use std::collections::{BTreeSet, BinaryHeap};
use tallymesh_core::bounds::AUDIT_SHARDS_MIN;
use tallymesh_core::{KeyId, RESERVED, Shard};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    AuditPage, Audited, Change, ChangedPart, Changes, Counter, Page, Position, Query, Reading,
    Wanted, WriterRow, fate,
};

/// Most counters in one part of the changes since a position, and most that are looked at for it.
/// Other requests wait meanwhile.
const CHANGED_MAX: usize = 1_000;
const LOOKED_AT_MAX: usize = 1 << 16;

impl OpenSpace {
    pub(super) fn reading(&self, counter: KeyId) -> Option<Reading> {
        Some(Reading {
            value: self.replica.value_at(counter)?,
            expires_at: self.replica.expiry_at(counter),
        })
    }

    pub(super) fn read_at(&self, key: &str) -> Option<Reading> {
        self.reading(self.counter(key)?)
    }

    pub(in crate::driver) fn read(&self, key: String) -> Option<Counter> {
        #[cfg(test)]
        crate::contain::tests::panic_if_told(key.as_bytes(), crate::contain::tests::BEFORE);
        let now = self.read_at(&key)?;
        Some(Counter { key, now })
    }

    pub(in crate::driver) fn shards(&self, key: &str) -> Option<Vec<Shard>> {
        let counter = self.counter(key)?;
        self.replica.value_at(counter)?;
        Some(self.shards_of(counter))
    }

    fn shards_of(&self, counter: KeyId) -> Vec<Shard> {
        let mut shards: Vec<Shard> = self.replica.shards(counter).collect();
        shards.sort_by_key(|shard| shard.writer);
        shards
    }

    /// The counter of a key. Keys of the counters that implement budgets are excluded.
    pub(super) fn counter(&self, key: &str) -> Option<KeyId> {
        self.replica
            .key_id(key)
            .filter(|_| !key.starts_with(RESERVED))
    }

    /// Goes through all counters, and returns the first `limit` that the query selects.
    pub(in crate::driver) fn list(&self, query: &Query) -> Page {
        let (first, next) = first(self.replica.counters(), query);
        let counters = first.into_iter().filter_map(|(key, counter)| {
            let now = self.reading(counter)?;
            let key = key.to_owned();
            Some(Counter { key, now })
        });
        Page {
            counters: counters.collect(),
            next,
        }
    }

    /// The position of a reader that has received every event up to now.
    pub(super) fn position(&mut self) -> Position {
        Position {
            start: self.start,
            moment: self.replica.moment(),
        }
    }

    /// A part of the selected counters that changed since a position. `None` if the replica can't
    /// list the changes since then.
    pub(in crate::driver) fn changed_since(
        &self,
        since: Position,
        from: u32,
        wanted: &Wanted,
    ) -> Option<ChangedPart> {
        let changed = self.replica.changed_since(since.moment, from);
        let changed = changed.filter(|_| since.start == self.start)?;
        let (mut found, mut next) = (Vec::new(), None);
        for (looked_at, counter) in changed.enumerate() {
            if found.len() == CHANGED_MAX || looked_at == LOOKED_AT_MAX {
                next = Some(counter.as_u32());
                break;
            }
            let name = self.name_of(counter);
            found.extend(name.filter(|name| wanted.has(name)).map(|_| counter));
        }
        let changes = self.changes(&found);
        Some(ChangedPart { changes, next })
    }

    /// The name by which users see a counter, or the budget or sequence that it is a part of.
    pub(super) fn name_of(&self, counter: KeyId) -> Option<&str> {
        let key = self.replica.key(counter)?;
        match key.starts_with(RESERVED) {
            true => {
                let sequence = self.replica.quota().sequence_at(counter);
                self.replica.quota().budget_at(counter).or(sequence)
            }
            false => Some(key),
        }
    }

    /// The present values of these counters, with each budget and each sequence once.
    pub(super) fn changes(&self, changed: &[KeyId]) -> Changes {
        let mut changes = Changes::default();
        let mut budgets = BTreeSet::new();
        let mut sequences = BTreeSet::new();
        for counter in changed {
            let Some(key) = self.replica.key(*counter) else {
                continue;
            };
            if key.starts_with(RESERVED) {
                budgets.extend(self.replica.quota().budget_at(*counter));
                sequences.extend(self.replica.quota().sequence_at(*counter));
                continue;
            }
            changes.counters.push(Change {
                key: key.to_owned(),
                now: self.reading(*counter),
            });
        }
        let budgets = budgets.into_iter().filter_map(|name| self.budget_row(name));
        changes.budgets = budgets.collect();
        let sequences = sequences.into_iter().filter_map(|name| self.sequence(name));
        changes.sequences = sequences.collect();
        changes
    }

    /// The shards of the counters of a page, all at one moment. If the prefix begins with
    /// [`RESERVED`], the page has the counters that implement budgets. A page with many shards ends
    /// early.
    pub(in crate::driver) fn audit(&self, query: &Query) -> AuditPage {
        let (page, next) = match query.prefix.starts_with(RESERVED) {
            true => first(self.replica.quota().budget_parts(), query),
            false => first(self.replica.counters(), query),
        };
        let mut audited = AuditPage {
            digest: self.replica.digest(),
            counters: Vec::new(),
            next,
        };
        let listed = page.len();
        let mut shown = 0;
        for (key, counter) in page {
            let shards = self.shards_of(counter);
            shown += shards.len();
            let key = key.to_owned();
            audited.counters.push(Audited { key, shards });
            if shown >= AUDIT_SHARDS_MIN && audited.counters.len() < listed {
                audited.next = audited.counters.last().map(|it| it.key.clone());
                break;
            }
        }
        audited
    }

    /// The writers that this node has a record of, each with the clock up to which it has
    /// everything. In a space with members each row also has the writer's state.
    pub(in crate::driver) fn writers(&self) -> Vec<WriterRow> {
        let own = self.replica.writer();
        let closed = self.replica.members().configuration().is_some();
        let listed = self.replica.members().writer_table();
        let listed = listed.filter(|it| closed || it.clock > 0);
        let rows = listed.map(|it| WriterRow {
            writer: it.writer.to_string(),
            clock: it.clock,
            own: it.writer == own,
            fate: closed.then(|| fate(&it)),
            owner: it.owner.map(OwnerKey),
            home: it.sponsor.map(|sponsor| sponsor.to_string()),
            heir: it.successor.map(|heir| heir.to_string()),
        });
        rows.collect()
    }
}

/// The first of these counters by key that the query selects, and where the next page begins. It
/// uses memory for `limit` keys.
fn first<'a>(
    counters: impl Iterator<Item = (KeyId, &'a str)>,
    query: &Query,
) -> (Vec<(&'a str, KeyId)>, Option<String>) {
    let mut first: BinaryHeap<(&str, u32)> = BinaryHeap::with_capacity(query.limit + 1);
    let mut more = false;
    for (counter, key) in counters.filter(|it| query.wants(it.1)) {
        first.push((key, counter.as_u32()));
        if first.len() > query.limit {
            first.pop();
            more = true;
        }
    }
    let first = first.into_sorted_vec().into_iter();
    let first: Vec<_> = first.map(|it| (it.0, KeyId::from_u32(it.1))).collect();
    let last = first.last().filter(|_| more);
    let next = last.map(|(key, _)| (*key).to_owned());
    (first, next)
}
