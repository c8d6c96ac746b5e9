//! For how long idempotency keys are known.
//!
//! Keys are known in the order in which they came. Each minute it is noted how many had come, and
//! those of the notes that are as old as the window are dropped: each key is known for the window at
//! least, and for a step more at most, unless not all members have acknowledged it yet. Time is that
//! since the start, which no change of the wall clock makes shorter; what is stored of keys is as
//! good as new to a process that starts.

use super::OpenSpace;
use std::collections::VecDeque;
use std::time::Duration;

/// How often it is noted how many keys have come, in milliseconds. More keeps keys for longer, and
/// less takes memory for notes.
const STEP_MS: u64 = 60_000;

/// How many keys had come by when.
pub(super) struct Window {
    /// How long a key is known at least, in milliseconds.
    length: u64,
    step: u64,
    /// When it was noted, in milliseconds since the start, and the place after the last key.
    notes: VecDeque<(u64, u64)>,
    /// The place before which keys have been known for long enough.
    over: u64,
    /// When the next note is due.
    due: u64,
}

impl Window {
    pub(super) fn new(length: Duration) -> Window {
        let length = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Window {
            length,
            step: length.min(STEP_MS),
            notes: VecDeque::new(),
            over: 0,
            due: 0,
        }
    }

    /// Notes that all keys before the place `end` have come, and returns the place before which they
    /// may be dropped; `None` as long as that is not due.
    fn pass(&mut self, now: u64, end: u64) -> Option<u64> {
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
}

impl OpenSpace {
    /// Drops the keys that have been known for the window, if it is time to look.
    pub(super) fn drop_keys(&mut self, now: u64) {
        let Some(over) = self.window.pass(now, self.replica.keyed_end()) else {
            return;
        };
        if !self.replica.drop_keyed(over) {
            // It takes the word of all members, which they give only if somebody asks.
            self.ask_for_acknowledgement();
        }
    }

    /// When to look for keys to be dropped next; never while there are none.
    pub(super) fn keys_due(&self) -> Option<u64> {
        (self.replica.keyed_count() > 0).then_some(self.window.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_known_for_the_window_and_a_step_more_at_most() {
        let minutes = |count: u64| count * 60_000;
        let mut window = Window::new(Duration::from_secs(3_600));
        // A key came just after a note was made.
        assert_eq!(window.pass(0, 0), Some(0));
        for minute in 1..=60 {
            assert_eq!(window.pass(minutes(minute), 1), Some(0), "{minute}");
            assert_eq!(window.pass(minutes(minute) + 59_999, 1), None, "{minute}");
        }
        assert_eq!(window.pass(minutes(61), 1), Some(1));
        assert_eq!(window.notes.len(), 0, "nothing else came");
        // After a long sleep all is noted at once, and known for as long again.
        assert_eq!(window.pass(minutes(1_000), 5), Some(1));
        assert_eq!(window.pass(minutes(1_059), 9), Some(1));
        assert_eq!(window.pass(minutes(1_060), 9), Some(5));
        assert_eq!(window.pass(minutes(1_119), 9), Some(9));
    }
}
