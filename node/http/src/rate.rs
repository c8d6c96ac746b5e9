//! The rate of requests from one client.

use super::App;
use super::problem::Problem;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tallymesh_node_engine::settings::HttpRate;
use tallymesh_node_ground::problems;
use tallymesh_node_ground::rate::{self, Pace, client};

/// The recent requests of each address.
pub struct Rate {
    rate: HttpRate,
    pace: Mutex<Pace<IpAddr>>,
}

impl Rate {
    /// A rate of which nobody has used anything.
    pub fn new(rate: HttpRate) -> Rate {
        let (per_second, burst) = (rate.per_second.get(), rate.burst.get());
        let buckets = rate::Rate::new(per_second.into(), burst.into()).expect("both are above 0");
        Rate {
            rate,
            pace: Mutex::new(Pace::new(buckets)),
        }
    }

    /// Counts a request. The error is the wait if it is too early.
    fn check(&self, from: IpAddr) -> Result<(), Duration> {
        let (from, now) = (client(from), Instant::now());
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = pace.wait(&from, 1, now) {
            return Err(wait);
        }
        pace.spend(from, 1, now);
        Ok(())
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
