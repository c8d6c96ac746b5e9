//! A store that stops in the middle of a commit. The tests of the Redis face use this file, too.

use super::{PATIENCE, Replay};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use tallymesh_core::{Space, WriterId};
use tallymesh_node_store::{Each, Memory, Record, Store, StoreError};

/// A store that makes each commit only when the test allows it, and the test's control over it.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) memory: Memory,
    shared: Arc<(Mutex<Turns>, Condvar)>,
}

pub(super) struct Turns {
    /// The records of each commit that was begun.
    pub(super) entered: Vec<Vec<Record>>,
    /// How many commits may be made; all others wait.
    pub(super) allowed: usize,
    /// Whether the waiting commits fail instead.
    fails: bool,
}

impl Gate {
    pub(super) fn new() -> Gate {
        let turns = Turns {
            entered: Vec::new(),
            allowed: usize::MAX,
            fails: false,
        };
        Gate {
            memory: Memory::default(),
            shared: Arc::new((Mutex::new(turns), Condvar::new())),
        }
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.shared.0.lock().expect("nothing panics with it")
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Turns)) {
        change(&mut self.turns());
        self.shared.1.notify_all();
    }

    pub(super) fn wait(&self, until: impl Fn(&Turns) -> bool) -> MutexGuard<'_, Turns> {
        let waiting = |turns: &mut Turns| !until(turns);
        let waited = self
            .shared
            .1
            .wait_timeout_while(self.turns(), PATIENCE, waiting);
        let (turns, waited) = waited.expect("nothing panics with it");
        assert!(!waited.timed_out(), "no commit");
        turns
    }

    /// Stops all commits from now on.
    pub(super) fn hold(&self) {
        self.change(|turns| turns.allowed = turns.entered.len());
    }

    /// Allows one more commit.
    pub(super) fn let_one(&self) {
        self.change(|turns| turns.allowed += 1);
    }

    pub(super) fn open(&self) {
        self.change(|turns| turns.allowed = usize::MAX);
    }

    pub(super) fn fail(&self) {
        self.change(|turns| turns.fails = true);
    }

    /// Waits until a commit is stopped. Returns the counters `a` and `b` as they are after it.
    pub(super) fn held(&self) -> [Option<i128>; 2] {
        let turns = self.wait(|turns| turns.entered.len() > turns.allowed);
        let mut replay = Replay::new(Space::default(), WriterId::from_bytes([1; 16]));
        for record in turns.entered.iter().flatten() {
            let taken = replay.take(record.kind, &record.bytes);
            taken.expect("a record that can be used");
        }
        let replica = replay.end();
        ["a", "b"].map(|key| replica.value(key))
    }
}

impl Store for Gate {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.memory.identity(fresh)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.memory.load(space, each)
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.change(|turns| turns.entered.push(records.to_vec()));
        let turns = self.wait(|turns| turns.entered.len() <= turns.allowed || turns.fails);
        if turns.fails {
            self.memory.fail_after(0);
        }
        drop(turns);
        self.memory.commit(records)
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
