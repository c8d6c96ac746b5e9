//! Which tests belong to which part of the node, and which tests of tests/ start processes.

use std::collections::BTreeSet;

/// The tests that a changed file of the node runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeTests {
    /// Unit tests: a crate of the node, and the beginning of their names.
    pub(super) units: BTreeSet<Units>,
    /// Modules of node/tests/suite.
    pub(super) suite: BTreeSet<String>,
}

/// Unit tests of a crate of the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Units {
    /// The name of the package.
    pub(super) package: String,
    /// The module with its `::`, or nothing for all of the package.
    pub(super) module: String,
}

impl Units {
    pub(super) fn of(folder: &str, module: &str) -> Units {
        Units {
            package: format!("tallymesh-node-{folder}"),
            module: module.to_owned(),
        }
    }
}

/// Test files of tests/tests that start nodes or need the npm package. They take minutes. `common` is a part of
/// them and no test.
pub(super) const PROCESSES: [&str; 4] = ["common", "faults", "interop", "retries"];

/// Test files of tests/tests of which few seeds take a minute and more, or that have no seeds and take seconds.
pub(super) const LONG: [&str; 9] = [
    "draws",
    "explore",
    "maelstrom",
    "majority",
    "partitions",
    "periods",
    "retirement",
    "spending",
    "visitors",
];

/// Tests without seeds that take seconds, in test files that are not long.
pub(super) const LONG_TESTS: [(&str, &str); 1] =
    [("budgets", "no_order_of_events_breaks_a_budget")];

/// The scenarios of the long test files, by their names in the trace. It plays their first seeds.
pub(super) const TRACED: [&str; 4] = ["sequences", "partitions", "limits", "budgets"];

/// Modules of the suite that read files of deploy/.
pub(super) const DEPLOYED: [&str; 3] = ["config", "metrics", "operation"];

/// Modules of the suite without tests. The others start nodes and peers with them.
const HELPERS: [&str; 5] = ["liar", "main", "process", "redis", "swarm"];

/// What runs for a part of the node without a row below, and for a helper of the suite: nodes start, answer at
/// each face and stop.
const SMOKE: [&str; 3] = ["fresh", "http", "resp"];

/// Crates of the node with several modules that are parts of their own. Each other crate is one part.
const OF_PARTS: [&str; 3] = ["engine", "ground", "server"];

/// Parts of the node, and the modules of the suite that are about them. A part is the beginning of a path: of
/// the path in `src` for the crates [`OF_PARTS`], and of the path below node/ without `src` for the others. Of
/// several, the longest counts.
const FACES: [(&str, &[&str]); 44] = [
    ("access", &["roles", "tickets", "token"]),
    ("api", &["api", "cli", "http", "resp", "tickets"]),
    ("browser", &["browsers"]),
    ("cli", &["cli", "fresh", "printed"]),
    ("cli/config", &["config"]),
    ("cli/doctor", &["operation"]),
    ("clock", &["clock"]),
    ("config", &["config", "silent"]),
    ("descriptors", &["descriptors"]),
    ("driver", &["bounds", "members", "once", "operations"]),
    ("driver/copies", &["copies"]),
    ("driver/places", &["copies", "majority"]),
    ("driver/roles", &["roles"]),
    ("driver/spaces", &["spaces"]),
    ("driver/watchers", &["events"]),
    ("gossip", &["cluster", "join", "network"]),
    ("gossip/peer_directory", &["peer_directory"]),
    ("gossip/relay", &["relay"]),
    ("gossip/removals", &["removed"]),
    ("gossip/revocations", &["revoked"]),
    ("gossip/rights", &["roles"]),
    ("gossip/same_key", &["copies"]),
    ("gossip/silence", &["dead_links"]),
    ("gossip/swarm", &["cluster", "races"]),
    ("http", &["api", "events", "http", "operations"]),
    ("http/access", &["browsers", "http", "tickets"]),
    ("http/audit", &["audit"]),
    ("http/budgets", &["budgets", "http", "leases"]),
    ("http/guard", &["browsers", "http"]),
    ("http/limits", &["http", "limits"]),
    ("http/link_pace", &["sync"]),
    ("http/members", &["http", "members"]),
    ("http/post", &["http", "post"]),
    ("http/proof", &["links", "post"]),
    ("http/sequences", &["http", "sequences"]),
    ("http/sync", &["links", "sync"]),
    ("http/tickets", &["revoked", "tickets"]),
    ("logging", &["logs"]),
    ("metrics", &["metrics"]),
    ("problems", &["api", "http"]),
    ("resp", &["resp", "retries"]),
    ("resp/protocol/access", &["resp", "resp_tickets"]),
    ("resp/sockets", &["resp", "shares"]),
    ("store", &["data", "durability", "folder", "restart"]),
];

/// The tests for a file of node/.
pub(super) fn tests_of(file: &str) -> NodeTests {
    let mut found = NodeTests::default();
    if let Some(path) = file.strip_prefix("node/tests/suite/") {
        let module = first(path);
        match HELPERS.contains(&module) {
            true => found.suite.extend(SMOKE.map(str::to_owned)),
            false => found.suite.extend([module.to_owned()]),
        }
        return found;
    }
    if file.starts_with("node/tests/fixtures/") {
        found.suite.insert("data".to_owned());
        return found;
    }
    let (folder, path) = part_of(file);
    let rows = FACES.iter().filter(|(part, _)| is_in(&path, part));
    let row = rows.max_by_key(|(part, _)| part.len());
    found.suite = row
        .map_or(&SMOKE[..], |(_, modules)| modules)
        .iter()
        .map(|&module| module.to_owned())
        .collect();
    found.units.extend(beside(&path));
    match first(&path) {
        // A change of Cargo.toml, of the build script, or of what has all modules in it.
        "" | "lib" | "main" => {}
        module if OF_PARTS.contains(&folder) => {
            found
                .units
                .insert(Units::of(folder, &format!("{module}::")));
        }
        _ => _ = found.units.insert(Units::of(folder, "")),
    }
    found
}

/// Unit tests of other crates that are about a part: those of the driver with Redis clients, and those that
/// compare a face with the table of calls.
fn beside(path: &str) -> Vec<Units> {
    match first(path) {
        "api" => ["http", "cli", "resp"]
            .map(|face| Units::of(face, ""))
            .into(),
        "driver" => vec![Units::of("resp", "sockets::")],
        _ => Vec::new(),
    }
}

/// The crate of a file of the node, and its path as the table of parts has it.
fn part_of(file: &str) -> (&str, String) {
    let path = file.strip_prefix("node/").unwrap_or_default();
    let Some((folder, rest)) = path.split_once("/src/") else {
        return ("", String::new());
    };
    match (OF_PARTS.contains(&folder), rest) {
        (true, _) => (folder, rest.to_owned()),
        (false, "lib.rs") => (folder, format!("{folder}.rs")),
        (false, _) => (folder, format!("{folder}/{rest}")),
    }
}

/// The first name of a path, without the end of a Rust file.
fn first(path: &str) -> &str {
    let name = path.split('/').next().unwrap_or_default();
    name.strip_suffix(".rs").unwrap_or(name)
}

/// Whether a path is the file of a part, or lies in the part's folder.
fn is_in(path: &str, part: &str) -> bool {
    let rest = path.strip_prefix(part);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;
    use std::fs;

    fn suite_of(file: &str) -> Vec<String> {
        tests_of(file).suite.into_iter().collect()
    }

    #[test]
    fn the_longest_part_counts() {
        assert_eq!(
            suite_of("node/http/src/budgets.rs"),
            ["budgets", "http", "leases"]
        );
        assert_eq!(
            suite_of("node/cli/src/doctor/checks/faults.rs"),
            ["operation"]
        );
        assert_eq!(
            suite_of("node/resp/src/lib.rs"),
            suite_of("node/resp/src/protocol/counters.rs")
        );
        let units = |file: &str| tests_of(file).units;
        let http = BTreeSet::from([Units::of("http", "")]);
        assert_eq!(units("node/http/src/budgets.rs"), http);
        let driver = [("engine", "driver::"), ("resp", "sockets::")];
        let driver = BTreeSet::from(driver.map(|(folder, module)| Units::of(folder, module)));
        assert_eq!(units("node/engine/src/driver/roles.rs"), driver);
        assert_eq!(units("node/engine/src/driver.rs"), driver);
    }

    #[test]
    fn a_part_without_a_row_starts_nodes() {
        assert_eq!(suite_of("node/engine/src/contain.rs"), SMOKE);
        assert_eq!(suite_of("node/Cargo.toml"), SMOKE);
        assert!(tests_of("node/src/main.rs").units.is_empty());
    }

    #[test]
    fn a_module_of_the_suite_runs_itself() {
        assert_eq!(
            suite_of("node/tests/suite/peer_directory.rs"),
            ["peer_directory"]
        );
        assert_eq!(suite_of("node/tests/suite/hostile/report.rs"), ["hostile"]);
        assert_eq!(suite_of("node/tests/suite/process.rs"), SMOKE);
        assert!(
            tests_of("node/tests/suite/peer_directory.rs")
                .units
                .is_empty()
        );
    }

    #[test]
    fn the_table_names_what_there_is() {
        let repo = Repo::find().unwrap();
        let is_there =
            |path: String| repo.path(format!("{path}.rs")).is_file() || repo.path(&path).is_dir();
        for (part, modules) in FACES {
            let (folder, rest) = part.split_once('/').unwrap_or((part, "lib"));
            let mut places = vec![format!("node/{folder}/src/{rest}")];
            places.extend(OF_PARTS.map(|folder| format!("node/{folder}/src/{part}")));
            assert!(places.into_iter().any(is_there), "{part}");
            for module in modules {
                assert!(is_there(format!("node/tests/suite/{module}")), "{module}");
            }
        }
        for module in SMOKE.iter().chain(&DEPLOYED).chain(&HELPERS) {
            assert!(is_there(format!("node/tests/suite/{module}")), "{module}");
        }
        for name in PROCESSES.iter().chain(&LONG) {
            assert!(is_there(format!("tests/tests/{name}")), "{name}");
        }
        for (file, test) in LONG_TESTS {
            let text = fs::read_to_string(repo.path(format!("tests/tests/{file}.rs"))).unwrap();
            assert!(text.contains(&format!("fn {test}()")), "{test}");
        }
        let trace = fs::read_to_string(repo.path("tests/trace.txt")).unwrap();
        for name in TRACED {
            assert!(trace.contains(&format!("\n{name} 0-")), "{name}");
        }
    }

    #[test]
    fn helpers_are_the_modules_without_tests() {
        let folder = Repo::find().unwrap().path("node/tests/suite");
        for entry in fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let tests = text.contains("#[test]") || text.contains("#[tokio::test");
            assert_eq!(HELPERS.contains(&name.as_str()), !tests, "{name}");
        }
    }
}
