//! System packages, on machines with apt.

use std::process::Command;

use anyhow::{Result, bail};

use super::on_path;
use crate::repo::Repo;
use crate::run::{ask, say, step};

/// Installs Debian packages, as root or through sudo.
///
/// # Errors
/// If there is no apt, no right to use it, or it fails. The text lists the packages to install by hand.
pub(super) fn install(repo: &Repo, what: &str, packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if on_path(&["apt-get"]).is_none() {
        bail!(
            "{what} is missing and there is no apt-get to install it; install it and run this again"
        );
    }
    let root = ask(Command::new("id").arg("-u")).as_deref() == Some("0");
    if !root && ask(Command::new("sudo").args(["-n", "true"])).is_none() {
        bail!("{what} is missing; install it with: sudo apt-get install {list}");
    }
    say(&format!("installing {what} with apt-get ({list})"));
    let apt = |arguments: &[&str]| {
        let mut command = if root {
            Command::new("apt-get")
        } else {
            let mut sudo = Command::new("sudo");
            sudo.args(["-n", "apt-get"]);
            sudo
        };
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("RUNLEVEL", "1") // services that come along are not started
            .args(arguments);
        command
    };
    // A stale list is no reason to stop, because it may have the packages already.
    if let Err(error) = step(repo, "apt-get update", &mut apt(&["update"])) {
        say(&format!(
            "apt-get update did not succeed, going on: {error:#}"
        ));
    }
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    step(repo, "apt-get install", &mut apt(&arguments))
}
