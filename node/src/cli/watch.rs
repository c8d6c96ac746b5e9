//! `tallymesh watch`: counters as they change.

use super::client::{Client, encoded};
use super::failure::Failure;
use super::get::text;
use super::output::Output;
use clap::Args;
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// The arguments of `tallymesh watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Only this counter; its value now is printed first
    #[arg(value_name = "KEY")]
    key: Option<String>,
}

pub(super) fn run(client: &Client, output: &mut Output, args: WatchArgs) -> Result<(), Failure> {
    let query = match &args.key {
        Some(key) => format!("?key={}", encoded(key)),
        None => String::new(),
    };
    // The stream first: no change can fall between it and the value now.
    let stream = client.stream_in_space(&format!("events{query}"))?;
    if let Some(key) = &args.key {
        match client.get_in_space(&format!("counters/{}", encoded(key))) {
            Ok(counter) => print(output, &counter)?,
            Err(Failure::Refused { code, .. }) if code == "absent" => {}
            Err(failure) => return Err(failure),
        }
    }
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(|error| ended(error.to_string()))?;
        let Some(data) = line.strip_prefix("data:") else {
            continue; // A comment, or the blank line after an event.
        };
        let counter = serde_json::from_str(data).map_err(|error| ended(error.to_string()))?;
        print(output, &counter)?;
    }
    Err(ended("the node ended the stream".into()))
}

fn print(output: &mut Output, counter: &Value) -> Result<(), Failure> {
    output.line(counter, || {
        format!("{}\t{}", text(&counter["key"]), text(&counter["value"]))
    })
}

fn ended(problem: String) -> Failure {
    Failure::Broken {
        problem,
        write: false,
    }
}
