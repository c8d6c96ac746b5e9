//! The API reference of the npm package: TypeDoc's pages of the comments in wasm/js.

use std::path::PathBuf;

use anyhow::Result;

use crate::pack;
use crate::repo::Repo;
use crate::run::{say, step};
use crate::setup;
use crate::stamp::{self, Stamp};

/// Brings target/reference up to date, and returns the folder.
///
/// # Errors
/// If an export of the package, or a part of it, has no description or names something that does not exist.
pub(crate) fn build(repo: &Repo) -> Result<PathBuf> {
    // The types of the bindings are among the sources.
    let tarball = pack::build(repo)?;
    let folder = repo.path("wasm/reference");
    setup::npm_install(repo, "wasm/reference")?;
    // The folder is under the checkout even when cargo builds elsewhere, because typedoc.json names it.
    let pages = repo.path("target/reference");
    let digest = Stamp::new("reference")
        .text(&tarball.digest)
        .tree(&folder, &["node_modules"])?
        .file(&repo.path("docs/api.md"))?
        .finish();
    let mark = folder.join("node_modules/.xtask-reference");
    if !(pages.join("index.html").is_file() && stamp::is_current(&mark, &digest)) {
        say("making the API reference of the package");
        step(
            repo,
            "npm run build in wasm/reference",
            repo.npm("wasm/reference").args(["run", "build"]),
        )?;
        stamp::record(&mark, &digest)?;
    }
    Ok(pages)
}
