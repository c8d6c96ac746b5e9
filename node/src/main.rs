//! The command `tallymesh`.

use clap::Parser;
use std::process::ExitCode;
use tallymesh_node::cli::{self, Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
