//! The table of calls beside a running node: what it answers to good and to bad requests, with and
//! without an idempotency key, is what the table and the description say.

use crate::api::document;
use crate::members::close;
use crate::process::{Node, agent, eventually, read};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tallymesh_node_ground::api::{Call, Field, Form, Idempotency, Method, TABLE};

/// A counter, budgets, a sequence and a limit, by the names that requests use here.
fn prepared() -> Node {
    let node = Node::start(&[]);
    close(&[&node]);
    let space = "/v1/spaces/default";
    node.add("Counters", 1);
    for (path, body) in [
        ("budgets/Budgets/mint", r#"{"amount":"1000"}"#),
        ("budgets/other/mint", r#"{"amount":"0"}"#),
        ("sequences/Sequences", ""),
    ] {
        let (status, answer) = node.post(&format!("{space}/{path}"), body);
        assert_eq!(status, 200, "{answer}");
    }
    let limit = r#"{"limit":1000,"period_ms":31622400000}"#;
    let (status, answer) = node.put(&format!("{space}/limits/Limits"), limit);
    assert_eq!(status, 200, "{answer}");
    let next = format!("{space}/sequences/Sequences/next");
    eventually("numbers are there, and a share of the period", || {
        let is_there = |path: &str| node.post(path, "").0 == 200;
        (is_there(&next) && is_there(&format!("{space}/limits/Limits/allow"))).then_some(())
    });
    node
}

/// Good values of a field, and bad ones. `call` numbers the requests that make something.
fn values(call: &Call, field: &Field, number: usize) -> (Value, Vec<Value>) {
    let above = |max: usize| json!("x".repeat(max + 1));
    let numbers = |bad: &[&str]| bad.iter().map(|it| json!(it)).collect();
    match field.form {
        Form::Name(max) => {
            let name = match call.name {
                "begin_sequence" => format!("begun {number}"),
                "delete_counter" | "remove_limit" | "set_limit" => "gone".to_owned(),
                _ => format!("{:?}", call.on),
            };
            (
                json!(name),
                vec![above(max), above(512), json!("\0x"), json!("none")],
            )
        }
        Form::Text => (json!("x"), vec![]),
        Form::Integer => (json!("1"), numbers(&["+1", "", "x", "9223372036854775808"])),
        Form::Amount => {
            let bad = ["+1", "-1", "-0", "", "x", "9223372036854775808"];
            let good = if field.name == "period_ms" {
                "60000"
            } else {
                "1"
            };
            (json!(good), numbers(&bad))
        }
        Form::Count(max) => (json!(1), vec![json!(0), json!(max + 1), json!("x")]),
        Form::Millis => {
            let good = if field.name == "at" {
                "9999999999999"
            } else {
                "60000"
            };
            (json!(good), numbers(&["+1", "-1", "", "x"]))
        }
        Form::LeaseId => (json!(format!("{number:032x}")), numbers(&["x", "0"])),
        Form::Number => (json!("1000000"), numbers(&["0", "+5", "007", "-1", "x"])),
        Form::Recipient => (json!("0".repeat(64)), numbers(&["me"])),
        Form::Shares => (
            json!([{ "key": "other", "amount": "1" }]),
            vec![
                json!([{ "key": "other", "amount": "-1" }]),
                json!([{ "key": "other", "amount": "x" }]),
                json!([{ "key": "x".repeat(478), "amount": "1" }]),
            ],
        ),
        Form::Keys(max) => (json!(["a"]), vec![json!(vec!["a"; max + 1])]),
        Form::Lines => (json!("a 1\nb 2"), vec![json!("a x"), json!("\u{0}x 1")]),
        Form::Operations => (
            json!([{ "op": "add", "key": "a" }]),
            vec![json!([{ "op": "x" }])],
        ),
    }
}

/// The fields of a call with good values. Of two fields that exclude each other it has the first.
fn good(call: &Call, number: usize) -> Map<String, Value> {
    let fields = call
        .fields
        .iter()
        .filter(|it| it.name != "in_ms" && it.name != "lease");
    let of = |it: &Field| (it.name.to_owned(), values(call, it, number).0);
    fields.map(of).collect()
}

fn escaped(text: &str) -> String {
    let each = text.bytes().map(|byte| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    each.collect()
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Sends a call with these fields: the status, the answer, and whether it had been made before.
fn send(
    node: &Node,
    call: &Call,
    fields: &Map<String, Value>,
    key: Option<&str>,
) -> (u16, Value, bool) {
    let mut path = call.path().replace("{space}", "default");
    let (mut query, mut body) = (Vec::new(), Map::new());
    let mut lines = None;
    for (name, value) in fields {
        let part = format!("{{{name}}}");
        let form = call
            .fields
            .iter()
            .find(|it| it.name == name)
            .map(|it| it.form);
        match () {
            () if path.contains(&part) => path = path.replace(&part, &escaped(&text(value))),
            () if form == Some(Form::Lines) => lines = Some(text(value)),
            () if call.method() == Method::Get => {
                query.push(format!("{name}={}", escaped(&text(value))))
            }
            () => drop(body.insert(name.clone(), value.clone())),
        }
    }
    let address = match query.is_empty() {
        true => format!("{}{path}", node.url),
        false => format!("{}{path}?{}", node.url, query.join("&")),
    };
    let mut request = ureq::http::Request::builder()
        .method(format!("{:?}", call.method()).to_uppercase().as_str())
        .uri(address);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let body = match body.is_empty() {
        true => lines.unwrap_or_default(),
        false => Value::Object(body).to_string(),
    };
    let has_body = matches!(call.method(), Method::Post | Method::Put);
    let response = match has_body {
        true => agent().run(request.body(body).expect("a request")),
        false => agent().run(request.body(()).expect("a request")),
    };
    let response = response.expect("an answer");
    let again = response.headers().contains_key("idempotent-replayed");
    let (status, answer) = read(response);
    (status, answer, again)
}

/// The codes that the description has for a call.
fn described<'a>(document: &'a Value, call: &Call) -> BTreeSet<&'a str> {
    let method = format!("{:?}", call.method()).to_lowercase();
    let operation = &document["paths"][call.path()][method];
    let answers = operation["responses"].as_object().expect(call.name);
    let problems = answers.values().filter_map(|it| {
        let examples = &it["content"]["application/problem+json"]["examples"];
        examples.as_object()
    });
    problems
        .flat_map(|it| it.keys().map(String::as_str))
        .collect()
}

/// Fails if a refusal has a code that the description of the call does not have.
fn is_described(document: &Value, call: &Call, (status, answer): (u16, &Value), what: &str) {
    if status < 400 {
        return;
    }
    let code = answer["code"].as_str().unwrap_or_default();
    let codes = described(document, call);
    assert!(codes.contains(code), "{}: {what}: {answer}", call.name);
}

#[test]
fn each_refusal_is_one_that_the_description_has() {
    let node = prepared();
    let document = document(&node);
    let mut refused = 0;
    let routed = TABLE.iter().filter(|it| it.route.is_some());
    for (number, call) in routed.enumerate() {
        let fields = good(call, number);
        let (status, answer, _) = send(&node, call, &fields, None);
        is_described(&document, call, (status, &answer), "good");
        for field in call.fields {
            for bad in values(call, field, number).1 {
                let mut fields = fields.clone();
                fields.insert(field.name.to_owned(), bad.clone());
                let (status, answer, _) = send(&node, call, &fields, None);
                is_described(
                    &document,
                    call,
                    (status, &answer),
                    &format!("{}: {bad}", field.name),
                );
                // A name that is wrong for one call may be free for another.
                let may_be_good = matches!(field.form, Form::Name(_));
                assert!(status >= 400 || may_be_good, "{}: {bad}", call.name);
                refused += usize::from(status >= 400);
            }
        }
    }
    assert!(refused > 150, "{refused}");
}

/// A call takes an idempotency key, refuses each, or does not look at it, as its row says.
#[test]
fn idempotency_keys_are_taken_as_the_table_says() {
    let node = prepared();
    let document = document(&node);
    for (number, call) in TABLE.iter().filter(|it| it.route.is_some()).enumerate() {
        let fields = good(call, number);
        let key = format!("k{number}");
        for key in ["", &key, &key] {
            let (status, answer, again) = send(&node, call, &fields, Some(key));
            is_described(
                &document,
                call,
                (status, &answer),
                &format!("under '{key}'"),
            );
            let code = answer["code"].as_str().unwrap_or_default();
            match call.idempotency {
                Idempotency::UnderAKey => assert_eq!(code == "idempotency_key", key.is_empty()),
                Idempotency::Never(never) => assert_eq!(code, never, "{}", call.name),
                Idempotency::NotNeeded => {
                    assert_ne!(code, "idempotency_key", "{}", call.name);
                    assert!(!again, "{}", call.name);
                }
            }
        }
        // There is no other member for a grant, and no lease to end.
        let is_made = !["grant", "end_lease"].contains(&call.name);
        let is_made = is_made && call.idempotency == Idempotency::UnderAKey;
        let (status, answer, again) = send(&node, call, &fields, Some(&key));
        assert_eq!(again, is_made, "{}: {status} {answer}", call.name);
    }
}

/// Each operation of transactions is accepted in the form that the description has, and refused with
/// codes of it.
#[test]
fn each_operation_of_a_transaction_is_described() {
    let node = prepared();
    let document = document(&node);
    let transact = TABLE
        .iter()
        .find(|it| it.name == "transact")
        .expect("a row");
    let schemas = &document["components"]["schemas"];
    let names = schemas["OperationName"]["enum"].as_array().expect("names");
    let body = schemas["OperationBody"]["properties"]
        .as_object()
        .expect("fields");
    let ops = TABLE.iter().filter(|it| it.op.is_some());
    let mut known: BTreeSet<&str> = ["op"].into();
    for (number, call) in ops.clone().enumerate() {
        let name = call.op.expect("an operation");
        assert!(names.contains(&json!(name)), "{name}");
        let operation = |fields: &Map<String, Value>| {
            let mut fields = fields.clone();
            fields.insert("op".to_owned(), json!(name));
            json!({ "ops": [fields] })
        };
        let make = |fields: &Map<String, Value>, key| {
            let sent = operation(fields).as_object().cloned().unwrap_or_default();
            let (status, answer, _) = send(&node, transact, &sent, key);
            is_described(
                &document,
                transact,
                (status, &answer),
                &format!("{name} {fields:?}"),
            );
            (status, answer)
        };
        let fields = good(call, 100 + number);
        let (status, answer) = make(&fields, None);
        let expected = match name {
            "grant" | "grant_room" => "no_recipient",
            // The budget has no cap, and the lease that is ended was never given.
            "lower_cap" | "raise_cap" => "wrong_kind",
            "end_lease" => "no_lease",
            _ => "",
        };
        assert_eq!(
            answer["code"].as_str().unwrap_or_default(),
            expected,
            "{name}: {status} {answer}"
        );
        let key = format!("t{number}");
        let (_, answer) = make(&fields, Some(&key));
        if let Idempotency::Never(code) = call.idempotency {
            assert_eq!(answer["code"], code, "{name}");
        }
        for field in call.fields {
            assert!(body.contains_key(field.name), "{name}: {}", field.name);
            known.insert(field.name);
            for bad in values(call, field, number).1 {
                let mut fields = fields.clone();
                fields.insert(field.name.to_owned(), bad);
                make(&fields, None);
            }
        }
    }
    let told: BTreeSet<&str> = body.keys().map(String::as_str).collect();
    assert_eq!(told, known);
    assert_eq!(names.len(), ops.count());
}
