//! Running the tests against each mutant until one notices.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::build::Planted;
use super::list::Mutant;
use super::report::Outcome;
use super::tests::{self, Test, Tests};
use crate::repo::Repo;
use crate::run::{self, Group, say};

/// Tests as fast as that share a process.
const FAST: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(5);
/// A run that takes so many times as long as it should has been noticed.
pub(super) const SLOW: u32 = 20;
const SLOW_MIN: Duration = Duration::from_secs(20);
const BEAT: Duration = Duration::from_secs(60);

/// Tries these mutants, and tells what became of each.
pub(super) fn run<'m>(
    repo: &Repo,
    planted: &Planted,
    tests: &Tests,
    mutants: &[&'m Mutant],
    jobs: usize,
    explained: impl Fn(&Mutant) -> bool + Sync,
) -> Result<Vec<(&'m Mutant, Outcome)>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let begun = Instant::now();
    let together: Vec<&&Mutant> = mutants.iter().filter(|m| planted.holds(m.id)).collect();
    let work = |job: usize| -> Result<()> {
        while let Some(mutant) = together.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut outcome = attempt(repo, planted, tests, mutant.id, job)?;
            if outcome.survived() && !explained(mutant) {
                let noticed = again(repo, planted, tests, mutant.id, job)?;
                outcome = noticed.unwrap_or(outcome);
            }
            if outcome.survived() {
                say(&format!("survived: {}", mutant.title()));
            }
            done.lock().unwrap().insert(mutant.id, outcome);
        }
        Ok(())
    };
    let finished = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let jobs: Vec<_> = (0..jobs)
            .map(|job| scope.spawn(move || work(job)))
            .collect();
        scope.spawn(|| {
            let mut beat = Instant::now();
            while !finished.load(Ordering::Relaxed) {
                thread::sleep(POLL);
                if beat.elapsed() > BEAT {
                    beat = Instant::now();
                    let tried = done.lock().unwrap().len();
                    let time = begun.elapsed().as_secs();
                    say(&format!(
                        "{tried} of {} mutants after {time} s",
                        together.len()
                    ));
                }
            }
        });
        let results: Vec<Result<()>> = jobs.into_iter().map(|job| job.join().unwrap()).collect();
        finished.store(true, Ordering::Relaxed);
        results.into_iter().collect()
    })?;
    let mut done = done.into_inner().unwrap();
    for mutant in mutants {
        if planted.is_unviable(mutant.id) {
            done.insert(mutant.id, Outcome::Unviable);
        } else if !planted.holds(mutant.id) {
            done.insert(mutant.id, alone(repo, planted, tests, mutant)?);
        }
    }
    let outcomes = mutants.iter().map(|mutant| {
        let outcome = done.remove(&mutant.id).unwrap_or(Outcome::NotRun);
        (*mutant, outcome)
    });
    Ok(outcomes.collect())
}

/// Tries one mutant of the common build with the tests that come by it.
fn attempt(repo: &Repo, planted: &Planted, tests: &Tests, id: u32, job: usize) -> Result<Outcome> {
    let tests: Vec<&Test> = tests
        .all
        .iter()
        .filter(|test| test.seen.contains(&id))
        .collect();
    if tests.is_empty() {
        return Ok(Outcome::Survived { tests: 0 });
    }
    through(repo, planted, &tests, id, job)
}

/// Runs the tests that play seeds, with more of them.
fn again(
    repo: &Repo,
    planted: &Planted,
    tests: &Tests,
    id: u32,
    job: usize,
) -> Result<Option<Outcome>> {
    let of = |test: &&Test| test.seeds().is_some() && test.seen.contains(&id);
    for test in tests.all.iter().filter(of) {
        run::go_on()?;
        let noticed = noticed(repo, planted, &[test], id, job, tests::MORE)?;
        if noticed.is_some() {
            return Ok(noticed);
        }
    }
    Ok(None)
}

/// Runs tests, fast ones together, until one fails.
fn through(
    repo: &Repo,
    planted: &Planted,
    tests: &[&Test],
    id: u32,
    job: usize,
) -> Result<Outcome> {
    let mut batches: BTreeMap<(bool, &str), Vec<&Test>> = BTreeMap::new();
    let (fast, slow): (Vec<&Test>, Vec<&Test>) = tests.iter().partition(|test| test.time < FAST);
    for test in fast {
        // Core's own are the nearest.
        let key = (!test.target.ends_with("core"), test.target.as_str());
        batches.entry(key).or_default().push(test);
    }
    let slow = slow.into_iter().map(|test| vec![test]);
    for batch in batches.into_values().chain(slow) {
        run::go_on()?;
        if let Some(outcome) = noticed(repo, planted, &batch, id, job, 1)? {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Survived { tests: tests.len() })
}

/// Runs some tests of one binary in one process.
fn noticed(
    repo: &Repo,
    planted: &Planted,
    batch: &[&Test],
    id: u32,
    job: usize,
    more: u64,
) -> Result<Option<Outcome>> {
    let names: Vec<&str> = batch.iter().map(|test| test.name.as_str()).collect();
    let mut command = tests::runner(&planted.scratch, &batch[0].binary, &names);
    let log = repo
        .target()
        .join("mutants")
        .join(format!("trial-{job}.log"));
    let file = File::create(&log)?;
    command
        .env("TALLYMESH_MUTANT", id.to_string())
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    if let Some(seeds) = batch[0].seeds() {
        command.env("TALLYMESH_SEEDS", (seeds * more).to_string());
    }
    let usual: Duration = batch.iter().map(|test| test.time).sum();
    let limit = (usual * more as u32 * SLOW).max(SLOW_MIN);
    let begun = Instant::now();
    let mut group = Group::spawn(&mut command)?;
    let status = loop {
        if let Some(status) = group.try_wait()? {
            break status;
        }
        if begun.elapsed() > limit {
            return Ok(Some(Outcome::Slow {
                by: batch[0].title(),
            }));
        }
        run::go_on()?;
        thread::sleep(POLL);
    };
    if status.success() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    let failed = text
        .lines()
        .find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let by = match failed {
        Some(name) => format!("{}: {name}", batch[0].target),
        None => batch[0].title(),
    };
    Ok(Some(Outcome::Caught { by }))
}

/// Tries a mutant with a build of its own and all tests.
fn alone(repo: &Repo, planted: &Planted, tests: &Tests, mutant: &Mutant) -> Result<Outcome> {
    planted.only(mutant)?;
    let built = tests::build(repo, &planted.scratch)?;
    let mut own = Vec::new();
    for (target, binary) in built {
        let known = tests.all.iter().filter(|test| test.target == target);
        own.extend(known.map(|test| Test {
            binary: binary.clone(),
            target: target.clone(),
            name: test.name.clone(),
            time: test.time,
            seen: Default::default(),
        }));
    }
    own.sort_by_key(|test| test.time);
    let outcome = through(repo, planted, &own.iter().collect::<Vec<_>>(), 0, 0)?;
    if outcome.survived() {
        say(&format!("survived: {}", mutant.title()));
    }
    Ok(outcome)
}
