//! How much memory a counter takes, with one writer and with each further one.

use super::servers::{Durability, Kind, Server};
use super::{KEYS, Plan};
use crate::measure::median_of;
use anyhow::{Result, bail};
use std::fmt::Write;

/// Bytes that a counter of one writer is to take at most, and each further writer of it.
const FIRST_MAX: f64 = 100.0;
const FURTHER_MAX: f64 = 32.0;

/// Bytes of a process for each counter.
struct Weight {
    /// How many nodes counted in each of the counters.
    writers: usize,
    now: f64,
    /// The most that it ever had until now.
    peak: f64,
    /// What each further writer of the counter took.
    further: f64,
}

/// Weighs a Redis and a node, that with one writer and with further ones; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let mut text = format!(
        "Bytes that the resident memory of a process grew by, for each of {KEYS} counters with \
         keys of 20 bytes, durability `memory`; the median of the rounds is judged. A further \
         writer is a node of its own that is linked to the first one, counts once in each of the \
         counters, as fast as it can, and stays; the first one is weighed when it has merged all \
         of that. So what links, waiting messages and the allocator hold is in it, and that moves \
         from round to round: the lowest figure comes nearest to what the counters take.\n\n\
         | | writers | bytes a counter | lowest | peak | each further writer | lowest | target |\n\
         |---|---:|---:|---:|---:|---:|---:|---|\n"
    );
    let redis = Server::start(Kind::Redis, Durability::Memory)?;
    redis.client()?.count_all(KEYS, 0)?;
    row(&mut text, "Redis", &[weight(&redis, 1, None)?], None);
    drop(redis);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(round(plan)?);
    }
    for at in 0..rounds[0].len() {
        let weights: Vec<Weight> = rounds.iter_mut().map(|round| round.remove(0)).collect();
        let most = if at == 0 { FIRST_MAX } else { FURTHER_MAX };
        row(&mut text, "tallymesh", &weights, Some(most));
    }
    Ok(text)
}

/// Fills a node, and lets it hear of the same counters from one further node after another.
fn round(plan: &Plan<'_>) -> Result<Vec<Weight>> {
    let writers_max = if plan.quick { 3 } else { 4 };
    let ours = Server::start(Kind::Ours(plan.node), Durability::Memory)?;
    ours.client()?.count_all(KEYS, 0)?;
    let mut weights = vec![weight(&ours, 1, None)?];
    let mut others = Vec::new();
    for writers in 2..=writers_max {
        let other = Server::start_beside(plan.node, Durability::Memory, &[&ours])?;
        other.wait_for(&ours)?;
        other.client()?.count_all(KEYS, 0)?;
        ours.wait_for(&other)?;
        let shards = ours.shard_count()?;
        if shards != (writers * KEYS) as u64 {
            bail!("{shards} shards after {writers} writers counted in {KEYS} counters each");
        }
        weights.push(weight(&ours, writers, weights.first())?);
        others.push(other);
    }
    Ok(weights)
}

fn weight(server: &Server<'_>, writers: usize, first: Option<&Weight>) -> Result<Weight> {
    let a_counter = |bytes: u64| bytes.saturating_sub(server.empty_bytes) as f64 / KEYS as f64;
    let now = a_counter(server.resident_bytes()?);
    let further = |first: &Weight| (now - first.now) / (writers - 1) as f64;
    Ok(Weight {
        writers,
        now,
        peak: a_counter(server.resident_bytes_max()?),
        further: first.map_or(0.0, further),
    })
}

fn row(text: &mut String, name: &str, weights: &[Weight], most: Option<f64>) {
    let lowest = |of: fn(&Weight) -> f64| weights.iter().map(of).fold(f64::INFINITY, f64::min);
    let peak = weights.iter().map(|it| it.peak).fold(0.0, f64::max);
    let now = median_of(weights, |it| it.now);
    let writers = weights[0].writers;
    let (judged, further) = match writers {
        1 => (now, "| ".into()),
        _ => {
            let further = median_of(weights, |it| it.further);
            (
                further,
                format!("{further:.1} | {:.1}", lowest(|it| it.further)),
            )
        }
    };
    let target = most.map_or(String::new(), |most| {
        let word = if judged <= most { "met" } else { "**missed**" };
        format!("{most}: {word}")
    });
    let lowest = lowest(|it| it.now);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "| {name} | {writers} | {now:.1} | {lowest:.1} | {peak:.1} | {further} | {target} |"
    );
}
