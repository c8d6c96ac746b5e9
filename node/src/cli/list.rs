//! `tallymesh list`: all counters, by key.

use super::asking::LevelArgs;
use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::{Output, text};
use clap::Args;

/// Counters in one request.
const PAGE: usize = 10_000;

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
    let client = client.asking(args.level.headers());
    let prefix = encoded(&args.prefix);
    let mut after = String::new();
    loop {
        let page = client.get_in_space(&format!("counters?prefix={prefix}&limit={PAGE}{after}"))?;
        for counter in page["counters"].as_array().into_iter().flatten() {
            output.line(counter, || {
                format!("{}\t{}", text(&counter["key"]), text(&counter["value"]))
            })?;
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => return Ok(()),
        }
    }
}
