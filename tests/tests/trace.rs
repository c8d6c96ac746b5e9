//! Replicas must send, store and read the same as when `tests/trace.txt` was written. tests/README.md
//! describes how to check and rewrite the file.
//!
//! `TALLYMESH_TRACE` selects the runs:
//! - `quick`, or not set: the first block of each scenario.
//! - `full`: every block, and the explorations.
//! - `write`: as `full`, and the file is rewritten.
//!
//! `TALLYMESH_TRACE_ONLY=guests,levels` restricts this to these scenarios.

use std::fs;
use std::sync::Mutex;
use std::time::Instant;
use tallymesh_tests::seeds;
use tallymesh_tests::trace::{PATH, SCENARIOS, explorations};

const HEAD: &str =
    "# Written by `TALLYMESH_TRACE=write cargo test --release -p tallymesh-tests --test trace`.";
/// The lines of the explorations begin with this name, and it selects them.
const EXPLORATIONS: &str = "states";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quick,
    Full,
    Write,
}

fn mode() -> Mode {
    match std::env::var("TALLYMESH_TRACE").as_deref() {
        Ok("quick") | Err(_) => Mode::Quick,
        Ok("full") => Mode::Full,
        Ok("write") => Mode::Write,
        Ok(other) => panic!("TALLYMESH_TRACE={other} is none of quick, full and write"),
    }
}

/// Whether a scenario was chosen.
fn is_chosen(name: &str) -> bool {
    let only = std::env::var("TALLYMESH_TRACE_ONLY");
    only.is_err() || only.is_ok_and(|it| it.split(',').any(|it| it == name))
}

/// The lines of all selected runs, in the order of the file.
fn play(mode: Mode) -> Vec<String> {
    let chosen = SCENARIOS.iter().filter(|it| is_chosen(it.name));
    let blocks = chosen.flat_map(|it| {
        let blocks = if mode == Mode::Quick { 1 } else { it.blocks };
        (0..blocks).map(move |block| (it, block))
    });
    let blocks: Vec<_> = blocks.collect();
    let lines = Mutex::new(vec![String::new(); blocks.len()]);
    seeds::each(blocks.len() as u64, |at| {
        let (scenario, block) = blocks[at as usize];
        let begun = Instant::now();
        let line = scenario.line(block)?;
        println!("{line} in {} ms", begun.elapsed().as_millis());
        lines.lock().unwrap()[at as usize] = line;
        Ok(())
    });
    let mut lines = lines.into_inner().unwrap();
    if mode != Mode::Quick && is_chosen(EXPLORATIONS) {
        let explored = explorations().unwrap_or_else(|failure| panic!("{failure}"));
        lines.extend(explored);
    }
    lines
}

/// The line of the file for the same place.
fn known_at<'a>(known: &[&'a str], line: &str) -> &'a str {
    let place = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let found = known.iter().find(|it| place(it) == place(line));
    found.copied().unwrap_or("nothing")
}

#[test]
fn replicas_send_store_and_read_what_they_did() {
    let mode = mode();
    let lines = play(mode);
    assert!(!lines.is_empty(), "TALLYMESH_TRACE_ONLY names nothing");
    let text = fs::read_to_string(PATH).unwrap_or_default();
    let known: Vec<&str> = text.lines().skip(1).collect();
    let is_of = |line: &str| is_chosen(line.split(' ').next().unwrap_or_default());
    if mode == Mode::Write {
        // The lines of scenarios that were not selected stay.
        let names = SCENARIOS.iter().map(|it| it.name).chain([EXPLORATIONS]);
        let mut all = vec![HEAD.to_owned()];
        for name in names {
            let of = |it: &&str| it.split(' ').next() == Some(name);
            match is_chosen(name) {
                true => all.extend(lines.iter().filter(|it| of(&it.as_str())).cloned()),
                false => all.extend(known.iter().copied().filter(of).map(str::to_owned)),
            }
        }
        return fs::write(PATH, all.join("\n") + "\n").unwrap();
    }
    let others = lines.iter().filter(|it| !known.contains(&it.as_str()));
    let others: Vec<String> = others
        .map(|it| format!("{it}\n    was: {}", known_at(&known, it)))
        .collect();
    let count = others.len();
    assert!(
        others.is_empty(),
        "{count} of {} blocks are not as in {PATH}:\n{}",
        lines.len(),
        others.join("\n")
    );
    let expected = known.iter().filter(|it| is_of(it)).count();
    assert!(
        mode == Mode::Quick || expected == lines.len(),
        "{PATH} has {expected} lines of what was played, and not {}",
        lines.len()
    );
}
