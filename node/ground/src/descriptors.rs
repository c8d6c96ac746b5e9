//! File descriptors: their number, and the spare ones of the store.
//!
//! A process without free descriptors can open no file. A store that can't make its next segment
//! ends the node. So the node's own descriptors are reserved, and clients and peers share the rest
//! ([`reserve`]).
//!
//! The store also has spare descriptors. [`with_spare`] closes one of them when the system refuses
//! a new one.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Descriptors of the node itself, with all its services: 25 were counted. The rest is for files
/// that are open for a moment.
const OWN: u64 = 32;

/// Spare descriptors for the store.
const SPARES: usize = 4;

/// Fewest descriptors that a node starts with: its own, the spare ones, and some for clients.
const LEAST: u64 = OWN + SPARES as u64 + 4;

/// Most descriptors that the process asks the system for.
const MOST: u64 = 1 << 20;

/// How long the store retries to open a file while there is no descriptor. Clients may be about to
/// end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A process may have too few descriptors for a node.
#[derive(Clone, Copy, Debug)]
pub struct TooFew(u64);

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this process may have {} open files, and a node needs at least {LEAST}: raise the hard \
             limit (`ulimit -Hn 1024`, `LimitNOFILE=` of a service, `--ulimit nofile` of a container)",
            self.0
        )
    }
}

/// Raises the limit of this process as far as possible, and returns it. Returns `None` if the
/// system has no such limit.
#[cfg(unix)]
fn raise() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX).min(MOST);
    let soft = limit.current?;
    if soft >= hard {
        return Some(soft);
    }
    // macOS accepts no more than this, even under a higher hard limit.
    for wanted in [hard, hard.min(10_240)] {
        limit.current = Some(wanted);
        if wanted > soft && setrlimit(Resource::Nofile, limit).is_ok() {
            return Some(wanted);
        }
    }
    Some(soft)
}

#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

/// Raises the limit of this process, and reserves spare descriptors. Returns the limit, and how many
/// descriptors clients and peers may share. Returns `None` if the system has no such limit.
///
/// # Errors
/// Fails when there are too few descriptors for a node.
pub fn reserve() -> Result<Option<(u64, u64)>, TooFew> {
    let Some(limit) = raise() else {
        return Ok(None);
    };
    if limit < LEAST {
        return Err(TooFew(limit));
    }
    refill();
    Ok(Some((limit, limit - OWN - SPARES as u64)))
}

/// The spare descriptors of the store.
static SPARE: Mutex<Vec<File>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<File>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves spare descriptors as long as the system gives some.
#[cfg(unix)]
fn refill() {
    let mut spare = spare();
    while spare.len() < SPARES {
        let taken = match spare.last() {
            Some(file) => file.try_clone(),
            None => File::open("/dev/null"),
        };
        match taken {
            Ok(file) => spare.push(file),
            Err(_) => return, // The next one who needs one tries again.
        }
    }
}

#[cfg(not(unix))]
fn refill() {}

/// Opens a file for the store. If there is no descriptor for it, a spare one is closed. If no spare
/// one is left either, it waits a while until other connections or files close.
///
/// # Errors
/// Fails as `open` does.
pub fn with_spare<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut until = None;
    loop {
        let opened = open();
        let Err(error) = &opened else {
            refill();
            return opened;
        };
        if !is_lack(error) || until.is_some_and(|until| Instant::now() >= until) {
            return opened;
        }
        until.get_or_insert_with(|| Instant::now() + PATIENCE);
        if spare().pop().is_none() {
            thread::sleep(PAUSE);
        }
    }
}

/// Whether the process, or the whole system, has no descriptor left.
#[cfg(unix)]
fn is_lack(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

#[cfg(not(unix))]
fn is_lack(_: &io::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_gets_a_spare_descriptor_where_there_is_none() {
        refill();
        let spares = spare().len();
        assert!(spares > 0);
        let mut tries = 0;
        let opened = with_spare(|| {
            tries += 1;
            match tries {
                1 => Err(rustix::io::Errno::MFILE.into()),
                2 => Err(rustix::io::Errno::NFILE.into()),
                _ => Ok(spare().len()),
            }
        });
        // Another test may need a descriptor meanwhile.
        assert!(opened.expect("it is opened") < spares);
        let missing = with_spare(|| File::open("/no/such/file"));
        let missing = missing.expect_err("there is none");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
