//! The document has all routes, and the right form of all numbers.

use super::document;
use crate::access::{Needs, needs};
use axum::http::Method;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_node_ground::api::{Call, Field, Form, Idempotency, On, Options, TABLE};
use tallymesh_node_ground::problems;

/// Numbers that are no 64-bit values, clocks or totals: counts of what is in memory, sizes and
/// times of this process, places in a request. They stay below 2^53.
const SMALL: [&str; 32] = [
    "attached_count",
    "budgets",
    "bytes_in",
    "bytes_out",
    "clock_error_ms",
    "clock_offset_ms",
    "counters",
    "disk_free_percent",
    "expiring",
    "faults",
    "key_bytes",
    "keyed",
    "for_ms",
    "last_heard_ms",
    "limits",
    "line",
    "lines",
    "link",
    "period_ms",
    "messages_in",
    "messages_out",
    "op",
    "renewals",
    "rtt_us",
    "sequences",
    "shards",
    "silent_ms",
    "stuck",
    "uptime_ms",
    "waiting_count",
    "withdrawn",
    "writers",
];

/// Numbers of answers that are texts.
const TEXTS: [&str; 17] = [
    "awaited",
    "begins",
    "cap",
    "clock",
    "elsewhere",
    "ends",
    "expires_at",
    "floor",
    "here",
    "leased",
    "left",
    "pending",
    "rights",
    "room",
    "total",
    "upto",
    "value",
];

/// Numbers of requests, which may be texts.
const EITHER: [&str; 11] = [
    "amount",
    "at",
    "by",
    "cost",
    "expires_in_ms",
    "in_ms",
    "lease_ms",
    "limit",
    "period_ms",
    "value",
    "wait_ms",
];

/// Each operation: its path, its method, and its description.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().expect("methods");
        item.iter()
            .map(|(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    each.collect()
}

/// The parameters of an operation in one place.
fn parameters<'a>(operation: &'a Value, place: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.filter(move |it| it["in"] == place)
}

/// Whether an operation accepts a header.
fn takes(operation: &Value, header: &str) -> bool {
    parameters(operation, "header").any(|it| it["name"] == header)
}

/// The schema itself, if this is a reference to one.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(name) => document
            .pointer(name.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("there is no {name}")),
        None => schema,
    }
}

/// Calls `take` with each schema in one, and the name of its field.
fn walk<'a>(
    document: &'a Value,
    name: &'a str,
    schema: &'a Value,
    take: &mut dyn FnMut(&'a str, &'a Value),
) {
    let schema = resolved(document, schema);
    take(name, schema);
    for (field, of) in schema["properties"].as_object().into_iter().flatten() {
        walk(document, field, of, take);
    }
    for part in ["allOf", "oneOf", "anyOf"] {
        for of in schema[part].as_array().into_iter().flatten() {
            walk(document, name, of, take);
        }
    }
    if schema["items"].is_object() {
        walk(document, name, &schema["items"], take);
    }
}

fn is(schema: &Value, kind: &str) -> bool {
    let types = &schema["type"];
    types == kind
        || types
            .as_array()
            .is_some_and(|types| types.iter().any(|it| it == kind))
}

#[test]
fn all_routes_of_the_router_are_documented_and_no_others() {
    let (router, openapi) = crate::routes().split_for_parts();
    // A router shows its paths only to a debugger, with those of its fallback.
    let shown = format!("{router:?}");
    let (_, paths) = shown
        .split_once("paths: {")
        .expect("the paths of the router");
    let texts = paths.split('"').skip(1).step_by(2);
    let routed = texts.filter(|text| text.starts_with('/') && *text != "/");
    let routed = routed.filter(|text| !text.contains("axum_fallback"));
    let routed: BTreeSet<String> = routed.map(str::to_owned).collect();
    let documented: BTreeSet<String> = openapi.paths.paths.keys().cloned().collect();
    assert_eq!(routed, documented);
}

#[test]
fn each_operation_is_told_whole() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let what = format!("{method} {path}");
        let id = operation["operationId"].as_str().expect(&what);
        assert!(ids.insert(id), "{what}: another operation is called {id}");
        assert!(operation["summary"].is_string(), "{what}");
        assert!(operation["tags"].is_array(), "{what}");
        assert!(operation.get(super::CODES).is_none(), "{what}");
        let named: BTreeSet<&str> = parameters(operation, "path")
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let expected: BTreeSet<&str> = path
            .split('{')
            .skip(1)
            .filter_map(|part| part.split('}').next())
            .collect();
        assert_eq!(named, expected, "{what}");
        let answers = operation["responses"].as_object().expect(&what);
        assert!(
            answers.keys().any(|status| status < &"400".to_owned()),
            "{what}"
        );
        for (status, answer) in answers
            .iter()
            .filter(|(status, _)| *status >= &"400".to_owned())
        {
            let examples = &answer["content"]["application/problem+json"]["examples"];
            for (code, example) in examples.as_object().expect(&what) {
                let kind = problems::of(code);
                assert_eq!(kind.code, code, "{what}: not in the table");
                assert_eq!(
                    kind.status.map(|it| it.to_string()).as_ref(),
                    Some(status),
                    "{what}"
                );
                let example = resolved(&document, example);
                assert_eq!(example["value"]["code"], code.as_str(), "{what}");
            }
        }
    }
}

/// Each call has its route, with its role and its codes, and each route of such a kind is a call's.
#[test]
fn each_call_has_a_route_as_its_row_says() {
    let document = document();
    let routed = TABLE.iter().filter(|call| call.route.is_some());
    let mut left: BTreeMap<&str, &Call> = routed.map(|call| (call.name, *call)).collect();
    for (path, method, operation) in operations(&document) {
        let name = operation["operationId"].as_str().expect(path);
        let is_of_table = On::ALL.iter().any(|on| operation["tags"][0] == on.name());
        let call = left.remove(name);
        assert_eq!(call.is_some(), is_of_table, "{name}");
        let Some(call) = call else { continue };
        let (expected, _) = call.route.expect("a route");
        assert_eq!(format!("{expected:?}").to_lowercase(), method, "{name}");
        assert_eq!(call.path(), path);
        assert_eq!(operation["tags"][0], call.on.name(), "{name}");
        let method: Method = method.to_uppercase().parse().expect("a method");
        let needed = needs(&method, path);
        assert_eq!(needed, Needs::InSpace("{space}", call.role), "{name}");
        let answers = &operation["responses"];
        for code in call.codes() {
            let kind = problems::of(code);
            assert_eq!(kind.code, code, "{name}: not in the table of problems");
            let status = kind.status.expect(code).to_string();
            let problem = &answers[status]["content"]["application/problem+json"];
            assert!(problem["examples"].get(code).is_some(), "{name}: {code}");
        }
        let takes = ["tallymesh-level", "idempotency-key"].map(|it| takes(operation, it));
        let keyed = call.idempotency == Idempotency::UnderAKey;
        assert_eq!(takes, [call.options != Options::None, keyed], "{name}");
        assert_eq!(described(&document, operation), fields(call), "{name}");
        bounds_are_told(&document, operation, call);
    }
    assert!(left.is_empty(), "without a route: {:?}", left.keys());
}

/// The fields of a call: whether each is required, by its name.
fn fields(call: &Call) -> BTreeMap<&str, bool> {
    let named = call.fields.iter().filter(|it| it.form != Form::Lines);
    named.map(|it| (it.name, it.required)).collect()
}

/// The fields that are described: whether each is required, by its name.
fn described<'a>(document: &'a Value, operation: &'a Value) -> BTreeMap<&'a str, bool> {
    let asked = parameters(operation, "path").chain(parameters(operation, "query"));
    let asked = asked.map(|it| (it["name"].as_str(), it["required"] == true));
    let mut found: BTreeMap<&str, bool> = asked
        .filter_map(|(name, required)| Some((name?, required)))
        .collect();
    found.remove("space");
    for of in operation["requestBody"]["content"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let schema = &of.1["schema"];
        let schema = schema["oneOf"].as_array().map_or(schema, |it| &it[0]);
        let schema = resolved(document, schema);
        let required = schema["required"].as_array();
        for (name, _) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.is_some_and(|it| it.iter().any(|it| it == name.as_str()));
            found.insert(name, is_required);
        }
    }
    found
}

/// Checks that the description of a call's name tells its longest length.
fn bounds_are_told(document: &Value, operation: &Value, call: &Call) {
    for Field { name, form, .. } in call.fields {
        let mut asked = parameters(operation, "path").chain(parameters(operation, "query"));
        let about = asked.find(|it| it["name"] == *name);
        match form {
            Form::Name(max) => {
                let told = about.expect(name)["description"].as_str().expect(name);
                let bound = format!("1 to {max} bytes");
                assert!(told.contains(&bound), "{}: {told}", call.name);
            }
            Form::Count(max) => assert_eq!(about.expect(name)["schema"]["maximum"], *max),
            Form::Keys(max) => {
                let keys = &document["components"]["schemas"]["ReadBody"]["properties"]["keys"];
                assert_eq!(keys["maxItems"], *max);
            }
            _ => {}
        }
    }
}

/// Every write of counters accepts an idempotency key, except those with an id or a number of their
/// own, and every write and read accepts a level.
#[test]
fn all_that_touches_counters_takes_keys_and_levels() {
    let document = document();
    let mut found = BTreeMap::new();
    for (path, method, operation) in operations(&document) {
        let place = path.strip_prefix("/v1/spaces/{space}/").unwrap_or_default();
        let counters = [
            "add",
            "budgets",
            "counters",
            "read",
            "sequences",
            "transactions",
        ];
        let counters = counters.contains(&place.split('/').next().unwrap_or_default())
            || place == "limits/{key}/allow"
            || place == "limits/{key}" && method == "get";
        let writes = counters && method != "get" && place != "read";
        let own = ["next_number", "lease"]
            .iter()
            .any(|it| operation["operationId"] == *it);
        let keyed = writes && !own;
        for (header, expected) in [
            ("idempotency-key", keyed),
            ("tallymesh-level", counters),
            ("tallymesh-wait-ms", counters),
            ("tallymesh-token", counters),
        ] {
            let takes = takes(operation, header);
            assert_eq!(takes, expected, "{method} {path}: {header}");
        }
        let answers = &operation["responses"];
        for (code, status, expected) in [
            ("key_reused", "422", keyed),
            (
                "number_once",
                "400",
                place.ends_with("/next") || place == "transactions",
            ),
            ("level_not_reached", "503", counters),
            ("token_not_reached", "503", counters && !writes),
        ] {
            let problem = &answers[status]["content"]["application/problem+json"];
            let refuses = problem["examples"].get(code).is_some();
            assert_eq!(refuses, expected, "{method} {path}: {code}");
        }
        let headers = &answers["200"]["headers"];
        assert_eq!(headers.get("idempotent-replayed").is_some(), keyed);
        assert_eq!(headers.get("tallymesh-token").is_some(), counters);
        *found.entry((counters, writes)).or_insert(0) += 1;
    }
    assert_eq!(found[&(true, true)], 19, "writes");
    assert_eq!(found[&(true, false)], 9, "reads");
}

#[test]
fn numbers_of_64_bits_are_texts_in_answers_and_either_in_requests() {
    let document = document();
    let mut seen = BTreeMap::new();
    for (path, method, operation) in operations(&document) {
        let answers = operation["responses"].as_object().expect("answers");
        for (status, answer) in answers {
            for of in answer["content"].as_object().into_iter().flatten() {
                walk(&document, "", &of.1["schema"], &mut |name, schema| {
                    let what = format!("{method} {path} {status}: {name}");
                    if is(schema, "integer") {
                        let small = SMALL.contains(&name) || name == "status";
                        assert!(small, "{what} is a number");
                    }
                    assert!(!is(schema, "number"), "{what} is a fraction");
                    if TEXTS.contains(&name) && !is(schema, "object") {
                        assert_eq!(schema["pattern"], "^-?[0-9]+$", "{what}");
                        *seen.entry(name.to_owned()).or_insert(0) += 1;
                    }
                });
            }
        }
        for of in operation["requestBody"]["content"]
            .as_object()
            .into_iter()
            .flatten()
        {
            walk(&document, "", &of.1["schema"], &mut |name, schema| {
                let what = format!("{method} {path}: {name}");
                if EITHER.contains(&name) {
                    if let Some(either) = schema["oneOf"].as_array() {
                        assert!(
                            is(&either[0], "string") && either[0]["pattern"].is_string(),
                            "{what}"
                        );
                        assert!(is(&either[1], "integer"), "{what}");
                        *seen.entry(format!("request {name}")).or_insert(0) += 1;
                    }
                } else {
                    assert!(!is(schema, "integer") && !is(schema, "number"), "{what}");
                }
            });
        }
    }
    for name in [
        "value",
        "clock",
        "total",
        "here",
        "rights",
        "request amount",
        "request by",
        "request value",
        "request in_ms",
    ] {
        assert!(seen.contains_key(name), "{name} was not looked at");
    }
}

/// The forms of operations have the names and the fields of all calls that can be one.
#[test]
fn each_operation_of_a_transaction_has_its_form() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let ops = || TABLE.iter().filter(|it| it.op.is_some());
    let names = schemas["OperationName"]["enum"].as_array().expect("names");
    let names: BTreeSet<&str> = names.iter().filter_map(Value::as_str).collect();
    assert_eq!(names, ops().filter_map(|it| it.op).collect());
    let fields = schemas["OperationBody"]["properties"].as_object();
    let fields: BTreeSet<&str> = fields.expect("fields").keys().map(String::as_str).collect();
    let expected = ops().flat_map(|it| it.fields.iter().map(|it| it.name));
    assert_eq!(fields, expected.chain(["op"]).collect());
}

#[test]
fn amounts_have_their_bounds() {
    use tallymesh_node_ground::api;
    let document = document();
    let number = &document["components"]["schemas"]["Quantity"]["oneOf"][1];
    assert_eq!(number["minimum"], 0);
    assert_eq!(number["maximum"], api::AMOUNT_MAX);
}
