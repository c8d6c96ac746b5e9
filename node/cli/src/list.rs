//! `tallymesh list`: all counters, by key.

use super::asking::LevelArgs;
use super::client::Client;
use super::failure::Failure;
use super::output::Output;
use super::rows;
use clap::Args;
use tallymesh_node_ground::api;

/// The arguments of `tallymesh list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only keys that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,

    #[command(flatten)]
    level: LevelArgs,
}

pub(super) fn run(client: &Client, output: &mut Output, args: ListArgs) -> Result<(), Failure> {
    let call = (&api::LIST_COUNTERS, api::PAGE_MAX);
    rows::list(client, output, call, (&args.prefix, &args.level), "value")
}
