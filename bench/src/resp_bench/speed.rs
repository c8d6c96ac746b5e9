//! How many commands a second, beside Redis.

use super::load::{CLIENTS, Figure, Load, put};
use super::servers::{Durability, Kind, Server};
use super::{KEYS, Plan};
use crate::measure::median_of;
use anyhow::Result;
use std::fmt::Write;

/// A row of the table: one load at one durability.
struct Row {
    kept: Durability,
    load: Load,
    /// What ours is to be of Redis, at least.
    target: Option<f64>,
    ours: Figure,
    redis: Figure,
}

/// Races the two at each durability; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let mut rows = Vec::new();
    for kept in [Durability::Memory, Durability::Interval, Durability::Always] {
        let ours = Server::start(Kind::Ours(plan.node), kept)?;
        let peer = plan.before.map_or(Kind::Redis, Kind::Ours);
        let redis = Server::start(peer, kept)?;
        for server in [&ours, &redis] {
            server.client()?.count_all(KEYS, 0)?;
        }
        for (load, target) in loads(kept) {
            let load = Load {
                commands: load.commands / plan.scale(),
                ..load
            };
            rows.push(race(kept, load, target, plan.rounds, &ours, &redis)?);
            println!("{}", line(&rows[rows.len() - 1]));
        }
    }
    Ok(table(&rows))
}

/// The loads, and what ours is to be of Redis at least.
fn loads(kept: Durability) -> Vec<(Load, Option<f64>)> {
    let mut loads = Vec::new();
    for (pipeline, commands) in [(1, 300_000), (16, 3_000_000), (100, 6_000_000)] {
        for random in [false, true] {
            let target = match (pipeline, random, kept) {
                (1, ..) => Some(0.95),
                (100, _, Durability::Always) => Some(1.5),
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
    loads.push((alone, (kept == Durability::Always).then_some(1.0)));
    if kept == Durability::Memory {
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
    kept: Durability,
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
    let middle = |figures: &[Figure]| Figure {
        rate: median_of(figures, |it| it.rate),
        cpu: median_of(figures, |it| it.cpu),
    };
    Ok(Row {
        kept,
        load,
        target,
        ours: middle(&first),
        redis: middle(&second),
    })
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
    format!(
        "| {} | {} | {} | {} | {:.0} | {:.0} | {ratio:.2} | {target} | {:.2} | {:.2} |",
        kept.name(),
        load.clients,
        load.pipeline,
        load.keys(),
        ours.rate / 1e3,
        redis.rate / 1e3,
        ours.cpu,
        redis.cpu,
    )
}
