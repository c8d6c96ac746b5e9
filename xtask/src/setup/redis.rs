//! Programs for Redis: its own, and a client for Python.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::tools::put_in_place;
use super::{apt, on_path};
use crate::repo::Repo;
use crate::run::{say, step};

/// The release of redis-py that is installed.
const REDIS_PY: &str = "8.1.0";

/// Finds redis-cli and redis-benchmark, or installs them.
pub(crate) fn redis_tools(repo: &Repo) -> Result<()> {
    if on_path(&["redis-benchmark"]).is_some() && on_path(&["redis-cli"]).is_some() {
        return Ok(());
    }
    apt::install(repo, "redis-cli", &["redis-tools"])
}

/// Finds openssl, or installs it. It makes the certificates for tests of clients.
pub(crate) fn openssl(repo: &Repo) -> Result<()> {
    match on_path(&["openssl"]) {
        Some(_) => Ok(()),
        None => apt::install(repo, "openssl", &["openssl"]),
    }
}

/// Finds redis-server, or installs it, for benchmarks beside it.
pub(crate) fn redis_server(repo: &Repo) -> Result<()> {
    match on_path(&["redis-server"]) {
        Some(_) => Ok(()),
        None => apt::install(repo, "redis-server", &["redis-server"]),
    }
}

/// The folder with redis-py in the cache folder. It is installed if it is missing.
pub(crate) fn redis_py(repo: &Repo) -> Result<PathBuf> {
    let home = repo.cache().join(format!("redis-py-{REDIS_PY}"));
    if home.is_dir() {
        return Ok(home);
    }
    if on_path(&["pip3"]).is_none() {
        apt::install(repo, "pip for Python", &["python3-pip"])?;
    }
    say(&format!(
        "installing redis-py {REDIS_PY} into {}",
        repo.cache().display()
    ));
    std::fs::create_dir_all(repo.cache())?;
    let making = tempfile::Builder::new()
        .prefix("making-redis-py-")
        .tempdir_in(repo.cache())?;
    let target = making.path().join("packages");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--target"])
        .arg(&target)
        .arg(format!("redis=={REDIS_PY}"));
    step(repo, "pip install redis", &mut pip)?;
    put_in_place(&target, &home)?;
    Ok(home)
}
