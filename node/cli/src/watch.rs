//! `tallymesh watch`: counters as they change.

use super::client::{Client, encoded};
use super::failure::Failure;
use super::output::{Output, text};
use clap::Args;
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Read};

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
    // The stream begins first, so that no change is missed between it and the current value.
    let mut events = Events::new(client, &query)?;
    if let Some(key) = &args.key {
        match client.get_in_space(&format!("counters/{}", encoded(key))) {
            Ok(counter) => print(output, &counter)?,
            Err(Failure::Refused { code, .. }) if code == "absent" => {}
            Err(failure) => return Err(failure),
        }
    }
    loop {
        let (name, data) = events.next()?;
        match name.as_str() {
            "" => print(output, &data)?,
            _ => print_named(output, &name, data)?,
        }
    }
}

/// A node's events.
pub(super) struct Events {
    lines: Lines<BufReader<Box<dyn Read>>>,
}

impl Events {
    /// Begins to read the events.
    pub(super) fn new(client: &Client, query: &str) -> Result<Events, Failure> {
        let stream = client.stream_in_space(&format!("events{query}"))?;
        let stream: Box<dyn Read> = Box::new(stream);
        let lines = BufReader::new(stream).lines();
        Ok(Events { lines })
    }

    /// The next event: its name, which is empty for a change of a counter, and its data.
    fn next(&mut self) -> Result<(String, Value), Failure> {
        let mut name = String::new();
        for line in &mut self.lines {
            let line = line.map_err(|error| ended(error.to_string()))?;
            if let Some(text) = line.strip_prefix("event:") {
                name = text.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                let data = serde_json::from_str(data).map_err(|error| ended(error.to_string()))?;
                return Ok((name, data));
            } else if line.is_empty() {
                name.clear();
            }
        }
        Err(ended("the node ended the stream".into()))
    }

    /// The data of the next event with this name.
    pub(super) fn next_of(&mut self, wanted: &str) -> Result<Value, Failure> {
        loop {
            let (name, data) = self.next()?;
            if name == wanted {
                return Ok(data);
            }
        }
    }
}

/// Prints an event that is no change: for programs with its name, for people as a remark.
fn print_named(output: &mut Output, name: &str, mut data: Value) -> Result<(), Failure> {
    if output.is_json() {
        data["event"] = name.into();
        return output.line(&data, String::new);
    }
    let remark = match name {
        "fault" => format!(
            "fault: writer {} used clock {} twice, with totals {} and {} in `{}`; is its process \
             or its disk cloned?",
            text(&data["writer"]),
            text(&data["clock"]),
            text(&data["ours"]),
            text(&data["theirs"]),
            text(&data["key"]),
        ),
        "skipped" => "skipped: changes came too fast; all counters that exist follow".into(),
        _ => return Ok(()), // Of a newer node.
    };
    output.remark(&remark)
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
        advice: None,
    }
}
