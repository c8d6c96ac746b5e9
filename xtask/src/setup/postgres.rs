//! PostgreSQL, for benchmarks of budgets beside it.

use std::path::Path;

use anyhow::Result;

use super::apt;
use crate::repo::Repo;

/// The folder in which Debian has the programs of each server version.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// Finds the server of PostgreSQL, or installs it.
pub(crate) fn postgres(repo: &Repo) -> Result<()> {
    let versions = Path::new(PROGRAMS).read_dir().into_iter().flatten();
    let mut programs = versions.flatten().map(|it| it.path().join("bin/postgres"));
    match programs.any(|it| it.is_file()) {
        true => Ok(()),
        false => apt::install(repo, "a server of PostgreSQL", &["postgresql"]),
    }
}
