//! A store in memory, which a test can make fail.

use super::{Record, Store, StoreError};
use std::sync::{Arc, Mutex, MutexGuard};
use tallymesh_core::Space;

/// A store in memory. Clones share what is kept, so a test can open it a second time as a node
/// that starts again would open its folder.
#[derive(Clone, Default)]
pub struct Memory {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    identity: Option<[u8; 32]>,
    records: Vec<Record>,
    commits: u64,
    commits_left: Option<u64>,
}

impl Memory {
    /// Lets `commits` more commits succeed; each one after them fails and keeps nothing.
    pub fn fail_after(&self, commits: u64) {
        self.kept().commits_left = Some(commits);
    }

    /// How many commits have succeeded.
    pub fn commits(&self) -> u64 {
        self.kept().commits
    }

    /// How many records are kept.
    pub fn record_count(&self) -> usize {
        self.kept().records.len()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Store for Memory {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        Ok(*self.kept().identity.get_or_insert(fresh))
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn load(
        &mut self,
        space: &Space,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let kept = self.kept();
        let mut own = kept.records.iter().filter(|record| record.space == *space);
        own.try_for_each(|record| each(&record.bytes))
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let mut kept = self.kept();
        if kept.commits_left == Some(0) {
            return Err(StoreError::Io {
                doing: "commit".into(),
                problem: "this store was told to fail".into(),
            });
        }
        kept.commits_left = kept.commits_left.map(|left| left - 1);
        kept.commits += 1;
        for record in records {
            if record.replaces {
                kept.records.retain(|old| old.space != record.space);
            }
            kept.records.push(record.clone());
        }
        Ok(())
    }
}
