//! `tallymesh sequence`: numbers, each of which is handed out at most once in the whole mesh.

use super::asking::LevelArgs;
use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::{Output, text};
use super::rows::{self, NamesArgs};
use super::time;
use super::watch::Events;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::time::Duration;
use tallymesh_node_ground::api;
use tallymesh_node_ground::escape;

/// Sequences in one request.
const PAGE: usize = 1_000;

/// The text below the help of the command.
const EXAMPLES: &str = "\
Each number is handed out at most once, at whatever members it is asked for. A number whose answer is lost \
is gone. Sequences need a space with members.

Examples:
  tallymesh sequence begin visits
  tallymesh sequence next visits
  tallymesh sequence show visits
  tallymesh sequence watch visits 1000000";

/// The arguments of `tallymesh sequence`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SequenceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Begin a sequence: its first number is 1
    Begin(BeginArgs),
    /// Hand out the next number; prints it
    Next(NextArgs),
    /// Print how many numbers were handed out, at least and at most, who holds which, and which were lost
    Show(ShowArgs),
    /// Watch a number, and wait until it is handed out; it stays watched until `unwatch`
    Watch(WatchArgs),
    /// End the watch of a number: nobody is told of it any more
    Unwatch(UnwatchArgs),
    /// Print all sequences, or those whose names begin with a prefix, and how many numbers they have
    /// handed out at least
    List(NamesArgs),
}

#[derive(Args, Debug)]
struct BeginArgs {
    /// The sequence
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

#[derive(Args, Debug)]
struct NextArgs {
    /// The sequence
    #[arg(value_name = "KEY")]
    key: String,

    /// How long to wait until the node has a number to hand out, at most 20s
    #[arg(long, value_name = "DURATION", value_parser = time::duration, default_value = "5s")]
    rights_wait: Duration,

    #[command(flatten)]
    level: LevelArgs,
}

#[derive(Args, Debug)]
struct ShowArgs {
    /// The sequence
    #[arg(value_name = "KEY")]
    key: String,

    #[command(flatten)]
    level: LevelArgs,
}

#[derive(Args, Debug)]
struct WatchArgs {
    /// The sequence
    #[arg(value_name = "KEY")]
    key: String,

    /// The number, from 1 on
    #[arg(value_name = "NUMBER")]
    number: u64,

    /// Only set the watch: `show` tells later what became of it
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    level: LevelArgs,
}

#[derive(Args, Debug)]
struct UnwatchArgs {
    /// The sequence
    #[arg(value_name = "KEY")]
    key: String,

    /// The number
    #[arg(value_name = "NUMBER")]
    number: u64,

    #[command(flatten)]
    level: LevelArgs,
}

pub(super) fn run(client: &Client, output: &mut Output, args: SequenceArgs) -> Result<(), Failure> {
    match args.action {
        Action::Begin(args) => {
            let client = client.asking(args.level.headers());
            let sequence = client.call(&api::BEGIN, &[&args.key], None)?;
            output.line(&sequence, || format!("{} begins", text(&sequence["key"])))
        }
        Action::Next(args) => {
            let wait = (
                "tallymesh-rights-wait-ms",
                time::millis(args.rights_wait).to_string(),
            );
            let headers = args.level.headers().into_iter().chain([wait]);
            let client = client.asking(headers.collect());
            let number = client.call(&api::NEXT, &[&args.key], None)?;
            output.line(&number, || text(&number["number"]))
        }
        Action::Show(args) => {
            let (key, level) = (&args.key, &args.level);
            rows::show(client, output, &api::READ_SEQUENCE, key, level, describe)
        }
        Action::Watch(args) => watch(client, output, &args),
        Action::Unwatch(args) => {
            let client = client.asking(args.level.headers());
            let names = [args.key.as_str(), &args.number.to_string()];
            let sequence = client.call(&api::END_WATCH, &names, None)?;
            output.line(&sequence, || {
                let key = escape::value(&args.key);
                format!("{} of {key} is not watched", args.number)
            })
        }
        Action::List(args) => {
            let call = (&api::LIST_SEQUENCES, PAGE);
            rows::list(client, output, call, (&args.prefix, &args.level), "issued")
        }
    }
}

/// Sets a watch, and waits until the number is handed out, or lost.
fn watch(client: &Client, output: &mut Output, args: &WatchArgs) -> Result<(), Failure> {
    let WatchArgs { key, number, .. } = args;
    // The stream begins first: the number may be handed out before the next request.
    let mut events = match args.no_wait {
        true => None,
        false => Some(Events::new(client, &format!("?key={}", encoded(key)))?),
    };
    let asking = client.asking(args.level.headers());
    let mut sequence = asking.call(&api::WATCH, &[key, &number.to_string()], Some(&json!({})))?;
    loop {
        let rows = sequence["watched"].as_array().into_iter().flatten();
        let mut row = rows.filter(|it| text(&it["number"]) == number.to_string());
        let Some(row) = row.next() else {
            let key = escape::value(key);
            return output.line(&sequence, || format!("{number} of {key} is not watched"));
        };
        match &mut events {
            Some(events) if row["state"] == "open" => sequence = events.next_of("sequence")?,
            _ => return output.line(row, || described(&escape::value(key), row)),
        }
    }
}

/// A watched number, for people. The key is already escaped.
fn described(key: &str, row: &Value) -> String {
    let number = text(&row["number"]);
    match row["state"].as_str() {
        Some("open") => format!("{number} of {key} is watched"),
        Some("lost") => {
            format!("{number} of {key} was lost with its member, maybe after it was handed out")
        }
        Some("passed") => format!("{number} of {key} was handed out or lost before it was watched"),
        _ => {
            let who = match (row["own"] == true, row["owner"].as_str()) {
                (true, _) => "this node".to_owned(),
                (false, Some(owner)) => format!("member {}", escape::value(owner)),
                (false, None) => format!("writer {}", text(&row["writer"])),
            };
            let below = match text(&row["below"]).as_str() {
                "0" => String::new(),
                below => format!("; {below} lower ones at most were not handed out then"),
            };
            format!("{number} of {key} was handed out by {who}{below}")
        }
    }
}

/// A sequence, for people.
fn describe(sequence: &Value) -> String {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let most = number(&sequence["next"]).map_or(0, |next| next.saturating_sub(1));
    let mut lines = vec![format!(
        "{}\thanded out {} at least, {most} at most\tlost {}",
        text(&sequence["key"]),
        text(&sequence["issued"]),
        text(&sequence["lost"])
    )];
    let range = |it: &Value| format!("{} to {}", text(&it["first"]), text(&it["last"]));
    for held in sequence["held"].as_array().into_iter().flatten() {
        let who = match (held["own"] == true, held["owner"].as_str()) {
            (true, _) => "this node".to_owned(),
            (false, Some(owner)) => format!("member {}", escape::value(owner)),
            (false, None) => format!("writer {}", text(&held["writer"])),
        };
        lines.push(format!("  held\t{}\t{who}", range(held)));
    }
    for gap in sequence["gaps"].as_array().into_iter().flatten() {
        lines.push(format!("  gap\t{}", range(gap)));
    }
    for watched in sequence["watched"].as_array().into_iter().flatten() {
        lines.push(format!(
            "  watch\t{}",
            described(&text(&sequence["key"]), watched)
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sequence_is_described_with_its_bounds() {
        let sequence = json!({
            "key": "visits", "next": "31", "issued": "12", "lost": "3",
            "held": [
                { "first": "13", "last": "20", "writer": "ab", "own": true },
                { "first": "21", "last": "27", "writer": "cd", "owner": "ef", "own": false },
            ],
            "gaps": [{ "first": "28", "last": "30" }],
            "watched": [
                { "number": "10", "state": "handed_out", "writer": "cd", "owner": "ef", "own": false, "below": "2" },
                { "number": "28", "state": "lost", "own": false },
            ],
        });
        let expected = "visits\thanded out 12 at least, 30 at most\tlost 3\n  \
            held\t13 to 20\tthis node\n  held\t21 to 27\tmember ef\n  gap\t28 to 30\n  \
            watch\t10 of visits was handed out by member ef; 2 lower ones at most were not handed out then\n  \
            watch\t28 of visits was lost with its member, maybe after it was handed out";
        assert_eq!(describe(&sequence), expected);
    }
}
