//! The copy of core and its tests, in which mutants are planted.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::{self, Repo};
use crate::stamp::files_under;

/// The code that turns a mutant on, and that reports the mutants that a test reaches.
const SWITCH: &str = include_str!("switch.rs.txt");

const LIB: &str = "core/src/lib.rs";

/// The copy.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) root: PathBuf,
    target: PathBuf,
}

/// An error of the compiler: the file, the bytes in it, and the message.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) file: String,
    pub(super) at: Range<usize>,
    pub(super) text: String,
}

impl Scratch {
    /// Copies the files that the tests of core need, with a workspace of these two packages around them. It
    /// leaves out the files in `but`, which other code writes.
    pub(super) fn make(repo: &Repo, name: &str, but: &[&String]) -> Result<Scratch> {
        let home = repo.target().join("mutants");
        let scratch = Scratch {
            root: home.join(name),
            target: home.join("build"),
        };
        for folder in ["core", "tests", "docs", ".cargo"] {
            for file in files_under(
                &repo.path(folder),
                &["target", "fuzz", "node_modules", "e2e"],
            )? {
                let inside = file.strip_prefix(repo.path(""))?;
                if but.iter().any(|name| inside == Path::new(name)) || inside.ends_with(LIB) {
                    continue;
                }
                scratch.put(inside, &fs::read(&file)?)?;
            }
        }
        let mut manifest: toml::Table = repo::read(&repo.path("Cargo.toml"))?.parse()?;
        let workspace = manifest["workspace"]
            .as_table_mut()
            .context("no workspace")?;
        workspace.insert("members".into(), vec!["core", "tests"].into());
        workspace.remove("default-members");
        scratch.put("Cargo.toml", toml::to_string(&manifest)?.as_bytes())?;
        scratch.put("Cargo.lock", &fs::read(repo.path("Cargo.lock"))?)?;
        // The copy may use std, so that more replacement values compile.
        let lib = repo::read(&repo.path(LIB))?;
        let lib = lib.replacen("#![no_std]", "#![allow(warnings)]", 1) + "\npub mod mutant;\n";
        scratch.put(LIB, lib.as_bytes())?;
        scratch.put("core/src/mutant.rs", SWITCH.as_bytes())?;
        Ok(scratch)
    }

    /// Writes a file, unless it has this content already, because cargo compares modification times.
    pub(super) fn put(&self, inside: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(inside);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    /// A cargo command on the copy.
    pub(super) fn cargo(&self, repo: &Repo, verb: &str) -> Command {
        let mut command = repo.cargo();
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .args([verb, "--release"]);
        command
    }

    /// The errors of the compiler in core. Empty if it compiles.
    pub(super) fn check(&self, repo: &Repo) -> Result<Vec<Fault>> {
        let mut command = self.cargo(repo, "check");
        command.args(["--package", "tallymesh-core", "--lib"]);
        command.args(["--features", "explore,json,members"]);
        let output = command.args(["--message-format", "json"]).output()?;
        let lines = String::from_utf8_lossy(&output.stdout);
        let faults: Vec<Fault> = lines.lines().filter_map(fault).collect();
        if faults.is_empty() && !output.status.success() {
            bail!("cargo check: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(faults)
    }
}

fn fault(line: &str) -> Option<Fault> {
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    let message = json.get("message")?;
    if message["level"] != "error" {
        return None;
    }
    let spans = message["spans"].as_array()?;
    let span = spans.iter().find(|span| span["is_primary"] == true)?;
    let byte = |name: &str| Some(span[name].as_u64()? as usize);
    Some(Fault {
        file: span["file_name"].as_str()?.to_owned(),
        at: byte("byte_start")?..byte("byte_end")?,
        text: message["message"].as_str()?.to_owned(),
    })
}
