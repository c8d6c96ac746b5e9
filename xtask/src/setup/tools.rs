//! cargo-deny and cargo-mutants, built once and stored in the cache folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::on_path;
use crate::repo::Repo;
use crate::run::{say, step};

/// The releases that are built if the machine has none. An installed one of any release is used as it is.
const DENY: &str = "0.20.2";
const MUTANTS: &str = "27.1.0";

/// Finds cargo-deny, or builds it into the cache folder.
pub(crate) fn cargo_deny(repo: &Repo) -> Result<PathBuf> {
    cargo_tool(repo, "cargo-deny", DENY)
}

/// Finds cargo-mutants, or builds it into the cache folder.
pub(crate) fn cargo_mutants(repo: &Repo) -> Result<PathBuf> {
    cargo_tool(repo, "cargo-mutants", MUTANTS)
}

fn cargo_tool(repo: &Repo, name: &str, version: &str) -> Result<PathBuf> {
    if let Some(found) = on_path(&[name]) {
        return Ok(found);
    }
    let home = repo.cache().join(format!("{name}-{version}"));
    let program = home.join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    say(&format!(
        "building {name} {version} into {} (once, some minutes)",
        repo.cache().display()
    ));
    fs::create_dir_all(repo.cache())?;
    let building = tempfile::Builder::new()
        .prefix(&format!("building-{name}-"))
        .tempdir_in(repo.cache())?;
    let root = building.path().join("root");
    let mut install = Command::new(repo.cargo().get_program());
    // Built outside the checkout, so that its cargo settings do not apply.
    install
        .current_dir(building.path())
        .args(["install", "--locked", name, "--version", version, "--root"])
        .arg(&root)
        .env("CARGO_TARGET_DIR", building.path().join("target"))
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    step(repo, &format!("cargo install {name}"), &mut install)?;
    put_in_place(&root, &home)?;
    Ok(program)
}

/// Moves a finished folder to its final name. A concurrent run may have done so before.
pub(super) fn put_in_place(made: &std::path::Path, home: &std::path::Path) -> Result<()> {
    match fs::rename(made, home) {
        Err(_) if home.exists() => Ok(()),
        other => other.with_context(|| format!("cannot create {}", home.display())),
    }
}
