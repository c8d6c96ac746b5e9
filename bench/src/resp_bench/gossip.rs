//! What it costs a node to tell two peers all that it counts, while it counts.

use super::load::{CLIENTS, Load, put};
use super::servers::{Durability, Kind, Server};
use super::{KEYS, Plan};
use crate::measure::median_of;
use anyhow::Result;
use std::fmt::Write;
use std::time::Instant;

/// What the rate beside peers is to be of the rate alone, at least.
const RATIO_MIN: f64 = 0.8;

const HEAD: &str = "INCR by 50 clients on a node alone, and on a node linked to two others, which are \
    linked to each other too and merge all of it. All three and the client share this machine, so \
    with few cores they wait for each other, and the ratio of rates shows that as well: the columns \
    of processor time say what of it is the node's own. CPU is microseconds for each command: of the \
    node's process, of its driver, the one thread that commands and merges run on, and of both peers \
    together until they hold everything. Told: commands a second until the last peer holds all of \
    them, and the shards that a peer merged a second meanwhile (what is added to one counter several \
    times between two messages is one shard).\n\n\
    | durability | pipeline | keys | alone, 1,000/s | beside peers | ratio | target | node's CPU alone | beside peers | its driver's alone | beside peers | peers' CPU | told, 1,000/s | shards, 1,000/s |\n\
    |---|---:|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|\n";

/// What one load came to. Processor time is in microseconds a command.
struct Figure {
    rate: f64,
    cpu: f64,
    driver: f64,
    /// Of the peers together, until they held everything.
    peers: f64,
    /// Commands a second until then.
    told: f64,
    /// Shards a second that one of them merged until then.
    merged: f64,
}

/// Measures a node alone and one with two peers in turn; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let mut text = String::from(HEAD);
    for (name, kept) in [
        ("memory", Durability::Memory),
        ("interval 1s", Durability::Interval),
    ] {
        let alone = Server::start(Kind::Ours(plan.node), kept)?;
        let linked = Server::start(Kind::Ours(plan.node), kept)?;
        for server in [&alone, &linked] {
            server.client()?.count_all(KEYS, 0)?;
        }
        let first = Server::start_beside(plan.node, kept, &[&linked])?;
        let second = Server::start_beside(plan.node, kept, &[&linked, &first])?;
        let peers = [first, second];
        for peer in &peers {
            peer.wait_for(&linked)?;
        }
        for load in loads(plan.scale()) {
            let (mut quiet, mut told) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                quiet.push(measure(load, &alone, &[])?);
                told.push(measure(load, &linked, &peers)?);
            }
            let line = row(name, load, &quiet, &told);
            println!("{line}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
    }
    Ok(text)
}

fn loads(scale: usize) -> Vec<Load> {
    let mut loads = Vec::new();
    // Long enough for several transfers: with much to tell there are seconds between them.
    for (pipeline, commands) in [(1, 1_500_000), (16, 15_000_000)] {
        for random in [false, true] {
            loads.push(Load {
                pipeline,
                clients: CLIENTS,
                random,
                command: "incr",
                commands: commands / scale,
            });
        }
    }
    loads
}

/// Puts a load on a server, and waits until its peers have merged it.
fn measure(load: Load, server: &Server, peers: &[Server]) -> Result<Figure> {
    let cpu = || -> Result<f64> { peers.iter().map(Server::cpu_seconds).sum() };
    let merged = || peers.first().map_or(Ok(0), Server::shards_merged);
    let (cpu_before, merged_before) = (cpu()?, merged()?);
    let driver_before = server.driver_seconds()?;
    let begun = Instant::now();
    let figure = put(load, server)?;
    // Before anybody asks the node how far it is.
    let driver = server.driver_seconds()? - driver_before;
    for peer in peers {
        peer.wait_for(server)?;
    }
    let took = begun.elapsed().as_secs_f64();
    let commands = load.commands as f64;
    Ok(Figure {
        rate: figure.rate,
        cpu: figure.cpu,
        driver: driver * 1e6 / commands,
        peers: (cpu()? - cpu_before) * 1e6 / commands,
        told: commands / took,
        merged: (merged()? - merged_before) as f64 / took,
    })
}

fn row(kept: &str, load: Load, quiet: &[Figure], told: &[Figure]) -> String {
    let (alone, beside) = (
        median_of(quiet, |it| it.rate),
        median_of(told, |it| it.rate),
    );
    let ratio = beside / alone;
    let word = if ratio >= RATIO_MIN {
        "met"
    } else {
        "**missed**"
    };
    format!(
        "| {} | {} | {} | {:.0} | {:.0} | {ratio:.2} | {RATIO_MIN}: {word} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
        kept,
        load.pipeline,
        load.keys(),
        alone / 1e3,
        beside / 1e3,
        median_of(quiet, |it| it.cpu),
        median_of(told, |it| it.cpu),
        median_of(quiet, |it| it.driver),
        median_of(told, |it| it.driver),
        median_of(told, |it| it.peers),
        median_of(told, |it| it.told) / 1e3,
        median_of(told, |it| it.merged) / 1e3,
    )
}
