//! `MULTI`, `EXEC` and `WATCH`.

use super::*;
use crate::protocol::limits::*;

#[test]
fn transactions_answer_as_in_redis() {
    play(
        &RespConfig::default(),
        &[
            ("EXEC", "-ERR EXEC without MULTI|", ""),
            ("DISCARD", "-ERR DISCARD without MULTI|", ""),
            ("MULTI", "+OK|", ""),
            ("EXEC", "*0|", ""),
            ("MULTI", "+OK|", ""),
            ("MULTI", "-ERR MULTI calls can not be nested|", ""),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed|", ""),
            ("SET a 5", "+QUEUED|", ""),
            ("INCR a", "+QUEUED|", ""),
            ("GET a", "+QUEUED|", ""),
            ("PING", "+QUEUED|", ""),
            ("ECHO hi", "+QUEUED|", ""),
            ("UNWATCH", "+QUEUED|", ""),
            ("EXPIRE a 10", "+QUEUED|", ""),
            ("TTL a", "+QUEUED|", ""),
            ("DEL a", "+QUEUED|", ""),
            ("MGET a b", "+QUEUED|", ""),
            (
                "EXEC",
                "*10|+OK|:6|$1|6|+PONG|$2|hi|+OK|:1|:10|:1|*2|$-1|$-1|",
                "*10|+OK|:6|$1|6|+PONG|$2|hi|+OK|:1|:10|:1|*2|_|_|",
            ),
            ("MULTI", "+OK|", ""),
            ("INCR a", "+QUEUED|", ""),
            ("DISCARD", "+OK|", ""),
            ("GET a", "$-1|", "_|"),
            // A command that fails while it is made does not affect the others.
            ("SET a 9223372036854775807", "+OK|", ""),
            ("MULTI", "+OK|", ""),
            ("INCR a", "+QUEUED|", ""),
            ("INCR b", "+QUEUED|", ""),
            ("SET b x", "+QUEUED|", ""),
            ("OBJECT ENCODING b", "+QUEUED|", ""),
            (
                "EXEC",
                "*4|-ERR increment or decrement would overflow|:1|-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|$3|int|",
                "",
            ),
            // A command that is refused while it is queued makes the whole transaction fail.
            ("MULTI", "+OK|", ""),
            ("INCR b", "+QUEUED|", ""),
            (
                "INCR",
                "-ERR wrong number of arguments for 'incr' command|",
                "",
            ),
            ("INCR b", "+QUEUED|", ""),
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of previous errors.|",
                "",
            ),
            ("GET b", "$1|1|", ""),
            ("MULTI", "+OK|", ""),
            (
                "foo",
                "-ERR unknown command 'foo', with args beginning with: |",
                "",
            ),
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of previous errors.|",
                "",
            ),
            ("MULTI", "+OK|", ""),
            (
                "OBJECT FOO b",
                "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.|",
                "",
            ),
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of previous errors.|",
                "",
            ),
            ("MULTI", "+OK|", ""),
            (
                "SELECT 1",
                "-ERR Command not allowed inside a transaction|",
                "",
            ),
            (
                "EXEC",
                "-EXECABORT Transaction discarded because of previous errors.|",
                "",
            ),
            ("MULTI", "+OK|", ""),
            ("INCR b", "+QUEUED|", ""),
            (
                "EXEC now",
                "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command|",
                "",
            ),
            ("EXEC", "-ERR EXEC without MULTI|", ""),
            ("MULTI", "+OK|", ""),
            ("INCR b", "+QUEUED|", ""),
            ("RESET", "+RESET|", ""),
            ("EXEC", "-ERR EXEC without MULTI|", ""),
            ("GET b", "$1|1|", ""),
        ],
    );
}

#[test]
fn whatever_can_not_be_queued_is_refused() {
    for sent in [
        "SELECT 1",
        "SCAN 0",
        "KEYS *",
        "DBSIZE",
        "RANDOMKEY",
        "FLUSHDB",
        "WAIT 0 0",
        "HELLO 3",
        "AUTH a",
        "CLIENT ID",
        "CONFIG GET save",
        "COMMAND COUNT",
        "INFO",
        "SUBSCRIBE a",
        "PSUBSCRIBE a",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
    ] {
        let mut client = Client::new(RespConfig::default());
        client.send("MULTI");
        assert_eq!(
            client.send(sent),
            "-ERR Command not allowed inside a transaction|",
            "{sent}"
        );
        assert!(client.send("EXEC").starts_with("-EXECABORT"), "{sent}");
    }
}

#[test]
fn others_see_all_of_a_transaction_or_none() {
    let mut client = Client::new(RespConfig::default());
    for sent in ["MULTI", "INCRBY a -5", "INCRBY b 5", "SET c 1 EX 5"] {
        client.send(sent);
    }
    assert_eq!(client.node.replicas[0].len(), 0);
    client.send("EXEC");
    assert_eq!(client.node.replicas[0].clock(), 1);
    assert_eq!(
        client.node.told(),
        ["0 a incrby", "0 b incrby", "0 c set", "0 c expire"]
    );
    client.send("MSET a 1 b 2 c 3");
    assert_eq!(client.node.replicas[0].clock(), 2);
    client.send("DEL a b c");
    assert_eq!(client.node.replicas[0].clock(), 3);
    assert_eq!(client.node.replicas[0].len(), 0);
    // Reads make no transaction.
    for sent in [
        "MULTI",
        "GET a",
        "EXEC",
        "MGET a",
        "DEL a",
        "PERSIST a",
        "GETEX a",
    ] {
        client.send(sent);
    }
    assert_eq!(client.node.replicas[0].clock(), 3);
}

#[test]
fn watched_keys_guard_a_transaction() {
    let cases: [(&str, &[&str], bool); 12] = [
        ("nothing", &[], true),
        ("another key", &["INCR z"], true),
        ("an add", &["INCR a"], false),
        ("an add of nothing", &["INCRBY a 0"], false),
        ("there and back", &["INCR a", "DECR a"], false),
        ("a delete", &["DEL a"], false),
        ("a set to the same", &["SET a 5"], false),
        ("an expiry", &["EXPIRE a 10"], false),
        ("coming into being", &["INCR b"], false),
        ("a read", &["GET a", "TTL a"], true),
        ("given up", &["INCR a", "UNWATCH"], true),
        ("given up by DISCARD", &["INCR a", "MULTI", "DISCARD"], true),
    ];
    for (what, between, made) in cases {
        let mut client = Client::new(RespConfig::default());
        client.send("SET a 5");
        client.send("WATCH a b");
        between.iter().for_each(|sent| drop(client.send(sent)));
        client.send("MULTI");
        client.send("SET c 1");
        assert_eq!(
            client.send("EXEC"),
            if made { "*1|+OK|" } else { "*-1|" },
            "{what}"
        );
        // After `EXEC` no key is watched any more.
        client.send("INCR a");
        client.send("MULTI");
        assert_eq!(client.send("EXEC"), "*0|", "{what}");
    }
    let mut client = Client::new(RespConfig::default());
    client.send("HELLO 3");
    client.send("WATCH a");
    client.send("INCR a");
    client.send("MULTI");
    assert_eq!(client.send("EXEC"), "_|");
}

#[test]
fn what_others_did_and_the_time_change_watched_keys() {
    let mut client = Client::new(RespConfig::default());
    client.send("SET a 5 PX 100");
    client.send("WATCH a");
    client.node.set_time(NOW + 100);
    client.send("MULTI");
    assert_eq!(client.send("EXEC"), "*-1|");
    client.send("WATCH b");
    // Watched twice, and changed in between.
    client.send("SELECT 1");
    client.send("WATCH b");
    client.send("SELECT 0");
    let mut other = client.node.other();
    other.add("b", 1).expect("room");
    client.node.replicas[0]
        .merge(&other.snapshot())
        .expect("a good message");
    client.send("WATCH b");
    client.send("MULTI");
    assert_eq!(client.send("EXEC"), "*-1|");
}

#[test]
fn queues_and_watches_are_bounded() {
    let mut client = Client::new(RespConfig::default());
    client.send("MULTI");
    for _ in 0..5_000 {
        assert_eq!(client.send("SET a 1"), "+QUEUED|");
    }
    let full = "-ERR a transaction has at most 10000 operations and 8 MiB of arguments; EXEC what is queued in several parts|";
    assert_eq!(client.send("INCR a"), full);
    assert!(
        client.session.heap_bytes() < 1 << 16,
        "what was queued is gone"
    );
    assert!(client.send("EXEC").starts_with("-EXECABORT"));

    client.send("MULTI");
    for _ in 0..QUEUED_COMMANDS_MAX {
        assert_eq!(client.send("PING"), "+QUEUED|");
    }
    assert_eq!(client.send("PING"), full);
    client.send("DISCARD");

    client.send("MULTI");
    let big = format!("PING {}", "x".repeat(1 << 20));
    for _ in 0..7 {
        assert_eq!(client.send(&big), "+QUEUED|");
    }
    assert!(client.session.heap_bytes() < 3 * QUEUED_BYTES_MAX);
    assert_eq!(client.send(&big), full);
    client.send("DISCARD");

    client.send("MULTI");
    let many = format!("EXISTS{}", " k".repeat(20_000));
    for _ in 0..4 {
        assert_eq!(client.send(&many), "+QUEUED|");
    }
    assert_eq!(client.send(&many), full);
    client.send("DISCARD");

    for at in 0..WATCHED_MAX {
        assert_eq!(client.send(&format!("WATCH k{at}")), "+OK|");
    }
    let full = "-ERR a connection watches at most 1024 keys; EXEC or UNWATCH first|";
    assert_eq!(client.send("WATCH more"), full);
}

#[test]
fn a_replica_that_can_make_no_more_refuses_the_whole_transaction() {
    // As many operations as one transaction may have. Each command makes one operation and not two.
    let mut client = Client::new(RespConfig::default());
    client.send("MULTI");
    let keys: String = (0..10_000).map(|at| format!(" k{at} 1")).collect();
    assert_eq!(client.send(&format!("MSET{keys}")), "+QUEUED|");
    assert_eq!(client.send("EXEC"), "*1|+OK|");
    assert_eq!(client.node.replicas[0].len(), 10_000);
    assert_eq!(client.node.replicas[0].clock(), 1);
}

/// A client at a member with a budget and two counters.
fn at_a_member(adds_only: bool) -> Client {
    let mut client = Client::new(RespConfig::default());
    let replica = &mut client.node.replicas[0];
    let founded = replica.members_mut().found(&[7; 32], &[0; 16], NOW);
    founded.expect("a member");
    for sent in ["BUDGET.MINT bud 10", "INCR old", "INCRBY h1 6"] {
        client.send(sent);
    }
    let replica = &mut client.node.replicas[0];
    replica.members_mut().set_adds_only(adds_only);
    client.node.told();
    client
}

/// A command on several counters, or of several steps, is refused whole. The commands before it and
/// after it in the same transaction are made.
#[test]
fn a_refused_command_leaves_nothing_of_its_first_steps() {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    let role = "the role does not allow this: writers only add";
    for (before, sent, refused) in [
        ("SET h1 7", "MSET h1 1 bud 2 h2 3", wrong),
        ("DEL h1", "MSET h1 1 bud 2 h2 3", wrong),
        ("SET h3 1", "MSET h1 4 h3 5 h1 6 bud 2", wrong),
        (
            "BUDGET.SPEND bud 1",
            "BUDGET.TRANSFER bud other 3 old 4",
            wrong,
        ),
        ("INCR h1", "INCREX old EX 60", role),
        ("INCR h1", "INCREX new EX 60", role),
    ] {
        let mut client = at_a_member(refused == role);
        let mut wanted = at_a_member(refused == role);
        for it in ["MULTI", before, sent, "INCR after"] {
            client.send(it);
        }
        let answer = client.send("EXEC");
        assert!(answer.contains(refused), "{sent}: {answer}");
        assert!(answer.ends_with("|:1|"), "{sent}: {answer}");
        for it in ["MULTI", before, "INCR after", "EXEC"] {
            wanted.send(it);
        }
        let [made, wanted_made] = [&client, &wanted].map(|it| it.node.replicas[0].snapshot());
        assert_eq!(made, wanted_made, "{sent}");
        assert_eq!(client.node.told(), wanted.node.told(), "{sent}");
        let keys = |client: &Client| client.node.replicas[0].key_ids_end();
        assert_eq!(keys(&client), keys(&wanted), "{sent}");
    }
}
