//! The modules of `node/src`, and which others each may name. Arrows run in one direction, as in core. So a
//! reader can read a module without those that come later in the table, and no face knows another one.

use super::arrows;
use std::path::Path;

/// Plain data, keys, rates, texts and clocks: every module above them may name these.
const GROUND: [&str; 10] = [
    "api",
    "clock",
    "descriptors",
    "escape",
    "identity",
    "listen",
    "logging",
    "model",
    "problems",
    "rate",
];

/// Each module with those that it may name beside the ground, from below to above. A module of the ground
/// names only what its row has.
const FLOORS: [(&str, &[&str]); 24] = [
    ("clock", &[]),
    ("descriptors", &[]),
    ("escape", &[]),
    ("listen", &[]),
    ("logging", &[]),
    ("ready_file", &[]),
    ("rate", &[]),
    ("identity", &[]),
    ("model", &["identity"]),
    ("problems", &["identity", "model"]),
    ("api", &["model"]),
    ("store", &[]),
    ("access", &["store"]),
    ("metrics", &["access", "store"]),
    ("contain", &["metrics"]),
    ("browser", &[]),
    ("tls", &[]),
    ("network", &["access"]),
    ("driver", &["access", "contain", "metrics", "store"]),
    // The faces: none of them names another one.
    (
        "gossip",
        &["access", "browser", "driver", "metrics", "network", "store"],
    ),
    (
        "http",
        &[
            "access", "browser", "contain", "driver", "metrics", "network", "store",
        ],
    ),
    ("resp", &["access", "contain", "driver", "metrics"]),
    // What starts all of them.
    (
        "config",
        &[
            "access", "browser", "gossip", "http", "resp", "store", "tls",
        ],
    ),
    (
        "node",
        &[
            "access",
            "config",
            "driver",
            "gossip",
            "http",
            "metrics",
            "network",
            "ready_file",
            "resp",
            "store",
            "tls",
        ],
    ),
];

/// The command line, which stands above all. It asks running nodes over HTTP, so it names no face.
const CLI: (&str, &[&str]) = (
    "cli",
    &["access", "browser", "config", "driver", "node", "store"],
);

/// The roots of the crate, which list all modules.
const ROOTS: [&str; 2] = ["lib", "main"];

/// The row of a module.
fn row(module: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    FLOORS.iter().chain([&CLI]).find(|it| it.0 == module)
}

/// Whether a module may name another one.
fn may_name(from: &str, to: &str) -> bool {
    let is_above_ground = !GROUND.contains(&from);
    to == from
        || is_above_ground && GROUND.contains(&to)
        || row(from).is_some_and(|it| it.1.contains(&to))
}

/// The arrows of a file that its module may not have. Code that is compiled for tests alone is not checked.
pub(super) fn broken(name: &Path, text: &str) -> Vec<String> {
    let Some((from, depth)) = arrows::folder("node/src", name) else {
        return Vec::new();
    };
    if ROOTS.contains(&from.as_str()) || name.extension().is_none_or(|it| it != "rs") {
        return Vec::new();
    }
    if row(&from).is_none() {
        return vec![format!(
            "{}: `{from}` has no row in the table of modules (xtask/src/tidy/floors.rs)",
            name.display()
        )];
    }
    let named = arrows::named(&shipped(text), depth).into_iter();
    let broken = named.filter(|(_, to)| !may_name(&from, to));
    let told = broken.map(|(number, to)| {
        format!(
            "{}:{number}: `{from}` may not name `{to}`: arrows between modules of the node run one way \
             (xtask/src/tidy/floors.rs)",
            name.display()
        )
    });
    told.collect()
}

/// The lines of a file, with empty ones in place of items that are compiled for tests alone.
fn shipped(text: &str) -> String {
    let mut shipped = String::new();
    let mut lines = text.lines().enumerate();
    let mut written = 0;
    while let Some((number, line)) = lines.next() {
        shipped.push_str(&"\n".repeat(number - written));
        written = number;
        if line.trim() == "#[cfg(test)]" {
            super::skip_item(&mut lines, line);
            continue;
        }
        shipped.push_str(line);
    }
    shipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_upward_or_between_faces_is_found() {
        let found = |file: &str, text: &str| broken(Path::new(file), text).len();
        let upward = "use crate::gossip::Cuts;\nuse crate::model::Refusal;\n";
        assert_eq!(found("node/src/driver/turn.rs", upward), 1);
        assert_eq!(found("node/src/http/sync.rs", upward), 1);
        assert_eq!(found("node/src/resp/sockets/host.rs", upward), 1);
        assert_eq!(found("node/src/cli/up.rs", upward), 1);
        assert_eq!(found("node/src/node.rs", upward), 0);
        assert_eq!(found("core/src/state.rs", upward), 0);
        assert_eq!(found("node/src/lib.rs", upward), 0);
        assert_eq!(found("node/src/unheard_of.rs", ""), 1);
        assert_eq!(found("node/src/model/space.rs", "crate::problems::of()"), 1);
        assert_eq!(found("node/src/driver.rs", "use super::http::App;"), 1);
        let group = "use crate::{\n    http::App,\n    model::{Refusal, Role},\n};";
        assert_eq!(found("node/src/driver/turn.rs", group), 1);
    }

    #[test]
    fn code_for_tests_alone_may_name_all() {
        let found = |text: &str| broken(Path::new("node/src/driver/turn.rs"), text);
        let item = "fn one() {\n    #[cfg(test)]\n    crate::resp::one();\n}\n";
        assert_eq!(found(item), Vec::<String>::new());
        let module =
            "#[cfg(test)]\nmod tests {\n    use crate::resp::One;\n}\nuse crate::resp::Two;\n";
        let told = found(module);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("turn.rs:5: `driver` may not name `resp`"),
            "{told:?}"
        );
    }

    /// A reader who starts at the top of the table has read every module that a later one names.
    #[test]
    fn each_module_names_those_before_it() {
        for (at, (_, allowed)) in FLOORS.iter().enumerate() {
            let before = &FLOORS[..at];
            let is_before = |to: &&str| before.iter().any(|it| it.0 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
        assert!(CLI.1.iter().all(|it| row(it).is_some()));
        assert!(GROUND.iter().all(|it| row(it).is_some()));
    }
}
