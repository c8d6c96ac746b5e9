//! Leases of rights, at real nodes.

use crate::budgets::budget;
use crate::members::{close, nodes, peers_of};
use crate::once::post;
use crate::process::{Node, eventually};
use serde_json::{Value, json};

const BUDGETS: &str = "/v1/spaces/default/budgets";
const ID: &str = "000102030405060708090a0b0c0d0e0f";

fn mint(node: &Node, amount: u64) {
    let body = json!({ "amount": amount }).to_string();
    assert_eq!(node.post(&format!("{BUDGETS}/gift/mint"), &body).0, 200);
}

fn lease_as(node: &Node, id: &str, amount: u64, ms: u64) -> (u16, Value) {
    let body = json!({ "amount": amount, "lease_ms": ms }).to_string();
    node.put(&format!("{BUDGETS}/gift/leases/{id}"), &body)
}

fn lease(node: &Node, amount: u64, ms: u64) -> Value {
    eventually("it knows the time", || {
        let (status, done) = lease_as(node, ID, amount, ms);
        assert!(status == 200 || done["code"] == "catching_up", "{done}");
        (status == 200).then(|| done["lease"].clone())
    })
}

fn spend(node: &Node, amount: u64, key: &str) -> (u16, Value) {
    let body = json!({ "amount": amount, "lease": ID }).to_string();
    let path = format!("{BUDGETS}/gift/spend");
    let (status, answer, _) = post(node, &path, &[("idempotency-key", key)], &body);
    (status, answer)
}

/// The value, what is held here, and what is on lease.
fn shown(node: &Node) -> [Value; 3] {
    let it = budget(node, "gift");
    [
        it["value"].clone(),
        it["rights"]["here"].clone(),
        it["leased"].clone(),
    ]
}

#[test]
fn rights_are_leased_spent_and_come_back() {
    let node = Node::start(&[]);
    close(&[&node]);
    mint(&node, 100);
    let given = lease(&node, 20, 60_000);
    assert_eq!((&given["id"], &given["left"]), (&json!(ID), &json!("20")));
    // The same one is given once.
    assert_eq!(lease(&node, 20, 60_000), given);
    assert_eq!(shown(&node), [json!("100"), json!("80"), json!("20")]);
    let (status, problem) = node.post(&format!("{BUDGETS}/gift/spend"), r#"{"amount":81}"#);
    assert_eq!((status, &problem["code"]), (409, &json!("rights_short")));
    assert_eq!(spend(&node, 5, "sale-1").0, 200);
    assert_eq!(spend(&node, 5, "sale-1").0, 200);
    assert_eq!(shown(&node), [json!("95"), json!("80"), json!("15")]);
    let read = budget(&node, "gift");
    assert_eq!(read["leases"][0]["left"], "15");
    assert_eq!(read["holders"][0]["leased"], "15");
    let listed = node.get(BUDGETS).1;
    assert_eq!(listed["budgets"][0]["leases"], read["leases"]);
    let ended = node.delete(&format!("{BUDGETS}/gift/leases/{ID}"));
    assert_eq!((ended.0, &ended.1["rights"]["here"]), (200, &json!("95")));
    assert_eq!(shown(&node), [json!("95"), json!("95"), json!(null)]);
    // What is told late is spent of the rights.
    assert_eq!(spend(&node, 5, "sale-2").0, 200);
    assert_eq!(shown(&node), [json!("90"), json!("90"), json!(null)]);
    // A second, a hundredth of it, and two more.
    lease(&node, 90, 1_000);
    assert_eq!(shown(&node), [json!("90"), json!("0"), json!("90")]);
    eventually("the lease has returned", || {
        (shown(&node)[1] == "90").then_some(())
    });
}

#[test]
fn what_is_wrong_with_a_lease_is_said() {
    let node = Node::start(&[]);
    close(&[&node]);
    mint(&node, 10);
    let upper = ID.to_uppercase();
    for (id, amount, ms, status, code) in [
        (ID, 11, 60_000, 409, "rights_short"),
        (ID, 1, 999, 400, "lease_range"),
        (ID, 1, 2_592_000_001, 400, "lease_range"),
        ("0001", 1, 60_000, 400, "lease_id"),
        (upper.as_str(), 1, 60_000, 400, "lease_id"),
    ] {
        let (got, problem) = lease_as(&node, id, amount, ms);
        let told = (got, &problem["code"], &problem["applied"]);
        assert_eq!(told, (status, &json!(code), &json!("no")), "{problem}");
    }
    let path = format!("{BUDGETS}/gift/leases/{ID}");
    for body in [
        "{}",
        r#"{"amount":1}"#,
        r#"{"amount":1,"lease_ms":1000,"until":5}"#,
    ] {
        assert_eq!(node.put(&path, body).1["code"], "body", "{body}");
    }
    assert_eq!(node.delete(&path).1["code"], "no_lease");
    let long = "x".repeat(430);
    let body = r#"{"amount":"1"}"#;
    assert_eq!(node.post(&format!("{BUDGETS}/{long}/mint"), body).0, 200);
    let body = r#"{"amount":"1","lease_ms":"60000"}"#;
    let (_, problem) = node.put(&format!("{BUDGETS}/{long}/leases/{ID}"), body);
    assert_eq!(problem["code"], "leased_name", "{problem}");
    let body = json!({ "ops": [
        { "op": "lease", "key": "gift", "id": ID, "amount": 1, "lease_ms": 60_000 },
    ]});
    let path = "/v1/spaces/default/transactions";
    let (status, problem, _) = post(&node, path, &[("idempotency-key", "k")], &body.to_string());
    assert_eq!((status, &problem["code"]), (400, &json!("lease_once")));
    assert_eq!(shown(&node), [json!("10"), json!("10"), json!(null)]);
}

/// The member that gave a lease ends by force; its next start takes the lease over with the rights.
#[test]
fn a_lease_outlives_the_process_that_gave_it() {
    let mut nodes = nodes(2);
    {
        let [one, two] = &nodes[..] else {
            unreachable!()
        };
        close(&[one, two]);
        mint(one, 50);
        lease(one, 20, 600_000);
        eventually("the other one knows of it", || {
            (shown(two)[2] == "20").then_some(())
        });
    }
    let others = peers_of(&[&nodes[1]]);
    nodes[0].kill();
    nodes[0].start_again_with(others);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    eventually("the next start has taken it over", || {
        let held = budget(one, "gift");
        let holder = &held["leases"][0]["writer"];
        (*holder == one.space()["writer"] && held["rights"]["here"] == "30").then_some(())
    });
    // Told to the one that holds it, and again to the other one, as if the answer had been lost.
    assert_eq!(spend(one, 15, "sale").0, 200);
    eventually("the other one knows of it", || {
        (shown(two)[0] == "35").then_some(())
    });
    assert_eq!(spend(two, 15, "sale").0, 200);
    assert_eq!(shown(one), [json!("35"), json!("30"), json!("5")]);
    // Another member holds nothing of it, and has no rights.
    let (status, problem) = spend(two, 5, "late");
    assert_eq!((status, &problem["code"]), (409, &json!("rights_short")));
    let ended = one.delete(&format!("{BUDGETS}/gift/leases/{ID}"));
    assert_eq!(
        (&ended.1["value"], &ended.1["leased"]),
        (&json!("35"), &json!(null))
    );
}

#[test]
fn the_command_line_leases() {
    let node = Node::start(&[]);
    close(&[&node]);
    let said = |words: &[&str]| -> (Option<i32>, String) {
        let words: Vec<&str> = [&["budget"], words].concat();
        let output = node.run(&words, "");
        let text = match output.status.success() {
            true => output.stdout,
            false => output.stderr,
        };
        (
            output.status.code(),
            String::from_utf8_lossy(&text).trim_end().to_owned(),
        )
    };
    assert_eq!(said(&["mint", "gift", "100"]), (Some(0), "100".into()));
    let (code, id) = said(&["lease", "gift", "20", "--for", "1h"]);
    assert_eq!((code, id.len()), (Some(0), 32), "{id}");
    let spent = said(&["spend", "gift", "3", "--lease", &id, "--once", "a"]);
    assert_eq!(spent, (Some(0), "97".into()));
    let (_, shown) = said(&["show", "gift"]);
    for part in ["leased: 17", &format!("lease {id}\tleft 17\tback at 2")] {
        assert!(shown.contains(part), "{shown}");
    }
    let (code, audited) = said(&["audit"]);
    assert_eq!(code, Some(0), "{audited}");
    assert!(audited.contains("0 do not add up"), "{audited}");
    assert_eq!(said(&["end-lease", "gift", &id]), (Some(0), "97".into()));
    let (code, refused) = said(&["end-lease", "gift", &id]);
    assert_eq!(code, Some(4), "{refused}");
    let (code, refused) = said(&["lease", "gift", "1", "--for", "40days"]);
    assert_eq!(code, Some(1), "{refused}");
    assert!(refused.contains("2592000000"), "{refused}");
    let given = said(&["lease", "gift", "5", "--for", "10s", "--id", ID, "--json"]);
    let given: Value = serde_json::from_str(&given.1).expect("JSON");
    assert_eq!((&given["id"], &given["left"]), (&json!(ID), &json!("5")));
}
