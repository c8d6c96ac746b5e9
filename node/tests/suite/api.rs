//! The HTTP interface as it is described to programs, and who may use it how fast.

use crate::process::{Node, agent};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The description that a node serves.
pub(crate) fn document(node: &Node) -> Value {
    let (status, document) = node.get("/openapi.json");
    assert_eq!(status, 200);
    document
}

/// Each path, with this node's space and a counter in it.
fn paths(document: &Value) -> Vec<(String, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let filled = paths.iter().map(|(path, item)| {
        let filled = path
            .replace("{space}", "default")
            .replace("{key}", "likes")
            .replace("{id}", &"0".repeat(32))
            .replace("{file}", "index.html");
        (filled, path.as_str(), item)
    });
    filled.collect()
}

#[test]
fn the_node_answers_to_what_is_described_and_to_nothing_else() {
    let node = Node::start(&[]);
    let document = document(&node);
    let shown = format!("Bearer {}", node.token());
    for (address, path, item) in paths(&document) {
        let response = agent()
            .patch(format!("{}{address}", node.url))
            .header("authorization", &shown)
            .send("")
            .expect("an answer");
        assert_eq!(response.status(), 405, "{path}");
        let allowed = response.headers()["allow"]
            .to_str()
            .expect("text")
            .to_ascii_lowercase();
        let allowed: BTreeSet<&str> = allowed.split(',').map(str::trim).collect();
        let mut described: BTreeSet<&str> = item
            .as_object()
            .expect("methods")
            .keys()
            .map(String::as_str)
            .collect();
        if described.contains("get") {
            described.insert("head");
        }
        assert_eq!(allowed, described, "{path}");
    }
    let printed = node.run(&["openapi"], "");
    assert!(printed.status.success());
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    assert_eq!(
        printed, document,
        "`tallymesh openapi` prints what a node serves"
    );
}

#[test]
fn the_examples_of_the_description_are_understood() {
    let node = Node::start(&["--demo"]);
    let document = document(&node);
    let mut sent = 0;
    for (address, path, item) in paths(&document) {
        for (method, operation) in item.as_object().expect("methods") {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let name = schema.to_string();
            let Some(name) = name.split("schemas/").nth(1) else {
                continue;
            };
            let name = name.split('"').next().expect("a name");
            let schema = &document["components"]["schemas"][name];
            let example = &schema["example"];
            assert!(example.is_object(), "{name} has no example");
            node.add("likes", 1);
            let send = |body: &Value| {
                let body = body.to_string();
                let (status, answer) = match method.as_str() {
                    "put" => node.put(&address, &body),
                    _ => node.post(&address, &body),
                };
                (
                    status,
                    answer["code"].as_str().unwrap_or_default().to_owned(),
                )
            };
            let (status, code) = send(example);
            assert!(
                status == 200 || status == 409,
                "{method} {path}: {status} {code}"
            );
            sent += 1;
            let mut with_more = example.clone();
            with_more["nobody_knows"] = json!(1);
            assert_eq!(send(&with_more), (400, "body".into()), "{method} {path}");
            for field in schema["required"].as_array().into_iter().flatten() {
                let mut with_less = example.clone();
                let field = field.as_str().expect("a name");
                with_less.as_object_mut().expect("an object").remove(field);
                assert_eq!(send(&with_less).0, 400, "{method} {path} without {field}");
            }
        }
    }
    assert!(sent >= 8, "{sent} examples were sent");
}

#[test]
fn many_counters_are_read_from_one_view() {
    let node = Node::start(&[]);
    let path = "/v1/spaces/default/read";
    node.add("a", 5);
    node.add("b", -2);
    assert_eq!(
        node.post(path, r#"{"keys":["b","none","a","b"]}"#),
        (
            200,
            json!({"counters": [
                {"key": "b", "value": "-2"},
                null,
                {"key": "a", "value": "5"},
                {"key": "b", "value": "-2"},
            ]})
        )
    );
    assert_eq!(
        node.post(path, r#"{"keys":[]}"#),
        (200, json!({"counters": []}))
    );
    let keys = vec!["k"; 1001];
    let (status, problem) = node.post(path, &json!({ "keys": keys }).to_string());
    assert_eq!((status, &problem["code"]), (400, &json!("too_many_keys")));
    let detail = problem["detail"].as_str().expect("a text");
    assert!(
        detail.contains("1001") && detail.contains("1000"),
        "{detail}"
    );

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ops = json!({"ops": [
                {"op": "add", "key": "one", "by": 1},
                {"op": "add", "key": "other", "by": -1},
            ]});
            while !stop.load(Ordering::Relaxed) {
                let done = node.post("/v1/spaces/default/transactions", &ops.to_string());
                assert_eq!(done.0, 200);
            }
        });
        for _ in 0..200 {
            let (_, read) = node.post(path, r#"{"keys":["one","other"]}"#);
            let of = |at: usize| {
                let value = read["counters"][at]["value"].as_str();
                value.map_or(0, |text| text.parse::<i64>().expect("a number"))
            };
            let sum = of(0) + of(1);
            if sum != 0 {
                stop.store(true, Ordering::Relaxed);
                panic!("half of a transaction: {read}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_refused_write_says_what_became_of_it() {
    let node = Node::start(&[]);
    let add = "/v1/spaces/default/counters/likes/add";
    for (what, (status, problem)) in [
        ("a body", node.post(add, "x")),
        (
            "a space",
            node.post("/v1/spaces/none/counters/likes/add", ""),
        ),
        ("a method", node.post("/v1/status", "")),
        ("an address", node.post("/nothing", "")),
        ("a reset", node.delete("/v1/spaces/a%20b/counters/likes")),
    ] {
        assert!(status >= 400, "{what}: {problem}");
        assert_eq!(problem["applied"], "no", "{what}: {problem}");
    }
    let (_, problem) = node.get("/v1/spaces/none/counters/likes");
    assert_eq!(problem["code"], "space_not_open");
    assert!(
        problem.get("applied").is_none(),
        "a reading was not applied: {problem}"
    );
}

#[test]
fn pages_of_allowed_origins_may_come_and_no_others() {
    let allowed = "https://shop.example";
    let node = Node::start(&["--cors-origin", allowed]);
    let ask = |method: &str, origin: &str| {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}/v1/spaces/default/counters/likes", node.url))
            .header("origin", origin)
            .header("access-control-request-method", "PUT")
            .header(
                "access-control-request-headers",
                "content-type,idempotency-key,tallymesh-level,tallymesh-wait-ms,tallymesh-token",
            );
        let request = request.body(()).expect("a request");
        let response = agent().run(request).expect("an answer");
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.map(|it| it.to_str().expect("text").to_ascii_lowercase())
        };
        (
            response.status().as_u16(),
            header("access-control-allow-origin"),
            header("access-control-allow-methods"),
            header("access-control-allow-headers"),
            header("access-control-expose-headers"),
        )
    };
    let listed = |names: Option<String>, wanted: &[&str]| {
        let names = names.expect("some names");
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        for name in wanted {
            assert!(names.contains(name), "{name}: {names:?}");
        }
    };
    let (status, origin, methods, headers, _) = ask("OPTIONS", allowed);
    listed(
        headers,
        &[
            "content-type",
            "idempotency-key",
            "tallymesh-level",
            "tallymesh-wait-ms",
            "tallymesh-token",
            "tallymesh-session",
            "last-event-id",
        ],
    );
    assert_eq!((status, origin.as_deref()), (200, Some(allowed)));
    assert!(methods.is_some_and(|methods| methods.contains("put")));
    let (status, origin, _, _, exposed) = ask("GET", allowed);
    assert_eq!(
        (status, origin.as_deref()),
        (404, Some(allowed)),
        "it may read refusals"
    );
    listed(
        exposed,
        &[
            "allow",
            "idempotent-replayed",
            "retry-after",
            "tallymesh-session",
            "tallymesh-token",
        ],
    );
    for stranger in ["https://stranger.example", "http://shop.example", "null"] {
        for method in ["OPTIONS", "GET"] {
            let (status, origin, ..) = ask(method, stranger);
            assert_eq!((status, origin), (403, None), "{method} {stranger}");
        }
    }
}

#[test]
fn requests_that_come_too_fast_are_told_when_to_come_again() {
    let node = Node::start(&["--http-rate", "1/s", "--http-burst", "5"]);
    let ask = || {
        let url = format!("{}/v1/spaces/default/counters/likes/add", node.url);
        let mut response = agent().post(url).send("").expect("an answer");
        let wait = response.headers().get("retry-after");
        let wait = wait.map(|it| it.to_str().expect("text").to_owned());
        let body: Value = response.body_mut().read_json().expect("JSON");
        (response.status().as_u16(), wait, body)
    };
    let answers: Vec<_> = (0..30).map(|_| ask()).collect();
    assert!(answers[..5].iter().all(|(status, ..)| *status == 200));
    let refused = answers.iter().find(|(status, ..)| *status != 200);
    let (status, wait, problem) = refused.expect("30 requests within seconds");
    assert_eq!((*status, wait.as_deref()), (429, Some("1")));
    assert_eq!(
        (&problem["code"], &problem["applied"]),
        (&json!("rate_limited"), &json!("no"))
    );
    let free = Node::start(&[]);
    for _ in 0..100 {
        free.add("likes", 1);
    }
    assert_eq!(
        free.value("likes"),
        Some(100),
        "there is no limit on loopback"
    );
}

#[test]
fn the_page_to_try_it_comes_from_the_node_alone() {
    let node = Node::start(&[]);
    let get = |path: &str| {
        let response = agent().get(format!("{}{path}", node.url)).call();
        let mut response = response.expect("an answer");
        let policy = response.headers().get("content-security-policy").cloned();
        let policy = policy.map(|it| it.to_str().expect("text").to_owned());
        let text = response.body_mut().read_to_string().expect("a body");
        (response.status().as_u16(), policy, text)
    };
    let (status, policy, page) = get("/api/");
    assert_eq!(status, 200);
    let policy = policy.expect("a policy");
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(!policy.contains("http"), "{policy}");
    let files: Vec<&str> = page
        .split("=\"./")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(files, ["page.css", "page.js"]);
    for file in files {
        let (status, policy, text) = get(&format!("/api/{file}"));
        assert!(
            status == 200 && policy.is_some() && !text.is_empty(),
            "{file}"
        );
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "{file}"
        );
    }
    assert_eq!(get("/api").0, 200, "it leads to the page");
    assert_eq!(get("/api/none.js").0, 404);
}
