//! `set`, `reset`, `del`, `expire`, `persist` and `ttl`: one operation each.

use super::asking::{LevelArgs, WriteArgs};
use super::client::Client;
use super::failure::Failure;
use super::output::{Output, text};
use super::time;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tallymesh_node_ground::api::{self, Call};

/// The arguments of `tallymesh set`.
#[derive(Args, Debug)]
pub struct SetArgs {
    /// The counter
    #[arg(value_name = "KEY")]
    key: String,

    /// What it becomes
    #[arg(value_name = "VALUE", allow_negative_numbers = true)]
    value: i64,

    #[command(flatten)]
    asking: WriteArgs,
}

/// The arguments of `tallymesh reset` and `tallymesh del`.
#[derive(Args, Debug)]
pub struct KeysArgs {
    /// The counters; all are done at once, or none
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    #[command(flatten)]
    asking: WriteArgs,
}

/// The arguments of `tallymesh expire`.
#[derive(Args, Debug)]
#[command(override_usage = "tallymesh expire [OPTIONS] <KEY> <DURATION|--at <TIME>>")]
#[command(group(ArgGroup::new("when").required(true).args(["duration", "at"])))]
pub struct ExpireArgs {
    /// The counter
    #[arg(value_name = "KEY")]
    key: String,

    /// How long it stays from now on, such as 90s, 15m, 24h or "1day 12h"
    #[arg(value_name = "DURATION", value_parser = time::duration)]
    duration: Option<Duration>,

    /// When it expires, such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::at)]
    at: Option<SystemTime>,

    #[command(flatten)]
    asking: WriteArgs,
}

/// The arguments of `tallymesh persist`.
#[derive(Args, Debug)]
pub struct PersistArgs {
    /// The counter
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    asking: WriteArgs,
}

/// The arguments of `tallymesh ttl`.
#[derive(Args, Debug)]
pub struct TtlArgs {
    /// The counter
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

/// The text for people where a retry does not know the earlier value.
const BEFORE: &str = "made before";

pub(super) fn set(client: &Client, output: &mut Output, args: SetArgs) -> Result<(), Failure> {
    let client = client.asking(args.asking.headers());
    let body = json!({ "value": args.value.to_string() });
    let done = client.call(&api::SET, &[&args.key], Some(&body))?;
    output.line(&done, || text(&done["value"]))
}

pub(super) fn reset(client: &Client, output: &mut Output, args: KeysArgs) -> Result<(), Failure> {
    on_all(client, output, &api::RESET, args)
}

pub(super) fn delete(client: &Client, output: &mut Output, args: KeysArgs) -> Result<(), Failure> {
    on_all(client, output, &api::DELETE, args)
}

/// Makes one operation on each counter, all in one transaction. For people, it prints how many
/// existed.
fn on_all(
    client: &Client,
    output: &mut Output,
    call: &Call,
    args: KeysArgs,
) -> Result<(), Failure> {
    let client = client.asking(args.asking.headers());
    let keys = args.keys.iter();
    let ops: Vec<Value> = keys
        .map(|key| json!({ "op": call.op, "key": key }))
        .collect();
    let answer = client.call(&api::TRANSACT, &[], Some(&json!({ "ops": ops })))?;
    let results = answer["results"].as_array();
    if !output.is_json() {
        let existed = results.into_iter().flatten();
        let existed: Option<Vec<bool>> = existed.map(|it| it["existed"].as_bool()).collect();
        return output.line(&Value::Null, || match existed {
            Some(existed) => existed.iter().filter(|it| **it).count().to_string(),
            None => BEFORE.into(),
        });
    }
    let mut results = results.into_iter().flatten();
    results.try_for_each(|result| output.line(result, String::new))
}

pub(super) fn expire(
    client: &Client,
    output: &mut Output,
    args: ExpireArgs,
) -> Result<(), Failure> {
    let body = match (args.duration, args.at) {
        (Some(duration), _) => json!({ "in_ms": time::millis(duration).to_string() }),
        (None, Some(at)) => json!({ "at": time::unix_millis(at).to_string() }),
        (None, None) => json!({}), // The command line asks for one of them.
    };
    let client = client.asking(args.asking.headers());
    let done = client.call(&api::EXPIRE, &[&args.key], Some(&body))?;
    output.line(&done, || match millis_of(&done) {
        Some(at) => time::shown(at),
        None => "expired".into(),
    })
}

pub(super) fn persist(
    client: &Client,
    output: &mut Output,
    args: PersistArgs,
) -> Result<(), Failure> {
    let client = client.asking(args.asking.headers());
    let done = client.call(&api::PERSIST, &[&args.key], Some(&json!({})))?;
    output.line(&done, || match done["had_expiry"].as_bool() {
        Some(true) => "1".into(),
        Some(false) => "0".into(),
        None => BEFORE.into(),
    })
}

pub(super) fn ttl(client: &Client, output: &mut Output, args: TtlArgs) -> Result<(), Failure> {
    let client = client.asking(args.level.headers());
    let counter = client.call(&api::READ_COUNTER, &[&args.key], None)?;
    let at = millis_of(&counter);
    let left = at.map(|at| at.saturating_sub(time::unix_millis(SystemTime::now())));
    let decimal = |number: Option<u64>| number.map(|number| number.to_string());
    let json = json!({
        "key": args.key,
        "expires_at": decimal(at),
        "ttl_ms": decimal(left),
    });
    output.line(&json, || match left {
        Some(left) => time::shown_duration(left),
        None => "never".into(),
    })
}

fn millis_of(counter: &Value) -> Option<u64> {
    counter["expires_at"].as_str()?.parse().ok()
}
