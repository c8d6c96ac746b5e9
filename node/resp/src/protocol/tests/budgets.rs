//! `BUDGET.…`: the answers and the refusals of each command, in both versions of the protocol.

use super::*;
use crate::protocol::command::{KeysAt, Kind, Spec, TABLE};
use tallymesh_core::{Flow as BudgetFlow, KeyId};

/// A client at a node that is the only member of its first space.
fn client() -> Client {
    let mut client = Client::new(RespConfig::default());
    client.node.replicas[0]
        .members_mut()
        .found(&[7; 32], &[0; 16], NOW)
        .expect("a member");
    client
}

pub(super) fn play_as_member(rows: &[Row]) {
    for resp3 in [false, true] {
        let mut client = client();
        client.session.resp3 = resp3;
        for (sent, two, three) in rows {
            let wanted = if resp3 && !three.is_empty() {
                three
            } else {
                two
            };
            assert_eq!(&client.send(sent), wanted, "to {sent}, RESP3: {resp3}");
        }
    }
}

#[test]
fn budgets_are_minted_spent_and_read() {
    play_as_member(&[
        ("BUDGET.GET gift", "$-1|", "_|"),
        (
            "BUDGET.SPEND gift 1",
            "-NOBUDGET no budget of this name is known here; mint it first|",
            "",
        ),
        ("BUDGET.MINT gift 100", ":100|", ""),
        ("budget.spend gift 30", ":70|", ""),
        (
            "BUDGET.SPEND gift 71",
            "-RIGHTSSHORT 71 are asked for, and 70 are held here, 0 elsewhere as far as is known here|",
            "",
        ),
        ("BUDGET.FLOOR gift LOWER 10", ":-10|", ""),
        ("BUDGET.SPEND gift 75", ":-5|", ""),
        ("BUDGET.FLOOR gift raise 5", ":-5|", ""),
        (
            "BUDGET.GET gift",
            "*12|$5|value|$2|-5|$5|floor|$2|-5|$6|rights|$1|0|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|",
            "%6|$5|value|$2|-5|$5|floor|$2|-5|$6|rights|$1|0|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|",
        ),
        ("BUDGET.MINT gift 0", ":-5|", ""),
        (
            "BUDGET.MINT gift -1",
            "-ERR an amount of a budget is 0 to 9223372036854775807|",
            "",
        ),
        (
            "BUDGET.MINT gift x",
            "-ERR value is not an integer or out of range|",
            "",
        ),
        ("BUDGET.FLOOR gift by 5", "-ERR syntax error|", ""),
        ("DBSIZE", ":0|", ""),
    ]);
}

#[test]
fn a_cap_keeps_room() {
    play_as_member(&[
        ("BUDGET.CAP seats RAISE 10", ":10|", ""),
        (
            "BUDGET.MINT seats 11",
            "-ROOMSHORT room for 11 is asked for under the cap, and 10 are held here, 0 elsewhere as far as is known here|",
            "",
        ),
        ("BUDGET.MINT seats 4", ":4|", ""),
        ("BUDGET.CAP seats LOWER 1", ":9|", ""),
        (
            "BUDGET.GET seats",
            "*20|$5|value|$1|4|$5|floor|$1|0|$3|cap|$1|9|$6|rights|$1|4|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|$4|room|$1|5|$12|room-pending|$1|0|$14|room-elsewhere|$1|0|",
            "%10|$5|value|$1|4|$5|floor|$1|0|$3|cap|$1|9|$6|rights|$1|4|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|$4|room|$1|5|$12|room-pending|$1|0|$14|room-elsewhere|$1|0|",
        ),
        ("BUDGET.MINT plain 4", ":4|", ""),
        (
            "BUDGET.CAP plain RAISE 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
            "",
        ),
    ]);
}

#[test]
fn a_transfer_is_one_and_the_kinds_are_kept_apart() {
    play_as_member(&[
        ("BUDGET.MINT a 10", ":10|", ""),
        ("BUDGET.TRANSFER a b 3 c 4", ":3|", ""),
        (
            "BUDGET.TRANSFER a b 2 c 2",
            "-RIGHTSSHORT 4 are asked for, and 3 are held here, 0 elsewhere as far as is known here|",
            "",
        ),
        (
            "BUDGET.TRANSFER a b 2 c",
            "-ERR wrong number of arguments for 'budget.transfer' command|",
            "",
        ),
        ("BUDGET.LIST", "*3|$1|a|$1|b|$1|c|", ""),
        ("BUDGET.LIST '' a", "*2|$1|b|$1|c|", ""),
        ("BUDGET.LIST b", "*1|$1|b|", ""),
        ("KEYS *", "*0|", ""),
        ("GET a", "$-1|", "_|"),
        (
            "INCR a",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
            "",
        ),
        ("INCR n", ":1|", ""),
        (
            "BUDGET.MINT n 1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value|",
            "",
        ),
        ("MULTI", "+OK|", ""),
        ("BUDGET.SPEND a 1", "+QUEUED|", ""),
        ("BUDGET.SPEND a 3", "+QUEUED|", ""),
        ("INCR sold", "+QUEUED|", ""),
        ("BUDGET.GET a", "+QUEUED|", ""),
        (
            "EXEC",
            "*4|:2|-RIGHTSSHORT 3 are asked for, and 2 are held here, 0 elsewhere as far as is known here|:1|*12|$5|value|$1|2|$5|floor|$1|0|$6|rights|$1|2|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|",
            "*4|:2|-RIGHTSSHORT 3 are asked for, and 2 are held here, 0 elsewhere as far as is known here|:1|%6|$5|value|$1|2|$5|floor|$1|0|$6|rights|$1|2|$14|rights-pending|$1|0|$16|rights-elsewhere|$1|0|$6|leased|$1|0|",
        ),
    ]);
}

#[test]
fn a_spend_under_a_key_counts_once() {
    play_as_member(&[
        ("BUDGET.MINT gift 10", ":10|", ""),
        ("ONCE k BUDGET.SPEND gift 4", ":6|", ""),
        ("BUDGET.SPEND gift 1", ":5|", ""),
        ("ONCE k BUDGET.SPEND gift 4", ":5|", ""),
        (
            "ONCE k BUDGET.SPEND gift 5",
            "-KEYREUSED something else was made under this idempotency key; give each operation a key of its own, and retry it with the same|",
            "",
        ),
    ]);
}

#[test]
fn rights_are_leased() {
    let mut client = client();
    let id = "0a".repeat(16);
    let until = NOW + 60_000 + 600 + 2_000;
    let writer = client.node.replicas[0].writer().to_string();
    let leases = format!("*1|*4|$32|{id}|$32|{writer}|$1|4|$7|{until}|");
    client.node.replicas[0].set_time(NOW);
    for (sent, told) in [
        ("BUDGET.MINT gift 10", ":10|"),
        ("BUDGET.LEASE gift ID 6 60000", &format!(":{until}|")),
        ("BUDGET.LEASE gift ID 6 60000", &format!(":{until}|")),
        (
            "BUDGET.SPEND gift 5",
            "-RIGHTSSHORT 5 are asked for, and 4 are held here, 6 elsewhere as far as is known here|",
        ),
        ("BUDGET.SPEND gift 2 LEASE ID", ":8|"),
        ("ONCE k BUDGET.SPEND gift 0 lease ID", ":8|"),
        ("BUDGET.LEASES gift", &leases),
        ("BUDGET.ENDLEASE gift ID", ":8|"),
        ("BUDGET.LEASES gift", "*0|"),
        (
            "BUDGET.ENDLEASE gift ID",
            "-NOLEASE nothing is left of this lease here; ask the member that gave it, or let it end by itself|",
        ),
        (
            "BUDGET.LEASE gift ID 6 999",
            "-ERR a lease is 1000 to 2592000000 milliseconds long, not 999|",
        ),
        (
            "BUDGET.LEASE gift me 6 1000",
            "-ERR a lease's id has 32 hex digits in lower case, and these 2 bytes are none|",
        ),
        ("BUDGET.SPEND gift 2 of ID", "-ERR syntax error|"),
        (
            "ONCE k2 BUDGET.LEASE gift ID 1 1000",
            "-ERR a lease has an id of its own, by which it is given once; ask without an idempotency key|",
        ),
        ("BUDGET.SPEND gift 8", ":0|"),
    ] {
        assert_eq!(client.send(&sent.replace("ID", &id)), told, "{sent}");
    }
}

#[test]
fn rights_are_granted_to_members_alone() {
    let mut client = client();
    client.send("BUDGET.MINT gift 10");
    let writer = client.node.replicas[0].writer().to_string();
    let holders = format!("*1|*4|$32|{writer}|$2|10|$1|0|$1|0|");
    assert_eq!(client.send("BUDGET.HOLDERS gift"), holders);
    assert_eq!(client.send("BUDGET.HOLDERS none"), "*0|");
    let nobody = "0".repeat(64);
    for to in [writer.as_str(), &nobody] {
        let refused = client.send(&format!("BUDGET.GRANT gift {to} 5"));
        let expected = format!("-ERR {to} is no other member");
        assert!(refused.starts_with(&expected), "{refused}");
    }
    assert_eq!(
        client.send("BUDGET.GRANT gift me 5"),
        "-ERR 'me' is no member's key, which has 64 hex digits, nor a writer, which has 32|"
    );
    assert_eq!(
        client.send(&format!("BUDGET.GRANT gift {nobody} 5 seats")),
        "-ERR syntax error|"
    );
    let long = "x".repeat(478);
    assert_eq!(
        client.send(&format!("BUDGET.MINT {long} 1")),
        "-ERR a budget's name has at most 477 bytes, not 478|"
    );
    client.send("SELECT 1");
    let answer = client.send("BUDGET.MINT gift 1");
    assert!(
        answer.starts_with("-ERR ") && answer.contains("member"),
        "{answer}"
    );
}

#[test]
fn subscribers_are_told_of_budgets_and_not_of_expiries() {
    let mut client = client();
    client.send("BUDGET.MINT gift 10");
    let told = client.node.told();
    assert!(
        !told.is_empty() && told.iter().all(|it| it.ends_with(" budget")),
        "{told:?}"
    );
    // A budget that another member created is a budget here too.
    client.node.replicas[0]
        .quota_mut()
        .flow("gift", BudgetFlow::Spend(1))
        .expect("rights");
    assert!(client.send("BUDGET.GET gift").contains("|value|$1|9|"));
}

/// The arguments of a command, with a key in place of `KEY`. All other commands take keys and at
/// most one number.
fn with_key(spec: &Spec) -> Option<String> {
    if spec.name.contains('.') || spec.keys == KeysAt::None {
        return None;
    }
    let tail = match spec.name {
        "object" => return Some("object encoding KEY".to_owned()),
        "setex" | "psetex" => " 1 1",
        "increx" => " BYINT 1",
        "set" | "setnx" | "getset" | "mset" | "incrby" | "decrby" | "expire" | "pexpire" => " 1",
        "expireat" | "pexpireat" => " 1",
        _ => "",
    };
    Some(format!("{} KEY{tail}", spec.name))
}

#[test]
fn the_parts_of_budgets_are_no_counters_to_any_command() {
    let mut client = client();
    client.send("BUDGET.MINT gift 100");
    client.send("BUDGET.SPEND gift 1");
    client.send("SEQUENCE.BEGIN line");
    client.send("SEQUENCE.NEXT line");
    client.send("INCR plain");
    let replica = &client.node.replicas[0];
    let end = replica.key_ids_end();
    let parts: Vec<String> = (0..end)
        .filter_map(|at| replica.key(KeyId::from_u32(at)))
        .filter(|key| key.starts_with('\0'))
        .map(str::to_owned)
        .collect();
    assert!(parts.len() > 2, "{parts:?}");
    let gift = client.send("BUDGET.GET gift");
    let line = client.send("SEQUENCE.GET line");
    let mut tried = 0;
    for spec in TABLE {
        let Some(sent) = with_key(spec) else { continue };
        for part in &parts {
            let told = client.send(&sent.replace("KEY", part));
            match spec.kind {
                Kind::Read => {
                    let absent = client.send(&sent.replace("KEY", "absent"));
                    assert_eq!(told, absent, "{sent} {part:?}");
                }
                _ => assert_eq!(
                    told, "-ERR a key must not begin with U+0000|",
                    "{sent} {part:?}"
                ),
            }
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
    assert!(!client.send("SCAN 0 COUNT 1000").contains('\0'));
    assert_eq!(client.send("KEYS *"), "*1|$5|plain|");
    for _ in 0..50 {
        assert_eq!(client.send("RANDOMKEY"), "$5|plain|");
    }
    client.send("MULTI");
    assert_eq!(client.send(&format!("GET {}", parts[0])), "+QUEUED|");
    assert_eq!(client.send("EXEC"), "*1|$-1|");
    assert!(
        client
            .send(&format!("ONCE k INCR {}", parts[0]))
            .starts_with("-ERR a key must not begin with U+0000"),
    );
    client.send("DEL plain");
    assert_eq!(client.send("RANDOMKEY"), "$-1|");
    assert_eq!(client.send("BUDGET.GET gift"), gift);
    assert_eq!(client.send("SEQUENCE.GET line"), line);
}
