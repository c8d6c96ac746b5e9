//! A node whose bounds are full beside an empty one, in one run: 40,000 writers, a million counters, a
//! thousand links. The same client program asks both in turn.

mod fill;
mod links;
mod load;

use crate::measure::median_of;
use crate::report::Sections;
use crate::resp_bench::servers::{Durability, Kind, Server};
use anyhow::{Context, Result};
use links::Links;
use load::{Figure, Way};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 2] = ["open", "members"];

/// How full a node is made. `WRITERS` is the most that a space holds of what guests bring.
const COUNTERS: usize = 1_000_000;
const WRITERS: usize = tallymesh_core::bounds::WRITERS_MAX;
const LINKS: usize = 1_000;

/// The latency of a full node in that of an empty one, at most.
const RATIO_MAX: f64 = 2.0;

/// Default length of each measurement in all rounds together, in seconds.
const SECONDS: u64 = 20;

const HEAD: &str = "Two processes of one program, each in a folder of its own on the disk: an *empty* node \
    holds the 1,000 counters that are written to; a *full* one holds what the line before the table says. \
    Each link of the full node is a WebSocket of a replica that has greeted and takes what it is sent. \
    A client sends one write at a time on one connection that stays open, to both nodes in turn. \
    Latencies are microseconds; the median of the rounds counts.\n\n";

/// How much is done.
pub(crate) struct Plan<'a> {
    /// The program `tallymesh`.
    pub(crate) node: &'a Path,
    /// Rounds of each measurement; the median counts.
    pub(crate) rounds: usize,
    /// A tenth of the writers, counters, links and time.
    pub(crate) quick: bool,
    /// How long each measurement takes in all rounds together.
    pub(crate) seconds: Option<u64>,
}

impl Plan<'_> {
    fn size(&self, whole: usize) -> usize {
        if self.quick { whole / 10 } else { whole }
    }

    /// How long one client writes to one node in a round.
    fn turn(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(self.size(SECONDS as usize) as u64);
        Duration::from_secs(seconds.max(1)) / (2 * self.rounds) as u32
    }
}

/// Says how far it is: a full node takes a minute to make.
fn tell(what: &str) {
    eprintln!("full: {what}");
}

/// Measures the sections that are named in `only`; the tables are in Markdown.
pub(crate) fn run(plan: &Plan<'_>, only: &[&str], report: &Sections) -> Result<()> {
    links::raise_descriptors()?;
    for &section in only {
        let text = measure(plan, section == "members")?;
        report.put(section, &text)?;
    }
    Ok(())
}

/// Fills a node, and compares it with an empty one at each durability.
fn measure(plan: &Plan<'_>, members: bool) -> Result<String> {
    let counters = plan.size(COUNTERS);
    let link_count = plan.size(LINKS);
    // A member admits each peer that sends a hello, so there the peers of the links are among the writers.
    let linked = if members { link_count } else { 0 };
    let writers = plan.size(WRITERS) - linked;
    let mut empty = Server::start(Kind::Ours(plan.node), Durability::Interval)?;
    let mut full = Server::start(Kind::Ours(plan.node), Durability::Interval)?;
    tell(&format!("counting in {counters} counters"));
    load::make_keys(&empty)?;
    load::make_keys(&full)?;
    full.client()?.count_all(counters, load::KEYS)?;
    tell(&format!("bringing {writers} writers"));
    // Its own start is one of them.
    fill::bring_writers(&full, writers - 1)?;
    let mut others = String::new();
    if members {
        for (name, server) in [("empty", &empty), ("full", &full)] {
            let begun = Instant::now();
            server.post("/v1/spaces/default/members/init", "")?;
            row(&mut others, name, "`members init`", begun);
        }
    }
    let mut table = String::from(
        "| durability | write | empty, p50 | p99 | full, p50 | p99 | ratio, p50 | p99 | target |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---|\n",
    );
    let mut held = String::new();
    for (kept, name) in [
        (Durability::Interval, "interval 1s"),
        (Durability::Always, "always"),
    ] {
        for (which, server) in [("empty", &mut empty), ("full", &mut full)] {
            server.stop_and_reopen(kept)?;
            let begun = Instant::now();
            server.wait_until_ready()?;
            row(&mut others, which, &format!("start, `{name}`"), begun);
        }
        tell(&format!("opening {link_count} links, durability {name}"));
        let links = Links::open(&full, link_count)?;
        if held.is_empty() {
            held = holds(&full)?;
        }
        for way in Way::ALL {
            let line = compare(plan, name, way, (&empty, &full))?;
            tell(&line);
            // Writing to a string does not fail.
            let _ = writeln!(table, "{line}");
        }
        if kept == Durability::Always {
            others += &looks(plan, &empty, &full)?;
        }
        links.close()?;
    }
    let memory = |server: &Server<'_>| Ok::<_, anyhow::Error>(server.resident_bytes()? >> 20);
    Ok(format!(
        "{HEAD}{held} It has {} MiB of memory, the empty one {} MiB.\n\n{table}\n\
         Other commands and requests, once each at both, in milliseconds:\n\n\
         | what | empty | full |\n|---|---:|---:|\n{}",
        memory(&full)?,
        memory(&empty)?,
        side_by_side(&others)
    ))
}

/// Both in turn, several times; the medians count.
fn compare(
    plan: &Plan<'_>,
    name: &str,
    way: Way,
    (empty, full): (&Server<'_>, &Server<'_>),
) -> Result<String> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let figures = (
            load::put(way, empty, plan.turn())?,
            load::put(way, full, plan.turn())?,
        );
        // The first round warms up.
        if round > 0 {
            first.push(figures.0);
            second.push(figures.1);
        }
    }
    let middle = |figures: &[Figure]| {
        let p50 = median_of(figures, |it| it.p50);
        (p50, median_of(figures, |it| it.p99))
    };
    let (empty, full) = (middle(&first), middle(&second));
    let ratios = (full.0 / empty.0, full.1 / empty.1);
    let met = match ratios.0.max(ratios.1) <= RATIO_MAX {
        true => format!("{RATIO_MAX}: met"),
        false => format!("{RATIO_MAX}: **missed**"),
    };
    Ok(format!(
        "| {name} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {met} |",
        way.name(),
        empty.0,
        empty.1,
        full.0,
        full.1,
        ratios.0,
        ratios.1
    ))
}

/// The sizes that the full node reports.
fn holds(full: &Server<'_>) -> Result<String> {
    let status: Value = serde_json::from_str(&full.http("/v1/status")?)?;
    let space = &status["spaces"][0];
    let peers: Value = serde_json::from_str(&full.http("/v1/peers")?)?;
    let peers = peers["peers"].as_array().context("no peers")?;
    let linked = peers.iter().filter(|row| row["state"] != "connecting");
    let number = |name: &str| match &space[name] {
        Value::String(number) => number.clone(),
        number => number.to_string(),
    };
    Ok(format!(
        "The full node holds {} writers, {} counters, {} shards and {} links.",
        number("writers"),
        number("counters"),
        number("shards"),
        linked.count()
    ))
}

/// How long it takes to look at either node, and at its folder.
fn looks(plan: &Plan<'_>, empty: &Server<'_>, full: &Server<'_>) -> Result<String> {
    let mut others = String::new();
    for (which, server) in [("empty", empty), ("full", full)] {
        for path in ["/metrics", "/v1/status", "/v1/peers", "/readyz"] {
            let begun = Instant::now();
            server.http(path)?;
            row(&mut others, which, &format!("`{path}`"), begun);
        }
        for command in ["INFO", "DBSIZE"] {
            let mut client = server.client()?;
            let begun = Instant::now();
            client.ask(&[command])?;
            row(&mut others, which, &format!("`{command}`"), begun);
        }
        let copies = tempfile::tempdir_in(std::env::current_dir()?)?;
        let (copy, again) = (copies.path().join("copy"), copies.path().join("again"));
        let data = server.data();
        let steps: [(&str, &Path, Option<&Path>); 3] = [
            ("backup", &data, Some(&copy)),
            ("check", &copy, None),
            ("restore", &again, Some(&copy)),
        ];
        for (name, data, of) in steps {
            tell(&format!("{name} of the {which} node"));
            let mut command = Command::new(plan.node);
            command.arg(name).arg("--data").arg(data).args(of);
            let begun = Instant::now();
            let done = command.stdin(Stdio::null()).output()?;
            anyhow::ensure!(
                done.status.success(),
                "{name}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
            row(&mut others, which, &format!("`tallymesh {name}`"), begun);
        }
    }
    Ok(others)
}

/// Notes how long something took at one of the nodes, for [`side_by_side`].
fn row(rows: &mut String, which: &str, what: &str, begun: Instant) {
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    // Writing to a string does not fail.
    let _ = writeln!(rows, "{which}\t{what}\t{millis:.1}");
}

/// The rows of both nodes as lines of one table, in the order in which they came.
fn side_by_side(rows: &str) -> String {
    let of = |which: &str| {
        let rows = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let rows = rows.filter(|row| row[0] == which);
        let rows = rows.map(|row| (row[1].to_owned(), row[2].to_owned()));
        rows.collect::<Vec<_>>()
    };
    let full = of("full");
    let mut lines = String::new();
    for (what, millis) in of("empty") {
        let theirs = full.iter().find(|row| row.0 == what);
        let theirs = theirs.map_or("", |row| &row.1);
        let _ = writeln!(lines, "| {what} | {millis} | {theirs} |");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_nodes_took_stands_side_by_side() {
        let rows = "empty\tstart\t1.0\nfull\tstart\t2.0\nempty\tINFO\t0.1\nfull\tINFO\t0.2\n";
        assert_eq!(
            side_by_side(rows),
            "| start | 1.0 | 2.0 |\n| INFO | 0.1 | 0.2 |\n"
        );
    }
}
