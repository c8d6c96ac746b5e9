//! Key retention: how long this node remembers idempotency keys. Its setting is the key window.
//!
//! Keys have places in the order of their arrival. Each minute it notes the place after the last
//! key. When a note is as old as the window, the keys before its place are dropped. So each key is
//! remembered for at least the window, and for at most one step more, unless some members have not
//! acknowledged it yet.
//!
//! Key retention uses the time since the start, which no change of the wall clock makes shorter.
//! After a start, all stored keys count as new.

use super::OpenSpace;
use std::collections::VecDeque;
use std::time::Duration;

/// How often a note is made, in milliseconds. A longer step keeps keys for longer; a shorter one
/// takes memory for notes.
const STEP_MS: u64 = 60_000;

/// The age below which a key makes no room for another key of the same caller, in milliseconds. The
/// node refuses the caller instead. With a lower value, the retry of a fast client counts twice.
/// With a higher value, callers that are fast for long are refused.
const YOUNG_MS: u64 = 120_000;

/// Notes of how many keys had arrived at which times.
pub(super) struct KeyRetention {
    /// The shortest time for which a key is remembered, in milliseconds.
    length: u64,
    step: u64,
    /// The time of each note, in milliseconds since the start, and the place after the last key.
    notes: VecDeque<(u64, u64)>,
    /// The place before which all keys are old enough to be dropped.
    over: u64,
    /// When the next note is due.
    due: u64,
    /// The time of the last call, in milliseconds since the start.
    now: u64,
}

impl KeyRetention {
    pub(super) fn new(length: Duration) -> KeyRetention {
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        KeyRetention {
            length,
            step: length.min(STEP_MS),
            notes: VecDeque::new(),
            over: 0,
            due: 0,
            now: 0,
        }
    }

    /// Notes that all keys before the place `end` have arrived. Returns the place before which keys
    /// may be dropped, or `None` while that is not due.
    fn pass(&mut self, now: u64, end: u64) -> Option<u64> {
        self.now = now;
        if now < self.due {
            return None;
        }
        self.due = now.saturating_add(self.step);
        let noted = self.notes.back().map_or(self.over, |last| last.1);
        if noted < end {
            self.notes.push_back((now, end));
        }
        while let Some(&(at, place)) = self.notes.front()
            && at.saturating_add(self.length) <= now
        {
            self.over = place;
            self.notes.pop_front();
        }
        Some(self.over)
    }

    /// The place before which keys are old enough to make room for others of the same caller.
    pub(super) fn settled(&self) -> u64 {
        let age = YOUNG_MS.min(self.length);
        let old = |it: &&(u64, u64)| it.0.saturating_add(age) <= self.now;
        let noted = self.notes.iter().rev().find(old);
        noted.map_or(self.over, |it| it.1)
    }
}

impl OpenSpace {
    /// Drops the keys that are older than the window, if a look is due.
    pub(super) fn drop_keys(&mut self, now: u64) {
        let Some(over) = self.key_retention.pass(now, self.replica.keyed().end()) else {
            return;
        };
        if !self.replica.keyed_mut().drop_before(over) {
            // To drop keys needs the acknowledgement of all members, which they send only on
            // request.
            self.ask_for_acknowledgement();
        }
    }

    /// When keys are next to be dropped; `None` while there are none.
    pub(super) fn keys_due(&self) -> Option<u64> {
        (self.replica.keyed().count() > 0).then_some(self.key_retention.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_known_for_the_window_and_a_step_more_at_most() {
        let minutes = |count: u64| count * 60_000;
        let mut key_retention = KeyRetention::new(Duration::from_secs(3_600));
        // A key arrived just after a note was made.
        assert_eq!(key_retention.pass(0, 0), Some(0));
        for minute in 1..=60 {
            assert_eq!(key_retention.pass(minutes(minute), 1), Some(0), "{minute}");
            assert_eq!(
                key_retention.pass(minutes(minute) + 59_999, 1),
                None,
                "{minute}"
            );
        }
        assert_eq!(key_retention.pass(minutes(61), 1), Some(1));
        assert_eq!(key_retention.notes.len(), 0, "nothing else came");
        assert_eq!((key_retention.settled(), key_retention.over), (1, 1));
        // After a long sleep all keys are noted at once, and remembered for a full window.
        assert_eq!(key_retention.pass(minutes(1_000), 5), Some(1));
        assert_eq!(key_retention.pass(minutes(1_059), 9), Some(1));
        assert_eq!(key_retention.pass(minutes(1_060), 9), Some(5));
        assert_eq!(key_retention.pass(minutes(1_119), 9), Some(9));
    }

    #[test]
    fn a_key_makes_room_for_others_once_it_is_two_minutes_old() {
        let mut key_retention = KeyRetention::new(Duration::from_secs(3_600));
        let step = 60_000;
        for (minute, end) in [(0, 5), (1, 6), (2, 9), (3, 9), (4, 9)] {
            key_retention.pass(minute * step, end);
            let settled = [0, 0, 5, 6, 9][minute as usize];
            assert_eq!(key_retention.settled(), settled, "{minute}");
        }
        // If the window is shorter, that age is as short.
        let mut short = KeyRetention::new(Duration::from_secs(1));
        short.pass(0, 5);
        assert_eq!(short.settled(), 0);
        short.pass(1_000, 6);
        assert_eq!(short.settled(), 5);
    }
}
