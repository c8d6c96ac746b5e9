//! Node info, which nodes exchange: version, wall clock, uptime, free disk.
//!
//! It is an empty request of the protocol `/tallymesh/about/1`, and a response in JSON
//! (docs/protocol.md, section 7). Counters expire by the median of the members' clocks that are known
//! by it. Operators see the rest, with a warning if clocks differ.

use super::codec::read_up_to;
use futures::prelude::*;
use libp2p::request_response::{self, OutboundRequestId};
use libp2p::{PeerId, StreamProtocol};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tallymesh_core::WriterId;
use tallymesh_node_engine::network::{AboutRow, CopyTold};
use tallymesh_node_ground::clock::WallClock;

/// The protocol's name and version.
pub(super) const PROTOCOL: StreamProtocol = StreamProtocol::new("/tallymesh/about/1");

/// Most bytes of a question, which is empty so far, and of an answer.
const BYTES_MAX: usize = 1024;

/// Longest name of a version.
const VERSION_BYTES_MAX: usize = 64;

/// Larger numbers are reduced to this one, because all programs read numbers up to it exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// How often this node asks each node.
const INTERVAL: Duration = Duration::from_secs(60);

/// After this time a node is asked again whose clock is awaited, and after twice as long each further time.
const AGAIN: Duration = Duration::from_millis(200);

/// Among so many last answers, the fastest one counts, because its offset is the most exact.
const SAMPLES: usize = 5;

/// A clock offset above this, after subtracting the uncertainty, causes a warning.
const OFFSET_MAX_MS: u64 = 1000;

/// How often this node warns of one node's clock.
const WARN_INTERVAL: Duration = Duration::from_secs(3600);

/// Most nodes for which the time of the last warning is remembered.
const WARNED_MAX: usize = 1024;

/// The node info in an answer. Readers ignore unknown fields.
#[derive(Debug, Serialize, Deserialize)]
struct NodeInfo {
    version: String,
    clock_ms: u64,
    uptime_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk_free_percent: Option<u8>,
    /// A node that runs on a copy of the asking one's data folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copy: Option<CopyTold>,
}

/// An answer, and the time until it arrived.
#[derive(Debug)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    took: Duration,
    /// The wall clock of this node when it arrived.
    at_ms: u64,
}

impl Answer {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Questions without content, and answers with the time that they took. The time begins when the
/// question is written, because the stream has to be opened before that.
#[derive(Clone)]
pub(super) struct NodeInfoCodec {
    clock: WallClock,
    asked: Option<Instant>,
}

impl NodeInfoCodec {
    pub(super) fn new(clock: WallClock) -> NodeInfoCodec {
        NodeInfoCodec { clock, asked: None }
    }
}

impl request_response::Codec for NodeInfoCodec {
    type Protocol = StreamProtocol;
    type Request = ();
    type Response = Answer;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<()>
    where
        T: AsyncRead + Unpin + Send,
    {
        read_up_to(io, BYTES_MAX).await.map(|_| ())
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> io::Result<Answer>
    where
        T: AsyncRead + Unpin + Send,
    {
        let bytes = read_up_to(io, BYTES_MAX).await?;
        let took = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        let at_ms = self.clock.now();
        Ok(Answer { bytes, took, at_ms })
    }

    async fn write_request<T>(&mut self, _: &StreamProtocol, io: &mut T, (): ()) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        self.asked = Some(Instant::now());
        io.close().await
    }

    async fn write_response<T>(
        &mut self,
        _: &StreamProtocol,
        io: &mut T,
        answer: Answer,
    ) -> io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        io.write_all(&answer.bytes).await?;
        io.close().await
    }
}

/// A clock's offset, measured once.
#[derive(Clone, Copy, Debug)]
struct Sample {
    offset_ms: i64,
    took: Duration,
}

/// The questions to one connected node.
struct NodeQueries {
    open: Option<OutboundRequestId>,
    next: Instant,
    /// How many questions failed before the first answer.
    failures: u32,
    samples: VecDeque<Sample>,
}

/// Asks the connected nodes for their info, and answers with this node's.
pub(super) struct NodeInfos {
    clock: WallClock,
    begun: Instant,
    /// A folder on the disk of the state.
    folder: Option<PathBuf>,
    nodes: HashMap<PeerId, NodeQueries>,
    warned: HashMap<PeerId, Instant>,
}

impl NodeInfos {
    pub(super) fn new(clock: WallClock, folder: Option<PathBuf>) -> NodeInfos {
        NodeInfos {
            clock,
            begun: Instant::now(),
            folder,
            nodes: HashMap::new(),
            warned: HashMap::new(),
        }
    }

    /// Adds a connected node, which is then asked.
    pub(super) fn connected(&mut self, peer: PeerId, now: Instant) {
        let new = NodeQueries {
            open: None,
            next: now,
            failures: 0,
            samples: VecDeque::new(),
        };
        self.nodes.insert(peer, new);
    }

    pub(super) fn disconnected(&mut self, peer: &PeerId) {
        self.nodes.remove(peer);
    }

    /// Asks the nodes that are due with `ask`. At most one question to each is open.
    pub(super) fn ask(&mut self, now: Instant, mut ask: impl FnMut(&PeerId) -> OutboundRequestId) {
        for (peer, asked) in &mut self.nodes {
            if asked.open.is_none() && asked.next <= now {
                asked.open = Some(ask(peer));
                asked.next = now + INTERVAL;
            }
        }
    }

    /// Records that no answer will arrive.
    pub(super) fn failed(&mut self, peer: &PeerId, id: OutboundRequestId, now: Instant) {
        let Some(asked) = self.close(peer, id) else {
            return;
        };
        if asked.samples.is_empty() {
            asked.next = now + AGAIN.saturating_mul(1 << asked.failures).min(INTERVAL);
            asked.failures = (asked.failures + 1).min(u32::BITS - 1);
        }
    }

    fn close(&mut self, peer: &PeerId, id: OutboundRequestId) -> Option<&mut NodeQueries> {
        let asked = self.nodes.get_mut(peer)?;
        asked.open.take_if(|open| *open == id)?;
        Some(asked)
    }

    /// Records an answer. Returns `None` if it can't be read.
    pub(super) fn answered(
        &mut self,
        peer: &PeerId,
        id: OutboundRequestId,
        answer: &Answer,
    ) -> Option<(AboutRow, Option<CopyTold>)> {
        let asked = self.close(peer, id)?;
        let told = read(&answer.bytes)?;
        let new = Sample::of(told.clock_ms, answer);
        // If one of both clocks was set since, the samples before that say nothing of today.
        asked.samples.retain(|old| !new.contradicts(*old));
        asked.samples.truncate(SAMPLES - 1);
        asked.samples.push_front(new);
        let best = asked.samples.iter().min_by_key(|sample| sample.took)?;
        let row = AboutRow {
            version: told.version,
            clock_offset_ms: best.offset_ms,
            clock_error_ms: best.error_ms(),
            rtt_us: u64::try_from(best.took.as_micros()).unwrap_or(u64::MAX),
            uptime_ms: told.uptime_ms.min(EXACT_MAX),
            disk_free_percent: told.disk_free_percent,
        };
        Some((row, told.copy))
    }

    /// Whether the operator should be warned of this node's clock.
    pub(super) fn is_to_be_warned_of(
        &mut self,
        peer: PeerId,
        row: &AboutRow,
        now: Instant,
    ) -> bool {
        let surely = row.clock_offset_ms.unsigned_abs();
        if surely.saturating_sub(row.clock_error_ms) <= OFFSET_MAX_MS {
            return false;
        }
        let is_recent = |at: &Instant| now.duration_since(*at) < WARN_INTERVAL;
        if self.warned.len() >= WARNED_MAX {
            self.warned.retain(|_, at| is_recent(at));
        }
        let told = self.warned.get(&peer).is_some_and(is_recent);
        if told || self.warned.len() >= WARNED_MAX {
            return false;
        }
        self.warned.insert(peer, now);
        true
    }

    /// The answer with this node's info, to a node of whose data folder a copy may be known.
    pub(super) fn own(&self, copy: Option<CopyTold>) -> Answer {
        let mut told = NodeInfo {
            version: env!("CARGO_PKG_VERSION").into(),
            clock_ms: self.clock.now(),
            uptime_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            disk_free_percent: self.disk_free_percent(),
            copy,
        };
        // Encoding such a value does not fail. If it did, the answer would be empty.
        let mut bytes = serde_json::to_vec(&told).unwrap_or_default();
        if bytes.len() > BYTES_MAX {
            told.copy = None;
            bytes = serde_json::to_vec(&told).unwrap_or_default();
        }
        Answer {
            bytes,
            took: Duration::ZERO,
            at_ms: told.clock_ms,
        }
    }

    #[cfg(unix)]
    fn disk_free_percent(&self) -> Option<u8> {
        let disk = rustix::fs::statvfs(self.folder.as_deref()?).ok()?;
        let percent = u128::from(disk.f_bavail) * 100;
        let percent = percent.checked_div(disk.f_blocks.into())?;
        u8::try_from(percent).ok()
    }

    #[cfg(not(unix))]
    fn disk_free_percent(&self) -> Option<u8> {
        let _ = &self.folder;
        None
    }
}

impl Sample {
    /// The other clock was read between question and answer, most likely in the middle.
    fn of(clock_ms: u64, answer: &Answer) -> Sample {
        let middle = i128::from(answer.at_ms) - answer.took.as_millis() as i128 / 2;
        let offset = i128::from(clock_ms) - middle;
        let most = i128::from(EXACT_MAX);
        Sample {
            offset_ms: offset.clamp(-most, most) as i64, // it was clamped to less
            took: answer.took,
        }
    }

    /// Whether the offset has changed surely and by more than clocks drift apart.
    fn contradicts(self, other: Sample) -> bool {
        let errors = self.error_ms().saturating_add(other.error_ms());
        let changed = self.offset_ms.abs_diff(other.offset_ms);
        changed.saturating_sub(errors) > OFFSET_MAX_MS
    }

    fn error_ms(self) -> u64 {
        let half = self.took.as_micros().div_ceil(2000);
        u64::try_from(half).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Reads node info; `None` if it makes no sense.
fn read(bytes: &[u8]) -> Option<NodeInfo> {
    let mut told: NodeInfo = serde_json::from_slice(bytes).ok()?;
    let version = &told.version;
    let sensible = (1..=VERSION_BYTES_MAX).contains(&version.len())
        && version.bytes().all(|byte| byte.is_ascii_graphic());
    told.disk_free_percent.take_if(|percent| *percent > 100);
    // It is shown to people.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    told.copy.take_if(|copy| {
        let address = copy.address.as_deref();
        WriterId::parse(&copy.writer).is_none() || !address.is_none_or(is_plain)
    });
    sensible.then_some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::request_response::ProtocolSupport;
    use tallymesh_node_engine::network::AboutRow;

    /// Asks once at `now`. Returns the id of the question.
    fn ask(node_infos: &mut NodeInfos, now: Instant) -> OutboundRequestId {
        // Only a behaviour can make the ids of requests.
        let protocols = [(PROTOCOL, ProtocolSupport::Full)];
        let codec = NodeInfoCodec::new(WallClock::default());
        let mut behaviour = request_response::Behaviour::with_codec(
            codec,
            protocols,
            request_response::Config::default(),
        );
        let mut ids = Vec::new();
        node_infos.ask(now, |peer| {
            let id = behaviour.send_request(peer, ());
            ids.push(id);
            id
        });
        assert_eq!(ids.len(), 1, "one is due");
        ids[0]
    }

    fn answer(told: &str, took_ms: u64, at_ms: u64) -> Answer {
        Answer {
            bytes: told.as_bytes().to_vec(),
            took: Duration::from_millis(took_ms),
            at_ms,
        }
    }

    #[test]
    fn the_answer_that_took_least_says_what_the_clock_is_off() {
        let mut now = Instant::now();
        let mut node_infos = NodeInfos::new(WallClock::default(), None);
        let peer = PeerId::random();
        node_infos.connected(peer, now);
        let mut told = Vec::new();
        // The other clock is 5 s ahead. Slow answers measure it less exactly.
        for (took, clock) in [(100, 14_990), (10, 14_995), (400, 15_150), (60, 14_999)] {
            let id = ask(&mut node_infos, now);
            node_infos.ask(now, |_| panic!("one is open"));
            let json = format!(r#"{{"version":"9","clock_ms":{clock},"uptime_ms":7,"new":[1]}}"#);
            let row = node_infos.answered(&peer, id, &answer(&json, took, 10_000));
            let (row, _) = row.expect("it makes sense");
            told.push((row.clock_offset_ms, row.clock_error_ms));
            node_infos.ask(now, |_| panic!("not yet"));
            now += INTERVAL;
        }
        assert_eq!(told, [(5_040, 51), (5_000, 6), (5_000, 6), (5_000, 6)]);
    }

    #[test]
    fn a_clock_that_was_set_is_known_with_the_next_answer() {
        let mut now = Instant::now();
        let mut node_infos = NodeInfos::new(WallClock::default(), None);
        let peer = PeerId::random();
        node_infos.connected(peer, now);
        let mut told = Vec::new();
        for (took, clock) in [(10, 7_209_995), (100, 9_950), (400, 10_700)] {
            let id = ask(&mut node_infos, now);
            let json = format!(r#"{{"version":"9","clock_ms":{clock},"uptime_ms":7}}"#);
            let row = node_infos.answered(&peer, id, &answer(&json, took, 10_000));
            told.push(row.expect("it makes sense").0.clock_offset_ms);
            now += INTERVAL;
        }
        assert_eq!(told, [7_200_000, 0, 0]);
    }

    #[test]
    fn nonsense_tells_nothing() {
        for bytes in [
            "",
            "[]",
            "{}",
            r#"{"version":"1","clock_ms":-1,"uptime_ms":0}"#,
            r#"{"version":"1","clock_ms":1e300,"uptime_ms":0}"#,
            r#"{"version":"","clock_ms":1,"uptime_ms":0}"#,
            r#"{"version":"a\nb","clock_ms":1,"uptime_ms":0}"#,
        ] {
            assert!(read(bytes.as_bytes()).is_none(), "{bytes}");
        }
        let long = "1".repeat(VERSION_BYTES_MAX + 1);
        let long = format!(r#"{{"version":"{long}","clock_ms":1,"uptime_ms":0}}"#);
        assert!(read(long.as_bytes()).is_none());
        let share = r#"{"version":"1","clock_ms":1,"uptime_ms":0,"disk_free_percent":101}"#;
        assert_eq!(
            read(share.as_bytes()).map(|told| told.disk_free_percent),
            Some(None)
        );
        let own = NodeInfos::new(WallClock::default(), Some(".".into())).own(None);
        let told = read(&own.bytes).expect("what is told can be read");
        assert!(told.disk_free_percent.is_some() || !cfg!(unix));
        assert_eq!(told.copy, None);
    }

    #[test]
    fn a_node_is_told_of_the_copy_of_its_data_folder() {
        let node_infos = NodeInfos::new(WallClock::default(), None);
        let copy = |writer: &str, address: &str| CopyTold {
            space: "default".to_owned(),
            writer: writer.to_owned(),
            address: Some(address.to_owned()),
        };
        let told = |copy: CopyTold| {
            let answer = node_infos.own(Some(copy));
            assert!(answer.len() <= BYTES_MAX);
            read(&answer.bytes).expect("it makes sense").copy
        };
        let writer = "ab".repeat(16);
        let good = copy(&writer, "/ip4/127.0.0.1/tcp/1");
        assert_eq!(told(good.clone()), Some(good));
        for bad in [copy("ab", "/ip4/127.0.0.1/tcp/1"), copy(&writer, "a\nb")] {
            assert_eq!(told(bad), None);
        }
        // The rest is told also where it leaves no room.
        assert_eq!(told(copy(&writer, &"a".repeat(BYTES_MAX))), None);
    }

    #[test]
    fn an_extreme_clock_is_an_extreme_offset() {
        for (clock, at, offset) in [
            (u64::MAX, 0, EXACT_MAX as i64),
            (0, u64::MAX, -(EXACT_MAX as i64)),
            (0, 1_000, -1_000),
        ] {
            let sample = Sample::of(clock, &answer("", 0, at));
            assert_eq!(sample.offset_ms, offset);
        }
    }

    #[test]
    fn a_clock_that_is_surely_off_is_warned_of_once_an_hour() {
        let mut node_infos = NodeInfos::new(WallClock::default(), None);
        let (peer, now) = (PeerId::random(), Instant::now());
        let row = |offset, error| AboutRow {
            version: "1".into(),
            clock_offset_ms: offset,
            clock_error_ms: error,
            rtt_us: 1_000,
            uptime_ms: 0,
            disk_free_percent: None,
        };
        let mut warned = |row: &AboutRow, at| node_infos.is_to_be_warned_of(peer, row, at);
        assert!(!warned(&row(1_000, 0), now));
        assert!(!warned(&row(-3_000, 2_500), now));
        assert!(warned(&row(-3_000, 100), now));
        let almost = now + WARN_INTERVAL - Duration::from_secs(1);
        assert!(!warned(&row(i64::MIN, 0), almost));
        assert!(warned(&row(i64::MIN, 0), now + WARN_INTERVAL));
    }
}
