//! The downloads of other JavaScript counters: the npm packages that bench/js pins.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::entries::Load;
use crate::repo::Repo;
use crate::run::{ask, say};
use crate::setup;

/// The output of bench/js/download.mjs for each package.
#[derive(Deserialize)]
struct Bundle {
    name: String,
    files: Vec<PathBuf>,
}

pub(super) fn weigh(repo: &Repo) -> Result<Vec<Load>> {
    setup::npm_install(repo, "bench/js")?;
    say("bundling what else counts in JavaScript, and compressing it");
    let mut bundle = Command::new("node");
    bundle
        .arg(repo.path("bench/js/download.mjs"))
        .arg(repo.target().join("size"));
    let told = ask(&mut bundle).context("bench/js/download.mjs failed")?;
    let bundles: Vec<Bundle> = serde_json::from_str(&told)
        .context("bench/js/download.mjs printed something else than its bundles")?;
    let loads = bundles.iter().map(|Bundle { name, files }| {
        let mut load = Load::of(name.as_str(), files)?;
        // The bundler generates their names.
        load.files = files
            .iter()
            .filter_map(|file| file.extension())
            .map(|extension| extension.to_string_lossy().into_owned())
            .collect();
        Ok(load)
    });
    loads.collect()
}
