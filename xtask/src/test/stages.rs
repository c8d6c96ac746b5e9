//! The stages of a test run, in their order.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::native;
use super::summary::{Runner, Tally};
use crate::pack::Tarball;
use crate::repo::Repo;
use crate::run::{capture, say, step};
use crate::{check, demo, pack, reference, setup, site, size, wasm, web};

/// One stage.
pub(super) struct Stage {
    /// Its name, as on the command line and in budgets.toml.
    pub(super) name: &'static str,
    /// A description of its tests.
    pub(super) what: &'static str,
    /// Whether it runs at the same time as the one before it, because both wait most of the time.
    pub(super) is_beside: bool,
    body: fn(&Repo) -> Result<Tally>,
}

impl Stage {
    /// Runs the stage. An error counts as one failure, so that later stages still run.
    pub(super) fn run(&self, repo: &Repo) -> Tally {
        (self.body)(repo).unwrap_or_else(|error| {
            let mut tally = Tally::default();
            tally.fail(format!("{}: {error:#}", self.name));
            tally
        })
    }
}

/// All stages. The page comes before the native build, because the node embeds it.
pub(super) const ALL: [Stage; 17] = [
    stage("setup", "what the machine lacks", set_up),
    stage(
        "check",
        "format, lints, docs, dependencies, tidy rules",
        check::run,
    ),
    stage("tools", "the tests of xtask itself", tools),
    stage(
        "package",
        "the npm tarball, its tests and its reference",
        package,
    ),
    stage("web", "the page, from the tarball", page),
    stage("native", "unit, integration and doc tests", native_tests),
    stage(
        "trace",
        "what replicas send, store and read, against tests/trace.txt",
        trace,
    ),
    stage("wasm-core", "core's laws in wasm under Node", wasm_core),
    stage("wasm-node", "the bindings in Node", wasm_node),
    stage(
        "wasm-browser",
        "the bindings in headless Chromium",
        wasm_browser,
    ),
    stage("no-std", "core without std or a system", no_std),
    stage("size", "the download against its limit", weigh),
    stage("demo", "the demo with load, cuts and healing", converge),
    stage(
        "clients",
        "Redis clients, and one made from openapi.json, against a real node",
        clients,
    ),
    stage("e2e", "pages in Chromium against real nodes", end_to_end),
    Stage {
        is_beside: true,
        ..stage(
            "runtimes",
            "the npm tarball in each runtime, bundler and browser",
            runtimes,
        )
    },
    stage(
        "interop",
        "all runtimes and native nodes in one mesh, beside one oracle",
        interop,
    ),
];

/// The names of all stages.
pub(super) const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut at = 0;
    while at < ALL.len() {
        names[at] = ALL[at].name;
        at += 1;
    }
    names
};

const fn stage(name: &'static str, what: &'static str, body: fn(&Repo) -> Result<Tally>) -> Stage {
    let is_beside = false;
    Stage {
        name,
        what,
        is_beside,
        body,
    }
}

/// Tests with real nodes wait most of the time, so more of them run at once than there are cores.
pub(super) const TEST_THREADS: &str = "6";

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs a test command and counts its tests. The output is shown if something failed.
pub(super) fn tests(
    repo: &Repo,
    label: &str,
    runner: Runner,
    command: &mut Command,
) -> Result<Tally> {
    tests_within(repo, label, runner, LIMIT, command)
}

/// The same, where it may take so long.
pub(super) fn tests_within(
    repo: &Repo,
    label: &str,
    runner: Runner,
    limit: Duration,
    command: &mut Command,
) -> Result<Tally> {
    let done = capture(repo, label, limit, command)?;
    let mut tally = runner.tally(&done.text, done.success);
    if tally.failed > 0 {
        tally.failures.push(format!(
            "{label}:\n{}\n(whole output: {})",
            done.tail(),
            done.log.display()
        ));
    }
    Ok(tally)
}

fn set_up(repo: &Repo) -> Result<Tally> {
    setup::tests(repo)?;
    setup::cargo_deny(repo)?;
    Ok(Tally::default())
}

pub(super) fn tools(repo: &Repo) -> Result<Tally> {
    tests(
        repo,
        "xtask tests",
        Runner::Rust,
        repo.cargo()
            .args(["test", "--release", "--package", "xtask"])
            .args(["--package", "tallymesh-reports"]),
    )
}

fn package(repo: &Repo) -> Result<Tally> {
    let tarball = pack::build(repo)?;
    let mut tally = described(repo);
    tally.join(package_tests(repo, tarball)?);
    Ok(tally)
}

/// Runs the package's own tests in Node.
pub(super) fn package_tests(repo: &Repo, tarball: Tarball) -> Result<Tally> {
    tests(
        repo,
        "package tests",
        Runner::Node,
        repo.npm("wasm")
            .args(["test"])
            .env("TALLYMESH_TARBALL", tarball.file),
    )
}

/// Checks that all exports of the package have descriptions.
fn described(repo: &Repo) -> Tally {
    match reference::build(repo) {
        Ok(_) => Tally::pass(),
        Err(error) => {
            let mut tally = Tally::default();
            tally.fail(format!("the API reference: {error:#}"));
            tally
        }
    }
}

pub(super) fn page(repo: &Repo) -> Result<Tally> {
    web::build(repo)?;
    Ok(Tally::default())
}

fn native_tests(repo: &Repo) -> Result<Tally> {
    native::run(repo, &[])
}

/// Compares the hash of the first block of each scenario with tests/trace.txt.
fn trace(repo: &Repo) -> Result<Tally> {
    trace_with(repo, &[])
}

/// The same, with more environment variables.
pub(super) fn trace_with(repo: &Repo, environment: &[(&str, String)]) -> Result<Tally> {
    let mut command = repo.cargo();
    command
        .args(["test", "--release"])
        .args(native::PACKAGES)
        .args(["--test", "trace"])
        .envs(environment.iter().map(|(name, value)| (name, value)));
    tests(repo, "trace", Runner::Rust, &mut command)
}

fn wasm_core(repo: &Repo) -> Result<Tally> {
    let mut command = wasm::test_command(repo, "tallymesh-core")?;
    tests(
        repo,
        "core in wasm",
        Runner::Rust,
        command.args(["--lib", "--tests"]),
    )
}

pub(super) fn wasm_node(repo: &Repo) -> Result<Tally> {
    let mut command = wasm::test_command(repo, "tallymesh-wasm")?;
    tests(repo, "bindings in Node", Runner::Rust, &mut command)
}

fn wasm_browser(repo: &Repo) -> Result<Tally> {
    let browser = setup::browser(repo)?;
    let folder = tempfile::tempdir()?;
    let capabilities = folder.path().join("webdriver.json");
    let options = serde_json::json!({"goog:chromeOptions": {
        "binary": browser.chrome,
        "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
        ],
    }});
    std::fs::write(&capabilities, options.to_string())?;
    let mut command = wasm::test_command(repo, "tallymesh-wasm")?;
    command
        .env("WASM_BINDGEN_USE_BROWSER", "1")
        .env("WASM_BINDGEN_TEST_WEBDRIVER_JSON", &capabilities)
        .env("WASM_BINDGEN_TEST_TIMEOUT", "120")
        .env("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "30")
        .env("CHROMEDRIVER", &browser.driver);
    tests(repo, "bindings in Chromium", Runner::Rust, &mut command)
}

/// Builds a library with its own panic handler. The build fails as soon as anything links std.
fn no_std(repo: &Repo) -> Result<Tally> {
    let mut command = setup::wasm_target(repo)?.cargo(repo, "build");
    command.args(["--release", "--manifest-path", "tests/no-std/Cargo.toml"]);
    step(repo, "no_std build", &mut command)?;
    Ok(Tally::pass())
}

fn weigh(repo: &Repo) -> Result<Tally> {
    size::command(repo, &size::Args::limit_only())?;
    Ok(Tally::pass())
}

fn converge(repo: &Repo) -> Result<Tally> {
    web::build(repo)?;
    native::build(repo)?;
    demo::check(repo)?;
    Ok(Tally::pass())
}

fn clients(repo: &Repo) -> Result<Tally> {
    native::build(repo)?;
    setup::redis_tools(repo)?;
    setup::openssl(repo)?;
    setup::npm_install(repo, "tests/clients")?;
    tests(
        repo,
        "clients",
        Runner::Node,
        repo.npm("tests/clients")
            .args(["test"])
            .env("TALLYMESH_BIN", repo.node_binary())
            .env("TALLYMESH_REDIS_PY", setup::redis_py(repo)?),
    )
}

fn end_to_end(repo: &Repo) -> Result<Tally> {
    let site = site::build(repo)?;
    native::build(repo)?;
    let browser = setup::browser(repo)?;
    setup::npm_install(repo, "tests/e2e")?;
    say(&format!("using {}", browser.chrome.display()));
    tests(
        repo,
        "end to end",
        Runner::Node,
        repo.npm("tests/e2e")
            .args(["test"])
            .env("TALLYMESH_BIN", repo.node_binary())
            .env("TALLYMESH_SITE", site)
            .env("CHROME", &browser.chrome)
            .env("CHROMEDRIVER", &browser.driver),
    )
}

fn runtimes(repo: &Repo) -> Result<Tally> {
    let mut command = repo.npm("tests/runtimes");
    command.args(["test"]).envs(runtimes_ready(repo)?);
    tests(repo, "runtimes", Runner::Node, &mut command)
}

/// Single steps at replicas in all runtimes. The stage `native` does not have what these tests need.
fn interop(repo: &Repo) -> Result<Tally> {
    interop_with(repo, &[])
}

/// The same, with more environment variables.
pub(super) fn interop_with(repo: &Repo, environment: &[(&str, String)]) -> Result<Tally> {
    let ready = runtimes_ready(repo)?;
    let mut command = repo.cargo();
    command
        .args(["test", "--release"])
        .args(native::PACKAGES)
        .args(["--test", "interop", "--", "--nocapture"])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .envs(ready.iter().map(|(name, value)| (name, value)));
    let mut tally = tests(repo, "interop", Runner::Rust, &mut command)?;
    if ready.iter().all(|(name, _)| *name != "FIREFOX") {
        tally.skip("Firefox in the mesh");
    }
    Ok(tally)
}

/// Builds and installs the files that tests in other runtimes need, and returns their paths. These tests
/// share the browser and the nodes with the tests of the pages.
fn runtimes_ready(repo: &Repo) -> Result<Vec<(&'static str, PathBuf)>> {
    web::build(repo)?;
    native::build(repo)?;
    let tarball = pack::build(repo)?;
    let browser = setup::browser(repo)?;
    setup::npm_install(repo, "tests/e2e")?;
    setup::npm_install(repo, "tests/runtimes")?;
    setup::npm_install(repo, "tests/runtimes/nodes")?;
    let mut places = vec![
        ("TALLYMESH_BIN", repo.node_binary()),
        ("TALLYMESH_TARBALL", tarball.file),
        ("CHROME", browser.chrome),
    ];
    places.extend(setup::firefox(repo).map(|firefox| ("FIREFOX", firefox)));
    Ok(places)
}
