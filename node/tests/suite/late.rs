//! Requests that come to their end after their ticket has: bodies whose last byte is kept back, and
//! writes that wait. Nothing is done or told of them.

use crate::join::CLOSED;
use crate::members::owner;
use crate::process::{DEADLINE, Node, eventually};
use crate::redis::{Redis, command};
use crate::tickets::{ask, ticket};
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const SPACE: &str = "/v1/spaces/default";

/// A request whose last byte is kept back.
struct Late {
    what: String,
    stream: TcpStream,
    last: u8,
}

impl Late {
    /// Sends all but the last byte, after the node has let the request in and waits for its body.
    fn begin(node: &Node, ticket: &str, path: &str, more: &str, body: &[u8]) -> Late {
        let what = format!("{path} {more}");
        let host = node.url.strip_prefix("http://").expect("its address");
        let mut stream = TcpStream::connect(host).expect("connect");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let method = path.split_once(' ').map_or("POST", |it| it.0);
        let path = path.split_once(' ').map_or(path, |it| it.1);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nexpect: 100-continue\r\n\
             authorization: Bearer {ticket}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("write");
        let mut told = [0; 25];
        stream.read_exact(&mut told).expect("an answer");
        let told = String::from_utf8_lossy(&told);
        assert_eq!(told, "HTTP/1.1 100 Continue\r\n\r\n", "{what}");
        let (last, before) = body.split_last().expect("a body");
        stream.write_all(before).expect("write");
        let last = *last;
        Late { what, stream, last }
    }

    /// Begins a request with a body of a known length.
    fn sized(node: &Node, ticket: &str, path: &str, body: &str) -> Late {
        let length = format!("content-length: {}\r\n", body.len());
        Late::begin(node, ticket, path, &length, body.as_bytes())
    }

    /// Sends the last byte.
    fn end(&mut self) {
        self.stream.write_all(&[self.last]).expect("write");
    }

    /// The answer: the code of the refusal, and what is said to have been applied.
    fn refusal(mut self) -> (String, Value, Value) {
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        assert_eq!(status, "401", "{}: {answer}", self.what);
        (self.what, body["code"].clone(), body["applied"].clone())
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Begins requests at every kind of door with the tickets that `invite` makes, ends these tickets, and
/// then the requests.
fn nothing_is_done_late(
    node: &Node,
    invite: impl Fn(&[&str]) -> String,
    end: impl FnOnce(&[String]),
    code: &str,
) {
    let own = |method: &str, path: &str, body: &str| {
        let (status, answer) = ask(node, &node.token(), method, path, body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    let value = |key: &str| {
        let path = format!("{SPACE}/counters/{key}");
        ask(node, &node.token(), "GET", &path, "").0
    };
    let every = invite(&["--role", "member", "--every-space"]);
    let [reader, writer, editor, member] =
        ["reader", "writer", "editor", "member"].map(|role| invite(&["--role", role]));
    own("POST", &format!("{SPACE}/counters/secret/add"), "");
    own(
        "POST",
        &format!("{SPACE}/budgets/gift/mint"),
        r#"{"amount":"5"}"#,
    );

    let stranger = json!({"owner": "12".repeat(32), "wait_ms": 1}).to_string();
    let forever = r#"{"role":"member","spaces":["*"],"expires_in_ms":"0"}"#;
    let sized = [
        (&every, "/v1/tickets".to_owned(), forever),
        (&member, format!("{SPACE}/members/add"), &*stranger),
        (
            &writer,
            format!("{SPACE}/counters/late/add"),
            r#"{"by":"7"}"#,
        ),
        (&writer, format!("{SPACE}/add"), "late 7\n"),
        (
            &writer,
            format!("{SPACE}/transactions"),
            r#"{"ops":[{"op":"add","key":"late"}]}"#,
        ),
        (
            &editor,
            format!("PUT {SPACE}/counters/late"),
            r#"{"value":"7"}"#,
        ),
        (
            &editor,
            format!("{SPACE}/budgets/gift/mint"),
            r#"{"amount":"7"}"#,
        ),
        (&reader, format!("{SPACE}/read"), r#"{"keys":["secret"]}"#),
        (&member, format!("{SPACE}/sync"), "\0\0\0\u{1}x"),
        (&reader, format!("{SPACE}/sync"), "\0\0\0\u{1}x"),
    ];
    let sized = sized.map(|(ticket, path, body)| Late::sized(node, ticket, &path, body));
    let chunks = b"7\r\nlate 7\n\r\n0\r\n\r\n";
    let chunked = "transfer-encoding: chunked\r\n";
    let chunked = Late::begin(node, &writer, &format!("{SPACE}/add"), chunked, chunks);
    // These have all come, and wait for rights that are not there.
    let spend = r#"{"amount":"20"}"#;
    let waits = format!(
        "content-length: {}\r\ntallymesh-rights-wait-ms: 15000\r\n",
        spend.len()
    );
    let path = format!("{SPACE}/budgets/gift/spend");
    let mut spend = Late::begin(node, &writer, &path, &waits, spend.as_bytes());
    spend.end();
    let redis = || {
        let mut redis = Redis::connect(node);
        assert_eq!(redis.text(&["AUTH", &writer]), Some("OK".into()));
        redis
    };
    let mut short = redis();
    let wait = short.text(&["CLIENT", "RIGHTS-WAIT", "15000"]);
    assert_eq!(wait, Some("OK".into()));
    short.send(&command(&["BUDGET.SPEND", "gift", "20"]));
    let mut many = redis();
    assert_eq!(many.text(&["MULTI"]), Some("OK".into()));
    assert_eq!(many.text(&["INCRBY", "late", "7"]), Some("QUEUED".into()));
    let mut alone = redis();
    alone.send(&[command(&["WAIT", "9", "15000"]), command(&["INCR", "late"])].concat());
    let mut half = redis();
    half.send(b"*3\r\n$6\r\nINCRBY\r\n$4\r\nlate\r\n$1\r\n");

    let issued = own("GET", "/v1/tickets", "")["issued"]
        .as_array()
        .map(Vec::len);
    end(&[every.clone(), reader, writer, editor, member]);
    eventually("the tickets are worth nothing", || {
        let refused = ask(node, &every, "GET", "/v1/status", "");
        (refused == (401, json!(code))).then_some(())
    });
    let members = || {
        let told = own("GET", &format!("{SPACE}/members"), "");
        let rows = told["members"].as_array().cloned().unwrap_or_default();
        let owners: Vec<Value> = rows.iter().map(|row| row["owner"].clone()).collect();
        (owners, told["proposed"].clone())
    };
    let before = members();
    let mut lates: Vec<Late> = sized.into_iter().chain([chunked]).collect();
    lates.iter_mut().for_each(Late::end);
    many.send(&command(&["EXEC"]));
    half.send(b"7\r\n");
    own(
        "POST",
        &format!("{SPACE}/budgets/gift/mint"),
        r#"{"amount":"30"}"#,
    );
    for late in lates.into_iter().chain([spend]) {
        let (what, told, applied) = late.refusal();
        assert_eq!((&told, &applied), (&json!(code), &json!("no")), "{what}");
    }
    for (redis, what) in [
        (&mut short, "spend"),
        (&mut many, "exec"),
        (&mut alone, "wait"),
        (&mut half, "half"),
    ] {
        let told = loop {
            match redis.try_reply() {
                Ok(OwnedFrame::Error(told)) => break told,
                // So many hold it by now.
                Ok(OwnedFrame::Integer(_)) if what == "wait" => {}
                other => panic!("{what}: {other:?}"),
            }
        };
        assert!(told.contains(code), "{what}: {told}");
    }
    assert_eq!(value("late"), 404, "it was counted");
    let gift = own("GET", &format!("{SPACE}/budgets/gift"), "");
    assert_eq!(text(&gift["value"]), "35", "{gift}");
    let after = own("GET", "/v1/tickets", "")["issued"]
        .as_array()
        .map(Vec::len);
    assert_eq!(after, issued, "a ticket was made");
    assert_eq!(members(), before);
}

const ASKING: [&str; 5] = [
    CLOSED,
    "--http-tickets",
    "--resp",
    "127.0.0.1:0",
    "--resp-tickets",
];

#[test]
fn nothing_is_done_after_a_ticket_is_revoked() {
    let node = Node::start(&ASKING);
    assert_eq!(node.post(&format!("{SPACE}/members/init"), "").0, 200);
    let invite = |more: &[&str]| ticket(&node.run(&[&["invite"], more].concat(), ""));
    let end = |tickets: &[String]| {
        for ticket in tickets {
            let output = node.run(&["revoke", ticket], "");
            assert!(output.status.success(), "{output:?}");
        }
    };
    nothing_is_done_late(&node, invite, end, "ticket_revoked");
}

#[test]
fn nothing_is_done_after_the_signer_is_removed() {
    let node = Node::start(&ASKING);
    assert_eq!(node.post(&format!("{SPACE}/members/init"), "").0, 200);
    let join = ticket(&node.run(&["invite", "--role", "member"], ""));
    let other = Node::start(&[CLOSED, "--join", &join]);
    eventually("both are members", || {
        let seen = ask(&node, &node.token(), "GET", &format!("{SPACE}/members"), "").1;
        let here = other.get(&format!("{SPACE}/members")).1;
        let both = |it: &Value| it["members"].as_array().is_some_and(|it| it.len() == 2);
        (both(&seen) && both(&here) && other.get("/readyz").0 == 200).then_some(())
    });
    let invite = |more: &[&str]| ticket(&other.run(&[&["invite"], more].concat(), ""));
    let end = |_: &[String]| {
        let body = json!({"owner": owner(&other), "wait_ms": 20_000}).to_string();
        let (status, answer) = node.post(&format!("{SPACE}/members/remove"), &body);
        assert_eq!(status, 200, "{answer}");
    };
    nothing_is_done_late(&node, invite, end, "ticket_issuer");
}
