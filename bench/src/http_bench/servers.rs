//! The servers, each a process of its own in a folder of its own.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest that a server may take to start.
const START: Duration = Duration::from_secs(60);
/// How often it is looked whether it is there.
const POLL: Duration = Duration::from_millis(10);
/// The file that a server writes its address to.
const READY_FILE: &str = "ready.json";

/// Whose server.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// A node, with this durability.
    Node(&'a Path, &'a str),
    /// The least that can be made of its libraries.
    Floor(&'a Path),
}

/// A server that listens. Dropped, it is ended.
pub(super) struct Server {
    child: Child,
    _folder: tempfile::TempDir,
    /// Its address.
    pub(super) base: String,
}

impl Server {
    pub(super) fn start(kind: Kind<'_>) -> Result<Server> {
        // On a disk, and not in memory: durability is measured.
        let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
        let log = File::create(folder.path().join("log"))?;
        let ready = folder.path().join(READY_FILE);
        let mut command = match kind {
            Kind::Node(program, durability) => node(program, durability, folder.path()),
            Kind::Floor(program) => Command::new(program),
        };
        if let Kind::Floor(_) = kind {
            command.arg(&ready);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?);
        let child = command.stderr(log).spawn();
        let child = child.with_context(|| format!("{:?}", command.get_program()))?;
        let mut server = Server {
            child,
            _folder: folder,
            base: String::new(),
        };
        server.base = server.wait_for(&ready)?;
        Ok(server)
    }

    /// The address, once it listens.
    fn wait_for(&mut self, ready: &Path) -> Result<String> {
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(ready) {
                let ready: Value = serde_json::from_str(&text)?;
                let base = ready["http"].as_str().context("no http address")?;
                return Ok(base.trim_end_matches('/').to_owned());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended: {status}");
            }
            if begun.elapsed() > START {
                bail!("a server did not write its address");
            }
            thread::sleep(POLL);
        }
    }

    /// Seconds of processor time that it took so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        Ok(crate::measure::cpu_seconds(self.child.id())?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn node(program: &Path, durability: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["up", "--http", "127.0.0.1:0", "--data"])
        .arg(folder.join("data"))
        .args(["--listen", "/ip4/127.0.0.1/tcp/0", "--ready-file"])
        .arg(folder.join(READY_FILE))
        .args(["--durability", durability]);
    command
}
