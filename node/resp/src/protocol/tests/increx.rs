//! `INCREX`: its answers for counters, for budgets and under limits, and its requests to a centre.

use super::*;
use tallymesh_core::{Flow as BudgetFlow, Limit, RightKind};

/// The period of the limit, which began before [`NOW`].
const PERIOD_MS: u64 = 60_000;
const CENTRE: &str = "-NEEDSCENTRE 'increx' as this one takes a centre, and there is none. ";

/// A client at a node that is the only member of its first space, which allows 10 of `api` in each minute.
fn client() -> Client {
    let mut client = Client::new(RespConfig::default());
    let replica = &mut client.node.replicas[0];
    replica
        .members_mut()
        .found(&[7; 32], &[0; 16], NOW)
        .expect("a member");
    let limit = Limit {
        name: "api".into(),
        limit: 10,
        period_ms: PERIOD_MS,
        since: 0,
    };
    replica
        .quota_mut()
        .propose_limits(&[limit])
        .expect("it is decided");
    client
}

fn play_as_member(rows: &[(&str, &str)]) {
    for resp3 in [false, true] {
        let mut client = client();
        client.session.resp3 = resp3;
        for (sent, wanted) in rows {
            let wanted = wanted.replace("CENTRE ", CENTRE);
            assert_eq!(client.send(sent), wanted, "to {sent}, RESP3: {resp3}");
        }
    }
}

/// The cases of the documentation of Redis 8.8, without floats and without bounds of plain
/// counters.
#[test]
fn a_counter_is_added_to_and_expires() {
    play_as_member(&[
        ("INCREX n", "*2|:1|:1|"),
        ("increx n byint 5", "*2|:6|:5|"),
        ("INCREX n BYINT -10", "*2|:-4|:-10|"),
        ("INCREX n BYINT 0", "*2|:-4|:0|"),
        ("TTL n", ":-1|"),
        ("INCREX n EX 100 BYINT 2", "*2|:-2|:2|"),
        ("TTL n", ":100|"),
        ("INCREX n", "*2|:-1|:1|"),
        ("TTL n", ":100|"),
        ("INCREX n EX 500 ENX", "*2|:0|:1|"),
        ("TTL n", ":100|"),
        ("INCREX n EXAT 1 ENX", "*2|:1|:1|"),
        ("TTL n", ":100|"),
        ("INCREX n PERSIST", "*2|:2|:1|"),
        ("TTL n", ":-1|"),
        ("INCREX n PX 1500 ENX", "*2|:3|:1|"),
        ("PTTL n", ":1500|"),
        ("INCREX n EXAT 1", "*2|:4|:1|"),
        ("EXISTS n", ":0|"),
        ("SET big 9223372036854775800", "+OK|"),
        (
            "INCREX big BYINT 9223372036854775800 EX 9",
            "*2|:9223372036854775800|:0|",
        ),
        ("TTL big", ":-1|"),
        (
            "INCREX big BYINT 9223372036854775800 SATURATE EX 9",
            "*2|:9223372036854775807|:7|",
        ),
        ("TTL big", ":9|"),
    ]);
}

#[test]
fn what_is_no_increx_is_refused_as_by_redis() {
    let syntax = "-ERR syntax error|";
    let mut rows: Vec<(&str, &str)> = [
        "INCREX n FOO",
        "INCREX n BYINT",
        "INCREX n BYINT 1 BYINT 2",
        "INCREX n BYINT 1 BYFLOAT 1",
        "INCREX n LBOUND 0 LBOUND 1",
        "INCREX n UBOUND 9 UBOUND 8",
        "INCREX n SATURATE SATURATE",
        "INCREX n ENX ENX EX 10",
        "INCREX n PERSIST PERSIST",
        "INCREX n EX 10 PX 5000",
        "INCREX n EX 10 EX 20",
        "INCREX n EX 10 PERSIST",
        "INCREX n PERSIST EX 10",
        "INCREX n PERSIST ENX",
        "INCREX n ENX PERSIST",
    ]
    .map(|sent| (sent, syntax))
    .to_vec();
    rows.extend([
        (
            "INCREX",
            "-ERR wrong number of arguments for 'increx' command|",
        ),
        ("INCREX n ENX", "-ERR ENX flag requires an expiration|"),
        (
            "INCREX n BYINT 1.5",
            "-ERR Increment is not an integer or out of range|",
        ),
        (
            "INCREX n UBOUND x",
            "-ERR UBOUND is not an integer or out of range|",
        ),
        (
            "INCREX n LBOUND x",
            "-ERR LBOUND is not an integer or out of range|",
        ),
        (
            "INCREX n LBOUND 10 UBOUND 5",
            "-ERR LBOUND can't be greater than UBOUND|",
        ),
        (
            "INCREX n EX 0",
            "-ERR invalid expire time in 'increx' command|",
        ),
        (
            "INCREX n EX x",
            "-ERR value is not an integer or out of range|",
        ),
        (
            "INCREX n BYFLOAT 1.5",
            "-ERR 'BYFLOAT' is not supported: a counter holds an integer, which replicas add up; there is no text, bit or fraction of it to change. Use INCRBY, DECRBY or SET|",
        ),
        ("EXISTS n", ":0|"),
    ]);
    play_as_member(&rows);
}

#[test]
fn a_covered_key_that_is_too_long_for_a_period_is_refused() {
    let mut client = client();
    let long = format!("api:{}", "x".repeat(442));
    let refused = "-ERR a key that a limit covers in bytes: 446 is over the limit of 445|";
    assert_eq!(client.send(&format!("INCREX {long}")), refused);
    assert_eq!(client.send(&format!("ONCE k INCREX {long}")), refused);
    assert_eq!(client.send("MULTI"), "+OK|");
    assert_eq!(client.send(&format!("INCREX {long}")), "+QUEUED|");
    assert_eq!(client.send("EXEC"), format!("*1|{refused}"));
    assert_eq!(client.send(&format!("EXISTS {long}")), ":0|");
    // The longest key of a counter, which no limit covers.
    let free = "y".repeat(512);
    assert_eq!(client.send(&format!("INCREX {free}")), "*2|:1|:1|");
}

#[test]
fn a_retry_is_told_that_it_counted_where_a_limit_covers_the_key_by_now() {
    let mut client = client();
    let long = format!("new:{}", "x".repeat(442));
    let sent = format!("ONCE k INCREX {long}");
    assert_eq!(client.send(&sent), "*2|:1|:1|");
    let limit = |name: &str| Limit {
        name: name.into(),
        limit: 10,
        period_ms: PERIOD_MS,
        since: 0,
    };
    let mut quota = client.node.replicas[0].quota_mut();
    let proposed = quota.propose_limits(&[limit("api"), limit("new")]);
    proposed.expect("it is decided");
    assert_eq!(
        client.send(&sent),
        "-REPLAYED 'increx' was made before under this idempotency key, and counts once; what it answered then is not kept, so GET the counter|"
    );
    assert_eq!(client.send(&format!("GET {long}")), "$1|1|");
}

/// The members may have limits, of which such a node knows nothing.
#[test]
fn a_node_that_never_met_the_members_counts_nothing_by_it() {
    let mut client = client();
    client.send("SELECT 1");
    let told = "-ERR Only a member of the space may do this, and this node is none: ask the node of a member, such as the one that gave you the ticket|";
    assert_eq!(client.send("INCREX api:ann"), told);
    assert_eq!(client.send("INCREX n EX 60"), told);
    assert_eq!(client.send("ONCE k INCREX n"), told);
    assert_eq!(client.send("EXISTS n api:ann"), ":0|");
    client.send("CLIENT RIGHTS-WAIT 700");
    client.node.starts = true;
    let (out, flow) = client.feed(&request("INCREX n"));
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
}

#[test]
fn bounds_of_a_counter_take_a_centre() {
    let answer = "CENTRE A counter has no bounds that all nodes keep. For so much in each period set a limit of this name with 'tallymesh limit set'; for so much in all make it a budget, with BUDGET.MINT or BUDGET.CAP|";
    play_as_member(&[
        ("INCREX n UBOUND 100 EX 60 ENX", answer),
        ("INCREX n BYINT -1 LBOUND 0", answer),
        ("EXISTS n", ":0|"),
    ]);
}

#[test]
fn a_limit_is_used() {
    play_as_member(&[
        ("INCREX api:ann BYINT 1 UBOUND 10 EX 60 ENX", "*2|:1|:1|"),
        ("INCREX api:ann", "*2|:2|:1|"),
        (
            "INCREX api:bob BYINT 4 LBOUND 0 PXAT 1020000 ENX",
            "*2|:4|:4|",
        ),
        ("INCREX api:ann BYINT 9 UBOUND 10", "*2|:2|:0|"),
        ("INCREX api:ann BYINT 9 SATURATE", "*2|:10|:8|"),
        ("INCREX api:ann SATURATE", "*2|:10|:0|"),
        ("INCREX api:ann", "*2|:10|:0|"),
        ("INCREX api:ann BYINT 0", "*2|:10|:0|"),
        ("DBSIZE", ":0|"),
        (
            "INCREX api:cy UBOUND 11",
            "CENTRE The limit 'api' covers this key with 10: leave UBOUND out, or set another limit with 'tallymesh limit set'|",
        ),
        (
            "INCREX api:cy BYINT -1",
            "CENTRE The limit 'api' covers this key, and of a period nothing is given back|",
        ),
        (
            "INCREX api:cy LBOUND 1",
            "CENTRE The limit 'api' covers this key, and what is used of it begins at 0: leave LBOUND out|",
        ),
        (
            "INCREX api:cy EX 60",
            "CENTRE The limit 'api' covers this key with periods that nothing makes longer: give ENX along, or leave the expiry out|",
        ),
        (
            "INCREX api:cy EX 61 ENX",
            "CENTRE The limit 'api' covers this key with periods of 60000 ms: give PX 60000 ENX, or leave the expiry out|",
        ),
        ("INCREX api:cy", "*2|:1|:1|"),
    ]);
}

#[test]
fn a_budget_is_spent_and_minted() {
    play_as_member(&[
        ("BUDGET.MINT gift 10", ":10|"),
        ("INCREX gift BYINT -3 LBOUND 0", "*2|:7|:-3|"),
        ("INCREX gift BYINT -8 LBOUND 0", "*2|:7|:0|"),
        ("INCREX gift BYINT -8 SATURATE", "*2|:0|:-7|"),
        ("INCREX gift BYINT 2", "*2|:2|:2|"),
        (
            "INCREX gift BYINT -1 LBOUND 1",
            "CENTRE The budget's floor is 0: leave LBOUND out, or move it with BUDGET.FLOOR|",
        ),
        (
            "INCREX gift UBOUND 9",
            "CENTRE The budget has no cap: leave UBOUND out|",
        ),
        (
            "INCREX gift EX 9",
            "CENTRE A budget goes by this name, and has no expiry: leave that out|",
        ),
        ("BUDGET.CAP seats RAISE 5", ":5|"),
        ("INCREX seats BYINT 4 UBOUND 5", "*2|:4|:4|"),
        ("INCREX seats BYINT 4 UBOUND 5", "*2|:4|:0|"),
        ("INCREX seats BYINT 4 UBOUND 5 SATURATE", "*2|:5|:1|"),
        (
            "INCREX seats UBOUND 6",
            "CENTRE The budget's cap is 5: leave UBOUND out, or move it with BUDGET.CAP|",
        ),
    ]);
}

#[test]
fn what_leaves_a_bound_is_no_error_in_a_transaction_and_none_counts_under_a_key() {
    play_as_member(&[
        ("MULTI", "+OK|"),
        ("INCREX api:ann BYINT 9", "+QUEUED|"),
        ("INCREX api:ann BYINT 9", "+QUEUED|"),
        ("INCREX n", "+QUEUED|"),
        ("EXEC", "*3|*2|:9|:9|*2|:9|:0|*2|:1|:1|"),
        ("MULTI", "+OK|"),
        ("INCREX n", "+QUEUED|"),
        ("INCREX api:ann BYINT 9", "+QUEUED|"),
        (
            "ONCE order:1 EXEC",
            "-EXECABORT Transaction discarded because of: 9 are asked for in this period, and 1 are held here, 0 elsewhere as far as is known here|",
        ),
        ("GET n", "$1|1|"),
        ("ONCE order:2 INCREX api:ann BYINT 2", "*2|:9|:0|"),
        ("ONCE order:3 INCREX api:ann BYINT 1", "*2|:10|:1|"),
        ("ONCE order:3 INCREX api:ann BYINT 1", "*2|:10|:1|"),
        ("ONCE order:2 INCREX api:bob", "*2|:1|:1|"),
        ("ONCE order:4 INCREX n SATURATE", "*2|:2|:1|"),
        (
            "ONCE order:4 INCREX n SATURATE",
            "-REPLAYED 'increx' was made before under this idempotency key, and counts once; what it answered then is not kept, so GET the counter|",
        ),
    ]);
}

#[test]
fn it_waits_for_what_others_hold() {
    let mut client = client();
    assert_eq!(client.send("CLIENT RIGHTS-WAIT 700"), "+OK|");
    let (out, flow) = client.feed(&request("INCREX api:ann BYINT 11"));
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
    let window = client.node.replicas[0]
        .quota()
        .period("api:ann")
        .expect("covered");
    let lack = client.session.lack().expect("it says what");
    assert_eq!(
        (&lack.name, lack.kind, lack.amount),
        (&window.name, Some(RightKind::Period), 11)
    );
    client.session.answer_rights(0);
    assert_eq!(show(&client.feed(b"").0), "*2|:0|:0|", "nobody has as much");
    client.node.replicas[0]
        .quota_mut()
        .flow("gift", BudgetFlow::Mint(1))
        .expect("minted");
    let (_, flow) = client.feed(&request("INCREX gift BYINT -2"));
    assert_eq!(flow, Flow::Waits);
    assert_eq!(client.session.lack().map(|it| it.amount), Some(2));
}

#[test]
fn a_writer_mints_nothing_and_sets_no_expiry() {
    let config = RespConfig {
        tickets: true,
        ..RespConfig::default()
    };
    let mut client = client();
    client.session = Session::new(7, Arc::new(config));
    client.node.replicas[0]
        .quota_mut()
        .flow("gift", BudgetFlow::Mint(5))
        .expect("minted");
    assert_eq!(client.send("AUTH writer"), "+OK|");
    let refused = |what| {
        format!(
            "-NOPERM forbidden: {what} takes the role editor, and the ticket gives writer; ask a member for another|"
        )
    };
    let rows = [
        ("INCREX gift BYINT -1", "*2|:4|:-1|".to_owned()),
        ("INCREX gift", refused("'increx' that mints")),
        ("INCREX api UBOUND 10 EX 60 ENX", "*2|:1|:1|".to_owned()),
        ("INCREX n", "*2|:1|:1|".to_owned()),
        ("INCREX n EX 60", refused("'increx' with an expiry")),
        ("INCREX n PERSIST", refused("'increx' with an expiry")),
    ];
    for (sent, wanted) in rows {
        assert_eq!(client.send(sent), wanted, "to {sent}");
    }
}
