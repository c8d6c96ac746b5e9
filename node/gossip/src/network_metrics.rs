//! Metrics of the network: traffic by protocol and by space, and refusals.
//!
//! Frames and pushes are counted without the bytes that libp2p adds around them. libp2p counts the
//! real traffic of each transport itself (`tallymesh_libp2p_bandwidth`).

use super::reason::Reason;
use libp2p::gossipsub::{DataTransform, Message, RawMessage, TopicHash};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tallymesh_node_engine::driver::Handle;
use tallymesh_node_engine::network::NodeRow;

/// The protocol of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Frames of the sync machine from peer to peer.
    Sync,
    /// Frames by gossip.
    Push,
    /// Questions and answers of audits.
    Audit,
    /// Node info.
    About,
    /// Tickets that are shown.
    Join,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Sync => "sync",
            Protocol::Push => "push",
            Protocol::Audit => "audit",
            Protocol::About => "about",
            Protocol::Join => "join",
        }
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// It came from a peer.
    In,
    /// It goes to a peer.
    Out,
}

impl Direction {
    const ALL: [Direction; 2] = [Direction::In, Direction::Out];

    fn name(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProtocolLabels {
    protocol: &'static str,
    direction: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SpaceLabels {
    space: String,
    direction: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// A number of messages, and their bytes.
#[derive(Clone)]
struct Count {
    messages: Counter,
    bytes: Counter,
}

impl Count {
    fn add(&self, bytes: usize) {
        self.messages.inc();
        self.bytes.inc_by(bytes as u64);
    }
}

/// The counts of one space, by direction.
type SpaceCounts = [Count; 2];

/// The metrics of the network. Clones share them.
#[derive(Clone)]
pub(super) struct NetworkMetrics {
    messages: Family<ProtocolLabels, Counter>,
    bytes: Family<ProtocolLabels, Counter>,
    space_messages: Family<SpaceLabels, Counter>,
    space_bytes: Family<SpaceLabels, Counter>,
    /// The counts of the spaces that had traffic, so that a frame need not make a label.
    spaces: Arc<Mutex<HashMap<Box<str>, SpaceCounts>>>,
    fresh: Counter,
    refused: Family<ReasonLabel, Counter>,
    slowed: Counter,
}

impl NetworkMetrics {
    /// Makes metrics of zero, and adds them to the registry.
    pub(super) fn register(registry: &mut Registry) -> NetworkMetrics {
        let metrics = NetworkMetrics {
            messages: Family::default(),
            bytes: Family::default(),
            space_messages: Family::default(),
            space_bytes: Family::default(),
            spaces: Arc::default(),
            fresh: Counter::default(),
            refused: Family::default(),
            slowed: Counter::default(),
        };
        registry.register(
            "network_messages",
            "Messages from and to nodes, by protocol; a push counts once, however many it goes to",
            metrics.messages.clone(),
        );
        registry.register(
            "network_bytes",
            "Bytes of those messages, without what libp2p adds",
            metrics.bytes.clone(),
        );
        registry.register(
            "network_space_messages",
            "Frames and pushes from and to nodes, by space",
            metrics.space_messages.clone(),
        );
        registry.register(
            "network_space_bytes",
            "Bytes of those frames and pushes",
            metrics.space_bytes.clone(),
        );
        registry.register(
            "network_pushes_fresh",
            "Pushes that came for the first time; all others that came were duplicates",
            metrics.fresh.clone(),
        );
        registry.register(
            "network_refused",
            "What was refused to peers and strangers, by reason",
            metrics.refused.clone(),
        );
        registry.register(
            "network_slowed",
            "Frames that had to wait, as their peer sent more than it may",
            metrics.slowed.clone(),
        );
        metrics
    }

    /// Counts a message.
    pub(super) fn count(&self, protocol: Protocol, direction: Direction, bytes: usize) {
        let labels = ProtocolLabels {
            protocol: protocol.name(),
            direction: direction.name(),
        };
        self.messages.get_or_create(&labels).inc();
        self.bytes.get_or_create(&labels).inc_by(bytes as u64);
    }

    /// Counts a frame or a push of a space. There may be any number of spaces that are not open, so
    /// these are not counted.
    pub(super) fn count_space(
        &self,
        space: &str,
        direction: Direction,
        bytes: usize,
        is_open: impl FnOnce(&str) -> bool,
    ) {
        let mut spaces = self.spaces();
        if let Some(counts) = spaces.get(space) {
            return counts[direction as usize].add(bytes);
        }
        if is_open(space) {
            let counts = Direction::ALL.map(|direction| self.of_space(space, direction));
            counts[direction as usize].add(bytes);
            spaces.insert(space.into(), counts);
        }
    }

    fn of_space(&self, space: &str, direction: Direction) -> Count {
        let labels = SpaceLabels {
            space: space.to_owned(),
            direction: direction.name(),
        };
        Count {
            messages: self.space_messages.get_or_create_owned(&labels),
            bytes: self.space_bytes.get_or_create_owned(&labels),
        }
    }

    fn spaces(&self) -> MutexGuard<'_, HashMap<Box<str>, SpaceCounts>> {
        // Counting does not panic. If it did, the counts would be valid.
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a push that had not arrived before.
    pub(super) fn fresh(&self) {
        self.fresh.inc();
    }

    pub(super) fn refused(&self, reason: Reason) {
        let reason = reason.name();
        self.refused.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a frame that had to wait.
    pub(super) fn slowed(&self) {
        self.slowed.inc();
    }
}

/// The prefix of the topics of pushes; the name of the space follows.
pub(super) const TOPIC: &str = "/tallymesh/space/1/";

/// Counts the pushes that gossipsub receives, including duplicates, and those that it sends. It
/// changes nothing.
#[derive(Clone)]
pub(super) struct Pushes {
    metrics: NetworkMetrics,
    handle: Handle,
}

impl Pushes {
    pub(super) fn new(metrics: NetworkMetrics, handle: Handle) -> Pushes {
        Pushes { metrics, handle }
    }

    fn count(&self, topic: &TopicHash, direction: Direction, bytes: usize) {
        self.metrics.count(Protocol::Push, direction, bytes);
        if let Some(space) = topic.as_str().strip_prefix(TOPIC) {
            let is_open = |space: &str| self.handle.space(space).is_ok();
            self.metrics.count_space(space, direction, bytes, is_open);
        }
    }
}

impl DataTransform for Pushes {
    fn inbound_transform(&self, raw: RawMessage) -> io::Result<Message> {
        self.count(&raw.topic, Direction::In, raw.data.len());
        Ok(Message {
            source: raw.source,
            data: raw.data,
            sequence_number: raw.sequence_number,
            topic: raw.topic,
        })
    }

    fn outbound_transform(&self, topic: &TopicHash, data: Vec<u8>) -> io::Result<Vec<u8>> {
        self.count(topic, Direction::Out, data.len());
        Ok(data)
    }
}

/// Counts a message in the row of the node with which it was exchanged.
pub(super) fn count_with(
    row: &mut NodeRow,
    protocol: Protocol,
    direction: Direction,
    bytes: usize,
) {
    let bytes = bytes as u64;
    let flow = match protocol {
        Protocol::Sync => &mut row.traffic.sync,
        Protocol::Audit => &mut row.traffic.audit,
        Protocol::About => &mut row.traffic.about,
        Protocol::Join => &mut row.traffic.join,
        Protocol::Push => {
            row.traffic.push.messages_in += 1;
            row.traffic.push.bytes_in += bytes;
            return;
        }
    };
    match direction {
        Direction::In => {
            flow.messages_in += 1;
            flow.bytes_in += bytes;
        }
        Direction::Out => {
            flow.messages_out += 1;
            flow.bytes_out += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn only_open_spaces_with_traffic_have_metrics() {
        let mut registry = Registry::default();
        let metrics = NetworkMetrics::register(&mut registry);
        let is_open = |space: &str| space != "strange";
        for (space, direction, bytes) in [
            ("a", Direction::In, 5),
            ("a", Direction::In, 7),
            ("a", Direction::Out, 1),
            ("strange", Direction::In, 100),
        ] {
            metrics.count_space(space, direction, bytes, is_open);
        }
        metrics.count(Protocol::Push, Direction::In, 3);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        for line in [
            "network_space_messages_total{space=\"a\",direction=\"in\"} 2\n",
            "network_space_bytes_total{space=\"a\",direction=\"in\"} 12\n",
            "network_space_bytes_total{space=\"a\",direction=\"out\"} 1\n",
            "network_bytes_total{protocol=\"push\",direction=\"in\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("strange"), "{text}");
    }
}
