//! The auth throttle for Redis clients: how often a client may try to authenticate, and which
//! failures are logged.
//!
//! A password can be guessed. So the driver does not check one while too many attempts from its
//! address have failed.
//!
//! The driver always checks a ticket, so that a valid one passes whatever other clients behind the
//! same address show. To check a signature takes the thread that all clients share. So after too
//! many failures, a connection that shows a bad ticket pauses.
//!
//! All attempts are counted with the other refusals.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tallymesh_node_ground::rate::{Pace, Rate, client};

/// How many attempts from one address may fail: so many a second, after so many at once. With a
/// lower value, a program with many connections and an old ticket waits after the ticket was
/// replaced. With a higher value, strangers guess more, and take the time of others.
const FAILS: (u64, u64) = (1, 20);

/// How often one kind of failure from one address is logged. A shorter interval fills the log; a
/// longer one hides that the failures continue.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long a connection pauses that shows a bad ticket after too many failures. With a shorter
/// pause, 1,024 connections take more than a tenth of the driver's thread.
const PAUSE: Duration = Duration::from_secs(1);

/// Most failures that are logged in one interval, from all addresses together.
const LOGGED_MAX: usize = 128;

/// Failed attempts to authenticate.
pub struct AuthThrottle {
    fails: Pace<IpAddr>,
    logged: HashMap<(IpAddr, &'static str), Instant>,
}

impl Default for AuthThrottle {
    fn default() -> AuthThrottle {
        AuthThrottle {
            fails: Pace::new(Rate::new(FAILS.0, FAILS.1).expect("above 0")),
            logged: HashMap::new(),
        }
    }
}

impl AuthThrottle {
    /// Whether a client at this address may try a password.
    ///
    /// # Errors
    /// How long it has to wait.
    pub fn may_try(&self, from: IpAddr, now: Instant) -> Result<(), Duration> {
        let wait = self.fails.wait(&client(from), 1, now);
        wait.map_or(Ok(()), Err)
    }

    /// Records a failed attempt with this code. Returns how long the connection should pause, if
    /// too many attempts have failed.
    pub fn failed(&mut self, from: IpAddr, code: &'static str, now: Instant) -> Option<Duration> {
        let from = client(from);
        let too_many = self.fails.wait(&from, 1, now).is_some();
        if !too_many {
            self.fails.spend(from, 1, now);
        }
        if self.is_to_be_logged(from, code, now) {
            tracing::warn!(%from, code, "a Redis client was not let in; not told again for a minute");
        }
        too_many.then_some(PAUSE)
    }

    fn is_to_be_logged(&mut self, from: IpAddr, code: &'static str, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.duration_since(*at) < LOG_INTERVAL;
        if self.logged.get(&(from, code)).is_some_and(is_recent) {
            return false;
        }
        if self.logged.len() >= LOGGED_MAX {
            self.logged.retain(|_, at| is_recent(at));
        }
        let room = self.logged.len() < LOGGED_MAX;
        if room {
            self.logged.insert((from, code), now);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fails_at_a_rate_and_is_logged_seldom() {
        let mut throttle = AuthThrottle::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().expect(it));
        for _ in 0..FAILS.1 {
            assert_eq!(throttle.may_try(one, start), Ok(()));
            assert_eq!(throttle.failed(one, "ticket", start), None);
        }
        assert_eq!(throttle.may_try(one, start), Err(Duration::from_secs(1)));
        assert_eq!(throttle.failed(one, "ticket", start), Some(PAUSE));
        assert_eq!(throttle.may_try(other, start), Ok(()));
        assert_eq!(throttle.may_try(one, after(1000)), Ok(()));
        assert_eq!(throttle.failed(one, "ticket", after(1000)), None);
        assert!(throttle.may_try(one, after(1000)).is_err());

        assert!(!throttle.is_to_be_logged(one, "ticket", after(59_999)));
        assert!(throttle.is_to_be_logged(one, "ticket_expired", after(59_999)));
        assert!(throttle.is_to_be_logged(other, "ticket", after(59_999)));
        assert!(throttle.is_to_be_logged(one, "ticket", after(60_000)));
        let address = |at: u32| IpAddr::from(at.to_be_bytes());
        let told =
            (0..1000).filter(|at| throttle.is_to_be_logged(address(*at), "x", after(60_001)));
        assert_eq!(told.count(), LOGGED_MAX - 3);
    }
}
