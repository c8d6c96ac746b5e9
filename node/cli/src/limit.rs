//! `tallymesh limit`: the amount that is allowed in each period, in the whole mesh.

use super::asking::{BudgetWriteArgs, LevelArgs};
use super::budget::amount;
use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::rows;
use super::time;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use tallymesh_node_ground::api::{self, AMOUNT_MAX};

/// The text below the help of the command.
const EXAMPLES: &str = "\
A limit covers the key that is its name, and all that go on after it with a colon: each of them may be \
allowed so much in each period. A node allows at once what it holds; what it lacks it asks other members \
for: wait for that with --rights-wait, or try again. Limits need a space with members.

Examples:
  tallymesh limit set login --limit 100 --period 60s
  tallymesh limit allow login:alice
  tallymesh limit show login:alice";

/// The arguments of `tallymesh limit`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LimitArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a limit; waits until a majority of the members has agreed
    Set(SetArgs),
    /// Take a limit away; waits until a majority of the members has agreed
    Remove(RemoveArgs),
    /// Print all limits
    List,
    /// Allow something of a key in its present period, if it is left; prints what is left at the node
    Allow(AllowArgs),
    /// Print what is left of a key in its present period
    Show(ShowArgs),
}

#[derive(Args, Debug)]
struct SetArgs {
    /// The limit's name: the key that it covers, or what stands before the first colon of those
    #[arg(value_name = "NAME")]
    name: String,

    /// How much is allowed of each key in each period, from 1 on
    #[arg(long, value_name = "AMOUNT", value_parser = clap::value_parser!(u64).range(1..=AMOUNT_MAX))]
    limit: u64,

    /// How long a period is, from 1s on; periods are counted since 1970
    #[arg(long, value_name = "DURATION", value_parser = time::duration)]
    period: Duration,

    /// How long to wait for the decision, at most 20s
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = time::duration)]
    timeout: Duration,
}

#[derive(Args, Debug)]
struct RemoveArgs {
    /// The limit's name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args, Debug)]
struct AllowArgs {
    /// The key
    #[arg(value_name = "KEY")]
    key: String,

    /// How much, from 0 on
    #[arg(value_name = "COST", default_value = "1", value_parser = amount())]
    cost: u64,

    #[command(flatten)]
    asking: BudgetWriteArgs,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// The key
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

/// The advice where the connection broke before the answer about a change.
const AGAIN: &str =
    "give the same command again, which changes nothing twice, or look with `tallymesh limit list`";

pub(super) fn run(client: &Client, output: &mut Output, args: LimitArgs) -> Result<(), Failure> {
    match args.action {
        Action::Set(args) => {
            let body = json!({
                "limit": args.limit.to_string(),
                "period_ms": time::millis(args.period),
                "wait_ms": time::millis(args.timeout),
            });
            let limits = client.call(&api::SET_LIMIT, &[&args.name], Some(&body));
            list(output, &limits.map_err(|failure| failure.if_broken(AGAIN))?)
        }
        Action::Remove(args) => {
            let limits = client.call(&api::REMOVE_LIMIT, &[&args.name], None);
            list(output, &limits.map_err(|failure| failure.if_broken(AGAIN))?)
        }
        Action::List => list(output, &client.call(&api::LIST_LIMITS, &[], None)?),
        Action::Allow(args) => {
            let client = client.asking(args.asking.headers());
            let body = json!({ "cost": args.cost.to_string() });
            let period = client.call(&api::ALLOW, &[&args.key], Some(&body));
            let period = period.map_err(Failure::without_op)?;
            output.line(&period, || text(&period["left"]["here"]))
        }
        Action::Show(args) => {
            let (key, level) = (&args.key, &args.level);
            rows::show(client, output, &api::READ_LIMIT, key, level, describe)
        }
    }
}

fn list(output: &mut Output, limits: &Value) -> Result<(), Failure> {
    for limit in limits["limits"].as_array().into_iter().flatten() {
        output.line(limit, || {
            format!(
                "{}\t{} in {}",
                text(&limit["name"]),
                text(&limit["limit"]),
                period(&limit["period_ms"])
            )
        })?;
    }
    Ok(())
}

/// The length of a period, for people.
fn period(millis: &Value) -> String {
    let millis = millis.as_u64().unwrap_or(0);
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

/// A period of a key, for people.
fn describe(it: &Value) -> String {
    let time = |it: &Value| it.as_str().and_then(|it| it.parse::<u64>().ok());
    let (begins, ends) = (time(&it["begins"]), time(&it["ends"]));
    let length = ends.unwrap_or(0).saturating_sub(begins.unwrap_or(0));
    format!(
        "{}\tleft: {} here, {} elsewhere\tof {} in {} by limit {}, until {}",
        text(&it["key"]),
        text(&it["left"]["here"]),
        text(&it["left"]["elsewhere"]),
        text(&it["limit"]),
        period(&json!(length)),
        text(&it["name"]),
        time::shown(ends.unwrap_or(0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_described_with_what_is_left_and_until_when() {
        let it = json!({
            "key": "login:alice", "name": "login", "limit": "100",
            "left": { "here": "31", "pending": "0", "elsewhere": "66" },
            "begins": "60000", "ends": "120000",
        });
        let expected =
            "login:alice\tleft: 31 here, 66 elsewhere\tof 100 in 1m by limit login, until ";
        assert!(describe(&it).starts_with(expected), "{}", describe(&it));
    }
}
