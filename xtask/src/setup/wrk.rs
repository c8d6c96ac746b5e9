//! wrk, the client of the HTTP benchmark.

use anyhow::Result;

use super::{apt, on_path};
use crate::repo::Repo;

/// Finds wrk, or installs it.
pub(crate) fn wrk(repo: &Repo) -> Result<()> {
    match on_path(&["wrk"]) {
        Some(_) => Ok(()),
        None => apt::install(repo, "wrk", &["wrk"]),
    }
}
