//! What a mesh costs: bytes between nodes that do nothing, bytes of changes, how long a change takes to
//! all nodes, and how these grow with the nodes: with real processes as far as a machine goes, and from
//! there on simulated, with the same sync machine and the constants that were measured. And how long a mesh
//! takes to go on after faults.

mod changes;
mod converge;
mod curve;
mod gates;
mod guest;
mod idle;
mod liveness;
mod nodes;
mod overlay;
mod wire;
mod world;

use crate::report::Sections;
use anyhow::Result;
use std::path::Path;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 5] = ["idle", "changes", "converge", "curve", "liveness"];

/// How much is done.
pub(crate) struct Plan<'a> {
    /// The program `tallymesh`.
    pub(crate) node: &'a Path,
    /// Changes of which each is timed, of one node, and of all nodes at once. A tenth of it, rounds of each
    /// fault.
    pub(crate) rounds: usize,
    /// A tenth of the counters, and of the nodes that are simulated; shorter times.
    pub(crate) quick: bool,
}

/// Measures the sections that are named in `only`.
pub(crate) fn run(plan: &Plan<'_>, only: &[&str], report: &Sections) -> Result<()> {
    let mut meshes = Vec::new();
    for &section in only {
        let text = match section {
            "idle" => idle::run(plan)?,
            "changes" => changes::run(plan)?,
            "liveness" => liveness::run(plan)?,
            "converge" => {
                meshes = converge::measure(plan)?;
                converge::table(&meshes)
            }
            _ => {
                if meshes.is_empty() {
                    // The simulator goes by what was measured on the same machine.
                    meshes = converge::measure(plan)?;
                }
                curve::run(plan, &meshes)?
            }
        };
        report.put(section, &text)?;
    }
    Ok(())
}
