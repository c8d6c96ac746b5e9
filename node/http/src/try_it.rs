//! A page to view and to try this interface. The browser makes it from the description.
//!
//! It is the node's own page, and small. Every text has contrast, each field has its label, and
//! nothing is nested in a button. Other tools of this kind lack that.

use super::problem::{Problem, Route};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use tallymesh_node_ground::problems;

/// Everything from this node only, and requests to this node only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The files of the page: name, content type, text.
const FILES: [(&str, &str, &str); 3] = [
    (
        "index.html",
        "text/html; charset=utf-8",
        include_str!("try_it/index.html"),
    ),
    (
        "page.js",
        "text/javascript; charset=utf-8",
        include_str!("try_it/page.js"),
    ),
    (
        "page.css",
        "text/css; charset=utf-8",
        include_str!("try_it/page.css"),
    ),
];

/// The page to try this interface, at its address
#[utoipa::path(
    get, path = "/api", operation_id = "api_page_redirect", tag = "node",
    responses((status = 308, description = "It is at `/api/`.")),
)]
pub(super) async fn redirect() -> Redirect {
    // The redirect is relative, so that it works behind a proxy, too.
    Redirect::permanent("api/")
}

/// The page to try this interface
#[utoipa::path(
    get, path = "/api/", operation_id = "api_page", tag = "node",
    responses((status = 200, description = "The page.", body = String, content_type = "text/html")),
)]
pub(super) async fn index() -> Result<Response, Problem> {
    asset("index.html")
}

/// A file of that page
#[utoipa::path(
    get, path = "/api/{file}", operation_id = "api_page_file", tag = "node",
    params(("file" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The file.", body = String, content_type = "*/*")),
    extensions(("x-problems" = json!(["not_found"]))),
)]
pub(super) async fn file(Route(name): Route<String>) -> Result<Response, Problem> {
    asset(&name)
}

fn asset(name: &str) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let Some((_, kind, text)) = found else {
        let detail = format!("there is no file `{name}` of the page /api/");
        return Err(Problem::new(&problems::NOT_FOUND, detail));
    };
    let about = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok((about, *text).into_response())
}
