//! Settings of the network: limits, and the relay.

use super::{ConfigError, duration, switch, wrong};
use clap::Args;
use serde::{Deserialize, Serialize};
use tallymesh_node_engine::settings::{GossipLimits, MemoryMax, RelayLimits, size};
use tallymesh_node_ground::rate::Rate;

/// The arguments of `tallymesh up` about what peers may take.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NetworkArgs {
    /// Say in the address book of the mesh where this node is, and dial nodes that are there, as long as
    /// it is connected with fewer than 8; which tickets are revoked is told and heard there anyway
    /// [default: true]
    #[arg(long, value_name = "YES", env = "TALLYMESH_ADDRESS_BOOK", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub address_book: Option<bool>,

    /// Addresses under which others reach this node, such as one that a router maps to it: told in the
    /// address book beside those of --listen
    #[arg(long, value_name = "MULTIADDR", env = "TALLYMESH_ANNOUNCE", num_args = 1.., value_delimiter = ',')]
    pub announce: Option<Vec<String>>,

    /// Most connections with nodes; those with configured peers and members come on top [default: 256]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_CONNECTIONS")]
    pub connections: Option<u32>,

    /// Most connections that came in: the rest is for those that this node dials [default: three
    /// quarters of --connections]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_CONNECTIONS_IN")]
    pub connections_in: Option<u32>,

    /// Most connections with one node; two that dial each other at once have 2 [default: 4]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_CONNECTIONS_PER_PEER")]
    pub connections_per_peer: Option<u32>,

    /// Most connections that come from one address, with a burst [default: 20/s:100]
    #[arg(long, value_name = "COUNT/s:BURST", env = "TALLYMESH_CONNECT_RATE")]
    pub connect_rate: Option<String>,

    /// Most frames of one node, with a burst; one that sends more is slowed down [default:
    /// 20000/s:100000]
    #[arg(long, value_name = "COUNT/s:BURST", env = "TALLYMESH_PEER_FRAMES")]
    pub peer_frames: Option<String>,

    /// Most bytes of these frames, with a burst; at least 256KiB/s [default: 128MiB/s:512MiB]
    #[arg(long, value_name = "SIZE/s:BURST", env = "TALLYMESH_PEER_BYTES")]
    pub peer_bytes: Option<String>,

    /// Take no new connections while the process takes more memory than this: a size, such as 4GiB, a
    /// share of the machine's, or `off` [default: 90%]
    #[arg(long, value_name = "SIZE", env = "TALLYMESH_MEMORY_MAX")]
    pub memory_max: Option<String>,

    /// Relay for nodes and pages that nobody can dial: they listen here, and are reached through this
    /// node
    #[arg(long, value_name = "YES", env = "TALLYMESH_RELAY", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub relay: Option<bool>,

    /// Most nodes that listen at this relay [default: 128]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_RELAY_RESERVATIONS")]
    pub relay_reservations: Option<usize>,

    /// Most circuits through this relay at once [default: 64]
    #[arg(long, value_name = "COUNT", env = "TALLYMESH_RELAY_CIRCUITS")]
    pub relay_circuits: Option<usize>,

    /// Most bytes through one circuit, both directions together, before it ends [default: 1GiB]
    #[arg(long, value_name = "SIZE", env = "TALLYMESH_RELAY_BYTES")]
    pub relay_bytes: Option<String>,

    /// How long a circuit may last, before it ends; from 1s to 30d [default: 1h]
    #[arg(long, value_name = "DURATION", env = "TALLYMESH_RELAY_TIME")]
    pub relay_time: Option<String>,
}

impl NetworkArgs {
    /// The defaults. The default of `connections-in` depends on `connections`.
    pub(super) fn defaults() -> NetworkArgs {
        let (limits, relay) = (GossipLimits::default(), RelayLimits::default());
        let text = |text: &str| Some(text.to_owned());
        NetworkArgs {
            address_book: Some(true),
            announce: Some(Vec::new()),
            connections: Some(limits.connections),
            connections_in: None,
            connections_per_peer: Some(limits.per_peer),
            connect_rate: Some(limits.arrivals.to_string()),
            peer_frames: Some(limits.frames.to_string()),
            peer_bytes: text("128MiB/s:512MiB"),
            memory_max: text("90%"),
            relay: Some(false),
            relay_reservations: Some(relay.reservations),
            relay_circuits: Some(relay.circuits),
            relay_bytes: text("1GiB"),
            relay_time: text("1h"),
        }
    }

    /// These settings, with those of `below` where one is missing.
    pub(super) fn or(self, below: NetworkArgs) -> NetworkArgs {
        NetworkArgs {
            address_book: self.address_book.or(below.address_book),
            announce: self.announce.or(below.announce),
            connections: self.connections.or(below.connections),
            connections_in: self.connections_in.or(below.connections_in),
            connections_per_peer: self.connections_per_peer.or(below.connections_per_peer),
            connect_rate: self.connect_rate.or(below.connect_rate),
            peer_frames: self.peer_frames.or(below.peer_frames),
            peer_bytes: self.peer_bytes.or(below.peer_bytes),
            memory_max: self.memory_max.or(below.memory_max),
            relay: self.relay.or(below.relay),
            relay_reservations: self.relay_reservations.or(below.relay_reservations),
            relay_circuits: self.relay_circuits.or(below.relay_circuits),
            relay_bytes: self.relay_bytes.or(below.relay_bytes),
            relay_time: self.relay_time.or(below.relay_time),
        }
    }

    /// The limits for peers and strangers.
    ///
    /// # Errors
    /// Fails at the first invalid argument.
    pub(super) fn limits(&self) -> Result<GossipLimits, ConfigError> {
        let usual = GossipLimits::default();
        let connections = above_0("connections", self.connections)?.unwrap_or(usual.connections);
        let incoming = self.connections_in;
        let incoming = incoming.unwrap_or_else(|| GossipLimits::incoming_of(connections));
        if incoming > connections {
            let problem = format!("{incoming} is more than the {connections} of --connections");
            return Err(wrong("connections-in", problem));
        }
        let per_peer = above_0("connections-per-peer", self.connections_per_peer)?;
        let count = |text: &str| text.parse().ok();
        let bytes = rate("peer-bytes", self.peer_bytes.as_deref(), size)?.unwrap_or(usual.bytes);
        if bytes.per_second() < GossipLimits::BYTES_PER_SECOND_MIN {
            let problem = format!(
                "{bytes} is too slow: a frame of 2 MiB would be given up before it has come; allow \
                 256KiB/s or more"
            );
            return Err(wrong("peer-bytes", problem));
        }
        Ok(GossipLimits {
            connections,
            incoming,
            per_peer: per_peer.unwrap_or(usual.per_peer),
            memory: memory(self.memory_max.as_deref(), usual.memory)?,
            arrivals: rate("connect-rate", self.connect_rate.as_deref(), count)?
                .unwrap_or(usual.arrivals),
            frames: rate("peer-frames", self.peer_frames.as_deref(), count)?
                .unwrap_or(usual.frames),
            bytes,
            ..usual
        })
    }

    /// The limits of the relay, if this node is one.
    ///
    /// # Errors
    /// Fails at the first invalid argument.
    pub(super) fn relay(&self) -> Result<Option<RelayLimits>, ConfigError> {
        let usual = RelayLimits::default();
        let reservations = above_0("relay-reservations", self.relay_reservations)?;
        let circuits = above_0("relay-circuits", self.relay_circuits)?;
        let circuit_bytes = match self.relay_bytes.as_deref() {
            None => usual.circuit_bytes,
            Some(text) => size(text).filter(|it| *it > 0).ok_or_else(|| {
                let problem = format!("`{text}` is no size, such as 64MiB");
                wrong("relay-bytes", problem)
            })?,
        };
        let circuit_time = match self.relay_time.as_deref() {
            None => usual.circuit_time,
            Some(text) => duration("relay-time", text)?,
        };
        let limits = RelayLimits {
            reservations: reservations.unwrap_or(usual.reservations),
            circuits: circuits.unwrap_or(usual.circuits),
            circuit_bytes,
            circuit_time,
        };
        if self.relay.unwrap_or_default() {
            return Ok(Some(limits));
        }
        let given = [
            (
                "relay-reservations",
                limits.reservations != usual.reservations,
            ),
            ("relay-circuits", limits.circuits != usual.circuits),
            ("relay-bytes", limits.circuit_bytes != usual.circuit_bytes),
            ("relay-time", limits.circuit_time != usual.circuit_time),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => {
                let problem = "this node is no relay, so this holds for nobody: make it one with --relay, or \
                               leave this out";
                Err(wrong(key, problem))
            }
            None => Ok(None),
        }
    }
}

fn above_0<T: Default + PartialEq>(
    argument: &'static str,
    count: Option<T>,
) -> Result<Option<T>, ConfigError> {
    match count == Some(T::default()) {
        true => Err(wrong(argument, "0 lets nobody in; allow at least 1")),
        false => Ok(count),
    }
}

fn rate(
    argument: &'static str,
    text: Option<&str>,
    number: fn(&str) -> Option<u64>,
) -> Result<Option<Rate>, ConfigError> {
    let parse = |text: &str| {
        Rate::parse(text, number).ok_or_else(|| {
            let problem = format!("`{text}` is no rate, such as 20/s, or 20/s:100 with a burst");
            wrong(argument, problem)
        })
    };
    text.map(parse).transpose()
}

fn memory(text: Option<&str>, usual: Option<MemoryMax>) -> Result<Option<MemoryMax>, ConfigError> {
    match text {
        None => Ok(usual),
        Some("off") => Ok(None),
        Some(text) => {
            let parsed = text.parse().map(Some);
            parsed.map_err(|problem| wrong("memory-max", format!("`{text}`: {problem}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_not_named_has_a_default() {
        for args in [NetworkArgs::default(), NetworkArgs::defaults()] {
            assert_eq!(args.limits().expect("valid"), GossipLimits::default());
            assert_eq!(args.relay().expect("valid"), None);
        }
        let args = NetworkArgs {
            relay: Some(true),
            ..NetworkArgs::defaults()
        };
        assert_eq!(args.relay().expect("valid"), Some(RelayLimits::default()));
    }

    #[test]
    fn limits_of_a_relay_are_refused_where_there_is_none() {
        let args = NetworkArgs {
            relay_circuits: Some(3),
            ..NetworkArgs::defaults()
        };
        let error = args.relay().expect_err("refused");
        assert_eq!(error.key, "relay-circuits");
        assert!(error.to_string().contains("--relay"), "{error}");
    }

    #[test]
    fn limits_are_read() {
        let args = NetworkArgs {
            connections: Some(8),
            connect_rate: Some("2/s".into()),
            peer_frames: Some("10/s:11".into()),
            peer_bytes: Some("1MiB/s:4MiB".into()),
            memory_max: Some("off".into()),
            relay: Some(true),
            relay_circuits: Some(3),
            relay_bytes: Some("5KiB".into()),
            relay_time: Some("2m".into()),
            ..NetworkArgs::default()
        };
        let limits = args.limits().expect("valid");
        assert_eq!((limits.connections, limits.incoming), (8, 6));
        assert_eq!(limits.memory, None);
        assert_eq!(Some(limits.arrivals), Rate::new(2, 10));
        assert_eq!(Some(limits.frames), Rate::new(10, 11));
        assert_eq!(Some(limits.bytes), Rate::new(1 << 20, 4 << 20));
        let relay = args.relay().expect("valid").expect("it relays");
        assert_eq!((relay.circuits, relay.circuit_bytes), (3, 5 << 10));
        assert_eq!(relay.circuit_time, Duration::from_secs(120));
    }

    #[test]
    fn what_means_nothing_is_named() {
        type Spoil = fn(&mut NetworkArgs);
        let table: [(&str, &str, Spoil); 9] = [
            ("connections", "at least 1", |it| it.connections = Some(0)),
            ("connections-in", "300 is more than the 256", |it| {
                it.connections_in = Some(300);
            }),
            ("connections-per-peer", "at least 1", |it| {
                it.connections_per_peer = Some(0);
            }),
            ("connect-rate", "`5`", |it| {
                it.connect_rate = Some("5".into())
            }),
            ("peer-frames", "`1MiB/s`", |it| {
                it.peer_frames = Some("1MiB/s".into());
            }),
            ("peer-bytes", "256KiB/s", |it| {
                it.peer_bytes = Some("1KiB/s".into());
            }),
            ("memory-max", "`much`", |it| {
                it.memory_max = Some("much".into())
            }),
            ("relay-bytes", "`0`", |it| it.relay_bytes = Some("0".into())),
            ("relay-time", "1s to 30d", |it| {
                it.relay_time = Some("0s".into())
            }),
        ];
        for (argument, part, spoil) in table {
            let mut args = NetworkArgs::default();
            spoil(&mut args);
            let error = args.limits().map(|_| ()).and(args.relay().map(|_| ()));
            let error = error.expect_err(part);
            assert_eq!(error.key, argument);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
