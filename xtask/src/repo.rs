//! The paths of the repository, the build outputs and the cache folder.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::ask;

/// The variables that `cargo run` sets, apart from the package's description.
const OF_CARGO_RUN: [&str; 3] = ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"];

/// The checkout that this run works on.
#[derive(Debug, Clone)]
pub(crate) struct Repo {
    root: PathBuf,
    target: PathBuf,
    cache: PathBuf,
}

impl Repo {
    /// Finds the checkout from which xtask was compiled, and its folders.
    ///
    /// # Errors
    /// If none of `TALLYMESH_CACHE`, `XDG_CACHE_HOME` and `HOME` is set.
    pub(crate) fn find() -> Result<Repo> {
        // Cargo sets the variable on `cargo run`. The compiled-in value serves direct calls.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map(PathBuf::from)
            .filter(|dir| dir.ends_with("xtask"))
            .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        let root = manifest
            .parent()
            .context("xtask has no parent folder")?
            .to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(
            || root.join("target"),
            |dir| env::current_dir().unwrap_or_default().join(dir),
        );
        Ok(Repo {
            target,
            cache: cache_folder()?,
            root,
        })
    }

    /// A path inside the checkout.
    pub(crate) fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        self.root.join(inside)
    }

    /// Cargo's target folder.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The folder for files that take minutes to build and serve every checkout of this user.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The `tallymesh` binary of the native profile. It need not exist yet.
    pub(crate) fn node_binary(&self) -> PathBuf {
        self.target.join("release").join("tallymesh")
    }

    /// A cargo command that runs at the root of the checkout.
    ///
    /// It runs without the variables in which `cargo run` describes the program's own package. Some build
    /// scripts watch these variables. They would run again whenever xtask and a plain cargo take turns.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || OF_CARGO_RUN.contains(&text.as_ref()) {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The packages of the workspace with their dependencies, in JSON, as `cargo metadata` has them.
    ///
    /// # Errors
    /// If cargo cannot read a manifest.
    pub(crate) fn metadata(&self) -> Result<String> {
        let mut cargo = self.cargo();
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        ask(&mut cargo).context("cargo metadata failed: is each Cargo.toml right?")
    }

    /// An npm command that runs in a folder of the checkout.
    pub(crate) fn npm(&self, folder: &str) -> Command {
        let mut command = Command::new("npm");
        command.current_dir(self.root.join(folder));
        command
    }

    /// The version of every package of the workspace.
    ///
    /// # Errors
    /// If the root Cargo.toml does not state one.
    pub(crate) fn version(&self) -> Result<String> {
        let path = self.path("Cargo.toml");
        let manifest: toml::Table = read(&path)?.parse()?;
        manifest["workspace"]["package"]["version"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("{} states no workspace version", path.display()))
    }
}

fn cache_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("TALLYMESH_CACHE") {
        return Ok(env::current_dir()?.join(folder));
    }
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("no cache folder: set TALLYMESH_CACHE, XDG_CACHE_HOME or HOME")?;
    Ok(base.join("tallymesh"))
}

/// Reads a text file. An error names the file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
