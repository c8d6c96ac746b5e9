//! Decides which requests are accepted, by the rule for [browsers](tallymesh_node_engine::browser), and by headers
//! that may occur once.
//!
//! Accepted pages may read the answers (CORS), so that a page of one node can use another.

use super::App;
use super::asking::{KEY, LEVEL, REPLAYED, RIGHTS_WAIT, TOKEN, WAIT};
use super::events::LAST_EVENT_ID;
use super::post::{CHALLENGE, NODE, OWNER, SESSION, SIGNATURE};
use super::problem::Problem;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tallymesh_node_engine::browser::{Comer, Pages, Refused};
use tallymesh_node_ground::problems;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How long a browser may remember that a page may send requests here.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// The pages that may load an answer without asking.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Headers with one meaning. Two different ones are ambiguous, and a proxy in front of the node may
/// have judged the other one.
const SINGLE: [HeaderName; 19] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONTENT_TYPE,
    header::COOKIE,
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-dest"),
    LAST_EVENT_ID,
    SESSION,
    OWNER,
    SIGNATURE,
    KEY,
    LEVEL,
    WAIT,
    RIGHTS_WAIT,
    TOKEN,
];

/// The kind of program that sent a request, or the answer to a refused one.
pub(super) fn judge(app: &App, request: &Request) -> Result<Comer, Box<Response>> {
    let admitted = admit(
        &app.rules.pages,
        request.headers(),
        request.uri().authority(),
    );
    admitted.map_err(|it| Box::new(Problem::new(it.kind, it.detail).into_response()))
}

/// Judges a request by its headers, and by the host in its target if it has one: the rule of this
/// listener, and of libp2p's WebSocket.
pub fn admit(
    pages: &Pages,
    headers: &HeaderMap,
    target: Option<&Authority>,
) -> Result<Comer, Refused> {
    once(headers)?;
    one_host(headers, target)?;
    one_length(headers)?;
    pages.judge(headers, target.map(Authority::as_str))
}

/// Refuses a request whose target names another host than its header, because a proxy in front of
/// the node may have judged the other one.
fn one_host(headers: &HeaderMap, target: Option<&Authority>) -> Result<(), Refused> {
    let (Some(host), Some(target)) = (headers.get(header::HOST), target) else {
        return Ok(());
    };
    match host
        .as_bytes()
        .eq_ignore_ascii_case(target.as_str().as_bytes())
    {
        true => Ok(()),
        false => Err(Refused {
            kind: &problems::HEADER_TWICE,
            detail: "the request's target names one host, and the header `host` another; send one \
                     host, in the header alone"
                .into(),
        }),
    }
}

/// Refuses a body whose length is given in two ways, or in an unknown one (RFC 9112, section 6.1).
fn one_length(headers: &HeaderMap) -> Result<(), Refused> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let Some(coding) = codings.next() else {
        return Ok(());
    };
    let chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let detail = match chunked && codings.next().is_none() {
        true if !headers.contains_key(header::CONTENT_LENGTH) => return Ok(()),
        true => "the request has both `content-length` and `transfer-encoding`; send one of them",
        false => "the only transfer encoding here is `chunked`; send the body as it is",
    };
    let (kind, detail) = (&problems::TRANSFER_ENCODING, detail.into());
    Err(Refused { kind, detail })
}

/// Refuses a request with a header that is there twice and not the same. `Host` is never twice
/// (RFC 9112, section 3.2).
fn once(headers: &HeaderMap) -> Result<(), Refused> {
    // Most requests have no header twice.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    for name in &SINGLE {
        let mut values = headers.get_all(name).into_iter();
        let first = values.next();
        let host = *name == header::HOST;
        if values.any(|it| host || Some(it) != first) {
            let detail = format!("the header `{name}` is there twice; send it once");
            let kind = &problems::HEADER_TWICE;
            return Err(Refused { kind, detail });
        }
    }
    Ok(())
}

/// Whether the request may be from a page, whose browser needs CORS headers to read the answer.
pub(super) fn is_of_a_page(request: &Request) -> bool {
    request.headers().contains_key(header::ORIGIN) || request.method() == Method::OPTIONS
}

/// An answer with headers that keep browsers from guessing its type, and caches from using it for
/// another page.
pub(super) fn closed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    // Pages that may read an answer use CORS, which this does not change.
    let own = HeaderValue::from_static("same-origin");
    headers.insert(RESOURCE_POLICY, own);
    if !headers.contains_key(header::VARY) {
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Lets pages read the answers. Only accepted pages reach this layer.
pub(super) fn cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            LAST_EVENT_ID,
            SESSION,
            OWNER,
            SIGNATURE,
            KEY,
            LEVEL,
            WAIT,
            RIGHTS_WAIT,
            TOKEN,
        ])
        .expose_headers([
            header::ALLOW,
            header::RETRY_AFTER,
            header::WWW_AUTHENTICATE,
            SESSION,
            CHALLENGE,
            NODE,
            REPLAYED,
            TOKEN,
        ])
        .max_age(PREFLIGHT_AGE)
}
