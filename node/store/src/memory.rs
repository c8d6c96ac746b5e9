//! A store in memory, which a test can make fail.

use super::{Each, Kind, Record, RecordInfo, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tallymesh_core::Space;

/// A store in memory. Clones share the records. So a test can open it a second time, as a restarted
/// node opens its folder.
#[derive(Clone, Default)]
pub struct Memory {
    contents: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    identity: Option<[u8; 32]>,
    spaces: BTreeMap<Space, Records>,
    commits: u64,
    commits_left: Option<u64>,
}

/// The needed records of one space.
#[derive(Default)]
struct Records {
    snapshot: Vec<Record>,
    changes: Vec<Record>,
    /// A snapshot whose end has not arrived yet.
    begun: Option<Vec<Record>>,
}

impl Records {
    fn keep(&mut self, record: Record) -> Result<(), StoreError> {
        let not_begun = StoreError::NotBegun {
            space: record.space.clone(),
        };
        match record.kind {
            Kind::Change | Kind::Adds => self.changes.push(record),
            Kind::Whole => {
                self.changes.clear();
                (self.snapshot, self.begun) = (vec![record], None);
            }
            Kind::First => self.begun = Some(vec![record]),
            Kind::Part => self.begun.as_mut().ok_or(not_begun)?.push(record),
            Kind::Last => {
                self.changes.clear();
                self.snapshot = self.begun.take().ok_or(not_begun)?;
                self.snapshot.push(record);
            }
        }
        Ok(())
    }

    /// The records that [`Store::load`] passes on.
    fn needed(&self) -> impl Iterator<Item = &Record> {
        let needed = self.snapshot.iter().chain(&self.changes);
        needed.filter(|record| !record.bytes.is_empty())
    }
}

impl Memory {
    /// Lets `commits` more commits succeed. Each later one fails and stores nothing.
    pub fn fail_after(&self, commits: u64) {
        self.contents().commits_left = Some(commits);
    }

    /// How many commits have succeeded.
    pub fn commits(&self) -> u64 {
        self.contents().commits
    }

    /// How many stored records a start would read.
    pub fn record_count(&self) -> usize {
        let contents = self.contents();
        contents.spaces.values().map(|it| it.needed().count()).sum()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        let contents = self.contents.lock();
        contents.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Store for Memory {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        Ok(*self.contents().identity.get_or_insert(fresh))
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        let contents = self.contents();
        let Some(records) = contents.spaces.get(space) else {
            return Ok(());
        };
        let bytes = |record: &Record| record.bytes.len() as u64;
        let total = records.needed().map(bytes).sum();
        let mut done = 0;
        records.needed().try_for_each(|record| {
            done += bytes(record);
            let info = RecordInfo {
                kind: record.kind,
                done,
                total,
            };
            each(info, &record.bytes)
        })
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let mut contents = self.contents();
        if contents.commits_left == Some(0) {
            return Err(StoreError::Io {
                doing: "commit".into(),
                problem: "this store was told to fail".into(),
            });
        }
        contents.commits_left = contents.commits_left.map(|left| left - 1);
        contents.commits += 1;
        records.iter().try_for_each(|record| {
            let space = contents.spaces.entry(record.space.clone()).or_default();
            space.keep(record.clone())
        })
    }

    fn wants_snapshot(&self) -> Option<Space> {
        None
    }

    fn has_idle_work(&self) -> bool {
        false
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }
}
