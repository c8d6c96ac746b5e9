//! Pages that came, clicked once and went, half of them without a goodbye: what the node has of them in the end.

use super::servers::Who;
use super::stage::Stage;
use super::table::{Column, Measure, aim, head, plain, table};
use super::{Plan, tell};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Most of them that are there at a time.
const THERE_MAX: usize = 4_096;
/// How long a page that can't tell whether its click is held waits after it.
const STAYS: Duration = Duration::from_secs(1);
/// A page that is not acknowledged goes after so long. Its click may be lost with it.
const STAYS_MAX: Duration = Duration::from_secs(10);
/// The node has this long after the last one.
const AFTER: Duration = Duration::from_secs(20);
/// How often it is said how far it is.
const SAY: usize = 10_000;

const MEASURES: [Measure; 7] = [
    plain("visitors", ""),
    plain("a second", ""),
    plain("not acknowledged within 10 s", ""),
    plain("not accepted by the replica", ""),
    aim("growth of the node's memory", 5.0, "MiB", 1_000_000),
    aim("growth of its folder", 5.0, "MiB", 1_000_000),
    plain("writers at the end", ""),
];

/// A page that has come.
struct Visit {
    page: usize,
    clicked: Option<Instant>,
}

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let visitors = plan.args.visitors;
    let found = plan.each(&[Who::Ours], THERE_MAX, |stage, found| {
        measure(plan, stage, found)
    })?;
    let text = format!(
        "They come at {} a second, click once when they are online, and go when a member has acknowledged that, each second one \
         without a goodbye. The node is killed (`kill -9`) after half of them. Then it has {} s.",
        plan.args.rate,
        AFTER.as_secs()
    );
    Ok(head(plan, visitors, &text) + &table(visitors, &MEASURES, &found))
}

fn measure(plan: &Plan<'_>, stage: &mut Stage<'_>, found: &mut Column) -> Result<()> {
    let (visitors, rate) = (plan.args.visitors, plan.args.rate);
    let disk = stage.servers[0].disk_bytes()?;
    let begun = Instant::now();
    let mut there: Vec<Visit> = Vec::new();
    let (mut came, mut went, mut unsure, mut refused) = (0, 0, 0, 0);
    let mut is_killed = false;
    while went < visitors {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as usize;
        while came < due.min(visitors) && there.len() < THERE_MAX {
            let page = stage.come(0);
            there.push(Visit {
                page,
                clicked: None,
            });
            came += 1;
        }
        if !is_killed && came > visitors / 2 {
            is_killed = true;
            stage.kill()?;
        }
        stage.serve(Instant::now())?;
        let mut at = 0;
        while at < there.len() {
            let visit = &mut there[at];
            let page = visit.page;
            let clicked = match visit.clicked {
                // What a guest counts before a member has admitted it is not among its unconfirmed
                // transactions, so it would go too early.
                None if stage.crowd.is_online(page) => {
                    visit.clicked = Some(Instant::now());
                    refused += usize::from(stage.crowd.add(page).is_err());
                    at += 1;
                    continue;
                }
                None => {
                    at += 1;
                    continue;
                }
                Some(clicked) => clicked.elapsed(),
            };
            let is_held = match stage.crowd.is_acknowledged(page) {
                Some(is_held) => is_held,
                None => !stage.has_members() && clicked > STAYS,
            };
            if !is_held && clicked < STAYS_MAX {
                at += 1;
                continue;
            }
            unsure += usize::from(!is_held);
            stage.crowd.leave(page, went % 2 == 0);
            there.swap_remove(at);
            went += 1;
            if went % SAY == 0 {
                tell(&format!("{went} of {visitors} came and went"));
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    stage.run(AFTER)?;
    found.put(went as f64);
    found.put(went as f64 / seconds);
    found.put(unsure as f64);
    found.put(refused as f64);
    let mib = |now: u64, before: u64| (now as f64 - before as f64) / f64::from(1 << 20);
    found.put(mib(stage.memory()?, stage.empty_bytes));
    found.put(mib(stage.servers[0].disk_bytes()?, disk));
    found.put(stage.servers[0].writers()? as f64);
    if unsure + refused == 0 {
        stage.check()?;
    } else {
        found.note(
            "a click that is not acknowledged may be lost with its page, so the sum was not checked".into(),
        );
    }
    Ok(())
}
