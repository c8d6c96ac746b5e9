//! The program whose instructions are counted, with the core of this checkout or of another revision.
//!
//! It is built as a package of its own, because the other benchmarks have large peers that take minutes. Both
//! programs are built alike, so their counts differ by the core alone.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::run::shown;

const SOURCE: &str = "bench/src/bin/core_counts.rs";
/// The option that names another revision.
const BASE: &str = "--base";

/// Builds the programs that the arguments of the benchmark ask for, and returns the arguments that name them.
pub(crate) fn arguments(repo: &Repo, args: &[OsString]) -> Result<Vec<OsString>> {
    let has = |part: &str| args.iter().any(|it| it.to_string_lossy().contains(part));
    if has("--only") && !has("counts") || has("--help") {
        return Ok(Vec::new());
    }
    let now = build(repo, "now", &repo.path(""), &repo.path(SOURCE))?;
    let mut more = vec!["--counts".into(), now.into()];
    if let Some(base) = base(args)? {
        let folder = checkout(repo, &base)?;
        // The interface may have changed since, so a revision that has this program brings its own.
        let own = folder.join(SOURCE);
        let source = if own.exists() { own } else { repo.path(SOURCE) };
        let built = build(repo, "base", &folder, &source);
        let built = built.with_context(|| format!("the program does not build with {base}"))?;
        more.extend(["--counts-base".into(), built.into()]);
    }
    Ok(more)
}

/// The revision that the arguments name.
fn base(args: &[OsString]) -> Result<Option<String>> {
    let args: Vec<_> = args.iter().map(|it| it.to_string_lossy()).collect();
    let Some(at) = args.iter().position(|it| it.starts_with(BASE)) else {
        return Ok(None);
    };
    let rev = match args[at].strip_prefix("--base=") {
        Some(rev) => rev,
        None => args.get(at + 1).context("--base needs a revision")?,
    };
    match rev.starts_with('-') {
        true => bail!("`{rev}` is no revision"),
        false => Ok(Some(rev.to_owned())),
    }
}

/// The files of a revision, in a folder below the build outputs.
fn checkout(repo: &Repo, rev: &str) -> Result<PathBuf> {
    let folder = repo.target().join("counts/checkout");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let archive = folder.with_extension("tar");
    let mut git = Command::new("git");
    git.current_dir(repo.path("")).args(["archive", "-o"]);
    shown(git.arg(&archive).arg(rev))?;
    let mut tar = Command::new("tar");
    shown(tar.arg("-xf").arg(&archive).arg("-C").arg(&folder))?;
    fs::remove_file(&archive)?;
    Ok(folder)
}

/// Builds the program with the core of a checkout, by the profile and the lock file of that checkout.
fn build(repo: &Repo, name: &str, checkout: &Path, source: &Path) -> Result<PathBuf> {
    let folder = repo.target().join("counts").join(name);
    fs::create_dir_all(&folder)?;
    let manifest: toml::Table = crate::repo::read(&checkout.join("Cargo.toml"))?.parse()?;
    let release = manifest["profile"]["release"].as_table();
    let release = release.context("Cargo.toml has no release profile")?;
    let text = toml::to_string(&package(checkout, source, release))?;
    fs::write(folder.join("Cargo.toml"), text)?;
    fs::copy(checkout.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut cargo = repo.cargo();
    cargo.args(["build", "--release", "--manifest-path"]);
    cargo.arg(folder.join("Cargo.toml"));
    shown(cargo.arg("--target-dir").arg(folder.join("target")))?;
    Ok(folder.join("target/release/core_counts"))
}

/// The manifest of the program, which is no member of a workspace.
fn package(checkout: &Path, source: &Path, release: &toml::Table) -> toml::Table {
    // Cargo warns of profiles of packages that the program does not have.
    let mut release = release.clone();
    if let Some(packages) = release.get_mut("package").and_then(|it| it.as_table_mut()) {
        packages.retain(|name, _| name == "tallymesh-core");
    }
    let path = |path: PathBuf| toml::Value::String(path.display().to_string());
    let mut manifest = toml::toml! {
        [package]
        name = "core-counts"
        version = "0.0.0"
        edition = "2024"

        [[bin]]
        name = "core_counts"
        path = ""

        [dependencies.tallymesh-core]
        features = ["members"]
        default-features = false
        path = ""

        [profile.release]

        [workspace]
    };
    manifest["bin"][0]["path"] = path(source.to_path_buf());
    manifest["dependencies"]["tallymesh-core"]["path"] = path(checkout.join("core"));
    manifest["profile"]["release"] = release.into();
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_revision_is_read_from_the_arguments() {
        let of = |args: &[&str]| base(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of(&["core", "--quick"]).unwrap(), None);
        assert_eq!(
            of(&["core", "--base", "main"]).unwrap(),
            Some("main".into())
        );
        assert_eq!(of(&["core", "--base=main"]).unwrap(), Some("main".into()));
        assert!(of(&["core", "--base"]).is_err());
        assert!(of(&["core", "--base", "-o"]).is_err());
    }

    #[test]
    fn the_program_is_built_by_the_profile_of_its_checkout() {
        let release = toml::toml! {
            overflow-checks = true
            [package.tallymesh-core]
            codegen-units = 1
            [package.walrus]
            opt-level = 0
        };
        let manifest = package(Path::new("/there"), Path::new("/it.rs"), &release);
        let profile = &manifest["profile"]["release"];
        assert_eq!(profile["overflow-checks"].as_bool(), Some(true));
        assert!(profile["package"].get("walrus").is_none());
        assert!(profile["package"].get("tallymesh-core").is_some());
        assert_eq!(manifest["bin"][0]["path"].as_str(), Some("/it.rs"));
        let core = &manifest["dependencies"]["tallymesh-core"];
        assert_eq!(core["path"].as_str(), Some("/there/core"));
    }
}
