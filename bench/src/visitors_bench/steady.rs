//! Pages that are connected and count nothing, and pages of which one after the other clicks.

use super::Plan;
use super::servers::Who;
use super::stage::Stage;
use super::table::{Measure, aim, head, plain, table};
use crate::measure::cpu_seconds;
use crate::random::Random;
use anyhow::Result;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Clicks a second of all pages.
const RATE: u32 = 100;
/// For how long they click, in seconds.
const STEADY_S: u64 = 30;

const CONNECTED: [Measure; 4] = [
    plain("all are online", "s"),
    aim("growth of the server's memory", 260.0, "MiB", 10_000),
    plain("of each page", "KiB"),
    plain("`kill -9` after a click: until all agree", "s"),
];

const STEADY: [Measure; 6] = [
    aim("a click is seen by all, p99", 400.0, "ms", 10_000),
    plain("the same, median", "ms"),
    aim(
        "the server's processor time, of one core",
        0.6,
        "cores",
        10_000,
    ),
    plain("the load process's processor time, of one core", "cores"),
    plain("received by each, a second", "B"),
    plain("`kill -9` amid clicks: until all agree", "s"),
];

pub(super) fn connected(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let found = plan.each(&Who::ALL, links, |stage, found| {
        found.put(stage.fill(links)?.as_secs_f64());
        stage.quiet()?;
        let growth = stage.memory()?.saturating_sub(stage.empty_bytes) as f64;
        found.put(growth / f64::from(1 << 20));
        found.put(growth / 1_024.0 / links as f64);
        if stage.is_ours() {
            found.put(stage.crash(1)?.as_secs_f64());
        }
        Ok(())
    })?;
    Ok(head(plan, links, "They connect, and none of them counts.")
        + &table(links, &CONNECTED, &found))
}

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let time = Duration::from_secs(if plan.quick { STEADY_S / 3 } else { STEADY_S });
    let found = plan.each(&Who::ALL, links, |stage, found| {
        stage.fill(links)?;
        stage.quiet()?;
        let pages: Vec<usize> = stage.crowd.numbers().collect();
        let before = stage.crowd.received(&pages);
        let cpu = stage.servers[0].cpu_seconds()?;
        let own = cpu_seconds(std::process::id())?;
        let begun = Instant::now();
        let mut took = clicks(stage, &pages, time)?;
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = stage.servers[0].cpu_seconds()? - cpu;
        let own = cpu_seconds(std::process::id())? - own;
        let received = (stage.crowd.received(&pages) - before) as f64;
        took.sort_by(f64::total_cmp);
        let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
        found.put(at(99));
        found.put(at(50));
        found.put(cpu / seconds);
        found.put(own / seconds);
        found.put(received / pages.len() as f64 / seconds);
        stage.check()?;
        if stage.is_ours() {
            found.put(stage.crash(RATE as usize)?.as_secs_f64());
        }
        Ok(())
    })?;
    let text = format!(
        "{RATE} clicks a second in all, by random pages, for {} s. A click is seen by all once each page \
         shows at least as much as had been clicked until then. The first clicks of each page are among \
         them.",
        time.as_secs()
    );
    Ok(head(plan, links, &text) + &table(links, &STEADY, &found))
}

/// Pages click by chance for so long. Returns how many milliseconds each click took until all pages
/// showed it.
fn clicks(stage: &mut Stage<'_>, pages: &[usize], time: Duration) -> Result<Vec<f64>> {
    let mut random = Random::new(1);
    let mut open: VecDeque<(i128, Instant)> = VecDeque::new();
    let mut took = Vec::new();
    let begun = Instant::now();
    let mut made = 0;
    let end = time.as_millis() as u64 * u64::from(RATE) / 1_000;
    while made < end || !open.is_empty() {
        let due = begun.elapsed().as_millis() as u64 * u64::from(RATE) / 1_000;
        while made < due.min(end) {
            stage.crowd.add(pages[random.below(pages.len())])?;
            open.push_back((stage.crowd.expected(), Instant::now()));
            made += 1;
        }
        stage.serve(open.front().map_or_else(Instant::now, |it| it.1))?;
        let (least, _) = stage.crowd.values();
        while let Some((value, at)) = open.front()
            && *value <= least
        {
            took.push(at.elapsed().as_secs_f64() * 1e3);
            open.pop_front();
        }
    }
    Ok(took)
}
