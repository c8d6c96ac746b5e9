//! The description of this interface for programs: OpenAPI 3.1, made from the routes.
//!
//! Each handler declares its parameters and its answers. The codes of its refusals come from the
//! table of calls in `api`, or are declared, too. The meaning and the status of a code come from
//! the table of [`problems`]. The router and the document are made from the same list of routes.

use super::access::{Needs, needs};
use super::problem::{PROBLEM_JSON, Problem};
use axum::body::Bytes;
use axum::http::{HeaderName, Method, header};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tallymesh_node_ground::api::{self, Call, Idempotency, Options};
use tallymesh_node_ground::problems::{self, Kind};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

/// The field in which an operation that is no call of [`api`] lists the codes of its refusals, until
/// they are written out.
const CODES: &str = "x-problems";

/// The codes with which any request may be refused.
const ALWAYS: [&str; 7] = [
    "header_twice",
    "host",
    "internal",
    "origin",
    "rate_limited",
    "timeout",
    "transfer_encoding",
];

/// The codes with which any request to a space may be refused.
const IN_SPACE: [&str; 4] = ["path", "space_name", "space_not_open", "stopped"];

/// Codes of refusals for a request that takes a role: by a ticket, or the token of another node.
const WITH_ROLE: [&str; 10] = [
    "forbidden",
    "ticket",
    "ticket_early",
    "ticket_expired",
    "ticket_holder",
    "ticket_issuer",
    "ticket_needed",
    "ticket_revoked",
    "ticket_signature",
    "token_wrong",
];

/// Further codes of refusals for a request that is the operator's.
const OF_OPERATOR: &str = "token_needed";

/// The codes with which any request with a body may be refused.
const WITH_BODY: [&str; 3] = ["bodies_full", "body", "body_too_large"];

const ABOUT: &str = "\
Counters that are written anywhere and add up everywhere, at one node. What is read is what this \
node has seen; others may have counted more.\n\n\
Values, clocks and totals are decimal strings, since JavaScript's numbers end at 2^53; requests \
may have them as numbers too. An answer to a write means that it is as durable as the node's \
`--durability` says. A refusal is `application/problem+json` with a stable `code`.";

/// The part of the document above the routes.
pub(super) fn head() -> OpenApi {
    let tags = [
        ("counters", "Reading and writing counters."),
        (
            "budgets",
            "What never goes under its floor, spent from anywhere; see docs/budgets.md.",
        ),
        (
            "limits",
            "So much in each period, in the whole mesh; see docs/limits.md.",
        ),
        (
            "sequences",
            "Numbers, each handed out at most once in the whole mesh; see docs/sequences.md.",
        ),
        ("spaces", "What changed, and who wrote it."),
        ("members", "Members of a space, and writers that are gone."),
        ("tickets", "Who may do what."),
        ("sync", "Other replicas."),
        ("node", "This node, for operators."),
    ];
    let tags = tags.map(|(name, about)| {
        let tag = TagBuilder::new().name(name).description(Some(about));
        tag.build()
    });
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Tallymesh")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .build(),
        )
        .components(Some(
            ComponentsBuilder::new()
                .schema(Problem::name(), Problem::schema())
                .schema("Applied", problems::Applied::schema())
                .build(),
        ))
        .tags(Some(tags))
        .build()
}

/// The whole document.
pub fn document() -> Value {
    // It is made of texts, numbers and lists, which always make JSON.
    let mut document = serde_json::to_value(super::routes().into_openapi()).unwrap_or_default();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        let operations = item.as_object_mut().into_iter().flatten();
        for (method, operation) in operations {
            let call = operation["operationId"].as_str().and_then(api::named);
            write_problems(operation, path, method, call);
            if let Some(call) = call {
                write_headers(operation, call);
            }
        }
    }
    document["components"]["examples"] = examples();
    close_bodies(&mut document);
    document
}

/// The served document, as text.
static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// This description
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "node",
    responses((status = 200, description = "The document, OpenAPI 3.1.", body = serde_json::Value)),
)]
pub(super) async fn serve() -> ([(HeaderName, &'static str); 1], Bytes) {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

/// Adds the answers for an operation's refusals.
fn write_problems(operation: &mut Value, path: &str, method: &str, call: Option<&Call>) {
    let Some(fields) = operation.as_object_mut() else {
        return;
    };
    let named = fields.remove(CODES).unwrap_or_default();
    let named = named.as_array().into_iter().flatten();
    let named = named.filter_map(Value::as_str);
    let mut codes: Vec<&str> = named.map(|code| problems::of(code).code).collect();
    codes.extend(call.into_iter().flat_map(Call::codes));
    codes.extend(ALWAYS);
    if path.contains("{space}") {
        codes.extend(IN_SPACE);
    }
    if fields.contains_key("requestBody") {
        codes.extend(WITH_BODY);
    }
    let method = method.to_uppercase();
    let needs = Method::from_bytes(method.as_bytes()).map(|method| needs(&method, path));
    match needs.unwrap_or(Needs::Nothing) {
        Needs::Nothing => {}
        Needs::InSpace(..) | Needs::Everywhere(_) => codes.extend(WITH_ROLE),
        Needs::Operator(_) => codes.extend(WITH_ROLE.into_iter().chain([OF_OPERATOR])),
    }
    codes.sort_unstable();
    codes.dedup();
    let mut by_status: BTreeMap<u16, Vec<&'static Kind>> = BTreeMap::new();
    for code in codes {
        let kind = problems::of(code);
        by_status
            .entry(kind.status.unwrap_or(500))
            .or_default()
            .push(kind);
    }
    let writes = method != "GET";
    for (status, kinds) in by_status {
        fields["responses"][status.to_string()] = refusals(&kinds, writes);
    }
}

/// Adds their headers to the successful answers of requests with a key or a level.
fn write_headers(operation: &mut Value, call: &Call) {
    let mut headers = Map::new();
    if call.options != Options::None {
        let token = json!({
            "description": "What the session depends on by now, if the request had a token.",
            "schema": { "type": "string" },
        });
        headers.insert("tallymesh-token".to_owned(), token);
    }
    if call.idempotency == Idempotency::UnderAKey {
        let replayed = json!({
            "description": "That this had been made before, under its idempotency key.",
            "schema": { "type": "string", "enum": ["true"] },
        });
        headers.insert("idempotent-replayed".to_owned(), replayed);
    }
    if headers.is_empty() {
        return;
    }
    let answers = operation["responses"].as_object_mut();
    for (status, answer) in answers.into_iter().flatten() {
        if status.starts_with('2') {
            answer["headers"] = Value::Object(headers.clone());
        }
    }
}

/// The answer with one status, for any of these kinds.
fn refusals(kinds: &[&'static Kind], writes: bool) -> Value {
    let codes: Vec<&str> = kinds.iter().map(|kind| kind.code).collect();
    let about: Vec<String> = kinds
        .iter()
        .map(|kind| format!("- `{}`: {} {}", kind.code, kind.means, kind.advice))
        .collect();
    let examples: Map<String, Value> = kinds
        .iter()
        .map(|kind| {
            let at = format!("#/components/examples/{}", example_name(kind, writes));
            (kind.code.to_owned(), json!({ "$ref": at }))
        })
        .collect();
    let schema = json!({
        "allOf": [
            { "$ref": "#/components/schemas/Problem" },
            { "type": "object", "properties": { "code": { "type": "string", "enum": codes } } },
        ],
    });
    let mut answer = json!({
        "description": about.join("\n"),
        "content": { PROBLEM_JSON: { "schema": schema, "examples": examples } },
    });
    if codes.contains(&problems::RATE_LIMITED.code) {
        answer["headers"] = json!({
            "retry-after": {
                "description": "Seconds to wait.",
                "schema": { "type": "string", "pattern": "^[0-9]+$" },
            },
        });
    }
    answer
}

/// An example of each kind, with and without the result of a write.
fn examples() -> Value {
    let mut examples = Map::new();
    for kind in problems::TABLE.iter().filter(|kind| kind.status.is_some()) {
        for writes in [false, true] {
            let detail = format!("{} {}", kind.means, kind.advice);
            let mut value = json!(Problem::new(kind, detail));
            if let Some(applied) = kind.applied.filter(|_| writes) {
                value["applied"] = applied.word().into();
            }
            examples.insert(example_name(kind, writes), json!({ "value": value }));
        }
    }
    examples.into()
}

/// The name of an example; a kind that is not for writes has only one.
fn example_name(kind: &Kind, writes: bool) -> String {
    match writes && kind.applied.is_some() {
        true => format!("{}_write", kind.code),
        false => kind.code.to_owned(),
    }
}

/// Marks the bodies of requests as closed, because unknown fields are refused.
fn close_bodies(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object_mut();
    for (name, schema) in schemas.into_iter().flatten() {
        if name.ends_with("Body") {
            schema["additionalProperties"] = false.into();
        }
    }
}

#[cfg(test)]
mod tests;
