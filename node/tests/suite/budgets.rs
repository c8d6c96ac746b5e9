//! Budgets over HTTP and on the command line, on real nodes.

mod stuck;

use crate::events::Stream;
use crate::members::{close, nodes, owner};
use crate::once::post;
use crate::process::{Node, eventually};
use crate::redis::Redis;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

const SPACE: &str = "/v1/spaces/default";

/// How long a wait of 300 ms lasts at least: a node's time is in whole milliseconds.
const WAITED: Duration = Duration::from_millis(299);

/// A node that is the only member of its space.
fn alone() -> Node {
    let node = Node::start(&[]);
    close(&[&node]);
    node
}

/// Makes one operation on a budget by its own address: the status and the answer.
fn flow(node: &Node, key: &str, op: &str, body: &Value) -> (u16, Value) {
    node.post(&format!("{SPACE}/budgets/{key}/{op}"), &body.to_string())
}

fn spend(node: &Node, key: &str, amount: u64) -> (u16, Value) {
    flow(node, key, "spend", &json!({ "amount": amount }))
}

fn mint(node: &Node, key: &str, amount: u64) {
    let (status, answer) = flow(node, key, "mint", &json!({ "amount": amount }));
    assert_eq!(status, 200, "{answer}");
}

pub(crate) fn budget(node: &Node, key: &str) -> Value {
    node.get(&format!("{SPACE}/budgets/{key}")).1
}

fn transact(node: &Node, ops: &Value) -> (u16, Value) {
    let body = json!({ "ops": ops }).to_string();
    node.post(&format!("{SPACE}/transactions"), &body)
}

/// Waits until a node shows this value of a budget.
fn shows(node: &Node, key: &str, value: i128) {
    eventually(&format!("{key} is {value}"), || {
        (budget(node, key)["value"] == value.to_string().as_str()).then_some(())
    });
}

#[test]
fn a_budget_is_minted_spent_and_never_goes_under_its_floor() {
    let mut node = alone();
    let (status, problem) = spend(&node, "gift", 1);
    assert_eq!((status, &problem["code"]), (404, &json!("no_budget")));
    mint(&node, "gift", 100);
    let (status, answer) = spend(&node, "gift", 30);
    let rights = json!({ "here": "70", "pending": "0", "elsewhere": "0" });
    let expected = json!({ "key": "gift", "value": "70", "floor": "0", "rights": rights });
    assert_eq!((status, answer), (200, expected));
    let (status, problem) = spend(&node, "gift", 71);
    assert_eq!((status, &problem["code"]), (409, &json!("rights_short")));
    assert_eq!(
        (&problem["applied"], &problem["held"]),
        (&json!("no"), &rights)
    );
    assert!(problem["op"].is_null(), "{problem}");
    let read = budget(&node, "gift");
    let writer = node.space()["writer"].clone();
    assert_eq!(
        read["holders"],
        json!([{ "writer": writer, "owner": owner(&node), "own": true, "rights": "70" }])
    );
    // The same after a crash: what was answered is durable.
    node.kill();
    node.start_again();
    eventually("the start before was taken over", || {
        (budget(&node, "gift")["rights"]["here"] == "70").then_some(())
    });
    assert_eq!(spend(&node, "gift", 70).0, 200);
    assert_eq!(spend(&node, "gift", 1).0, 409);
}

#[test]
fn all_operations_are_there_and_say_what_is_wrong_with_them() {
    let node = alone();
    let (status, answer) = transact(
        &node,
        &json!([
            { "op": "mint", "key": "a", "amount": "10" },
            { "op": "lower_floor", "key": "a", "amount": 5 },
            { "op": "raise_floor", "key": "a", "amount": 2 },
            { "op": "raise_cap", "key": "seats", "amount": 10 },
            { "op": "mint", "key": "seats", "amount": 4 },
            { "op": "lower_cap", "key": "seats", "amount": 1 },
            { "op": "transfer", "key": "a", "to": [{ "key": "b", "amount": 3 }, { "key": "seats", "amount": "1" }] },
            { "op": "add", "key": "sold" },
        ]),
    );
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("results");
    let a = json!({
        "key": "a", "value": "6", "floor": "-3",
        "rights": { "here": "9", "pending": "0", "elsewhere": "0" },
    });
    assert_eq!(results[0], json!({ "key": "a", "budget": a }));
    assert_eq!(results[6]["to"][1]["cap"], "9");
    assert_eq!(results[6]["to"][1]["room"]["here"], "4");
    assert_eq!(
        results[7],
        json!({ "key": "sold", "existed": false, "value": "1" })
    );
    let nobody = "0".repeat(64);
    for (op, code, status) in [
        (
            json!({ "op": "spend", "key": "a", "amount": -1 }),
            "amount_range",
            400,
        ),
        (
            json!({ "op": "spend", "key": "a", "amount": "9223372036854775808" }),
            "amount_range",
            400,
        ),
        (
            json!({ "op": "spend", "key": "a", "amount": 1.5 }),
            "amount",
            400,
        ),
        (json!({ "op": "spend", "key": "a" }), "body", 400),
        (
            json!({ "op": "spend", "key": "a", "amount": 1, "to": [] }),
            "body",
            400,
        ),
        (
            json!({ "op": "spend", "key": "none", "amount": 1 }),
            "no_budget",
            404,
        ),
        (
            json!({ "op": "mint", "key": "\u{0}x", "amount": 1 }),
            "key_reserved",
            400,
        ),
        (
            json!({ "op": "mint", "key": "x".repeat(478), "amount": 1 }),
            "budget_name",
            400,
        ),
        (
            json!({ "op": "mint", "key": "sold", "amount": 1 }),
            "wrong_kind",
            409,
        ),
        (
            json!({ "op": "mint", "key": "seats", "amount": 5 }),
            "room_short",
            409,
        ),
        (
            json!({ "op": "raise_cap", "key": "a", "amount": 5 }),
            "wrong_kind",
            409,
        ),
        (json!({ "op": "add", "key": "a" }), "wrong_kind", 409),
        (json!({ "op": "delete", "key": "a" }), "wrong_kind", 409),
        (
            json!({ "op": "add", "key": "\u{0}bva" }),
            "key_reserved",
            400,
        ),
        (
            json!({ "op": "grant", "key": "a", "to": nobody, "amount": 1 }),
            "no_recipient",
            409,
        ),
        (
            json!({ "op": "grant", "key": "a", "to": owner(&node), "amount": 1 }),
            "no_recipient",
            409,
        ),
        (
            json!({ "op": "grant", "key": "a", "to": "me", "amount": 1 }),
            "recipient",
            400,
        ),
        (
            json!({ "op": "transfer", "key": "a", "to": [{ "key": "b" }] }),
            "body",
            400,
        ),
    ] {
        let (got, problem) = transact(&node, &json!([{ "op": "add", "key": "sold" }, op]));
        assert_eq!(
            (got, &problem["code"]),
            (status, &json!(code)),
            "{op}: {problem}"
        );
        assert_eq!(
            (&problem["op"], &problem["applied"]),
            (&json!(1), &json!("no")),
            "{op}"
        );
    }
    assert_eq!(
        node.value("sold"),
        Some(1),
        "nothing of a refused transaction is made"
    );
    let open = Node::start(&[]);
    let (status, problem) = spend(&open, "gift", 1);
    assert_eq!((status, &problem["code"]), (409, &json!("not_a_member")));
    let refused = open.run(&["budget", "mint", "gift", "1"], "");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("run `tallymesh members init` once"), "{said}");
}

#[test]
fn counters_and_budgets_are_listed_apart() {
    let node = alone();
    node.add("likes", 1);
    for name in ["c", "a", "b-1", "b-2"] {
        mint(&node, name, 5);
    }
    let listed = node.get(&format!("{SPACE}/counters")).1;
    assert_eq!(
        listed["counters"],
        json!([{ "key": "likes", "value": "1" }])
    );
    let hidden = node.get(&format!("{SPACE}/counters?prefix=%00")).1;
    assert_eq!(hidden["counters"], json!([]));
    for path in ["counters/%00bva", "counters/a", "counters/%00bva/shards"] {
        let (status, problem) = node.get(&format!("{SPACE}/{path}"));
        assert_eq!(
            (status, &problem["code"]),
            (404, &json!("absent")),
            "{path}"
        );
    }
    assert_eq!(node.space()["counters"], 1);
    let names = |query: &str| {
        let page = node.get(&format!("{SPACE}/budgets{query}")).1;
        let rows = page["budgets"].as_array().expect("budgets").clone();
        let names: Vec<Value> = rows.iter().map(|row| row["key"].clone()).collect();
        assert!(
            rows.iter().all(|row| row["holders"][0]["rights"] == "5"),
            "{page}"
        );
        (json!(names), page["next"].clone())
    };
    assert_eq!(names(""), (json!(["a", "b-1", "b-2", "c"]), json!(null)));
    assert_eq!(names("?limit=2"), (json!(["a", "b-1"]), json!("b-1")));
    assert_eq!(
        names("?limit=2&after=b-1"),
        (json!(["b-2", "c"]), json!(null))
    );
    assert_eq!(names("?prefix=b-&limit=1"), (json!(["b-1"]), json!("b-1")));
    assert_eq!(
        node.get(&format!("{SPACE}/budgets?limit=0")).1["code"],
        "query"
    );
    let audited = node.get(&format!("{SPACE}/audit?prefix=%00")).1;
    assert_eq!(
        audited["counters"].as_array().map(Vec::len),
        Some(8),
        "{audited}"
    );
}

#[test]
fn a_spend_under_a_key_counts_once_at_two_members() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    mint(one, "gift", 100);
    shows(two, "gift", 100);
    let path = format!("{SPACE}/budgets/gift/spend");
    let body = r#"{"amount":"5"}"#;
    let key = [("idempotency-key", "a")];
    assert_eq!(post(one, &path, &key, body).0, 200);
    shows(two, "gift", 95);
    let (status, answer, again) = post(two, &path, &key, body);
    assert_eq!((status, &answer["value"], again), (200, &json!("95"), true));
    let (status, problem, _) = post(one, &path, &key, r#"{"amount":"6"}"#);
    assert_eq!((status, &problem["code"]), (422, &json!("key_reused")));
    let level = [("tallymesh-level", "all")];
    assert_eq!(post(one, &path, &level, body).1["value"], "90");
    assert_eq!(budget(two, "gift")["value"], "90");
    // What comes in under a key can be spent once all members know of it.
    let (_, answer, _) = post(
        one,
        &format!("{SPACE}/budgets/gift/mint"),
        &[("idempotency-key", "b")],
        body,
    );
    let rights = &answer["rights"];
    assert_eq!(
        (&rights["here"], &rights["pending"]),
        (&json!("90"), &json!("5"))
    );
    eventually("nothing is pending", || {
        (budget(one, "gift")["rights"]["here"] == "95").then_some(())
    });
}

/// What each member holds of a budget, as a node shows it: its owner's key and its rights.
fn held(node: &Node, key: &str) -> Vec<(String, i128)> {
    let holders = budget(node, key)["holders"].clone();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let held = holders.as_array().expect("holders").iter();
    held.map(|it| {
        (
            text(&it["owner"]),
            text(&it["rights"]).parse().expect("a number"),
        )
    })
    .collect()
}

#[test]
fn rights_are_granted_to_another_member() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    mint(one, "gift", 100);
    shows(two, "gift", 100);
    let grant = json!({ "to": owner(two), "amount": 40 });
    let (status, answer) = flow(one, "gift", "grant", &grant);
    assert_eq!((status, &answer["rights"]["here"]), (200, &json!("60")));
    eventually("the rights are there", || {
        (budget(two, "gift")["rights"]["here"] == "40").then_some(())
    });
    let mut expected = vec![(owner(one), 60), (owner(two), 40)];
    for node in [one, two] {
        let mut held = held(node, "gift");
        held.sort_unstable();
        expected.sort_unstable();
        assert_eq!(held, expected);
    }
    assert_eq!(spend(two, "gift", 40).1["value"], "60");
    shows(one, "gift", 60);
    assert_eq!(held(one, "gift").iter().map(|it| it.1).sum::<i128>(), 60);
}

#[test]
fn who_is_short_asks_the_others() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    mint(one, "gift", 100);
    shows(two, "gift", 100);
    let (status, problem) = spend(two, "gift", 10);
    assert_eq!((status, &problem["code"]), (409, &json!("rights_short")));
    let here = json!({ "here": "0", "pending": "0", "elsewhere": "100" });
    assert_eq!((&problem["held"], &problem["asked"]), (&here, &json!("10")));
    assert!(
        problem["detail"]
            .to_string()
            .contains("10 more are asked for"),
        "{problem}"
    );
    eventually("it may be spent when it is tried again", || {
        (spend(two, "gift", 10).0 == 200).then_some(())
    });
    shows(one, "gift", 90);
    // What nobody has is asked of nobody.
    let (status, problem) = spend(two, "gift", 91);
    assert_eq!(
        (status, &problem["asked"]),
        (409, &json!(null)),
        "{problem}"
    );
}

#[test]
fn the_command_line_has_all_of_it() {
    let node = alone();
    let said = |words: &str| -> (Option<i32>, String, String) {
        let words: Vec<&str> = std::iter::once("budget").chain(words.split(' ')).collect();
        let output = node.run(&words, "");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    for (words, printed) in [
        ("mint gift 100", "100"),
        ("spend gift 30 --once k", "70"),
        ("spend gift 30 --once k", "70"),
        ("give-back gift 5", "75"),
        ("floor gift --lower 10", "-10"),
        ("floor gift --raise 4", "-6"),
        ("cap seats --raise 10", "10"),
        ("mint seats 2", "2"),
        (
            "transfer gift back 3 seats 1",
            "gift\t71\nback\t3\nseats\t3",
        ),
        ("list", "back\t3\ngift\t71\nseats\t3"),
        ("list g", "gift\t71"),
    ] {
        assert_eq!(
            said(words),
            (Some(0), printed.to_owned(), String::new()),
            "{words}"
        );
    }
    let (code, shown, _) = said("show gift");
    assert_eq!(code, Some(0));
    for part in [
        "gift\tvalue 71\tfloor -6",
        "rights: 77 here, 0 pending, 0 elsewhere",
        "this node",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let (code, shown, said_wrong) = said("audit");
    assert_eq!(code, Some(0), "{said_wrong}");
    assert!(
        shown.ends_with("3 budgets: the values add up to 77, the rights to 83, 0 do not add up"),
        "{shown}"
    );
    let (code, lines, _) = said("audit g --json");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((code, &lines[0]["wrong"]), (Some(0), &json!(null)));
    let sums = json!({
        "budgets": 1, "value": "71", "rights": "77", "wrong": 0, "copied": false, "copies": []
    });
    assert_eq!(lines[1], sums);
    for (words, code, part) in [
        (
            "spend gift 78",
            1,
            "budget `gift`: 78 are asked for, and 77 are held here",
        ),
        ("spend none 1", 4, "mint it first"),
        ("show none", 4, "mint it first"),
        ("mint seats 8", 1, "room for 8"),
        ("grant gift 5 me", 1, "`tallymesh members` shows both"),
        ("transfer gift back", 2, "TO AMOUNT"),
        ("transfer gift back x", 2, "`x` is no whole number"),
    ] {
        let (got, _, err) = said(words);
        assert_eq!(got, Some(code), "{words}: {err}");
        assert!(err.contains(part), "{words}: {err}");
    }
    let made = node.run(
        &["txn", "spend gift 1", "add sold 1", "transfer gift back 1"],
        "",
    );
    let printed = String::from_utf8_lossy(&made.stdout).into_owned();
    assert_eq!(printed, "gift\t69\nsold\t1\ngift\t69\n");
}

#[test]
fn budgets_of_connected_nodes_are_compared() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    mint(one, "gift", 100);
    shows(two, "gift", 100);
    let audit = |command: &[&str]| {
        let output = one.run(command, "");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = lines.lines().last().map(str::to_owned).unwrap_or_default();
        assert!(output.status.success(), "{lines}");
        serde_json::from_str::<Value>(&last).expect("JSON")
    };
    for command in [&["budget", "audit", "--json"][..], &["audit", "--json"]] {
        let line = audit(command);
        assert_eq!(line["compared"], true, "{line}");
        assert_eq!(
            (&line["counters"], &line["differences"]),
            (&json!(2), &json!(0))
        );
    }
    let data = one.data();
    let data = data.to_str().expect("a path in UTF-8");
    let line = audit(&["audit", "--data", data, "--json"]);
    assert_eq!(
        (&line["counters"], &line["differences"]),
        (&json!(2), &json!(0))
    );
}

/// The next thing of this budget or counter that a reader is told, and as what.
fn told_of(stream: &mut Stream, key: &str) -> (Option<String>, Value) {
    loop {
        let told = stream.next();
        match told.data {
            Some(data) if data["key"] == key => return (told.name, data["value"].clone()),
            // Nobody is told of what budgets are kept as.
            Some(data) => assert!(!data["key"].to_string().contains("u0000"), "{data}"),
            None => {}
        }
    }
}

#[test]
fn readers_of_events_are_told_of_budgets() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    let named = |value: &str| (Some("budget".to_owned()), json!(value));
    let (mut here, mut there) = (
        Stream::open(one, "", None),
        Stream::open(two, "?key=gift", None),
    );
    let others = Stream::open(one, "?prefix=other", None);
    mint(one, "gift", 10);
    assert_eq!(told_of(&mut here, "gift"), named("10"));
    assert_eq!(told_of(&mut there, "gift"), named("10"));
    let id = here.id.clone().expect("an id");
    drop(here);
    assert_eq!(spend(one, "gift", 4).0, 200);
    assert_eq!(told_of(&mut there, "gift"), named("6"));
    one.add("likes", 1);
    let mut back = Stream::open(one, "", Some(&id));
    assert_eq!(told_of(&mut back, "gift"), named("6"));
    // Who is told all anew is told of counters, and of budgets.
    let mut anew = Stream::open(one, "", Some("no id"));
    assert_eq!(anew.next().name.as_deref(), Some("skipped"));
    assert_eq!(told_of(&mut anew, "likes"), (None, json!("1")));
    assert_eq!(told_of(&mut anew, "gift"), named("6"));
    let mut others = others;
    mint(one, "other", 1);
    assert_eq!(told_of(&mut others, "other"), named("1"));
}

#[test]
fn a_spend_of_a_redis_client_may_wait_for_rights() {
    let resp = ["--resp", "127.0.0.1:0"];
    let one = Node::start(&resp);
    let two = Node::start(&[&resp[..], &["--peer", &one.listen[0]]].concat());
    close(&[&one, &two]);
    mint(&one, "gift", 100);
    shows(&two, "gift", 100);
    let mut redis = Redis::connect(&two);
    let waits = |redis: &mut Redis, millis| {
        let answer = redis.text(&["CLIENT", "RIGHTS-WAIT", millis]);
        assert_eq!(answer.as_deref(), Some("OK"));
    };
    waits(&mut redis, "20000");
    assert_eq!(redis.integer(&["BUDGET.SPEND", "gift", "90"]), 10);
    assert_eq!(
        redis.integer(&["ONCE", "k", "BUDGET.SPEND", "gift", "5"]),
        5
    );
    assert_eq!(
        redis.integer(&["ONCE", "k", "BUDGET.SPEND", "gift", "5"]),
        5
    );
    // More than there is anywhere is refused when the time is over, and not before.
    waits(&mut redis, "300");
    let begun = Instant::now();
    let refused = redis
        .text(&["BUDGET.SPEND", "gift", "6"])
        .expect("an error");
    assert!(
        refused.starts_with("RIGHTSSHORT 6 are asked for"),
        "{refused}"
    );
    assert!(begun.elapsed() >= WAITED);
    // What comes in while it waits is enough, and what waits beside it is served as well.
    waits(&mut redis, "20000");
    thread::scope(|scope| {
        let mut other = Redis::connect(&one);
        waits(&mut other, "20000");
        let spends = [redis, other]
            .map(|mut redis| scope.spawn(move || redis.integer(&["BUDGET.SPEND", "gift", "10"])));
        mint(&one, "gift", 15);
        for spend in spends {
            spend.join().expect("it is made");
        }
    });
    shows(&one, "gift", 0);
}

#[test]
fn a_spend_may_wait_for_rights() {
    let nodes = nodes(2);
    let [one, two] = &nodes[..] else {
        unreachable!()
    };
    close(&[one, two]);
    mint(one, "gift", 100);
    shows(two, "gift", 100);
    let path = format!("{SPACE}/budgets/gift/spend");
    let wait = |millis| [("tallymesh-rights-wait-ms", millis)];
    let (status, answer, _) = post(two, &path, &wait("20000"), r#"{"amount":"10"}"#);
    assert_eq!((status, &answer["value"]), (200, &json!("90")), "{answer}");
    // Two spends of one transaction wait for both.
    let ops = json!([
        { "op": "spend", "key": "gift", "amount": 40 },
        { "op": "spend", "key": "gift", "amount": 40 },
    ]);
    let body = json!({ "ops": ops }).to_string();
    let transactions = format!("{SPACE}/transactions");
    let (status, answer, _) = post(two, &transactions, &wait("20000"), &body);
    assert_eq!(status, 200, "{answer}");
    shows(one, "gift", 10);
    // More than there is anywhere is refused when the time is over, and not before.
    let begun = Instant::now();
    let (status, problem, _) = post(two, &path, &wait("300"), r#"{"amount":"11"}"#);
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("rights_short")),
        "{problem}"
    );
    assert!(begun.elapsed() >= WAITED);
    let (status, problem, _) = post(two, &path, &wait("soon"), r#"{"amount":"1"}"#);
    assert_eq!((status, &problem["code"]), (400, &json!("millis")));
    let spend = |amount| {
        let words = ["budget", "spend", "gift", amount, "--rights-wait", "100ms"];
        two.run(&words, "").status.code()
    };
    assert_eq!(spend("11"), Some(1));
    // What comes in while it waits is enough, too.
    let (status, answer) = thread::scope(|scope| {
        let spends = scope.spawn(|| post(one, &path, &wait("20000"), r#"{"amount":"15"}"#));
        mint(two, "gift", 20);
        let (status, answer, _) = spends.join().expect("an answer");
        (status, answer)
    });
    assert_eq!((status, &answer["value"]), (200, &json!("15")), "{answer}");
}
