//! The packages of the workspace, and which others each may depend on. Arrows run in one direction, so a package
//! can be read and compiled without those that come later in the table, and no face of the node knows another one.
//! They are those of `cargo metadata`, however a manifest writes them. Dependencies of tests alone are free.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repo::Repo;

/// Each package by its folder, with those that it may depend on, from below to above.
const PACKAGES: [(&str, &[&str]); 18] = [
    ("core", &[]),
    ("wasm", &["core"]),
    ("web-demo/members", &["core"]),
    ("node/ground", &["core"]),
    ("node/store", &["core", "node/ground"]),
    ("node/engine", &["core", "node/ground", "node/store"]),
    (
        "node/config",
        &["core", "node/engine", "node/ground", "node/store"],
    ),
    // The faces: none of them names another one.
    (
        "node/gossip",
        &["core", "node/engine", "node/ground", "node/store"],
    ),
    (
        "node/http",
        &["core", "node/engine", "node/ground", "node/store"],
    ),
    ("node/resp", &["core", "node/engine", "node/ground"]),
    // It asks running nodes over HTTP, and the program hands it a whole node. So it names no face.
    (
        "node/cli",
        &[
            "core",
            "node/config",
            "node/engine",
            "node/ground",
            "node/store",
        ],
    ),
    // What starts all of them.
    (
        "node/server",
        &[
            "core",
            "node/config",
            "node/engine",
            "node/gossip",
            "node/ground",
            "node/http",
            "node/resp",
            "node/store",
        ],
    ),
    (
        "node",
        &[
            "node/cli",
            "node/config",
            "node/engine",
            "node/gossip",
            "node/ground",
            "node/http",
            "node/resp",
            "node/server",
            "node/store",
        ],
    ),
    ("tests", &["core"]),
    // It compiles the files of core's state in place.
    ("tests/state-alone", &[]),
    ("xtask/reports", &[]),
    ("bench", &["core", "node", "xtask/reports"]),
    ("xtask", &["xtask/reports"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<String>,
    kind: Option<String>,
}

/// The dependencies of the checkout that a package may not have.
///
/// # Errors
/// If cargo cannot read a manifest.
pub(super) fn broken(repo: &Repo) -> Result<Vec<String>> {
    broken_in(&repo.metadata()?, &repo.path(""))
}

fn broken_in(metadata: &str, root: &Path) -> Result<Vec<String>> {
    let metadata: Metadata = serde_json::from_str(metadata).context("cargo metadata")?;
    let inside = |path: &str| {
        let path = Path::new(path);
        let path = path.strip_prefix(root).unwrap_or(path);
        path.to_string_lossy().into_owned()
    };
    let mut broken = Vec::new();
    for package in metadata.packages {
        let from = inside(package.manifest_path.trim_end_matches("/Cargo.toml"));
        let Some((_, allowed)) = PACKAGES.iter().find(|it| it.0 == from) else {
            broken.push(format!(
                "{from}/Cargo.toml: `{from}` has no row in the table of packages (xtask/src/tidy/packages.rs)"
            ));
            continue;
        };
        let shipped = package.dependencies.iter();
        let shipped = shipped.filter(|it| it.kind.as_deref() != Some("dev"));
        for to in shipped.filter_map(|it| it.path.as_deref()).map(inside) {
            if !allowed.contains(&to.as_str()) {
                broken.push(format!(
                    "{from}/Cargo.toml: `{from}` may not depend on `{to}` (xtask/src/tidy/packages.rs)"
                ));
            }
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_dependency_upward_or_between_faces_is_found() {
        let found = |from: &str, to: &str, kind: &str| {
            let text = format!(
                r#"{{"packages": [{{"manifest_path": "/r/{from}/Cargo.toml", "dependencies":
                    [{{"path": "/r/{to}", "kind": {kind}}}, {{"path": null, "kind": null}}]}}]}}"#
            );
            broken_in(&text, Path::new("/r")).unwrap().len()
        };
        assert_eq!(found("node/engine", "node/ground", "null"), 0);
        assert_eq!(found("node/engine", "node/http", "null"), 1);
        assert_eq!(found("node/engine", "node/http", "\"build\""), 1);
        assert_eq!(found("node/engine", "node/http", "\"dev\""), 0);
        assert_eq!(found("node/resp", "node/http", "null"), 1);
        assert_eq!(found("node/server", "node/http", "null"), 0);
        assert_eq!(found("node/cli", "node/server", "null"), 1);
        assert_eq!(found("wasm", "node", "null"), 1);
        // A package in between, inside and outside of the node's folder.
        assert_eq!(found("node/resp", "bridge", "null"), 1);
        assert_eq!(found("bridge", "node/http", "null"), 1);
    }

    /// Each way to write a dependency that a reader of lines would miss.
    #[test]
    fn a_dependency_is_found_however_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let named = |name: &str| format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"node/http\", \"node/resp\"]\n\
             [workspace.dependencies]\ntallymesh-node-http = { path = \"node/http\" }\n",
        );
        write("node/http/Cargo.toml", &named("tallymesh-node-http"));
        write("node/http/src/lib.rs", "");
        write("node/resp/src/lib.rs", "");
        for dependency in [
            "[dev-dependencies]\n[dependencies]\ntallymesh-node-http.workspace = true\n",
            "[dependencies.tallymesh-node-http]\nworkspace = true\n",
            "[dependencies]\nx = { package = \"tallymesh-node-http\", path = \"../http\" }\n",
            "[dependencies]\n\"tallymesh-node-http\" = { workspace = true }\n",
            "[target.'cfg(unix)'.dependencies]\ntallymesh-node-http = { workspace = true, optional = true }\n",
        ] {
            write(
                "node/resp/Cargo.toml",
                &format!("{}{dependency}", named("tallymesh-node-resp")),
            );
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "metadata",
                "--no-deps",
                "--offline",
                "--format-version",
                "1",
            ]);
            let metadata = cargo.current_dir(root.path()).output().unwrap();
            let text = String::from_utf8(metadata.stdout).unwrap();
            let broken = broken_in(&text, &root.path().canonicalize().unwrap()).unwrap();
            assert_eq!(
                broken,
                [
                    "node/resp/Cargo.toml: `node/resp` may not depend on `node/http` (xtask/src/tidy/packages.rs)"
                ],
                "{dependency}"
            );
        }
    }

    /// A reader who starts at the top of the table has read everything that a later row names.
    #[test]
    fn each_row_names_those_before_it() {
        for (at, (_, allowed)) in PACKAGES.iter().enumerate() {
            let is_before = |to: &&str| PACKAGES[..at].iter().any(|it| it.0 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
    }
}
