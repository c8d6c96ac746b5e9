//! A load that `wrk` puts on a server, and what came of it.

use super::servers::Server;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// How many counters there are, where they are chosen at random.
const KEYS: usize = 100_000;

/// What is asked of the servers.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Connections, with one request at a time on each.
    pub(super) connections: usize,
    /// All keys at random, or one.
    pub(super) random: bool,
    /// For how long.
    pub(super) millis: u64,
}

/// What one run of a load came to.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    /// Requests a second.
    pub(super) rate: f64,
    /// Microseconds of the server's processor time for each request.
    pub(super) cpu: f64,
    /// Milliseconds that half of the requests took at most.
    pub(super) p50: f64,
    /// Milliseconds that 99 of 100 took at most.
    pub(super) p99: f64,
}

/// What wrk asks for, and what it tells at the end: the rest of its output is for people.
fn script(load: Load) -> String {
    let requests = match load.random {
        true => format!(
            "request = function()\n\
               local key = string.format(\"counter:%012d\", math.random(0, {}))\n\
               return wrk.format(\"POST\", \"/v1/spaces/default/counters/\" .. key .. \"/add\")\n\
             end\n",
            KEYS - 1
        ),
        false => String::from(
            "wrk.method = \"POST\"\n\
             wrk.path = \"/v1/spaces/default/counters/counter:000000000000/add\"\n",
        ),
    };
    requests
        + "done = function(summary, latency)\n\
             local e = summary.errors\n\
             local failed = e.connect + e.read + e.write + e.status + e.timeout\n\
             io.write(string.format(\"told %d %d %d %d %d\\n\", summary.requests, summary.duration,\n\
               latency:percentile(50), latency:percentile(99), failed))\n\
           end\n"
}

/// Puts a load on a server.
pub(super) fn put(load: Load, server: &Server) -> Result<Figure> {
    let script_file = tempfile::NamedTempFile::with_suffix(".lua")?;
    std::fs::write(script_file.path(), script(load))?;
    let before = server.cpu_seconds()?;
    let mut command = Command::new("wrk");
    command
        .args(["--threads", "1", "--connections"])
        .arg(load.connections.to_string())
        .args(["--duration", &format!("{}s", load.millis.div_ceil(1_000))])
        .arg("--script")
        .arg(script_file.path())
        .arg(&server.base);
    let done = command.output().context("wrk")?;
    let used = server.cpu_seconds()? - before;
    let text = String::from_utf8_lossy(&done.stdout);
    let told = text.lines().find_map(|line| line.strip_prefix("told "));
    let told = told.map(|line| line.split(' ').flat_map(str::parse).collect::<Vec<f64>>());
    let Some(&[requests, micros, p50, p99, failed]) = told.as_deref() else {
        let errors = String::from_utf8_lossy(&done.stderr);
        bail!("wrk printed: {text}{errors}");
    };
    if failed > 0.0 || requests == 0.0 {
        bail!("{failed} of {requests} requests failed: {text}");
    }
    Ok(Figure {
        rate: requests * 1e6 / micros,
        cpu: used * 1e6 / requests,
        p50: p50 / 1e3,
        p99: p99 / 1e3,
    })
}
