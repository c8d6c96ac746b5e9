//! The possible sums of a counter when it is unknown whether some adds were made.

use std::fmt;

/// Most runs that are shown to people.
const SHOWN_MAX: usize = 5;

/// The possible sums: all adds that were surely made, with any subset of the others.
///
/// This is Maelstrom's rule for final reads. A client without an answer in time does not learn whether its
/// add was made. A client with a rejection knows that its add was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// First and last sum of each run of consecutive sums. The runs ascend, with gaps between them.
    runs: Vec<(i128, i128)>,
}

impl Sums {
    /// The one sum of the adds that were surely made.
    pub fn new(sum: i128) -> Sums {
        Sums {
            runs: vec![(sum, sum)],
        }
    }

    /// Adds the possibility that `delta` was added.
    pub fn perhaps(&mut self, delta: i64) {
        let delta = i128::from(delta);
        let with = self.runs.iter().map(|it| (it.0 + delta, it.1 + delta));
        let mut all: Vec<(i128, i128)> = self.runs.iter().copied().chain(with).collect();
        all.sort_unstable();
        self.runs.clear();
        for (first, last) in all {
            match self.runs.last_mut() {
                Some(run) if first <= run.1 + 1 => run.1 = run.1.max(last),
                _ => self.runs.push((first, last)),
            }
        }
    }

    /// Whether this sum is possible.
    pub fn has(&self, sum: i128) -> bool {
        let after = self.runs.partition_point(|run| run.0 <= sum);
        after > 0 && sum <= self.runs[after - 1].1
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (first, last) in self.runs.iter().take(SHOWN_MAX) {
            f.write_str(between)?;
            match first == last {
                true => write!(f, "{first}")?,
                false => write!(f, "{first} to {last}")?,
            }
            between = ", ";
        }
        match self.runs.last() {
            Some((_, last)) if self.runs.len() > SHOWN_MAX => write!(f, " and more up to {last}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn runs_that_touch_become_one_and_gaps_stay() {
        let mut sums = Sums::new(10);
        for delta in [1, 1, -5] {
            sums.perhaps(delta);
        }
        assert_eq!(sums.to_string(), "5 to 7, 10 to 12");
        sums.perhaps(0);
        sums.perhaps(3);
        assert_eq!(sums.to_string(), "5 to 15");
        for delta in [100, 200, 400] {
            sums.perhaps(delta);
        }
        let shown = "5 to 15, 105 to 115, 205 to 215, 305 to 315, 405 to 415 and more up to 715";
        assert_eq!(sums.to_string(), shown);
    }

    #[test]
    fn a_sum_is_possible_exactly_if_some_of_the_adds_make_it() {
        let mut random = Random::new(5);
        for _ in 0..300 {
            let start = random.below(50) as i64 - 25;
            let mut sums = Sums::new(start.into());
            let mut each: BTreeSet<i64> = [start].into();
            for _ in 0..random.below(9) {
                let delta = random.below(40) as i64 - 20;
                sums.perhaps(delta);
                let with: Vec<i64> = each.iter().map(|sum| sum + delta).collect();
                each.extend(with);
            }
            for sum in -300..300 {
                assert_eq!(sums.has(sum.into()), each.contains(&sum), "{sum} in {sums}");
            }
        }
    }

    #[test]
    fn sums_of_the_greatest_adds_do_not_wrap() {
        let mut sums = Sums::new(i64::MAX.into());
        sums.perhaps(i64::MAX);
        sums.perhaps(i64::MIN);
        assert!(sums.has(2 * i128::from(i64::MAX)) && sums.has(-1));
        assert!(!sums.has(i64::MIN.into()) && !sums.has(-2));
    }
}
