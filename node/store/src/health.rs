//! The health of the store, which can be read without a request to the store.
//!
//! A disk may hang, and a thread that waits for it can't answer. So the worker records when it
//! began to wait. Health checks read that record without a lock of the store or the driver. A
//! thread checks it, too, and writes to the log.

use super::Store;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The time without an answer after which a store is reported. A busy disk may take half of it.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// How often the thread checks.
const LOOK: Duration = Duration::from_millis(250);

/// A store that hangs is logged again after twice the time, and then at most this much later.
const TELL_AGAIN_MAX: Duration = Duration::from_secs(60);

/// The health of a store. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    /// When the store received the request that it has not finished, in milliseconds after `begun`,
    /// plus one. It is 0 if there is no such request.
    since: AtomicU64,
    /// The reason why nothing is written any more, while that is so.
    lost: Mutex<Option<String>>,
    /// Whether the node stops, and so waits for no folder to be restored.
    stopping: AtomicBool,
}

/// The present trouble of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It has not answered for this long.
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
    pub fn trouble(&self) -> Option<Trouble> {
        if let Some(why) = self.lost().clone() {
            return Some(Trouble::Lost(why));
        }
        let since = self.0.since.load(Ordering::Relaxed).checked_sub(1)?;
        let waited = self.now().saturating_sub(since);
        let waited = Duration::from_millis(waited);
        (waited >= SLOW).then_some(Trouble::Waits(waited))
    }

    /// Records that the store receives a request. It has answered when the returned value is
    /// dropped.
    pub(super) fn ask(&self) -> RequestGuard<'_> {
        self.0.since.store(self.now() + 1, Ordering::Relaxed);
        RequestGuard(self)
    }

    /// Checks that the folder is the one that was opened.
    ///
    /// # Errors
    /// The text says what happened to it.
    pub(super) fn stands(&self, store: &dyn Store) -> Result<(), String> {
        let request = self.ask();
        let checked = store.check_folder();
        drop(request);
        let mut lost = self.lost();
        match (&checked, &*lost) {
            (Err(why), None) => {
                tracing::error!(
                    why,
                    "the data folder is no longer this node's: nothing is acknowledged"
                );
            }
            (Ok(()), Some(_)) => tracing::info!("the data folder is this node's again"),
            _ => {}
        }
        *lost = checked.clone().err();
        checked
    }

    /// Whether the last check found that the folder is no longer the one that was opened.
    pub(super) fn is_lost(&self) -> bool {
        self.lost().is_some()
    }

    /// Records that the node stops, so that a thread that waits for a folder to be restored ends.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    /// Starts the thread that writes to the log. It ends when this value has no other owner.
    pub(super) fn watch(&self) -> std::io::Result<()> {
        let inner = Arc::downgrade(&self.0);
        let thread = thread::Builder::new().name("store-watch".into());
        thread.spawn(move || watch(&inner)).map(drop)
    }

    fn lost(&self) -> MutexGuard<'_, Option<String>> {
        // No code panics while it has the lock.
        self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// A request to the store, from its begin to its end.
pub(super) struct RequestGuard<'a>(&'a Health);

impl Drop for RequestGuard<'_> {
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
