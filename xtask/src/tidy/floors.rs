//! The modules of the node's crates with several floors, and which others each may name. Arrows run in one
//! direction, as in core. So a reader can read a module without those that come later in the table.

use super::paths::{Named, Paths};

/// Each module of a crate that has several floors, with those that it may name, from below to above.
const FLOORS: [(&str, &str, &[&str]); 21] = [
    ("ground", "clock", &[]),
    ("ground", "descriptors", &[]),
    ("ground", "escape", &[]),
    ("ground", "listen", &[]),
    ("ground", "logging", &[]),
    ("ground", "rate", &[]),
    ("ground", "resp_config", &[]),
    ("ground", "identity", &[]),
    ("ground", "model", &["identity"]),
    ("ground", "problems", &["identity", "model"]),
    ("ground", "api", &["model"]),
    ("engine", "access", &[]),
    ("engine", "metrics", &["access"]),
    ("engine", "contain", &["metrics"]),
    ("engine", "browser", &[]),
    ("engine", "tls", &[]),
    ("engine", "network", &["access"]),
    (
        "engine",
        "driver",
        &["access", "contain", "metrics", "network"],
    ),
    ("engine", "settings", &["browser"]),
    ("server", "ready_file", &[]),
    ("server", "node", &["ready_file"]),
];

/// The floors of a crate.
fn floors_of(folder: &str) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let rows = FLOORS.iter().filter(move |it| it.0 == folder);
    rows.map(|&(_, module, allowed)| (module, allowed))
}

/// Whether a crate of the node has several floors.
pub(super) fn has_floors(folder: &str) -> bool {
    floors_of(folder).next().is_some()
}

/// The arrows of a crate that its modules may not have.
pub(super) fn broken(folder: &str, paths: &Paths) -> Vec<String> {
    if !has_floors(folder) {
        return Vec::new();
    }
    let wrong = |Named {
                     file,
                     line,
                     from,
                     path,
                 }: Named| {
        let (from, to) = (from?, &path[0]);
        let allowed = floors_of(folder).find(|it| it.0 == from);
        let is_allowed = *to == from || allowed.is_none_or(|it| it.1.contains(&to.as_str()));
        (!is_allowed).then(|| {
            format!(
                "{}:{line}: `{from}` may not name `{to}`: arrows between modules of the node run one way \
                 (xtask/src/tidy/floors.rs)",
                file.display()
            )
        })
    };
    paths.named().filter_map(wrong).collect()
}

/// The finding for a file whose module has no row in the table of a crate with floors.
pub(super) fn without_row(file: &str, folder: &str, module: &str) -> Option<String> {
    let has_row = floors_of(folder).any(|it| it.0 == module);
    (has_floors(folder) && !has_row).then(|| {
        format!("{file}: `{module}` has no row in the table of modules (xtask/src/tidy/floors.rs)")
    })
}

#[cfg(test)]
mod tests {
    use super::super::crates::tests::{all, found};
    use super::*;

    #[test]
    fn an_arrow_upward_is_found() {
        let upward = "use crate::driver::Handle;\nuse crate::access::Role;\n";
        assert_eq!(found("node/engine/src/network/rows.rs", upward), 1);
        assert_eq!(found("node/http/src/sync.rs", upward), 0);
        assert_eq!(found("node/engine/src/lib.rs", upward), 0);
        assert_eq!(found("node/engine/src/unheard_of.rs", ""), 1);
        assert_eq!(
            found("node/ground/src/model/space.rs", "crate::problems::of()"),
            1
        );
        assert_eq!(
            found("node/ground/src/model.rs", "use super::problems::of;"),
            1
        );
        let group = "use crate::{\n    driver::Handle,\n    metrics::Metrics,\n};";
        assert_eq!(found("node/engine/src/contain.rs", group), 1);
        // It has no row, and is no file of tests.
        assert_eq!(found("node/engine/src/contests.rs", upward), 1);
        assert_eq!(found("node/engine/src/access/contests.rs", upward), 1);
    }

    #[test]
    fn an_arrow_in_disguise_is_found() {
        let file = "node/engine/src/network/rows.rs";
        for text in [
            "use crate as own;\nuse own::driver::X;",
            "use super::{super::driver::X};",
            "fn f() { g(\"http://x\"); crate::driver::x() }",
            "fn f() { \"http://x\"; use crate::driver::X; }",
            "macro_rules! m { () => { $crate::driver::x() } }",
            "use crate::*;",
        ] {
            assert_eq!(found(file, text), 1, "{text}");
        }
        let inside = "pub mod network {\n    use crate::driver::X;\n}";
        // The root has no modules with a body, either.
        assert_eq!(found("node/engine/src/lib.rs", inside), 2);
    }

    #[test]
    fn code_for_tests_alone_may_name_all() {
        let found = |text: &str| all("node/engine/src/access/places.rs", text);
        let item = "fn one() {\n    #[cfg(test)]\n    crate::driver::one();\n}\n";
        assert_eq!(found(item), Vec::<String>::new());
        let module =
            "#[cfg(test)]\nmod tests {\n    use crate::driver::One;\n}\nuse crate::driver::Two;\n";
        let told = found(module);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("places.rs:5: `access` may not name `driver`"),
            "{told:?}"
        );
        assert_eq!(
            all("node/engine/src/access/tests.rs", "use crate::driver::X;"),
            [""; 0]
        );
    }

    /// A reader who starts at the top of the table has read everything that a later row names.
    #[test]
    fn each_row_names_those_before_it() {
        for (at, (folder, _, allowed)) in FLOORS.iter().enumerate() {
            let before = &FLOORS[..at];
            let is_before = |to: &&str| before.iter().any(|it| it.0 == *folder && it.1 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
    }
}
