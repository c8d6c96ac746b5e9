//! Reading and listing of all that a node keeps by name: counters, budgets, sequences, periods.

use super::asking::LevelArgs;
use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::{Output, text};
use clap::Args;
use serde_json::Value;
use tallymesh_node_ground::api::Call;

/// The arguments of a command that lists by name.
#[derive(Args, Debug)]
pub(super) struct NamesArgs {
    /// Only names that begin so
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(super) prefix: String,

    #[command(flatten)]
    pub(super) level: LevelArgs,
}

/// Prints one row, with `describe` for people.
pub(super) fn show(
    client: &Client,
    output: &mut Output,
    call: &Call,
    key: &str,
    level: &LevelArgs,
    describe: impl FnOnce(&Value) -> String,
) -> Result<(), Failure> {
    let row = client.asking(level.headers()).call(call, &[key], None)?;
    output.line(&row, || describe(&row))
}

/// Prints the rows with a prefix. People get their names and one field.
pub(super) fn list(
    client: &Client,
    output: &mut Output,
    (call, page): (&Call, usize),
    (prefix, level): (&str, &LevelArgs),
    field: &str,
) -> Result<(), Failure> {
    let client = client.asking(level.headers());
    let print = |row: &Value| {
        output.line(row, || {
            format!("{}\t{}", text(&row["key"]), text(&row[field]))
        })
    };
    each(&client, call, page, prefix, print).map(|_| ())
}

/// Calls `take` with each row of this prefix, so many in one request. Returns how many requests
/// that needed.
pub(super) fn each(
    client: &Client,
    call: &Call,
    page: usize,
    prefix: &str,
    mut take: impl FnMut(&Value) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let (prefix, on) = (encoded(prefix), call.on.name());
    let (mut after, mut pages) = (String::new(), 0);
    loop {
        let path = call.below_space();
        let rows = client.get_in_space(&format!("{path}?prefix={prefix}&limit={page}{after}"))?;
        pages += 1;
        for row in rows[on].as_array().into_iter().flatten() {
            take(row)?;
        }
        match rows["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => return Ok(pages),
        }
    }
}
