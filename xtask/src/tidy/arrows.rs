//! The folders of `core/src`, and which others each may name. Arrows run in one direction. So a reader can
//! read a folder without those that come later in the table.

use super::paths::{Named, Paths};
use std::path::Path;

/// Bounds, hashes, ids, errors: every folder may name these.
const GROUND: [&str; 14] = [
    "bounds",
    "error",
    "expired",
    "hash",
    "list",
    "numbers",
    "once",
    "optional",
    "recent",
    "reserved",
    "sheet",
    "sort",
    "vector",
    "writer_id",
];

/// The one arrow from below to above: a replica owns its quota, and calls it by hooks. This file alone names
/// that layer, and the layer names the replica. So these two folders have a circle, and no others have one.
const UPWARD: (&str, &str) = ("core/src/replica/quota.rs", "quota");

/// Each folder with the folders that it may name beside the ground, from below to above. A file of the ground
/// names only what its row has.
const ARROWS: [(&str, &[&str]); 27] = [
    ("bounds", &[]),
    ("hash", &[]),
    ("optional", &[]),
    ("reserved", &[]),
    ("sheet", &[]),
    ("sort", &[]),
    ("list", &["optional"]),
    ("recent", &["sort"]),
    ("once", &["hash"]),
    // An error names a writer, and a name of a space can be refused: the two files are one unit.
    ("error", &["bounds", "hash", "optional"]),
    ("expired", &["error", "sort"]),
    ("numbers", &["error"]),
    ("vector", &["error", "hash", "list"]),
    ("state", &[]),
    ("message", &["state"]),
    ("ledger", &["message", "state"]),
    ("indexed_state", &["ledger", "state"]),
    ("forks", &["indexed_state", "message", "state"]),
    ("membership", &["indexed_state", "message", "state"]),
    ("wire", &["forks", "ledger", "message", "state"]),
    (
        "rejoin",
        &["indexed_state", "membership", "message", "state"],
    ),
    (
        "idempotency",
        &["indexed_state", "membership", "message", "state", "wire"],
    ),
    (
        "consistency",
        &[
            "indexed_state",
            "membership",
            "message",
            "rejoin",
            "state",
            "wire",
        ],
    ),
    (
        "replica",
        &[
            "consistency",
            "forks",
            "idempotency",
            "indexed_state",
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
            "indexed_state",
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
    let is_above_ground = !GROUND.contains(&from);
    to == from
        || is_above_ground && GROUND.contains(&to)
        || row.is_some_and(|it| it.1.contains(&to))
}

/// The arrows of core that its folders may not have.
pub(super) fn broken(core: &Paths) -> Vec<String> {
    core.named().filter_map(|it| wrong(&it)).collect()
}

fn wrong(
    Named {
        file,
        line,
        from,
        path,
    }: &Named,
) -> Option<String> {
    let from = unit(from.as_deref()?);
    let to = &path[0];
    let is_exception = file == Path::new(UPWARD.0) && to == UPWARD.1;
    (!is_exception && !may_name(from, unit(to))).then(|| {
        format!(
            "{}:{line}: `{from}` may not name `{to}`: arrows between folders of core run one way \
             (xtask/src/tidy/arrows.rs)",
            file.display()
        )
    })
}

/// The finding for a file whose folder has no row in the table.
pub(super) fn without_row(file: &str, folder: &str) -> Option<String> {
    let has_row = ARROWS.iter().any(|it| it.0 == unit(folder));
    (!has_row).then(|| {
        format!(
            "{file}: `{}` has no row in the table of folders (xtask/src/tidy/arrows.rs)",
            unit(folder)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::crates::tests::found;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_arrow_upward_is_found() {
        let text = "use crate::membership::Membership;\nuse crate::error::Error;\n";
        assert_eq!(found("core/src/state/join.rs", text), 1);
        assert_eq!(found("core/src/state/join.rs", "// crate::membership\n"), 0);
        let tests = "#[cfg(test)]\nmod tests {\n use crate::Replica;\n}";
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
        assert_eq!(found("core/src/state.rs", "type A = crate::KeyId;"), 1);
        assert_eq!(found("core/src/optional.rs", "use crate::state::State;"), 1);
        assert_eq!(found("core/src/state.rs", "use crate::optional::Empty;"), 0);
        let quota = "use crate::quota::QuotaMut;";
        assert_eq!(found("core/src/replica/ops.rs", quota), 1);
        assert_eq!(found("core/src/replica/quota.rs", quota), 0);
        assert_eq!(
            found("core/src/replica/quota.rs", "use crate::sync::Link;"),
            1
        );
        assert_eq!(found("core/src/unheard_of/one.rs", ""), 1);
    }

    #[test]
    fn a_path_by_super_or_in_a_group_is_found() {
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

    /// A reader who starts at the top of the table has read every folder that a later one names, and first the
    /// ground, which all may name. So only the arrow upward can close a circle.
    #[test]
    fn each_folder_names_those_before_it() {
        for (at, (_, allowed)) in ARROWS.iter().enumerate() {
            let before = &ARROWS[..at];
            let is_before = |to: &&str| before.iter().any(|it| it.0 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
        let ground: BTreeSet<&str> = GROUND.iter().map(|it| unit(it)).collect();
        let first = ARROWS.iter().take(ground.len()).map(|it| it.0);
        assert_eq!(first.collect::<BTreeSet<_>>(), ground);
    }
}
