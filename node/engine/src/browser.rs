//! The one rule for browsers. It applies at every listener that a browser reaches: HTTP, the
//! WebSocket of sync, and libp2p's WebSocket.
//!
//! On loopback no ticket is needed, because only programs of this machine reach it. A browser is
//! such a program, and it runs pages of strangers. It sends three headers that a page cannot forge:
//!
//! - `Host` names the node. A name that a stranger pointed at this machine (DNS rebinding) is
//!   refused with `host`. Loopback names are served, and the names of `--http-host`. A listener
//!   that other machines reach also serves IP addresses, because no name can be rebound to one.
//!   Where tickets are required and no names are given, each name is served: a rebound page has no
//!   ticket.
//! - `Origin` names the page. It is loopback, or the same as `Host`, or allowed by `--cors-origin`.
//!   All others are refused with `origin`.
//! - `Sec-Fetch-Site` marks the requests that a page makes without a script, such as those for
//!   images. From another site it is refused with `origin`, unless a person followed a link.
//!
//! An accepted request with one of the last two headers comes from a browser ([`Comer`]). A link
//! that it opens is never a member's, even with a member's ticket.
//!
//! There is one exception. With `--demo`, the node's own page is treated as a program, because the
//! replicas in it count on behalf of each other.

use axum::http::{HeaderMap, header};
use std::net::{IpAddr, Ipv6Addr};
use tallymesh_node_ground::problems::{self, Kind};

/// Longest piece of a header that a refusal repeats, in characters.
const SHOWN_MAX: usize = 100;

/// Which names and which pages a listener serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Host names that are served in addition to those of loopback, in lower case and without a
    /// port.
    pub hosts: Vec<String>,
    /// Whether every host name is served. This is so where a ticket is required and no name is
    /// given.
    pub any_host: bool,
    /// Whether every IP address is served as a host. This is so where other machines reach the
    /// listener.
    pub ip_hosts: bool,
    /// Origins whose pages may use the node, in addition to loopback's and its own, in lower case.
    pub origins: Vec<String>,
}

/// The kind of program that an accepted request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comer {
    /// A program that is no browser.
    #[default]
    Program,
    /// A page that the node itself serves, in a browser.
    OwnPage,
    /// A browser, and so perhaps a page of a stranger.
    Browser,
}

/// The reason for which a request is refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The refusal in the table of problems.
    pub kind: &'static Kind,
    /// The reason, for people.
    pub detail: String,
}

impl Pages {
    /// Checks a request by its headers. `target` is the host in the request's target, which HTTP/2
    /// has in place of the header. A caller that has both has compared them.
    pub fn judge(&self, headers: &HeaderMap, target: Option<&str>) -> Result<Comer, Refused> {
        let host = match headers.get(header::HOST) {
            Some(host) => host.to_str().unwrap_or_default(),
            None => target.unwrap_or_default(),
        };
        if !self.serves(host) {
            return Err(unserved(host));
        }
        let site = headers.get("sec-fetch-site").map(|it| it.as_bytes());
        let Some(origin) = headers.get(header::ORIGIN) else {
            let foreign = site == Some(b"cross-site") && !is_followed(headers);
            return match (foreign, site) {
                (true, _) => Err(unasked()),
                (false, Some(b"same-origin")) => Ok(Comer::OwnPage),
                (false, Some(_)) => Ok(Comer::Browser),
                (false, None) => Ok(Comer::Program),
            };
        };
        let origin = origin.to_str().unwrap_or_default();
        match self.lets_in(origin, host) {
            true if bare(origin).is_some_and(|it| it.eq_ignore_ascii_case(host)) => {
                Ok(Comer::OwnPage)
            }
            true => Ok(Comer::Browser),
            false => Err(foreign(origin)),
        }
    }

    fn serves(&self, host: &str) -> bool {
        if host.is_empty() {
            return self.any_host;
        }
        let Some(name) = name(host) else {
            return false;
        };
        let is_ip = name.parse::<IpAddr>().is_ok();
        names_loopback(&name)
            || self.any_host
            || self.ip_hosts && is_ip
            || self.hosts.contains(&name)
    }

    fn lets_in(&self, text: &str, host: &str) -> bool {
        let from = bare(text);
        if from.is_some_and(|from| from.eq_ignore_ascii_case(host) || is_loopback(from)) {
            return true;
        }
        origin(text).is_some_and(|origin| self.origins.contains(&origin))
    }
}

/// The host of an origin that a node can serve.
fn bare(origin: &str) -> Option<&str> {
    let from = origin.strip_prefix("http://");
    from.or(origin.strip_prefix("https://"))
}

/// Whether a person followed a link, or typed an address. The browser then shows the answer as a
/// page of the node, and gives it to no other page.
fn is_followed(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &[u8]| headers.get(name).is_some_and(|it| it.as_bytes() == value);
    is("sec-fetch-mode", b"navigate") && is("sec-fetch-dest", b"document")
}

fn unserved(host: &str) -> Refused {
    let (kind, shown) = (&problems::HOST, shown(host));
    let detail = match name(host) {
        Some(named) => format!(
            "this node does not answer to `{shown}`; use localhost or 127.0.0.1, or start the node with \
             --http-host {named}, and with --http-tickets too if others reach it by that name"
        ),
        None => {
            format!("`{shown}` is no host and port; use localhost, 127.0.0.1 or the node's name")
        }
    };
    Refused { kind, detail }
}

fn foreign(text: &str) -> Refused {
    let shown = shown(text);
    let detail = match origin(text) {
        Some(origin) if origin == NOBODY => {
            "pages without an origin (`null`: files, and frames in a sandbox, whoever made them) may not \
             talk to this node, unless it is started with --cors-origin null"
                .into()
        }
        Some(origin) => format!(
            "pages of `{shown}` may not talk to this node, unless it is started with --cors-origin \
             {origin}"
        ),
        None => format!("`{shown}` is no origin, and its pages may not talk to this node"),
    };
    let kind = &problems::ORIGIN;
    Refused { kind, detail }
}

fn unasked() -> Refused {
    let detail = "a page of another site loads this without asking whether it may; let it ask with \
                  fetch() in the mode `cors`, and allow its origin with --cors-origin";
    Refused {
        kind: &problems::ORIGIN,
        detail: detail.into(),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// The origin of pages that have none.
const NOBODY: &str = "null";

/// An origin in the form in which it is compared: in lower case, and without the default port of
/// its scheme. Returns `None` if the text is no origin.
///
/// Apps and extensions have schemes of their own (`tauri://localhost`, `chrome-extension://id`),
/// and some views show files as `file://`. Pages without an origin send `null`.
pub fn origin(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    if text == NOBODY {
        return Some(text);
    }
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        || !scheme.bytes().all(is_scheme)
    {
        return None;
    }
    let host = rest.strip_suffix('/').unwrap_or(rest);
    if host.is_empty() {
        return (scheme == "file").then(|| "file://".into());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let (name, port) = split(host)?;
    let name = match host.starts_with('[') {
        true => format!("[{}]", name.parse::<Ipv6Addr>().ok()?),
        false if !name.is_empty() && name.bytes().all(is_name) => name.to_owned(),
        false => return None,
    };
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port: Option<u16> = port.map(str::parse).transpose().ok()?;
    Some(match port.filter(|port| Some(*port) != usual) {
        Some(port) => format!("{scheme}://{name}:{port}"),
        None => format!("{scheme}://{name}"),
    })
}

/// A host name in the form of `--http-host`, in which it is compared: in lower case, without a
/// port. Returns `None` if the text is no host name. The dot at the end of a complete name
/// (`localhost.`) is removed.
pub fn host_name(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Ok(ip) = bare.unwrap_or(&text).parse::<IpAddr>() {
        return Some(ip.to_string());
    }
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(is_part)
    };
    let name = text.strip_suffix('.').unwrap_or(&text);
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    (is_name && name.parse::<IpAddr>().is_err()).then(|| name.to_owned())
}

/// The name and the port of a host.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    let is_port = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']')? {
            (name, "") => Some((name, None)),
            (name, port) => Some((name, Some(port.strip_prefix(':').filter(is_port)?))),
        },
        None => match host.split_once(':') {
            Some((name, port)) => is_port(&port).then_some((name, Some(port))),
            None => Some((host, None)),
        },
    }
}

/// The name in a host as [`host_name`] spells it, without its port. Returns `None` if the text is
/// no host, or has no port after its colon.
fn name(host: &str) -> Option<String> {
    let (bare, port) = split(host)?;
    let is_port = port.is_none_or(|it| it.is_empty() || it.parse::<u16>().is_ok());
    let is_v6 = bare.parse::<Ipv6Addr>().is_ok();
    // Only an IPv6 address has brackets, and it always has them.
    let is_spelled = is_v6 == host.starts_with('[') && bare.trim() == bare;
    host_name(bare).filter(|_| is_port && is_spelled)
}

/// Whether `host`, with or without a port, names this machine to itself.
pub fn is_loopback(host: &str) -> bool {
    name(host).is_some_and(|name| names_loopback(&name))
}

fn names_loopback(name: &str) -> bool {
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests;
