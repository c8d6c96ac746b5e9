//! How long a server that was killed takes until it answers again with all it had.

use super::load::{CLIENTS, Load, put};
use super::servers::{Durability, Kind, Server};
use super::{KEYS, Plan};
use crate::measure::median;
use anyhow::{Result, bail};
use std::fmt::Write;
use std::thread;
use std::time::Duration;

/// Seconds that ours is to take at most.
const SECONDS_MAX: f64 = 1.0;

/// Longer than the second after which all is on the disk, also on a slow one. That it was enough is
/// seen afterwards: nothing may be missing.
const SETTLE: Duration = Duration::from_secs(4);

/// How each counter was written.
const HISTORIES: [(&str, usize); 2] = [
    ("each counted once", 0),
    (
        "each counted once, then 3,000,000 INCR at random",
        3_000_000,
    ),
];

/// Kills and starts each server in turn; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let mut text = format!(
        "Milliseconds from the start of the process until DBSIZE is answered with {KEYS} (keys of \
         20 bytes), after `kill -9`, median and slowest of the rounds; the files are in the \
         system's cache. The node was written with `interval:1s`, Redis with its log (everysec), \
         or had just saved its snapshot.\n\n\
         | | history | files, MB | median | slowest | target |\n|---|---|---:|---:|---:|---|\n"
    );
    for (history, more) in HISTORIES {
        let mut servers = [
            ("tallymesh", filled(Kind::Ours(plan.node), more)?),
            ("Redis, log", filled(Kind::Redis, more)?),
            ("Redis, snapshot", filled(Kind::RedisSnapshot, more)?),
        ];
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..plan.rounds {
            for ((_, server), times) in servers.iter_mut().zip(&mut times) {
                times.push(server.kill_and_reopen(KEYS)?.as_secs_f64());
            }
        }
        for ((name, server), times) in servers.iter().zip(&mut times) {
            let middle = median(times);
            let slowest = times.iter().copied().fold(0.0, f64::max);
            let target = match (*name, middle < SECONDS_MAX) {
                ("tallymesh", true) => "1 s: met",
                ("tallymesh", false) => "1 s: **missed**",
                _ => "",
            };
            let bytes = server.disk_bytes()?;
            let line = format!(
                "| {name} | {history} | {:.0} | {:.0} | {:.0} | {target} |",
                bytes as f64 / 1e6,
                middle * 1e3,
                slowest * 1e3,
            );
            println!("{line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
    }
    Ok(text)
}

/// A server with all counters on its disk.
fn filled(kind: Kind<'_>, more: usize) -> Result<Server<'_>> {
    let server = Server::start(kind, Durability::Interval)?;
    server.client()?.count_all(KEYS, 0)?;
    if more > 0 {
        let load = Load {
            pipeline: 100,
            clients: CLIENTS,
            random: true,
            command: "incr",
            commands: more,
        };
        put(load, &server)?;
    }
    if matches!(kind, Kind::RedisSnapshot) {
        let answer = server.client()?.ask(&["SAVE"])?;
        if answer != "+OK" {
            bail!("SAVE was answered with `{answer}`");
        }
    }
    thread::sleep(SETTLE);
    Ok(server)
}
