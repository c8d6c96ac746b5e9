//! The Redis protocol of a node beside a real Redis, in one run: the same client program, the same
//! machine, in turn, at equal durability; and what the node does beside that.

mod gossip;
mod load;
mod memory;
mod reopen;
pub(crate) mod servers;
mod speed;

use crate::report::Sections;
use anyhow::Result;
use std::path::Path;

/// How many counters there are.
const KEYS: usize = 1_000_000;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 4] = ["speed", "memory", "gossip", "reopen"];

/// How much is done.
pub(crate) struct Plan<'a> {
    /// The program `tallymesh`.
    pub(crate) node: &'a Path,
    /// Another build of it, in place of the peer.
    pub(crate) before: Option<&'a Path>,
    /// Rounds of each measurement; the median counts.
    pub(crate) rounds: usize,
    /// A tenth of the commands.
    pub(crate) quick: bool,
}

impl Plan<'_> {
    /// What the number of commands is divided by.
    fn scale(&self) -> usize {
        if self.quick { 10 } else { 1 }
    }
}

/// Measures the sections that are named in `only`.
pub(crate) fn run(plan: &Plan<'_>, only: &[&str], report: &Sections) -> Result<()> {
    for &section in only {
        let text = match section {
            "speed" => speed::run(plan)?,
            "memory" => memory::run(plan)?,
            "gossip" => gossip::run(plan)?,
            _ => reopen::run(plan)?,
        };
        report.put(section, &text)?;
    }
    Ok(())
}
