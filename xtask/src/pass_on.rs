//! `cargo xtask bench`: a program of another package, run with the right profile.

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

pub(crate) fn bench(repo: &Repo, args: &BenchArgs) -> Result<()> {
    shown(
        repo.cargo()
            .args(["run", "--release", "--package", "tallymesh-bench", "--"])
            .args(&args.args),
    )
}
