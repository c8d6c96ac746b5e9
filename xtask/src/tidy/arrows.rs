//! The folders of `core/src`, and which others each may name. Arrows run in one direction. So a reader can
//! read a folder without those that come later in the table.

use std::path::Path;

/// Bounds, hashes, ids, errors: every folder may name these.
const GROUND: [&str; 8] = [
    "bounds",
    "error",
    "hash",
    "list",
    "once",
    "reserved",
    "sort",
    "writer_id",
];

/// The one exception: this file chooses the layers of a build, so it names them, and every folder may name it.
/// By it, and only by it, a replica meets its quota.
const LAYERS: &str = "layers";

/// The layer of which `layers` hands out a name, if that is one that not everybody may have.
fn layer_of(name: &str) -> Option<&'static str> {
    match name {
        "IdempotencyLog" | "Known" | "Made" => Some("idempotency"),
        _ if name.starts_with("Keyed") => Some("idempotency"),
        _ if name.starts_with("Quota") => Some("quota"),
        _ => None,
    }
}

/// Each folder with the folders that it may name beside the ground, from below to above. A file of the ground
/// names only what its row has.
const ARROWS: [(&str, &[&str]); 21] = [
    ("bounds", &[]),
    ("hash", &[]),
    ("list", &[]),
    ("reserved", &[]),
    ("sort", &[]),
    ("once", &["hash"]),
    // An error names a writer, and a name of a space can be refused: the two files are one unit.
    ("error", &["bounds", "hash"]),
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
    (
        LAYERS,
        &["idempotency", "ledger", "quota", "replica", "state", "sync"],
    ),
];

/// The root of the crate, which lists all folders.
const ROOT: &str = "lib";

/// The folder of a crate's sources that a file belongs to, and how many modules deep the file is in the crate.
pub(super) fn folder(sources: &str, name: &Path) -> Option<(String, usize)> {
    let inside = name.strip_prefix(sources).ok()?;
    let first = inside.components().next()?.as_os_str().to_string_lossy();
    let folder = first.trim_end_matches(".rs").to_owned();
    Some((folder, inside.components().count()))
}

/// The unit in the table that a folder belongs to.
fn unit(folder: &str) -> &str {
    match folder {
        "writer_id" => "error",
        other => other,
    }
}

/// Whether a folder may name another one.
fn may_name(from: &str, to: &str) -> bool {
    let row = ARROWS.iter().find(|it| it.0 == from);
    let is_above_ground = !GROUND.contains(&from) && from != LAYERS;
    to == from
        || to == LAYERS
        || is_above_ground && GROUND.contains(&to)
        || row.is_some_and(|it| it.1.contains(&to))
}

/// The arrows of a file that its folder may not have. Code that is compiled for tests alone is not checked.
pub(super) fn broken(name: &Path, text: &str) -> Vec<String> {
    let Some((from, depth)) = folder("core/src", name) else {
        return Vec::new();
    };
    let from = unit(&from);
    if from == ROOT || name.extension().is_none_or(|it| it != "rs") {
        return Vec::new();
    }
    if !ARROWS.iter().any(|it| it.0 == from) {
        return vec![format!(
            "{}: `{from}` has no row in the table of folders (xtask/src/tidy/arrows.rs)",
            name.display()
        )];
    }
    let mut broken = Vec::new();
    for (number, to) in named(text, depth) {
        if !may_name(from, unit(&to)) {
            broken.push(format!(
                "{}:{number}: `{from}` may not name `{to}`: arrows between folders of core run one way \
                 (xtask/src/tidy/arrows.rs)",
                name.display()
            ));
        }
    }
    for (number, taken) in heads_after(&code(text), "crate::layers::") {
        let is_exception = from == "replica" && layer_of(&taken) == Some("quota");
        if layer_of(&taken).is_some_and(|to| !is_exception && !may_name(from, to)) {
            broken.push(format!(
                "{}:{number}: `{from}` may not take `{taken}` from `layers`, because its layer comes later \
                 (xtask/src/tidy/arrows.rs)",
                name.display()
            ));
        }
    }
    broken
}

/// The modules of the root that a file names, by `crate::`, by `super::`, or in a group, each with its line.
pub(super) fn named(text: &str, depth: usize) -> Vec<(usize, String)> {
    let code = code(text);
    let mut named = heads_after(&code, "crate::");
    named.extend(heads_after(&code, &"super::".repeat(depth)));
    named
}

/// The lines of a file that are compiled for shipping, without comments.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines().take_while(|it| it.trim() != "mod tests {") {
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The first name after each place where a path begins like this, each with its line.
fn heads_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        let rest = &code[at + prefix.len()..];
        let is_inner = before.is_some_and(|it| is_word(it) || it == ':');
        if is_inner || rest.starts_with("super::") {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        found.extend(heads(rest).into_iter().map(|head| (line, head)));
    }
    found
}

/// The first name of a path, or of each path of a group.
fn heads(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![head(path)];
    };
    let (mut heads, mut deep, mut is_first) = (Vec::new(), 0, true);
    for (at, it) in group.char_indices() {
        match it {
            '}' if deep == 0 => break,
            '{' => deep += 1,
            '}' => deep -= 1,
            ',' if deep == 0 => is_first = true,
            _ if is_first && is_word(it) => {
                heads.push(head(&group[at..]));
                is_first = false;
            }
            _ => {}
        }
    }
    heads
}

/// The first name of a path.
fn head(path: &str) -> String {
    path.chars().take_while(|it| is_word(*it)).collect()
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_upward_is_found() {
        let found = |file: &str, text: &str| broken(Path::new(file), text).len();
        let text = "use crate::membership::Membership;\nuse crate::error::Error;\n";
        assert_eq!(found("core/src/state/join.rs", text), 1);
        assert_eq!(found("core/src/state/join.rs", "// crate::membership\n"), 0);
        let tests = "#[cfg(test)]\nmod tests {\n use crate::Replica;";
        assert_eq!(found("core/src/state/join.rs", tests), 0);
        assert_eq!(found("node/src/state.rs", text), 0);
        assert_eq!(found("core/src/error/display.rs", text), 1);
        assert_eq!(found("core/src/rejoin.rs", text), 0);
        assert_eq!(found("core/src/hash.rs", "use crate::error::Error;"), 1);
        assert_eq!(
            found("core/src/writer_id.rs", "use crate::error::Error;"),
            0
        );
        assert_eq!(found("core/src/state.rs", "crate::KeyId"), 1);
        assert_eq!(found("core/src/layers.rs", "use crate::wire::Frame;"), 1);
        let taken = "use crate::layers::{GUESTS, QuotaMut};";
        assert_eq!(found("core/src/state/join.rs", taken), 1);
        assert_eq!(found("core/src/replica/ops.rs", taken), 0);
        assert_eq!(found("core/src/unheard_of/one.rs", ""), 1);
    }

    #[test]
    fn a_path_by_super_or_in_a_group_is_found() {
        let found = |file: &str, text: &str| broken(Path::new(file), text).len();
        let group = "use crate::{\n    error::{Detail, Error},\n    sync::Link,\n    wire,\n};";
        assert_eq!(found("core/src/state/join.rs", group), 2);
        assert_eq!(found("core/src/sync/pull.rs", group), 0);
        assert_eq!(
            found("core/src/state/join.rs", "super::super::wire::put();"),
            1
        );
        assert_eq!(found("core/src/state/join.rs", "super::wire::put();"), 0);
        assert_eq!(found("core/src/state.rs", "use super::{error, wire};"), 1);
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
