//! The rate of requests from one client.

use super::App;
use super::problem::Problem;
use crate::HttpRate;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tallymesh_node_ground::problems;
use tallymesh_node_ground::rate::client;

/// After so many requests, addresses that have been silent for long enough are forgotten.
const SWEEP_REQUESTS: u32 = 4096;

/// The recent requests of each address.
pub struct Rate {
    rate: HttpRate,
    limiter: RateLimiter<IpAddr, HashMapStateStore<IpAddr>, DefaultClock>,
    clock: DefaultClock,
    requests: AtomicU32,
}

impl Rate {
    /// A rate of which nobody has used anything.
    pub fn new(rate: HttpRate) -> Rate {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Rate {
            rate,
            limiter: RateLimiter::hashmap_with_clock(quota, DefaultClock::default()),
            clock: DefaultClock::default(),
            requests: AtomicU32::new(0),
        }
    }

    /// Counts a request. The error is the wait if it is too early.
    fn check(&self, from: IpAddr) -> Result<(), Duration> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        if requests % SWEEP_REQUESTS == SWEEP_REQUESTS - 1 {
            self.limiter.retain_recent();
        }
        let checked = self.limiter.check_key(&client(from));
        checked.map_err(|too_early| too_early.wait_time_from(self.clock.now()))
    }
}

/// The answer to a request that is too early.
pub(super) fn refusal(app: &App, request: &Request) -> Option<Response> {
    let rate = app.rate.as_ref()?;
    let ConnectInfo(from) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
    let wait = rate.check(from.ip()).err()?;
    Some(refused(&rate.rate, from.ip(), wait))
}

fn refused(rate: &HttpRate, from: IpAddr, wait: Duration) -> Response {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let detail = format!(
        "requests from {from} come faster than {} a second; wait {seconds} s, and send many adds \
         in one request",
        rate.per_second
    );
    let mut response = Problem::new(&problems::RATE_LIMITED, detail).into_response();
    let seconds = HeaderValue::from(seconds.max(1));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate::new(HttpRate {
            per_second: per_second.try_into().expect("above 0"),
            burst: burst.try_into().expect("above 0"),
        })
    }

    #[test]
    fn a_burst_is_let_through_and_then_each_address_waits_for_itself() {
        let rate = rate(1, 3);
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().expect(it));
        for _ in 0..3 {
            assert_eq!(rate.check(one), Ok(()));
        }
        let wait = rate.check(one).expect_err("too early");
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_secs(1),
            "{wait:?}"
        );
        assert_eq!(rate.check(other), Ok(()));
    }
}
