//! The folders of `core/src`, and which others each may name. Arrows run in one direction. So a reader can
//! read a folder without those that come later in the table.

use std::path::Path;

/// Errors, bounds, ids and hashes: every folder may name these, and all of them but [`LAYERS`] name no
/// folder.
const GROUND: [&str; 9] = [
    "error",
    "hash",
    "layers",
    "bounds",
    "list",
    "once",
    "reserved",
    "sort",
    "writer_id",
];

/// The one file of the ground that names layers: it chooses them for a build.
const LAYERS: &str = "layers";

/// Each folder with the folders that it may name beside the ground, from below to above.
const ARROWS: [(&str, &[&str]); 13] = [
    ("state", &[]),
    ("message", &["state"]),
    ("forks", &["message", "state"]),
    ("membership", &["message", "state"]),
    ("ledger", &["message", "state"]),
    ("wire", &["forks", "ledger", "message", "state"]),
    ("rejoin", &["membership", "message", "state"]),
    ("idempotency", &["membership", "message", "state", "wire"]),
    (
        "consistency",
        &["membership", "message", "rejoin", "state", "wire"],
    ),
    (
        "replica",
        &[
            "consistency",
            "forks",
            "idempotency",
            "membership",
            "message",
            "rejoin",
            "state",
            "wire",
        ],
    ),
    (
        "quota",
        &[
            "forks",
            "ledger",
            "membership",
            "message",
            "replica",
            "state",
        ],
    ),
    (
        "sync",
        &[
            "consistency",
            "forks",
            "idempotency",
            "ledger",
            "membership",
            "message",
            "quota",
            "rejoin",
            "replica",
            "state",
            "wire",
        ],
    ),
    ("json", &["replica", "state"]),
];

/// The folder of `core/src` that a file belongs to.
fn folder(name: &Path) -> Option<String> {
    let inside = name.strip_prefix("core/src").ok()?;
    let first = inside.components().next()?.as_os_str().to_string_lossy();
    Some(first.trim_end_matches(".rs").to_owned())
}

/// The arrows of a file that its folder may not have. Code that is compiled for tests alone is not checked.
pub(super) fn broken(name: &Path, text: &str) -> Vec<String> {
    let Some(from) = folder(name) else {
        return Vec::new();
    };
    let is_ground = GROUND.contains(&from.as_str()) && from != LAYERS;
    let layer = ARROWS.into_iter().find(|it| it.0 == from);
    let Some((from, allowed)) = layer.or(is_ground.then_some((from.as_str(), &[]))) else {
        return Vec::new();
    };
    let mut broken = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim() == "mod tests {" {
            break;
        }
        let is_its = |of: &&&str| line.starts_with(&format!("impl {of}"));
        if from != "replica"
            && let Some(of) = ["Replica ", "Transaction<"].iter().find(is_its)
        {
            broken.push(format!(
                "{}:{}: methods of `{}` are in core/src/replica alone: a layer above has views of its own \
                 (xtask/src/tidy/arrows.rs)",
                name.display(),
                number + 1,
                of.trim_end_matches([' ', '<'])
            ));
        }
        let code = line.split("//").next().unwrap_or_default();
        for rest in code.split("crate::").skip(1) {
            let to: String = rest
                .chars()
                .take_while(|it| it.is_alphanumeric() || *it == '_')
                .collect();
            // Constants that name the shape of a build have no folder.
            let is_shape = !to.is_empty() && to.chars().all(|it| it.is_ascii_uppercase());
            let free = to.is_empty() || is_shape || to == from || GROUND.contains(&to.as_str());
            if !free && !allowed.contains(&to.as_str()) {
                broken.push(format!(
                    "{}:{}: `{from}` may not name `{to}`: arrows between folders of core run one way \
                     (xtask/src/tidy/arrows.rs)",
                    name.display(),
                    number + 1
                ));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_upward_is_found() {
        let file = Path::new("core/src/state/join.rs");
        let text = "use crate::membership::Membership;\nuse crate::error::Error;\n";
        assert_eq!(broken(file, text).len(), 1);
        assert_eq!(broken(file, "// crate::membership\n").len(), 0);
        assert_eq!(
            broken(file, "#[cfg(test)]\nmod tests {\n use crate::Replica;").len(),
            0
        );
        assert_eq!(broken(Path::new("node/src/state.rs"), text).len(), 0);
        assert_eq!(broken(Path::new("core/src/error/kind.rs"), text).len(), 1);
        assert_eq!(broken(Path::new("core/src/layers.rs"), text).len(), 0);
        let own = "impl Replica {\nimpl Transaction<'_> {\nimpl Clone for Replica {\n";
        let views = Path::new("core/src/quota/budget.rs");
        assert_eq!(broken(views, own).len(), 2);
        assert_eq!(broken(Path::new("core/src/replica/ops.rs"), own).len(), 0);
        let above = Path::new("core/src/rejoin.rs");
        assert_eq!(broken(above, text).len(), 0);
    }

    /// A reader who starts at the top of the table has read every folder that a later one names.
    #[test]
    fn each_folder_names_those_before_it() {
        for (at, (_, allowed)) in ARROWS.iter().enumerate() {
            let before = &ARROWS[..at];
            let is_before = |to: &&str| before.iter().any(|it| it.0 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
    }
}
