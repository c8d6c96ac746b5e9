//! The checks of a node. To add one, add a line in [`CHECKS`] and a function.

pub(super) mod copies;
mod exposure;
mod faults;
mod membership;

use super::facts::Facts;
use super::{Finding, Severity};
use exposure::{open_http, open_network, open_resp};
use faults::faults;
use membership::{majority, member_behind, member_silent, stuck, undecided};
use serde_json::Value;
use std::collections::BTreeSet;
use tallymesh_core::bounds::{KEY_TABLE_BYTES_MAX, KEYED_MAX, WRITERS_MAX};
use tallymesh_node_ground::problems::{
    CATCHING_UP, JOINING, REMOVED, STORE_LOST, STORE_WAITS, TICKET_WORTHLESS,
};

/// One check: its stable code, its text without findings, and its function.
pub(super) struct Check {
    pub(super) code: &'static str,
    fine: &'static str,
    judge: fn(&Facts) -> Vec<Finding>,
}

/// All checks, in the order in which they are printed.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check { code: "ready", fine: "the node answers and is ready", judge: ready },
    Check { code: "version", fine: "the node has the version of this command", judge: version },
    Check { code: "clock", fine: "the node's clock agrees with this machine's", judge: clock },
    Check { code: "peer_clock", fine: "the clocks of its peers agree with the node's", judge: peer_clock },
    Check { code: "disk", fine: "the disk has room", judge: disk },
    Check { code: "commits_slow", fine: "commits are quick", judge: commits_slow },
    Check { code: "durability", fine: "what is acknowledged is kept", judge: durability },
    Check { code: "not_announced", fine: "the node takes part in its spaces", judge: not_announced },
    Check { code: "links", fine: "links are up as far as members need them", judge: links },
    Check { code: "peers_unreached", fine: "all configured peers are reached", judge: peers_unreached },
    Check { code: "cut", fine: "no link is cut on purpose", judge: cut },
    Check { code: "frames_dropped", fine: "no frames were dropped", judge: frames_dropped },
    Check { code: "member_silent", fine: "all members send something", judge: member_silent },
    Check { code: "member_behind", fine: "all members keep up", judge: member_behind },
    Check { code: "majority", fine: "no majority of members is at risk", judge: majority },
    Check { code: "stuck", fine: "no rights, numbers and shares of limits are with members that are away", judge: stuck },
    Check { code: "undecided", fine: "no change of members waits", judge: undecided },
    Check { code: "copied", fine: "the data folder is no copy", judge: copies::copied },
    Check { code: "copies", fine: "no copy of another node's folder is heard", judge: copies::copies },
    Check { code: "no_witness", fine: "other members would notice an old copy", judge: copies::no_witness },
    Check { code: "faults", fine: "no writer id was used twice", judge: faults },
    Check { code: "keys_full", fine: "the key tables have room", judge: keys_full },
    Check { code: "writers_full", fine: "the spaces have room for writers", judge: writers_full },
    Check { code: "keyed_full", fine: "idempotency keys live as long as they should", judge: keyed_full },
    Check { code: "files", fine: "file descriptors are left", judge: files },
    Check { code: "held_tickets", fine: "no ticket that the node was given is at its end", judge: held_tickets },
    Check { code: "issued_tickets", fine: "no ticket that the node signed is at its end", judge: issued_tickets },
    Check { code: "open_http", fine: "HTTP is reached from this machine only, or asks for tickets", judge: open_http },
    Check { code: "open_resp", fine: "Redis clients are on this machine only, or are asked for tickets", judge: open_resp },
    Check { code: "open_network", fine: "other machines don't reach the ports for nodes", judge: open_network },
];

/// The time in milliseconds within which a start should be complete.
const STARTED_MS: u64 = 60_000;

/// The shares of a limit from which its use is a warning, and a problem.
const NEARLY: f64 = 0.8;
const ALL_BUT: f64 = 0.95;

/// The checks that say nothing at a copy of a data folder. The original has the links, except for some seconds of
/// each minute.
const OF_LINKS: [&str; 5] = [
    "links",
    "peers_unreached",
    "member_silent",
    "majority",
    "stuck",
];

/// The findings of each check, or that there are none.
pub(super) fn all(facts: &Facts) -> Vec<(&'static str, Finding)> {
    // Without an answer of the store, only some metrics and the reason of `/readyz` are available.
    let is_known = |check: &&Check| {
        !facts.status.is_null() || ["ready", "commits_slow", "files"].contains(&check.code)
    };
    let copied = !copies::copied(facts).is_empty();
    let tells = |check: &&Check| !(copied && OF_LINKS.contains(&check.code));
    let told = CHECKS.iter().filter(is_known).filter(tells);
    let judged = told.flat_map(|check| {
        let mut found = (check.judge)(facts);
        if found.is_empty() {
            found.push(finding(Severity::Ok, check.fine.into(), ""));
        }
        found.into_iter().map(|finding| (check.code, finding))
    });
    judged.collect()
}

fn finding(severity: Severity, what: String, advice: &'static str) -> Finding {
    Finding {
        severity,
        space: None,
        what,
        advice,
    }
}

fn in_space(space: &Value, severity: Severity, what: String, advice: &'static str) -> Finding {
    let space = space["space"].as_str().map(str::to_owned);
    Finding {
        severity,
        space,
        what,
        advice,
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn seconds(millis: u64) -> String {
    format!("{:.0} s", millis as f64 / 1000.0)
}

fn mib(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / f64::from(1 << 20))
}

fn ready(facts: &Facts) -> Vec<Finding> {
    let told = |(code, why): &(String, String)| {
        let kinds = [&CATCHING_UP, &JOINING, &REMOVED, &STORE_LOST, &STORE_WAITS];
        let kinds = kinds.into_iter().chain([&TICKET_WORTHLESS]);
        let advice = kinds.into_iter().find(|kind| kind.code == code);
        let advice = advice.map_or("A node that stays so has a reason in its log.", |kind| {
            kind.advice
        });
        finding(Severity::Problem, format!("not ready: {why}"), advice)
    };
    facts.not_ready.iter().map(told).collect()
}

fn version(facts: &Facts) -> Vec<Finding> {
    let node = facts.status["version"].as_str().unwrap_or("unknown");
    if node == facts.version {
        return Vec::new();
    }
    let what = format!(
        "the node has version {node}, this command {}",
        facts.version
    );
    let advice = "Use the command of the node's version, or finish the upgrade.";
    vec![finding(Severity::Notice, what, advice)]
}

fn clock(facts: &Facts) -> Vec<Finding> {
    let ahead = facts.ahead_ms.unwrap_or(0);
    let severity = match ahead.unsigned_abs() {
        0..2_000 => return Vec::new(),
        2_000..60_000 => Severity::Warning,
        _ => Severity::Problem,
    };
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let far = ahead.unsigned_abs() as f64 / 1000.0;
    let what = format!("the node's clock is {far:.1} s {direction} this machine's");
    let advice =
        "Counters expire by the clock, early or late where it is wrong: synchronize it (NTP).";
    vec![finding(severity, what, advice)]
}

fn peer_clock(facts: &Facts) -> Vec<Finding> {
    let advice = "Counters expire by the clocks of nodes: synchronize both machines (NTP).";
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for row in rows(&facts.peers) {
        let about = &row["node"]["about"];
        let offset = about["clock_offset_ms"].as_i64().unwrap_or(0);
        let error = about["clock_error_ms"].as_u64().unwrap_or(0);
        let peer = row["peer"].as_str().unwrap_or("?");
        let severity = match offset.unsigned_abs().saturating_sub(error) {
            0..2_000 => continue,
            2_000..60_000 => Severity::Warning,
            _ => Severity::Problem,
        };
        // A peer has a row for each space.
        if !seen.insert(peer) {
            continue;
        }
        let direction = if offset > 0 { "ahead of" } else { "behind" };
        let far = offset.unsigned_abs() as f64 / 1000.0;
        let what = format!("the clock of {peer} is {far:.1} s {direction} the node's");
        found.push(finding(severity, what, advice));
    }
    found
}

fn disk(facts: &Facts) -> Vec<Finding> {
    let sum = |name| facts.metrics.sum(name);
    let (Some(free), Some(size), Some(data)) = (
        sum("tallymesh_disk_free_bytes"),
        sum("tallymesh_disk_bytes"),
        sum("tallymesh_data_bytes"),
    ) else {
        return Vec::new();
    };
    let gib = f64::from(1 << 30);
    // A new state is written next to the old log, which is removed afterwards.
    let severity = match free {
        free if free < size * 0.02 || free < f64::from(100 << 20) => Severity::Problem,
        free if free < size * 0.1 || free < gib || free < data => Severity::Warning,
        _ => return Vec::new(),
    };
    let what = format!(
        "{} free of {} ({:.1} %), and the data folder takes {}",
        mib(free),
        mib(size),
        100.0 * free / size.max(1.0),
        mib(data)
    );
    let advice =
        "Make room: a node whose disk is full stops, and loses nothing that it acknowledged.";
    vec![finding(severity, what, advice)]
}

fn commits_slow(facts: &Facts) -> Vec<Finding> {
    let limit = facts
        .metrics
        .exceeded("tallymesh_commit_seconds", 0.99, 100.0);
    let (limit, severity) = match limit {
        Some(limit) if limit > 0.8 => (limit, Severity::Problem),
        Some(limit) if limit > 0.1 => (limit, Severity::Warning),
        _ => return Vec::new(),
    };
    let what = format!("of 100 durable commits, more than one takes longer than {limit:.1} s");
    let advice = "Look for what else writes to the disk, or take a quicker one; `--durability interval:1s` \
                  has nobody wait.";
    vec![finding(severity, what, advice)]
}

fn durability(facts: &Facts) -> Vec<Finding> {
    if facts.status["durability"] != "memory" {
        return Vec::new();
    }
    let advice = "Start it with `--durability always` where its counts matter.";
    match facts.closed().next() {
        Some((space, _)) => {
            let what =
                "the node keeps nothing on its disk, and the space has members: it can be none, \
                        and loses at its end what no member has"
                    .to_owned();
            vec![in_space(space, Severity::Warning, what, advice)]
        }
        None => {
            let what = "the node keeps nothing on its disk".to_owned();
            vec![finding(Severity::Notice, what, advice)]
        }
    }
}

fn not_announced(facts: &Facts) -> Vec<Finding> {
    let waits = facts.closed().filter(|it| it.1["announced"] == false);
    let age = facts.age_ms();
    let severity = match age > STARTED_MS {
        true => Severity::Problem,
        false => Severity::Notice,
    };
    let advice =
        "Look at the node's log for `can't take part as a member`; link it with the other members.";
    let told = |(space, _): (&Value, &Value)| {
        let what = format!(
            "the node is a member, started {} ago, and has not announced this start",
            seconds(age)
        );
        in_space(space, severity, what, advice)
    };
    waits.map(told).collect()
}

fn links(facts: &Facts) -> Vec<Finding> {
    if facts.metrics.sum("tallymesh_links") != Some(0.0) {
        return Vec::new();
    }
    let advice = "Check `--peer` and the network; counting goes on, and nobody receives it.";
    let told = |(space, membership): (&Value, &Value)| {
        let others = rows(&membership["members"])
            .filter(|row| row["own"] != true)
            .count();
        let what = format!("no link is up, and there are {others} other members");
        (others > 0).then(|| in_space(space, Severity::Problem, what, advice))
    };
    facts.closed().filter_map(told).collect()
}

/// A configured peer may be unreachable for this time, in milliseconds, before it is reported.
const UNREACHED_MS: u64 = 5_000;

fn peers_unreached(facts: &Facts) -> Vec<Finding> {
    let told = |row: &Value| {
        let for_ms = number(&row["for_ms"]).filter(|ms| *ms >= UNREACHED_MS)?;
        let text = |field: &str| row[field].as_str().unwrap_or("?");
        let what = format!(
            "{} is not reached for {}: {}",
            text("address"),
            seconds(for_ms),
            text("detail")
        );
        let advice = match text("code") {
            "silent" => {
                "It is reached, so its address is right. Look there with `tallymesh members` and `tallymesh \
                 tickets` whether this node was removed, or its ticket revoked."
            }
            _ if text("from") == "ticket" => {
                "A ticket names it: start the node there. If it has another address now, as after a start \
                 with no port in `--listen`, name that, or another member, with `--peer`."
            }
            "refused" | "no_answer" => {
                "Start the node there, or correct `--peer`: a wrong port or a firewall looks the same. If it is gone \
                 for good, leave it out of `--peer`."
            }
            "not_resolved" => "Correct the name in `--peer`, or the name service.",
            "other_identity" => {
                "Give `--peer` the address that the node prints at its start, with its id."
            }
            "own_address" => "Leave it out of `--peer`.",
            "no_space" => "Name a space of it with `--space`, or leave it out of `--peer`.",
            "relay" => "Start the relay with `--relay`, or correct the address in `--listen`.",
            _ => "Correct `--peer`, or see the log of the node there.",
        };
        Some(finding(Severity::Warning, what, advice))
    };
    rows(&facts.unreached).filter_map(told).collect()
}

fn cut(facts: &Facts) -> Vec<Finding> {
    match facts.status["cut"] == true {
        true => {
            let what = "all links are cut on purpose (`/v1/demo/cut`)".to_owned();
            let advice = "Heal them on the page, or start the node without `--demo`.";
            vec![finding(Severity::Warning, what, advice)]
        }
        false => Vec::new(),
    }
}

fn frames_dropped(facts: &Facts) -> Vec<Finding> {
    let sum = |name| facts.metrics.sum(name).unwrap_or(0.0);
    let dropped = sum("tallymesh_frames_dropped_total");
    let all = sum("tallymesh_frames_in_total") + sum("tallymesh_frames_out_total") + dropped;
    if dropped == 0.0 {
        return Vec::new();
    }
    let severity = match dropped >= 100.0 && dropped > all / 100.0 {
        true => Severity::Warning,
        false => Severity::Notice,
    };
    let what = format!("{dropped} of {all} frames were dropped since the start");
    let advice = "Nothing is lost, sync repairs it; many mean a link that is too slow, or a space that \
                  only one end has open.";
    vec![finding(severity, what, advice)]
}

/// The severity of this use of a limit, if it is a finding.
fn used_up(used: f64, limit: f64) -> Option<Severity> {
    match used / limit {
        share if share >= ALL_BUT => Some(Severity::Problem),
        share if share >= NEARLY => Some(Severity::Warning),
        _ => None,
    }
}

/// The use of a limit by each space, from a field of its status.
fn of_limit(
    facts: &Facts,
    field: &str,
    limit: f64,
    what: &'static str,
    advice: &'static str,
) -> Vec<Finding> {
    let told = |space: &Value| {
        let used = number(&space[field])? as f64;
        let severity = used_up(used, limit)?;
        let share = 100.0 * used / limit;
        let what = format!("{used} of {limit} {what} ({share:.1} %)");
        Some(in_space(space, severity, what, advice))
    };
    facts.spaces().filter_map(told).collect()
}

fn keys_full(facts: &Facts) -> Vec<Finding> {
    let advice = "No new counter can be made at the limit. Let counters expire or delete them, use shorter \
                  keys, or count in a second space.";
    let limit = f64::from(KEY_TABLE_BYTES_MAX);
    of_limit(facts, "key_bytes", limit, "bytes of keys are used", advice)
}

fn writers_full(facts: &Facts) -> Vec<Finding> {
    let advice = "Nobody new can count at the limit. Give the space members, who take over from writers \
                  that are gone (`tallymesh members init`), and see that none of them is away.";
    of_limit(
        facts,
        "writers",
        WRITERS_MAX as f64,
        "writers are known",
        advice,
    )
}

fn keyed_full(facts: &Facts) -> Vec<Finding> {
    let advice = "At the limit the oldest are dropped before their time, and a late retry counts again: \
                  make `--key-window` shorter than that, or use fewer keys.";
    of_limit(
        facts,
        "keyed",
        KEYED_MAX as f64,
        "idempotency keys are remembered",
        advice,
    )
}

fn files(facts: &Facts) -> Vec<Finding> {
    let sum = |name| facts.metrics.sum(name);
    let (Some(open), Some(limit)) = (sum("process_open_fds"), sum("process_max_fds")) else {
        return Vec::new();
    };
    let Some(severity) = used_up(open, limit) else {
        return Vec::new();
    };
    let what = format!("{open} of {limit} file descriptors are open");
    let advice = "New connections are refused at the limit: raise it (`LimitNOFILE=`), or allow fewer \
                  Redis clients.";
    vec![finding(severity, what, advice)]
}

/// The number of tickets of a kind in a state.
fn tickets(facts: &Facts, kind: &str, state: &str) -> u64 {
    let labels = [("kind", kind), ("state", state)];
    let count = facts.metrics.with("tallymesh_tickets", labels);
    count.map_or(0, |count| count as u64)
}

/// The node itself excludes tickets that it no longer needs, such as a member's. They are no
/// finding.
fn held_tickets(facts: &Facts) -> Vec<Finding> {
    let over = "It can't join anything with it any more: get another from a member, and join with that. \
                `tallymesh tickets` names it.";
    let soon = "Get another from a member before it ends. `tallymesh tickets` names it.";
    let states = [
        ("revoked", "revoked", Severity::Warning, over),
        ("ended", "at their end", Severity::Warning, over),
        ("ending", "about to end", Severity::Notice, soon),
    ];
    let told = |(state, shown, severity, advice): (&str, &str, Severity, &'static str)| {
        let count = tickets(facts, "held", state);
        let what = format!("of the tickets that the node was given, {count} are {shown}");
        (count > 0).then(|| finding(severity, what, advice))
    };
    states.into_iter().filter_map(told).collect()
}

fn issued_tickets(facts: &Facts) -> Vec<Finding> {
    let count = tickets(facts, "issued", "ending");
    let what = format!("of the tickets that the node signed, {count} are about to end");
    let advice = "Whoever still needs one wants another: `tallymesh tickets` names them, `tallymesh \
                  invite` makes one.";
    match count {
        0 => Vec::new(),
        _ => vec![finding(Severity::Notice, what, advice)],
    }
}
