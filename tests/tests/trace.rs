//! Whether replicas say, store and read what they did when `tests/trace.txt` was written. The first block of
//! each scenario is played; with `TALLYMESH_TRACE=all` every block, and the explorations, and with
//! `TALLYMESH_TRACE=write` the file is written anew.

use std::fs;
use std::sync::Mutex;
use tallymesh_tests::seeds;
use tallymesh_tests::trace::{PATH, SCENARIOS, explorations};

const HEAD: &str =
    "# Written by `TALLYMESH_TRACE=write cargo test --release -p tallymesh-tests --test trace`.\n";

#[test]
fn replicas_say_store_and_read_what_they_did() {
    let asked = std::env::var("TALLYMESH_TRACE").unwrap_or_default();
    let (all, writes) = (asked == "all" || asked == "write", asked == "write");
    let blocks = SCENARIOS.iter().flat_map(|it| {
        let blocks = if all { it.blocks } else { 1 };
        (0..blocks).map(move |block| (it, block))
    });
    let blocks: Vec<_> = blocks.collect();
    let lines = Mutex::new(vec![String::new(); blocks.len()]);
    seeds::each(blocks.len() as u64, |at| {
        let (scenario, block) = blocks[at as usize];
        let line = scenario.line(block);
        lines.lock().unwrap()[at as usize] = line;
        Ok(())
    });
    let mut lines = lines.into_inner().unwrap();
    if all {
        lines.extend(explorations().unwrap_or_else(|failure| panic!("{failure}")));
    }
    if writes {
        return fs::write(PATH, format!("{HEAD}{}\n", lines.join("\n"))).unwrap();
    }
    let text = fs::read_to_string(PATH).unwrap();
    let known: Vec<&str> = text.lines().collect();
    let other: Vec<&String> = lines
        .iter()
        .filter(|it| !known.contains(&it.as_str()))
        .collect();
    assert!(other.is_empty(), "not in {PATH}: {other:#?}");
    assert!(
        !all || known.len() == lines.len() + 1,
        "{PATH} has more lines"
    );
}
