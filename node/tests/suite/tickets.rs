//! Tickets as bearer tokens, and HTTPS: what each role may do, and what is no ticket.

use crate::process::{Node, agent, eventually};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

/// The ticket that a command printed.
pub(crate) fn ticket(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{output:?}");
    text
}

/// Asks with a ticket; the status and the code of a refusal, or the answer.
pub(crate) fn ask(node: &Node, ticket: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let url = format!("{}{path}", node.url);
    let agent = agent();
    let answer = match method {
        "GET" => agent
            .get(&url)
            .header("authorization", format!("Bearer {ticket}"))
            .call(),
        "PUT" => agent
            .put(&url)
            .header("authorization", format!("bearer {ticket}"))
            .send(body),
        "DELETE" => agent
            .delete(&url)
            .header("authorization", format!("BEARER {ticket}"))
            .call(),
        _ => agent
            .post(&url)
            .header("authorization", format!("Bearer {ticket}"))
            .send(body),
    };
    let mut answer = answer.expect("an answer");
    let status = answer.status().as_u16();
    let body: Value = answer.body_mut().read_json().unwrap_or_default();
    match body["code"].as_str() {
        Some(code) => (status, code.into()),
        None => (status, body),
    }
}

/// A node that asks for tickets, with one of each role for its first space, and one that may all.
fn asking() -> (Node, Vec<String>, String) {
    let mut node = Node::start(&["--space", "default", "other"]);
    let invite = |role: &str, more: &[&str]| {
        let arguments = [&["invite", "--role", role], more].concat();
        ticket(&node.run(&arguments, ""))
    };
    let tickets = ["reader", "writer", "editor", "member"].map(|role| invite(role, &[]));
    let every = invite("member", &["--every-space", "--expires", "never"]);
    node.terminate();
    let arguments = ["--space", "default", "other", "--http-tickets"];
    node.start_again_with(arguments.map(str::to_owned).to_vec());
    (node, tickets.to_vec(), every)
}

#[test]
fn each_role_may_do_what_it_says() {
    let (node, tickets, every) = asking();
    let likes = "/v1/spaces/default/counters/likes";
    let table: [(&str, &str, &str, usize); 9] = [
        ("POST", "/v1/spaces/default/counters/likes/add", "", 1),
        ("GET", likes, "", 0),
        (
            "POST",
            "/v1/spaces/default/read",
            r#"{"keys":["likes"]}"#,
            0,
        ),
        ("PUT", likes, r#"{"value":"1"}"#, 2),
        ("POST", "/v1/spaces/default/add", "likes 2", 1),
        (
            "POST",
            "/v1/spaces/default/transactions",
            r#"{"ops":[{"op":"add","key":"likes"}]}"#,
            1,
        ),
        (
            "POST",
            "/v1/spaces/default/transactions",
            r#"{"ops":[{"op":"add","key":"likes"},{"op":"reset","key":"likes"}]}"#,
            2,
        ),
        ("POST", "/v1/spaces/default/counters/likes/reset", "", 2),
        ("POST", "/v1/spaces/default/members/init", "", 3),
    ];
    for (method, path, body, needed) in table {
        // From the least role on, so that what is refused would show in what follows.
        for (role, ticket) in tickets.iter().enumerate() {
            let (status, answer) = ask(&node, ticket, method, path, body);
            match role >= needed {
                true => assert_eq!(status, 200, "{method} {path} by role {role}: {answer}"),
                false => assert_eq!(
                    (status, answer),
                    (403, "forbidden".into()),
                    "{method} {path}"
                ),
            }
        }
    }
    for ticket in &tickets {
        let elsewhere = ask(&node, ticket, "GET", "/v1/spaces/other/counters", "");
        assert_eq!(elsewhere, (403, "forbidden".into()));
        let whole = ask(&node, ticket, "GET", "/v1/status", "");
        assert_eq!(whole, (403, "forbidden".into()));
    }
    assert_eq!(ask(&node, &every, "GET", "/v1/status", "").0, 200);
    assert_eq!(
        ask(&node, &every, "GET", "/v1/spaces/other/counters", "").0,
        200
    );
    for (ticket, may) in [(&every, true), (&tickets[3], false)] {
        let doctor = node.run(&["doctor", "--ticket", ticket], "");
        let told =
            String::from_utf8_lossy(&doctor.stdout).contains("the node answers and is ready");
        assert_eq!(told, may, "{doctor:?}");
    }
    let closed = ask(&node, &every, "GET", "/v1/spaces/closed/counters", "");
    assert_eq!(closed, (404, "space_not_open".into()));
}

#[test]
fn without_a_good_ticket_nothing_is_told_or_changed() {
    let (node, tickets, every) = asking();
    for path in ["/healthz", "/readyz", "/openapi.json", "/"] {
        assert_eq!(node.get(path).0, 200, "{path}");
    }
    let add = "/v1/spaces/default/counters/likes/add";
    let stranger = Node::start(&[]);
    let foreign = ticket(&stranger.run(&["invite", "--role", "member"], ""));
    let holder = ticket(&stranger.run(&["id"], ""));
    let bound = json!({"role": "writer", "spaces": ["default"], "holder": holder}).to_string();
    let bound = ask(&node, &every, "POST", "/v1/tickets", &bound).1["ticket"].clone();
    let short = json!({"role": "writer", "spaces": ["default"], "expires_in_ms": 1}).to_string();
    let short = ask(&node, &every, "POST", "/v1/tickets", &short).1;
    assert!(short["expires_at"].is_string(), "{short}");
    let mut changed = tickets[1].clone();
    changed.replace_range(changed.len() - 10..changed.len() - 9, "_");
    changed.replace_range(changed.len() - 11..changed.len() - 10, "-");
    for (ticket, code) in [
        ("", "ticket_needed"),
        ("nonsense", "ticket"),
        (&foreign, "ticket_issuer"),
        (&changed, "ticket_signature"),
        (bound.as_str().expect("a ticket"), "ticket_holder"),
        (&"a".repeat(9000), "ticket"),
    ] {
        let refused = ask(&node, ticket, "POST", add, "");
        assert_eq!(refused, (401, code.into()), "{ticket}");
    }
    let (status, problem) = node.post(add, "");
    assert_eq!(
        (status, &problem["code"], &problem["applied"]),
        (401, &"ticket_needed".into(), &"no".into())
    );
    let answer = agent()
        .get(format!("{}/metrics", node.url))
        .call()
        .expect("an answer");
    let challenge = answer
        .headers()
        .get("www-authenticate")
        .expect("a challenge");
    assert_eq!(challenge, "Bearer realm=\"tallymesh\"");
    let absent = ask(
        &node,
        &tickets[0],
        "GET",
        "/v1/spaces/default/counters/likes",
        "",
    );
    assert_eq!(absent, (404, "absent".into()));
}

#[test]
fn tickets_are_made_where_their_word_is_worth_something() {
    let node = Node::start(&["--space", "default", "other"]);
    let make = |body: Value| {
        let (status, answer) = node.post("/v1/tickets", &body.to_string());
        (
            status,
            answer["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(
        make(json!({"role": "writer", "spaces": ["default", "other"]})).0,
        200
    );
    for (body, status, code) in [
        (json!({"role": "writer"}), 400, "body"),
        (json!({"role": "writer", "spaces": []}), 400, "body"),
        (json!({"role": "writer", "spaces": [1]}), 400, "body"),
        (
            json!({"role": "writer", "spaces": ["a b"]}),
            400,
            "space_name",
        ),
        (
            json!({"role": "writer", "spaces": ["closed"]}),
            404,
            "space_not_open",
        ),
        (json!({"role": "king", "spaces": ["default"]}), 400, "role"),
        (
            json!({"role": "writer", "spaces": ["default"], "holder": "me"}),
            400,
            "owner",
        ),
        (
            json!({"role": "writer", "spaces": ["default"], "expires_in_ms": -1}),
            400,
            "millis",
        ),
        (
            json!({"role": "writer", "spaces": ["default"], "more": 1}),
            400,
            "body",
        ),
    ] {
        assert_eq!(make(body.clone()), (status, code.to_owned()), "{body}");
    }
    // Once others are its members, this node has no say there.
    let owner = "11".repeat(32);
    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    let force = json!({"members": [owner]}).to_string();
    assert_eq!(node.post("/v1/spaces/default/members/force", &force).0, 200);
    let refused = make(json!({"role": "writer", "spaces": ["default"]}));
    assert_eq!(refused, (409, "not_a_member".into()));
}

#[test]
fn a_ticket_is_shown_by_the_command_line() {
    let node = Node::start(&[]);
    let made = ticket(&node.run(&["invite", "--role", "editor", "--expires", "7d"], ""));
    let shown = node.run(&["ticket", &made, "--json"], "");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(
        (&shown["role"], &shown["spaces"]),
        (&"editor".into(), &json!(["default"]))
    );
    assert!(
        shown["nodes"][0]
            .as_str()
            .is_some_and(|it| it.contains("/p2p/")),
        "{shown}"
    );
    let shown = node.run(&["ticket", &made], "");
    assert!(
        String::from_utf8_lossy(&shown.stdout).starts_with("role     editor in space default\n")
    );
    let wrong = node.run(&["ticket", "x"], "");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("tallymesh invite"));
}

/// Writes a certificate for localhost that nobody signed, and its key.
pub(crate) fn certificate(folder: &Path) -> String {
    let made = generate_simple_self_signed(["localhost".to_owned()]);
    let CertifiedKey { cert, key_pair } = made.expect("a certificate");
    fs::create_dir_all(folder).expect("a folder");
    // Never a new certificate with an old key.
    fs::write(folder.join("key.pem"), key_pair.serialize_pem()).expect("written");
    fs::write(folder.join("cert.pem"), cert.pem()).expect("written");
    cert.pem()
}

#[test]
fn https_is_served_with_a_certificate_that_may_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let first = certificate(folder.path());
    let (cert, key) = (at("cert.pem"), at("key.pem"));
    let node = Node::start(&["--http-tls-cert", &cert, "--http-tls-key", &key]);
    assert!(node.url.starts_with("https://127.0.0.1:"), "{}", node.url);
    let url = node.url.replace("127.0.0.1", "localhost");
    let with = |ca: &str| {
        node.run(&["add", "likes", "--node", &url, "--ca", ca], "")
            .status
            .code()
    };
    fs::write(at("first.pem"), &first).expect("written");
    assert_eq!(with(&at("first.pem")), Some(0));
    for (url, part) in [
        (&url, "--ca FILE"),
        (&url.replace("https:", "http:"), "https:// in place"),
    ] {
        let refused = node.run(&["add", "likes", "--node", url], "");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains(part) && !said.contains("count"), "{said}");
    }
    certificate(folder.path());
    fs::copy(at("cert.pem"), at("second.pem")).expect("copied");
    eventually("the new certificate is taken", || {
        (with(&at("second.pem")) == Some(0)).then_some(())
    });
    assert_ne!(with(&at("first.pem")), Some(0));
    // What is no certificate is not taken, and the one before stays.
    fs::write(&cert, "nonsense").expect("written");
    eventually("it is told", || {
        node.log()
            .contains("goes on with the certificate before")
            .then_some(())
    });
    assert_eq!(with(&at("second.pem")), Some(0));
}

#[test]
fn a_certificate_that_is_none_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    certificate(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("empty.pem"), "").expect("written");
    let node = Node::start(&[]);
    for (cert, key, part) in [
        ("none.pem", "key.pem", "none.pem"),
        ("empty.pem", "key.pem", "no certificate in it"),
        ("cert.pem", "cert.pem", "cert.pem"),
        ("cert.pem", "empty.pem", "empty.pem"),
    ] {
        let data = at("data");
        let arguments = [
            "up",
            "--data",
            &data,
            "--http",
            "127.0.0.1:0",
            "--http-tls-cert",
            &at(cert),
            "--http-tls-key",
            &at(key),
        ];
        let output = node.run(&arguments, "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(part), "{part}: {error}");
    }
}
