//! Chromium with its driver, and Firefox, for tests in real browsers.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{apt, on_path};
use crate::repo::Repo;
use crate::run::say;

/// Chromium and chromedriver on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Browser {
    /// The browser's executable.
    pub(crate) chrome: PathBuf,
    /// The WebDriver server of this browser.
    pub(crate) driver: PathBuf,
}

/// Finds Chromium and chromedriver, or installs them.
///
/// `CHROME` and `CHROMEDRIVER` name them. Without these variables, the PATH is searched.
pub(crate) fn browser(repo: &Repo) -> Result<Browser> {
    if let Some(found) = find() {
        return Ok(found);
    }
    apt::install(
        repo,
        "Chromium with its driver",
        &["chromium", "chromium-driver"],
    )?;
    find().context(
        "no Chromium after its installation: set CHROME and CHROMEDRIVER to the two programs",
    )
}

/// Finds Firefox, or installs it. Returns `None` if it is not available, because its test can be skipped.
///
/// `FIREFOX` names it. Without the variable, the PATH is searched.
pub(crate) fn firefox(repo: &Repo) -> Option<PathBuf> {
    let find = || named("FIREFOX").or_else(|| on_path(&["firefox-esr", "firefox"]));
    find().or_else(|| {
        if let Err(error) = apt::install(repo, "Firefox", &["firefox-esr"]) {
            say(&format!("going on without Firefox: {error:#}"));
        }
        find()
    })
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from)
}

fn find() -> Option<Browser> {
    let chrome = named("CHROME").or_else(|| {
        on_path(&[
            "chromium",
            "chromium-browser",
            "google-chrome",
            "google-chrome-stable",
        ])
    })?;
    let driver = named("CHROMEDRIVER").or_else(|| on_path(&["chromedriver"]))?;
    Some(Browser { chrome, driver })
}
