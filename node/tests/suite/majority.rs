//! A majority of members that is up decides, although others are dead for good and the rest has restarted.

use crate::members::{close, nodes, owner, peers_of, settled};
use crate::process::{Node, agent, eventually, read};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SPACE: &str = "/v1/spaces/default";

/// How long after a start of its members a majority may take. It is below the 5 s for which a member waits that
/// finds nobody. The benchmark of the mesh holds a majority to 2 s, on a machine that does nothing else.
const SOON: Duration = Duration::from_secs(4);

/// Waits until each of these nodes has noted that its next start may follow this one.
fn noted(nodes: &[&Node]) {
    eventually("the places of the members are noted", || {
        let is_noted = |node: &&Node| {
            let kept = fs::read_to_string(node.data().join("place.json")).unwrap_or_default();
            let writer = node.space()["writer"].clone();
            kept.contains(writer.as_str().expect("an id"))
        };
        nodes.iter().all(is_noted).then_some(())
    });
}

/// Members of one space, all of which have their votes.
fn members(count: usize) -> Vec<Node> {
    let nodes = nodes(count);
    let all: Vec<&Node> = nodes.iter().collect();
    close(&all);
    noted(&all);
    nodes
}

/// How a member ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    Told,
}

fn end(node: &mut Node, how: End) {
    match how {
        End::Killed => node.kill(),
        End::Told => assert!(node.terminate().success(), "{}", node.log()),
    }
}

/// Starts members that have ended again, linked to all others that run.
fn start_again(nodes: &mut [Node], ended: &[usize], dead: &[usize]) {
    let mut up: Vec<usize> = (0..nodes.len())
        .filter(|at| !ended.contains(at) && !dead.contains(at))
        .collect();
    for at in ended {
        let others: Vec<&Node> = up.iter().map(|other| &nodes[*other]).collect();
        let arguments = peers_of(&others);
        nodes[*at].start_again_with(arguments);
        up.push(*at);
    }
}

/// A write at level quorum, which waits for so long.
fn write(node: &Node, key: &str, wait_ms: u32) -> (u16, Value) {
    let request = agent()
        .post(format!("{}{SPACE}/counters/{key}/add", node.url))
        .header("tallymesh-level", "quorum")
        .header("tallymesh-wait-ms", wait_ms.to_string());
    let body = json!({ "by": 1 }).to_string();
    read(request.send(body).expect("an answer"))
}

/// Writes at level quorum until that is acknowledged, and returns how long it took.
fn writes(node: &Node, key: &str) -> Duration {
    let begun = Instant::now();
    eventually("a write at level quorum", || {
        let (status, answer) = write(node, key, 500);
        if status != 200 {
            let late = begun.elapsed() > Duration::from_secs(20);
            assert!(!late, "{answer}\n{}", node.log());
        }
        (status == 200).then_some(())
    });
    begun.elapsed()
}

/// Uses what a member holds until it may, and returns how long that took: units of a budget, or a number. Until then
/// it is asked to try again: it must not be told that nothing is left.
fn uses(node: &Node, path: &str, body: &str) -> Duration {
    let begun = Instant::now();
    eventually("the use of what a member holds", || {
        let (status, answer) = node.post(&format!("{SPACE}/{path}"), body);
        if status != 200 {
            assert_eq!(answer["code"], "catching_up", "{answer}");
            let late = begun.elapsed() > Duration::from_secs(20);
            assert!(!late, "{answer}\n{}", node.log());
        }
        (status == 200).then_some(())
    });
    begun.elapsed()
}

/// Changes the members, and returns how long that took.
fn change(node: &Node, path: &str, owner: &str) -> Duration {
    let begun = Instant::now();
    let body = json!({ "owner": owner, "wait_ms": 20_000 }).to_string();
    let (status, answer) = node.post(&format!("{SPACE}/members/{path}"), &body);
    assert_eq!(status, 200, "{path}: {answer}\n{}", node.log());
    begun.elapsed()
}

fn soon(what: &str, took: Duration) {
    println!("{what}: {took:?}");
    assert!(took < SOON, "{what} took {took:?}");
}

/// One of three is dead for good, and another one restarts. Everything goes through, and a new member takes the
/// dead one's place.
fn one_dead_and_one_restarted(how: End) {
    let mut nodes = members(3);
    nodes[0].add("likes", 1);
    let ten = r#"{"amount":10}"#;
    uses(&nodes[1], "budgets/gift/mint", ten);
    uses(&nodes[1], "sequences/visits", "");
    uses(&nodes[1], "sequences/visits/next", "");
    let dead = owner(&nodes[2]);
    nodes[2].kill();
    end(&mut nodes[1], how);
    start_again(&mut nodes, &[1], &[2]);
    let begun = Instant::now();
    uses(&nodes[1], "budgets/gift/spend", ten);
    soon("a spend of what it held", begun.elapsed());
    uses(&nodes[1], "sequences/visits/next", "");
    soon("a number of its sequence", begun.elapsed());
    writes(&nodes[1], "written");
    soon("a quorum write at the restarted member", begun.elapsed());
    soon("a quorum write at the other", writes(&nodes[0], "written"));
    soon("the removal", change(&nodes[0], "remove", &dead));
    // The replacement of its disk is a new node with a key of its own.
    let new = Node::start(
        &peers_of(&[&nodes[0], &nodes[1]])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    eventually("it has the state", || {
        (new.value("likes") == Some(1)).then_some(())
    });
    soon("the admission", change(&nodes[1], "add", &owner(&new)));
    settled(&[&nodes[0], &nodes[1], &new]);
    soon("a quorum write at the new member", writes(&new, "written"));
}

#[test]
fn one_of_three_is_dead_and_another_one_was_killed() {
    one_dead_and_one_restarted(End::Killed);
}

#[test]
fn one_of_three_is_dead_and_another_one_was_told_to_stop() {
    one_dead_and_one_restarted(End::Told);
}

/// Both that are left restart, at once and one after the other.
#[test]
fn one_of_three_is_dead_and_both_others_restart() {
    let mut nodes = members(3);
    nodes[0].kill();
    for how in [End::Killed, End::Told] {
        for at in [1, 2] {
            end(&mut nodes[at], how);
        }
        start_again(&mut nodes, &[2, 1], &[0]);
        let begun = Instant::now();
        writes(&nodes[1], "written");
        soon("a quorum write", begun.elapsed());
        for at in [1, 2] {
            end(&mut nodes[at], how);
            start_again(&mut nodes, &[at], &[0]);
            soon(
                "a quorum write after one restart",
                writes(&nodes[at], "written"),
            );
        }
    }
}

/// A guest of the member that is left is gone without a word, and had not seen the latest changes. The restarted
/// member must not wait until the guest is given up.
#[test]
fn a_guest_that_is_gone_does_not_hold_up_a_restarted_member() {
    let mut nodes = members(3);
    let mut guest = Node::start(
        &peers_of(&[&nodes[0]])
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    guest.add("likes", 1);
    let home = eventually("the guest is attached", || {
        let is_home = |node: &Node| {
            let members = node.get(&format!("{SPACE}/members")).1;
            members["attached_count"] == 1
        };
        nodes.iter().position(is_home)
    });
    for _ in 0..5 {
        nodes[home].add("others", 1);
        guest.add("likes", 1);
    }
    guest.kill();
    let (dead, restarted) = ((home + 1) % 3, (home + 2) % 3);
    nodes[dead].kill();
    end(&mut nodes[restarted], End::Killed);
    start_again(&mut nodes, &[restarted], &[dead]);
    soon("a quorum write", writes(&nodes[restarted], "written"));
}

#[test]
fn two_of_five_are_dead_and_the_others_restart() {
    let mut nodes = members(5);
    let dead = [owner(&nodes[1]), owner(&nodes[3])];
    nodes[1].kill();
    nodes[3].kill();
    for at in [4, 0, 2] {
        end(&mut nodes[at], End::Killed);
        start_again(&mut nodes, &[at], &[1, 3]);
        soon(
            "a quorum write after one restart",
            writes(&nodes[at], "written"),
        );
    }
    for at in [0, 2, 4] {
        end(&mut nodes[at], End::Told);
    }
    start_again(&mut nodes, &[2, 4, 0], &[1, 3]);
    // None of them has announced itself yet.
    for at in [2, 4, 0] {
        nodes[at].add("early", 1);
    }
    let begun = Instant::now();
    writes(&nodes[4], "written");
    soon(
        "a quorum write after all restarted at once",
        begun.elapsed(),
    );
    for owner in &dead {
        soon("a removal", change(&nodes[2], "remove", owner));
    }
    settled(&[&nodes[0], &nodes[2], &nodes[4]]);
}

/// The member that has answered a change is lost at once. The two others are a majority, and decide. One of them is new
/// by the change, for the first time or again.
#[test]
fn the_member_that_answered_a_change_is_lost_at_once() {
    for was_member in [true, false] {
        let mut nodes = nodes(3);
        let at_first = if was_member { 3 } else { 2 };
        let first: Vec<&Node> = nodes.iter().take(at_first).collect();
        close(&first);
        noted(&first);
        let (asked, new) = (owner(&nodes[0]), owner(&nodes[2]));
        if was_member {
            change(&nodes[0], "remove", &new);
        }
        change(&nodes[0], "add", &new);
        nodes[0].kill();
        soon("a quorum write", writes(&nodes[1], "written"));
        soon("the removal", change(&nodes[2], "remove", &asked));
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

/// Whether a member that was put back says so, and does not count for a write before a third one is there.
fn is_doubted(nodes: &[Node], at: usize) {
    nodes[at].has_logged(&["put back"]);
    let (status, answer) = write(&nodes[at], "doubted", 1_500);
    assert_eq!(status, 503, "{answer}");
}

/// An older copy of a data folder proves nothing, however it was put back: as another folder, or over the
/// files of this one.
#[test]
fn an_older_copy_in_place_waits_for_the_others() {
    let mut nodes = members(3);
    nodes[1].add("likes", 1);
    assert!(nodes[1].terminate().success());
    let data = nodes[1].data();
    let copied = data.with_file_name("copied");
    copy(&data, &copied);
    start_again(&mut nodes, &[1], &[]);
    settled(&nodes.iter().collect::<Vec<_>>());
    nodes[2].kill();
    writes(&nodes[1], "written");

    nodes[1].kill();
    let newer = data.with_file_name("newer");
    copy(&data, &newer);
    fs::remove_dir_all(&data).expect("removed");
    copy(&copied, &data);
    start_again(&mut nodes, &[1], &[2]);
    is_doubted(&nodes, 1);

    // The same over the files that are there, which keep their identity.
    nodes[1].kill();
    fs::remove_dir_all(&data).expect("removed");
    copy(&newer, &data);
    copy(&copied.join("."), &data);
    start_again(&mut nodes, &[1], &[2]);
    is_doubted(&nodes, 1);

    // By its lock file it is a copy, whose original may run. The operator knows that it does not.
    let (status, answer) = nodes[1].post("/v1/adopt", "{}");
    assert_eq!(
        (status, &answer["adopted"]),
        (200, &json!(true)),
        "{answer}"
    );
    // With the third member it has its vote again.
    let other = peers_of(&[&nodes[0], &nodes[1]]);
    nodes[2].start_again_with(other);
    settled(&nodes.iter().collect::<Vec<_>>());
    writes(&nodes[1], "written");
    noted(&[&nodes[1]]);
    // And the next restart is one in place.
    nodes[2].kill();
    nodes[1].kill();
    start_again(&mut nodes, &[1], &[2]);
    let begun = Instant::now();
    writes(&nodes[1], "written");
    soon("a quorum write", begun.elapsed());
}

/// The end of the log alone is put back. The lock file has the number of the last commit.
#[test]
fn a_log_that_was_put_back_alone_is_noticed() {
    let mut nodes = members(3);
    assert!(nodes[1].terminate().success());
    let data = nodes[1].data();
    let copied = data.with_file_name("copied");
    copy(&data, &copied);
    start_again(&mut nodes, &[1], &[]);
    settled(&nodes.iter().collect::<Vec<_>>());
    nodes[2].kill();
    nodes[1].add("likes", 1);
    nodes[1].kill();
    for entry in fs::read_dir(&copied).expect("a folder") {
        let name = entry.expect("a file").file_name();
        if name.to_string_lossy().starts_with("log-") {
            fs::copy(copied.join(&name), data.join(&name)).expect("copied");
        }
    }
    start_again(&mut nodes, &[1], &[2]);
    is_doubted(&nodes, 1);
}

/// The short form of a member's key, as texts have it.
fn short(node: &str) -> String {
    format!("{}…", &node[..8])
}

/// Waits until the doctor at a node says that no majority is there, and returns what it said and how long that took.
fn missed(node: &Node) -> (String, Duration) {
    let begun = Instant::now();
    let all = eventually("no majority is there", || {
        let told = node.run(&["doctor"], "");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let is_told = told.contains("1 of 3 members are there") && told.contains("; not there: ");
        is_told.then_some(told)
    });
    (all, begun.elapsed())
}

/// Two of three are dead, before the third one restarts or without that. The doctor says so soon. What the third one
/// held before its restart waits for a majority, and the refusal names whom it does not reach.
#[test]
fn two_of_three_are_dead_and_the_third_one_names_them() {
    let mut nodes = members(3);
    uses(&nodes[1], "budgets/gift/mint", r#"{"amount":10}"#);
    let dead = [owner(&nodes[0]), owner(&nodes[2])];
    nodes[0].kill();
    nodes[2].kill();
    let is_soon = |took: Duration| assert!(took < Duration::from_secs(9), "{took:?}");
    let (all, took) = missed(&nodes[1]);
    is_soon(took);
    for owner in &dead {
        assert!(all.contains(&format!("{} at /ip4/", short(owner))), "{all}");
    }
    let (status, answer) = write(&nodes[1], "written", 300);
    assert_eq!(
        (status, &answer["code"]),
        (503, &json!("level_not_reached"))
    );
    let detail = answer["detail"].as_str().expect("a text");
    for owner in &dead {
        assert!(
            detail.contains(&format!("{} at /ip4/", short(owner))),
            "{detail}"
        );
        assert!(!detail.contains(owner), "{detail}");
        let members = answer["members"].as_array().expect("keys");
        assert!(members.contains(&json!(owner)), "{answer}");
    }
    end(&mut nodes[1], End::Killed);
    start_again(&mut nodes, &[1], &[0, 2]);
    let begun = Instant::now();
    let (all, _) = missed(&nodes[1]);
    is_soon(begun.elapsed());
    assert!(!all.contains("members remove"), "{all}");
    let answer = eventually("it says that to wait does not help", || {
        let (status, answer) =
            nodes[1].post(&format!("{SPACE}/budgets/gift/spend"), r#"{"amount":1}"#);
        assert_eq!(
            (status, &answer["code"]),
            (503, &json!("catching_up")),
            "{answer}"
        );
        let detail = answer["detail"].as_str().expect("a text");
        detail
            .contains("to wait does not help")
            .then(|| answer.clone())
    });
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let detail = answer["detail"].as_str().expect("a text");
    for owner in &dead {
        assert!(detail.contains(&short(owner)), "{detail}");
        let members = answer["members"].as_array().expect("keys");
        assert!(members.contains(&json!(owner)), "{answer}");
    }
    assert!(detail.contains("members force"), "{detail}");
}
