//! The two servers, each a process of its own in a folder of its own.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(30);

/// What an acknowledged write survives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Memory,
    Interval,
    Always,
}

impl Kept {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kept::Memory => "memory",
            Kept::Interval => "interval 1s, everysec",
            Kept::Always => "always",
        }
    }
}

/// Whose server.
pub(super) enum Kind<'a> {
    /// This program.
    Ours(&'a Path),
    Redis,
}

/// A server that listens. Dropped, it is ended.
pub(super) struct Server {
    child: Child,
    _folder: tempfile::TempDir,
    pub(super) port: u16,
    /// Bytes of memory before anything was counted.
    pub(super) empty_bytes: u64,
}

impl Server {
    pub(super) fn start(kind: Kind<'_>, kept: Kept) -> Result<Server> {
        // On a disk, and not in memory: durability is measured.
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        let port = free_port()?;
        let log = File::create(folder.path().join("log"))?;
        let mut command = match kind {
            Kind::Ours(program) => ours(program, kept, port, folder.path()),
            Kind::Redis => redis(kept, port, folder.path()),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{:?}", command.get_program()))?;
        let mut server = Server {
            child,
            _folder: folder,
            port,
            empty_bytes: 0,
        };
        server.wait()?;
        server.empty_bytes = server.resident_bytes()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended: {status}");
            }
            if begun.elapsed() > START {
                bail!("a server does not listen");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Seconds of processor time that it took so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may have blanks.
        let rest = text.rsplit(')').next().unwrap_or_default();
        let ticks: Vec<f64> = rest
            .split_whitespace()
            .skip(11)
            .take(2)
            .flat_map(str::parse)
            .collect();
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }

    /// Bytes of memory that it has.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("no VmRSS")? * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn ours(program: &Path, kept: Kept, port: u16, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["up", "--http", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .args(["--resp", &format!("127.0.0.1:{port}")])
        .args(match kept {
            Kept::Memory => ["--durability", "memory"],
            Kept::Interval => ["--durability", "interval:1s"],
            Kept::Always => ["--durability", "always"],
        });
    command
}

fn redis(kept: Kept, port: u16, folder: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--dir"])
        .arg(folder);
    let fsync = match kept {
        Kept::Memory => return command,
        Kept::Interval => "everysec",
        Kept::Always => "always",
    };
    command.args(["--appendonly", "yes", "--appendfsync", fsync]);
    command
}
