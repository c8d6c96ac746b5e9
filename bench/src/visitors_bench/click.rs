//! One page clicks, and all others receive that.

use super::Plan;
use super::crowd::Crowd;
use super::servers::Who;
use super::stage::Stage;
use super::table::{Measure, aim, head, plain, table};
use anyhow::Result;
use std::time::Duration;

/// For how long bytes are counted, in seconds: once while nothing happens, and once with a click.
const WATCHED_S: u64 = 10;

const MEASURES: [Measure; 5] = [
    aim(
        "a click of a live writer: received by each",
        60.0,
        "B",
        1_000,
    ),
    plain("until all show it", "ms"),
    aim(
        "a fresh page comes, clicks and goes: received by each",
        150.0,
        "B",
        1_000,
    ),
    plain("nothing happens: received by each, a second", "B"),
    plain("`kill -9` after a click: until all agree", "s"),
];

pub(super) fn run(plan: &Plan<'_>) -> Result<String> {
    let links = plan.args.links;
    let watched = Duration::from_secs(if plan.quick { WATCHED_S / 2 } else { WATCHED_S });
    let found = plan.each(&Who::ALL, links, |stage, found| {
        stage.fill(links)?;
        // Each of them is a writer from here on.
        stage.add_all()?;
        if !stage.quiet()? {
            found.note("the pages were not quiet before the clicks".into());
        }
        let pages: Vec<usize> = stage.crowd.numbers().collect();
        let idle = received(stage, &pages, watched, |_| Ok(()))?;
        let mut seen = Duration::ZERO;
        let live = received(stage, &pages, watched, |stage| {
            stage.crowd.add(pages[0])?;
            seen = stage.until("show the click", Crowd::agreeing)?;
            Ok(())
        })?;
        found.put((live - idle).max(0.0));
        found.put(seen.as_secs_f64() * 1e3);
        let fresh = received(stage, &pages, watched, |stage| {
            let page = stage.come(0);
            stage.until("are online", Crowd::online)?;
            stage.crowd.add(page)?;
            // The fresh page of a server that keeps nothing knows no sum.
            let others = usize::from(!stage.keeps());
            let seen = |it: &Crowd| it.agreeing() + others >= it.present();
            stage.until_so("the others show the click", seen)?;
            stage.crowd.leave(page, true);
            Ok(())
        })?;
        found.put((fresh - idle).max(0.0));
        found.put(idle / watched.as_secs_f64());
        stage.check()?;
        if stage.is_ours() {
            found.put(stage.crash(1)?.as_secs_f64());
        }
        Ok(())
    })?;
    let text = format!(
        "Each has clicked once before. Bytes are counted for {} s, less those of as long a time in which \
         nothing happened.",
        watched.as_secs()
    );
    Ok(head(plan, links, &text) + &table(links, &MEASURES, &found))
}

/// Bytes that each of these pages receives in that time, in which something is done first.
fn received(
    stage: &mut Stage<'_>,
    pages: &[usize],
    watched: Duration,
    act: impl FnOnce(&mut Stage<'_>) -> Result<()>,
) -> Result<f64> {
    let before = stage.crowd.received(pages);
    let begun = std::time::Instant::now();
    act(stage)?;
    stage.run(watched.saturating_sub(begun.elapsed()))?;
    let received = stage.crowd.received(pages) - before;
    Ok(received as f64 / pages.len() as f64)
}
