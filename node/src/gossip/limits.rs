//! How much peers and strangers may take of a node.

use super::pace::Rate;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tallymesh_core::limits::FRAME_BYTES_MAX;

/// How much peers and strangers may take of a node. Configured peers and members are let in beyond the
/// limits on connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GossipLimits {
    /// Most connections in all. Too low, and members are kept out; each takes some 100 KB, and up to
    /// 8 MiB while large frames come.
    pub connections: u32,
    /// Most of these that came in. What is left is for those that this node dials, so that strangers
    /// can't fill it up.
    pub incoming: u32,
    /// Most connections that are still being set up, in each direction. Too low, and peers that come at
    /// once try again; each takes a descriptor.
    pub pending: u32,
    /// Most connections with one peer. Two nodes that dial each other at once have 2.
    pub per_peer: u32,
    /// Above this the node takes no new connections; `None` without a limit.
    pub memory: Option<MemoryMax>,
    /// Connections from one address, by time. An address of IPv6 counts with its network of 64 bits.
    pub arrivals: Rate,
    /// Frames of one peer, by time.
    pub frames: Rate,
    /// Bytes of these frames, by time.
    pub bytes: Rate,
    /// Most bytes of large frames that are under way, of all peers together. One peer, or one ticket, may
    /// take a quarter of them, all guests half.
    pub frame_memory: usize,
    /// Whoever has not greeted in any space by then is cut off, unless it is a configured peer or is
    /// relayed.
    pub greeting: Duration,
}

impl GossipLimits {
    /// The least that the rate of bytes may be: a frame has to arrive before it is given up.
    pub const BYTES_PER_SECOND_MIN: u64 = FRAME_BYTES_MAX as u64 / 8;

    /// How many connections may come in if so many may be there, and nothing else was said.
    pub fn incoming_of(connections: u32) -> u32 {
        connections - connections / 4
    }
}

impl Default for GossipLimits {
    fn default() -> GossipLimits {
        let rate = |per_second, burst| Rate::new(per_second, burst).expect("above 0");
        GossipLimits {
            connections: 256,
            incoming: GossipLimits::incoming_of(256),
            pending: 256,
            per_peer: 4,
            memory: Some(MemoryMax::Percent(90)),
            arrivals: rate(20, 100),
            // More than any honest node sends, with thousands of spaces too.
            frames: rate(20_000, 100_000),
            bytes: rate(128 << 20, 512 << 20),
            frame_memory: 256 << 20,
            greeting: Duration::from_secs(30),
        }
    }
}

/// How much memory a node may take before it takes no new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMax {
    /// So many bytes.
    Bytes(usize),
    /// So many hundredths of the machine's memory.
    Percent(u8),
}

impl FromStr for MemoryMax {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryMax, String> {
        let parsed = match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().ok().filter(|it| (1..=100).contains(it));
                percent.map(MemoryMax::Percent)
            }
            None => {
                let bytes = size(text).and_then(|it| usize::try_from(it).ok());
                bytes.filter(|it| *it > 0).map(MemoryMax::Bytes)
            }
        };
        parsed.ok_or_else(|| "write a size such as 4GiB, a share from 1% to 100%, or `off`".into())
    }
}

impl fmt::Display for MemoryMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryMax::Bytes(bytes) => write!(f, "{bytes}"),
            MemoryMax::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Reads a size in bytes, such as `4096`, `64KiB`, `8MiB` or `4GiB`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (unit, shift) = unit.copied().unwrap_or(("", 0));
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_are_read() {
        for (text, read) in [
            ("4096", Some(4096)),
            ("12B", Some(12)),
            ("64KiB", Some(64 << 10)),
            ("8MiB", Some(8 << 20)),
            ("4GiB", Some(4 << 30)),
            ("4GB", None),
            ("MiB", None),
            ("-1", None),
            ("99999999999999GiB", None),
        ] {
            assert_eq!(size(text), read, "{text}");
        }
        for (text, read) in [
            ("80%", Some(MemoryMax::Percent(80))),
            ("1GiB", Some(MemoryMax::Bytes(1 << 30))),
            ("0%", None),
            ("101%", None),
            ("0", None),
        ] {
            assert_eq!(text.parse().ok(), read, "{text}");
        }
    }
}
