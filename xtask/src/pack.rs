//! `cargo xtask pack`: the npm tarball.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::repo::{self, Repo};
use crate::run::{say, step};
use crate::stamp::{self, Stamp};
use crate::wasm;

/// The npm package as a file.
#[derive(Debug, Clone)]
pub(crate) struct Tarball {
    /// The `.tgz` file.
    pub(crate) file: PathBuf,
    /// A digest that changes whenever the content does.
    pub(crate) digest: String,
}

pub(crate) fn command(repo: &Repo) -> Result<()> {
    let tarball = build(repo)?;
    println!("{}", tarball.file.display());
    Ok(())
}

/// Brings target/npm/tallymesh-VERSION.tgz up to date.
///
/// It is under the checkout even when cargo builds elsewhere, so that package.json files and documentation
/// can name it.
pub(crate) fn build(repo: &Repo) -> Result<Tarball> {
    let module = wasm::build(repo)?;
    let version = repo.version()?;
    let stated: serde_json::Value =
        serde_json::from_str(&repo::read(&repo.path("wasm/package.json"))?)
            .context("wasm/package.json is not JSON")?;
    if stated["version"] != version.as_str() {
        bail!(
            "wasm/package.json states version {}, Cargo.toml {version}: make them equal",
            stated["version"]
        );
    }
    let folder = repo.path("target/npm");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("tallymesh-{version}.tgz"));
    let digest = Stamp::new("npm package")
        .text(&module)
        .tree(
            &repo.path("wasm"),
            &["node_modules", "dist", "src", "tests", "test", "reference"],
        )?
        .finish();
    let mark = folder.join(".xtask-stamp");
    if !(file.is_file() && stamp::is_current(&mark, &digest)) {
        say("building the npm package");
        step(
            repo,
            "npm run build in wasm",
            repo.npm("wasm").args(["run", "build"]),
        )?;
        let _ = fs::remove_file(&file);
        step(
            repo,
            "npm pack",
            repo.npm("wasm")
                .args(["pack", "--pack-destination"])
                .arg(&folder),
        )?;
        if !file.is_file() {
            bail!("npm pack did not make {}", file.display());
        }
        stamp::record(&mark, &digest)?;
    }
    Ok(Tarball { file, digest })
}
