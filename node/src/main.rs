//! The command `tallymesh`.

use clap::Parser;
use std::process::ExitCode;
use tallymesh_node::WHOLE_NODE;
use tallymesh_node::cli::{self, Cli};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli::run(cli, &WHOLE_NODE),
        Err(error) => cli::refuse(&error),
    }
}
