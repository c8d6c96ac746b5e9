//! The files that differ from a commit, as git lists them.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::run::ask;

/// The branches with which a working tree is compared if no base is named.
const MAIN: [&str; 2] = ["main", "origin/main"];

/// A commit, and the files that differ from it.
#[derive(Debug)]
pub(super) struct Changes {
    /// The base in words, for the first line of the run.
    pub(super) base: String,
    /// The paths from the root of the checkout, in order. A file that is gone is one of them.
    pub(super) files: Vec<String>,
}

/// Returns the files that are committed since `base`, not committed, or not tracked.
///
/// Without a base, it is the last commit that this branch has in common with main. On main that is the last
/// commit.
///
/// # Errors
/// If git does not know the base, or if there is no branch main and no base is named.
pub(super) fn since(repo: &Repo, base: Option<&str>) -> Result<Changes> {
    let (commit, name) = match base {
        Some(base) => (named(repo, base)?, base.to_owned()),
        None => common(repo)?,
    };
    let mut files = BTreeSet::new();
    let differing = ["diff", "--name-only", "--no-renames", "-z", &commit];
    let untracked = ["ls-files", "--others", "--exclude-standard", "-z"];
    for arguments in [&differing[..], &untracked[..]] {
        let listed = ask(git(repo).args(arguments))
            .with_context(|| format!("git {} failed", arguments.join(" ")))?;
        let paths = listed.split('\0').filter(|path| !path.is_empty());
        files.extend(paths.map(str::to_owned));
    }
    Ok(Changes {
        base: format!("{} ({name})", &commit[..commit.len().min(12)]),
        files: files.into_iter().collect(),
    })
}

fn git(repo: &Repo) -> Command {
    let mut git = Command::new("git");
    git.current_dir(repo.path(""));
    git
}

fn named(repo: &Repo, base: &str) -> Result<String> {
    let commit = format!("{base}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
    ask(git(repo).args(arguments).arg(commit)).with_context(|| {
        format!("git knows no commit `{base}`: name a branch, a tag or a commit after --changed=")
    })
}

fn common(repo: &Repo) -> Result<(String, String)> {
    if ask(git(repo).args(["rev-parse", "--git-dir"])).is_none() {
        bail!("--changed compares with a commit, and this folder is no git checkout");
    }
    for branch in MAIN {
        if let Some(commit) = ask(git(repo).args(["merge-base", "HEAD", branch])) {
            return Ok((commit, branch.to_owned()));
        }
    }
    bail!("there is no branch main to compare with: name a commit, as in --changed=HEAD~1")
}
