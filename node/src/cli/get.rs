//! `tallymesh get`: one counter.

use super::asking::LevelArgs;
use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::{Output, text};
use clap::Args;

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
    let client = client.asking(args.level.headers());
    let counter = client.get_in_space(&format!("counters/{}", encoded(&args.key)))?;
    output.line(&counter, || text(&counter["value"]))
}
