//! File descriptors: their number, their shares, and the spare ones of the store.
//!
//! A process without free descriptors can open no file. A store that can't make its next segment
//! ends the node. So the node's own descriptors are reserved, and clients and peers share the rest:
//! [`fit`] sizes the limits on connections by it.
//!
//! The store also has spare descriptors. [`with_spare`] closes one of them when the system refuses
//! a new one.

use crate::config::Config;
use crate::gossip::GossipLimits;
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
pub(crate) struct TooFew(u64);

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

/// How many connections of each kind there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Connections of HTTP.
    http: u64,
    /// Redis clients; 0 if none are served.
    redis: u64,
    /// Descriptors for connections with nodes. A third more than the limit on connections is
    /// reserved, for members and for connections that are being set up.
    peers: u64,
}

impl Shares {
    fn all(self) -> u64 {
        let all = self.http.saturating_add(self.redis);
        all.saturating_add(self.peers)
    }

    /// Reduces these to the available descriptors. Nodes get a quarter, and clients share the rest.
    fn within(self, descriptors: u64) -> Shares {
        if self.all() <= descriptors {
            return self;
        }
        let peers = self.peers.min(descriptors / 4).max(1);
        let rest = descriptors.saturating_sub(peers);
        let half = match self.redis {
            0 => 0,
            _ => rest / 2,
        };
        let http = self.http.min(rest - half.min(self.redis)).max(1);
        let redis = self.redis.min(rest.saturating_sub(http));
        Shares { http, redis, peers }
    }
}

/// The number of connections for which these descriptors are enough.
fn connections_of(peers: u64) -> u32 {
    u32::try_from(peers - peers / 3).unwrap_or(u32::MAX)
}

/// Raises the limit of this process, sizes the limits of the configuration by it, and reserves
/// spare descriptors. It logs each limit that it lowers.
///
/// # Errors
/// Fails when there are too few descriptors for a node.
pub(crate) fn fit(config: &mut Config) -> Result<(), TooFew> {
    let Some(limit) = raise() else {
        return Ok(());
    };
    if limit < LEAST {
        return Err(TooFew(limit));
    }
    let gossip = &mut config.gossip.limits;
    let wanted = Shares {
        http: config.http_rules.clients_max as u64,
        redis: config.resp.as_ref().map_or(0, |it| it.clients_max as u64),
        peers: u64::from(gossip.connections).div_ceil(2) * 3,
    };
    let shares = wanted.within(limit - OWN - SPARES as u64);
    let usual = GossipLimits::default();
    if shares.peers < wanted.peers {
        let asked = gossip.connections;
        gossip.connections = connections_of(shares.peers).min(asked);
        gossip.incoming = gossip
            .incoming
            .min(GossipLimits::incoming_of(gossip.connections))
            .max(1);
        gossip.pending = gossip.pending.min(gossip.connections.div_ceil(2));
        told(
            "connections",
            asked.into(),
            gossip.connections.into(),
            usual.connections.into(),
            limit,
        );
    }
    if shares.http < wanted.http {
        config.http_rules.clients_max = shares.http as usize;
        told("http-clients", wanted.http, shares.http, 4096, limit);
    }
    if let Some(resp) = &mut config.resp
        && shares.redis < wanted.redis
    {
        resp.clients_max = shares.redis as usize;
        told("resp-clients", wanted.redis, shares.redis, 10_000, limit);
    }
    tracing::info!(
        limit,
        http_clients = shares.http,
        resp_clients = shares.redis,
        connections = config.gossip.limits.connections,
        "descriptors are shared out"
    );
    refill();
    Ok(())
}

/// Logs that a limit is lower than configured; a warning if the limit is not the default.
fn told(setting: &str, asked: u64, given: u64, usual: u64, limit: u64) {
    const TEXT: &str = "a limit on connections is lowered to the descriptors that there are";
    match asked == usual {
        true => tracing::info!(setting, asked, given, limit, "{TEXT}"),
        false => tracing::warn!(setting, asked, given, limit, "{TEXT}"),
    }
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
pub(crate) fn with_spare<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
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

    #[test]
    fn connections_fit_into_the_descriptors_that_there_are() {
        let wanted = Shares {
            http: 4096,
            redis: 10_000,
            peers: 384,
        };
        assert_eq!(wanted.within(1 << 20), wanted);
        for descriptors in [4, 5, 24, 64, 160, 980, 5000, 14_479] {
            let given = wanted.within(descriptors);
            assert!(given.all() <= descriptors, "{descriptors}: {given:?}");
            assert!(
                given.all() > descriptors * 9 / 10,
                "{descriptors}: {given:?}"
            );
            assert!(given.http > 0 && given.redis > 0 && given.peers > 0);
            let alone = Shares { redis: 0, ..wanted }.within(descriptors);
            assert!(alone.all() <= descriptors, "{descriptors}: {alone:?}");
            assert_eq!(alone.redis, 0);
            assert!(alone.http >= given.http);
        }
        // The part of a share that is not needed goes to the other shares.
        let few = Shares { redis: 3, ..wanted }.within(100);
        assert_eq!((few.http, few.redis, few.peers), (72, 3, 25));
        let few = Shares { http: 3, ..wanted }.within(100);
        assert_eq!((few.http, few.redis, few.peers), (3, 72, 25));
    }

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
