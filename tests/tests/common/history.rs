//! The events of a run, to explain operations that count wrongly.

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most lines about what befell nodes beside one operation.
const LINES_MAX: usize = 60;
/// For how long before and after an operation its description has what befell nodes. To replace a member takes tens
/// of seconds.
const BEFORE: Duration = Duration::from_secs(10);
const AFTER: Duration = Duration::from_secs(40);

/// All events of a run, in order.
pub(crate) struct History {
    begun: Instant,
    events: Mutex<Vec<Event>>,
}

struct Event {
    at: Duration,
    /// The operation of the event. `None` for one of a request without a key, and for what befell a node.
    key: Option<String>,
    /// Whether it befell a node.
    fault: bool,
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
        self.push(key, false, node, what);
    }

    /// Notes what befell a node.
    pub(crate) fn fault(&self, node: usize, what: &'static str) {
        self.push(None, true, node, what);
    }

    fn push(&self, key: Option<&str>, fault: bool, node: usize, what: &'static str) {
        let event = Event {
            at: self.begun.elapsed(),
            key: key.map(str::to_owned),
            fault,
            node,
            what,
        };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The events of an operation, with what befell nodes around them.
    pub(crate) fn of(&self, key: &str) -> String {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |event: &&Event| event.key.as_deref() == Some(key);
        let (Some(first), Some(last)) = (events.iter().find(own), events.iter().rev().find(own))
        else {
            return format!("{key}: nothing is known of it\n");
        };
        let (from, upto) = (first.at.saturating_sub(BEFORE), last.at + AFTER);
        let mut left = LINES_MAX;
        let told = events.iter().filter(|event| {
            let befell = event.fault && (from..=upto).contains(&event.at) && left > 0;
            left -= usize::from(befell);
            own(event) || befell
        });
        let mut text = format!("{key}:\n");
        for event in told {
            let of = if event.fault { "  -- " } else { "" };
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
