//! Installs what the other commands need on this machine, if it is missing.

mod apt;
mod browser;
mod npm;
mod postgres;
mod redis;
mod tools;
mod wasm_target;
mod wrk;

pub(crate) use browser::{Browser, browser, firefox};
pub(crate) use npm::install as npm_install;
pub(crate) use postgres::postgres;
pub(crate) use redis::{openssl, redis_py, redis_server, redis_tools};
pub(crate) use tools::{cargo_deny, cargo_mutants};
pub(crate) use wasm_target::{SMALL_STD, WasmTarget, module_build, wasm_target};
pub(crate) use wrk::wrk;

use anyhow::Result;

use crate::repo::Repo;
use crate::run::say;

/// The folders with a package.json and a lock file.
const NPM_FOLDERS: [&str; 8] = [
    "wasm",
    "wasm/reference",
    "bench/js",
    "web-demo",
    "tests/e2e",
    "tests/clients",
    "tests/runtimes",
    "tests/runtimes/nodes",
];

/// Installs everything, so that the other commands find nothing left to install.
pub(crate) fn all(repo: &Repo) -> Result<()> {
    tests(repo)?;
    cargo_deny(repo)?;
    say("everything is in place");
    Ok(())
}

/// Installs what the staged test run needs beyond its checks.
pub(crate) fn tests(repo: &Repo) -> Result<()> {
    wasm_target(repo)?;
    module_build(repo, "wasm-module", SMALL_STD)?;
    for folder in NPM_FOLDERS {
        if repo.path(folder).join("package-lock.json").exists() {
            npm_install(repo, folder)?;
        }
    }
    browser(repo)?;
    firefox(repo);
    redis_tools(repo)?;
    redis_py(repo)?;
    Ok(())
}

/// The first program of these names on the PATH.
fn on_path(names: &[&str]) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}
