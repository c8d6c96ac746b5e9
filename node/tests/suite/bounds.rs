//! Nodes whose spaces hold as many writers as may be, or more: they start, are copied and are put back.

use crate::members::peers_of;
use crate::process::{Node, eventually};
use serde_json::Value;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use tallymesh_core::Space;
use tallymesh_core::bounds::{WRITERS_MAX, WRITERS_TOLD_MAX};
use tallymesh_node::store::{Kind, Log, Record, Store};

const ADD: &str = "/v1/spaces/default/counters/k/add";

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A record of an open space: of each of these writers an add of 1 to the counter `k`.
fn made(writers: Range<usize>) -> Vec<u8> {
    let count = writers.len() as u64;
    let mut out = Vec::new();
    put_varint(&mut out, count);
    for writer in writers {
        out.extend_from_slice(&(writer as u128).to_be_bytes());
        out.extend_from_slice(&[0, 1]); // clocks 1 to 1
    }
    out.extend_from_slice(&[1, 0, 1, b'k']);
    put_varint(&mut out, count);
    for _ in 0..count {
        out.extend_from_slice(&[0, 0, 0, 1]); // the next writer, all keys, the first clock, a total of 1
    }
    out.extend_from_slice(&[0, 0]);
    out
}

/// Makes a data folder with these records of the default space.
fn fill(folder: &Path, records: &[Vec<u8>]) {
    let mut log = Log::open(folder, &mut |_| {}).expect("a new folder");
    for bytes in records {
        let (space, kind, bytes) = (Space::default(), Kind::Change, bytes.clone());
        log.commit(&[Record { space, kind, bytes }])
            .expect("commit");
    }
}

/// Runs a command that needs no node.
fn run(arguments: &[&str], data: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(arguments)
        .arg("--json")
        .arg("--data")
        .arg(data)
        .output()
        .expect("run the command")
}

fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    said["code"].as_str().expect("a code").to_owned()
}

#[test]
fn a_folder_that_an_earlier_version_filled_opens_and_is_copied() {
    let others = WRITERS_MAX + 25;
    let value = Some(others as i128 + 5);
    let records = [made(0..others / 2), made(others / 2..others)];
    let mut node = Node::start_on(&[], |data| fill(data, &records));
    node.add("k", 5);
    assert_eq!(node.value("k"), value);
    let place = tempfile::tempdir().expect("temporary folder");
    let copy = place.path().join("copy");
    done(&run(
        &["backup", copy.to_str().expect("text")],
        &node.data(),
    ));
    done(&run(&["check"], &copy));
    node.kill();
    node.start_again();
    assert_eq!(node.value("k"), value);
    node.kill();
    fs::remove_dir_all(node.data()).expect("remove the folder");
    done(&run(
        &["restore", copy.to_str().expect("text")],
        &node.data(),
    ));
    node.start_again();
    assert_eq!(node.value("k"), value);
    node.add("k", 1);
}

#[test]
fn a_start_that_finds_no_place_serves_reads_and_refuses_to_write() {
    let mut node = Node::start_on(&[], |data| fill(data, &[made(0..WRITERS_TOLD_MAX)]));
    let value = Some(WRITERS_TOLD_MAX as i128);
    for _ in 0..2 {
        let (status, answer) = node.post(ADD, "{\"by\":1}");
        assert_eq!(
            (status, &answer["code"]),
            (507, &"writers_full".into()),
            "{answer}"
        );
        let (status, answer) = node.delete("/v1/spaces/default/counters/k");
        assert_eq!(
            (status, &answer["code"]),
            (507, &"writers_full".into()),
            "{answer}"
        );
        assert_eq!(node.value("k"), value);
        assert_eq!(node.space()["counters"], 1);
        node.kill();
        done(&run(&["check"], &node.data()));
        node.start_again();
    }
}

#[test]
fn two_nodes_of_a_space_that_guests_filled_count_on_over_restarts() {
    let filled = WRITERS_MAX - 1;
    let mut one = Node::start_on(&[], |data| fill(data, &[made(0..filled)]));
    let mut two = Node::start(&[]);
    let mut value = filled as i128;
    for _ in 0..2 {
        two.kill();
        let arguments = peers_of(&[&one]);
        two.start_again_with(arguments);
        let comes = |node: &Node, value: i128| {
            eventually("all is here", || {
                (node.value("k") == Some(value)).then_some(())
            });
        };
        comes(&two, value);
        one.add("k", 1);
        two.add("k", 1);
        value += 2;
        comes(&one, value);
        comes(&two, value);
        one.kill();
        one.start_again();
        comes(&one, value);
    }
    for node in [&mut one, &mut two] {
        node.kill();
        done(&run(&["check"], &node.data()));
    }
}

#[test]
fn a_folder_with_which_no_node_starts_is_not_copied() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    fill(&data, &[made(0..3), b"no message".to_vec()]);
    let to = copy.to_str().expect("text");
    assert_eq!(refused(&run(&["check"], &data)), "store_record");
    assert_eq!(refused(&run(&["backup", to], &data)), "store_record");
    let from = data.to_str().expect("text");
    assert_eq!(refused(&run(&["restore", from], &copy)), "store_record");
    assert!(!copy.exists() && !folder.path().join("copy.part").exists());
    // Nor one whose other files a start refuses.
    let other = folder.path().join("other");
    fill(&other, &[made(0..3)]);
    fs::write(other.join("writers.json"), "{}").expect("write");
    assert_eq!(refused(&run(&["check"], &other)), "store_damaged");
    assert_eq!(refused(&run(&["backup", to], &other)), "store_damaged");
}
