//! Many pages at one node: how long simultaneous clicks take to all of them, what each page receives, and
//! what the node needs. Beside it, in the same run, the server of y-websocket, and a broadcast server on the
//! node's WebSocket library. One load process has all pages, each with a socket of its own.

mod click;
mod client;
mod coming;
mod crowd;
mod nodes;
mod page;
mod passing;
mod peers;
mod servers;
mod socket;
mod stage;
mod steady;
mod table;
mod together;
mod workers;

use crate::measure::cpu_seconds;
use crate::report::Sections;
use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use servers::{Programs, Who};
use stage::Stage;
use std::path::Path;
use std::process;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use table::Column;

/// The rows, in the order in which they run.
pub(crate) const SECTIONS: [&str; 9] = [
    "together",
    "click",
    "connected",
    "steady",
    "nodes",
    "workers",
    "fresh",
    "crowd",
    PASSING,
];
/// The row that runs only if it is asked for, since it takes half an hour.
pub(crate) const PASSING: &str = "passing";

/// Descriptors that a process has beside those of its sockets.
const OTHER_DESCRIPTORS: u64 = 400;

/// Options of visitors alone.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pages of a row (visitors only)
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) links: usize,
    /// A space without members (visitors only)
    #[arg(long)]
    pub(crate) open: bool,
    /// The row of visitors that come and go, too (visitors only)
    #[arg(long)]
    pub(crate) long: bool,
    /// Visitors of that row
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) visitors: usize,
    /// Visitors a second of that row
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) rate: usize,
    /// MiB of a server's memory at which a row stops (visitors only)
    #[arg(long, value_name = "MIB", default_value_t = 2_048)]
    pub(crate) memory_mib: u64,
    /// Seconds at which a step of a row stops (visitors only)
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) bound_s: u64,
}

impl Args {
    /// The options that are not as they would be by default, for the command in a report.
    pub(crate) fn shown(&self) -> String {
        let mut text = format!(" --links {}", self.links);
        for (is_set, name) in [(self.open, " --open"), (self.long, " --long")] {
            text += if is_set { name } else { "" };
        }
        if self.long {
            text += &format!(" --visitors {} --rate {}", self.visitors, self.rate);
        }
        text + &format!(
            " --memory-mib {} --bound-s {}",
            self.memory_mib, self.bound_s
        )
    }
}

/// How much is done.
pub(crate) struct Plan<'a> {
    args: &'a Args,
    programs: Programs,
    /// The keys of pages follow from it: other ones in each run.
    seed: u64,
    /// Shorter times, and fewer rounds.
    quick: bool,
}

impl<'a> Plan<'a> {
    /// Builds the programs that are measured.
    ///
    /// # Errors
    /// If the node or the broadcast server is not there. Without npm y-websocket is left out.
    pub(crate) fn new(node: &Path, args: &'a Args, quick: bool) -> Result<Plan<'a>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Plan {
            args,
            programs: Programs::find(node)?,
            seed: since.as_nanos() as u64,
            quick,
        })
    }

    /// Measures each of these servers in turn, as far as it is there.
    fn each(
        &self,
        who: &[Who],
        links: usize,
        measure: impl Fn(&mut Stage<'_>, &mut Column) -> Result<()>,
    ) -> Result<Vec<(Who, Column)>> {
        let mut all = Vec::new();
        for &who in who.iter().filter(|who| self.programs.has(**who)) {
            tell(&format!("{links} pages at {}", who.name()));
            let mut stage = Stage::start(self, who, links)?;
            let (begun, before) = (Instant::now(), cpu_seconds(process::id())?);
            let mut found = Column::of(|found| measure(&mut stage, found))?;
            let cores = (cpu_seconds(process::id())? - before) / begun.elapsed().as_secs_f64();
            // If that is near 1, the times are those of the load process.
            found.note(format!("the load process had {cores:.2} of a core in all"));
            all.push((who, found));
        }
        Ok(all)
    }
}

/// Says how far it is.
fn tell(what: &str) {
    eprintln!("visitors: {what}");
}

/// Measures the rows that are named in `only`.
pub(crate) fn run(plan: &Plan<'_>, only: &[&str], report: &Sections) -> Result<()> {
    let descriptors = raise_descriptors()?;
    let needed = servers::places(plan.args.links) as u64 + OTHER_DESCRIPTORS;
    if descriptors < needed {
        tell(&format!(
            "{} pages need {needed} descriptors, and there are {descriptors}: raise `ulimit -n`",
            plan.args.links
        ));
    }
    for &section in only {
        let text = match section {
            "together" => together::run(plan)?,
            "click" => click::run(plan)?,
            "connected" => steady::connected(plan)?,
            "steady" => steady::run(plan)?,
            "nodes" => nodes::run(plan)?,
            "workers" => workers::run(plan)?,
            "fresh" => coming::fresh(plan)?,
            "crowd" => coming::crowd(plan)?,
            _ => passing::run(plan)?,
        };
        // Each kind of space has blocks of its own.
        let space = if plan.args.open { "-open" } else { "" };
        report.put(&format!("{section}{space}"), &text)?;
    }
    Ok(())
}

/// Lets this process, and the servers that it starts, have as many descriptors as they may. Returns how many.
fn raise_descriptors() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit })?;
    Ok(current.unwrap_or(u64::MAX))
}
