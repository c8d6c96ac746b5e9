//! `cargo xtask size`: what a page downloads to count and to sync over WebSocket.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::pack;
use crate::repo::{self, Repo};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What is loaded once a replica meets a space with members or is asked for a token, and not counted.
const ON_DEMAND: [&str; 2] = ["members.js", "tallymesh-members.wasm"];

/// xtask/size.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    brotli_bytes_max: usize,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Weight {
    raw: usize,
    gzip: usize,
    brotli: usize,
}

#[derive(Serialize)]
struct Report {
    files: Vec<(String, Weight)>,
    total: Weight,
    /// What a page downloads on top once it meets a space with members, or is asked for a token.
    on_demand: Vec<(String, Weight)>,
    brotli_bytes_max: usize,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    let report = weigh(repo)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    if report.total.brotli > report.brotli_bytes_max {
        bail!(
            "the download is {} bytes with brotli, {} over the limit of {} in xtask/size.toml",
            report.total.brotli,
            report.total.brotli - report.brotli_bytes_max,
            report.brotli_bytes_max
        );
    }
    Ok(())
}

fn weigh(repo: &Repo) -> Result<Report> {
    pack::build(repo)?;
    let limit: Limit =
        toml::from_str(&repo::read(&repo.path("xtask/size.toml"))?).context("xtask/size.toml")?;
    let dist = repo.path("wasm/dist");
    let mut report = Report {
        files: Vec::new(),
        total: Weight::default(),
        on_demand: Vec::new(),
        brotli_bytes_max: limit.brotli_bytes_max,
    };
    let named = |file: &Path| -> Result<(String, Weight)> {
        let name = file.strip_prefix(&dist).unwrap_or(file);
        Ok((
            name.to_string_lossy().into_owned(),
            weight_of(&fs::read(file)?)?,
        ))
    };
    for file in downloads(repo, &dist)? {
        let (name, weight) = named(&file)?;
        if ON_DEMAND.contains(&name.as_str()) {
            continue;
        }
        report.total.raw += weight.raw;
        report.total.gzip += weight.gzip;
        report.total.brotli += weight.brotli;
        report.files.push((name, weight));
    }
    for name in ON_DEMAND {
        report.on_demand.push(named(&dist.join(name))?);
    }
    Ok(report)
}

/// The browser entry of the package with what it imports, and the module.
fn downloads(repo: &Repo, dist: &Path) -> Result<BTreeSet<PathBuf>> {
    let package: serde_json::Value =
        serde_json::from_str(&repo::read(&repo.path("wasm/package.json"))?)?;
    let entry = package["exports"]["."]["default"]
        .as_str()
        .context("wasm/package.json names no default entry in exports[\".\"]")?;
    let mut found = BTreeSet::from([dist.join("tallymesh.wasm")]);
    let mut open = vec![repo.path("wasm").join(entry)];
    while let Some(file) = open.pop() {
        let file =
            fs::canonicalize(&file).with_context(|| format!("cannot find {}", file.display()))?;
        if found.insert(file.clone()) {
            let folder = file.parent().unwrap_or(dist).to_path_buf();
            open.extend(relative_imports(&repo::read(&file)?).map(|name| folder.join(name)));
        }
    }
    Ok(found)
}

/// The relative modules that a script names in `from "./x"`, `import "./x"` or `import("./x")`.
fn relative_imports(script: &str) -> impl Iterator<Item = &str> {
    script
        .split(['"', '\''])
        .zip(script.split(['"', '\'']).skip(1))
        .filter(|(before, name)| {
            let before = before.trim_end().trim_end_matches('(').trim_end();
            name.starts_with('.') && (before.ends_with("from") || before.ends_with("import"))
        })
        .map(|(_, name)| name)
}

fn weight_of(bytes: &[u8]) -> Result<Weight> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    let mut brotli = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: 11,
        lgwin: 22,
        ..Default::default()
    };
    brotli::BrotliCompress(&mut &bytes[..], &mut brotli, &parameters)?;
    Ok(Weight {
        raw: bytes.len(),
        gzip: gzip.finish()?.len(),
        brotli: brotli.len(),
    })
}

fn print(report: &Report) {
    println!("{:<24} {:>9} {:>9} {:>9}", "bytes", "raw", "gzip", "brotli");
    let total = ("together".to_owned(), report.total);
    let line = |(name, weight): &(String, Weight)| {
        println!(
            "{name:<24} {:>9} {:>9} {:>9}",
            weight.raw, weight.gzip, weight.brotli
        );
    };
    report.files.iter().chain([&total]).for_each(line);
    println!("{:<24} {:>29}", "limit", report.brotli_bytes_max);
    println!("on demand, in spaces with members and for tokens:");
    report.on_demand.iter().for_each(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_modules_are_followed() {
        let script = r#"import{a}from"./a.js";import './b.js';const c=await import("./c.js");
            import d from "node:fs"; const e = "./not-imported.js";"#;
        let found: Vec<&str> = relative_imports(script).collect();
        assert_eq!(found, ["./a.js", "./b.js", "./c.js"]);
    }
}
