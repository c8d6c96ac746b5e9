//! As many spaces as a node may have.

use crate::process::{Node, eventually};

const SPACES: usize = 10_000;

/// A hello is sent in so many whether anything is in them or not.
const IN_USE_MIN: usize = 64;

fn add(node: &Node, space: &str) {
    let path = format!("/v1/spaces/{space}/counters/likes/add");
    assert_eq!(node.post(&path, "").0, 200);
}

fn shows(node: &Node, space: &str, value: &str) {
    eventually(&format!("{value} in {space}"), || {
        let (_, counter) = node.get(&format!("/v1/spaces/{space}/counters/likes"));
        (counter["value"] == value).then_some(())
    });
}

#[test]
fn those_are_synced_that_are_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tallymesh.toml");
    let names: Vec<String> = (0..SPACES).map(|at| format!("\"s{at}\"")).collect();
    let text = format!("space = [{}]\n", names.join(", "));
    std::fs::write(&file, text).expect("a configuration");
    let config = file.to_str().expect("a path");
    let one = Node::start(&["--config", config]);
    add(&one, "s9999");
    let mut two = Node::start(&["--config", config, "--peer", &one.listen[0]]);
    shows(&two, "s9999", "1");
    // Nobody used it before, at either end.
    add(&two, "s5000");
    shows(&one, "s5000", "1");
    add(&one, "s5000");
    shows(&two, "s5000", "2");
    assert_eq!(two.peers().len(), IN_USE_MIN + 2);
    // What is kept is in use from the start.
    two.terminate();
    two.start_again_with(
        ["--config", config, "--peer", &one.listen[0]]
            .map(str::to_owned)
            .to_vec(),
    );
    eventually("they are linked", || {
        (two.peers().len() == IN_USE_MIN + 2).then_some(())
    });
    add(&one, "s9999");
    shows(&two, "s9999", "2");
    // More are refused, with the number that may be.
    std::fs::write(&file, format!("space = [{}, \"more\"]\n", names.join(", "))).expect("written");
    let check = one.run(&["config", "check", config], "");
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(!check.status.success(), "{check:?}");
    assert!(told.contains("limit of 10000"), "{told}");
}
