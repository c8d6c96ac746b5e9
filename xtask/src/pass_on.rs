//! `cargo xtask bench` and `soak`: programs of other packages, run with the right profile.

use std::ffi::OsString;

use anyhow::Result;

use crate::repo::Repo;
use crate::run::shown;

#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Passed on to the benchmarks; `--help` after `--` tells what they take
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// How many seeds to run
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// Passed on to the simulator
    #[arg(last = true)]
    args: Vec<OsString>,
}

pub(crate) fn bench(repo: &Repo, args: &BenchArgs) -> Result<()> {
    shown(
        repo.cargo()
            .args(["run", "--release", "--package", "tallymesh-bench", "--"])
            .args(&args.args),
    )
}

pub(crate) fn soak(repo: &Repo, args: &SoakArgs) -> Result<()> {
    shown(
        repo.cargo()
            .args([
                "run",
                "--release",
                "--package",
                "tallymesh-tests",
                "--bin",
                "soak",
                "--",
            ])
            .args(["--seeds", &args.seeds.to_string()])
            .args(&args.args),
    )
}
