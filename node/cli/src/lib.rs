//! The command line: `up` starts a node, and most other commands send requests to one over HTTP.

mod add;
mod adopt;
#[cfg(test)]
mod advice;
mod asking;
mod audit;
mod budget;
mod client;
mod completions;
mod config;
mod data;
mod doctor;
mod failure;
mod get;
mod init;
mod invite;
mod limit;
mod list;
mod log_fields;
mod members;
mod notify;
mod openapi;
mod operations;
mod output;
mod peers;
mod reach;
mod rows;
mod sequence;
mod status;
mod tickets;
mod time;
mod txn;
mod up;
mod watch;
mod whole_node;
mod writers;

pub use add::AddArgs;
pub use adopt::AdoptArgs;
pub use audit::AuditArgs;
pub use budget::BudgetArgs;
pub use completions::CompletionsArgs;
pub use config::ConfigArgs;
pub use data::{BackupArgs, CheckArgs, RestoreArgs};
pub use doctor::DoctorArgs;
pub use get::GetArgs;
pub use init::InitArgs;
pub use invite::{InviteArgs, TicketArgs};
pub use limit::LimitArgs;
pub use list::ListArgs;
pub use members::{MembersArgs, RetireArgs};
pub use operations::{ExpireArgs, KeysArgs, PersistArgs, SetArgs, TtlArgs};
pub use sequence::SequenceArgs;
pub use tickets::RevokeArgs;
pub use txn::TxnArgs;
pub use watch::WatchArgs;
pub use whole_node::{NodeFailure, RunningNode, WholeNode};

use clap::{Args, Parser, Subcommand};
use client::{Client, Entry};
use failure::Failure;
use output::Output;
use std::io::Write;
use std::process::ExitCode;
use tallymesh_node_config::Layers;
use tallymesh_node_ground::escape;

/// The text below the help: the exit codes, on which scripts rely.
const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused, or failed; nothing was written
  2  the command line or the configuration is wrong
  3  no node answers, or none that this command can speak to; nothing was written
  4  the counter, the budget, the lease or the sequence is absent
  5  not known whether a write counts: the connection broke, or the members have not decided yet
  6  written at this node, but the level that was asked for was not reached
  7  done, but the answer could not be printed: a write counts";

/// A counter that is written anywhere and adds up everywhere.
#[derive(Debug, Parser)]
#[command(name = "tallymesh", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a mesh: a data folder whose node is the first member
    Init(InitArgs),
    /// Run a node
    Up(Box<Layers>),
    /// Check, show or make the configuration of a node
    Config(Box<ConfigArgs>),
    /// Add to a counter, or to many from standard input
    Add(Remote<AddArgs>),
    /// Print a counter
    Get(Remote<GetArgs>),
    /// Set a counter to a value
    Set(Remote<SetArgs>),
    /// Set counters to 0; prints how many existed
    Reset(Remote<KeysArgs>),
    /// Delete counters; prints how many existed
    Del(Remote<KeysArgs>),
    /// Let a counter expire; prints when
    Expire(Remote<ExpireArgs>),
    /// Take the expiry of a counter away; prints 1 if it had one, else 0
    Persist(Remote<PersistArgs>),
    /// Print how long a counter stays, or `never` if it does not expire
    Ttl(Remote<TtlArgs>),
    /// Make several operations, all or none
    Txn(Remote<TxnArgs>),
    /// Spend from a budget, pay into it, and see who holds what of it
    Budget(Remote<BudgetArgs>),
    /// Hand out numbers, each at most once in the whole mesh
    Sequence(Remote<SequenceArgs>),
    /// Allow so much of something in each period, in the whole mesh
    Limit(Remote<LimitArgs>),
    /// Print all counters, or those whose keys begin with a prefix
    List(Remote<ListArgs>),
    /// Print counters as they change, until interrupted
    Watch(Remote<WatchArgs>),
    /// Print the links of a node
    Peers(Remote<Nothing>),
    /// Print the writers of a space, each with the clock up to which it is held here and, in a space
    /// with members, what became of it
    Writers(Remote<Nothing>),
    /// Print the members of a space, or change them
    Members(Remote<MembersArgs>),
    /// Print a ticket, with which somebody else may count here or join
    Invite(Remote<InviteArgs>),
    /// Print what a ticket says, and whether a node knows it to be revoked
    Ticket(Remote<TicketArgs>),
    /// Print the tickets that a node signed or was given, and which are revoked
    Tickets(Remote<Nothing>),
    /// Revoke a ticket: nodes that go by the word of the one that is asked take it no more
    Revoke(Remote<RevokeArgs>),
    /// Declare a writer dead that is gone for good: what it counted stays
    Retire(Remote<RetireArgs>),
    /// Let a node on a copy of a data folder take the place of the original, which is gone for good
    Adopt(Remote<AdoptArgs>),
    /// Print a node's own key, by which it is made a member
    Id(Remote<Nothing>),
    /// Print the state of a node
    Status(Remote<Nothing>),
    /// Look at a node, and print what needs attention and what to do; exits with 1 if anything is worse
    /// than a notice
    Doctor(Remote<DoctorArgs>),
    /// Compare what a node shows with other nodes and, with --data DIR, with what its data folder keeps
    Audit(Remote<AuditArgs>),
    /// Read all of a data folder, and print what is in it or what is wrong with it
    Check(CheckArgs),
    /// Copy a data folder, also while its node runs
    Backup(BackupArgs),
    /// Make a data folder from a backup
    Restore(RestoreArgs),
    /// Print the description of the HTTP interface, OpenAPI 3.1
    Openapi,
    /// Print a script that completes commands in a shell
    Completions(CompletionsArgs),
}

/// No arguments of its own.
#[derive(Args, Debug)]
struct Nothing {}

/// The arguments of a command that sends requests to a node.
#[derive(Args, Debug)]
struct Remote<T: Args> {
    /// The node to talk to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TALLYMESH_NODE",
        default_value = "http://127.0.0.1:4280"
    )]
    node: String,

    /// The space to count in
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TALLYMESH_SPACE",
        default_value = "default"
    )]
    space: String,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    entry: Entry,

    #[command(flatten)]
    own: T,
}

impl<T: Args> Remote<T> {
    fn run(self, command: impl FnOnce(&Client, &mut Output, T) -> Result<(), Failure>) -> ExitCode {
        let mut output = Output::new(self.json);
        let client = Client::new(&self.node, &self.space, &self.entry);
        let result = client.and_then(|client| command(&client, &mut output, self.own));
        output.finish(result)
    }
}

/// Prints the error of a command line, or the help that it asks for, and returns the exit code. The
/// error quotes the arguments, which may come from elsewhere. So they are escaped before they reach
/// the terminal.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    let typed = std::env::args_os();
    let typed = typed.map(|arg| escape::value(&arg.to_string_lossy()).into_owned());
    // The same arguments have the same error when they are escaped.
    let again = Cli::try_parse_from(typed).err();
    let text = again.as_ref().unwrap_or(error).render().to_string();
    // If standard error is closed too, only the exit code is left.
    let _ = write!(std::io::stderr(), "{}", escape::layout(&text));
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs one command. Some commands run a whole node, by `whole`.
pub fn run(cli: Cli, whole: &WholeNode) -> ExitCode {
    match cli.command {
        Command::Init(args) => {
            let mut output = args.output();
            let result = init::run(&mut output, args, whole);
            output.finish(result)
        }
        Command::Up(args) => up::run(*args, whole),
        Command::Config(args) => config::run(*args),
        Command::Add(remote) => remote.run(add::run),
        Command::Get(remote) => remote.run(get::run),
        Command::Set(remote) => remote.run(operations::set),
        Command::Reset(remote) => remote.run(operations::reset),
        Command::Del(remote) => remote.run(operations::delete),
        Command::Expire(remote) => remote.run(operations::expire),
        Command::Persist(remote) => remote.run(operations::persist),
        Command::Ttl(remote) => remote.run(operations::ttl),
        Command::Txn(remote) => remote.run(txn::run),
        Command::Budget(remote) => {
            let space = remote.space.clone();
            remote.run(|client, output, args| budget::run(client, &space, output, args))
        }
        Command::Sequence(remote) => remote.run(sequence::run),
        Command::Limit(remote) => remote.run(limit::run),
        Command::List(remote) => remote.run(list::run),
        Command::Watch(remote) => remote.run(watch::run),
        Command::Peers(remote) => remote.run(|client, output, _| peers::run(client, output)),
        Command::Writers(remote) => remote.run(|client, output, _| writers::run(client, output)),
        Command::Members(remote) => remote.run(members::run),
        Command::Invite(remote) => {
            let space = remote.space.clone();
            remote.run(|client, output, args| invite::run(client, &space, output, &args))
        }
        Command::Ticket(remote) => {
            remote.run(|client, output, args| invite::show(client, output, &args))
        }
        Command::Tickets(remote) => remote.run(|client, output, _| tickets::list(client, output)),
        Command::Revoke(remote) => {
            remote.run(|client, output, args| tickets::revoke(client, output, &args))
        }
        Command::Retire(remote) => remote.run(members::retire),
        Command::Adopt(remote) => remote.run(adopt::run),
        Command::Id(remote) => remote.run(|client, output, _| members::id(client, output)),
        Command::Status(remote) => remote.run(|client, output, _| status::run(client, output)),
        Command::Doctor(remote) => remote.run(doctor::run),
        Command::Audit(remote) => {
            let space = remote.space.clone();
            remote.run(|client, output, args| audit::run(client, &space, output, &args))
        }
        Command::Check(args) => {
            let mut output = args.output();
            let result = data::check(&mut output, args);
            output.finish(result)
        }
        Command::Backup(args) => {
            let mut output = args.output();
            let result = data::backup(&mut output, args);
            output.finish(result)
        }
        Command::Restore(args) => {
            let mut output = args.output();
            let result = data::restore(&mut output, args);
            output.finish(result)
        }
        Command::Openapi => {
            let mut output = Output::new(false);
            let result = openapi::run(&mut output, whole);
            output.finish(result)
        }
        Command::Completions(args) => completions::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// And not by what the package of the command line is.
    #[test]
    fn the_help_begins_with_what_the_program_is() {
        let help = Cli::command().render_help().to_string();
        assert!(
            help.starts_with("A counter that is written anywhere and adds up everywhere\n"),
            "{help}"
        );
    }

    #[test]
    fn each_call_has_its_subcommands() {
        let whole = Cli::command();
        for call in tallymesh_node_ground::api::TABLE {
            for words in call.subcommands {
                let mut words = words.split(' ');
                let found = words.try_fold(&whole, |it, word| it.find_subcommand(word));
                assert!(found.is_some(), "no subcommand {:?}", call.subcommands);
            }
            // These are for programs only.
            let alone = ["counter_shards", "read_counters"].contains(&call.name);
            assert_eq!(call.subcommands.is_empty(), alone, "{}", call.name);
        }
        for group in ["budget", "sequence", "limit"] {
            let group = whole.find_subcommand(group).expect(group);
            for sub in group.get_subcommands() {
                let words = format!("{} {}", group.get_name(), sub.get_name());
                let mut calls = tallymesh_node_ground::api::TABLE.iter();
                let is_made = calls.any(|it| it.subcommands.contains(&words.as_str()));
                assert!(is_made, "no call of `{words}`");
            }
        }
    }

    #[test]
    fn a_negative_amount_is_no_flag() {
        for line in [
            "add likes -5",
            "add likes -5 --json",
            "add --json likes -- -5",
            "add -",
            "add likes -5 --once a --level quorum --wait 2s",
            "add - --level all",
            "txn -- -",
            "get likes --level local",
            "set likes -5",
            "expire likes 15m",
            "expire likes --at 2027-01-31T12:00:00Z",
            "del a b",
            "txn -",
            "members",
            "members --json list",
            "members add 00 --timeout 5s --space x --json",
            "members force 00 11 --yes",
            "retire 00",
            "id --json",
            "adopt --yes --json",
            "openapi",
            "doctor --json --node http://127.0.0.1:1",
            "doctor --keys",
            "ticket a.b.c --json --ticket d.e.f",
            "tickets --json",
            "revoke 00 --only-in a,b --json",
            "config check",
            "config check f --json --http 127.0.0.1:0",
            "config show --config f --space a b --json",
            "config example",
            "up --config f --http-open=false --demo",
            "audit",
            "audit a --json",
            "audit --data d",
            "budget mint gift 5 --json",
            "budget spend gift 5 --once a --level quorum --space x",
            "budget give-back gift 5",
            "budget spend gift 5 --lease 00 --once b",
            "budget lease gift 5 --for 10m --id 00 --rights-wait 1s --json",
            "budget end-lease gift 00",
            "budget spend gift 5 --rights-wait 5s --level all --wait 2s",
            "txn --rights-wait 1s -- -",
            "budget grant gift 5 00 --room",
            "budget floor gift --lower 5",
            "budget cap gift --raise 5",
            "budget transfer a b 1 c 2 --json",
            "budget show gift",
            "budget list",
            "budget list g --json --level all",
            "budget audit g",
            "sequence begin visits --level quorum",
            "sequence next visits --rights-wait 2s --json",
            "sequence show visits",
            "sequence list v",
            "limit set login --limit 100 --period 60s --timeout 5s",
            "limit remove login",
            "limit list --json",
            "limit allow login:alice 3 --once a --rights-wait 2s",
            "limit show login:alice --level quorum",
            "audit a --with http://[::1]:1 --with http://[::1]:2 --json",
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
            "set likes",
            "reset",
            "del",
            "expire likes",
            "expire likes 15",
            "expire likes 15m --at 2027-01-31T12:00:00Z",
            "txn",
            "add likes --level most",
            "add likes --wait 2s",
            "get likes --once a",
            "members add",
            "members force --yes",
            "retire",
            "revoke",
            "audit a b",
            "budget",
            "budget spend gift",
            "add likes --rights-wait 5s",
            "budget spend gift -5",
            "budget mint gift 9223372036854775808",
            "budget grant gift 5",
            "budget lease gift 5",
            "budget end-lease gift",
            "budget floor gift",
            "budget floor gift --lower 5 --raise 5",
            "budget transfer a",
            "budget transfer a b",
            "budget audit a b",
            "sequence",
            "sequence next",
            "sequence next visits --once a",
            "limit",
            "limit set login --limit 0 --period 60s",
            "limit set login --limit 100",
            "limit allow",
            "config",
            "up --demo no",
            "up f",
        ] {
            let words = std::iter::once("tallymesh").chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
