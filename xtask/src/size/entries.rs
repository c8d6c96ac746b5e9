//! The download of each entry of the package.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Weight, name_of, weight_of};
use crate::repo::{self, Repo};

/// Files that a replica loads only for a space with members, for a token or for a storage.
const MEMBERS: [&str; 2] = ["members.js", "tallymesh-members.wasm"];
/// The same, for the entry that contains its modules.
const INLINE_MEMBERS: &str = "inline-members.js";
const MODULE: &str = "tallymesh.wasm";

/// Something that a page loads.
#[derive(Debug, Serialize)]
pub(super) struct Load {
    pub(super) name: String,
    pub(super) files: Vec<String>,
    pub(super) weight: Weight,
}

impl Load {
    pub(super) fn of(name: impl Into<String>, files: &[PathBuf]) -> Result<Load> {
        Ok(Load {
            name: name.into(),
            files: files.iter().map(|file| name_of(file)).collect(),
            weight: weight_of(files)?,
        })
    }
}

/// The entries of the package. The limit applies to the first one.
pub(super) fn weigh(repo: &Repo) -> Result<Vec<Load>> {
    let dist = repo.path("wasm/dist");
    let package: serde_json::Value =
        serde_json::from_str(&repo::read(&repo.path("wasm/package.json"))?)?;
    let of = |name: &str, entry: &str, more: &[&str]| -> Result<Load> {
        let script = package["exports"][entry]["default"]
            .as_str()
            .with_context(|| format!("wasm/package.json has no default in exports[{entry:?}]"))?;
        let mut files = imported(&repo.path("wasm").join(script), &dist)?;
        files.extend(more.iter().map(|file| dist.join(file)));
        Load::of(name, &files)
    };
    let second = MEMBERS.map(|file| dist.join(file));
    Ok(vec![
        of("`tallymesh`", ".", &[MODULE])?,
        of("`tallymesh/slim`", "./slim", &[MODULE])?,
        of("`tallymesh/inline`", "./inline", &[])?,
        of("with `tallymesh/transports`, more", "./transports", &[])?,
        of("with `tallymesh/react`, more", "./react", &[])?,
        of("with `tallymesh/libp2p`, more", "./libp2p", &[])?,
        of("with `tallymesh/storage`, more", "./storage", &[])?,
        of("`tallymesh/budgets`, alone", "./budgets", &[])?,
        of("`tallymesh/limits`, alone", "./limits", &[])?,
        of("`tallymesh/sequences`, alone", "./sequences", &[])?,
        Load::of(
            "the second module: members, tokens, storages; more",
            &second,
        )?,
    ])
}

/// A script of the package with all scripts that it loads at once.
fn imported(entry: &Path, dist: &Path) -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![entry.to_path_buf()];
    while let Some(file) = open.pop() {
        let file =
            fs::canonicalize(&file).with_context(|| format!("cannot find {}", file.display()))?;
        let name = name_of(&file);
        let later = name == INLINE_MEMBERS || MEMBERS.contains(&name.as_str());
        if !later && found.insert(file.clone()) {
            let folder = file.parent().unwrap_or(dist).to_path_buf();
            open.extend(relative_imports(&repo::read(&file)?).map(|name| folder.join(name)));
        }
    }
    Ok(found.into_iter().collect())
}

/// The relative modules that a script names in `from "./x"`, `import "./x"` or `import("./x")`.
fn relative_imports(script: &str) -> impl Iterator<Item = &str> {
    script
        .split(['"', '\''])
        .zip(script.split(['"', '\'']).skip(1))
        .filter(|(before, name)| {
            let before = before.trim_end().trim_end_matches('(').trim_end();
            name.starts_with('.') && (before.ends_with("from") || before.ends_with("import"))
        })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_modules_are_followed() {
        let script = r#"import{a}from"./a.js";import './b.js';const c=await import("./c.js");
            import d from "node:fs"; const e = "./not-imported.js";"#;
        let found: Vec<&str> = relative_imports(script).collect();
        assert_eq!(found, ["./a.js", "./b.js", "./c.js"]);
    }
}
