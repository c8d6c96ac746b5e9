//! Each test that docs/reports/proofs.md names must exist.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The text of all Rust files below a folder.
fn sources(folder: &Path, text: &mut String) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}

#[test]
fn each_case_is_proved_by_tests_that_are_there() {
    let root = Path::new(ROOT);
    let document = fs::read_to_string(root.join("docs/reports/proofs.md")).unwrap();
    let mut text = String::new();
    for folder in ["core/src", "core/tests", "node/tests", "tests/tests"] {
        sources(&root.join(folder), &mut text);
    }
    let rows = document.lines().filter(|line| line.starts_with("| "));
    for row in rows.skip(1) {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let names = names.into_iter().filter(|name| name.contains('_'));
        let missing: Vec<&str> = names
            .clone()
            .filter(|name| !text.contains(&format!("fn {name}(")))
            .collect();
        assert!(missing.is_empty(), "{missing:?} of {row}");
        assert!(names.count() > 0, "{row} names no test");
    }
}
