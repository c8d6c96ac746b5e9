//! Machines that reach the ports of a node without a ticket.

use super::{Facts, Finding, Severity, finding, rows};
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};

pub(super) fn open_http(facts: &Facts) -> Vec<Finding> {
    let address = facts.status["http"].as_str().unwrap_or_default();
    let open = address
        .parse::<SocketAddr>()
        .is_ok_and(|it| !it.ip().is_loopback());
    if !open || facts.status["tickets"] == true {
        return Vec::new();
    }
    let what =
        format!("HTTP at {address} is reached from other machines, and asks nobody for a ticket");
    let advice =
        "Leave `--http-open` out and name a certificate, or keep strangers away by a firewall.";
    vec![finding(Severity::Warning, what, advice)]
}

pub(super) fn open_resp(facts: &Facts) -> Vec<Finding> {
    let address = facts.status["resp"].as_str().unwrap_or_default();
    let beyond = address
        .parse::<SocketAddr>()
        .is_ok_and(|it| !it.ip().is_loopback());
    if !beyond || facts.status["resp_open"] != true {
        return Vec::new();
    }
    let what =
        format!("Redis clients at {address} come from other machines, and are asked for nothing");
    let advice =
        "Leave `--resp-open` out and name a certificate, or keep strangers away by a firewall.";
    vec![finding(Severity::Warning, what, advice)]
}

/// The address of a multiaddress, such as `/ip4/10.0.0.1/tcp/4001`.
fn ip(multiaddress: &str) -> Option<IpAddr> {
    let mut parts = multiaddress.split('/').skip(1);
    match parts.next()? {
        "ip4" | "ip6" => parts.next()?.parse().ok(),
        _ => None,
    }
}

pub(super) fn open_network(facts: &Facts) -> Vec<Finding> {
    let listen = rows(&facts.status["listen"]).filter_map(Value::as_str);
    let open = |address: &&str| ip(address).is_some_and(|it| !it.is_loopback());
    let open: Vec<&str> = listen.filter(open).collect();
    if open.is_empty() || facts.status["listen_open"] != true {
        return Vec::new();
    }
    let what = format!(
        "other machines reach {}, and whoever does is trusted as a member",
        open.join(", ")
    );
    let advice = "Leave `--listen-open` out and give nodes tickets (`tallymesh invite --role member`), or \
                  let only the nodes of this mesh reach these ports.";
    vec![finding(Severity::Warning, what, advice)]
}
