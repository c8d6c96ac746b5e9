//! Makes commits: at once if the disk is quick, and otherwise on a thread while the driver
//! continues.
//!
//! To pass a commit to a thread and wait for its end costs two switches between threads. A quick
//! disk needs less time than that. Meanwhile the driver has little to do, because most clients wait
//! for that very commit. A slow disk would delay all other work.

use super::{Health, Kind, Record, Store, StoreError, frame};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tallymesh_core::Space;

/// A commit is made at once if the one before took less. With a higher value, commits delay the
/// driver for longer. With a lower one, the thread makes them even on a quick disk.
const QUICK: Duration = match cfg!(test) {
    false => Duration::from_millis(1),
    // Tests stop commits, and continue meanwhile.
    true => Duration::ZERO,
};

/// How often an idle thread checks that the folder still exists.
const LOOK: Duration = Duration::from_secs(1);

/// How often the worker checks whether a lost folder is there again.
const STAND_PAUSE: Duration = Duration::from_millis(50);

/// A commit that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub number: u64,
    /// The bytes that it took in the store.
    pub bytes: u64,
    /// How long the store took.
    pub took: Duration,
    /// Whether it was made by [`Worker::submit`] itself.
    pub at_once: bool,
}

/// The owner of a store, with a thread for slow work.
///
/// When it is dropped, it finishes all submitted commits, as [`Worker::stop`] does, and reports no
/// result.
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The data shared by the driver and the thread. A thread that has locked the store may lock the
/// state, and not the other way round.
struct Shared {
    /// A commit is made at once if the one before took less.
    quick: Duration,
    store: Mutex<Box<dyn Store>>,
    state: Mutex<State>,
    /// Signals that there is work for the thread.
    work: Condvar,
    health: Health,
    done: Box<dyn Fn(Option<Committed>) + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// The records that the thread has to commit.
    given: Option<Vec<Record>>,
    /// How many commits were submitted.
    submitted: u64,
    /// The number up to which all commits are durable.
    durable: u64,
    /// How long the last commit took.
    took: Duration,
    /// Whether the store has work that can wait.
    idle_work: bool,
    wants: Option<Space>,
    failed: Option<StoreError>,
    stopping: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it has the lock.
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Makes the commit with this number, records its result, and reports it.
    fn commit(
        &self,
        mut store: MutexGuard<'_, Box<dyn Store>>,
        records: &[Record],
        number: u64,
        at_once: bool,
    ) {
        let begun = Instant::now();
        let kept = self.stand(&**store).and_then(|()| {
            let asked = self.health.ask();
            let kept = store.commit(records);
            drop(asked);
            // Records that went to a removed folder are not stored.
            kept.and_then(|()| self.stand(&**store))
        });
        let took = begun.elapsed();
        if let Err(error) = kept {
            drop(store);
            return self.fail(error);
        }
        let mut state = self.state();
        (state.durable, state.took) = (number, took);
        state.wants = store.wants_snapshot();
        state.idle_work = store.has_idle_work();
        let wakes = at_once && state.idle_work;
        drop((state, store));
        if wakes {
            self.work.notify_one();
        }
        (self.done)(Some(Committed {
            number,
            bytes: frame::bytes_for(records),
            took,
            at_once,
        }));
    }

    /// Waits until the store's folder is the one that was opened, because someone may restore it.
    fn stand(&self, store: &dyn Store) -> Result<(), StoreError> {
        loop {
            match self.health.stands(store) {
                Ok(()) => return Ok(()),
                Err(problem) if self.health.is_stopping() => {
                    return Err(StoreError::Lost { problem });
                }
                Err(_) => thread::sleep(STAND_PAUSE),
            }
        }
    }

    fn fail(&self, error: StoreError) {
        self.state().failed = Some(error);
        (self.done)(None);
    }
}

impl Worker {
    /// Starts the thread. It reports to `health` whether the store answers. It calls `done` after
    /// each commit, and once with `None` when the store has failed; `done` must not wait for the
    /// worker.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(
        store: Box<dyn Store>,
        health: Health,
        done: impl Fn(Option<Committed>) + Send + Sync + 'static,
    ) -> Result<Worker, StoreError> {
        let watched = health.watch();
        watched.map_err(|problem| StoreError::io("start the store's watch", problem))?;
        Worker::start_with(QUICK, store, health, Box::new(done))
    }

    fn start_with(
        quick: Duration,
        store: Box<dyn Store>,
        health: Health,
        done: Box<dyn Fn(Option<Committed>) + Send + Sync>,
    ) -> Result<Worker, StoreError> {
        let state = State {
            wants: store.wants_snapshot(),
            // The time of the first commit is unknown.
            took: Duration::MAX,
            idle_work: true,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            quick,
            store: Mutex::new(store),
            state: Mutex::new(state),
            work: Condvar::new(),
            health,
            done,
        });
        let theirs = shared.clone();
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || work(&theirs))
            .map_err(|problem| StoreError::io("start the store's thread", problem))?;
        Ok(Worker {
            shared,
            thread: Some(thread),
        })
    }

    /// Submits records, to be stored all or none. Returns the number that [`Worker::durable`]
    /// reaches when they are durable, which may already be so.
    ///
    /// The previous commit must be durable before that, because the worker makes one commit at a
    /// time.
    pub fn submit(&self, records: Vec<Record>) -> u64 {
        let shared = &*self.shared;
        let mut state = shared.state();
        state.submitted += 1;
        let number = state.submitted;
        if state.failed.is_some() {
            return number; // No thread makes this commit any more.
        }
        let begins = |record: &Record| !matches!(record.kind, Kind::Change | Kind::Adds);
        let mut records_of = records.iter().filter(|record| begins(record));
        let _begun = state
            .wants
            .take_if(|space| records_of.any(|record| record.space == *space));
        let is_quick = state.took < shared.quick;
        drop(state);
        // The thread may have the lock, for work that could wait.
        let store = is_quick.then(|| shared.store.try_lock().ok()).flatten();
        // If the folder is gone, the thread waits for it, and not the driver.
        let store = store.filter(|store| shared.health.stands(&***store).is_ok());
        match store {
            Some(store) => shared.commit(store, &records, number, true),
            None => {
                shared.state().given = Some(records);
                shared.work.notify_one();
            }
        }
        number
    }

    /// The number up to which all submitted commits are durable; 0 at first.
    ///
    /// # Errors
    /// When the store has failed. Commits after the last number that was reached may be stored or
    /// not.
    pub fn durable(&self) -> Result<u64, StoreError> {
        let state = self.shared.state();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state.durable),
        }
    }

    /// Whether the store's folder is gone, so that nothing is made durable.
    pub fn is_lost(&self) -> bool {
        self.shared.health.is_lost()
    }

    /// The space of which a snapshot should be submitted, if any. It is not named again once a
    /// snapshot of it has been begun.
    pub fn wants_snapshot(&self) -> Option<Space> {
        self.shared.state().wants.clone()
    }

    /// Finishes all submitted commits and returns the store.
    ///
    /// # Errors
    /// When the store has failed.
    pub fn stop(mut self) -> Result<Box<dyn Store>, StoreError> {
        self.end();
        let shared = self.shared.clone();
        drop(self);
        let failed = shared.state().failed.clone();
        let shared = Arc::into_inner(shared).ok_or_else(ended_early)?;
        match failed {
            Some(error) => Err(error),
            None => shared.store.into_inner().map_err(|_| ended_early()),
        }
    }

    fn end(&mut self) {
        self.shared.state().stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it panicked, the state has the error.
            let _ = thread.join();
        }
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

/// Reports a panic of the thread, so that waiting callers learn of it.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(ended_early());
        }
    }
}

/// The next work of the thread.
enum Job {
    /// Make these records durable, as the commit with this number.
    Commit(Vec<Record>, u64),
    /// Do a step of the work that can wait.
    Idle,
    /// Check that the folder still exists, while there is no commit.
    Look,
}

fn work(shared: &Shared) {
    let _alarm = Alarm(shared);
    let mut committed = false;
    while let Some(job) = next(shared, committed) {
        let Ok(mut store) = shared.store.lock() else {
            return; // The driver panicked.
        };
        committed = matches!(job, Job::Commit(..));
        match job {
            Job::Commit(records, number) => shared.commit(store, &records, number, false),
            // The result is recorded, and the next commit waits for it.
            Job::Look => drop(shared.health.stands(&**store)),
            Job::Idle => {
                let prepared = shared.stand(&**store).and_then(|()| {
                    let _asked = shared.health.ask();
                    store.prepare()
                });
                match prepared {
                    Ok(more) => shared.state().idle_work = more,
                    Err(error) => {
                        drop(store);
                        shared.fail(error);
                    }
                }
            }
        }
    }
}

/// Waits for work. Returns `None` when the worker stops, or the store has failed.
fn next(shared: &Shared, committed: bool) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if state.failed.is_some() {
            return None;
        }
        // One idle step follows each commit, because a store that is never idle needs room, too.
        if committed && state.idle_work && !state.stopping {
            return Some(Job::Idle);
        }
        if let Some(records) = state.given.take() {
            return Some(Job::Commit(records, state.submitted));
        }
        if state.stopping {
            return None;
        }
        if state.idle_work {
            return Some(Job::Idle);
        }
        let woken = shared.work.wait_timeout(state, LOOK);
        let (woken, time) = woken.unwrap_or_else(|broken| broken.into_inner());
        if time.timed_out() && woken.given.is_none() && !woken.stopping {
            return Some(Job::Look);
        }
        state = woken;
    }
}

#[cfg(test)]
mod tests;
