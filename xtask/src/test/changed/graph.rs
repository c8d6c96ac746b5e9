//! The packages of the workspace, and which of them depends on which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repo::Repo;

/// Files that a package compiles although they lie in the folder of another one: the package, and the folder.
const IN_PLACE: [(&str, &str); 1] = [("tallymesh-state-alone", "core")];

/// The packages by name. Each has its folder from the root, and the folders that it is compiled from.
#[derive(Debug, Default)]
pub(super) struct Graph {
    packages: BTreeMap<String, Package>,
}

#[derive(Debug)]
struct Package {
    folder: String,
    needs: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<String>,
    #[serde(default)]
    optional: bool,
}

impl Graph {
    /// Reads the graph from `cargo metadata`.
    ///
    /// # Errors
    /// If cargo cannot read a manifest.
    pub(super) fn read(repo: &Repo) -> Result<Graph> {
        Graph::parse(&repo.metadata()?, &repo.path(""))
    }

    fn parse(text: &str, root: &Path) -> Result<Graph> {
        let metadata: Metadata = serde_json::from_str(text).context("cargo metadata")?;
        let inside = |path: &str| {
            let path = Path::new(path);
            let path = path.strip_prefix(root).unwrap_or(path);
            path.to_string_lossy().into_owned()
        };
        let mut graph = Graph::default();
        for package in metadata.packages {
            let folder = inside(package.manifest_path.trim_end_matches("/Cargo.toml"));
            // A check with default features does not compile what is optional.
            let needed = package.dependencies.iter().filter(|it| !it.optional);
            let paths = needed.filter_map(|it| it.path.as_ref());
            let mut needs: Vec<String> = paths.map(|path| inside(path)).collect();
            let in_place = IN_PLACE.iter().filter(|(name, _)| *name == package.name);
            needs.extend(in_place.map(|(_, folder)| (*folder).to_owned()));
            graph
                .packages
                .insert(package.name, Package { folder, needs });
        }
        Ok(graph)
    }

    /// The package whose folder has this file. Of folders inside each other, the inner one counts.
    pub(super) fn package_of(&self, file: &str) -> Option<&str> {
        let holds = |package: &&Package| Path::new(file).starts_with(&package.folder);
        let inner = self
            .packages
            .iter()
            .filter(|(_, package)| holds(package))
            .max_by_key(|(_, package)| package.folder.len());
        inner.map(|(name, _)| name.as_str())
    }

    /// The names of all packages.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(String::as_str)
    }

    /// All packages that are compiled anew if these are, without these themselves.
    pub(super) fn dependents<'a>(
        &'a self,
        changed: impl IntoIterator<Item = &'a str>,
    ) -> BTreeSet<&'a str> {
        let changed: BTreeSet<&str> = changed.into_iter().collect();
        let mut reached = changed.clone();
        loop {
            let folders: BTreeSet<&str> = reached
                .iter()
                .filter_map(|name| Some(self.packages.get(*name)?.folder.as_str()))
                .collect();
            let before = reached.len();
            for (name, package) in &self.packages {
                if package
                    .needs
                    .iter()
                    .any(|need| folders.contains(need.as_str()))
                {
                    reached.insert(name);
                }
            }
            if reached.len() == before {
                return &reached - &changed;
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The graph of this checkout.
    pub(in super::super) fn own() -> Graph {
        Graph::read(&Repo::find().unwrap()).unwrap()
    }

    #[test]
    fn a_file_belongs_to_the_inner_package() {
        let graph = own();
        assert_eq!(
            graph.package_of("core/src/state.rs"),
            Some("tallymesh-core")
        );
        assert_eq!(
            graph.package_of("tests/state-alone/src/lib.rs"),
            Some("tallymesh-state-alone")
        );
        assert_eq!(
            graph.package_of("tests/src/sim.rs"),
            Some("tallymesh-tests")
        );
        assert_eq!(graph.package_of("coreless/src/lib.rs"), None);
        assert_eq!(graph.package_of("README.md"), None);
    }

    #[test]
    fn what_depends_on_core_is_found_in_all_steps() {
        let graph = own();
        let dependents = graph.dependents(["tallymesh-core"]);
        for name in [
            "tallymesh-node",
            "tallymesh-tests",
            "tallymesh-bench",
            "tallymesh-wasm",
            "tallymesh-demo-members",
            "tallymesh-state-alone",
        ] {
            assert!(dependents.contains(name), "{name} of {dependents:?}");
        }
        assert!(!dependents.contains("tallymesh-core"));
        assert!(!dependents.contains("xtask"));
        // The benchmarks have the node's store in them only if asked to.
        assert_eq!(graph.dependents(["tallymesh-node"]), BTreeSet::new());
    }

    #[test]
    fn dependents_of_dependents_count_too() {
        let text = r#"{"packages": [
            {"name": "a", "manifest_path": "/r/a/Cargo.toml", "dependencies": []},
            {"name": "b", "manifest_path": "/r/b/Cargo.toml", "dependencies": [{"path": "/r/a"}]},
            {"name": "c", "manifest_path": "/r/c/Cargo.toml", "dependencies": [{"path": "/r/b"}, {}]}
        ]}"#;
        let graph = Graph::parse(text, Path::new("/r")).unwrap();
        assert_eq!(graph.dependents(["a"]), BTreeSet::from(["b", "c"]));
        assert_eq!(graph.dependents(["c"]), BTreeSet::new());
    }
}
