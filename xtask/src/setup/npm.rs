//! Node and the npm packages that the lock files name.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::run::{ask, say, step};
use crate::stamp::{self, Stamp};

/// The oldest Node that the package and its tests support.
const NODE_MAJOR_MIN: u32 = 20;

/// Installs a folder's npm packages by its lock file, unless they are there already.
pub(crate) fn install(repo: &Repo, folder: &str) -> Result<()> {
    let version = node_version()?;
    let at = repo.path(folder);
    let digest = Stamp::new("npm ci")
        .text(&version)
        .file(&at.join("package.json"))?
        .file(&at.join("package-lock.json"))?
        .finish();
    let mark = at.join("node_modules").join(".xtask-stamp");
    if stamp::is_current(&mark, &digest) {
        return Ok(());
    }
    say(&format!(
        "installing the npm packages of {folder}/ by its lock file"
    ));
    step(
        repo,
        &format!("npm ci in {folder}"),
        repo.npm(folder).args(["ci", "--no-audit", "--no-fund"]),
    )?;
    // npm makes no folder for a lock file without packages.
    std::fs::create_dir_all(at.join("node_modules"))?;
    stamp::record(&mark, &digest)
}

/// The version of Node on this machine.
///
/// # Errors
/// If it is missing or too old.
fn node_version() -> Result<String> {
    let version = ask(Command::new("node").arg("--version"))
        .context("Node is missing: install Node 20 or later (https://nodejs.org)")?;
    let major = version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok())
        .with_context(|| format!("node --version answered {version:?}"))?;
    if major < NODE_MAJOR_MIN {
        bail!("Node {version} is too old: Tallymesh needs Node {NODE_MAJOR_MIN} or later");
    }
    Ok(version)
}
