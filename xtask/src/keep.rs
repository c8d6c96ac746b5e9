//! `cargo xtask keep`: stores the node and the npm package of this state as files. Tests check that later
//! versions still work with them.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::demo;
use crate::pack;
use crate::repo::Repo;
use crate::run::{say, step};

/// The platform of the stored node.
const TARGET: &str = "x86_64-linux";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder below tests/kept, by the version of the wire format
    #[arg(value_name = "NAME")]
    name: String,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("a node is kept for {TARGET} only, and this machine is none");
    }
    let folder = repo.path("tests/kept").join(&args.name);
    if folder.exists() {
        bail!(
            "{} is there: what is kept does not change; take another name",
            folder.display()
        );
    }
    let tarball = pack::build(repo)?;
    demo::build(repo)?;
    fs::create_dir_all(&folder)?;
    let stripped = repo.target().join("tallymesh-stripped");
    step(
        repo,
        "strip",
        Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(repo.node_binary()),
    )?;
    let packed = folder.join(format!("tallymesh-{TARGET}.gz"));
    let status = Command::new("gzip")
        .args(["-9nc"])
        .arg(&stripped)
        .stdout(Stdio::from(File::create(&packed)?))
        .status()
        .context("gzip does not start")?;
    if !status.success() {
        bail!("gzip failed: {status}");
    }
    let name = tarball.file.file_name().context("the tarball has a name")?;
    fs::copy(&tarball.file, folder.join(name))?;
    say(&format!("kept {}", folder.display()));
    Ok(())
}
