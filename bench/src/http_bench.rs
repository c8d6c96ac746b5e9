//! A node's HTTP interface beside the least that can be made of the same libraries, in one run: the
//! same client program, the same machine, in turn.

mod load;
mod servers;

use crate::measure::median_of;
use crate::report::Sections;
use anyhow::{Context, Result};
use load::{Figure, Load, put};
use servers::{Kind, Server};
use std::fmt::Write;
use std::path::Path;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 1] = ["add"];

/// What a node's rate is to be of the other's, at least, where both keep everything in memory.
const RATIO_MIN: f64 = 0.7;

const HEAD: &str = "`POST /v1/spaces/default/counters/{key}/add` without a body, one request at a time \
    on each of so many connections that stay open. Floor: a process of its own with one route of the \
    same axum, hyper and tokio, under the same runtime, that adds to a `HashMap` behind a `Mutex` and \
    answers with the same JSON. CPU is microseconds of the server's processor time for each request; \
    latencies are milliseconds.\n\n\
    | durability | connections | keys | ours, 1,000/s | floor | ratio | target | ours, us CPU | floor | ours, p50 | p99 | floor, p50 | p99 |\n\
    |---|---:|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|\n";

/// How much is done.
pub(crate) struct Plan<'a> {
    /// The program `tallymesh`.
    pub(crate) node: &'a Path,
    /// Another build of it, in place of the peer.
    pub(crate) before: Option<&'a Path>,
    /// Rounds of each measurement; the median counts.
    pub(crate) rounds: usize,
    /// A tenth of the time.
    pub(crate) quick: bool,
}

/// Measures adds at each durability; the table is in Markdown.
pub(crate) fn run(plan: &Plan<'_>, report: &Sections) -> Result<()> {
    let program = std::env::current_exe()?;
    let floor = program.with_file_name("http_floor");
    let mut text = String::from(HEAD);
    for (name, durability) in [("memory", "memory"), ("interval 1s", "interval:1s")] {
        let ours = Server::start(Kind::Node(plan.node, durability))?;
        let floor = match plan.before {
            Some(before) => Server::start(Kind::Node(before, durability))?,
            None => Server::start(Kind::Floor(&floor))
                .context("build it: cargo build --release --package tallymesh-bench --bins")?,
        };
        for connections in [1, 16, 64] {
            for random in [false, true] {
                let load = Load {
                    connections,
                    random,
                    millis: if plan.quick { 500 } else { 5_000 },
                };
                let line = row(name, load, plan.rounds, &ours, &floor)?;
                println!("{line}");
                // Writing to a string does not fail.
                let _ = writeln!(text, "{line}");
            }
        }
    }
    report.put("add", &text)
}

/// Both in turn, several times; the medians count.
fn row(name: &str, load: Load, rounds: usize, ours: &Server, floor: &Server) -> Result<String> {
    // Counters that are there already are measured.
    for server in [ours, floor] {
        put(load, server)?;
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        first.push(put(load, ours)?);
        second.push(put(load, floor)?);
    }
    let middle = |figures: &[Figure]| Figure {
        rate: median_of(figures, |it| it.rate),
        cpu: median_of(figures, |it| it.cpu),
        p50: median_of(figures, |it| it.p50),
        p99: median_of(figures, |it| it.p99),
    };
    let (ours, floor) = (middle(&first), middle(&second));
    let ratio = ours.rate / floor.rate;
    let target = match (name, ratio >= RATIO_MIN) {
        ("memory", true) => format!("{RATIO_MIN}: met"),
        ("memory", false) => format!("{RATIO_MIN}: **missed**"),
        _ => String::new(),
    };
    Ok(format!(
        "| {name} | {} | {} | {:.1} | {:.1} | {ratio:.2} | {target} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
        load.connections,
        if load.random { "random" } else { "same" },
        ours.rate / 1e3,
        floor.rate / 1e3,
        ours.cpu,
        floor.cpu,
        ours.p50,
        ours.p99,
        floor.p50,
        floor.p99,
    ))
}
