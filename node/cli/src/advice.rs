//! Every option that a message recommends is valid: for a command, and with a value in the form
//! that the message shows.

use super::{Cli, Command};
use clap::Parser;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Options of other programs.
const FOREIGN: [&str; 1] = ["--ulimit"];

/// A command for each option that messages name. The options of `up` must also make a valid
/// configuration.
const TAKEN: [&str; 50] = [
    "up --announce /ip4/192.0.2.7/tcp/4001",
    "up --connections 10 --connections-in 5 --connections-per-peer 2",
    "up --connect-rate 1/s:5 --memory-max 256MiB",
    "up --peer-frames 10/s:50 --peer-bytes 1MiB/s:4MiB",
    "up --relay --relay-reservations 5 --relay-circuits 5",
    "up --cors-origin https://shop.example",
    "up --cors-origin tauri://localhost",
    "up --cors-origin null",
    "up --data dir",
    "up --demo",
    "up --durability interval:1s",
    "up --http-clients 5",
    "up --http 127.0.0.1:0 --http-host counts.example --http-tickets",
    "up --http 0.0.0.0:4280 --http-tickets",
    "up --http 0.0.0.0:4280 --http-open",
    "up --http 0.0.0.0:4280 --http-tls-cert cert --http-tls-key key",
    "up --http-rate off",
    "up --key-window 1h",
    "up --listen /ip4/127.0.0.1/tcp/0/ws",
    "up --listen /ip4/192.0.2.7/tcp/4001 --listen-open",
    "up --listen-tickets",
    "up --peer /ip4/192.0.2.7/tcp/4001",
    "up --resp 127.0.0.1:6379",
    "up --resp 0.0.0.0:6379 --resp-open",
    "up --resp 0.0.0.0:6379 --resp-tickets",
    "up --resp 0.0.0.0:6379 --resp-tls-cert cert --resp-tls-key key",
    "up --resp 127.0.0.1:6379 --resp-clients 5",
    "up --resp 127.0.0.1:6379 --resp-flush",
    "up --resp 127.0.0.1:6379 --resp-strict",
    "up --space shop",
    "up --lease 10m",
    "up --log info",
    "up --ready-file ready",
    "add likes --ca ca.pem",
    "add likes --json",
    "add likes --level quorum --wait 2s",
    "add likes --node http://127.0.0.1:4280",
    "add likes --once a",
    "add likes --ticket a.b.c",
    "budget spend gift 5 --rights-wait 2s",
    "budget lease gift 20 --for 1h --id 00",
    "expire likes --at 2027-01-31T12:00:00Z",
    "limit set login --limit 100 --period 60s",
    "invite --role member --every-space",
    "invite --role writer --holder 00",
    "members force 00 --yes",
    "audit --with http://127.0.0.1:4281",
    "audit --data dir",
    "tickets --data dir",
    "tickets --token-file dir/token",
];

/// Options that are only parsed here. The value is a file or a ticket, or the option prints a text
/// and ends.
const PARSED: [&str; 3] = [
    "up --config file",
    "up --join a.b.c",
    "members force --help",
];

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("tallymesh").chain(line.split(' ')))
}

#[test]
fn what_stands_for_an_option_means_something() {
    for line in TAKEN {
        let cli = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        if let Command::Up(layers) = cli.command {
            layers
                .effective()
                .unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

#[test]
fn every_option_that_a_message_recommends_is_taken() {
    for line in PARSED {
        let refused = parsed(line).err().map(|error| error.kind());
        let fits = refused.is_none_or(|kind| kind == clap::error::ErrorKind::DisplayHelp);
        assert!(fits, "{line}: {refused:?}");
    }
    let lines = TAKEN.iter().chain(&PARSED).chain(&FOREIGN);
    let taken: BTreeSet<&str> = lines.flat_map(|line| options(line)).collect();
    let mut texts = String::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
        &mut texts,
    );
    let mut missing = BTreeSet::new();
    for line in texts.lines() {
        missing.extend(options(line).filter(|option| !taken.contains(option)));
    }
    assert!(missing.is_empty(), "in no command above: {missing:?}");
}

/// The options that a text names.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
    words.filter(|word| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
    })
}

/// Collects the lines of all sources except comments and tests.
fn collect(folder: &Path, texts: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or_default();
        if path.is_dir() && name != "tests" {
            collect(&path, texts);
        } else if name.ends_with(".rs") && !["tests.rs", "advice.rs"].contains(&name) {
            let text = fs::read_to_string(&path).expect("a file");
            let shipped = text.split("#[cfg(test)]\nmod tests {").next();
            let lines = shipped.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            texts.extend(lines.flat_map(|line| [line, "\n"]));
        }
    }
}
