//! Runs the tests against each mutant until one notices it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::build::Planted;
use super::list::Mutant;
use super::report::{Found, Outcome};
use super::tests::{self, Test, Tests};
use crate::repo::Repo;
use crate::run::{self, Group, say};

/// Tests up to this time share a process.
const FAST: Duration = Duration::from_millis(110);
const POLL: Duration = Duration::from_millis(5);
/// A run that takes this many times its usual time counts as noticed.
pub(super) const SLOW: u32 = 20;
const SLOW_MIN: Duration = Duration::from_secs(20);
const BEAT: Duration = Duration::from_secs(60);

/// The settings of the trials.
pub(super) struct Course<'a> {
    pub(super) repo: &'a Repo,
    pub(super) planted: &'a Planted,
    pub(super) tests: &'a Tests,
    pub(super) found: &'a Found,
    /// Number of mutants at the same time.
    pub(super) jobs: usize,
    /// Whether the outcomes of an earlier run are used instead of a new trial.
    pub(super) trusts: bool,
    /// Whether mutants outside the common build are tried.
    pub(super) alone: bool,
    /// Whether a surviving mutant needs no further histories.
    pub(super) may_survive: &'a (dyn Fn(&Mutant) -> bool + Sync),
}

impl Course<'_> {
    /// Tries these mutants, and returns the outcome of each.
    pub(super) fn run<'m>(&self, mutants: &[&'m Mutant]) -> Result<Vec<(&'m Mutant, Outcome)>> {
        let mut done = BTreeMap::new();
        let mut together = Vec::new();
        for &mutant in mutants {
            let known = self.found.of(mutant);
            if self.planted.is_unviable(mutant.id) {
                done.insert(mutant.id, Outcome::Unviable);
            } else if let Some(known) = known.filter(|_| self.trusts) {
                done.insert(mutant.id, known.clone());
            } else if self.planted.holds(mutant.id) {
                together.push(mutant);
            }
        }
        done.extend(self.together(&together)?);
        for mutant in mutants.iter().filter(|_| self.alone) {
            if let Entry::Vacant(place) = done.entry(mutant.id) {
                let outcome = alone(self.repo, self.planted, self.tests, mutant)?;
                self.found.note(mutant, &outcome)?;
                place.insert(outcome);
            }
        }
        let outcomes = mutants.iter().map(|mutant| {
            let outcome = done.remove(&mutant.id).unwrap_or(Outcome::NotRun);
            (*mutant, outcome)
        });
        Ok(outcomes.collect())
    }

    /// Tries the mutants of the common build, several at a time.
    fn together(&self, mutants: &[&Mutant]) -> Result<BTreeMap<u32, Outcome>> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(BTreeMap::new());
        let begun = Instant::now();
        let beat = Mutex::new(begun);
        let work = |job: usize| -> Result<()> {
            while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.attempt(mutant, job)?;
                let mut done = done.lock().unwrap();
                self.found.note(mutant, &outcome)?;
                if outcome.survived() {
                    say(&format!("survived: {}", mutant.title()));
                }
                done.insert(mutant.id, outcome);
                let mut beat = beat.lock().unwrap();
                if beat.elapsed() > BEAT {
                    *beat = Instant::now();
                    let time = begun.elapsed().as_secs();
                    let (tried, all) = (done.len(), mutants.len());
                    say(&format!("{tried} of {all} mutants after {time} s"));
                }
            }
            Ok(())
        };
        thread::scope(|scope| -> Result<()> {
            let jobs = (0..self.jobs).map(|job| scope.spawn(move || work(job)));
            let jobs: Vec<_> = jobs.collect();
            jobs.into_iter().try_for_each(|job| job.join().unwrap())
        })?;
        Ok(done.into_inner().unwrap())
    }

    /// Tries one mutant of the common build with the tests that reach it.
    fn attempt(&self, mutant: &Mutant, job: usize) -> Result<Outcome> {
        let Course { repo, planted, .. } = *self;
        let tests = self.tests.all.iter();
        let tests: Vec<&Test> = tests
            .filter(|test| test.seen.contains(&mutant.id))
            .collect();
        let outcome = through(repo, planted, &tests, mutant.id, job)?;
        if outcome.survived() && !(self.may_survive)(mutant) {
            for test in tests.iter().filter(|test| test.seeds().is_some()) {
                let noticed = noticed(repo, planted, &[test], mutant.id, job, tests::MORE)?;
                if let Some(noticed) = noticed {
                    return Ok(noticed);
                }
            }
        }
        Ok(outcome)
    }
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
        // Core's own tests are the nearest.
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
    planted.only(mutant, &planted.scratch)?;
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
