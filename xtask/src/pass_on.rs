//! `cargo xtask bench`: a program of another package, run with the right profile.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::bench_js;
use crate::counts;
use crate::repo::Repo;
use crate::run::shown;
use crate::setup;

#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Passed on to the benchmarks; `--help` after `--` tells what they take
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn bench(repo: &Repo, args: &BenchArgs) -> Result<()> {
    let is_js = args.args.first().is_some_and(|what| what == "js");
    match is_js {
        true => bench_js::command(repo, &args.args[1..]),
        false => shown(&mut program(repo, &args.args)?),
    }
}

/// The command of the benchmarks, after everything that it needs is built.
pub(crate) fn program(repo: &Repo, args: &[OsString]) -> Result<Command> {
    let of = |name: &str| args.first().is_some_and(|what| what == name);
    let mut bench = repo.cargo();
    bench.args(["run", "--release", "--package", "tallymesh-bench"]);
    if of("store") {
        // Only the benchmarks need these stores, and they take minutes to build.
        bench.args(["--features", "stores"]);
    }
    bench.arg("--").args(args);
    if args.is_empty() || of("core") {
        bench.args(counts::arguments(repo, args)?);
    }
    if of("resp") || of("http") || of("mesh") || of("postgres") || of("full") || of("visitors") {
        if of("resp") {
            setup::redis_tools(repo)?;
            setup::redis_server(repo)?;
        } else if of("postgres") {
            setup::postgres(repo)?;
        } else if of("http") {
            setup::wrk(repo)?;
            build(repo, "tallymesh-bench", &["--bin", "http_floor"])?;
        } else if of("visitors") {
            setup::npm_install(repo, "bench/js")?;
            build(repo, "tallymesh-bench", &["--bin", "ws_floor"])?;
        }
        build(repo, "tallymesh-node", &["--bins"])?;
        bench.arg("--node").arg(repo.node_binary());
    }
    Ok(bench)
}

pub(crate) fn build(repo: &Repo, package: &str, which: &[&str]) -> Result<()> {
    let mut build = repo.cargo();
    build.args(["build", "--release", "--package", package]);
    shown(build.args(which))
}
