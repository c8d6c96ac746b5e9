//! Each check finds its own problem, and no other.

use super::checks::{self, CHECKS};
use super::facts::{Facts, NodeMetrics};
use super::{Finding, Severity};
use crate::members::KeyForm;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Figures of a node without problems.
const FINE: &str = "\
tallymesh_disk_free_bytes 500e9
tallymesh_disk_bytes 1000e9
tallymesh_data_bytes 1e9
tallymesh_links 2
tallymesh_frames_in_total 1000
tallymesh_frames_out_total 1000
tallymesh_frames_dropped_total 0
tallymesh_commit_seconds_count 1000
tallymesh_commit_seconds_bucket{le=\"0.0032\"} 1000
tallymesh_commit_seconds_bucket{le=\"0.1024\"} 1000
tallymesh_commit_seconds_bucket{le=\"0.8192\"} 1000
tallymesh_commit_seconds_bucket{le=\"+Inf\"} 1000
tallymesh_tickets{kind=\"issued\",state=\"good\"} 5
tallymesh_tickets{kind=\"issued\",state=\"ending\"} 0
tallymesh_tickets{kind=\"issued\",state=\"ended\"} 5
tallymesh_tickets{kind=\"issued\",state=\"revoked\"} 5
tallymesh_tickets{kind=\"held\",state=\"good\"} 1
tallymesh_tickets{kind=\"held\",state=\"ending\"} 0
tallymesh_tickets{kind=\"held\",state=\"ended\"} 0
tallymesh_tickets{kind=\"held\",state=\"revoked\"} 0
tallymesh_tickets{kind=\"held\",state=\"not_needed\"} 3
process_open_fds 20
process_max_fds 1024
";

fn member(own: bool, heard: Option<u64>, behind: &str) -> Value {
    let owner = "ab".repeat(32);
    json!({ "own": own, "owner": owner, "last_heard_ms": heard, "behind": behind })
}

fn peer(offset: i64, error: u64) -> Value {
    let about = json!({ "clock_offset_ms": offset, "clock_error_ms": error });
    json!({ "peer": "x", "node": { "about": about } })
}

/// A node of three members without problems.
fn fine() -> Facts {
    let members = [
        member(true, None, "0"),
        member(false, Some(100), "5"),
        member(false, Some(4_000), "5"),
    ];
    Facts {
        unreached: json!([]),
        version: "1.0".into(),
        status: json!({
            "version": "1.0", "durability": "always", "cut": false,
            "http": "127.0.0.1:4280", "listen": ["/ip4/127.0.0.1/tcp/4001/p2p/x", "/ip6/::1/tcp/4001"],
            "listen_open": true,
            "time": "1000000", "started": "0",
            "spaces": [{
                "space": "default", "stuck": [], "copied": false, "copies": [], "faults": 0, "renewals": 0, "writers": 5, "key_bytes": 500, "keyed": 10,
                "membership": {
                    "configuration": { "number": "1" }, "announced": true, "votes": true, "members": members,
                    "proposal": null, "unanswered": [],
                },
            }],
        }),
        metrics: NodeMetrics::parse(FINE),
        peers: json!([peer(1_999, 0), peer(-70_000, 69_000), { "peer": "a page" }]),
        not_ready: None,
        ahead_ms: Some(3),
        keys: KeyForm::Short,
    }
}

/// All findings worse than `Ok`, as code and severity.
fn found(facts: &Facts) -> Vec<(&'static str, Severity)> {
    let all = checks::all(facts).into_iter();
    let bad = all.filter(|it| it.1.severity > Severity::Ok);
    bad.map(
        |(
            code,
            Finding {
                severity,
                what,
                advice,
                ..
            },
        )| {
            assert!(
                !what.is_empty() && !advice.is_empty(),
                "{code} says nothing"
            );
            (code, severity)
        },
    )
    .collect()
}

#[test]
fn nothing_is_found_where_all_is_well() {
    assert_eq!(found(&fine()), []);
    assert_eq!(
        checks::all(&fine()).len(),
        CHECKS.len(),
        "and each check says so"
    );
    let old = Facts {
        version: "1.0".into(),
        status: json!({ "version": "1.0", "spaces": [] }),
        ..Facts::default()
    };
    assert_eq!(found(&old), [], "what a node does not tell is not judged");
}

#[test]
fn each_check_finds_what_it_is_for() {
    use Severity::{Notice, Problem, Warning};
    type Spoil = Box<dyn Fn(&mut Facts)>;
    let set = |path: &'static str, value: Value| -> Spoil {
        Box::new(move |facts| {
            let place = facts.status.pointer_mut(path);
            *place.unwrap_or_else(|| panic!("{path}")) = value.clone();
        })
    };
    let figure = |name: &'static str, value: &'static str| -> Spoil {
        Box::new(move |facts| {
            let lines = FINE.lines().map(|line| match line.split_once(' ') {
                Some((known, _)) if known == name => format!("{name} {value}\n"),
                _ => format!("{line}\n"),
            });
            let text: String = lines.collect();
            assert_ne!(text, FINE, "{name}");
            facts.metrics = NodeMetrics::parse(&text);
        })
    };
    let status = |path: &'static str| format!("/spaces/0{path}").leak() as &'static str;
    let young = |then: Spoil| -> Spoil {
        Box::new(move |facts| {
            facts.status["started"] = json!("995000");
            then(facts);
        })
    };
    // All buckets up to this bound lack two of 100.
    let slow = |bound: f64| -> Spoil {
        Box::new(move |facts| {
            let lines = FINE.lines().map(|line| {
                let le = line.split('"').nth(1).and_then(|le| le.parse::<f64>().ok());
                match le.is_some_and(|le| le <= bound) {
                    true => line.replace("} 1000", "} 980\n"),
                    false => format!("{line}\n"),
                }
            });
            facts.metrics = NodeMetrics::parse(&lines.collect::<String>());
        })
    };
    let members = status("/membership/members");
    let announced = status("/membership/announced");
    let held = [
        "tallymesh_tickets{kind=\"held\",state=\"ending\"}",
        "tallymesh_tickets{kind=\"held\",state=\"ended\"}",
        "tallymesh_tickets{kind=\"held\",state=\"revoked\"}",
    ];
    let issued = "tallymesh_tickets{kind=\"issued\",state=\"ending\"}";
    let table: Vec<(&str, Severity, Spoil)> = vec![
        (
            "ready",
            Problem,
            Box::new(|facts| facts.not_ready = Some(("stopped".into(), "it stops".into()))),
        ),
        ("version", Notice, set("/version", json!("0.9"))),
        (
            "clock",
            Warning,
            Box::new(|facts| facts.ahead_ms = Some(-2_000)),
        ),
        (
            "clock",
            Problem,
            Box::new(|facts| facts.ahead_ms = Some(60_000)),
        ),
        (
            "peer_clock",
            Warning,
            Box::new(|facts| facts.peers = json!([peer(-3_000, 1_000), peer(-3_000, 1_000)])),
        ),
        (
            "peer_clock",
            Problem,
            Box::new(|facts| facts.peers = json!([peer(0, 0), peer(60_000, 0)])),
        ),
        ("disk", Warning, figure("tallymesh_disk_free_bytes", "99e9")),
        ("disk", Problem, figure("tallymesh_disk_free_bytes", "19e9")),
        ("disk", Warning, figure("tallymesh_data_bytes", "501e9")),
        ("commits_slow", Warning, slow(0.1024)),
        ("commits_slow", Problem, slow(0.8192)),
        ("durability", Warning, set("/durability", json!("memory"))),
        ("not_announced", Problem, set(announced, json!(false))),
        ("not_announced", Notice, young(set(announced, json!(false)))),
        ("links", Problem, figure("tallymesh_links", "0")),
        (
            "peers_unreached",
            Warning,
            Box::new(|facts| {
                let row = |for_ms: u64, code| json!({ "address": "/ip4/127.0.0.1/tcp/9", "code": code, "detail": "why", "for_ms": for_ms });
                // A peer that was just started may need a moment.
                facts.unreached = json!([row(4_999, "no_answer"), row(5_000, "refused")]);
            }),
        ),
        ("cut", Warning, set("/cut", json!(true))),
        (
            "frames_dropped",
            Notice,
            figure("tallymesh_frames_dropped_total", "1"),
        ),
        (
            "frames_dropped",
            Warning,
            figure("tallymesh_frames_dropped_total", "100"),
        ),
        (
            "member_behind",
            Notice,
            set(status("/membership/members/1/behind"), json!("10000")),
        ),
        (
            "member_behind",
            Warning,
            set(status("/membership/members/1/behind"), json!("100000")),
        ),
        (
            "majority",
            Notice,
            set(
                members,
                json!([member(true, None, "0"), member(false, Some(1), "0")]),
            ),
        ),
        (
            "stuck",
            Warning,
            set(
                status("/stuck"),
                json!([{ "owner": "ab", "rights": "40", "budgets": 1, "sequences": 0, "more": false }]),
            ),
        ),
        ("copied", Problem, set(status("/copied"), json!(true))),
        (
            "copies",
            Warning,
            set(
                status("/copies"),
                json!([{ "peer": "x", "owner": "ab", "address": "/ip4/127.0.0.1/tcp/9", "writer": "cd", "last_heard_ms": 5 }]),
            ),
        ),
        (
            "no_witness",
            Notice,
            Box::new(|facts| {
                facts.status["spaces"][0]["membership"]["members"] =
                    json!([member(true, None, "0")]);
                facts.status["spaces"][0]["membership"]["member"] = json!(true);
            }),
        ),
        ("faults", Problem, set(status("/faults"), json!(1))),
        // A member was passed over. In a space without members no writer is retired.
        ("faults", Notice, set(status("/renewals"), json!(1))),
        (
            "faults",
            Warning,
            Box::new(|facts| {
                facts.status["spaces"][0]["renewals"] = json!(1);
                facts.status["spaces"][0]["membership"] = Value::Null;
            }),
        ),
        (
            "keys_full",
            Warning,
            set(status("/key_bytes"), json!(3_500_000_000_u64)),
        ),
        (
            "keys_full",
            Problem,
            set(status("/key_bytes"), json!(4_200_000_000_u64)),
        ),
        (
            "writers_full",
            Warning,
            set(status("/writers"), json!(32_000)),
        ),
        (
            "writers_full",
            Problem,
            set(status("/writers"), json!(39_000)),
        ),
        ("keyed_full", Warning, set(status("/keyed"), json!(800_000))),
        ("held_tickets", Notice, figure(held[0], "1")),
        ("held_tickets", Warning, figure(held[1], "1")),
        ("held_tickets", Warning, figure(held[2], "1")),
        ("issued_tickets", Notice, figure(issued, "1")),
        ("files", Warning, figure("process_open_fds", "900")),
        ("files", Problem, figure("process_open_fds", "1000")),
        ("open_http", Warning, set("/http", json!("0.0.0.0:4280"))),
        (
            "open_resp",
            Warning,
            Box::new(|facts| {
                facts.status["resp"] = json!("0.0.0.0:6379");
                facts.status["resp_open"] = json!(true);
            }),
        ),
        (
            "open_network",
            Warning,
            set("/listen", json!(["/ip4/10.0.0.1/udp/1/quic-v1/p2p/x"])),
        ),
        (
            "undecided",
            Notice,
            Box::new(|facts| {
                let membership = &mut facts.status["spaces"][0]["membership"];
                membership["proposal"] = json!(["ab"]);
                membership["unanswered"] = json!(["ab"]);
            }),
        ),
    ];
    let mut tried = BTreeSet::from(["member_silent"]); // With `majority`, below.
    for (code, severity, spoil) in table {
        let mut facts = fine();
        spoil(&mut facts);
        assert_eq!(found(&facts), [(code, severity)]);
        tried.insert(code);
    }
    let all: BTreeSet<&str> = CHECKS.iter().map(|check| check.code).collect();
    assert_eq!(tried, all, "each check has a case");
}

#[test]
fn members_that_are_away_put_the_majority_at_risk() {
    let with = |members: Value| {
        let mut facts = fine();
        facts.status["spaces"][0]["membership"]["members"] = members;
        facts
    };
    let own = || member(true, None, "0");
    let here = || member(false, Some(29_000), "0");
    let gone = || member(false, Some(30_000), "7");
    let never = || member(false, None, "7");
    let silent = ("member_silent", Severity::Warning);
    assert_eq!(found(&with(json!([own()]))), [], "one alone decides alone");
    let one = with(json!([own(), here(), gone()]));
    assert_eq!(found(&one), [silent, ("majority", Severity::Warning)]);
    let two = with(json!([own(), gone(), never()]));
    assert_eq!(
        found(&two),
        [silent, silent, ("majority", Severity::Problem)]
    );
    // One member is away, and does not know of the start of another.
    let mut restarted = with(json!([own(), here(), gone()]));
    restarted.status["spaces"][0]["membership"]["members"][1]["unsure"] = json!(true);
    assert_eq!(found(&restarted), [silent, ("majority", Severity::Warning)]);
    // This one's start is not known to enough others.
    let mut voteless = with(json!([own(), here(), here()]));
    let membership = &mut voteless.status["spaces"][0]["membership"];
    (membership["member"], membership["votes"]) = (json!(true), json!(false));
    assert_eq!(found(&voteless), [("majority", Severity::Warning)]);
    let spare = with(json!([own(), here(), here(), here(), gone()]));
    assert_eq!(found(&spare), [silent], "a majority and one more is left");
    let mut young = with(json!([own(), never(), never()]));
    young.status["started"] = json!("995001");
    assert_eq!(found(&young), [], "so soon nobody is missed");
    young.status["started"] = json!("995000");
    assert_eq!(found(&young), [("majority", Severity::Problem)]);
    // A member whose link has ended is missed before it counts as silent.
    let mut left = with(json!([own(), here(), here()]));
    for row in [1, 2] {
        left.status["spaces"][0]["membership"]["members"][row]["reached"] = json!(false);
    }
    assert_eq!(found(&left), [("majority", Severity::Problem)]);
    let told = checks::all(&two);
    let (_, finding) = told
        .iter()
        .find(|it| it.0 == "member_silent")
        .expect("found");
    assert_eq!(finding.space.as_deref(), Some("default"));
    assert!(
        finding.what.contains("heard 30 s ago, 7 transactions"),
        "{}",
        finding.what
    );
}

/// No majority votes, so nobody is told to remove a member, and it is said what is missing.
#[test]
fn a_removal_that_cannot_be_decided_is_not_advised() {
    let mut facts = fine();
    let key = "ab".repeat(32);
    let space = &mut facts.status["spaces"][0];
    space["stuck"] = json!([{
        "owner": key, "rights": "40", "awaited": "7", "budgets": 1, "sequences": 0, "limits": 0, "more": false,
    }]);
    let membership = &mut space["membership"];
    membership["members"] = json!([
        member(true, None, "0"),
        member(false, Some(100), "0"),
        member(false, None, "7")
    ]);
    let told = |facts: &Facts| {
        let all = checks::all(facts).into_iter();
        let bad = all.filter(|it| it.1.severity > Severity::Ok);
        let lines = bad.map(|(code, it)| format!("{code}: {} {}\n", it.what, it.advice));
        lines.collect::<String>()
    };
    assert_eq!(told(&facts).matches("`tallymesh members remove").count(), 3);
    let membership = &mut facts.status["spaces"][0]["membership"];
    membership["member"] = json!(true);
    membership["votes"] = json!(false);
    membership["decides"] = json!(false);
    let told = told(&facts);
    assert!(!told.contains("members remove"), "{told}");
    for part in [
        "stuck: 40 rights of 1 budget are with member abababab…",
        "stuck: 7 rights can't be spent before the acknowledgement of member abababab…",
        "majority: this member has no vote: 2 of the 2 others have to know its start",
        "majority: 2 of 3 members are there and 1 of them may vote, and 2 are a majority; not there: abababab…",
        "`tallymesh members force`",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// The original has the links. So the copy reports no peer as gone, and advises nobody to remove a member.
#[test]
fn a_copy_says_nothing_of_its_links() {
    let mut facts = fine();
    let row = json!({ "address": "/ip4/127.0.0.1/tcp/9", "code": "refused", "detail": "why", "for_ms": 9_000 });
    facts.unreached = json!([row]);
    let space = &mut facts.status["spaces"][0];
    space["stuck"] =
        json!([{ "owner": "ab", "rights": "40", "budgets": 1, "sequences": 0, "more": false }]);
    let codes = |facts: &Facts| found(facts).iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(codes(&facts), ["peers_unreached", "stuck"]);
    facts.status["spaces"][0]["copied"] = json!(true);
    assert_eq!(codes(&facts), ["copied"]);
}

#[test]
fn each_check_is_documented() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let text = std::fs::read_to_string(file).expect("docs/operations.md");
    let table = text.split("| check |").nth(1).expect("the table");
    let rows = table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("| `"));
    let names = rows
        .filter_map(|row| row.split_once(" | "))
        .map(|row| row.0);
    let names = names.flat_map(|names| names.split(", "));
    let documented: Vec<&str> = names.map(|name| name.trim_matches('`')).collect();
    let checks: Vec<&str> = CHECKS.iter().map(|check| check.code).collect();
    assert_eq!(documented, checks);
}

/// The text about a fault, and the advice.
fn of_fault(report: Value) -> (String, &'static str) {
    let mut facts = fine();
    facts.status["spaces"][0]["faults"] = json!(1);
    facts.status["spaces"][0]["evidence"] = json!([report]);
    let all = checks::all(&facts).into_iter();
    let mut told = all.filter(|it| it.0 == "faults").map(|it| it.1);
    let told = told.next_back().expect("it is found");
    (told.what, told.advice)
}

#[test]
fn a_fault_is_told_with_both_sides_and_the_advice_fits() {
    let honest = json!({ "peer": "12D3", "owner": "dd".repeat(32) });
    let liar = json!({ "peer": "post-1", "ticket": "abcd", "address": "127.0.0.1:5" });
    let report = |more: Value| {
        let mut report = json!({ "kind": "totals", "writer": "77", "clock": "5" });
        let fields = more.as_object().expect("fields").clone();
        report.as_object_mut().expect("fields").extend(fields);
        of_fault(report)
    };
    let (what, advice) = report(json!({
        "brought_by": honest, "denied_by": liar, "suspect": "denied_by"
    }));
    let brought = what.find("brought by 12D3").expect(&what);
    let contradicted = what.find("contradicted by post-1").expect(&what);
    assert!(brought < contradicted, "{what}");
    let fields = what.contains("ticket abcd") && what.contains("address 127.0.0.1:5");
    assert!(fields && what.contains("suspect: the latter"), "{what}");
    assert!(advice.contains("not the other side"), "{advice}");
    let (what, _) = report(json!({
        "brought_by": liar, "denied_by": honest, "suspect": "brought_by"
    }));
    assert!(what.contains("brought by post-1") && what.contains("suspect: the former"));
    let (what, advice) = report(json!({ "brought_by": honest, "denied_by": liar }));
    assert!(!what.contains("suspect"), "{what}");
    assert!(advice.contains("remove nobody for this alone"), "{advice}");
    let (_, advice) = report(json!({ "brought_by": honest, "denied_by": honest }));
    assert!(advice.contains("data folder's copy"), "{advice}");
    let (what, _) = report(json!({ "denied_by": liar, "suspect": "denied_by" }));
    assert!(what.contains("suspect: this link"), "{what}");
    let (what, _) = report(json!({ "brought_by": liar, "suspect": "brought_by" }));
    assert!(what.contains("suspect: this link") && what.contains("this node's own"));
    let (what, advice) = report(json!({ "brought_by": honest }));
    assert!(!what.contains("suspect"), "{what}");
    assert!(advice.contains("before anybody is removed"), "{advice}");
    let (_, advice) = report(json!({}));
    assert!(advice.contains("data folder's copy"), "{advice}");
}

#[test]
fn the_advice_about_a_peer_that_is_away_names_only_settings_that_were_made() {
    let advice = |from: &str, code: &str| {
        let mut facts = fine();
        facts.unreached = json!([{ "address": "/ip4/127.0.0.1/tcp/9", "from": from, "code": code,
            "detail": "why", "for_ms": 9_000 }]);
        let mut all = checks::all(&facts).into_iter();
        let told = all.find(|it| it.0 == "peers_unreached").expect("a finding");
        told.1.advice
    };
    // A peer that is there and sends no answer need not be started.
    for from in ["peer", "ticket"] {
        assert!(advice(from, "silent").contains("`tallymesh members`"));
    }
    assert!(advice("listen", "relay").contains("`--listen`"));
    for code in [
        "refused",
        "no_answer",
        "not_resolved",
        "other_identity",
        "own_address",
        "no_space",
    ] {
        let (peer, ticket) = (advice("peer", code), advice("ticket", code));
        assert!(
            peer.contains("`--peer`") && !peer.contains("ticket"),
            "{code}: {peer}"
        );
        assert!(ticket.starts_with("A ticket names it"), "{code}: {ticket}");
        assert!(!ticket.contains("orrect `--peer`"), "{code}: {ticket}");
    }
}

/// The code for a node that is not ready determines the advice.
#[test]
fn what_to_do_about_a_node_that_is_not_ready_fits_the_reason() {
    for (code, words) in [
        ("joining", "its ticket names"),
        ("removed", "members add"),
        ("ticket_worthless", "another ticket"),
        ("store_lost", "Put the folder back"),
        ("stopped", "in its log"),
    ] {
        let mut facts = fine();
        facts.not_ready = Some((code.into(), "so it is".into()));
        let all = checks::all(&facts);
        let ready = all.iter().find(|it| it.0 == "ready").expect("a finding");
        assert!(ready.1.advice.contains(words), "{code}: {}", ready.1.advice);
    }
}

/// Each finding about a member has its whole key on request, and else its first digits alone.
#[test]
fn members_are_named_by_the_form_of_key_that_is_asked_for() {
    let key = "ab".repeat(32);
    let mut facts = fine();
    let space = &mut facts.status["spaces"][0];
    space["stuck"] = json!([{
        "owner": key, "rights": "40", "budgets": 1, "sequences": 0, "limits": 2, "more": false,
    }]);
    let membership = &mut space["membership"];
    membership["members"][1] = member(false, None, "5");
    membership["members"][2] = member(false, Some(1), "100000");
    membership["proposal"] = json!({});
    membership["unanswered"] = json!([key, "cd".repeat(32)]);
    for (keys, told) in [
        (KeyForm::Short, ["abababab…", "cdcdcdcd…"]),
        (KeyForm::Whole, [key.as_str(), &"cd".repeat(32)]),
    ] {
        facts.keys = keys;
        let all = checks::all(&facts);
        for code in ["member_silent", "member_behind", "stuck", "undecided"] {
            let finding = all.iter().find(|it| it.0 == code).expect("a finding");
            let what = &finding.1.what;
            assert!(what.contains(told[0]), "{code}: {what}");
            assert!(code != "undecided" || what.contains(told[1]), "{what}");
            // A command takes it whole in any case.
            let shown = what.replace(&format!("members remove {key}"), "");
            assert_eq!(
                shown.contains(&key),
                keys == KeyForm::Whole,
                "{code}: {what}"
            );
        }
        let stuck = all.iter().find(|it| it.0 == "stuck").expect("a finding");
        let what = &stuck.1.what;
        assert!(what.contains("shares of 2 limits in each period"), "{what}");
    }
}

/// A writer id that was left without a fault is not told as a fault that occurred 0 times.
#[test]
fn no_finding_counts_to_zero() {
    for membership in [
        Value::Null,
        fine().status["spaces"][0]["membership"].clone(),
    ] {
        let mut facts = fine();
        facts.status["spaces"][0]["renewals"] = json!(2);
        facts.status["spaces"][0]["membership"] = membership;
        for (code, finding) in checks::all(&facts) {
            assert!(
                !finding.what.contains("0 times"),
                "{code}: {}",
                finding.what
            );
        }
    }
}
