//! Budgets of nodes beside the ways to keep a balance in PostgreSQL, in one run: the same clients, the
//! same machine, in turn, at equal durability. All that is counted is checked to the unit.

mod cashback;
mod crowd;
mod mesh;
mod server;
mod spends;

use crate::measure::median;
use crate::report::Sections;
use anyhow::{Result, bail};
use mesh::Mesh;
use server::Postgres;
use std::io::{Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The sections, in the order in which they run.
pub(crate) const SECTIONS: [&str; 2] = ["spends", "cashback"];

/// How much is done.
pub(crate) struct Plan<'a> {
    /// The program `tallymesh`.
    pub(crate) node: &'a Path,
    /// Rounds of each measurement; the median counts.
    pub(crate) rounds: usize,
    /// A tenth of the time.
    pub(crate) quick: bool,
}

impl Plan<'_> {
    /// How long one way is measured in one round, about.
    fn seconds(&self) -> f64 {
        if self.quick { 0.15 } else { 1.5 }
    }
}

/// What is measured, all of it running all the time: who has nothing to do takes next to nothing.
struct Servers<'a> {
    postgres: Postgres,
    /// One node, and three.
    meshes: [Mesh<'a>; 2],
}

/// Measures the sections that are named in `only`.
///
/// # Errors
/// Also when anything does not add up.
pub(crate) fn run(plan: &Plan<'_>, only: &[&str], report: &Sections) -> Result<()> {
    let servers = Servers {
        postgres: Postgres::start()?,
        meshes: [Mesh::start(plan.node, 1)?, Mesh::start(plan.node, 3)?],
    };
    let about = servers.postgres.about()?;
    let about = format!(
        "{about} A write of 8 KiB with `fdatasync` takes {:.2} ms here (median of 200, nobody else \
         writing). Clients are threads of one program with a blocking connection each, over TCP on \
         loopback; they, PostgreSQL and all nodes share the machine.",
        sync_millis()?
    );
    for &section in only {
        let text = match section {
            "spends" => spends::run(plan, &servers)?,
            _ => cashback::run(plan, &servers)?,
        };
        report.put(section, &format!("{about}\n\n{text}"))?;
    }
    Ok(())
}

/// Milliseconds that a small write takes to the disk that all of them use.
fn sync_millis() -> Result<f64> {
    let mut file = tempfile::tempfile_in(disk()?)?;
    let block = [7; 8192];
    file.write_all(&block)?;
    file.sync_all()?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut times))
}

/// The folder in which PostgreSQL and all nodes keep what they keep: not in memory, since durability is
/// measured.
///
/// # Errors
/// When other users may not enter it: root can't run PostgreSQL, which then runs as another user.
fn disk() -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let here = std::env::current_dir()?;
    for folder in here.ancestors() {
        if folder.metadata()?.permissions().mode() & 0o001 == 0 {
            bail!(
                "PostgreSQL runs as a user of its own, who may not enter {}: run this in a folder \
                 that others may enter",
                folder.display()
            );
        }
    }
    Ok(here)
}
