//! `cargo xtask site`: the page for any static host, with the documents and the package's reference.

use std::path::PathBuf;

use anyhow::Result;

use crate::reference;
use crate::repo::Repo;
use crate::run::{say, step};
use crate::web;

/// Writes the site to target/site, and returns the folder.
pub(crate) fn build(repo: &Repo) -> Result<PathBuf> {
    web::build(repo)?;
    let reference = reference::build(repo)?;
    let site = repo.target().join("site");
    say(&format!("laying out the site in {}", site.display()));
    step(
        repo,
        "npm run site in web-demo",
        repo.npm("web-demo")
            .args(["run", "site", "--"])
            .arg(&site)
            .arg(&reference),
    )?;
    Ok(site)
}
