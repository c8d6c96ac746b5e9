//! A PostgreSQL that budgets are measured beside.

use std::path::Path;

use anyhow::Result;

use super::apt;
use crate::repo::Repo;

/// Where Debian has the programs of each version's server.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// Finds the server of a PostgreSQL, or installs it.
pub(crate) fn postgres(repo: &Repo) -> Result<()> {
    let versions = Path::new(PROGRAMS).read_dir().into_iter().flatten();
    let mut programs = versions.flatten().map(|it| it.path().join("bin/postgres"));
    match programs.any(|it| it.is_file()) {
        true => Ok(()),
        false => apt::install(repo, "a server of PostgreSQL", &["postgresql"]),
    }
}
