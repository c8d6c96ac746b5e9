//! Members that are removed stay out, whatever tickets they have from before.

use crate::join::CLOSED;
use crate::members::{close, owner, settled};
use crate::network::refused;
use crate::process::{Node, eventually, kept_address};
use serde_json::json;

const SPACE: &str = "/v1/spaces/default";

fn run(node: &Node, arguments: &[&str]) -> String {
    let output = node.run(arguments, "");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn members(node: &Node) -> usize {
    let answer = node.get(&format!("{SPACE}/members")).1;
    answer["members"].as_array().map_or(0, Vec::len)
}

fn change(node: &Node, path: &str, whom: &Node) {
    let body = json!({"owner": owner(whom), "wait_ms": 20_000}).to_string();
    let (status, answer) = node.post(&format!("{SPACE}/members/{path}"), &body);
    assert_eq!(status, 200, "{path}: {answer}");
}

/// Removes a member, and waits until it knows that it is out. It may have shown its ticket again by then.
fn remove(by: &Node, gone: &Node, others: [&Node; 2]) {
    change(by, "remove", gone);
    eventually("it is not ready", || {
        assert_eq!(members(by), 2, "it is a member again");
        let (status, answer) = gone.get("/readyz");
        (status == 503 && answer["code"] == "removed").then_some(())
    });
    for node in others {
        eventually("all know who is left", || {
            (members(node) == 2).then_some(())
        });
    }
}

#[test]
fn who_joined_by_a_ticket_and_is_removed_stays_out_until_it_has_a_new_one() {
    let (to_one, to_two) = (kept_address(), kept_address());
    let mut one = Node::start(&[CLOSED, "--listen", &to_one]);
    close(&[&one]);
    let ticket = run(&one, &["invite", "--role", "member"]);
    let mut two = Node::start(&[CLOSED, "--join", &ticket, "--listen", &to_two]);
    let mut three = Node::start(&[CLOSED, "--join", &ticket, "--peer", &two.listen[0]]);
    let nodes = [&one, &two, &three];
    settled(&nodes);
    for node in nodes {
        eventually("each has a link to each", || {
            let links = node.peers();
            let up = links.iter().filter(|row| row["space"] == "default");
            (up.count() == 2).then_some(())
        });
    }
    for (by, gone, other) in [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)] {
        let [by, gone, other] = [by, gone, other].map(|at: usize| nodes[at]);
        remove(by, gone, [by, other]);
        change(other, "add", gone);
        settled(&nodes);
    }
    // One is away, and the ticket was revoked just before, which is not known everywhere yet.
    let shown = run(&one, &["ticket", &ticket, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    three.terminate();
    run(&one, &["revoke", shown["id"].as_str().expect("an id")]);
    remove(&one, &two, [&one, &one]);
    let before = refused(&one.url, "ticket");
    two.terminate();
    two.start_again();
    three.start_again();
    for (node, before) in [(&one, before), (&three, 0.0)] {
        eventually("the ticket from before is refused", || {
            assert_eq!(members(&one), 2, "it is a member again");
            (refused(&node.url, "ticket") > before).then_some(())
        });
    }
    // A removal outlives a restart of who has to know it. A ticket is shown while that one catches up.
    one.terminate();
    one.start_again();
    let fresh = run(&one, &["invite", "--role", "member"]);
    two.terminate();
    two.start_again_with(vec![CLOSED.into(), "--join".into(), fresh]);
    settled(&[&one, &two, &three]);
}

/// Two of three are lost, and the one that is left goes on without them. Strangers as they are then, they
/// hear of it all the same.
#[test]
fn who_was_left_out_while_it_was_away_knows_it_and_stays_out() {
    let one = Node::start(&[CLOSED]);
    close(&[&one]);
    let ticket = run(&one, &["invite", "--role", "member"]);
    let mut others = [(); 2].map(|()| Node::start(&[CLOSED, "--join", &ticket]));
    let [two, three] = &others;
    settled(&[&one, two, three]);
    for node in &mut others {
        node.kill();
    }
    let body = json!({"members": [owner(&one)]}).to_string();
    let (status, answer) = one.post(&format!("{SPACE}/members/force"), &body);
    assert_eq!(status, 200, "{answer}");
    let before = refused(&one.url, "ticket");
    let [two, _] = &mut others;
    two.start_again();
    eventually("its ticket is refused", || {
        assert_eq!(members(&one), 1, "it is a member again");
        (refused(&one.url, "ticket") > before).then_some(())
    });
    eventually("it is not ready", || {
        let (status, answer) = two.get("/readyz");
        (status == 503 && answer["code"] == "removed").then_some(())
    });
    let doctor = two.run(&["doctor"], "");
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        text.contains("was removed from the members of the space `default`"),
        "{text}"
    );
    assert_eq!(members(&one), 1);
    let fresh = run(&one, &["invite", "--role", "member"]);
    two.terminate();
    two.start_again_with(vec![CLOSED.into(), "--join".into(), fresh]);
    settled(&[&one, two]);
    eventually("it is ready", || {
        (two.get("/readyz").0 == 200).then_some(())
    });
}
