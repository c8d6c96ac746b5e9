//! The jobs of a run: what its plan asks for, as commands.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::Result;

use super::faces::{LONG, LONG_TESTS, PROCESSES, TRACED, Units};
use super::plan::Plan;
use crate::repo::Repo;
use crate::run::step;
use crate::test::Tally;
use crate::test::native::{crossing, quick};
use crate::test::stages::{self, TEST_THREADS, tests};
use crate::test::summary::Runner;
use crate::{pack, tidy};

/// Number of seeds that each scenario plays.
pub(super) const SEEDS: u64 = 200;

/// One job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// The tidy rules, with the links of the documents.
    Rules,
    /// The format of Rust code.
    Format,
    /// The tests of xtask.
    Tools,
    /// Tests of core, and tests in which it is played. It is one command of cargo, so that one build has all of
    /// them, and a type check can be compiled while they run.
    Around(Around),
    /// The tests of the page's members.
    Members,
    /// The build of the node with its unit tests and its suite. Two of its parts take longest, and are compiled
    /// side by side.
    Node(BTreeSet<String>),
    /// Unit tests of one crate of the node, of some modules or of all.
    Units(String, BTreeSet<String>),
    /// Modules of node/tests/suite.
    Suite(BTreeSet<String>),
    /// A type check of packages with all their targets.
    Types(BTreeSet<String>),
    /// The bindings in Node.
    Bindings,
    /// The npm package: build, types and tests in Node.
    Package,
    /// The page: build and types.
    Page,
}

/// The tests of core and of tests/ that run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Around {
    /// The unit tests of core, its laws, and the laws of its state alone.
    core: bool,
    /// Test files of tests/tests, with few seeds.
    files: BTreeSet<String>,
    /// Whether these are all scenarios. Then the long ones play their first seeds, against tests/trace.txt.
    all: bool,
}

/// The jobs of a plan. Those that answer soonest come first.
pub(super) fn of(plan: Plan, repo: &Repo) -> Result<Vec<Job>> {
    let mut jobs = vec![Job::Rules];
    let mut add = |is_wanted: bool, job: Job| jobs.extend(is_wanted.then_some(job));
    let files = match plan.scenarios {
        true => scenarios(repo)?,
        false => plan.crossing,
    };
    let around = Around {
        core: plan.core,
        files,
        all: plan.scenarios,
    };
    add(plan.format, Job::Format);
    add(plan.tools, Job::Tools);
    add(around.core || !around.files.is_empty(), Job::Around(around));
    add(plan.members, Job::Members);
    let both = !plan.units.is_empty() && !plan.suite.is_empty();
    let units = by_package(plan.units);
    add(both, Job::Node(units.keys().cloned().collect()));
    for (package, modules) in units {
        add(true, Job::Units(package, modules));
    }
    add(!plan.suite.is_empty(), Job::Suite(plan.suite));
    add(!plan.checked.is_empty(), Job::Types(plan.checked));
    add(plan.package, Job::Package);
    add(plan.page, Job::Page);
    add(plan.bindings, Job::Bindings);
    Ok(jobs)
}

/// The modules of each package whose tests run; none if all of them do.
fn by_package(units: BTreeSet<Units>) -> BTreeMap<String, BTreeSet<String>> {
    let whole = |unit: &Units| unit.module.is_empty();
    let all: BTreeSet<String> = units
        .iter()
        .filter(|it| whole(it))
        .map(|it| it.package.clone())
        .collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for unit in units {
        let modules = found.entry(unit.package.clone()).or_default();
        if !all.contains(&unit.package) {
            modules.insert(unit.module);
        }
    }
    found
}

/// All test files of tests/tests but those with processes, the long ones, and the trace.
fn scenarios(repo: &Repo) -> Result<BTreeSet<String>> {
    let mut names = crossing(repo)?;
    let apart = ["trace"].iter().chain(&PROCESSES).chain(&LONG);
    apart.for_each(|name| _ = names.remove(*name));
    Ok(names)
}

/// The packages of core and of what plays it, always together, so that features are always the same.
const AROUND_CORE: [&str; 6] = [
    "--package",
    "tallymesh-core",
    "--package",
    "tallymesh-state-alone",
    "--package",
    "tallymesh-tests",
];

impl Job {
    /// The name of the job, for its line and its log.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Job::Rules => "rules",
            Job::Format => "format",
            Job::Tools => "tools",
            Job::Around(around) if around.core => "core",
            Job::Around(_) => "scenarios",
            Job::Members => "members",
            Job::Node(_) => "node",
            Job::Units(..) => "units",
            Job::Suite(_) => "suite",
            Job::Types(_) => "types",
            Job::Bindings => "bindings",
            Job::Package => "package",
            Job::Page => "page",
        }
    }

    /// What it runs, in words.
    pub(super) fn what(&self) -> String {
        match self {
            Job::Rules => "the tidy rules, and the links of documents".into(),
            Job::Format => "the format of Rust code".into(),
            Job::Tools => "the tests of xtask".into(),
            Job::Around(around) => around.what(),
            Job::Members => "the tests of web-demo/members".into(),
            Job::Node(_) => "the build of the node and of its tests".into(),
            Job::Units(package, modules) if modules.is_empty() => {
                format!("unit tests of {package}")
            }
            Job::Units(package, modules) => {
                format!("unit tests of {package}: {}", list(modules))
            }
            Job::Suite(names) => format!("node/tests/suite: {}", list(names)),
            Job::Types(names) => format!("a type check of {}", list(names)),
            Job::Bindings => "the bindings in Node".into(),
            Job::Package => "the npm package: build, types, tests in Node".into(),
            Job::Page => "the page: build and types".into(),
        }
    }

    /// The stage of the whole run that has the same tests. Its list of skips holds.
    pub(super) fn stage(&self) -> &'static str {
        match self {
            Job::Rules | Job::Format | Job::Types(_) => "check",
            Job::Tools => "tools",
            Job::Bindings => "wasm-node",
            Job::Package => "package",
            Job::Page => "web",
            Job::Around(_) | Job::Members | Job::Node(_) | Job::Units(..) | Job::Suite(_) => {
                "native"
            }
        }
    }

    /// Whether it runs beside the jobs that build and run tests, because it uses one core most of the time.
    pub(super) fn is_beside(&self) -> bool {
        matches!(self, Job::Rules | Job::Format | Job::Types(_))
    }

    /// Runs the job. An error counts as one failure, so that later jobs still run.
    pub(super) fn run(&self, repo: &Repo) -> Tally {
        self.ran(repo).unwrap_or_else(|error| {
            let mut tally = Tally::default();
            tally.fail(format!("{}: {error:#}", self.name()));
            tally
        })
    }

    fn ran(&self, repo: &Repo) -> Result<Tally> {
        let label = format!("changed {}", self.name());
        let rust = |command: &mut Command| tests(repo, &label, Runner::Rust, command);
        match self {
            Job::Rules => rules(repo),
            Job::Format => {
                step(repo, &label, repo.cargo().args(["fmt", "--all", "--check"]))?;
                Ok(Tally::pass())
            }
            Job::Types(names) => {
                let mut check = quick(repo, "check");
                check.arg("--all-targets");
                check.args(names.iter().flat_map(|name| ["--package", name]));
                step(repo, &label, &mut check)?;
                Ok(Tally::pass())
            }
            Job::Tools => stages::tools(repo),
            Job::Around(around) => rust(&mut around.command(repo)),
            Job::Members => rust(quick(repo, "test").args(["--package", "tallymesh-demo-members"])),
            Job::Node(packages) => {
                let mut build = quick(repo, "test");
                build.args(["--package", "tallymesh-node", "--no-run"]);
                build.args(packages.iter().flat_map(|name| ["--package", name]));
                step(repo, &label, build.args(["--lib", "--test", "suite"]))?;
                Ok(Tally::pass())
            }
            Job::Units(package, modules) => {
                // With the whole node beside it, features are always the same.
                let mut command = quick(repo, "test");
                command.args(["--package", "tallymesh-node", "--package", package]);
                command.args(["--lib", "--"]).args(modules);
                rust(command.env("RUST_TEST_THREADS", TEST_THREADS))
            }
            Job::Suite(names) => {
                let mut command = quick(repo, "test");
                command.args(["--package", "tallymesh-node", "--test", "suite", "--"]);
                command.args(names.iter().map(|name| format!("{name}::")));
                rust(command.env("RUST_TEST_THREADS", TEST_THREADS))
            }
            Job::Bindings => stages::wasm_node(repo),
            Job::Package => stages::package_tests(repo, pack::build(repo)?),
            Job::Page => stages::page(repo),
        }
    }
}

impl Around {
    /// Whether scenarios play [`SEEDS`]: not if a long one was changed, or if the user chose another number.
    fn has_few_seeds(&self) -> bool {
        let is_long = self.files.iter().any(|name| LONG.contains(&name.as_str()));
        !is_long && std::env::var_os("TALLYMESH_SEEDS").is_none()
    }

    fn what(&self) -> String {
        let mut parts = Vec::new();
        if self.core {
            parts.push("unit tests of core, its laws, and those of its state alone".to_owned());
        }
        if !self.files.is_empty() {
            let files = list(&self.files);
            parts.push(match self.has_few_seeds() {
                true => format!("{SEEDS} seeds of each scenario in {files}"),
                false => files,
            });
        }
        if self.files.contains("mesh") && self.has_few_seeds() {
            parts.push("the four tests of mesh are one scenario, and share its seeds".to_owned());
        }
        if self.all {
            let traced = TRACED.join(", ");
            parts.push(format!("the first seeds of {traced} against the trace"));
        }
        parts.join("; ")
    }

    fn command(&self, repo: &Repo) -> Command {
        let mut command = quick(repo, "test");
        command.args(AROUND_CORE).arg("--no-fail-fast");
        if self.core {
            command.args(["--lib", "--test", "json", "--test", "laws"]);
        }
        command.args(self.files.iter().flat_map(|name| ["--test", name]));
        if self.has_few_seeds() {
            command.env("TALLYMESH_SEEDS", SEEDS.to_string());
            command.env("TALLYMESH_SHARED", "1");
        }
        if self.all {
            command.env("TALLYMESH_TRACE_ONLY", TRACED.join(","));
            command.args(["--test", "trace", "--"]);
            command.args(LONG_TESTS.iter().flat_map(|(_, test)| ["--skip", test]));
        }
        command
    }
}

fn list(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(", ")
}

fn rules(repo: &Repo) -> Result<Tally> {
    let broken = tidy::broken_rules(repo)?;
    let mut tally = Tally::default();
    match broken.is_empty() {
        true => tally.passed = 1,
        false => tally.fail(broken.join("\n")),
    }
    Ok(tally)
}
