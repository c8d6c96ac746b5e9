//! `cargo xtask test --changed`: what a change can affect and what answers soon. It says what it leaves out.

mod faces;
mod files;
mod graph;
mod jobs;
mod plan;

use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use super::Tally;
use super::skips::Skips;
use super::stages;
use crate::repo::Repo;
use crate::run;
use graph::Graph;
use jobs::Job;
use plan::Plan;

/// So many changed files are named.
const FILES_SHOWN: usize = 12;

/// Runs what the files can affect that differ from `base`, or from the last commit that this branch has in
/// common with main.
pub(super) fn command(repo: &Repo, base: Option<&str>) -> Result<()> {
    let begun = Instant::now();
    let changes = files::since(repo, base)?;
    if changes.files.is_empty() {
        println!("nothing has changed since {}", changes.base);
        return Ok(());
    }
    println!("== changed since {}:", changes.base);
    for file in changes.files.iter().take(FILES_SHOWN) {
        println!("   {file}");
    }
    if let Some(more @ 1..) = changes.files.len().checked_sub(FILES_SHOWN) {
        println!("   and {more} more");
    }
    let skips = Skips::read(repo)?;
    let plan = Plan::of(&changes.files, &Graph::read(repo)?);
    let left_out = left_out(&plan);
    let jobs = jobs::of(plan, repo)?;
    println!("== runs");
    for job in &jobs {
        println!("   {}: {}", job.name(), job.what());
    }
    println!("== leaves out");
    print!("{left_out}");
    println!("== times");
    let (beside, jobs): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(Job::is_beside);
    let total = thread::scope(|scope| {
        // These begin before the type check asks for the build folder, so that it waits for their build and is
        // compiled while they run.
        let beside = scope.spawn(|| run_all(repo, &skips, &beside));
        let mut total = run_all(repo, &skips, &jobs)?;
        total.join(beside.join().expect("jobs that end")?);
        anyhow::Ok(total)
    })?;
    println!("== total: {:.1} s", begun.elapsed().as_secs_f32());
    println!("{total}");
    if total.failed > 0 {
        bail!("the test run failed");
    }
    Ok(())
}

/// Runs jobs one after the other, and prints what each found.
fn run_all(repo: &Repo, skips: &Skips, jobs: &[Job]) -> Result<Tally> {
    let mut total = Tally::default();
    for job in jobs {
        run::go_on()?;
        let begun = Instant::now();
        let mut tally = job.run(repo);
        run::go_on()?;
        skips.judge(job.stage(), &mut tally);
        for failure in &tally.failures {
            println!("{failure}\n");
        }
        let took = begun.elapsed().as_secs_f32();
        println!("   {}: {tally}; {took:.1} s", job.name());
        total.join(tally);
    }
    Ok(total)
}

/// A line for each stage that the change can affect and that does not run as a whole, with its command.
fn left_out(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |name: &str, what: &str, command: &str| {
        text += &format!("   {name}: {what}: {command}\n");
    };
    if plan.scenarios {
        let native = "cargo xtask test --stage native";
        let traced = faces::TRACED.join(", ");
        let long = format!(
            "{}, of which the first seeds of {traced} run",
            faces::LONG.join(", ")
        );
        line("long tests", &long, native);
        for (file, test) in faces::LONG_TESTS {
            line(file, test, native);
        }
    }
    for file in &plan.all {
        let what = "all may depend on it";
        line(file, what, "cargo xtask test");
    }
    for stage in stages::ALL.iter() {
        if plan.left_out.contains(stage.name) {
            let command = format!("cargo xtask test --stage {}", stage.name);
            line(stage.name, stage.what, &command);
        }
    }
    if text.is_empty() {
        text += "   nothing\n";
    }
    text
}
