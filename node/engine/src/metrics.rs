//! The metrics for operators, in the text format of Prometheus.

mod machine;
mod requests;
mod tickets;

pub(crate) use requests::Requests;
pub use tickets::Tickets;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tallymesh_node_ground::model::{Membership, Operation, SpaceStatus, Tally};
use tallymesh_node_store::Health;

/// Bytes of memory that the process uses, if the system reports them.
pub fn resident_bytes() -> Option<u64> {
    machine::resident().map(|bytes| bytes as u64)
}

/// The metrics of one node. Clones share them. Recording takes no lock that another task keeps for
/// long.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    adds: Counter,
    operations: Family<OpLabel, Counter>,
    keyed: Family<ResultLabel, Counter>,
    expired: Counter,
    commits: Counter,
    commit_seconds: Histogram,
    commit_bytes: Counter,
    batch_commands: Histogram,
    frames_in: Counter,
    frames_out: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    dropped: Counter,
    merged: Counter,
    absorbed: Counter,
    forgotten: Counter,
    renewals: Counter,
    links: Gauge,
    in_flight: Gauge,
    http_clients: Gauge,
    http_full: Counter,
    http_bodies: Gauge,
    resp_clients: Gauge,
    resp_commands: Counter,
    resp_refused: Counter,
    resp_cut_off: Counter,
    requests: Arc<Requests>,
    health: Health,
    refusals: Family<RefusalLabel, Counter>,
    spaces: SpaceGauges,
    panics: Family<PartLabel, Counter>,
}

/// A connection to HTTP.
pub struct HttpClient(Gauge);

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The routes and the folder that are measured in addition to the node's own work.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// The paths of the HTTP interface.
    pub routes: Vec<String>,
    /// The data folder, if there is one.
    pub data: Option<PathBuf>,
}

#[derive(Clone, Default)]
struct SpaceGauges {
    counters: Family<SpaceLabel, Gauge>,
    expiring: Family<SpaceLabel, Gauge>,
    shards: Family<SpaceLabel, Gauge>,
    key_bytes: Family<SpaceLabel, Gauge>,
    writers: Family<SpaceLabel, Gauge>,
    faults: Family<SpaceLabel, Gauge>,
    faults_attributed: Family<SpaceLabel, Gauge>,
    keyed: Family<SpaceLabel, Gauge>,
    withdrawn: Family<SpaceLabel, Gauge>,
    members: Family<SpaceLabel, Gauge>,
    attached: Family<SpaceLabel, Gauge>,
    waiting: Family<SpaceLabel, Gauge>,
    stuck_writers: Family<SpaceLabel, Gauge>,
    unacknowledged: Family<SpaceLabel, Gauge>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SpaceLabel {
    space: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OpLabel {
    op: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PartLabel {
    part: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabel {
    protocol: &'static str,
    code: &'static str,
}

impl SpaceGauges {
    fn register_keys(&self, registry: &mut Registry) {
        registry.register(
            "keyed",
            "Operations under idempotency keys that are remembered",
            self.keyed.clone(),
        );
        registry.register(
            "withdrawn",
            "Adds withdrawn here since the start, as another node had taken them under the same key",
            self.withdrawn.clone(),
        );
    }

    fn register_members(&self, registry: &mut Registry) {
        let mut gauge = |name, help, family: &Family<SpaceLabel, Gauge>| {
            registry.register(name, help, family.clone());
        };
        gauge(
            "members",
            "Members of the space, 0 while it is open",
            &self.members,
        );
        gauge(
            "attached",
            "Writers that this member takes care of",
            &self.attached,
        );
        gauge(
            "waiting",
            "Writers that are gone and not absorbed yet",
            &self.waiting,
        );
        gauge(
            "stuck_writers",
            "Those of them whose totals do not fit into this member's",
            &self.stuck_writers,
        );
        gauge(
            "unacknowledged",
            "Most transactions of members that any one member has not acknowledged",
            &self.unacknowledged,
        );
    }

    fn set_members(&self, label: &SpaceLabel, membership: Option<&Membership>) {
        let set = |family: &Family<SpaceLabel, Gauge>, value: u64| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            family.get_or_create(label).set(value);
        };
        let count = |of: fn(&Membership) -> usize| membership.map_or(0, of) as u64;
        set(&self.members, count(|it| it.members.len()));
        set(&self.attached, count(|it| it.attached_count));
        set(&self.waiting, count(|it| it.waiting_count));
        set(&self.stuck_writers, count(|it| it.stuck));
        let behind = membership.and_then(|it| it.members.iter().map(|it| it.behind).max());
        set(&self.unacknowledged, behind.unwrap_or(0));
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All metrics at zero, without routes and without a folder.
    pub fn new() -> Metrics {
        Metrics::of(Watched::default())
    }

    /// All metrics at zero.
    pub fn of(watched: Watched) -> Metrics {
        let mut all = Registry::default();
        let health = Health::default();
        let requests = Arc::new(Requests::new(&watched.routes));
        let registry = all.sub_registry_with_prefix("tallymesh");
        registry.register(
            "build",
            "The program, by its version",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(requests.clone()));
        registry.register_collector(Box::new(machine::Log));
        registry.register_collector(Box::new(machine::Store(health.clone())));
        if let Some(folder) = watched.data {
            registry.register_collector(Box::new(machine::Disk(folder, health.clone())));
        }
        let refusals = Family::<RefusalLabel, Counter>::default();
        registry.register(
            "refusals",
            "Requests, commands and frames that were refused, by the protocol and the stable code",
            refusals.clone(),
        );
        let panics = Family::<PartLabel, Counter>::default();
        registry.register(
            "panics",
            "Work of single clients that a fault of the program ended, by what it was of",
            panics.clone(),
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let http_full = counter(
            "http_full",
            "How often there were as many connections to HTTP as there may be",
        );
        let adds = counter("adds", "Adds made here, one for each counter of a bulk add");
        let commits = counter("commits", "Durable commits to the store");
        let commit_bytes = counter("commit_bytes", "Bytes of records written to the store");
        let frames_in = counter("frames_in", "Frames that came from peers");
        let frames_out = counter("frames_out", "Frames handed to transports");
        let bytes_in = counter("frame_bytes_in", "Bytes of frames that came from peers");
        let bytes_out = counter("frame_bytes_out", "Bytes of frames handed to transports");
        let dropped = counter(
            "frames_dropped",
            "Frames dropped: a full outbox, or a space that is not open here",
        );
        let merged = counter("shards_merged", "Shards taken over from peers");
        let renewals = counter(
            "renewals",
            "Times a space went on under another writer id, as somebody else wrote under it",
        );
        let absorbed = counter(
            "writers_absorbed",
            "Writers that were gone and whose part this node took over",
        );
        let forgotten = counter(
            "writers_forgotten",
            "Absorbed writers of which nothing is left here",
        );
        let expired = counter("expired", "Counters deleted here because they had expired");
        let resp_commands = counter("resp_commands", "Commands of Redis clients");
        let resp_refused = counter(
            "resp_refused",
            "Redis clients that were refused, as there were too many",
        );
        let resp_cut_off = counter(
            "resp_cut_off",
            "Redis clients that were cut off, as they did not read what they were sent",
        );
        let operations = Family::<OpLabel, Counter>::default();
        registry.register(
            "operations",
            "Operations made here that are no adds",
            operations.clone(),
        );
        let keyed = Family::<ResultLabel, Counter>::default();
        registry.register(
            "keyed_operations",
            "Operations asked for here under idempotency keys: done, replayed or reused",
            keyed.clone(),
        );
        let links = Gauge::default();
        registry.register("links", "Connections to peers", links.clone());
        let in_flight = Gauge::default();
        registry.register(
            "bytes_in_flight",
            "Bytes of frames that transports were given and have not sent yet",
            in_flight.clone(),
        );
        let http_clients = Gauge::default();
        registry.register("http_clients", "Connections to HTTP", http_clients.clone());
        let http_bodies = Gauge::default();
        registry.register(
            "http_body_bytes",
            "Bytes under way of large requests and socket messages that are not whole or not answered",
            http_bodies.clone(),
        );
        let resp_clients = Gauge::default();
        registry.register(
            "resp_clients",
            "Connected Redis clients",
            resp_clients.clone(),
        );
        let commit_seconds = Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        registry.register_with_unit(
            "commit",
            "How long a durable commit takes",
            Unit::Seconds,
            commit_seconds.clone(),
        );
        let batch_commands = Histogram::new(exponential_buckets(1.0, 4.0, 7));
        registry.register(
            "batch_commands",
            "Commands that shared one commit",
            batch_commands.clone(),
        );
        let spaces = SpaceGauges::default();
        spaces.register_members(registry);
        spaces.register_keys(registry);
        registry.register("counters", "Counters that exist", spaces.counters.clone());
        registry.register(
            "expiring",
            "Counters that have an expiry",
            spaces.expiring.clone(),
        );
        registry.register("shards", "Shards of those counters", spaces.shards.clone());
        registry.register(
            "key_bytes",
            "Bytes that keys take in the table of keys, which holds at most 2^32",
            spaces.key_bytes.clone(),
        );
        registry.register("writers", "Writers that are known", spaces.writers.clone());
        registry.register(
            "faults",
            "Times it showed that two processes wrote under one writer id",
            spaces.faults.clone(),
        );
        registry.register(
            "faults_attributed",
            "Faults of which it is known which link brought them",
            spaces.faults_attributed.clone(),
        );
        all.register_collector(Box::new(machine::Process::new()));
        Metrics {
            registry: Arc::new(Mutex::new(all)),
            adds,
            operations,
            keyed,
            expired,
            commits,
            commit_seconds,
            commit_bytes,
            batch_commands,
            frames_in,
            frames_out,
            bytes_in,
            bytes_out,
            dropped,
            merged,
            absorbed,
            forgotten,
            renewals,
            links,
            in_flight,
            http_clients,
            http_full,
            http_bodies,
            resp_clients,
            resp_commands,
            resp_refused,
            resp_cut_off,
            requests,
            health,
            refusals,
            spaces,
            panics,
        }
    }

    /// All metrics as text, with the spaces as they are in `spaces`.
    pub fn text(&self, spaces: &[SpaceStatus]) -> String {
        for status in spaces {
            let label = SpaceLabel {
                space: status.space.clone(),
            };
            let set = |family: &Family<SpaceLabel, Gauge>, value: u64| {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                family.get_or_create(&label).set(value);
            };
            set(&self.spaces.counters, status.counters as u64);
            set(&self.spaces.expiring, status.expiring as u64);
            set(&self.spaces.shards, status.shards as u64);
            set(&self.spaces.key_bytes, status.key_bytes as u64);
            set(&self.spaces.writers, status.writers as u64);
            set(&self.spaces.faults, status.faults);
            let attributed = status.evidence.iter().filter(|it| it.brought_by.is_some());
            set(&self.spaces.faults_attributed, attributed.count() as u64);
            set(&self.spaces.keyed, status.keyed as u64);
            set(&self.spaces.withdrawn, status.withdrawn);
            let membership = status.membership.as_ref();
            self.spaces.set_members(&label, membership);
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry());
        text
    }

    /// Whether the store answers.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The metrics of requests over HTTP.
    #[inline]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Counts a panic in the work of one client.
    pub(crate) fn panicked(&self, part: &'static str) {
        self.panics.get_or_create(&PartLabel { part }).inc();
    }

    /// Counts a refusal over a protocol: `http`, `redis` or `sync`.
    pub fn refused(&self, protocol: &'static str, code: &'static str) {
        let label = RefusalLabel { protocol, code };
        self.refusals.get_or_create(&label).inc();
    }

    /// Lets another part of the node add its metrics.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(self.registry().sub_registry_with_prefix("tallymesh"))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        // Metrics that are half added are shown in that state.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn added(&self, adds: usize) {
        self.adds.inc_by(adds as u64);
    }

    pub(crate) fn operations(&self, ops: &[Operation]) {
        for operation in ops {
            match operation.name() {
                "add" => self.adds.inc(),
                op => self.operations.get_or_create(&OpLabel { op }).inc(),
            };
        }
    }

    pub(crate) fn expired(&self, counters: usize) {
        self.expired.inc_by(counters as u64);
    }

    pub(crate) fn batch(&self, commands: usize) {
        if commands > 0 {
            self.batch_commands.observe(commands as f64);
        }
    }

    pub(crate) fn commit(&self, took: Duration, bytes: u64) {
        self.commits.inc();
        self.commit_seconds.observe(took.as_secs_f64());
        self.commit_bytes.inc_by(bytes);
    }

    pub(crate) fn frame_in(&self, bytes: usize) {
        self.frames_in.inc();
        self.bytes_in.inc_by(bytes as u64);
    }

    pub(crate) fn frame_out(&self, bytes: usize) {
        self.frames_out.inc();
        self.bytes_out.inc_by(bytes as u64);
    }

    /// The bytes of frames that transports were given and have not sent yet.
    pub(crate) fn in_flight(&self) -> Gauge {
        self.in_flight.clone()
    }

    pub(crate) fn dropped_frame(&self) {
        self.dropped.inc();
    }

    pub(crate) fn merged(&self, shards: usize) {
        self.merged.inc_by(shards as u64);
    }

    pub(crate) fn renewed(&self) {
        self.renewals.inc();
    }

    pub(crate) fn tended(&self, tally: Tally) {
        self.absorbed.inc_by(tally.absorbed as u64);
        self.forgotten.inc_by(tally.forgotten as u64);
        let results = [
            ("done", tally.keyed),
            ("replayed", tally.replayed),
            ("reused", tally.reused),
        ];
        for (result, count) in results.into_iter().filter(|it| it.1 > 0) {
            let counter = self.keyed.get_or_create(&ResultLabel { result });
            counter.inc_by(count as u64);
        }
    }

    /// Counts a connection to HTTP until the returned value is dropped.
    pub fn http_client(&self) -> HttpClient {
        self.http_clients.inc();
        HttpClient(self.http_clients.clone())
    }

    /// Counts a connection to HTTP that was refused because the limit is reached.
    pub fn http_full(&self) {
        self.http_full.inc();
    }

    /// Sets the bytes of HTTP request bodies that are in memory.
    pub fn http_bodies(&self, bytes: usize) {
        self.http_bodies
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Sets the number of Redis clients.
    pub fn resp_clients(&self, clients: usize) {
        self.resp_clients
            .set(i64::try_from(clients).unwrap_or(i64::MAX));
    }

    /// Counts commands of Redis clients.
    pub fn resp_commands(&self, commands: u64) {
        self.resp_commands.inc_by(commands);
    }

    /// Counts a Redis client that was refused because there were too many.
    pub fn resp_refused(&self) {
        self.resp_refused.inc();
    }

    /// Counts a Redis client that was disconnected because it read too slowly.
    pub fn resp_cut_off(&self) {
        self.resp_cut_off.inc();
    }

    pub(crate) fn links(&self, links: usize) {
        self.links.set(i64::try_from(links).unwrap_or(i64::MAX));
    }
}
