//! Rate limits: a rate with a burst (token bucket).

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// A number per second, and a burst that is allowed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u64,
    burst: u64,
}

/// The burst, if none is named: what the rate gives in this time.
const BURST_SECONDS: u64 = 5;

impl Rate {
    /// A rate of at least one a second, and a burst of at least one.
    pub fn new(per_second: u64, burst: u64) -> Option<Rate> {
        (per_second > 0 && burst > 0).then_some(Rate { per_second, burst })
    }

    /// The number per second.
    pub fn per_second(self) -> u64 {
        self.per_second
    }

    /// The burst.
    pub fn burst(self) -> u64 {
        self.burst
    }

    /// How long `amount` takes at this rate.
    fn takes(self, amount: u64) -> Duration {
        let nanos = u128::from(amount) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Reads `20/s` or `20/s:100`, where the second number is the burst; `number` reads a number.
    pub fn parse(text: &str, number: impl Fn(&str) -> Option<u64>) -> Option<Rate> {
        let (rate, burst) = match text.split_once("/s") {
            Some((rate, "")) => (number(rate)?, None),
            Some((rate, burst)) => (number(rate)?, Some(number(burst.strip_prefix(':')?)?)),
            None => return None,
        };
        Rate::new(rate, burst.unwrap_or(rate.saturating_mul(BURST_SECONDS)))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let rate = Rate::parse(text, |number| number.parse().ok());
        rate.ok_or_else(|| "write a rate such as 20/s, or 20/s:100 with a burst of 100".into())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s:{}", self.per_second, self.burst)
    }
}

/// When there are so many names, those that have their whole burst again are forgotten.
const SWEEP_NAMES: usize = 1024;

/// Applies one rate to many names. A name without activity takes no memory in the end.
pub struct Pace<K> {
    rate: Rate,
    /// The time at which each name has its whole burst again.
    full: HashMap<K, Instant>,
    sweep: usize,
}

impl<K: Eq + Hash> Pace<K> {
    /// Full buckets for all keys.
    pub fn new(rate: Rate) -> Pace<K> {
        Pace {
            rate,
            full: HashMap::new(),
            sweep: SWEEP_NAMES,
        }
    }

    /// The wait until `name` may do this amount, if it may not now. An amount above the burst
    /// counts as the burst: it waits until the whole burst is available.
    pub fn wait(&self, name: &K, amount: u64, now: Instant) -> Option<Duration> {
        let burst = self.rate.takes(self.rate.burst);
        let cost = self.rate.takes(amount).min(burst);
        let full = self.full.get(name)?;
        let wait = (full.saturating_duration_since(now) + cost).checked_sub(burst)?;
        (!wait.is_zero()).then_some(wait)
    }

    /// Charges this amount to `name`.
    pub fn spend(&mut self, name: K, amount: u64, now: Instant) {
        if self.full.len() >= self.sweep {
            self.full.retain(|_, full| *full > now);
            self.sweep = (self.full.len() * 2).max(SWEEP_NAMES);
        }
        let full = self.full.entry(name).or_insert(now);
        *full = (*full).max(now) + self.rate.takes(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_through_and_then_the_rate_holds_for_each() {
        let mut pace = Pace::new(Rate::new(10, 3).expect("a rate"));
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        for _ in 0..3 {
            assert_eq!(pace.wait(&"a", 1, start), None);
            pace.spend("a", 1, start);
        }
        assert_eq!(pace.wait(&"a", 1, start), Some(Duration::from_millis(100)));
        assert_eq!(pace.wait(&"a", 2, start), Some(Duration::from_millis(200)));
        assert_eq!(pace.wait(&"b", 3, start), None);
        assert_eq!(pace.wait(&"a", 1, after(100)), None);
        pace.spend("a", 1, after(100));
        assert!(pace.wait(&"a", 1, after(150)).is_some());
        assert_eq!(
            pace.wait(&"a", 3, after(400)),
            None,
            "the whole burst again"
        );
        // An amount above the burst passes once the whole burst is available.
        assert_eq!(pace.wait(&"b", 30, start), None);
        pace.spend("b", 30, start);
        assert_eq!(pace.wait(&"b", 1, start), Some(Duration::from_millis(2800)));
    }

    #[test]
    fn whoever_does_nothing_is_forgotten() {
        let mut pace = Pace::new(Rate::new(1000, 1).expect("a rate"));
        let mut now = Instant::now();
        for name in 0..100_000 {
            pace.spend(name, 1, now);
            now += Duration::from_millis(1);
        }
        assert!(pace.full.len() <= SWEEP_NAMES, "{}", pace.full.len());
    }

    #[test]
    fn rates_are_read() {
        for (text, read) in [
            ("20/s", Rate::new(20, 100)),
            ("20/s:7", Rate::new(20, 7)),
            ("0/s", None),
            ("5", None),
            ("5/s:", None),
            ("5/s7", None),
            ("5/m", None),
        ] {
            assert_eq!(text.parse().ok(), read, "{text}");
        }
    }
}
