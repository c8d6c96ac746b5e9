//! The members of a space: who is away, and whether those that are there can decide.

use super::{in_space, number, rows, seconds};
use crate::doctor::facts::Facts;
use crate::doctor::{Finding, Severity};
use crate::members;
use serde_json::Value;

/// The time in milliseconds without a message from a member, after which the member is silent. Linked nodes exchange
/// messages every 5 s.
const SILENT_MS: u64 = 30_000;

/// The age of a node in milliseconds from which a majority is missed. A member takes part 5 s after its start at the
/// latest.
const STARTS_MS: u64 = 5_000;

/// Whether something came from a member lately, or it is this node.
fn is_heard(row: &Value) -> bool {
    let heard = row["last_heard_ms"].as_u64();
    row["own"] == true || heard.is_some_and(|ms| ms < SILENT_MS)
}

/// Whether this node reaches a member. A node of an earlier version does not tell it.
fn is_there(row: &Value) -> bool {
    row["reached"].as_bool().unwrap_or_else(|| is_heard(row))
}

/// The members of a space that can decide on changes, as this node sees them.
struct Voters {
    all: usize,
    there: usize,
    /// How many of those that are there vote: all, unless this node is known to have no vote.
    votes: usize,
    /// How many of them vote for sure.
    sure: usize,
    /// The members that are not there, by name.
    away: Vec<String>,
}

impl Voters {
    fn of(facts: &Facts, membership: &Value) -> Voters {
        // A node of an earlier version does not tell whether it votes.
        let has_vote = !(membership["member"] == true && membership["votes"] == false);
        let all = || rows(&membership["members"]);
        let there = || all().filter(|row| is_there(row));
        let votes = || there().filter(|row| has_vote || row["own"] != true);
        let away = all().filter(|row| !is_there(row));
        Voters {
            all: all().count(),
            there: there().count(),
            votes: votes().count(),
            sure: votes().filter(|row| row["unsure"] != true).count(),
            away: away.map(|row| facts.keys.named(row)).collect(),
        }
    }

    /// How many have to vote for a change.
    fn needed(&self) -> usize {
        self.all / 2 + 1
    }
}

pub(super) fn member_silent(facts: &Facts) -> Vec<Finding> {
    // So soon after the start, even running members may not have sent a message yet.
    if facts.age_ms() < SILENT_MS {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (space, membership) in facts.closed() {
        let advice = match members::decides(membership) {
            true => {
                "See that it runs and that a link leads to it. One that is gone for good: `tallymesh members remove \
                 KEY`."
            }
            false => {
                "See that it runs and that a link leads to it. No removal can be decided now: `majority` says what is \
                 missing."
            }
        };
        let away = rows(&membership["members"]).filter(|row| !is_heard(row));
        for row in away {
            let (member, behind) = (facts.keys.named(row), number(&row["behind"]).unwrap_or(0));
            let heard = match row["last_heard_ms"].as_u64() {
                Some(ms) => format!("was heard {} ago", seconds(ms)),
                None => "was not heard since the node started".to_owned(),
            };
            let what = format!("member {member} {heard}, {behind} transactions are unacknowledged");
            found.push(in_space(space, Severity::Warning, what, advice));
        }
    }
    found
}

pub(super) fn member_behind(facts: &Facts) -> Vec<Finding> {
    let advice = "It is slow, or its link is; what is dead is not dropped until it has caught up.";
    let mut found = Vec::new();
    for (space, membership) in facts.closed() {
        for row in rows(&membership["members"]).filter(|row| is_heard(row)) {
            let behind = number(&row["behind"]).unwrap_or(0);
            let severity = match behind {
                0..10_000 => continue,
                10_000..100_000 => Severity::Notice,
                _ => Severity::Warning,
            };
            let member = facts.keys.named(row);
            let what = format!("member {member} has not acknowledged {behind} transactions");
            found.push(in_space(space, severity, what, advice));
        }
    }
    found
}

pub(super) fn majority(facts: &Facts) -> Vec<Finding> {
    if facts.age_ms() < STARTS_MS {
        return Vec::new();
    }
    let mut found = Vec::new();
    let announced = facts.closed().filter(|it| it.1["announced"] != false);
    for (space, membership) in announced {
        let voters = Voters::of(facts, membership);
        let (all, there, needed) = (voters.all, voters.there, voters.needed());
        let decides = voters.votes >= needed;
        if there > voters.votes {
            let others = all - all / 2;
            let what = format!(
                "this member has no vote: {others} of the {} others have to know its start, or half of them if it \
                 follows the one before in its place",
                all - 1
            );
            let advice = "It counts for no majority until then. That takes some seconds while so many are linked: \
                          bring them back.";
            found.push(in_space(space, Severity::Warning, what, advice));
        }
        let away = match voters.away.is_empty() {
            true => String::new(),
            false => format!("; not there: {}", voters.away.join(", ")),
        };
        // A member that restarted in its place has a vote. One whose disk was replaced or put back
        // has none while others are away, and this node can't tell the two apart.
        if there < all && decides && voters.sure < needed {
            let restarted = voters.votes - voters.sure;
            let what = format!(
                "{there} of {all} members are there, and {needed} are a majority; {restarted} of them restarted, \
                 and a member that is away has not acknowledged it{away}"
            );
            let advice = "Take out who is gone for good: `tallymesh members remove`. That is decided unless the \
                          disk of a restarted member was replaced, put back or copied, as its log says. Then \
                          bring back who is away.";
            found.push(in_space(space, Severity::Warning, what, advice));
            continue;
        }
        let (severity, advice) = match (all, there) {
            (0 | 1, _) => continue,
            (all, there) if there < all && !decides => (
                Severity::Problem,
                "No change of members can be decided, and no removal. Bring members back; if they are lost for ever, \
                 see `tallymesh members force`.",
            ),
            (all, there) if there == needed && there < all => (
                Severity::Warning,
                "One more away and no change can be decided: bring back who is away, or replace it. If none is \
                 decided now, run `tallymesh doctor` at the others: one may have no vote.",
            ),
            (2, 2) => (
                Severity::Notice,
                "Of two none may be away when the members change: a third one makes room for that.",
            ),
            _ => continue,
        };
        let voting = match voters.votes < there {
            true => format!(" and {} of them may vote", voters.votes),
            false => String::new(),
        };
        let what = format!(
            "{there} of {all} members are there{voting}, and {needed} are a majority{away}"
        );
        found.push(in_space(space, severity, what, advice));
    }
    found
}

pub(super) fn stuck(facts: &Facts) -> Vec<Finding> {
    let advice = "Nobody else can use them meanwhile. Start that node, if it is not gone for good.";
    let told = |space: &Value| -> Vec<Finding> {
        let rows = members::stuck(space, facts.keys);
        rows.map(|told| in_space(space, Severity::Warning, told, advice))
            .collect()
    };
    facts.spaces().flat_map(told).collect()
}

pub(super) fn undecided(facts: &Facts) -> Vec<Finding> {
    let advice =
        "It takes effect when a majority has answered; repeat the command, or bring them back.";
    let told = |(space, membership): (&Value, &Value)| {
        let of = |key: &Value| {
            rows(&membership["members"])
                .find(|row| row["owner"] == *key)
                .map(|row| facts.keys.named(row))
        };
        let silent = rows(&membership["unanswered"]);
        let silent: Vec<String> = silent
            .map(|key| of(key).unwrap_or_else(|| facts.keys.key(key)))
            .collect();
        let what = format!("a change of members waits for {}", silent.join(", "));
        let waits = !membership["proposal"].is_null() && !silent.is_empty();
        waits.then(|| in_space(space, Severity::Notice, what, advice))
    };
    facts.closed().filter_map(told).collect()
}
