//! The settings of the network part: addresses, and bounds on the resources that peers and strangers may use.

use crate::browser::Pages;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tallymesh_core::bounds::FRAME_BYTES_MAX;
use tallymesh_node_ground::identity::Address;
use tallymesh_node_ground::rate::Rate;

/// The settings of the network part of a node.
#[derive(Clone, Debug)]
pub struct GossipConfig {
    /// The addresses to listen on. Port 0 takes a free one.
    pub listen: Vec<Address>,
    /// The host names and pages for which a WebSocket is served.
    pub pages: Pages,
    /// Nodes to stay connected to.
    pub peers: Vec<Address>,
    /// Whether every peer that connects counts as a member of all spaces.
    pub open: bool,
    /// Whether to find nodes on the local network automatically.
    pub mdns: bool,
    /// Whether to publish this node's addresses in the address book, and to dial the nodes in it.
    /// Revocations are published and read there in any case.
    pub book: bool,
    /// Addresses to publish there beside those of the listeners.
    pub announce: Vec<Address>,
    /// Bounds on the resources of peers and strangers.
    pub limits: GossipLimits,
    /// Bounds on relaying for others; `None` if this node is no relay.
    pub relay: Option<RelayLimits>,
}

/// Bounds on the resources that peers and strangers may use. Configured peers and members may
/// exceed the bounds on connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GossipLimits {
    /// Most connections in all. With a low value, members are refused. Each connection takes some
    /// 100 KB, and up to 8 MiB while large frames arrive.
    pub connections: u32,
    /// Most incoming connections. The rest is for connections that this node dials, so that
    /// strangers can't use all.
    pub incoming: u32,
    /// Most connections that are being set up, in each direction. With a low value, peers that
    /// connect at the same time have to try again. Each takes a descriptor.
    pub pending: u32,
    /// Most connections with one peer. Two nodes that dial each other at once have 2.
    pub per_peer: u32,
    /// The memory above which the node accepts no new connections; `None` for no limit.
    pub memory: Option<MemoryMax>,
    /// The rate of connections from one address. An IPv6 address counts with its network of 64
    /// bits.
    pub arrivals: Rate,
    /// The rate of frames from one peer.
    pub frames: Rate,
    /// The rate of the bytes of these frames.
    pub bytes: Rate,
    /// Most bytes of large frames in transfer, for all peers together. One peer, or one ticket, may
    /// use a quarter, and all guests half.
    pub frame_memory: usize,
    /// The time until which a peer must have sent its hello in some space. Otherwise it is
    /// disconnected, unless it is a configured peer or uses the relay.
    pub hello_timeout: Duration,
}

impl GossipLimits {
    /// The lowest rate of bytes: a frame has to arrive within its timeout.
    pub const BYTES_PER_SECOND_MIN: u64 = FRAME_BYTES_MAX as u64 / 8;

    /// The default bound on incoming connections, for a bound on all connections.
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
            // An honest node sends fewer, even with thousands of spaces.
            frames: rate(20_000, 100_000),
            bytes: rate(128 << 20, 512 << 20),
            frame_memory: 256 << 20,
            hello_timeout: Duration::from_secs(30),
        }
    }
}

/// The memory of the node above which it accepts no new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryMax {
    /// A number of bytes.
    Bytes(usize),
    /// A percentage of the machine's memory.
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

/// Bounds on relaying for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLimits {
    /// Most nodes that listen here.
    pub reservations: usize,
    /// Most circuits at once.
    pub circuits: usize,
    /// Bytes after which a circuit ends, both directions together. The two peers then connect
    /// again.
    pub circuit_bytes: u64,
    /// Time after which a circuit ends. The two peers then connect again.
    pub circuit_time: Duration,
}

impl Default for RelayLimits {
    fn default() -> RelayLimits {
        RelayLimits {
            reservations: 128,
            circuits: 64,
            circuit_bytes: 1 << 30,
            circuit_time: Duration::from_secs(3600),
        }
    }
}

/// Reads a size in bytes, such as `4096`, `64KiB`, `8MiB` or `4GiB`.
pub fn size(text: &str) -> Option<u64> {
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
