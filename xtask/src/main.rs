//! `cargo xtask`: set-up, packaging, the demo and the staged test run of Tallymesh.
//!
//! This file only maps arguments to commands. Each command has a file of its own.

mod bench_js;
mod check;
mod counts;
mod demo;
mod fuzz;
mod keep;
mod mutants;
mod pack;
mod pass_on;
mod proofs;
mod reference;
mod repo;
mod run;
mod setup;
mod shots;
mod site;
mod size;
mod stamp;
mod test;
mod tidy;
mod wasm;
mod web;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::repo::Repo;

/// Build, check, test and show Tallymesh.
///
/// Each command installs what it misses and says so; what takes minutes to build is kept in
/// the user's cache folder (TALLYMESH_CACHE moves it).
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the other commands need: wasm target, npm packages, Chromium, cargo-deny
    Setup,
    /// Build the WebAssembly module and its bindings into wasm/dist
    Wasm,
    /// Make the npm tarball, target/npm/tallymesh-VERSION.tgz
    Pack,
    /// Weigh what a page downloads, by entry and by part, against its limit and beside others
    Size(size::Args),
    /// Build the web demo from the packed npm package
    Web,
    /// Build the page for a static host, with the documents and the package's API reference, into target/site
    Site,
    /// Make pictures of the page, wide and on a phone, light and dark, into target/shots
    Shots(shots::Args),
    /// Start three joined nodes on loopback and print the address of their page
    Demo(demo::Args),
    /// Run every test in stages and end with one line: N passed, N failed, N skipped
    Test(test::Args),
    /// Check formatting, lints, docs, licences and the tidy rules
    Check(check::Args),
    /// Run the benchmarks; arguments after `--` go to them
    Bench(pass_on::BenchArgs),
    /// Play many random histories and write docs/reports/soak.md
    Soak(proofs::SoakArgs),
    /// Go through all orders of events of small spaces and write docs/reports/explore.md
    Explore(proofs::ExploreArgs),
    /// Play the fuzz targets, each for a while, from the corpus on
    Fuzz(fuzz::Args),
    /// Keep the node and the npm package of this state in tests/kept, for tests of later ones
    Keep(keep::Args),
    /// Change core in many small ways, see whether a test notices, and write docs/reports/mutants.md
    Mutants(mutants::Args),
    /// Run one WebAssembly test binary (cargo calls this)
    #[command(hide = true)]
    WasmTestRunner {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    if let Command::WasmTestRunner { args } = command {
        return wasm::run_test_binary(args);
    }
    run::stop_on_signals()?;
    let repo = Repo::find()?;
    match command {
        Command::Setup => setup::all(&repo),
        Command::Wasm => wasm::build(&repo).map(drop),
        Command::Pack => pack::command(&repo),
        Command::Size(args) => size::command(&repo, &args),
        Command::Web => web::build(&repo).map(drop),
        Command::Site => site::build(&repo).map(drop),
        Command::Shots(args) => shots::command(&repo, &args),
        Command::Demo(args) => demo::command(&repo, &args),
        Command::Test(args) => test::command(&repo, &args),
        Command::Check(args) => check::command(&repo, &args),
        Command::Bench(args) => pass_on::bench(&repo, &args),
        Command::Soak(args) => proofs::soak(&repo, &args),
        Command::Explore(args) => proofs::explore(&repo, &args),
        Command::Fuzz(args) => fuzz::command(&repo, &args),
        Command::Keep(args) => keep::command(&repo, &args),
        Command::Mutants(args) => mutants::command(&repo, &args),
        Command::WasmTestRunner { .. } => unreachable!("handled above"),
    }
}
