//! Counts how often each operation counts. Each operation has a number, and a digit of a counter by this
//! number.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operations that share a counter. Each adds a power of 4. So each base-4 digit of the counter shows how
/// often one operation counts, up to 3 times.
const DIGITS: u64 = 30;
/// Most wrong operations in a report.
const TOLD_MAX: usize = 5;

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A client requested it, and no node acknowledged it. It may count, at most once.
    Asked,
    /// A node acknowledged it. It counts once.
    Acknowledged,
}

/// All operations of one kind that clients requested, by number.
pub(crate) struct Ledger {
    /// The beginning of the names of its counters and keys. No other ledger has it.
    name: &'static str,
    fates: Mutex<Vec<Fate>>,
}

impl Ledger {
    pub(crate) fn new(name: &'static str) -> Ledger {
        Ledger {
            name,
            fates: Mutex::default(),
        }
    }

    fn fates(&self) -> MutexGuard<'_, Vec<Fate>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new operation: its number, its counter, and the amount that it adds.
    pub(crate) fn ask(&self) -> (usize, String, i64) {
        let mut fates = self.fates();
        let number = fates.len();
        fates.push(Fate::Asked);
        let digit = number as u64 % DIGITS;
        (
            number,
            self.counter(number as u64 / DIGITS),
            1 << (2 * digit),
        )
    }

    fn counter(&self, number: u64) -> String {
        format!("{}{number}", self.name)
    }

    /// An operation's idempotency key, by which the history finds it.
    pub(crate) fn key(&self, number: usize) -> String {
        format!("{}-op-{number}", self.name)
    }

    pub(crate) fn acknowledge(&self, number: usize) {
        self.fates()[number] = Fate::Acknowledged;
    }

    /// Number of acknowledged operations, and of the others.
    pub(crate) fn count(&self) -> (usize, usize) {
        let fates = self.fates();
        let acknowledged = fates
            .iter()
            .filter(|fate| **fate == Fate::Acknowledged)
            .count();
        (acknowledged, fates.len() - acknowledged)
    }

    /// All counters, in order.
    pub(crate) fn counters(&self) -> Vec<String> {
        let count = self.fates().len() as u64;
        (0..count.div_ceil(DIGITS))
            .map(|number| self.counter(number))
            .collect()
    }

    /// The violations in these values of all counters.
    pub(crate) fn judge(&self, values: &[i128]) -> Verdict {
        let fates = self.fates();
        let mut verdict = Verdict::default();
        for (at, value) in values.iter().enumerate() {
            let first = at * DIGITS as usize;
            let those = fates.iter().skip(first).take(DIGITS as usize);
            let mut rest = *value;
            for (number, fate) in (first..).zip(those) {
                let times = rest.rem_euclid(4);
                rest = rest.div_euclid(4);
                match (fate, times) {
                    (_, 1) | (Fate::Asked, 0) => {}
                    (_, 0) => verdict.lost.push(number),
                    _ => verdict.twice.push(number),
                }
                verdict.counted += usize::from(times == 1);
                verdict.unasked += usize::from(*fate == Fate::Asked && times == 1);
            }
            if rest != 0 {
                verdict.odd.push((self.counter(at as u64), *value));
            }
        }
        verdict
    }
}

/// The violations at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Operations that were acknowledged, and don't count.
    pub(crate) lost: Vec<usize>,
    /// Operations that count more than once.
    pub(crate) twice: Vec<usize>,
    /// Counters that are more than the sum of all their operations.
    pub(crate) odd: Vec<(String, i128)>,
    /// Operations that count once.
    pub(crate) counted: usize,
    /// Operations of these that were never acknowledged. They are not violations.
    pub(crate) unasked: usize,
}

impl Verdict {
    pub(crate) fn is_right(&self) -> bool {
        self.lost.is_empty() && self.twice.is_empty() && self.odd.is_empty()
    }

    /// Describes the violations, and the events of some of the operations by `history`.
    pub(crate) fn tell(&self, history: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        let rows = [("lost", &self.lost), ("counted twice", &self.twice)];
        for (what, numbers) in rows {
            let by = BTreeMap::from_iter(numbers.iter().map(|number| (number, ())));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{what}: {} of them, {:?}", numbers.len(), by.keys());
            for number in numbers.iter().take(TOLD_MAX) {
                text += &history(*number);
            }
        }
        let _ = writeln!(text, "odd counters: {:?}", self.odd);
        text
    }
}

#[test]
fn each_operation_counts_in_a_digit_of_its_own() {
    let ledger = Ledger::new("n");
    let asked: Vec<_> = (0..32).map(|_| ledger.ask()).collect();
    assert_eq!(ledger.counters(), ["n0", "n1"]);
    for (number, ..) in &asked[..31] {
        ledger.acknowledge(*number);
    }
    assert_eq!(ledger.count(), (31, 1));
    let sum = |of: &str| {
        let those = asked.iter().filter(|it| it.1 == of);
        those.map(|it| i128::from(it.2)).sum::<i128>()
    };
    let (first, second) = (sum("n0"), sum("n1"));
    let right = ledger.judge(&[first, second]);
    assert!(right.is_right());
    assert_eq!((right.counted, right.unasked), (32, 1));
    // An operation that was not acknowledged need not count.
    assert!(ledger.judge(&[first, second - 4]).is_right());
    let last = i128::from(asked[29].2);
    assert_eq!(ledger.judge(&[first - 16, second]).lost, [2]);
    assert_eq!(ledger.judge(&[first + last, second + 4]).twice, [29, 31]);
    assert!(!ledger.judge(&[first + 3 * last, second]).is_right());
    assert!(!ledger.judge(&[first - 16, second + 16]).odd.is_empty());
}
