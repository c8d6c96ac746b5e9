//! Writers with two histories. A finding names both sides, and the one that contradicts the
//! writer's own node.

use super::{in_space, number, rows};
use crate::doctor::facts::Facts;
use crate::doctor::{Finding, Severity};
use serde_json::Value;

/// Reports that are printed; `tallymesh status --json` contains all.
const SHOWN_MAX: usize = 3;

/// No link is known to have sent it.
const COPIED: &str = "Two processes run on one data folder's copy, a disk rots, or a peer speaks in another's \
                      name. Look at `evidence` in `tallymesh status --json`, find the copy or the peer, stop \
                      it, and run `tallymesh audit`; docs/trust.md tells how to repair a counter.";
/// A link contradicts this node's own writer.
const OWN: &str = "Somebody else writes under this node's id: a process on a copy of its data folder, or a peer \
                   that lies. If the link is a node's, that may have passed it on: look at `evidence` in \
                   `tallymesh status --json` there before anybody is removed, stop who made it, and run \
                   `tallymesh audit`; docs/trust.md tells how to repair a counter.";
/// Both sides are known, but not which of them is right.
const UNDECIDED: &str = "Either side may be wrong, or both are copies of one process: remove nobody for this alone. \
                         Look at `evidence` in `tallymesh status --json` at the writer's own node, which knows \
                         what it made; docs/trust.md tells how to find out, and how to repair a counter.";
/// One side contradicts the writer's own node.
const SUSPECT: &str = "The suspect made that up, runs on a copied folder, or passed on what another made: if it \
                       is a node, look at `evidence` in `tallymesh status --json` there first. Then revoke its \
                       ticket or remove it, not the other side, and run `tallymesh audit`; docs/trust.md tells \
                       how to repair a counter.";
const RENEWED: &str = "That is so after a backup was put back, or when the node was removed and added again: \
                       nothing has to be done. Otherwise look at the log for `begins again`.";

pub(super) fn faults(facts: &Facts) -> Vec<Finding> {
    facts.spaces().filter_map(of_space).collect()
}

fn of_space(space: &Value) -> Option<Finding> {
    let faults = number(&space["faults"]).unwrap_or(0);
    let renewals = number(&space["renewals"]).unwrap_or(0);
    let is_closed = !space["membership"]["configuration"].is_null();
    match (faults, renewals) {
        (0, 0) => return None,
        // A member that was passed over begins again. No one made an error.
        (0, _) if is_closed => {
            let what = format!(
                "this node went on under a new writer id {renewals} times since its start, as its own was \
                 retired meanwhile"
            );
            return Some(in_space(space, Severity::Notice, what, RENEWED));
        }
        _ => {}
    }
    let severity = match faults {
        0 => Severity::Warning,
        _ => Severity::Problem,
    };
    let mut what = match faults {
        0 => format!(
            "this node left its writer id {renewals} times, as another process wrote under it"
        ),
        _ => format!(
            "{faults} times two wrote under one writer id; this node left its own {renewals} times"
        ),
    };
    let is_suspect = |report: &&Value| report["suspect"].is_string();
    let has = |side: &'static str| move |report: &&Value| report[side].is_object();
    // The newest first. Reports with a known suspect come before others.
    let all: Vec<&Value> = rows(&space["evidence"]).collect();
    let suspects = all.iter().rev().copied().filter(|it| is_suspect(it));
    let others = all.iter().rev().copied().filter(|it| !is_suspect(it));
    let shown = suspects.chain(others).filter_map(sides);
    what.extend(shown.take(SHOWN_MAX).map(|text| format!("; {text}")));
    // Both sides have the same key.
    let is_copy = |it: &Value| {
        let [one, other] = ["brought_by", "denied_by"].map(|side| it[side]["owner"].as_str());
        one.is_some() && one == other
    };
    let any = |side| all.iter().any(has(side));
    let advice = match (any("brought_by"), any("denied_by")) {
        _ if all.iter().any(is_suspect) => SUSPECT,
        (_, true) if all.iter().all(|it| is_copy(it)) => COPIED,
        (_, true) => UNDECIDED,
        (true, false) => OWN,
        (false, false) => COPIED,
    };
    Some(in_space(space, severity, what, advice))
}

/// Both sides of a fault, as far as they are known. Returns `None` if neither is.
fn sides(report: &Value) -> Option<String> {
    let [held, contradicts] = ["brought_by", "denied_by"].map(|side| link(&report[side]));
    let text = |field: &str| report[field].as_str();
    let (writer, clock) = (text("writer")?, text("clock")?);
    let suspect = match text("suspect") {
        Some("brought_by") => "; suspect: the former",
        Some("denied_by") => "; suspect: the latter",
        _ => "",
    };
    let one = suspect.replace("the former", "this link");
    let of_writer = format!("clock {clock} of writer {writer}");
    Some(match (held, contradicts) {
        (Some(held), Some(other)) => {
            format!("{of_writer} was brought by {held}, and is contradicted by {other}{suspect}")
        }
        // This node is the writer's own.
        (Some(other), None) => format!(
            "{other} has {of_writer}, which is this node's own, otherwise than this node made it{one}"
        ),
        (None, Some(other)) => {
            let suspect = suspect.replace("the latter", "this link");
            format!("{of_writer} was held already, and is contradicted by {other}{suspect}")
        }
        (None, None) => return None,
    })
}

/// A link, described by the known facts about its peer.
fn link(link: &Value) -> Option<String> {
    let text = |field: &str| link[field].as_str();
    let fields = ["owner", "address", "ticket"].into_iter();
    let known = fields.filter_map(|field| Some(format!("{field} {}", text(field)?)));
    let known = known.collect::<Vec<_>>().join(", ");
    let peer = text("peer")?;
    Some(match known.is_empty() {
        true => peer.to_owned(),
        false => format!("{peer} ({known})"),
    })
}
