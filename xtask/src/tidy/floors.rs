//! The crates of the node and the modules in them, and which others each may name. Arrows run in one direction,
//! as in core. So a reader can read a crate without those that come later in the table, and no face knows
//! another one.

use super::arrows;
use std::path::Path;

/// Each crate of node/, with those that it may depend on, from below to above.
const CRATES: [(&str, &[&str]); 9] = [
    ("ground", &[]),
    ("store", &["ground"]),
    ("engine", &["ground", "store"]),
    ("config", &["engine", "ground", "store"]),
    // The faces: none of them names another one.
    ("gossip", &["engine", "ground", "store"]),
    ("http", &["engine", "ground", "store"]),
    ("resp", &["engine", "ground"]),
    // It asks running nodes over HTTP, and the program hands it a whole node. So it names no face.
    ("cli", &["config", "engine", "ground", "store"]),
    // What starts all of them.
    (
        "server",
        &[
            "config", "engine", "gossip", "ground", "http", "resp", "store",
        ],
    ),
];

/// Each module of a crate that has several floors, with those that it may name, from below to above.
const FLOORS: [(&str, &str, &[&str]); 20] = [
    ("ground", "clock", &[]),
    ("ground", "descriptors", &[]),
    ("ground", "escape", &[]),
    ("ground", "listen", &[]),
    ("ground", "logging", &[]),
    ("ground", "rate", &[]),
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
    ("engine", "driver", &["access", "contain", "metrics"]),
    ("engine", "settings", &["browser"]),
    ("server", "ready_file", &[]),
    ("server", "node", &["ready_file"]),
];

/// The floors of a crate.
fn floors_of(folder: &str) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let rows = FLOORS.iter().filter(move |it| it.0 == folder);
    rows.map(|&(_, module, allowed)| (module, allowed))
}

/// The arrows of a file that its crate or its module may not have. Code that is compiled for tests alone is not
/// checked.
pub(super) fn broken(name: &Path, text: &str) -> Vec<String> {
    let mut parts = name.iter().filter_map(|part| part.to_str());
    let (Some("node"), Some(folder), Some(third)) = (parts.next(), parts.next(), parts.next())
    else {
        return Vec::new();
    };
    if third == "Cargo.toml" {
        return broken_manifest(name, folder, text);
    }
    let Some((from, depth)) = arrows::folder(&format!("node/{folder}/src"), name) else {
        return Vec::new();
    };
    let has_floors = floors_of(folder).next().is_some();
    if !has_floors || from == "lib" || name.extension().is_none_or(|it| it != "rs") {
        return Vec::new();
    }
    let Some((_, allowed)) = floors_of(folder).find(|it| it.0 == from) else {
        return vec![format!(
            "{}: `{from}` has no row in the table of modules (xtask/src/tidy/floors.rs)",
            name.display()
        )];
    };
    let named = arrows::named(&shipped(text), depth).into_iter();
    let broken = named.filter(|(_, to)| *to != from && !allowed.contains(&to.as_str()));
    let told = broken.map(|(number, to)| {
        format!(
            "{}:{number}: `{from}` may not name `{to}`: arrows between modules of the node run one way \
             (xtask/src/tidy/floors.rs)",
            name.display()
        )
    });
    told.collect()
}

/// The dependencies of a crate of the node that it may not have.
fn broken_manifest(name: &Path, folder: &str, text: &str) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|it| it.0 == folder) else {
        return vec![format!(
            "{}: `{folder}` has no row in the table of crates (xtask/src/tidy/floors.rs)",
            name.display()
        )];
    };
    let shipped = text.split("[dev-dependencies]").next().unwrap_or(text);
    let named = shipped.lines().enumerate().filter_map(|(at, line)| {
        let to = line.strip_prefix("tallymesh-node-")?;
        let end = to.find(|letter: char| !letter.is_ascii_lowercase())?;
        Some((at + 1, &to[..end]))
    });
    let broken = named.filter(|(_, to)| !allowed.contains(to));
    let told = broken.map(|(number, to)| {
        format!(
            "{}:{number}: `{folder}` may not depend on `{to}` (xtask/src/tidy/floors.rs)",
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
        let upward = "[dependencies]\ntallymesh-node-ground.workspace = true\ntallymesh-node-http.workspace = true\n";
        assert_eq!(found("node/engine/Cargo.toml", upward), 1);
        assert_eq!(found("node/resp/Cargo.toml", upward), 1);
        assert_eq!(found("node/server/Cargo.toml", upward), 0);
        assert_eq!(found("node/unheard_of/Cargo.toml", ""), 1);
        assert_eq!(found("node/Cargo.toml", upward), 0);
        let upward = "use crate::driver::Handle;\nuse crate::access::Role;\n";
        assert_eq!(found("node/engine/src/network/rows.rs", upward), 1);
        assert_eq!(found("node/http/src/sync.rs", upward), 0);
        assert_eq!(found("node/engine/src/lib.rs", upward), 0);
        assert_eq!(found("core/src/state.rs", upward), 0);
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
    }

    #[test]
    fn code_for_tests_alone_may_name_all() {
        let found = |text: &str| broken(Path::new("node/engine/src/access/places.rs"), text);
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
        let manifest =
            "[dependencies]\n\n[dev-dependencies]\ntallymesh-node-cli.workspace = true\n";
        let told = broken(Path::new("node/engine/Cargo.toml"), manifest);
        assert_eq!(told, Vec::<String>::new());
    }

    /// A reader who starts at the top of the tables has read everything that a later row names.
    #[test]
    fn each_row_names_those_before_it() {
        for (at, (_, allowed)) in CRATES.iter().enumerate() {
            let is_before = |to: &&str| CRATES[..at].iter().any(|it| it.0 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
        for (at, (folder, _, allowed)) in FLOORS.iter().enumerate() {
            let before = &FLOORS[..at];
            let is_before = |to: &&str| before.iter().any(|it| it.0 == *folder && it.1 == *to);
            assert!(allowed.iter().all(is_before), "{at}");
        }
    }
}
