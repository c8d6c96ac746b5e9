//! `cargo xtask web`: the web demo, built from the packed npm package as any user would.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;

use crate::pack::{self, Tarball};
use crate::repo::Repo;
use crate::run::{say, step};
use crate::setup;
use crate::stamp::{self, Stamp};
use crate::wasm;

/// Brings web-demo/dist up to date, and returns the folder.
pub(crate) fn build(repo: &Repo) -> Result<PathBuf> {
    let tarball = pack::build(repo)?;
    setup::npm_install(repo, "web-demo")?;
    let members = wasm::build_members(repo)?;
    unpack(&tarball, &repo.path("web-demo/node_modules/tallymesh"))?;
    let dist = repo.path("web-demo/dist");
    let digest = Stamp::new("web demo")
        .text(&tarball.digest)
        .text(&members)
        .tree(&repo.path("web-demo"), &["node_modules", "dist"])?
        .finish();
    // This is beside dist and not inside, because the node embeds everything in dist.
    let mark = repo.path("web-demo/node_modules/.xtask-web-demo");
    if !(dist.join("index.html").is_file() && stamp::is_current(&mark, &digest)) {
        say("building the web demo");
        step(
            repo,
            "npm run build in web-demo",
            repo.npm("web-demo").args(["run", "build"]),
        )?;
        if !dist.join("index.html").is_file() {
            bail!(
                "the build of the web demo left no {}",
                dist.join("index.html").display()
            );
        }
        stamp::record(&mark, &digest)?;
    }
    Ok(dist)
}

/// Puts the package where npm would install it.
///
/// The tarball is not in the demo's lock file. Its hash differs after each change, and `npm ci` would reject
/// it.
fn unpack(tarball: &Tarball, into: &Path) -> Result<()> {
    let mark = into.join(".xtask-stamp");
    if stamp::is_current(&mark, &tarball.digest) {
        return Ok(());
    }
    if into.symlink_metadata().is_ok() {
        fs::remove_dir_all(into).with_context(|| format!("cannot replace {}", into.display()))?;
    }
    let beside = into.parent().context("node_modules has no parent")?;
    fs::create_dir_all(beside)?;
    let folder = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(beside)?;
    tar::Archive::new(GzDecoder::new(File::open(&tarball.file)?))
        .unpack(folder.path())
        .with_context(|| format!("cannot unpack {}", tarball.file.display()))?;
    // npm puts all files of a tarball under this name.
    fs::rename(folder.path().join("package"), into)?;
    stamp::record(&mark, &tarball.digest)
}
