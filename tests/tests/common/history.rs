//! The events of a run, to explain operations that count wrongly.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most lines about one operation.
const LINES_MAX: usize = 60;

/// All events of a run, in order.
pub(crate) struct History {
    begun: Instant,
    events: Mutex<Vec<Event>>,
}

struct Event {
    at: Duration,
    /// The operation of the event. `None` for an event of a node.
    key: Option<String>,
    node: usize,
    what: &'static str,
}

impl History {
    pub(crate) fn new() -> History {
        History {
            begun: Instant::now(),
            events: Mutex::default(),
        }
    }

    pub(crate) fn note(&self, key: Option<&str>, node: usize, what: &'static str) {
        let event = Event {
            at: self.begun.elapsed(),
            key: key.map(str::to_owned),
            node,
            what,
        };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The events of an operation, with the events of nodes meanwhile and a little before and after.
    pub(crate) fn of(&self, key: &str) -> String {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |event: &&Event| event.key.as_deref() == Some(key);
        let (Some(first), Some(last)) = (events.iter().find(own), events.iter().rev().find(own))
        else {
            return format!("{key}: nothing is known of it\n");
        };
        let around = Duration::from_secs(3);
        let (from, upto) = (first.at.saturating_sub(around), last.at + around);
        let told = events
            .iter()
            .filter(|event| own(event) || event.key.is_none() && (from..=upto).contains(&event.at));
        let mut text = format!("{key}:\n");
        for event in told.take(LINES_MAX) {
            let of = if event.key.is_some() { "" } else { "  -- " };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "  {:>8.3} s {of}node {}: {}",
                event.at.as_secs_f64(),
                event.node,
                event.what
            );
        }
        text
    }
}
