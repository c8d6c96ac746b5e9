//! The servers, each a process of its own in a folder of its own, and what can be seen of them from
//! outside. The benchmark beside PostgreSQL starts its nodes by them, too.

use crate::measure::{bytes_under, cpu_seconds};
use crate::resp_client::Client;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a server may take to start, or to hear of all that another one has.
const START: Duration = Duration::from_secs(60);
const HEAR: Duration = Duration::from_secs(300);

/// How often it is looked whether it is there. Each look takes processor time from those who work.
const POLL: Duration = Duration::from_millis(10);
/// The same while its start is timed.
const POLL_START: Duration = Duration::from_millis(1);

/// What an acknowledged write survives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    Memory,
    Interval,
    Always,
}

impl Durability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Durability::Memory => "memory",
            Durability::Interval => "interval 1s, everysec",
            Durability::Always => "always",
        }
    }
}

/// Whose server.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// This program.
    Ours(&'a Path),
    Redis,
    /// A Redis that keeps a snapshot when it is told to, and no log.
    RedisSnapshot,
}

/// A server that listens. Dropped, it is ended.
pub(crate) struct Server<'a> {
    kind: Kind<'a>,
    kept: Durability,
    /// The addresses of the nodes that it is to be linked to.
    peers: Vec<String>,
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    /// Bytes of memory before anything was counted.
    pub(super) empty_bytes: u64,
}

impl<'a> Server<'a> {
    pub(crate) fn start(kind: Kind<'a>, kept: Durability) -> Result<Server<'a>> {
        Server::start_with(kind, kept, Vec::new())
    }

    /// Starts a node that is linked to others.
    pub(crate) fn start_beside(
        program: &'a Path,
        kept: Durability,
        others: &[&Server<'_>],
    ) -> Result<Server<'a>> {
        let mut peers = Vec::new();
        for other in others {
            let ready = other.ready()?;
            let listen = ready["listen"].as_array().into_iter().flatten();
            peers.extend(listen.filter_map(Value::as_str).map(str::to_owned));
        }
        Server::start_with(Kind::Ours(program), kept, peers)
    }

    fn start_with(kind: Kind<'a>, kept: Durability, peers: Vec<String>) -> Result<Server<'a>> {
        // On a disk, and not in memory: durability is measured.
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        let port = free_port()?;
        let child = spawn(kind, kept, port, &peers, folder.path())?;
        let mut server = Server {
            kind,
            kept,
            peers,
            child,
            folder,
            port,
            empty_bytes: 0,
        };
        server.wait_until(POLL, |client| client.ask(&["PING"]).is_ok())?;
        server.empty_bytes = server.resident_bytes()?;
        Ok(server)
    }

    /// Kills it, starts it on the same folder, and says how long it took until it told that it has
    /// so many counters.
    pub(super) fn kill_and_reopen(&mut self, counters: usize) -> Result<Duration> {
        self.child.kill()?;
        self.child.wait()?;
        self.port = free_port()?;
        let begun = Instant::now();
        self.child = spawn(
            self.kind,
            self.kept,
            self.port,
            &self.peers,
            self.folder.path(),
        )?;
        let all = format!(":{counters}");
        self.wait_until(POLL_START, |client| {
            client.ask(&["DBSIZE"]).is_ok_and(|answer| answer == all)
        })?;
        Ok(begun.elapsed())
    }

    /// Stops it in order, and starts it on the same folder with this durability.
    pub(crate) fn stop_and_reopen(&mut self, kept: Durability) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM)?;
        self.child.wait()?;
        (self.kept, self.port) = (kept, free_port()?);
        match fs::remove_file(self.folder.path().join(READY_FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.child = spawn(
            self.kind,
            self.kept,
            self.port,
            &self.peers,
            self.folder.path(),
        )?;
        Ok(())
    }

    /// Waits until it serves.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        self.wait_until(POLL_START, |client| {
            client.ask(&["PING"]).is_ok_and(|answer| answer == "+PONG")
        })
    }

    /// Its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Waits until it answers as it should.
    fn wait_until(&mut self, poll: Duration, is_there: impl Fn(&mut Client) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !Client::connect(self.port).is_ok_and(|mut client| is_there(&mut client)) {
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended: {status}");
            }
            if begun.elapsed() > START {
                bail!("a server does not answer, or not with all that it had");
            }
            thread::sleep(poll);
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::connect(self.port)?)
    }

    /// Waits until this node holds all that another one holds now.
    pub(super) fn wait_for(&self, other: &Server<'_>) -> Result<()> {
        let wanted = other.vector()?;
        let begun = Instant::now();
        loop {
            let held = self.vector()?;
            let holds = |(writer, clock): &(String, u64)| {
                held.iter().any(|row| row.0 == *writer && row.1 >= *clock)
            };
            if wanted.iter().all(holds) {
                return Ok(());
            }
            if begun.elapsed() > HEAR {
                bail!("a node did not hear of all that another one has: {held:?}, not {wanted:?}");
            }
            thread::sleep(POLL);
        }
    }

    /// The version vector: each writer with its clock.
    fn vector(&self) -> Result<Vec<(String, u64)>> {
        let answer = self.http("/v1/spaces/default/writers")?;
        let answer: Value = serde_json::from_str(&answer)?;
        let rows = answer["writers"].as_array().context("no writers")?;
        let row = |row: &Value| Some((row["writer"].as_str()?.into(), number(&row["clock"])?));
        let rows: Option<Vec<_>> = rows.iter().map(row).collect();
        rows.with_context(|| format!("not a version vector: {answer}"))
    }

    /// How many shards its counters have.
    pub(super) fn shard_count(&self) -> Result<u64> {
        let status: Value = serde_json::from_str(&self.http("/v1/status")?)?;
        number(&status["spaces"][0]["shards"]).context("no shards in the status")
    }

    /// How many shards it took over from peers so far.
    pub(super) fn shards_merged(&self) -> Result<u64> {
        let text = self.http("/metrics")?;
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("tallymesh_shards_merged_total "));
        line.and_then(|line| line.trim().parse().ok())
            .context("no shards_merged in the metrics")
    }

    /// The address of its HTTP.
    pub(crate) fn base(&self) -> Result<String> {
        let ready = self.ready()?;
        let base = ready["http"].as_str().context("no http address")?;
        Ok(base.trim_end_matches('/').to_owned())
    }

    /// The token that shows that a request comes from its operator.
    pub(crate) fn token(&self) -> Result<String> {
        let text = fs::read_to_string(self.folder.path().join("data/token"))?;
        Ok(text.trim().to_owned())
    }

    /// Posts as the node's operator.
    pub(crate) fn post(&self, path: &str, body: &str) -> Result<String> {
        let request = ureq::post(format!("{}{path}", self.base()?));
        let token = format!("Bearer {}", self.token()?);
        let mut answer = request.header("authorization", token).send(body)?;
        Ok(answer.body_mut().read_to_string()?)
    }

    pub(crate) fn http(&self, path: &str) -> Result<String> {
        let mut answer = ureq::get(format!("{}{path}", self.base()?)).call()?;
        Ok(answer.body_mut().read_to_string()?)
    }

    /// What a node wrote when all of it listened.
    fn ready(&self) -> Result<Value> {
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(self.folder.path().join(READY_FILE)) {
                return Ok(serde_json::from_str(&text)?);
            }
            if begun.elapsed() > START {
                bail!("a node did not write its ready file");
            }
            thread::sleep(POLL);
        }
    }

    /// Seconds of processor time that it took so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        Ok(cpu_seconds(self.child.id())?)
    }

    /// Seconds of processor time that a node's driver took so far.
    pub(super) fn driver_seconds(&self) -> Result<f64> {
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?.path();
            // A thread may be gone by now; the driver is not.
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.trim() == "driver" {
                let text = fs::read_to_string(task.join("schedstat"))?;
                let nanos = text.split_whitespace().next();
                let nanos: Option<f64> = nanos.and_then(|nanos| nanos.parse().ok());
                return Ok(nanos.context("no time in schedstat")? / 1e9);
            }
        }
        bail!("a node has no thread with the name `driver`")
    }

    /// Bytes of memory that it has.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most bytes of memory that it ever had.
    pub(super) fn resident_bytes_max(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(what));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("no {what}"))? * 1024)
    }

    /// Bytes of the files that it keeps.
    pub(super) fn disk_bytes(&self) -> Result<u64> {
        Ok(bytes_under(self.folder.path())?)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The file that a node writes its addresses to.
const READY_FILE: &str = "ready.json";

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Clocks are decimals in JSON, since numbers of JavaScript end at 2^53.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn spawn(
    kind: Kind<'_>,
    kept: Durability,
    port: u16,
    peers: &[String],
    folder: &Path,
) -> Result<Child> {
    let log = File::create(folder.join("log"))?;
    let mut command = match kind {
        Kind::Ours(program) => ours(program, kept, port, peers, folder),
        Kind::Redis => redis(kept, port, folder),
        Kind::RedisSnapshot => redis(Durability::Memory, port, folder),
    };
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("{:?}", command.get_program()))
}

fn ours(program: &Path, kept: Durability, port: u16, peers: &[String], folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["up", "--http", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .args(["--listen", "/ip4/127.0.0.1/tcp/0", "--ready-file"])
        .arg(folder.join(READY_FILE))
        .args(["--resp", &format!("127.0.0.1:{port}")])
        .args(match kept {
            Durability::Memory => ["--durability", "memory"],
            Durability::Interval => ["--durability", "interval:1s"],
            Durability::Always => ["--durability", "always"],
        });
    for peer in peers {
        command.args(["--peer", peer]);
    }
    command
}

fn redis(kept: Durability, port: u16, folder: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--dir"])
        .arg(folder);
    let fsync = match kept {
        Durability::Memory => return command,
        Durability::Interval => "everysec",
        Durability::Always => "always",
    };
    command.args(["--appendonly", "yes", "--appendfsync", fsync]);
    command
}
