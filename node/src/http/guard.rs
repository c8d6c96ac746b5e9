//! Which requests are let in.
//!
//! On loopback nobody is asked for a ticket, so what protects a node is that only programs of
//! this machine reach it. A browser is such a program, and runs pages of strangers. Two headers
//! that a page cannot forge keep those out:
//!
//! - `Host` must name the loopback address (`localhost`, `*.localhost`, `127.x.y.z`, `[::1]`). A
//!   stranger's name that was pointed at 127.0.0.1 (DNS rebinding) is refused with `host`.
//! - `Origin`, if there is one, must be loopback too, on any port, or be the same as `Host`, or be
//!   allowed with `--cors-origin`. So other sites can neither post nor open a WebSocket; they are
//!   refused with `origin`.
//!
//! Where tickets are asked for, or with `--http-open`, any `Host` is let in, and what is said of
//! `Origin` holds still. Pages that are let in may read the answers (CORS), so that a page of one
//! node can talk to another.

use super::App;
use super::asking::{KEY, LEVEL, REPLAYED, RIGHTS_WAIT, TOKEN, WAIT};
use super::events::LAST_EVENT_ID;
use super::post::{CHALLENGE, NODE, OWNER, SESSION, SIGNATURE};
use super::problem::Problem;
use crate::config::HttpRules;
use crate::problems;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// How long a browser may remember that a page may come here.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// The answer to a request that is not let in.
pub(super) fn refusal(app: &App, request: &Request) -> Option<Response> {
    // HTTP/2 has the host in the target instead of a header.
    let host = match request.headers().get(header::HOST) {
        Some(host) => host.to_str().unwrap_or_default(),
        None => request.uri().host().unwrap_or_default(),
    };
    let refused = origin(request.headers(), host, &app.rules).err()?;
    Some(refused.into_response())
}

/// Whether a page may ask, whose browser wants to be told that it may read the answer.
pub(super) fn is_of_a_page(request: &Request) -> bool {
    request.headers().contains_key(header::ORIGIN) || request.method() == Method::OPTIONS
}

/// An answer that browsers take for nothing else than it says, and caches not for that to a page.
pub(super) fn closed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    if !headers.contains_key(header::VARY) {
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Lets pages read the answers. Only pages that may come here get so far.
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

/// Checks both headers.
fn origin(headers: &HeaderMap, host: &str, rules: &HttpRules) -> Result<(), Problem> {
    if !rules.open && !is_loopback(host) {
        let detail = format!(
            "this node answers to localhost and 127.0.0.1 only, not to `{host}`; use one of \
             these, or start the node with --http-open"
        );
        return Err(Problem::new(&problems::HOST, detail));
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let text = origin.to_str().unwrap_or_default();
    let from = text
        .strip_prefix("http://")
        .or(text.strip_prefix("https://"));
    match from {
        Some(from) if from.eq_ignore_ascii_case(host) || is_loopback(from) => Ok(()),
        _ if rules.origins.iter().any(|allowed| allowed == text) => Ok(()),
        _ => {
            let detail = format!(
                "pages of `{text}` may not talk to this node, unless it is started with \
                 --cors-origin {text}"
            );
            Err(Problem::new(&problems::ORIGIN, detail))
        }
    }
}

/// Whether `host`, with or without a port, names this machine to itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || is_port(port) => address,
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            Some(_) => return false,
            None => host,
        },
    };
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => {
            let name = name.to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_names_that_look_like_it() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "a.localhost:1",
            "127.0.0.1",
            "127.9.9.9:4280",
            "[::1]",
            "[::1]:4280",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "10.0.0.1",
            "0.0.0.0",
            "[::2]",
            "[::1]x",
            "[::1",
            "localhost:x",
            "user@localhost:80",
            "notlocalhost",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_origin_must_be_loopback_or_the_same() {
        let check = |origin: &'static str, host: &str, open| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            let rules = HttpRules {
                open,
                origins: vec!["https://shop.example".into()],
                ..HttpRules::default()
            };
            super::origin(&headers, host, &rules).map_err(|problem| problem.code())
        };
        assert!(check("https://shop.example", "127.0.0.1:4280", false).is_ok());
        assert!(check("http://localhost:5173", "127.0.0.1:4280", false).is_ok());
        assert!(check("https://tally.example", "tally.example", true).is_ok());
        assert!(check("http://localhost:1", "tally.example", true).is_ok());
        for (origin, host, open, code) in [
            ("https://evil.example", "127.0.0.1:4280", false, "origin"),
            ("http://shop.example", "127.0.0.1:4280", false, "origin"),
            (
                "https://shop.example:444",
                "127.0.0.1:4280",
                false,
                "origin",
            ),
            ("https://a.shop.example", "127.0.0.1:4280", false, "origin"),
            ("https://shop.example", "shop.example", false, "host"),
            ("null", "127.0.0.1:4280", false, "origin"),
            ("file://", "127.0.0.1:4280", false, "origin"),
            ("https://evil.example", "tally.example", true, "origin"),
            ("http://evil.example", "evil.example", false, "host"),
        ] {
            assert_eq!(check(origin, host, open), Err(code), "{origin} at {host}");
        }
    }
}
