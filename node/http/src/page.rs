//! The page, built into the program.

use super::problem::Problem;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tallymesh_node_ground::problems;

/// One file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    /// Changes with the bytes, in quotes as the header requires.
    etag: &'static str,
    bytes: &'static [u8],
}

// `ASSETS`, written by build.rs; empty if the page was not built before this program.
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The content that replaces a page that was missing at build time.
const NO_PAGE: &str = include_str!("no_page.html");
const NO_PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// Scripts and wasm only from this node. Connections to any port of this machine, so that the page
/// of one node can use another.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
    style-src 'self'; img-src 'self' data:; \
    connect-src 'self' http://localhost:* ws://localhost:* http://127.0.0.1:* ws://127.0.0.1:*; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the file at the path. The names of files do not change with their contents. So browsers
/// ask each time, and get a short answer if nothing is new.
pub(super) async fn serve(uri: Uri, headers: HeaderMap) -> Response {
    let path = match uri.path() {
        "/" => "/index.html",
        path => path,
    };
    let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) else {
        return missing(path);
    };
    let caching = [
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, asset.etag),
    ];
    let known = headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == asset.etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let about = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (caching, about, asset.bytes).into_response()
}

fn missing(path: &str) -> Response {
    if ASSETS.is_empty() && path == "/index.html" {
        let about = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, NO_PAGE_POLICY),
        ];
        return (about, NO_PAGE).into_response();
    }
    let detail = format!(
        "there is nothing at {path}; the API is under /v1/, and /openapi.json describes it"
    );
    Problem::new(&problems::NOT_FOUND, detail).into_response()
}
