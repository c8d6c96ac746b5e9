//! All pages add at once, in one loop, until all of them show the sum.

use super::Plan;
use super::servers::Who;
use super::table::{Measure, aim, head, plain, table};
use anyhow::Result;

const MEASURES: [Measure; 7] = [
    plain("all are online", "s"),
    aim("first: until all agree", 1.5, "s", 1_000),
    aim("first: received by each", 30e3, "B", 1_000),
    aim("again: until all agree", 1.0, "s", 1_000),
    aim("again: received by each", 10e3, "B", 1_000),
    aim(
        "growth of the server's memory at the peak",
        60.0,
        "MiB",
        1_000,
    ),
    plain(
        "a third time, with `kill -9` in the middle: until all agree",
        "s",
    ),
];

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let found = plan.each(&Who::ALL, links, |stage, found| {
        found.put(stage.fill(links)?.as_secs_f64());
        stage.quiet()?;
        for _ in 0..2 {
            let (took, received) = stage.add_all()?;
            found.put(took.as_secs_f64());
            found.put(received);
            stage.check()?;
            stage.quiet()?;
        }
        found.put(stage.growth()? as f64 / f64::from(1 << 20));
        if stage.is_ours() {
            found.put(stage.crash(links)?.as_secs_f64());
        }
        Ok(())
    })?;
    let text = "All add 1 to one counter in one loop, and again once they are quiet. A page of y-websocket sets \
        its own key of one map; the broadcast server merges nothing and keeps nothing, so neither is killed.";
    Ok(head(plan, links, text) + &table(links, &MEASURES, &found))
}
