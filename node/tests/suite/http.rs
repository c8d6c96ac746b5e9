//! The HTTP interface: answers, refusals, events, who is let in.

use crate::process::{Node, agent, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn counters_are_added_to_read_and_listed() {
    let node = Node::start(&["--space", "default", "other"]);
    let path = "/v1/spaces/default";
    let likes = format!("{path}/counters/likes");
    assert_eq!(node.get(&likes).1["code"], "absent");
    let add = format!("{likes}/add");
    assert_eq!(
        node.post(&add, ""),
        (200, json!({"key": "likes", "value": "1"}))
    );
    assert_eq!(node.post(&add, r#"{"by":"-4"}"#).1["value"], "-3");
    assert_eq!(
        node.get(&likes),
        (200, json!({"key": "likes", "value": "-3"}))
    );
    assert_eq!(
        node.get("/v1/spaces/other/counters/likes").0,
        404,
        "spaces are separate"
    );
    let odd = format!("{path}/counters/a%2Fb%20%C3%A4");
    assert_eq!(node.post(&format!("{odd}/add"), "").1["key"], "a/b ä");
    let shards = node.get(&format!("{likes}/shards")).1;
    let writer = node.space()["writer"].clone();
    let row = json!({"writer": writer, "clock": "2", "total": "-3"});
    assert_eq!(shards, json!({"key": "likes", "shards": [row]}));

    let lines = "p1 5\np2\np1 -2\n\nq 7\n";
    assert_eq!(
        node.post(&format!("{path}/add"), lines),
        (200, json!({"lines": 4}))
    );
    let page = |query: &str| node.get(&format!("{path}/counters?{query}")).1;
    let p1 = json!({"key": "p1", "value": "3"});
    let p2 = json!({"key": "p2", "value": "1"});
    assert_eq!(
        page("prefix=p"),
        json!({"counters": [p1, p2], "next": null})
    );
    assert_eq!(
        page("prefix=p&limit=1"),
        json!({"counters": [p1], "next": "p1"})
    );
    assert_eq!(
        page("prefix=p&limit=1&after=p1"),
        json!({"counters": [p2], "next": null})
    );
    assert_eq!(page("")["counters"].as_array().map(Vec::len), Some(5));
}

/// An answer to a request that was written as these bytes: its head and its body.
fn answer(stream: &mut BufReader<TcpStream>) -> (String, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(
            stream.read_line(&mut head).expect("a line") > 0,
            "no answer: {head}"
        );
    }
    let head = head.to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).expect("a length");
    let length = length.split("\r\n").next().and_then(|it| it.parse().ok());
    let mut body = vec![0; length.expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    (head, String::from_utf8(body).expect("text"))
}

/// A client that keeps its connection learns from the answer whether it can send the next request
/// there.
#[test]
fn an_answer_before_the_body_says_whether_the_connection_goes_on() {
    let node = Node::start(&[]);
    let host = node.url.trim_start_matches("http://");
    let likes = "/v1/spaces/default/counters/likes";
    let refused = [
        ("POST", likes, "", "method_not_allowed"),
        (
            "PUT",
            likes,
            "origin: https://stranger.example\r\n",
            "origin",
        ),
        ("POST", "/v1/tickets", "", "token_needed"),
        ("DELETE", likes, "tallymesh-level: most\r\n", "level"),
        ("GET", "/v1/spaces/default/counters/none", "", "absent"),
    ];
    for (method, path, header, code) in refused {
        for length in [3, 40_000, 10_000_000] {
            for came in [0, 2, length.min(40_000)] {
                let what = format!("{method} {path}: {came} of {length}");
                let stream = TcpStream::connect(host).expect("a connection");
                stream
                    .set_read_timeout(Some(Duration::from_secs(20)))
                    .expect("a limit");
                let mut stream = BufReader::new(stream);
                let body = "x".repeat(came);
                let sent = format!(
                    "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{header}content-length: {length}\r\n\r\n{body}"
                );
                stream
                    .get_mut()
                    .write_all(sent.as_bytes())
                    .expect("it is sent");
                let (head, problem) = answer(&mut stream);
                assert!(problem.contains(code), "{what}: {problem}");
                let ends = head.contains("\r\nconnection: close\r\n");
                assert!(ends || came == length, "{what}: {head}");
                if length == 3 {
                    assert!(!ends || came < length, "{what}: {head}");
                }
                if ends {
                    continue;
                }
                let sent = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n");
                stream
                    .get_mut()
                    .write_all(sent.as_bytes())
                    .expect("it is sent");
                let (head, _) = answer(&mut stream);
                assert!(head.starts_with("http/1.1 200"), "{what}: {head}");
            }
        }
    }
}

#[test]
fn what_is_wrong_is_refused_with_a_stable_code() {
    let node = Node::start(&[]);
    let space = "/v1/spaces/default";
    let long = format!("{space}/counters/{}/add", "k".repeat(513));
    let full = format!("{space}/counters/full/add");
    let bulk = format!("{space}/add");
    let add = format!("{space}/counters/k/add");
    let large = "x".repeat(5 << 10);
    node.post(&full, r#"{"by":"9223372036854775807"}"#);
    let table: Vec<(&str, &str, String, &str, u16, &str)> = vec![
        (
            "GET",
            "no such page",
            "/nothing".into(),
            "",
            404,
            "not_found",
        ),
        (
            "GET",
            "not the method",
            add.clone(),
            "",
            405,
            "method_not_allowed",
        ),
        (
            "GET",
            "a space that is not open",
            "/v1/spaces/x/counters".into(),
            "",
            404,
            "space_not_open",
        ),
        (
            "GET",
            "no name for a space",
            "/v1/spaces/a%20b/counters".into(),
            "",
            400,
            "space_name",
        ),
        (
            "GET",
            "not UTF-8",
            format!("{space}/counters/%FF"),
            "",
            400,
            "path",
        ),
        (
            "GET",
            "limit 0",
            format!("{space}/counters?limit=0"),
            "",
            400,
            "query",
        ),
        (
            "GET",
            "limit too high",
            format!("{space}/counters?limit=10001"),
            "",
            400,
            "query",
        ),
        (
            "GET",
            "no number",
            format!("{space}/counters?limit=x"),
            "",
            400,
            "query",
        ),
        (
            "GET",
            "unknown parameter",
            format!("{space}/counters?prefx=a"),
            "",
            400,
            "query",
        ),
        (
            "GET",
            "absent shards",
            format!("{space}/counters/none/shards"),
            "",
            404,
            "absent",
        ),
        (
            "GET",
            "no WebSocket",
            format!("{space}/sync"),
            "",
            400,
            "websocket",
        ),
        ("POST", "key too long", long, "", 400, "key_length"),
        ("POST", "no JSON", add.clone(), "5 apples", 400, "body"),
        (
            "POST",
            "a field twice",
            add.clone(),
            r#"{"by":"1","by":"2"}"#,
            400,
            "body",
        ),
        (
            "POST",
            "a field of an operation twice",
            format!("{space}/transactions"),
            r#"{"ops":[{"op":"add","key":"twice","by":"1","by":"7"}]}"#,
            400,
            "body",
        ),
        (
            "PUT",
            "a value twice",
            format!("{space}/counters/twice"),
            r#"{"value":"1","value":"2"}"#,
            400,
            "body",
        ),
        (
            "POST",
            "a fraction",
            add.clone(),
            r#"{"by":0.5}"#,
            400,
            "amount",
        ),
        (
            "POST",
            "out of range",
            add.clone(),
            r#"{"by":"9223372036854775808"}"#,
            400,
            "amount",
        ),
        ("POST", "body too large", add, &large, 413, "body_too_large"),
        ("POST", "overflow", full, "", 409, "overflow"),
        (
            "POST",
            "bulk: no number",
            bulk.clone(),
            "a 1\nb x",
            400,
            "amount",
        ),
        (
            "POST",
            "bulk: overflow",
            bulk.clone(),
            "a 1\nfull 1",
            409,
            "overflow",
        ),
        (
            "POST",
            "not a demo",
            "/v1/demo/cut".into(),
            r#"{"cut":true}"#,
            403,
            "not_demo",
        ),
    ];
    let digest = node.space()["digest"].clone();
    let document = crate::api::document(&node);
    for (method, what, path, body, status, code) in table {
        let (got, problem) = match method {
            "GET" => node.get(&path),
            "PUT" => node.put(&path, body),
            _ => node.post(&path, body),
        };
        assert_eq!(
            (got, problem["code"].as_str()),
            (status, Some(code)),
            "{what}: {problem}"
        );
        assert_eq!(problem["status"], status, "{what}");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(!detail.is_empty(), "{what} says nothing");
        if !["no such page", "not the method"].contains(&what) {
            assert!(
                is_described(&document, method, &path, status, code),
                "{what}"
            );
        }
        if what.starts_with("bulk:") {
            assert_eq!(problem["line"], 2, "{what}");
            assert_eq!(problem["applied"], "no", "{what}");
        }
    }
    assert_eq!(
        node.space()["digest"],
        digest,
        "a refusal changed something"
    );
    assert_eq!(node.value("a"), None);
}

/// Whether the description of the interface says that this may be answered.
fn is_described(document: &Value, method: &str, path: &str, status: u16, code: &str) -> bool {
    let path = path.split('?').next().expect("a path");
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let template: Vec<&str> = template.split('/').collect();
        let mut pairs = template.iter().zip(&parts);
        template.len() == parts.len() && pairs.all(|(it, part)| it.starts_with('{') || it == part)
    };
    let paths = document["paths"].as_object().expect("paths");
    let (_, item) = paths.iter().find(|(path, _)| fits(path)).expect("a path");
    let answer = &item[method.to_ascii_lowercase()]["responses"][status.to_string()];
    answer["content"]["application/problem+json"]["examples"][code].is_object()
}

#[test]
fn strangers_are_kept_out() {
    let node = Node::start(&[]);
    let ask = |headers: &[(&str, &str)]| {
        let mut request = agent().get(format!("{}/v1/status", node.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = request.call().expect("an answer");
        let body: serde_json::Value = response.body_mut().read_json().expect("JSON");
        let cors = response.headers().get("access-control-allow-origin");
        let cors = cors.map(|value| value.to_str().expect("text").to_owned());
        (response.status().as_u16(), body["code"].clone(), cors)
    };
    assert_eq!(ask(&[]), (200, json!(null), None));
    assert_eq!(ask(&[("host", "rebound.example")]).1, "host");
    assert_eq!(
        ask(&[("origin", "https://stranger.example")]),
        (403, json!("origin"), None)
    );
    let page = "http://localhost:5173";
    assert_eq!(
        ask(&[("origin", page)]),
        (200, json!(null), Some(page.into()))
    );
}

#[test]
fn events_tell_of_changed_counters() {
    let node = Node::start(&[]);
    let open = |query: &str| {
        let url = format!("{}/v1/spaces/default/events{query}", node.url);
        let response = agent().get(url).call().expect("a stream");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        lines.filter_map(|line| {
            let line = line.expect("a line");
            let data = line.strip_prefix("data: ")?.to_owned();
            Some(serde_json::from_str::<serde_json::Value>(&data).expect("JSON"))
        })
    };
    let mut all = open("");
    let mut only = open("?key=views");
    node.add("likes", 5);
    node.add("views", 2);
    // The newest value of each counter comes, however the changes were gathered.
    let mut seen = std::collections::BTreeMap::new();
    while seen.len() < 2 {
        let event = all.next().expect("an event");
        seen.insert(event["key"].to_string(), event["value"].to_string());
    }
    assert_eq!(seen["\"likes\""], "\"5\"");
    assert_eq!(only.next(), Some(json!({"key": "views", "value": "2"})));
}

#[test]
fn a_node_with_open_streams_stops_in_order() {
    let mut node = Node::start(&[]);
    let url = format!("{}/v1/spaces/default/events", node.url);
    let mut response = agent().get(url).call().expect("a stream");
    let begun = Instant::now();
    assert!(node.terminate().success(), "{}", node.log());
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(4),
        "it waited {took:?} for the stream"
    );
    let end = response.body_mut().read_to_string();
    assert!(end.is_ok(), "the stream was torn off: {end:?}");
}

#[test]
fn operators_and_browsers_are_served() {
    let node = Node::start(&["--demo"]);
    node.add("likes", 1);
    assert_eq!(node.get("/healthz"), (200, json!("ok\n")));
    assert_eq!(node.get("/readyz"), (200, json!("ready\n")));
    let metrics = node.get("/metrics").1.as_str().expect("text").to_owned();
    assert!(metrics.contains("tallymesh_adds_total 1\n"), "{metrics}");
    assert!(
        metrics.contains("tallymesh_counters{space=\"default\"} 1\n"),
        "{metrics}"
    );
    let status = node.get("/v1/status").1;
    assert_eq!(
        (&status["demo"], &status["cut"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(status["peer_id"], node.peer_id.as_str());
    let (code, page) = node.get("/");
    assert_eq!(code, 200);
    assert!(
        page.as_str()
            .is_some_and(|page| page.starts_with("<!doctype html>")),
        "{page}"
    );
}

#[test]
fn many_clients_share_commits() {
    let node = Node::start(&[]);
    std::thread::scope(|scope| {
        for client in 0..16 {
            let node = &node;
            scope.spawn(move || (0..50).for_each(|_| node.add(&format!("c{client}"), 1)));
        }
    });
    let metrics = eventually("figures", || {
        node.get("/metrics").1.as_str().map(str::to_owned)
    });
    let figure = |name: &str| -> u64 {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .expect(name);
        line.split(' ')
            .next_back()
            .and_then(|text| text.parse().ok())
            .expect("a number")
    };
    let (adds, commits) = (
        figure("tallymesh_adds_total"),
        figure("tallymesh_commits_total"),
    );
    assert_eq!(adds, 800);
    assert!(
        commits < adds,
        "{commits} commits for {adds} adds of 16 clients"
    );
}
