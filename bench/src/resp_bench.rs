//! The Redis protocol of a node beside a real Redis, in one run: the same client program, the same
//! machine, in turn, at equal durability.

mod servers;

use anyhow::{Context, Result, bail};
use servers::{Kept, Kind, Server};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Connections at once.
const CLIENTS: usize = 50;
/// How many random keys there are.
const KEYS: usize = 1_000_000;

/// What is asked of the servers.
#[derive(Clone, Copy)]
struct Load {
    /// Commands that are sent before their answers are taken.
    pipeline: usize,
    clients: usize,
    /// All keys at random, or one.
    random: bool,
    /// `incr` or `get`.
    command: &'static str,
    /// How many commands, at the most.
    commands: usize,
}

/// What one run of a load came to.
#[derive(Clone, Copy)]
struct Figure {
    /// Commands a second.
    rate: f64,
    /// Microseconds of the server's processor time for each command.
    cpu: f64,
}

/// A row of the table: one load at one durability.
struct Row {
    kept: Kept,
    load: Load,
    /// What ours is to be of Redis, at least.
    target: Option<f64>,
    ours: Figure,
    redis: Figure,
}

/// Races the two and prints a table in Markdown; `quick` takes a tenth of the commands, and the
/// median of fewer rounds.
pub(crate) fn run(node: &Path, rounds: usize, quick: bool) -> Result<()> {
    let scale = if quick { 10 } else { 1 };
    let mut rows = Vec::new();
    for kept in [Kept::Memory, Kept::Interval, Kept::Always] {
        let ours = Server::start(Kind::Ours(node), kept)?;
        let redis = Server::start(Kind::Redis, kept)?;
        for server in [&ours, &redis] {
            fill(server)?;
        }
        if kept == Kept::Memory {
            memory(&ours, &redis)?;
        }
        for (load, target) in loads(kept) {
            let load = Load {
                commands: load.commands / scale,
                ..load
            };
            rows.push(race(kept, load, target, rounds, &ours, &redis)?);
            println!("{}", line(&rows[rows.len() - 1]));
        }
    }
    println!("\n{}", table(&rows));
    Ok(())
}

/// The loads, and what ours is to be of Redis at least.
fn loads(kept: Kept) -> Vec<(Load, Option<f64>)> {
    let mut loads = Vec::new();
    for (pipeline, commands) in [(1, 300_000), (16, 3_000_000), (100, 6_000_000)] {
        for random in [false, true] {
            let target = match (pipeline, random, kept) {
                (1, ..) => Some(0.95),
                (100, _, Kept::Always) => Some(1.5),
                (16, true, _) => Some(1.25),
                (100, true, _) => Some(1.3),
                _ => None,
            };
            let load = Load {
                pipeline,
                clients: CLIENTS,
                random,
                command: "incr",
                commands,
            };
            loads.push((load, target));
        }
    }
    let alone = Load {
        pipeline: 1,
        clients: 1,
        random: false,
        command: "incr",
        commands: 30_000,
    };
    loads.push((alone, (kept == Kept::Always).then_some(1.0)));
    if kept == Kept::Memory {
        let get = Load {
            pipeline: 16,
            clients: CLIENTS,
            random: true,
            command: "get",
            commands: 3_000_000,
        };
        loads.push((get, None));
    }
    loads
}

/// Both in turn, several times; the medians count.
fn race(
    kept: Kept,
    load: Load,
    target: Option<f64>,
    rounds: usize,
    ours: &Server,
    redis: &Server,
) -> Result<Row> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        first.push(put(load, ours)?);
        second.push(put(load, redis)?);
    }
    Ok(Row {
        kept,
        load,
        target,
        ours: median(&first),
        redis: median(&second),
    })
}

fn median(figures: &[Figure]) -> Figure {
    let middle = |of: fn(&Figure) -> f64| {
        let mut all: Vec<f64> = figures.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Figure {
        rate: middle(|it| it.rate),
        cpu: middle(|it| it.cpu),
    }
}

/// Makes nearly all of the keys.
fn fill(server: &Server) -> Result<()> {
    let load = Load {
        pipeline: 100,
        clients: CLIENTS,
        random: true,
        command: "incr",
        commands: 5 * KEYS,
    };
    put(load, server).map(|_| ())
}

/// Puts a load on a server.
fn put(load: Load, server: &Server) -> Result<Figure> {
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

/// Bytes that a counter takes, by what the process grew while it was filled.
fn memory(ours: &Server, redis: &Server) -> Result<()> {
    println!("| resident bytes a counter of one writer, with {KEYS} keys | bytes |\n|---|---:|");
    for (name, server) in [("tallymesh", ours), ("Redis", redis)] {
        let grown = server.resident_bytes()?.saturating_sub(server.empty_bytes);
        println!("| {name} | {:.0} |", grown as f64 / KEYS as f64);
    }
    println!();
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| durability | clients | pipeline | keys | ours, 1,000/s | Redis | ratio | target | ours, us CPU | Redis |\n\
         |---|---:|---:|---|---:|---:|---:|---|---:|---:|\n",
    );
    for row in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line(row));
    }
    text
}

fn line(row: &Row) -> String {
    let Row {
        kept,
        load,
        ours,
        redis,
        ..
    } = row;
    let ratio = ours.rate / redis.rate;
    let target = row.target.map_or(String::new(), |target| {
        let word = if ratio >= target { "met" } else { "**missed**" };
        format!("{target}: {word}")
    });
    let keys = match (load.command, load.random) {
        ("get", _) => "random, GET",
        (_, true) => "random",
        (_, false) => "hot",
    };
    format!(
        "| {} | {} | {} | {keys} | {:.0} | {:.0} | {ratio:.2} | {target} | {:.2} | {:.2} |",
        kept.name(),
        load.clients,
        load.pipeline,
        ours.rate / 1e3,
        redis.rate / 1e3,
        ours.cpu,
        redis.cpu,
    )
}
