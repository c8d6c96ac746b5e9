//! What changed files can affect: which tests answer soon, and which stages are left out.

use std::collections::BTreeSet;

use super::faces::{self, Units};
use super::graph::Graph;

/// What a run does, in its order, and what it leaves out. The tidy rules are checked in any case.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The format of Rust code.
    pub(super) format: bool,
    /// The tests of xtask.
    pub(super) tools: bool,
    /// The tests of core, and those of its state alone.
    pub(super) core: bool,
    /// The scenarios and all else in tests/tests that needs no process, with few seeds.
    pub(super) scenarios: bool,
    /// Single test files of tests/tests. None if all scenarios run.
    pub(super) crossing: BTreeSet<String>,
    /// The tests of the page's members.
    pub(super) members: bool,
    /// The packages whose types are checked.
    pub(super) checked: BTreeSet<String>,
    /// Unit tests of crates of the node.
    pub(super) units: BTreeSet<Units>,
    /// Modules of node/tests/suite.
    pub(super) suite: BTreeSet<String>,
    /// The bindings in Node.
    pub(super) bindings: bool,
    /// The npm package: its build, its types and its tests in Node.
    pub(super) package: bool,
    /// The page: its build and its types.
    pub(super) page: bool,
    /// The stages that the change can affect and that do not run as a whole.
    pub(super) left_out: BTreeSet<&'static str>,
    /// Changed files that the table does not know, and files on which all depends.
    pub(super) all: Vec<String>,
}

/// The parts of the checkout. Each has tests of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Area {
    Core,
    CoreTests,
    StateAlone,
    Simulator,
    Crossing,
    Fuzz,
    NoStd,
    Clients,
    Pages,
    Runtimes,
    Kept,
    Node,
    Bindings,
    Package,
    Members,
    Page,
    Recipes,
    Deploy,
    Bench,
    Tools,
    Docs,
    /// Everything depends on it.
    All,
}

/// The first of these prefixes that a path has names its area.
const AREAS: [(&str, Area); 33] = [
    ("core/tests/", Area::CoreTests),
    ("core/", Area::Core),
    ("tests/state-alone/", Area::StateAlone),
    ("tests/README.md", Area::Docs),
    ("tests/tests/", Area::Crossing),
    ("tests/vectors/", Area::Crossing),
    ("tests/corpus/", Area::Crossing),
    ("tests/fuzz/", Area::Fuzz),
    ("tests/no-std/", Area::NoStd),
    ("tests/clients/", Area::Clients),
    ("tests/e2e/", Area::Pages),
    ("tests/runtimes/", Area::Runtimes),
    ("tests/kept/", Area::Kept),
    ("tests/", Area::Simulator),
    ("node/README.md", Area::Docs),
    ("node/", Area::Node),
    ("wasm/src/", Area::Bindings),
    ("wasm/tests/", Area::Bindings),
    ("wasm/Cargo.toml", Area::Bindings),
    ("wasm/", Area::Package),
    ("web-demo/members/", Area::Members),
    ("web-demo/", Area::Page),
    ("docs/recipes/", Area::Recipes),
    ("docs/", Area::Docs),
    ("deploy/", Area::Deploy),
    ("bench/js/", Area::Docs),
    ("bench/", Area::Bench),
    ("xtask/", Area::Tools),
    ("README.md", Area::Docs),
    ("ARCHITECTURE.md", Area::Docs),
    ("CONTRIBUTING.md", Area::Docs),
    ("CHANGELOG.md", Area::Docs),
    ("LICENSE-", Area::Docs),
];

fn area_of(file: &str) -> Area {
    let mut rows = AREAS.iter();
    let row = rows.find(|(prefix, _)| file.starts_with(prefix));
    row.map_or(Area::All, |(_, area)| *area)
}

/// The stages that a change of an area can affect. `check` holds for each, since this run has no lints.
fn stages_of(area: Area) -> &'static [&'static str] {
    match area {
        Area::Core => &[
            "native",
            "wasm-core",
            "wasm-node",
            "wasm-browser",
            "no-std",
            "package",
            "web",
            "size",
            "demo",
            "clients",
            "e2e",
            "runtimes",
            "interop",
        ],
        Area::CoreTests => &["wasm-core"],
        Area::StateAlone | Area::Simulator | Area::Crossing | Area::Fuzz | Area::Kept => {
            &["native", "interop"]
        }
        Area::NoStd => &["no-std"],
        Area::Clients => &["clients"],
        Area::Pages => &["e2e", "runtimes", "interop"],
        Area::Runtimes => &["runtimes", "interop"],
        Area::Node => &["native", "demo", "clients", "e2e", "runtimes", "interop"],
        Area::Bindings => &[
            "wasm-browser",
            "package",
            "web",
            "size",
            "e2e",
            "runtimes",
            "interop",
        ],
        Area::Package => &["size", "web", "demo", "e2e", "runtimes", "interop"],
        Area::Members => &["web", "e2e"],
        Area::Page => &["size", "demo", "e2e"],
        Area::Recipes => &["runtimes"],
        Area::Deploy => &["native"],
        Area::Bench | Area::Tools => &[],
        Area::Docs => &["native", "runtimes", "e2e"],
        Area::All => &super::super::stages::NAMES,
    }
}

impl Plan {
    /// The plan for these files.
    pub(super) fn of(files: &[String], graph: &Graph) -> Plan {
        let mut plan = Plan::default();
        let mut packages = BTreeSet::new();
        for file in files {
            let area = area_of(file);
            plan.format |= file.ends_with(".rs");
            plan.left_out.extend(stages_of(area));
            if file.ends_with(".rs") || file.ends_with(".toml") {
                plan.left_out.insert("check");
                // What only tests see is compiled by them, and by nothing that depends on the package.
                if area != Area::CoreTests && area != Area::Crossing {
                    packages.extend(graph.package_of(file));
                }
            }
            plan.add(area, file);
        }
        plan.checked = packages
            .iter()
            .copied()
            .chain(graph.dependents(packages.iter().copied()))
            .map(str::to_owned)
            .collect();
        if !plan.all.is_empty() {
            plan.checked.extend(graph.names().map(str::to_owned));
        }
        plan.without_repeats();
        plan
    }

    fn add(&mut self, area: Area, file: &str) {
        match area {
            Area::Core => {
                self.core = true;
                self.scenarios = true;
            }
            Area::CoreTests | Area::StateAlone => self.core = true,
            Area::Simulator => self.scenarios = true,
            Area::Crossing => self.crossing.extend(crossing_of(file)),
            Area::Node => self.add_node(file),
            Area::Bindings => self.bindings = true,
            Area::Package => self.package = true,
            Area::Members => self.members = true,
            Area::Page => self.page = true,
            Area::Deploy => {
                self.units.insert(Units::of("config", ""));
                self.suite.extend(faces::DEPLOYED.map(str::to_owned));
            }
            Area::Tools => self.tools = true,
            Area::All => self.all.push(file.to_owned()),
            Area::Fuzz
            | Area::NoStd
            | Area::Clients
            | Area::Pages
            | Area::Runtimes
            | Area::Kept
            | Area::Recipes
            | Area::Bench
            | Area::Docs => {}
        }
    }

    fn add_node(&mut self, file: &str) {
        let tests = faces::tests_of(file);
        self.units.extend(tests.units);
        self.suite.extend(tests.suite);
    }

    /// Drops what another part has in it: a type check of what tests compile, and stages that run as a whole.
    fn without_repeats(&mut self) {
        if self.scenarios {
            self.crossing.clear();
            self.left_out.insert("trace");
        }
        let compiled = [
            (self.core, "tallymesh-core"),
            (self.core, "tallymesh-state-alone"),
            (self.scenarios, "tallymesh-tests"),
            (self.tools, "xtask"),
            (self.members, "tallymesh-demo-members"),
        ];
        for (_, name) in compiled.iter().filter(|(compiled, _)| *compiled) {
            self.checked.remove(*name);
        }
        if !self.units.is_empty() && !self.suite.is_empty() {
            // The suite compiles each crate of the node.
            self.checked
                .retain(|name| !name.starts_with("tallymesh-node"));
        }
        let whole = [
            (self.tools, "tools"),
            (self.bindings, "wasm-node"),
            (self.page, "web"),
            (true, "setup"),
        ];
        for (_, name) in whole.iter().filter(|(runs, _)| *runs) {
            self.left_out.remove(*name);
        }
    }
}

/// The test file of tests/tests that a file belongs to. Files in `common` belong to tests with real processes.
fn crossing_of(file: &str) -> Option<String> {
    let name = match file.split('/').collect::<Vec<_>>()[..] {
        ["tests", "vectors", ..] => "vectors",
        ["tests", "corpus", ..] => "hostile",
        ["tests", "tests", name, ..] => name.trim_end_matches(".rs"),
        _ => return None,
    };
    let apart = faces::PROCESSES.contains(&name);
    (!apart).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::changed::graph::tests::own;

    fn plan(files: &[&str]) -> Plan {
        let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
        Plan::of(&files, &own())
    }

    fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn core_is_tested_and_the_rest_is_checked() {
        let plan = plan(&["core/src/state/join.rs"]);
        assert!(plan.core && plan.scenarios && plan.format);
        assert!(plan.units.is_empty() && plan.suite.is_empty() && !plan.package);
        for rest in [
            "tallymesh-bench",
            "tallymesh-demo-members",
            "tallymesh-node",
            "tallymesh-node-http",
            "tallymesh-wasm",
        ] {
            assert!(plan.checked.contains(rest), "{rest}");
        }
        assert!(!plan.checked.contains("tallymesh-core") && !plan.checked.contains("xtask"));
        for stage in ["check", "native", "wasm-core", "size", "e2e", "interop"] {
            assert!(plan.left_out.contains(stage), "{stage}");
        }
        assert!(!plan.left_out.contains("tools") && plan.left_out.contains("trace"));
    }

    #[test]
    fn a_face_of_the_node_runs_its_tests() {
        let route = plan(&["node/http/src/budgets.rs"]);
        assert_eq!(route.units, BTreeSet::from([Units::of("http", "")]));
        assert_eq!(route.suite, names(["budgets", "http", "leases"]));
        assert!(!route.core && !route.scenarios);
        assert!(route.checked.is_empty());
        assert!(route.left_out.contains("native") && !route.left_out.contains("wasm-core"));
        let command = plan(&["node/resp/src/protocol/counters.rs"]);
        assert_eq!(command.units, BTreeSet::from([Units::of("resp", "")]));
        assert_eq!(command.suite, names(["resp", "retries"]));
    }

    #[test]
    fn types_are_checked_of_what_no_test_compiles() {
        let plan = plan(&["node/tests/suite/peer_directory.rs"]);
        assert_eq!(plan.suite, names(["peer_directory"]));
        assert!(plan.checked.contains("tallymesh-node"));
    }

    #[test]
    fn typescript_builds_and_tests_the_package() {
        let plan = plan(&["wasm/js/replica/replica.ts"]);
        assert!(plan.package && !plan.format && !plan.bindings && !plan.core);
        assert!(plan.checked.is_empty());
        assert!(plan.left_out.contains("runtimes") && !plan.left_out.contains("check"));
    }

    #[test]
    fn documents_and_tools_run_no_build_of_others() {
        let documents = plan(&["docs/http.md", "README.md", "tests/README.md"]);
        let left_out = BTreeSet::from(["e2e", "native", "runtimes"]);
        assert_eq!(
            documents,
            Plan {
                left_out,
                ..Plan::default()
            }
        );
        let tools = plan(&["xtask/src/test.rs"]);
        assert!(tools.tools && tools.checked.is_empty());
        assert_eq!(tools.left_out, BTreeSet::from(["check"]));
    }

    #[test]
    fn a_test_file_runs_alone_unless_all_run() {
        let one = plan(&["tests/tests/rights/world.rs", "tests/vectors/frames.json"]);
        assert_eq!(one.crossing, names(["rights", "vectors"]));
        assert!(!one.scenarios && one.checked.is_empty());
        let processes = plan(&["tests/tests/common/node.rs"]);
        assert!(processes.crossing.is_empty() && processes.left_out.contains("native"));
        let all = plan(&["tests/tests/rights.rs", "tests/src/sim.rs"]);
        assert!(all.scenarios && all.crossing.is_empty());
    }

    #[test]
    fn what_all_depends_on_is_named() {
        let plan = plan(&["Cargo.lock", "new-folder/file.rs"]);
        assert_eq!(plan.all, ["Cargo.lock", "new-folder/file.rs"]);
        assert!(plan.checked.contains("tallymesh-core") && plan.checked.contains("xtask"));
        assert!(plan.left_out.contains("native") && plan.left_out.contains("no-std"));
    }

    #[test]
    fn each_file_of_the_checkout_has_an_area() {
        let repo = crate::repo::Repo::find().unwrap();
        let mut git = std::process::Command::new("git");
        git.current_dir(repo.path("")).args(["ls-files"]);
        let listed = crate::run::ask(&mut git).unwrap();
        let unknown = listed.lines().filter(|file| area_of(file) == Area::All);
        // Each package and each page may depend on these.
        let all = [
            ".cargo/config.toml",
            ".ci/run",
            ".gitignore",
            "Cargo.lock",
            "Cargo.toml",
            "deny.toml",
            "rust-toolchain.toml",
        ];
        for file in unknown {
            assert!(all.contains(&file), "{file} has no area in AREAS");
        }
    }
}
