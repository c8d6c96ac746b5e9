//! Disks that are not what they were: lost tails, backups, copies, empty ones. Every node must come to
//! the right number, whatever its peers know of its former starts.

use crate::members::{close, peers_of};
use crate::network::figure;
use crate::process::{Node, eventually, kept_address, up};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Waits until all nodes hold the same, and this of the counter.
fn converged(nodes: &[&Node], key: &str, value: i128) {
    eventually("all nodes hold the same", || {
        let held = |node: &Node| {
            let space = node.space();
            (space["digest"].clone(), space["contents"].clone())
        };
        let first = held(nodes[0]);
        let same = nodes.iter().all(|node| held(node) == first);
        let there = nodes.iter().all(|node| node.value(key) == Some(value));
        (same && there).then_some(())
    });
}

/// Copies the files of a data folder over those of another.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make the folder");
    for file in fs::read_dir(from).expect("read the folder") {
        let file = file.expect("an entry").path();
        let name = file.file_name().expect("a name");
        fs::copy(&file, to.join(name)).expect("copy a file");
    }
}

fn without_faults(nodes: &[&Node]) {
    for node in nodes {
        let space = node.space();
        assert_eq!(space["faults"], 0, "{}", node.log());
        assert_eq!(space["renewals"], 0, "{}", node.log());
    }
}

/// A node, and another that is linked to it and keeps it for its peer.
fn pair() -> (Node, Node) {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    (one, two)
}

/// A node, another one that has counted 5 with it and stopped, and a third one that is a copy of that.
fn copied() -> (Node, Node, Node) {
    let (peer, mut node) = pair();
    node.add("likes", 5);
    converged(&[&peer, &node], "likes", 5);
    assert!(node.terminate().success(), "{}", node.log());
    let mut copied = Node::start(&["--peer", &peer.listen[0]]);
    assert!(copied.terminate().success(), "{}", copied.log());
    copy(&node.data(), &copied.data());
    (peer, node, copied)
}

/// The machine loses power, and the disk what it had acknowledged as flushed: the file is what it was
/// some time before, in the middle of its life.
#[test]
fn a_power_cut_that_takes_the_tail_of_the_log() {
    let (peer, mut node) = pair();
    node.add("likes", 5);
    converged(&[&peer, &node], "likes", 5);
    let image = tempfile::tempdir().expect("a folder");
    copy(&node.data(), image.path());
    node.add("likes", 3);
    node.add("likes", 3);
    converged(&[&peer, &node], "likes", 11);
    node.kill();
    copy(image.path(), &node.data());
    node.start_again();
    node.add("likes", 1);
    converged(&[&peer, &node], "likes", 12);
    // What the lost start had made is not made again under its clocks.
    peer.add("likes", 100);
    node.add("likes", 1);
    converged(&[&peer, &node], "likes", 113);
    without_faults(&[&peer, &node]);
}

#[test]
fn an_old_backup_that_is_put_back_while_peers_know_more() {
    let (peer, mut node) = pair();
    let backup = tempfile::tempdir().expect("a folder");
    node.add("likes", 5);
    assert!(node.terminate().success(), "{}", node.log());
    copy(&node.data(), backup.path());
    for round in 0..3 {
        node.start_again();
        node.add("likes", 10);
        converged(&[&peer, &node], "likes", 5 + 11 * round + 10);
        assert!(node.terminate().success(), "{}", node.log());
        copy(backup.path(), &node.data());
        node.start_again();
        node.add("likes", 1);
        converged(&[&peer, &node], "likes", 5 + 11 * (round + 1));
        assert!(node.terminate().success(), "{}", node.log());
    }
    node.start_again();
    converged(&[&peer, &node], "likes", 38);
    without_faults(&[&peer, &node]);
}

/// Both have the same key and the same past, and go on with writer ids of their own.
#[test]
fn a_folder_that_is_copied_and_both_run() {
    let (peer, mut node, mut twin) = copied();
    node.start_again();
    twin.start_again();
    assert_ne!(node.space()["writer"], twin.space()["writer"]);
    node.add("likes", 10);
    twin.add("likes", 100);
    // Of two with one key a peer keeps one link. The copy has it when its original is away.
    eventually("the peer has what the original added", || {
        let value = peer.value("likes");
        [15, 115].map(Some).contains(&value).then_some(())
    });
    assert!(node.terminate().success(), "{}", node.log());
    converged(&[&peer, &twin], "likes", 115);
    node.start_again();
    converged(&[&peer, &node], "likes", 115);
    without_faults(&[&peer, &node, &twin]);
}

/// The last start of a node hangs, so that its connection stays, and a next one connects. Gossipsub tells a
/// peer what it listens to on the first connection alone.
#[test]
fn pushes_come_of_a_start_that_connects_while_the_last_one_is_connected() {
    let (peer, mut node, mut next) = copied();
    node.start_again();
    node.add("likes", 5);
    converged(&[&peer, &node], "likes", 10);
    let mut hang = Command::new("kill");
    hang.args(["-STOP", &node.pid().to_string()]);
    assert!(hang.status().expect("kill").success());
    next.start_again();
    next.add("likes", 5);
    converged(&[&peer, &next], "likes", 15);
    let fresh = || figure(&peer.url, "tallymesh_network_pushes_fresh_total");
    let before = fresh();
    eventually("a push came", || {
        next.add("likes", 1);
        (fresh() > before).then_some(())
    });
}

#[test]
fn a_node_that_lost_its_disk() {
    let (peer, mut node) = pair();
    node.add("likes", 5);
    converged(&[&peer, &node], "likes", 5);
    node.kill();
    fs::remove_dir_all(node.data()).expect("lose the disk");
    node.start_again();
    node.add("likes", 1);
    converged(&[&peer, &node], "likes", 6);
    without_faults(&[&peer, &node]);
}

/// A file that was cut in half is refused with words that help, and an empty folder does.
#[test]
fn a_file_that_is_cut_short_is_refused_with_advice() {
    let (peer, mut node) = pair();
    node.add("likes", 5);
    converged(&[&peer, &node], "likes", 5);
    node.kill();
    for file in fs::read_dir(node.data()).expect("read the folder") {
        let path = file.expect("an entry").path();
        let length = fs::metadata(&path).expect("a file").len();
        let file = fs::OpenOptions::new().write(true).open(&path);
        file.expect("open").set_len(length / 2).expect("cut");
    }
    let output = up(&node.data()).args(["--http", "127.0.0.1:0"]).output();
    let output = output.expect("run");
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(!words.contains("panicked"), "{words}");
    assert!(words.contains("empty"), "{words}");
    fs::remove_dir_all(node.data()).expect("empty the folder");
    node.start_again();
    converged(&[&peer, &node], "likes", 5);
}

/// No member is there that the others could wait for. Each one waits only until it has caught up with the
/// others that start.
#[test]
fn members_that_all_start_at_once_are_ready_at_once() {
    /// Below the 5 s for which a member waits that finds nobody.
    const READY_MAX: Duration = Duration::from_secs(3);
    let mut all: Vec<Node> = Vec::new();
    for _ in 0..3 {
        let own = kept_address();
        let peers = peers_of(&all.iter().collect::<Vec<_>>());
        let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
        all.push(Node::start(&[&["--listen", &own], &peers[..]].concat()));
    }
    close(&all.iter().collect::<Vec<_>>());
    for node in &all {
        node.add("likes", 1);
    }
    converged(&all.iter().collect::<Vec<_>>(), "likes", 3);
    // They restart where the others look for them.
    let places: Vec<String> = all.iter().map(|it| it.listen[0].clone()).collect();
    for (at, node) in all.iter_mut().enumerate() {
        node.kill();
        let others = (0..3).filter(|it| *it != at).map(|it| places[it].clone());
        let own = places[at].split("/p2p/").next().expect("an address");
        let mut arguments = vec!["--listen".to_owned(), own.to_owned(), "--peer".to_owned()];
        arguments.extend(others);
        node.arguments_are(arguments);
    }
    let begun = thread::scope(|scope| {
        let starts: Vec<_> = all
            .iter_mut()
            .map(|node| scope.spawn(|| node.start_again()))
            .collect();
        starts
            .into_iter()
            .for_each(|it| it.join().expect("it starts"));
        Instant::now()
    });
    eventually("all are ready", || {
        let ready = all.iter().all(|node| node.get("/readyz").0 == 200);
        ready.then_some(())
    });
    let took = begun.elapsed();
    assert!(took < READY_MAX, "{took:?}\n{}", all[0].log());
    println!("all are ready after {took:?}");
}
