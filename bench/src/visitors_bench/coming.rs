//! Pages that come and go: how soon a fresh one counts, and what the others receive for it.

use super::Plan;
use super::crowd::Crowd;
use super::servers::Who;
use super::table::{Measure, aim, head, plain, table};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Fresh pages, one after the other, each of which clicks so long after it was opened.
const FRESH: usize = 32;
const LOOKS_FOR: Duration = Duration::from_millis(1_200);
/// For how long bytes are counted after the pages came, and after they went.
const AFTER: Duration = Duration::from_secs(5);

const FRESH_MEASURES: [Measure; 3] = [
    aim("the first click is seen elsewhere, median", 30.0, "ms", 1),
    aim("the same, p99", 100.0, "ms", 1),
    plain("`kill -9` after a click: until all agree", "s"),
];

const CROWD: [Measure; 4] = [
    aim("they come: until all are online", 2.0, "s", 500),
    aim("received by each that was there", 15e3, "B", 500),
    aim("a fifth goes: received by each that stays", 2e3, "B", 500),
    plain("`kill -9` as all add: until all agree", "s"),
];

pub(super) fn fresh(plan: &Plan<'_>) -> Result<String> {
    let rounds = if plan.quick { FRESH / 4 } else { FRESH };
    let found = plan.each(&Who::ALL, 2, |stage, found| {
        stage.fill(1)?;
        let mut took = Vec::new();
        for _ in 0..rounds {
            let page = stage.come(0);
            stage.until_so("a page is connected", |it| it.is_up(page))?;
            stage.run(LOOKS_FOR)?;
            let begun = Instant::now();
            stage.crowd.add(page)?;
            let wanted = stage.crowd.expected();
            stage.until_so("a page shows a click", |it| it.value(0) == wanted)?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
            stage.crowd.leave(page, false);
        }
        took.sort_by(f64::total_cmp);
        found.put(took[took.len() / 2]);
        found.put(took[(took.len() * 99 / 100).min(took.len() - 1)]);
        stage.check()?;
        if stage.is_ours() {
            found.put(stage.crash(1)?.as_secs_f64());
        }
        Ok(())
    })?;
    let text = format!(
        "{rounds} fresh pages come one after the other. Each clicks {} ms after its socket is open, and is \
         killed once another page shows that.",
        LOOKS_FOR.as_millis()
    );
    Ok(head(plan, 2, &text) + &table(2, &FRESH_MEASURES, &found))
}

pub(super) fn crowd(plan: &Plan<'_>) -> Result<String> {
    let come = plan.args.links;
    let (there, go) = ((come * 3 / 10).max(1), come / 5);
    let found = plan.each(&[Who::Ours, Who::Yjs], there + come, |stage, found| {
        stage.fill(there)?;
        stage.add_all()?;
        stage.quiet()?;
        let stay: Vec<usize> = stage.crowd.numbers().collect();
        let before = stage.crowd.received(&stay);
        found.put(stage.fill(come)?.as_secs_f64());
        stage.run(AFTER)?;
        let received = (stage.crowd.received(&stay) - before) as f64;
        found.put(received / stay.len() as f64);
        let leavers: Vec<usize> = stage.crowd.numbers().skip(there).take(go).collect();
        // They have something to hand over.
        for page in &leavers {
            stage.crowd.add(*page)?;
        }
        stage.until("agree", Crowd::agreeing)?;
        if !stage.quiet()? {
            found.note("the pages were not quiet before some of them went".into());
        }
        let before = stage.crowd.received(&stay);
        for page in leavers {
            stage.crowd.leave(page, true);
        }
        stage.run(AFTER)?;
        let received = (stage.crowd.received(&stay) - before) as f64;
        found.put(received / stay.len() as f64);
        stage.check()?;
        if stage.is_ours() {
            let present = stage.crowd.present();
            found.put(stage.crash(present)?.as_secs_f64());
        }
        Ok(())
    })?;
    let text = format!(
        "{there} others are there, and have clicked. Then these pages come at once. {go} of them click and \
         go, with a goodbye. Bytes are counted for {} s after the last one was online, and after they went.",
        AFTER.as_secs()
    );
    Ok(head(plan, come, &text) + &table(come, &CROWD, &found))
}
