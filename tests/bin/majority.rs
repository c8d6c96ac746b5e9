//! Explores majorities of small spaces in full: `majority [PART-OF-A-NAME]`.
//!
//! Prints a table in Markdown, and exits with status 1 and the way to it when an answer is wrong.

use std::process::ExitCode;
use tallymesh_tests::majority::{explore, full};
use tallymesh_tests::search::table;

fn main() -> ExitCode {
    let part = std::env::args().nth(1).unwrap_or_default();
    let mut configs = full();
    configs.retain(|config| config.name().contains(&part));
    table(&configs, |config| {
        let (report, _) = explore(config)?;
        Ok((report, String::new()))
    })
}
