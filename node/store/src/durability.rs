//! The durability setting: which changes survive which failures of a node.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The shortest and the longest interval between two commits.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// When changes are made durable, and so which of them survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// All waiting changes are committed at once, and answers wait for the commit. Every change
    /// that was acknowledged, or sent to a peer, survives a crash of the process and a power cut.
    #[default]
    Always,
    /// Commits are made at most once in this time, and answers do not wait for them. A crash of the
    /// process or a power cut may undo changes that were acknowledged in the last interval or in
    /// the commit under way. Older changes stay. An orderly stop undoes nothing.
    Interval(Duration),
    /// Nothing is written. When the process ends, all changes are lost that no peer has.
    Memory,
}

impl FromStr for Durability {
    type Err = String;

    /// Reads `always`, `memory`, or an interval such as `interval:500ms`.
    fn from_str(text: &str) -> Result<Durability, String> {
        let what = "write always, memory, or an interval such as interval:500ms";
        match text.trim() {
            "always" => return Ok(Durability::Always),
            "memory" => return Ok(Durability::Memory),
            _ => {}
        }
        let interval = text.trim().strip_prefix("interval:").ok_or(what)?;
        let interval = humantime::parse_duration(interval.trim())
            .map_err(|problem| format!("{problem}; {what}"))?;
        if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
            return Err(format!("an interval is from 1ms to 60s; {what}"));
        }
        Ok(Durability::Interval(interval))
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Always => f.write_str("always"),
            Durability::Interval(interval) => {
                write!(f, "interval:{}", humantime::format_duration(*interval))
            }
            Durability::Memory => f.write_str("memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_shown() {
        let second = Durability::Interval(Duration::from_millis(1500));
        for (text, meant) in [
            ("always", Durability::Always),
            ("memory", Durability::Memory),
            ("interval:1500ms", second),
            (" interval: 1s 500ms", second),
        ] {
            assert_eq!(text.parse::<Durability>().expect(text), meant);
            assert_eq!(meant.to_string().parse::<Durability>(), Ok(meant));
        }
        for wrong in [
            "",
            "Always",
            "interval",
            "interval:",
            "interval:0s",
            "interval:61s",
        ] {
            let problem = wrong.parse::<Durability>().expect_err(wrong);
            assert!(problem.contains("interval:500ms"), "{problem}");
        }
    }
}
