//! A load that `redis-benchmark` puts on a server, and what came of it.

use super::KEYS;
use super::servers::Server;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Connections at once.
pub(super) const CLIENTS: usize = 50;

/// What is asked of the servers.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Commands that are sent before their answers are taken.
    pub(super) pipeline: usize,
    pub(super) clients: usize,
    /// All keys at random, or one.
    pub(super) random: bool,
    /// `incr` or `get`.
    pub(super) command: &'static str,
    /// How many commands, at the most.
    pub(super) commands: usize,
}

impl Load {
    /// Which keys, and with what if not INCR.
    pub(super) fn keys(&self) -> &'static str {
        match (self.command, self.random) {
            ("get", _) => "random, GET",
            (_, true) => "random",
            (_, false) => "hot",
        }
    }
}

/// What one run of a load came to.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    /// Commands a second.
    pub(super) rate: f64,
    /// Microseconds of the server's processor time for each command.
    pub(super) cpu: f64,
}

/// Puts a load on a server.
pub(super) fn put(load: Load, server: &Server) -> Result<Figure> {
    let before = server.cpu_seconds()?;
    let mut command = Command::new("redis-benchmark");
    command
        .args(["-p", &server.port.to_string(), "--csv"])
        .args(["-t", load.command, "-n", &load.commands.to_string()])
        .args(["-c", &load.clients.to_string()])
        .args(["-P", &load.pipeline.to_string()]);
    if load.random {
        command.args(["-r", &KEYS.to_string()]);
    }
    let done = command.output().context("redis-benchmark")?;
    let text = String::from_utf8_lossy(&done.stdout);
    let rate = text
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix(&format!("\"{}\",", load.command))
                .map(str::to_owned)
        })
        .and_then(|line| line.split(',').next()?.trim_matches('"').parse().ok());
    let Some(rate) = rate else {
        bail!(
            "redis-benchmark printed: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let used = server.cpu_seconds()? - before;
    Ok(Figure {
        rate,
        cpu: used * 1e6 / load.commands as f64,
    })
}
