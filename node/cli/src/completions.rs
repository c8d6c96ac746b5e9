//! `tallymesh completions`: a script for a shell.

use super::Cli;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::process::ExitCode;

/// The arguments of `tallymesh completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: CompletionsArgs) -> ExitCode {
    let mut command = Cli::command();
    clap_complete::generate(
        args.shell,
        &mut command,
        "tallymesh",
        &mut std::io::stdout(),
    );
    ExitCode::SUCCESS
}
