//! `cargo xtask fuzz`: the fuzz targets, with libFuzzer, on the toolchain that builds everything else.
//!
//! cargo-fuzz requires a nightly compiler, only for AddressSanitizer. The code here has no unsafe parts that
//! it could check. The coverage instrumentation for libFuzzer is in every compiler.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::run::{capture, step};

/// The flags of cargo-fuzz, without the sanitizer.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Ccodegen-units=1";

/// Most memory of a target, in MB.
const MEMORY_MB: u64 = 4096;

/// How much longer than requested a target may run, because it ends only after its present input.
const GRACE: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to play each, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Play this one only
    #[arg(long)]
    target: Option<String>,
}

/// A cargo command on the workspace of the fuzz targets, with the target folder of everything else.
pub(crate) fn cargo(repo: &Repo, what: &str) -> Command {
    let mut command = repo.cargo();
    command
        .current_dir(repo.path("tests/fuzz"))
        .env("CARGO_TARGET_DIR", repo.target())
        .args([what, "--release", "--locked"]);
    command
}

fn folder(repo: &Repo) -> PathBuf {
    repo.target().join("fuzz")
}

/// Builds the targets and plays them. If a target fails, prints the path of the file with its input.
pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    let host = host()?;
    let mut build = cargo(repo, "build");
    // With a target named, build scripts are not instrumented.
    build
        .env("CARGO_TARGET_DIR", folder(repo))
        .args(["--target", &host])
        .env("RUSTFLAGS", INSTRUMENTED);
    step(repo, "fuzz build", &mut build)?;
    let mut failed = Vec::new();
    for name in targets(repo)? {
        if args.target.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let found = folder(repo).join("found").join(&name);
        std::fs::create_dir_all(&found)?;
        let mut play = Command::new(folder(repo).join(&host).join("release").join(&name));
        play.arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-rss_limit_mb={MEMORY_MB}"))
            .args(["-timeout=25", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}-", found.display()))
            .arg(&found)
            .arg(repo.path("tests/corpus").join(&name));
        let limit = Duration::from_secs(args.seconds) + GRACE;
        let done = capture(repo, &format!("fuzz {name}"), limit, &mut play)?;
        let runs = "stat::number_of_executed_units:";
        let runs = done.text.lines().find_map(|line| line.strip_prefix(runs));
        println!("{name}: {} inputs", runs.unwrap_or("0").trim());
        if !done.success {
            failed.push(format!("{name}:\n{}", done.tail()));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", failed.join("\n\n")),
    }
}

/// The targets, by their files.
fn targets(repo: &Repo) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(repo.path("tests/fuzz/fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The system that this compiler builds for.
fn host() -> Result<String> {
    let told = crate::run::ask(Command::new("rustc").arg("-vV")).context("no rustc answers")?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}
