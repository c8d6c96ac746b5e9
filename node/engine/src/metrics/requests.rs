//! Requests over HTTP by route, method and status, with their durations.
//!
//! For each request, the program adds to three atomic numbers and looks up the route. It takes no
//! lock and allocates nothing. So the measurement hardly changes the result.

use axum::http::{Method, StatusCode};
use matchit::Router;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The route of all other requests: those for the page, and for unknown paths.
const OTHER_ROUTE: &str = "other";

/// The methods that are distinguished; all others count as one.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "other"];

/// The classes of a status: its first digit.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The bound of the first bucket, in nanoseconds; each further one is twice as large.
const BUCKET_NANOS: u64 = 25_000;

/// The number of buckets with a bound: up to 3.3 s. Longer requests are in one more bucket.
const BUCKETS: usize = 18;

/// The metrics of all routes.
#[derive(Default)]
pub struct Requests {
    router: Router<usize>,
    routes: Vec<Route>,
}

/// The metrics of one route.
struct Route {
    path: String,
    methods: [RequestMetrics; METHODS.len()],
}

/// The metrics of one route and method.
#[derive(Default)]
struct RequestMetrics {
    classes: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BUCKETS + 1],
    nanos: AtomicU64,
}

/// The metrics in which a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    route: usize,
    method: usize,
}

impl Requests {
    /// All metrics at zero. `paths` are those of the routes, with `{name}` for the variable parts.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a String>) -> Requests {
        let mut requests = Requests::default();
        for path in paths {
            // A path that conflicts with another one counts as no route.
            if requests
                .router
                .insert(path.clone(), requests.routes.len())
                .is_ok()
            {
                requests.add(path);
            }
        }
        requests.add(OTHER_ROUTE);
        requests
    }

    fn add(&mut self, path: &str) {
        self.routes.push(Route {
            path: path.to_owned(),
            methods: Default::default(),
        });
    }

    /// The place in which a request is counted.
    #[inline]
    pub fn place(&self, method: &Method, path: &str) -> Place {
        let other = self.routes.len() - 1;
        let route = self.router.at(path).map_or(other, |found| *found.value);
        let method = match *method {
            Method::GET => 0,
            Method::POST => 1,
            Method::PUT => 2,
            Method::DELETE => 3,
            _ => 4,
        };
        Place { route, method }
    }

    /// Counts a request that was answered, or whose stream has begun.
    #[inline]
    pub fn answered(&self, place: Place, status: StatusCode, took: Duration) {
        let metrics = &self.routes[place.route].methods[place.method];
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        metrics.classes[class].fetch_add(1, Ordering::Relaxed);
        metrics.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        metrics.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The metrics of routes with requests, with their labels.
    fn used(&self) -> impl Iterator<Item = (&str, &'static str, &RequestMetrics)> {
        let rows = self.routes.iter().flat_map(|route| {
            let methods = METHODS.iter().zip(&route.methods);
            methods.map(|(method, metrics)| (route.path.as_str(), *method, metrics))
        });
        rows.filter(|row| {
            row.2
                .classes
                .iter()
                .any(|count| count.load(Ordering::Relaxed) > 0)
        })
    }
}

/// The bucket of a duration: the first whose bound is not below it.
#[inline]
fn bucket(nanos: u64) -> usize {
    let whole = nanos.saturating_sub(1) / BUCKET_NANOS;
    ((u64::BITS - whole.leading_zeros()) as usize).min(BUCKETS)
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests over HTTP that were answered";
        let mut counters =
            encoder.encode_descriptor("http_requests", help, None, MetricType::Counter)?;
        for (route, method, metrics) in self.used() {
            for (class, count) in CLASSES.iter().zip(&metrics.classes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = [("route", route), ("method", method), ("status", *class)];
                    let mut row = counters.encode_family(&labels)?;
                    row.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
                }
            }
        }
        let help = "How long requests took until their answer began";
        let name = "http_request_duration_seconds";
        let mut histograms = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (route, method, metrics) in self.used() {
            let bound = |at: usize| match at {
                BUCKETS => f64::INFINITY,
                at => (BUCKET_NANOS << at) as f64 / 1e9,
            };
            let counts = metrics
                .buckets
                .iter()
                .map(|count| count.load(Ordering::Relaxed));
            let buckets: Vec<(f64, u64)> =
                counts.enumerate().map(|(at, n)| (bound(at), n)).collect();
            let count = buckets.iter().map(|bucket| bucket.1).sum();
            let sum = metrics.nanos.load(Ordering::Relaxed) as f64 / 1e9;
            let labels = [("route", route), ("method", method)];
            let mut row = histograms.encode_family(&labels)?;
            row.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requests({} routes)", self.routes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_all_up_to_its_bound() {
        for at in 0..BUCKETS {
            let bound = BUCKET_NANOS << at;
            assert_eq!((bucket(bound), bucket(bound + 1)), (at, at + 1), "{bound}");
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, BUCKETS));
    }

    #[test]
    fn a_request_counts_for_its_route() {
        let paths = [
            "/v1/spaces/{space}/counters/{key}/add",
            "/v1/spaces/{space}/counters",
        ];
        let requests = Requests::new(&paths.map(str::to_owned));
        let route = |path: &str| {
            requests.routes[requests.place(&Method::GET, path).route]
                .path
                .as_str()
        };
        assert_eq!(route("/v1/spaces/a/counters/b%2Fc/add"), paths[0]);
        assert_eq!(route("/v1/spaces/a/counters"), paths[1]);
        assert_eq!(route("/v1/spaces/a/counters/b/c/add"), OTHER_ROUTE);
        assert_eq!(route("/favicon.ico"), OTHER_ROUTE);
        let methods = [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::HEAD,
        ];
        for (at, method) in methods.iter().enumerate() {
            assert_eq!(requests.place(method, "/").method, at);
        }
    }
}
