//! Nodes, each a process of its own on loopback, and what their figures tell.

use crate::measure::cpu_seconds;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::ops::{AddAssign, Sub};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a node may take to start, or to hear of all that another one has.
const START: Duration = Duration::from_secs(60);
const HEAR: Duration = Duration::from_secs(300);
/// How often it is looked whether it is there. Each look takes processor time from those who work.
const POLL: Duration = Duration::from_millis(50);
/// The file that a node writes its addresses to.
const READY_FILE: &str = "ready.json";

/// A node that listens. Dropped, it is ended.
pub(super) struct Node {
    child: Child,
    folder: Arc<tempfile::TempDir>,
    /// The address of its HTTP.
    pub(super) base: String,
    /// The port of its Redis protocol.
    pub(super) resp: u16,
    /// Where other nodes reach it.
    pub(super) listen: String,
}

impl Node {
    /// Starts a node that keeps its state in memory: disks are not what is measured.
    pub(super) fn start(program: &Path, peers: &[String]) -> Result<Node> {
        let folder = Arc::new(tempfile::tempdir()?);
        Node::start_in(program, &folder, &["--durability", "memory"], peers)
    }

    /// Starts a node in a folder, which may be that of one that ended, with further arguments.
    pub(super) fn start_in(
        program: &Path,
        folder: &Arc<tempfile::TempDir>,
        arguments: &[&str],
        peers: &[String],
    ) -> Result<Node> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.path().join("log"))?;
        let ready = folder.path().join(READY_FILE);
        // The file of an earlier start must not be taken for this one's.
        let _ = fs::remove_file(&ready);
        let mut command = Command::new(program);
        command
            .args(["up", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"])
            .args(["--listen", "/ip4/127.0.0.1/tcp/0"])
            .args(arguments)
            .arg("--data")
            .arg(folder.path().join("data"))
            .arg("--ready-file")
            .arg(&ready);
        for peer in peers {
            command.args(["--peer", peer]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{}", program.display()))?;
        let mut node = Node {
            child,
            folder: folder.clone(),
            base: String::new(),
            resp: 0,
            listen: String::new(),
        };
        let facts = node.wait_for(&ready)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let of = |name: &str| text(&facts[name]).with_context(|| format!("no {name}: {facts}"));
        node.base = of("http")?.trim_end_matches('/').to_owned();
        let port = of("resp")?.rsplit(':').next().map(str::parse);
        node.resp = port.context("no port")??;
        node.listen = text(&facts["listen"][0]).context("it listens nowhere")?;
        Ok(node)
    }

    /// The folder in which it keeps its data, and its log.
    pub(super) fn folder(&self) -> &Arc<tempfile::TempDir> {
        &self.folder
    }

    fn wait_for(&mut self, ready: &Path) -> Result<Value> {
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(ready) {
                return Ok(serde_json::from_str(&text)?);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("a node ended: {status}");
            }
            if begun.elapsed() > START {
                bail!("a node did not write its addresses");
            }
            thread::sleep(POLL);
        }
    }

    pub(super) fn get(&self, path: &str) -> Result<String> {
        let mut answer = ureq::get(format!("{}{path}", self.base)).call()?;
        Ok(answer.body_mut().read_to_string()?)
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Result<String> {
        let mut answer = ureq::post(format!("{}{path}", self.base)).send(body)?;
        Ok(answer.body_mut().read_to_string()?)
    }

    /// What it says of its space: counters, shards, writers and the digest of its version vector.
    pub(super) fn space(&self) -> Result<Value> {
        let status: Value = serde_json::from_str(&self.get("/v1/status")?)?;
        Ok(status["spaces"][0].clone())
    }

    /// Waits until this node holds exactly what another one holds, which writes no more.
    pub(super) fn wait_for_all_of(&self, other: &Node) -> Result<()> {
        let wanted = other.space()?["digest"].clone();
        let begun = Instant::now();
        while self.space()?["digest"] != wanted {
            if begun.elapsed() > HEAR {
                bail!("a node did not hear of all that another one has");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// To how many nodes links are up on which its space is synced.
    pub(super) fn links(&self) -> Result<usize> {
        let answer: Value = serde_json::from_str(&self.get("/v1/peers")?)?;
        let rows = answer["peers"].as_array().context("no peers")?;
        let up = |row: &&Value| row["kind"] == "libp2p" && row["state"] == "ready";
        Ok(rows.iter().filter(up).count())
    }

    /// What went over its links so far, and what it took.
    pub(super) fn traffic(&self) -> Result<Traffic> {
        let text = self.get("/metrics")?;
        let lines = Lines(&text);
        let of = |figure: &str, protocol: &str| Both {
            inbound: lines.sum(figure, &[protocol, "direction=\"in\""]),
            outbound: lines.sum(figure, &[protocol, "direction=\"out\""]),
        };
        let count = |name: &str, label: &str| Count {
            messages: of(&format!("tallymesh_network_{name}messages_total{{"), label),
            bytes: of(&format!("tallymesh_network_{name}bytes_total{{"), label),
        };
        let streams = "tallymesh_libp2p_bandwidth_bytes_total{";
        Ok(Traffic {
            all: count("", ""),
            sync: count("", "protocol=\"sync\""),
            push: count("", "protocol=\"push\""),
            about: count("", "protocol=\"about\""),
            space: count("space_", "space=\"default\""),
            fresh: lines.sum("tallymesh_network_pushes_fresh_total", &[]),
            streams: Both {
                inbound: lines.sum(streams, &["direction=\"Inbound\""]),
                outbound: lines.sum(streams, &["direction=\"Outbound\""]),
            },
            cpu: cpu_seconds(self.child.id())?,
        })
    }

    /// Bytes of memory that it has.
    pub(super) fn resident_bytes(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.context("no VmRSS")? * 1024.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of figures as OpenMetrics has them.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    /// The sum of a figure's values that have all of these labels.
    fn sum(&self, figure: &str, labels: &[&str]) -> f64 {
        let wanted = |line: &&str| {
            line.starts_with(figure) && labels.iter().all(|label| line.contains(label))
        };
        let lines = self.0.lines().filter(wanted);
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        lines.filter_map(value).sum()
    }
}

/// A figure for both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Both {
    pub(super) inbound: f64,
    pub(super) outbound: f64,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) messages: Both,
    pub(super) bytes: Both,
}

/// What went over the links of a node, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    /// Of all protocols of this project.
    pub(super) all: Count,
    /// Frames, those of the address book too.
    pub(super) sync: Count,
    /// Pushes by gossip: going out once each, coming in as often as they come.
    pub(super) push: Count,
    pub(super) about: Count,
    /// Frames and pushes of the space.
    pub(super) space: Count,
    /// Pushes that came for the first time.
    pub(super) fresh: f64,
    /// All bytes of all streams.
    pub(super) streams: Both,
    /// Seconds of processor time.
    pub(super) cpu: f64,
}

impl Traffic {
    /// Frames of the space that go out.
    pub(super) fn frames(&self) -> f64 {
        self.space.messages.outbound - self.push.messages.outbound
    }

    /// Their bytes.
    pub(super) fn frame_bytes(&self) -> f64 {
        self.space.bytes.outbound - self.push.bytes.outbound
    }

    /// Bytes of frames that go out and are of the address book.
    pub(super) fn book_bytes(&self) -> f64 {
        self.sync.bytes.outbound - self.frame_bytes()
    }

    fn with(self, other: Traffic, on: impl Fn(f64, f64) -> f64) -> Traffic {
        let both = |a: Both, b: Both| Both {
            inbound: on(a.inbound, b.inbound),
            outbound: on(a.outbound, b.outbound),
        };
        let count = |a: Count, b: Count| Count {
            messages: both(a.messages, b.messages),
            bytes: both(a.bytes, b.bytes),
        };
        Traffic {
            all: count(self.all, other.all),
            sync: count(self.sync, other.sync),
            push: count(self.push, other.push),
            about: count(self.about, other.about),
            space: count(self.space, other.space),
            fresh: on(self.fresh, other.fresh),
            streams: both(self.streams, other.streams),
            cpu: on(self.cpu, other.cpu),
        }
    }
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        self.with(before, |now, before| now - before)
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        *self = self.with(other, |a, b| a + b);
    }
}

/// What went over the links of all of them so far.
pub(super) fn traffic_of(nodes: &[Node]) -> Result<Traffic> {
    let mut sum = Traffic::default();
    for node in nodes {
        sum += node.traffic()?;
    }
    Ok(sum)
}
