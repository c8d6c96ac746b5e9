//! Commits: made at once where the disk is quick, and else by a thread while the driver goes on.
//!
//! To hand a commit to a thread and hear of its end costs two switches between threads. A quick disk
//! has kept it in less time, and meanwhile there is little for the driver to do: most clients wait
//! for that very commit. A slow disk would hold up everything else.

use super::{Health, Kind, Record, Store, StoreError, frame};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tallymesh_core::Space;

/// A commit is made at once if the one before took less. More would hold up the driver for longer,
/// and less leave it to the thread on a disk that is quick.
const QUICK: Duration = match cfg!(test) {
    false => Duration::from_millis(1),
    // Tests hold commits back, and go on meanwhile.
    true => Duration::ZERO,
};

/// How often an idle thread looks whether the folder is still there.
const LOOK: Duration = Duration::from_secs(1);

/// How often is looked whether a folder has come back.
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

/// The owner of a store, and a thread that does for it what takes long.
///
/// Dropped, it finishes what was submitted, as [`Worker::stop`] does, and tells nobody how that
/// went.
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the driver and the thread have in common. Whoever has the store may lock the state, and not
/// the other way round.
struct Shared {
    /// A commit is made at once if the one before took less.
    quick: Duration,
    store: Mutex<Box<dyn Store>>,
    state: Mutex<State>,
    /// There is something for the thread to do.
    work: Condvar,
    health: Health,
    done: Box<dyn Fn(Option<Committed>) + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// What the thread is to commit.
    given: Option<Vec<Record>>,
    /// How many times something was submitted.
    submitted: u64,
    /// Up to which of them all is durable.
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
        // Nothing panics while it holds the lock.
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Makes the commit with this number, takes note of how that went, and tells of it.
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
            // Records that went to a removed folder are not kept.
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

    /// Waits until the store's folder is the one that was opened: somebody may put it back.
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
    /// Starts the thread. `health` is told whether the store answers. `done` is called after each commit, and once with nothing when the store
    /// has failed; it must not wait for the worker.
    ///
    /// # Errors
    /// When the system gives no thread.
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
            // Of the first one nothing is known.
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

    /// Takes records to be kept, all or none of them. The answer is the number that
    /// [`Worker::durable`] reaches when they are durable, which it may have done already.
    ///
    /// What was submitted before must be durable by then: one commit is made at a time.
    pub fn submit(&self, records: Vec<Record>) -> u64 {
        let shared = &*self.shared;
        let mut state = shared.state();
        state.submitted += 1;
        let number = state.submitted;
        if state.failed.is_some() {
            return number; // Nobody takes it any more.
        }
        let begins = |record: &Record| !matches!(record.kind, Kind::Change | Kind::Adds);
        let mut records_of = records.iter().filter(|record| begins(record));
        let _begun = state
            .wants
            .take_if(|space| records_of.any(|record| record.space == *space));
        let is_quick = state.took < shared.quick;
        drop(state);
        // The thread may have it, for work that could wait.
        let store = is_quick.then(|| shared.store.try_lock().ok()).flatten();
        // The thread waits for a folder that is not there, and not the driver.
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

    /// Whether the store's folder is gone, so that nothing is made durable.
    pub(crate) fn is_lost(&self) -> bool {
        self.shared.health.is_lost()
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
            // If it panicked, the state says so.
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

/// If the thread panics, whoever waits for it must hear of it.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(ended_early());
        }
    }
}

/// What the thread does next.
enum Job {
    /// Make these durable, which is the commit with this number.
    Commit(Vec<Record>, u64),
    /// A step of what can wait.
    Idle,
    /// A look whether the folder is still there, though nobody commits.
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
            // The result is reported, and the next commit waits for it.
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

/// Waits for something to do; nothing when it is time to stop, or the store has failed.
fn next(shared: &Shared, committed: bool) -> Option<Job> {
    let mut state = shared.state();
    loop {
        if state.failed.is_some() {
            return None;
        }
        // One step after each commit too: whoever is never idle needs room as well.
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
