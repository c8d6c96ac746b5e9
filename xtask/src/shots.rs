//! `cargo xtask shots`: pictures of the page, and measurements of its speed.

use std::process::Command;

use anyhow::Result;

use crate::repo::Repo;
use crate::run::{say, shown};
use crate::{demo, setup, site};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure how quick the page is instead, and print it as JSON
    #[arg(long)]
    figures: bool,
}

pub(crate) fn command(repo: &Repo, args: &Args) -> Result<()> {
    let site = site::build(repo)?;
    // The console needs a node.
    demo::build(repo)?;
    let browser = setup::browser(repo)?;
    setup::npm_install(repo, "tests/e2e")?;
    let mut command = Command::new("node");
    command
        .env("CHROME", &browser.chrome)
        .env("TALLYMESH_BIN", repo.node_binary());
    if args.figures {
        return shown(command.arg(repo.path("xtask/js/figures.mjs")).arg(&site));
    }
    let pictures = repo.target().join("shots");
    shown(
        command
            .arg(repo.path("xtask/js/shots.mjs"))
            .arg(&site)
            .arg(&pictures),
    )?;
    say(&format!("the pictures are in {}", pictures.display()));
    Ok(())
}
