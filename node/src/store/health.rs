//! Whether the store answers, told without asking it.
//!
//! A disk may hang, and a thread that waits for it answers nothing. So the worker notes when it began
//! to wait, where health checks read it without a lock of the store's or the driver's. A thread looks
//! there too, and tells the log.

use super::Store;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// A store that has not answered for so long is told of. A disk at work may take half of it.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(250);

/// The log is told again of a store that hangs after twice the time, and then each so often.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(60);

/// The health of a store. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    /// Milliseconds after `begun` at which the store was asked for what it has not done yet, plus one; 0 if
    /// there is nothing.
    since: AtomicU64,
    /// Why nothing is written any more, as long as that is so.
    lost: Mutex<Option<String>>,
    /// The node stops, and waits for no folder to come back.
    stopping: AtomicBool,
}

/// The present trouble of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It has not answered for so long.
    Waits(Duration),
    /// Its folder is no longer the one that was opened.
    Lost(String),
}

impl Default for Health {
    fn default() -> Health {
        Health(Arc::new(Inner {
            begun: Instant::now(),
            since: AtomicU64::new(0),
            lost: Mutex::new(None),
            stopping: AtomicBool::new(false),
        }))
    }
}

impl Health {
    /// The present trouble, if there is any.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        if let Some(why) = self.lost().clone() {
            return Some(Trouble::Lost(why));
        }
        let since = self.0.since.load(Ordering::Relaxed).checked_sub(1)?;
        let waited = self.now().saturating_sub(since);
        let waited = Duration::from_millis(waited);
        (waited >= SLOW).then_some(Trouble::Waits(waited))
    }

    /// The store is asked for something. It has answered when what is returned is dropped.
    pub(super) fn ask(&self) -> Asked<'_> {
        self.0.since.store(self.now() + 1, Ordering::Relaxed);
        Asked(self)
    }

    /// Whether the folder is the one that was opened.
    ///
    /// # Errors
    /// With what became of it.
    pub(super) fn stands(&self, store: &dyn Store) -> Result<(), String> {
        let asked = self.ask();
        let standing = store.standing();
        drop(asked);
        let mut lost = self.lost();
        match (&standing, &*lost) {
            (Err(why), None) => {
                tracing::error!(
                    why,
                    "the data folder is no longer this node's: nothing is acknowledged"
                );
            }
            (Ok(()), Some(_)) => tracing::info!("the data folder is this node's again"),
            _ => {}
        }
        *lost = standing.clone().err();
        standing
    }

    /// Whether the folder was not the one that was opened when that was looked at last.
    pub(super) fn is_lost(&self) -> bool {
        self.lost().is_some()
    }

    /// The node stops: who waits for a folder to come back gives up.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    /// Starts the thread that tells the log. It ends when nobody else has this any more.
    pub(super) fn watch(&self) -> std::io::Result<()> {
        let inner = Arc::downgrade(&self.0);
        let thread = thread::Builder::new().name("store-watch".into());
        thread.spawn(move || watch(&inner)).map(drop)
    }

    fn lost(&self) -> MutexGuard<'_, Option<String>> {
        // Nothing panics while it holds the lock.
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// The store was asked for something.
pub(super) struct Asked<'a>(&'a Health);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.0.since.store(0, Ordering::Relaxed);
    }
}

fn watch(inner: &Weak<Inner>) {
    let mut tell_at = SLOW;
    loop {
        let Some(inner) = inner.upgrade() else {
            return;
        };
        match Health(inner).trouble() {
            Some(Trouble::Waits(waited)) if waited >= tell_at => {
                let seconds = waited.as_secs();
                tracing::warn!(
                    seconds,
                    "the store has not answered: its disk hangs, or is very slow"
                );
                tell_at = waited + waited.min(TELL_AGAIN_MAX);
            }
            Some(_) => {}
            None if tell_at > SLOW => {
                tracing::info!("the store answers again");
                tell_at = SLOW;
            }
            None => {}
        }
        thread::sleep(LOOK);
    }
}
