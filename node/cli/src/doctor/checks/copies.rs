//! Copies of data folders: this node's own, those of others, and the ones that nobody can notice.

use super::{in_space, rows, seconds};
use crate::doctor::facts::Facts;
use crate::doctor::{Finding, Severity};
use crate::output::text;
use serde_json::Value;
use tallymesh_node_ground::escape;

/// Reports that this node runs on a copy.
pub(super) fn copied(facts: &Facts) -> Vec<Finding> {
    let advice = "Start the other node, and stop this one. If the other is gone for good: `tallymesh adopt`. \
                  docs/operations.md tells what a copy does meanwhile.";
    let told = |space: &Value| {
        let what = "this node's data folder is a copy of another node's, which may still run, or a node on a copy of \
                    it has started since and took its place: this one adds, reads and syncs, and it spends, draws \
                    and decides nothing. While the other runs, this one is linked for 2 s of each minute";
        (space["copied"] == true).then(|| in_space(space, Severity::Problem, what.into(), advice))
    };
    facts.spaces().filter_map(told).collect()
}

/// Names the copy and its original.
pub(crate) fn named(row: &Value) -> String {
    let at = |field: &str| row[field].as_str().map(escape::value);
    let copy = match at("address") {
        Some(address) => format!("at {address}"),
        None => "at an unknown address".to_owned(),
    };
    let original = match at("original") {
        Some(writer) => format!("whose last start here is writer {writer}"),
        None => "of which no start is known here".to_owned(),
    };
    format!(
        "a node {copy} with writer {} runs on a copy of the data folder of {}, {original}",
        text(&row["writer"]),
        at("owner").unwrap_or_else(|| text(&row["peer"]).into())
    )
}

/// Names the copies that were heard.
pub(super) fn copies(facts: &Facts) -> Vec<Finding> {
    let advice = "Nothing is spent twice. Stop the copy, or give it a folder of its own. If the original is gone for \
                  good, run `tallymesh adopt` at the copy.";
    let told = |space: &Value| -> Vec<Finding> {
        let found = rows(&space["copies"]).map(|row| {
            let heard = row["last_heard_ms"].as_u64().unwrap_or(0);
            let what = format!("{}; it was heard {} ago", named(row), seconds(heard));
            in_space(space, Severity::Warning, what, advice)
        });
        found.collect()
    };
    facts.spaces().flat_map(told).collect()
}

/// Tells the only member of a space that nobody can notice some copies of its folder.
pub(super) fn no_witness(facts: &Facts) -> Vec<Finding> {
    let advice = "Put back no older copy in its place, and run no clone of its volume: what was spent since would \
                  be spent again. Two more members notice the first (docs/budgets.md).";
    let told = |(space, membership): (&Value, &Value)| {
        let is_alone = membership["member"] == true && rows(&membership["members"]).count() == 1;
        let what = "this node is the only member, so nobody notices an older copy of its data folder in its \
                    place, or a clone of its volume";
        is_alone.then(|| in_space(space, Severity::Notice, what.into(), advice))
    };
    facts.closed().filter_map(told).collect()
}
