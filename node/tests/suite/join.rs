//! Nodes that ask others for tickets, and how one joins with one.

use crate::liar::Liar;
use crate::members::{close, owner};
use crate::network::{self, refused};
use crate::process::{Node, eventually, up};
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::time::Duration;

/// The arguments of a node that asks for tickets on loopback.
pub(crate) const CLOSED: &str = "--listen-tickets";

/// What a command printed.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn invite(node: &Node, more: &[&str]) -> String {
    printed(&node.run(&[&["invite", "--role", "member"], more].concat(), ""))
}

fn id(node: &Node) -> String {
    printed(&node.run(&["id"], ""))
}

/// The owners of the members of a space, as a node knows them.
fn members(node: &Node, space: &str) -> usize {
    let answer = node.get(&format!("/v1/spaces/{space}/members")).1;
    answer["members"].as_array().map_or(0, Vec::len)
}

/// Whether two nodes show the same value, which is not 0, of a counter of the space `default`.
fn agree(one: &Node, other: &Node, key: &str) -> Option<()> {
    let values = [one, other].map(|node| node.value(key));
    (values[0] == values[1] && values[0].is_some()).then_some(())
}

#[test]
fn whoever_joins_with_a_members_ticket_is_made_a_member() {
    let one = Node::start(&[CLOSED]);
    close(&[&one]);
    one.add("likes", 3);
    let ticket = invite(&one, &[]);
    let mut two = Node::start(&[CLOSED, "--join", &ticket]);
    two.add("likes", 4);
    for node in [&one, &two] {
        eventually("both are members", || {
            (members(node, "default") == 2).then_some(())
        });
        eventually("both show the sum", || {
            (node.value("likes") == Some(7)).then_some(())
        });
    }
    // A member needs no ticket, and a third node is let in by either.
    let peer = one.listen[0].clone();
    two.terminate();
    two.start_again_with(vec![CLOSED.to_owned(), "--peer".to_owned(), peer]);
    two.add("views", 1);
    eventually("it is back", || agree(&one, &two, "views"));
    let ticket = invite(&two, &["--holder", &"11".repeat(32)]);
    let foreign = up(&tempfile::tempdir().expect("a folder").path().join("data"))
        .args(["--http", "127.0.0.1:0", "--join", &ticket])
        .output()
        .expect("run");
    let text = String::from_utf8_lossy(&foreign.stderr).into_owned();
    assert!(
        !foreign.status.success() && text.contains("is for the node 1111"),
        "{text}"
    );
    let three = Node::start(&[CLOSED, "--join", &invite(&two, &[])]);
    eventually("all are members", || {
        (members(&one, "default") == 3).then_some(())
    });
    eventually("it shows what they do", || agree(&one, &three, "likes"));
}

#[test]
fn a_stranger_is_told_nothing_and_changes_nothing() {
    let mut one = Node::start(&[CLOSED]);
    one.add("likes", 3);
    let stranger = Node::start(&["--peer", &one.listen[0]]);
    stranger.add("likes", 4);
    eventually("its frames are refused", || {
        (refused(&one.url, "stranger") >= 1.0).then_some(())
    });
    assert_eq!(one.value("likes"), Some(3));
    assert_eq!(stranger.value("likes"), Some(4));
    assert_eq!(one.peers().len(), 0, "it takes part in nothing");
    // A node that the operators of both named with its key is none.
    let mut friend = Node::start(&[CLOSED, "--peer", &one.listen[0]]);
    friend.add("likes", 5);
    let named = format!("/ip4/127.0.0.1/tcp/1/p2p/{}", friend.peer_id);
    one.terminate();
    one.start_again_with(vec![CLOSED.into(), "--peer".into(), named]);
    friend.terminate();
    friend.start_again_with(vec![CLOSED.into(), "--peer".into(), one.listen[0].clone()]);
    eventually("they count together", || agree(&one, &friend, "likes"));
    assert_eq!(one.value("likes"), Some(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_cut_off() {
    let (node, url) = network::start(|config| {
        config.gossip.open = false;
        config.gossip.limits.hello_timeout = Duration::from_millis(100);
    })
    .await;
    tokio::task::block_in_place(|| {
        let liar = Liar::meet(&node.listen()[0].to_string(), Vec::new());
        eventually("it is cut off", || {
            (refused(&url, "stranger") >= 1.0 && !liar.is_connected()).then_some(())
        });
    });
}

/// Also where it has shown no ticket.
#[test]
fn a_member_that_is_taken_out_is_cut_off() {
    let mut one = Node::start(&[CLOSED]);
    close(&[&one]);
    let ticket = invite(&one, &[]);
    let mut two = Node::start(&[CLOSED, "--join", &ticket]);
    for node in [&one, &two] {
        eventually("both are members", || {
            (members(node, "default") == 2).then_some(())
        });
    }
    two.terminate();
    one.terminate();
    one.start_again();
    let peer = one.listen[0].clone();
    two.start_again_with(vec![CLOSED.to_owned(), "--peer".to_owned(), peer]);
    two.add("likes", 1);
    eventually("it is a member yet", || agree(&one, &two, "likes"));
    // It would join again.
    let shown = printed(&one.run(&["ticket", &ticket, "--json"], ""));
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let revoked = shown["id"].as_str().expect("an id");
    printed(&one.run(&["revoke", revoked], ""));
    let remove = json!({"owner": owner(&two), "wait_ms": 20_000}).to_string();
    let (status, answer) = one.post("/v1/spaces/default/members/remove", &remove);
    assert_eq!(status, 200, "{answer}");
    eventually("it is cut off", || {
        let is_there = one.peers().iter().any(|row| row["peer"] == two.peer_id);
        (!is_there).then_some(())
    });
}

#[test]
fn a_ticket_that_is_worth_nothing_lets_nobody_in() {
    let one = Node::start(&[CLOSED, "--space", "default", "other"]);
    close(&[&one]);
    let signed = Node::start(&[]);
    // It is signed by a node that is no member, and names the addresses of one.
    let body = json!({"role": "member", "spaces": ["default"]}).to_string();
    let foreign = signed.post("/v1/tickets", &body).1;
    let foreign = foreign["ticket"].as_str().expect("a ticket");
    let joiner = Node::start(&[CLOSED, "--peer", &one.listen[0], "--join", foreign]);
    eventually("it dials", || {
        (refused(&one.url, "stranger") >= 1.0).then_some(())
    });
    // It is shown to nobody but its issuer.
    assert_eq!(refused(&one.url, "ticket"), 0.0);
    assert_eq!(members(&one, "default"), 1);
    drop(joiner);
}

#[test]
fn a_ticket_that_was_refused_at_the_start_is_not_kept() {
    let one = Node::start(&[CLOSED]);
    close(&[&one]);
    let of_default = invite(&one, &[]);
    let around = tempfile::tempdir().expect("temporary folder");
    let data = around.path().join("data");
    // It opens no space that this ticket is for.
    let refused = up(&data)
        .args(["--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"])
        .args(["--space", "shop", "--join", &of_default])
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("does not open"), "{said}");
    let kept = std::fs::read_to_string(data.join("tickets.json")).unwrap_or_default();
    assert!(!kept.contains(&of_default), "{kept}");
}

#[test]
fn init_makes_a_mesh_and_up_serves_it() {
    let mut node = Node::start_on(&[CLOSED, "--space", "shop", "stock"], |data| {
        let init = |json: bool| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tallymesh"));
            command
                .args(["init", "--space", "shop", "stock", "--data"])
                .arg(data);
            if json {
                command.arg("--json");
            }
            command.output().expect("run")
        };
        let made: Value = serde_json::from_str(&printed(&init(true))).expect("JSON");
        assert_eq!(made["spaces"], json!(["shop", "stock"]));
        let again = init(false);
        assert!(!again.status.success(), "{again:?}");
    });
    // Its next steps are about the folder that was named.
    let around = tempfile::tempdir().expect("temporary folder");
    let data = around.path().join("our data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallymesh"));
    let told = command.args(["init", "--data"]).arg(&data).output();
    let told = String::from_utf8_lossy(&told.expect("run").stderr).into_owned();
    for word in ["up", "invite"] {
        let step = format!("`tallymesh {word} --data '{}' ", data.display());
        assert!(told.contains(&step), "{told}");
    }
    for space in ["shop", "stock"] {
        assert_eq!(members(&node, space), 1, "{space}");
    }
    let alone = Node::start_on(&[CLOSED], |data| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallymesh"));
        let _ = printed(
            &command
                .arg("init")
                .arg("--data")
                .arg(data)
                .output()
                .expect("run"),
        );
    });
    for log in [node.log(), alone.log()] {
        assert!(!log.contains("WARN"), "all is as it was left: {log}");
    }
    // A node without a word about spaces opens those of its ticket, also when it starts again.
    let ticket = invite(&node, &["--space", "shop"]);
    let mut other = Node::start(&[CLOSED, "--join", &ticket]);
    for again in [false, true] {
        if again {
            other.terminate();
            other.start_again_with(vec![CLOSED.to_owned()]);
        }
        eventually("it is a member", || {
            (members(&other, "shop") == 2).then_some(())
        });
        assert_eq!(other.get("/v1/spaces/stock/counters").0, 404);
    }
    assert_ne!(id(&node), id(&other));
    // Of a space that the other has no right in, it hears nothing.
    assert_eq!(node.post("/v1/spaces/stock/counters/secret/add", "").0, 200);
    let only = Node::start(&[CLOSED, "--space", "shop", "stock", "--join", &ticket]);
    eventually("it is let in", || {
        (members(&only, "shop") == 3).then_some(())
    });
    assert_eq!(only.get("/v1/spaces/stock/counters/secret").0, 404);
    assert_eq!(members(&only, "stock"), 0);
    node.terminate();
}
