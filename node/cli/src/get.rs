//! `tallymesh get`: one counter.

use super::asking::LevelArgs;
use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::rows;
use clap::Args;
use tallymesh_node_ground::api;

/// The arguments of `tallymesh get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The counter
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

pub(super) fn run(client: &Client, output: &mut Output, args: GetArgs) -> Result<(), Failure> {
    let (key, level) = (&args.key, &args.level);
    rows::show(client, output, &api::READ_COUNTER, key, level, |counter| {
        text(&counter["value"])
    })
}
