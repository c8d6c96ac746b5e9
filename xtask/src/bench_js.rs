//! `cargo xtask bench -- js`: compares the package in Node with other JavaScript counters, and measures a tab
//! with many counters in Chromium.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::pack;
use crate::repo::{self, Repo};
use crate::run::shown;
use crate::setup;

/// Measures the npm package.
#[derive(Parser)]
#[command(name = "cargo xtask bench -- js", no_binary_name = true)]
struct Args {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Fewer rounds of less work
    #[arg(long)]
    quick: bool,
    /// Put each part that was measured into its place in this file, such as docs/reports/javascript.md
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Adds, loads and merges in Node, beside a Map, Yjs, Loro and Automerge
    Speed,
    /// A tab with 100,000 counters in Chromium, with a real node
    Page,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Speed => "speed",
            Part::Page => "page",
        }
    }
}

/// Runs the parts that `args` name. If they name none, runs all parts.
pub(crate) fn command(repo: &Repo, args: &[OsString]) -> Result<()> {
    let args = Args::try_parse_from(args).unwrap_or_else(|error| error.exit());
    pack::build(repo)?;
    setup::npm_install(repo, "bench/js")?;
    for part in [Part::Speed, Part::Page] {
        if args.only.is_empty() || args.only.contains(&part) {
            measure(repo, part, &args)?;
        }
    }
    Ok(())
}

fn measure(repo: &Repo, part: Part, args: &Args) -> Result<()> {
    let name = part.name();
    let printed = tempfile::NamedTempFile::new()?;
    let mut node = Command::new("node");
    if part == Part::Page {
        setup::npm_install(repo, "tests/e2e")?;
        let mut build = repo.cargo();
        shown(build.args([
            "build",
            "--release",
            "--package",
            "tallymesh-node",
            "--bins",
        ]))?;
        node.env("CHROME", setup::browser(repo)?.chrome)
            .env("TALLYMESH_BIN", repo.node_binary());
    }
    node.arg("--expose-gc")
        .arg(repo.path(format!("bench/js/{name}.mjs")))
        .arg("--out")
        .arg(printed.path());
    let mut said = format!("cargo xtask bench -- js --only {name}");
    if args.quick {
        node.arg("--quick");
        said += " --quick";
    }
    let made_by = tallymesh_reports::made_by(&said, true);
    shown(&mut node)?;
    if let Some(report) = &args.report {
        let text = repo::read(printed.path())?;
        tallymesh_reports::put(report, name, &format!("{made_by}\n\n{}", text.trim()))?;
    }
    Ok(())
}
