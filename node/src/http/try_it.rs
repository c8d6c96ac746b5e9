//! A page to look at this interface and to try it: Swagger UI, built into the program.

use super::problem::{Problem, Route};
use crate::problems;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::{Arc, LazyLock};
use utoipa_swagger_ui::Config;

/// Everything from this node only, and requests to this node only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::from("/openapi.json");
    // Without this the page would ask a server of its authors whether the document is valid.
    let config = config.validator_url("none").default_models_expand_depth(-1);
    // The bar above asks for other documents, and brings a style that the policy refuses.
    Arc::new(config.use_base_layout())
});

/// The page to try this interface, at its address
#[utoipa::path(
    get, path = "/api", operation_id = "api_page_redirect", tag = "node",
    responses((status = 308, description = "It is at `/api/`.")),
)]
pub(super) async fn redirect() -> Redirect {
    // Relative, so that it holds behind a proxy too.
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
    let found = utoipa_swagger_ui::serve(name, CONFIG.clone());
    let found = found.map_err(|error| Problem::new(&problems::INTERNAL, error.to_string()))?;
    let Some(file) = found else {
        let detail = format!("there is no file `{name}` of the page /api/");
        return Err(Problem::new(&problems::NOT_FOUND, detail));
    };
    let about = [
        (header::CONTENT_TYPE, file.content_type.as_str()),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let mut response = (about, file.bytes.into_owned()).into_response();
    if file.gzpipped {
        // All browsers take it, and kept so it is a quarter as long.
        let gzip = header::HeaderValue::from_static("gzip");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, gzip);
    }
    Ok(response)
}
