//! The command line: `up` starts a node, all else talks to one over HTTP.

mod add;
mod client;
mod completions;
mod failure;
mod get;
mod list;
mod output;
mod peers;
mod status;
mod up;
mod watch;

pub use add::AddArgs;
pub use completions::CompletionsArgs;
pub use get::GetArgs;
pub use list::ListArgs;
pub use watch::WatchArgs;

use crate::config::UpArgs;
use clap::{Args, Parser, Subcommand};
use client::Client;
use failure::Failure;
use output::Output;
use std::process::ExitCode;

/// What is printed below the help: the exit codes, which scripts rely on.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused, or failed; nothing was written
  2  the command line is wrong
  3  no node answers
  4  the counter is absent
  5  the connection broke during a write: whether it counts is not known";

/// A counter that is written anywhere and adds up everywhere.
#[derive(Debug, Parser)]
#[command(name = "tallymesh", version, about, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node
    Up(Box<UpArgs>),
    /// Add to a counter, or to many from standard input
    Add(Remote<AddArgs>),
    /// Print a counter
    Get(Remote<GetArgs>),
    /// Print all counters, or those whose keys begin with a prefix
    List(Remote<ListArgs>),
    /// Print counters as they change, until interrupted
    Watch(Remote<WatchArgs>),
    /// Print the links of a node
    Peers(Remote<Nothing>),
    /// Print the state of a node
    Status(Remote<Nothing>),
    /// Print a script that completes commands in a shell
    Completions(CompletionsArgs),
}

/// No arguments of its own.
#[derive(Args, Debug)]
struct Nothing {}

/// The arguments of a command that talks to a node.
#[derive(Args, Debug)]
struct Remote<T: Args> {
    /// The node to talk to
    #[arg(
        long,
        value_name = "URL",
        env = "TALLYMESH_NODE",
        default_value = "http://127.0.0.1:4280"
    )]
    node: String,

    /// The space to count in
    #[arg(
        long,
        value_name = "NAME",
        env = "TALLYMESH_SPACE",
        default_value = "default"
    )]
    space: String,

    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    own: T,
}

impl<T: Args> Remote<T> {
    fn run(self, command: impl FnOnce(&Client, &mut Output, T) -> Result<(), Failure>) -> ExitCode {
        let mut output = Output::new(self.json);
        let client = Client::new(&self.node, &self.space);
        let result = client.and_then(|client| command(&client, &mut output, self.own));
        output.finish(result)
    }
}

/// Runs one command.
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Up(args) => Output::new(false).finish(up::run(*args)),
        Command::Add(remote) => remote.run(add::run),
        Command::Get(remote) => remote.run(get::run),
        Command::List(remote) => remote.run(list::run),
        Command::Watch(remote) => remote.run(watch::run),
        Command::Peers(remote) => remote.run(|client, output, _| peers::run(client, output)),
        Command::Status(remote) => remote.run(|client, output, _| status::run(client, output)),
        Command::Completions(args) => completions::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_negative_amount_is_no_flag() {
        for line in [
            "add likes -5",
            "add likes -5 --json",
            "add --json likes -- -5",
            "add -",
        ] {
            let words = std::iter::once("tallymesh").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
        for line in [
            "add",
            "add likes five",
            "add likes 1.5",
            "get",
            "add likes 9223372036854775808",
        ] {
            let words = std::iter::once("tallymesh").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
