//! `cargo xtask bench`: a program of another package, run with the right profile.

use std::ffi::OsString;

use anyhow::Result;

use crate::bench_js;
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
    let of = |name: &str| args.args.first().is_some_and(|what| what == name);
    if of("js") {
        return bench_js::command(repo, &args.args[1..]);
    }
    let mut bench = repo.cargo();
    bench.args(["run", "--release", "--package", "tallymesh-bench"]);
    if of("store") {
        // Stores that nothing else needs, and that take minutes to build.
        bench.args(["--features", "stores"]);
    }
    bench.arg("--");
    if of("resp") || of("http") || of("mesh") {
        if of("resp") {
            setup::redis_tools(repo)?;
            setup::redis_server(repo)?;
        } else if of("http") {
            setup::wrk(repo)?;
            let mut floor = repo.cargo();
            shown(floor.args([
                "build",
                "--release",
                "--package",
                "tallymesh-bench",
                "--bin",
                "http_floor",
            ]))?;
        }
        let mut build = repo.cargo();
        shown(build.args([
            "build",
            "--release",
            "--package",
            "tallymesh-node",
            "--bins",
        ]))?;
        bench.args(&args.args).arg("--node").arg(repo.node_binary());
        return shown(&mut bench);
    }
    shown(bench.args(&args.args))
}
