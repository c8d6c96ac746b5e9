//! Decides which thread has the turn to work: the driver's thread, or a client's.
//!
//! To pass a request to another thread and the answer back costs more than most requests. So a
//! client that finds the driver idle executes its request itself, after everything that waits
//! before it. Otherwise it leaves the request in the queue for the driver's thread. The page of
//! [`driver`](super) has the steps of one turn.

use super::Driver;
use super::command::Queued;
use crate::driver::handle::Bell;
use mio::{Events, Poll};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_node_store::StoreError;

/// Most socket events in one batch.
const EVENTS_MAX: usize = 1024;

/// How often a client tries to get the turn before it leaves its request to the thread. Most turns
/// take some microseconds. A higher value keeps a core busy without work during a long turn.
const LOOKS: u32 = 200;

/// How much later than due the thread may wake, because of work that a client did meanwhile. A
/// lower value would wake it for changes of its deadline that come from rounding alone.
const SLACK: Duration = Duration::from_millis(2);

/// The driver, shared by all threads that may take a turn. It is `None` once the driver has ended.
#[derive(Clone)]
pub(crate) struct Turn {
    driver: Arc<Mutex<Option<Driver>>>,
    bell: Bell,
}

/// Wakes the thread if a client panics in its turn, so that the node ends as it does after a panic
/// of the thread.
struct Alarm<'a>(&'a Bell);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.ring();
        }
    }
}

/// Ends the driver along with its thread, however the thread ends, so that no client waits for an
/// answer.
struct End<'a>(&'a Mutex<Option<Driver>>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let driver = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(driver);
    }
}

impl Turn {
    pub(super) fn new(driver: Driver, bell: Bell) -> Turn {
        Turn {
            driver: Arc::new(Mutex::new(Some(driver))),
            bell,
        }
    }

    /// Does all waiting work, and this command last. Returns the command if another thread has the
    /// turn, or the driver has ended.
    pub(super) fn take(&self, command: Queued) -> Option<Queued> {
        for _ in 0..LOOKS {
            match self.driver.try_lock() {
                Ok(mut driver) => {
                    let _alarm = Alarm(&self.bell);
                    return match &mut *driver {
                        Some(driver) if driver.failed.is_none() && !driver.stopping => {
                            driver.serve(command);
                            None
                        }
                        _ => Some(command),
                    };
                }
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        Some(command)
    }

    /// Looks at the commit gate; `None` once the driver has ended.
    #[cfg(test)]
    pub(super) fn gate<T>(&self, look: impl FnOnce(&super::CommitGate) -> T) -> Option<T> {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.as_ref().map(|it| look(&it.gate))
    }

    /// Works until it is ordered to stop, all clients are gone, or the store fails.
    ///
    /// # Panics
    /// If a client panicked in its turn.
    pub(super) fn run(&self, mut poll: Poll) -> Result<(), StoreError> {
        let _end = End(&self.driver);
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut wait = Some(Duration::ZERO);
        loop {
            sleep(&mut poll, &mut events, wait)?;
            let broken = |_: PoisonError<_>| panic!("a client panicked in its turn");
            let mut turn = self.driver.lock().unwrap_or_else(broken);
            let Some(driver) = turn.as_mut() else {
                return Ok(());
            };
            if let Some(clients) = &mut driver.clients {
                events.iter().for_each(|event| clients.wake(event));
            }
            driver.bell.answer();
            let mut batch = std::mem::take(&mut driver.batch);
            let more = driver.take(&mut batch);
            let done = match driver.failed.take() {
                Some(error) => Err(error),
                None => driver
                    .work(&mut batch)
                    .and_then(|()| driver.commit())
                    .and_then(|()| driver.apply_one_long()),
            };
            driver.batch = batch;
            if done.is_ok() && !driver.stopping {
                wait = driver.rest(more);
                continue;
            }
            // No other turn follows. The queue is dropped along with the driver.
            let Some(mut driver) = turn.take() else {
                return Ok(());
            };
            drop(turn);
            if let Err(error) = done {
                let kept = driver.keep_others(&mut poll, &mut events);
                // A waiting client learns that the node stopped, and gets no error of its own.
                driver.queue.close();
                return kept.and(Err(error));
            }
            return driver.finish(&mut poll, &mut events);
        }
    }
}

/// Waits for a socket, the bell, or the end of `wait`.
pub(super) fn sleep(
    poll: &mut Poll,
    events: &mut Events,
    wait: Option<Duration>,
) -> Result<(), StoreError> {
    match poll.poll(events, wait) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(StoreError::Io {
            doing: "wait for work".into(),
            problem: error.to_string(),
        }),
        _ => Ok(()),
    }
}

impl Driver {
    /// The turn of a client.
    fn serve(&mut self, command: Queued) {
        let mut batch = std::mem::take(&mut self.batch);
        let more = self.take(&mut batch);
        batch.push(command);
        if let Err(error) = self.work(&mut batch).and_then(|()| self.commit()) {
            self.failed = Some(error);
        }
        self.batch = batch;
        let sooner = self.due().is_some_and(|due| {
            let until = self.sleeps_until;
            until.is_none_or(|until| due + SLACK < until)
        });
        let ready = self.clients.as_ref().is_some_and(|it| it.is_ready());
        let later = !self.later.is_empty();
        if more || ready || later || sooner || self.stopping || self.failed.is_some() {
            self.bell.ring();
        }
    }

    /// How long the thread may sleep; `None` without end.
    fn rest(&mut self, more: bool) -> Option<Duration> {
        let ready = self.clients.as_ref().is_some_and(|it| it.is_ready());
        let more = more || ready || !self.later.is_empty();
        let now = Instant::now();
        self.sleeps_until = match more {
            true => Some(now),
            false => self.due(),
        };
        Some(self.sleeps_until?.saturating_duration_since(now))
    }

    /// When there is something to do, if no input arrives before.
    fn due(&self) -> Option<Instant> {
        let clients = self.clients.as_ref().and_then(|it| it.next_deadline());
        let due = [self.next_deadline(), self.gate.due(), clients];
        due.into_iter().flatten().min()
    }

    /// Makes all changes durable, and sends everything that waits for that.
    fn finish(mut self, poll: &mut Poll, events: &mut Events) -> Result<(), StoreError> {
        while !self.gate.is_done() {
            sleep(poll, events, None)?;
            self.bell.answer();
            self.commit()?;
        }
        self.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Command;
    use mio::{Token, Waker};

    fn ended() -> (Turn, Poll) {
        let poll = Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        let driver = Arc::default();
        let bell = Bell::new(waker);
        (Turn { driver, bell }, poll)
    }

    fn is_left(turn: &Turn) -> bool {
        turn.take(Command::Stop.into()).is_some()
    }

    #[test]
    fn what_nobody_can_do_now_is_given_back() {
        let (turn, poll) = ended();
        assert!(is_left(&turn), "it has ended");
        assert_eq!(turn.run(poll).err().map(|it| it.to_string()), None);
        let at_work = turn.driver.lock().expect("nobody panicked");
        assert!(is_left(&turn), "nobody waits for who is at work");
        drop(at_work);
    }

    #[test]
    fn the_thread_ends_if_a_client_panics_in_its_turn() {
        let (turn, poll) = ended();
        let client = turn.clone();
        let panicked = thread::spawn(move || {
            let _turn = client.driver.lock();
            let _alarm = Alarm(&client.bell);
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(is_left(&turn));
        let driver = turn.driver.clone();
        assert!(thread::spawn(move || turn.run(poll)).join().is_err());
        let driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(driver.is_none(), "nobody waits for it");
    }
}
