//! The position of a reader of events, from which it can continue.

use std::fmt;
use std::str::FromStr;
use tallymesh_core::Moment;

/// A place in the events of one space, at one start of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// A random number for the start and the space.
    pub start: u64,
    /// Every change up to this moment has been sent.
    pub moment: Moment,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moment { epoch, dropped } = self.moment;
        write!(f, "{:016x}-{epoch}-{dropped}", self.start)
    }
}

/// A text that is no written position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPosition;

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Position, NoPosition> {
        let read = || {
            let (start, rest) = text.split_once('-')?;
            let (epoch, dropped) = rest.split_once('-')?;
            Some(Position {
                start: u64::from_str_radix(start, 16).ok()?,
                moment: Moment {
                    epoch: epoch.parse().ok()?,
                    dropped: dropped.parse().ok()?,
                },
            })
        };
        read().ok_or(NoPosition)
    }
}

/// Selects the counters that a reader of events receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this key.
    pub key: Option<String>,
    /// Only keys with this prefix.
    pub prefix: String,
}

impl Wanted {
    /// Whether a counter is selected.
    pub fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && self.key.as_deref().is_none_or(|own| own == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        let moment = Moment {
            epoch: u64::MAX,
            dropped: 7,
        };
        let position = Position { start: 255, moment };
        let text = position.to_string();
        assert_eq!(text, "00000000000000ff-18446744073709551615-7");
        assert_eq!(text.parse(), Ok(position));
        for wrong in [
            "",
            "12",
            "x-1-2",
            "1-2",
            "1-2-3-4",
            "1-a-2",
            "1-2-99999999999999999999",
        ] {
            assert_eq!(wrong.parse::<Position>(), Err(NoPosition), "{wrong}");
        }
    }

    #[test]
    fn key_and_prefix_both_hold() {
        let wanted = |key: Option<&str>, prefix: &str| Wanted {
            key: key.map(str::to_owned),
            prefix: prefix.to_owned(),
        };
        assert!(wanted(None, "").has("a") && wanted(None, "a").has("ab"));
        assert!(wanted(Some("ab"), "a").has("ab"));
        assert!(!wanted(Some("ab"), "b").has("ab"));
        assert!(!wanted(Some("ab"), "").has("abc"));
    }
}
