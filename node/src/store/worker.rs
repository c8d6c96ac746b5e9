//! The thread that makes work durable while the driver goes on.

use super::{Durability, Kind, Record, Store, StoreError, frame};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tallymesh_core::Space;

/// Most bytes of waiting work that share one commit, but for a single piece of work that is larger.
/// More would make the first of them wait too long. With an interval, it is not waited for once so
/// much waits.
const SHARED_BYTES_MAX: usize = 16 << 20;

/// Most bytes that wait. Whoever submits more waits itself: it is faster than the disk.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A commit that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number up to which all that was submitted is durable.
    pub number: u64,
    /// The bytes that it took in the store.
    pub bytes: usize,
    /// How long the store took.
    pub took: Duration,
}

/// The owner of a store. Whatever waits is made durable with one commit.
///
/// Dropped, it finishes what was submitted, as [`Worker::stop`] does, and tells nobody how that
/// went.
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Box<dyn Store>>>,
}

/// What the driver and the thread have in common.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was submitted, or it is time to stop.
    work: Condvar,
    /// Room was made for more, or there will be none.
    room: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<Record>>,
    waiting_bytes: usize,
    /// How many times something was submitted.
    submitted: u64,
    /// Up to which of them all is durable.
    durable: u64,
    wants: Option<Space>,
    failed: Option<StoreError>,
    stopping: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Worker {
    /// Starts the thread. `done` is called on it after each commit, and once with nothing when the
    /// store has failed; it must not wait for the worker.
    ///
    /// With [`Durability::Memory`] all that is submitted is dropped and called durable.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        store: Box<dyn Store>,
        durability: Durability,
        done: impl Fn(Option<Committed>) + Send + 'static,
    ) -> Result<Worker, StoreError> {
        let shared = Arc::new(Shared::default());
        shared.state().wants = store.wants_snapshot();
        let run = Run {
            shared: shared.clone(),
            durability,
            done: Box::new(done),
            last_commit: None,
        };
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || run.work(store))
            .map_err(|problem| StoreError::io("start the store's thread", problem))?;
        Ok(Worker {
            shared,
            thread: Some(thread),
        })
    }

    /// Takes records to be kept, all or none of them, after all that was submitted before. The
    /// answer is the number that [`Worker::durable`] reaches when they are durable. It waits only
    /// if more than 64 MiB wait already.
    pub fn submit(&self, records: Vec<Record>) -> u64 {
        let bytes = bytes_of(&records);
        let mut state = self.shared.state();
        while state.waiting_bytes > WAITING_BYTES_MAX && state.failed.is_none() {
            let woken = self.shared.room.wait(state);
            state = woken.unwrap_or_else(|broken| broken.into_inner());
        }
        state.submitted += 1;
        // After a failure nobody takes it any more.
        if state.failed.is_none() {
            let _begun = state.wants.take_if(|space| snapshots(&records, space));
            state.waiting.push_back(records);
            state.waiting_bytes += bytes;
        }
        let number = state.submitted;
        drop(state);
        self.shared.work.notify_one();
        number
    }

    /// The number up to which all that was submitted is durable; 0 at first.
    ///
    /// # Errors
    /// When the store has failed. What was submitted after the last number that was reached may be
    /// kept or not.
    pub fn durable(&self) -> Result<u64, StoreError> {
        let state = self.shared.state();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state.durable),
        }
    }

    /// The space that a snapshot should be submitted of, if any. It is not named again once a
    /// snapshot of it has been begun.
    pub fn wants_snapshot(&self) -> Option<Space> {
        self.shared.state().wants.clone()
    }

    /// Finishes what was submitted and gives the store back.
    ///
    /// # Errors
    /// When the store has failed.
    pub fn stop(mut self) -> Result<Box<dyn Store>, StoreError> {
        let ended = self.end();
        let failed = self.shared.state().failed.clone();
        match (failed, ended) {
            (Some(error), _) => Err(error),
            (None, Some(store)) => Ok(store),
            (None, None) => Err(ended_early()),
        }
    }

    fn end(&mut self) -> Option<Box<dyn Store>> {
        self.shared.state().stopping = true;
        self.shared.work.notify_one();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn ended_early() -> StoreError {
    StoreError::io("keep the store's thread running", "it ended unexpectedly")
}

/// What they take in a commit of their own. Names count too, or many small records would come to
/// more than a commit may have.
fn bytes_of(records: &[Record]) -> usize {
    usize::try_from(frame::bytes_for(records)).unwrap_or(usize::MAX)
}

/// Whether these records have to do with a snapshot of the space.
fn snapshots(records: &[Record], space: &Space) -> bool {
    let mut records = records.iter();
    records.any(|record| record.space == *space && record.kind != Kind::Change)
}

/// What the thread works with.
struct Run {
    shared: Arc<Shared>,
    durability: Durability,
    done: Box<dyn Fn(Option<Committed>) + Send>,
    last_commit: Option<Instant>,
}

/// If the thread panics, whoever waits for it must hear of it.
impl Drop for Run {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail(ended_early());
        }
    }
}

impl Run {
    fn work(mut self, mut store: Box<dyn Store>) -> Box<dyn Store> {
        let mut idle_work = true;
        loop {
            let taken = match self.take(idle_work) {
                Taken::Work(records, number) => Some((records, number)),
                Taken::Idle => None,
                Taken::Stop => return store,
            };
            let outcome = match taken {
                Some((records, number)) => self.commit(store.as_mut(), &records, number),
                None => Ok(()),
            };
            // One step after each commit too: whoever is never idle needs room as well.
            match outcome.and_then(|()| store.prepare()) {
                Ok(more) => idle_work = more,
                Err(error) => {
                    self.fail(error);
                    return store;
                }
            }
        }
    }

    /// Waits for something to do. All that waits is taken together.
    fn take(&self, idle_work: bool) -> Taken {
        let mut state = self.shared.state();
        loop {
            let pause = self.pause(&state);
            if !state.waiting.is_empty() && pause.is_none() {
                break;
            }
            if state.waiting.is_empty() && state.stopping {
                return Taken::Stop;
            }
            if idle_work {
                return Taken::Idle;
            }
            let work = &self.shared.work;
            state = match pause.filter(|_| !state.waiting.is_empty()) {
                Some(pause) => match work.wait_timeout(state, pause) {
                    Ok((state, _)) => state,
                    Err(broken) => broken.into_inner().0,
                },
                None => match work.wait(state) {
                    Ok(state) => state,
                    Err(broken) => broken.into_inner(),
                },
            };
        }
        let mut records = state.waiting.pop_front().unwrap_or_default();
        let mut bytes = bytes_of(&records);
        let mut count = 1;
        while let Some(next) = state.waiting.front() {
            let shared = bytes + bytes_of(next);
            if shared > SHARED_BYTES_MAX {
                break;
            }
            bytes = shared;
            records.extend(state.waiting.pop_front().unwrap_or_default());
            count += 1;
        }
        state.waiting_bytes -= bytes;
        let number = state.durable + count;
        drop(state);
        self.shared.room.notify_all();
        Taken::Work(records, number)
    }

    /// How long the next commit has to wait yet.
    fn pause(&self, state: &State) -> Option<Duration> {
        let Durability::Interval(interval) = self.durability else {
            return None;
        };
        if state.stopping || state.waiting_bytes > SHARED_BYTES_MAX {
            return None;
        }
        let left = interval.checked_sub(self.last_commit?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }

    fn commit(
        &mut self,
        store: &mut dyn Store,
        records: &[Record],
        number: u64,
    ) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.last_commit = Some(begun);
        if self.durability != Durability::Memory {
            store.commit(records)?;
        }
        let took = begun.elapsed();
        let mut state = self.shared.state();
        state.durable = number;
        let wants = store.wants_snapshot();
        let is_coming = |space: &Space| state.waiting.iter().any(|it| snapshots(it, space));
        state.wants = wants.filter(|space| !is_coming(space));
        drop(state);
        (self.done)(Some(Committed {
            number,
            bytes: bytes_of(records),
            took,
        }));
        Ok(())
    }

    fn fail(&self, error: StoreError) {
        let mut state = self.shared.state();
        state.failed = Some(error);
        state.waiting.clear();
        state.waiting_bytes = 0;
        drop(state);
        self.shared.room.notify_all();
        (self.done)(None);
    }
}

/// What the thread does next.
enum Taken {
    /// Make these durable, which is all up to a number.
    Work(Vec<Record>, u64),
    /// What can wait.
    Idle,
    Stop,
}

#[cfg(test)]
mod tests;
