//! Refusals of peers and strangers: all are counted, and few are logged.

use super::network_metrics::NetworkMetrics;
use super::reason::Reason;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How often one refusal of one peer or address is logged. A shorter interval fills the log; a
/// longer one hides that the refusals continue.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Most refusals that are logged in one interval, for all peers together.
const LOGGED_MAX: usize = 128;

/// Counts refusals, and remembers which were logged recently.
pub(super) struct Refusals {
    metrics: NetworkMetrics,
    logged: HashMap<(Reason, String), Instant>,
}

impl Refusals {
    pub(super) fn new(metrics: NetworkMetrics) -> Refusals {
        Refusals {
            metrics,
            logged: HashMap::new(),
        }
    }

    /// Records a refusal of `who`, a peer or an address.
    pub(super) fn refused(&mut self, reason: Reason, who: &dyn fmt::Display, now: Instant) {
        self.metrics.refused(reason);
        if self.is_to_be_logged(reason, who.to_string(), now) {
            let code = reason.name();
            tracing::warn!(from = %who, code, "refused: {reason}; not told again for a minute");
        }
    }

    fn is_to_be_logged(&mut self, reason: Reason, who: String, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.duration_since(*at) < LOG_INTERVAL;
        if self
            .logged
            .get(&(reason, who.clone()))
            .is_some_and(is_recent)
        {
            return false;
        }
        if self.logged.len() >= LOGGED_MAX {
            self.logged.retain(|_, at| is_recent(at));
        }
        let room = self.logged.len() < LOGGED_MAX;
        if room {
            self.logged.insert((reason, who), now);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::registry::Registry;

    #[test]
    fn each_refusal_is_logged_once_in_a_while_and_all_together_not_often() {
        let mut refusals = Refusals::new(NetworkMetrics::register(&mut Registry::default()));
        let start = Instant::now();
        let mut log = |reason, who: &str, after: u64| {
            let now = start + Duration::from_secs(after);
            refusals.is_to_be_logged(reason, who.to_owned(), now)
        };
        assert!(log(Reason::Silent, "a", 0));
        assert!(!log(Reason::Silent, "a", 59));
        assert!(log(Reason::Flood, "a", 59));
        assert!(log(Reason::Silent, "b", 59));
        assert!(log(Reason::Silent, "a", 60));
        let told = (0..1000).filter(|at| log(Reason::Arrivals, &at.to_string(), 61));
        assert_eq!(told.count(), LOGGED_MAX - 3);
        assert!(log(Reason::Arrivals, "x", 121));
    }
}
