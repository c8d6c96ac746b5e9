//! Transcripts: input, and the exact bytes of the answers.

mod access;
mod budgets;
mod clients;
mod commands;
mod connections;
mod framing;
mod host;
mod hostile;
mod increx;
mod levels;
mod model;
mod once;
mod pipelines;
mod pubsub;
mod refusals;
mod rights;
mod scan;
mod sequences;
mod transactions;

use super::*;
use host::{NOW, Node};
use std::sync::Arc;
use tallymesh_core::SplitMix64;

/// The number of seeds to run: `TALLYMESH_SEEDS`, or the default.
fn seeds(default: u64) -> u64 {
    let wanted = std::env::var("TALLYMESH_SEEDS").ok();
    wanted.map_or(default, |wanted| wanted.parse().expect("a number"))
}

/// A session at a node.
struct Client {
    session: Session,
    node: Node,
}

impl Client {
    fn new(config: RespConfig) -> Client {
        Client {
            session: Session::new(7, Arc::new(config)),
            node: Node::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> (Vec<u8>, Flow) {
        let mut out = Vec::new();
        let flow = self.session.feed(bytes, &mut self.node, &mut out);
        (out, flow)
    }

    /// Sends one command, whose arguments are separated by blanks, and returns the reply as
    /// [`show`]n.
    fn send(&mut self, command: &str) -> String {
        let (mut out, mut flow) = self.feed(&request(command));
        while flow == Flow::Turn {
            let more = self.feed(&[]);
            out.extend(more.0);
            flow = more.1;
        }
        show(&out)
    }
}

/// A command as clients send it. `''` is an empty argument, `_` in an argument stays one.
fn request(command: &str) -> Vec<u8> {
    let args: Vec<&str> = command
        .split(' ')
        .map(|arg| if arg == "''" { "" } else { arg })
        .collect();
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n{arg}\r\n", arg.len()).bytes());
    }
    bytes
}

/// Bytes for people: `|` is the end of a line.
fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "|")
}

/// The input, the answer of RESP2, and the answer of RESP3 if it differs.
type Row = (&'static str, &'static str, &'static str);

/// Plays a transcript in both versions of the protocol.
fn play(config: &RespConfig, rows: &[Row]) {
    for resp3 in [false, true] {
        let mut client = Client::new(config.clone());
        client.session.resp3 = resp3;
        for (sent, two, three) in rows {
            let wanted = if resp3 && !three.is_empty() {
                three
            } else {
                two
            };
            let answer = client.send(sent);
            assert_eq!(&answer, wanted, "to {sent}, RESP3: {resp3}");
        }
    }
}

/// As [`play`], for equal answers in both versions and the default settings.
fn play_same(rows: &[(&'static str, &'static str)]) {
    let rows: Vec<Row> = rows
        .iter()
        .map(|(sent, answer)| (*sent, *answer, ""))
        .collect();
    play(&RespConfig::default(), &rows);
}
