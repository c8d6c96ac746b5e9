//! What a node sends for a thousand changes among a million counters that another one holds, too.

use super::Plan;
use super::guest::{Guest, key, writer};
use super::idle::{Pair, Passed, settle};
use super::nodes::Node;
use crate::random::Random;
use crate::resp_client::Client;
use anyhow::{Result, bail};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Replica, Space};

/// How many counters change.
const CHANGES: usize = 1_000;

/// What is to be sent at most, as a multiple of the size of what changed.
const RATIO_MAX: f64 = 1.5;

/// How changes are made.
#[derive(Clone, Copy)]
enum How {
    /// By one request.
    AtOnce,
    /// One after the other, each after the answer to the one before, so many a second at most.
    OneByOne(Option<u32>),
}

impl How {
    fn name(self) -> String {
        match self {
            How::AtOnce => "in one request".into(),
            How::OneByOne(None) => "one by one, as fast as they are answered".into(),
            How::OneByOne(Some(rate)) => format!("one by one, {rate} a second"),
        }
    }
}

/// Measures changes that are made faster and faster; the table is in Markdown.
pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let counters = if plan.quick { 100_000 } else { 1_000_000 };
    let idle_time = Duration::from_secs(if plan.quick { 30 } else { 120 });
    let mut hows = vec![How::AtOnce, How::OneByOne(None)];
    hows.extend([1_000, 100].map(|rate| How::OneByOne(Some(rate))));
    if !plan.quick {
        hows.push(How::OneByOne(Some(10)));
    }
    let mut text = format!(
        "{CHANGES} of {counters} counters (keys of 20 bytes), chosen at random, are counted in once at \
         one of two nodes that hold all of them. Bytes are of both directions together, until both \
         hold the same again, less what both exchange in that time when nothing changes. Together: one \
         message of exactly these shards. Alone: a frame for each of them, as a change that is told \
         by itself takes. Streams and TCP as above.\n\n\
         | changes | seconds | pushes | bytes of pushes | of frames | together | ratio | target | alone | ratio | streams, bytes | ratio to together | TCP, bytes | ratio to together |\n\
         |---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|\n"
    );
    let mut pair = Pair::with(plan, counters, 1)?;
    settle(plan);
    let before = pair.snap()?;
    thread::sleep(idle_time);
    let idle = before.passed(&pair)?;
    let mut numbers: Vec<usize> = (0..counters).collect();
    Random::new(1).shuffle(&mut numbers);
    for (how, numbers) in hows.into_iter().zip(numbers.chunks_exact(CHANGES)) {
        let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
        let mark = pair.guest.mark();
        let before = pair.snap()?;
        change(how, &keys, &pair.nodes[0])?;
        pair.nodes[1].wait_for_all_of(&pair.nodes[0])?;
        let passed = before.passed(&pair)?;
        if pair.wire.has_ended() {
            bail!("the nodes were linked anew: the machine is too busy to measure this");
        }
        let together = together(&mut pair.guest, mark, &pair.nodes[0])?;
        let line = row(how, &passed, &idle, together as f64, alone(&keys)? as f64);
        println!("{line}");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

/// Counts once in each of the counters.
fn change(how: How, keys: &[String], node: &Node) -> Result<()> {
    let How::OneByOne(rate) = how else {
        node.post("/v1/spaces/default/add", &keys.join("\n"))?;
        return Ok(());
    };
    let mut client = Client::connect(node.resp)?;
    let begun = Instant::now();
    for (key, number) in keys.iter().zip(0..) {
        if let Some(rate) = rate {
            let due = Duration::from_secs(1) * number / rate;
            thread::sleep(due.saturating_sub(begun.elapsed()));
        }
        client.ask(&["INCR", key])?;
    }
    Ok(())
}

/// Bytes of one message of exactly the shards that changed.
fn together(guest: &mut Guest, mark: tallymesh_core::Mark, node: &Node) -> Result<usize> {
    guest.sync(node)?;
    match guest.changed_since(mark) {
        (CHANGES, bytes) => Ok(bytes),
        (shards, _) => bail!("{shards} shards changed, not {CHANGES}"),
    }
}

/// Bytes of a frame for each of the changes, made by a writer that made nothing else.
fn alone(keys: &[String]) -> Result<usize> {
    let space = Space::default();
    let mut replica = Replica::new(space.clone(), writer(0));
    let mut mark = replica.mark();
    let mut bytes = 0;
    for key in keys {
        replica.add(key, 1)?;
        if let Some(message) = replica.since(&mut mark) {
            let (space, body) = (space.clone(), Body::Push(message));
            bytes += Frame { space, body }.encode().len();
        }
    }
    Ok(bytes)
}

fn row(how: How, passed: &Passed, idle: &Passed, together: f64, alone: f64) -> String {
    let rest = passed.seconds / idle.seconds;
    let traffic = passed.traffic;
    let pushes = traffic.push.bytes.outbound;
    let frames = traffic.frame_bytes() - idle.traffic.frame_bytes() * rest;
    let streams = traffic.streams.outbound - idle.traffic.streams.outbound * rest;
    let wire = passed.wire - idle.wire * rest;
    let ratio = (pushes + frames) / together;
    let word = match ratio <= RATIO_MAX {
        true => "met",
        false => "**missed**",
    };
    format!(
        "| {} | {:.1} | {:.0} | {pushes:.0} | {frames:.0} | {together:.0} | {ratio:.2} | {RATIO_MAX}: {word} | {alone:.0} | {:.2} | {streams:.0} | {:.2} | {wire:.0} | {:.2} |",
        how.name(),
        passed.seconds,
        traffic.push.messages.outbound,
        (pushes + frames) / alone,
        streams / together,
        wire / together,
    )
}
