//! Tickets that are revoked, and where that counts.

use crate::operation::examined;
use crate::process::{Node, eventually};
use crate::tickets::{ask, ticket};
use serde_json::{Value, json};

const LIKES: &str = "/v1/spaces/default/counters/likes/add";

fn owner(node: &Node) -> String {
    let status = node.get("/v1/status").1;
    status["owner"].as_str().expect("a key").to_owned()
}

fn member_of(node: &Node, space: &str) {
    let path = format!("/v1/spaces/{space}/members/init");
    assert_eq!(node.post(&path, "").0, 200);
}

/// The id of a ticket.
fn id(node: &Node, ticket: &str) -> String {
    let shown = shown(node, ticket, None);
    shown["id"].as_str().expect("an id").to_owned()
}

/// What `tallymesh ticket` tells.
fn shown(node: &Node, ticket: &str, with: Option<&str>) -> Value {
    let with = with.map(|it| ["--ticket", it]);
    let with = with.as_ref().map_or(&[][..], |it| &it[..]);
    let output = node.run(&[&["ticket", ticket, "--json"], with].concat(), "");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What a command prints for programs, line by line.
fn lines(node: &Node, arguments: &[&str]) -> Vec<Value> {
    let output = node.run(&[arguments, &["--json"]].concat(), "");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Adds with a ticket.
fn add(node: &Node, ticket: &str) -> (u16, Value) {
    let (status, answer) = ask(node, ticket, "POST", LIKES, "");
    match status {
        200 => (200, Value::Null),
        _ => (status, answer),
    }
}

#[test]
fn what_one_member_revokes_all_refuse_and_go_on_to() {
    let mut one = Node::start(&[]);
    member_of(&one, "default");
    let peer = one.listen[0].clone();
    let mut two = Node::start(&["--peer", &peer]);
    let add_two = json!({"owner": owner(&two)}).to_string();
    let added = one.post("/v1/spaces/default/members/add", &add_two);
    assert_eq!(added.0, 200, "{}", added.1);
    let invite = |role: &str, more: &[&str]| {
        let arguments = [&["invite", "--role", role], more].concat();
        ticket(&one.run(&arguments, ""))
    };
    let (bad, good) = (invite("writer", &[]), invite("writer", &[]));
    let every = invite("member", &["--every-space"]);
    assert_eq!(shown(&one, &bad, None)["revoked_in"], json!([]));
    let revoked = id(&one, &bad);

    // From now on tickets are asked for.
    one.terminate();
    two.terminate();
    one.start_again_with(vec!["--http-tickets".into()]);
    let linked = |one: &Node| {
        let peer = one.listen[0].clone();
        vec!["--http-tickets".into(), "--peer".into(), peer]
    };
    two.start_again_with(linked(&one));
    let fine = (200, Value::Null);
    let refused = (401, json!("ticket_revoked"));
    eventually("the second one knows the members", || {
        (add(&two, &bad) == fine).then_some(())
    });
    assert_eq!(add(&one, &bad), fine);
    let output = one.run(&["revoke", &revoked, "--ticket", &every], "");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("members remove"), "{said}");
    assert_eq!(add(&one, &bad), refused);
    eventually("the second one refuses it", || {
        (add(&two, &bad) == refused).then_some(())
    });
    assert_eq!((add(&one, &good), add(&two, &good)), (fine.clone(), fine));
    for node in [&one, &two] {
        let shown = shown(node, &bad, Some(&every));
        assert_eq!(shown["revoked_in"], json!(["default"]));
    }

    // A member that goes on alone knows it, and so does the other; and tells who joins.
    one.kill();
    two.terminate();
    two.start_again_with(vec!["--http-tickets".into()]);
    assert_eq!(add(&two, &bad), refused);
    let third = Node::start(&["--http-tickets", "--peer", &two.listen[0]]);
    eventually("a third one refuses it", || {
        (add(&third, &bad) == refused).then_some(())
    });
    two.kill();
    one.start_again_with(vec!["--http-tickets".into()]);
    assert_eq!(add(&one, &bad), refused);
    assert_eq!(add(&one, &good).0, 200);
}

#[test]
fn who_is_no_member_of_a_space_revokes_nothing_there() {
    let spaces = ["--space", "default", "other"];
    let mut one = Node::start(&spaces);
    member_of(&one, "default");
    let made = ticket(&one.run(&["invite", "--role", "writer"], ""));
    let revoked = id(&one, &made);
    let guest = Node::start(&["--peer", &one.listen[0]]);
    let stranger = Node::start(&[&spaces[..], &["--peer", &one.listen[0]]].concat());
    for node in [&guest, &stranger] {
        eventually("it has the record of the member", || {
            let members = node.get("/v1/spaces/default/members").1;
            members["configuration"].is_object().then_some(())
        });
    }
    let path = format!("/v1/tickets/{revoked}");
    let (status, problem) = guest.delete(&path);
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    // In another space it has a say, and tells all nodes what it says: it counts there and nowhere else.
    member_of(&stranger, "other");
    let (status, problem) = stranger.delete(&format!("{path}?spaces=default"));
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    let told = lines(&stranger, &["revoke", &made]).remove(0);
    assert_eq!(told["spaces"], json!(["other"]));
    eventually("the member has heard it", || {
        let revoked = one.get("/v1/tickets").1["revoked"].clone();
        let by = &revoked[0]["by"];
        (*by == owner(&stranger)).then(|| {
            assert_eq!(revoked[0]["spaces"], json!(["other"]));
        })
    });
    assert_eq!(shown(&one, &made, None)["revoked_in"], json!(["other"]));
    // What counts nowhere is not listed.
    assert_eq!(guest.get("/v1/tickets").1["revoked"], json!([]));
    one.terminate();
    one.start_again_with(vec!["--http-tickets".into()]);
    assert_eq!(add(&one, &made), (200, Value::Null));
}

#[test]
fn tickets_are_listed_with_how_they_stand() {
    let node = Node::start(&[]);
    let made = |more: &[&str]| {
        let arguments = [&["invite", "--role", "reader"], more].concat();
        ticket(&node.run(&arguments, ""))
    };
    let (month, never) = (made(&[]), made(&["--expires", "never"]));
    let listed = lines(&node, &["tickets"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
    for row in &listed {
        assert_eq!(
            (&row["kind"], &row["state"]),
            (&json!("issued"), &json!("good"))
        );
        assert_eq!(row["spaces"], json!(["default"]));
    }
    // Neither is told, and both are kept for the node's owner alone.
    let answer = node.get("/v1/tickets").1.to_string();
    assert!(!answer.contains(&month) && !answer.contains(&never));
    assert!(node.data().join("tickets.json").exists());

    let endless = id(&node, &never);
    for _ in 0..2 {
        let told = lines(&node, &["revoke", &endless]).remove(0);
        assert_eq!(told["id"], endless.as_str());
        assert!(told.get("expires_at").is_none(), "{told}");
    }
    let told = lines(&node, &["revoke", &month]).remove(0);
    assert!(told["expires_at"].is_string(), "{told}");
    let answer = node.get("/v1/tickets").1;
    assert_eq!(
        answer["revoked"].as_array().map(Vec::len),
        Some(2),
        "{answer}"
    );
    let states: Vec<String> = lines(&node, &["tickets"])
        .iter()
        .filter(|row| row["kind"] == "issued")
        .map(|row| text(&row["state"]))
        .collect();
    assert_eq!(states, ["revoked", "revoked"]);
    let figures = text(&node.get("/metrics").1);
    for told in [
        "tallymesh_tickets{kind=\"issued\",state=\"revoked\"} 2",
        "tallymesh_tickets{kind=\"issued\",state=\"good\"} 0",
        "tallymesh_revocations 2",
    ] {
        assert!(figures.lines().any(|line| line == told), "{told}");
    }
    let words = node.run(&["tickets"], "");
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(
        words.contains("revoked in default\treader in default\tends never"),
        "{words}"
    );
    let words = node.run(&["ticket", &never], "");
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(words.contains("\nrevoked  in default\n"), "{words}");

    // Of what somebody else signed, who revokes it says the end.
    let foreign = "ab".repeat(16);
    let path = format!("/v1/tickets/{foreign}");
    let (status, told) = node.delete(&format!("{path}?spaces=default&expires_at=4000000000001"));
    assert_eq!(
        (status, &told["expires_at"]),
        (200, &json!("4000000001000"))
    );
    let (status, told) = node.delete(&path);
    assert_eq!((status, told.get("expires_at")), (200, None));
    let count = |node: &Node| {
        node.get("/v1/tickets").1["revoked"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(count(&node), Some(4), "for ever is longer");
    node.delete(&format!("{path}?expires_at=4000000000001"));
    assert_eq!(count(&node), Some(4), "that is known");
    for (path, status, code) in [
        ("/v1/tickets/x".to_owned(), 400, "ticket_id"),
        (format!("{path}?spaces="), 400, "space_name"),
        (format!("{path}?spaces=closed"), 404, "space_not_open"),
        (format!("{path}?expires_at=soon"), 400, "query"),
        (format!("{path}?more=1"), 400, "query"),
    ] {
        let (told, problem) = node.delete(&path);
        assert_eq!((told, &problem["code"]), (status, &json!(code)), "{path}");
    }
    let wrong = node.run(&["revoke", "x"], "");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let wrong = node.run(&["revoke", "a.b.c"], "");
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
}

#[test]
fn tickets_near_their_end_are_counted() {
    let node = Node::start(&[]);
    for lasts in ["1s", "never"] {
        ticket(&node.run(&["invite", "--role", "reader", "--expires", lasts], ""));
    }
    eventually("one is about to end", || {
        let text = text(&node.get("/metrics").1);
        let is_told = |line: &str| text.lines().any(|told| told == line);
        let good = is_told("tallymesh_tickets{kind=\"issued\",state=\"good\"} 1");
        let ending = is_told("tallymesh_tickets{kind=\"issued\",state=\"ending\"} 1");
        (good && ending && is_told("tallymesh_revocations 0")).then_some(())
    });
    // Whatever it says of the machine.
    let (_, doctor) = examined(&node);
    let of = |code: &str| {
        let found = doctor.iter().find(|it| it.0 == code);
        found.expect(code).1.clone()
    };
    assert_eq!(
        (of("issued_tickets"), of("held_tickets")),
        ("notice".into(), "ok".into())
    );
}

#[test]
fn a_folder_with_tickets_of_another_version_is_not_used() {
    let mut node = Node::start(&[]);
    ticket(&node.run(&["invite", "--role", "reader"], ""));
    node.terminate();
    let file = node.data().join("tickets.json");
    let kept = std::fs::read_to_string(&file).expect("the file");
    let newer = kept.replace("\"version\":1", "\"version\":3");
    assert_ne!(newer, kept);
    std::fs::write(&file, &newer).expect("written");
    let data = node.data().display().to_string();
    let output = node.run(&["up", "--data", &data, "--http", "127.0.0.1:0"], "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("version 3") && error.contains("tickets.json"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), newer);
}
