//! `ONCE`: its answers, its retries, and the commands that can't be made under an idempotency key.

use super::*;
use tallymesh_core::KeyStatus;
use tallymesh_node_ground::model::bounds::ONCE_KEY_BYTES_MAX;

const REUSED: &str = "-KEYREUSED something else was made under this idempotency key; give each operation a key of its own, and retry it with the same|";

fn replayed(name: &str) -> String {
    format!(
        "-REPLAYED '{name}' was made before under this idempotency key, and counts once; what it answered then is not kept, so GET the counter|"
    )
}

#[test]
fn a_retry_counts_once_and_tells_what_is_there_now() {
    // The command before, the command under the key, its answer, the command before the retry, and
    // the answer to the retry.
    let cases: [(&str, &str, &str, &str, &str); 20] = [
        ("", "INCR a", ":1|", "INCRBY a 9", ":10|"),
        ("", "DECR a", ":-1|", "", ":-1|"),
        ("", "INCRBY a 5", ":5|", "DEL a", "$-1|"),
        ("", "DECRBY a 5", ":-5|", "SET a 7", ":7|"),
        ("", "SET a 5", "+OK|", "INCR a", "+OK|"),
        ("", "SET a 5 EX 10", "+OK|", "PERSIST a", "+OK|"),
        ("", "SETEX a 10 5", "+OK|", "", "+OK|"),
        ("", "PSETEX a 10 5", "+OK|", "", "+OK|"),
        ("", "MSET a 1 b 2", "+OK|", "DEL a b", "+OK|"),
        ("SET a 5", "DEL a b", ":1|", "INCR a", "$-1|"),
        ("", "UNLINK a", ":0|", "INCR a", "$-1|"),
        ("SET a 5", "EXPIRE a 10", ":1|", "PERSIST a", "$-1|"),
        ("SET a 5 EX 10", "PERSIST a", ":1|", "EXPIRE a 5", "$-1|"),
        ("SET a 5", "GETEX a EX 10", "$1|5|", "SET a 7", "$1|7|"),
        ("", "SET a 1 NX", "+OK|", "DEL a", "set"),
        ("", "SET a 1 XX", "$-1|", "SET a 5", "set"),
        ("SET a 5", "SET a 1 GET", "$1|5|", "", "set"),
        ("", "SETNX a 1", ":1|", "DEL a", "setnx"),
        ("SET a 5", "GETSET a 1", "$1|5|", "INCR a", "getset"),
        ("SET a 5", "GETDEL a", "$1|5|", "INCR a", "getdel"),
    ];
    for (before, sent, answer, meanwhile, again) in cases {
        let mut client = Client::new(RespConfig::default());
        for sent in [before].into_iter().filter(|sent| !sent.is_empty()) {
            client.send(sent);
        }
        assert_eq!(client.send(&format!("ONCE key {sent}")), answer, "{sent}");
        for sent in [meanwhile].into_iter().filter(|sent| !sent.is_empty()) {
            client.send(sent);
        }
        client.node.told();
        let (digest, clock) = {
            let replica = &client.node.replicas[0];
            (replica.digest(), replica.clock())
        };
        let again = match again.ends_with('|') {
            true => again.to_owned(),
            false => replayed(again),
        };
        // The case of the command's name and of its options does not matter.
        let (name, rest) = sent.split_once(' ').expect("arguments");
        for name in [name.to_owned(), name.to_ascii_lowercase()] {
            let retry = client.send(&format!("once key {name} {rest}"));
            assert_eq!(retry, again, "again {sent}");
        }
        let replica = &client.node.replicas[0];
        assert_eq!((replica.digest(), replica.clock()), (digest, clock));
        assert_eq!(client.node.told(), [""; 0], "{sent}");
    }
}

#[test]
fn what_leaves_64_bits_is_told_whole() {
    let mut client = Client::new(RespConfig::default());
    client.send("ONCE key INCR a");
    let mut other = client.node.other();
    other.add("a", i64::MAX).expect("room");
    client.node.replicas[0]
        .merge(&other.snapshot())
        .expect("a good message");
    let digits = "$19|9223372036854775808|";
    assert_eq!(client.send("ONCE key INCR a"), digits);
    assert!(client.send("INCR a").starts_with("-ERR value is not"));
}

#[test]
fn another_command_under_the_same_key_is_refused() {
    let mut client = Client::new(RespConfig::default());
    assert_eq!(client.send("ONCE key INCRBY a 5"), ":5|");
    for sent in [
        "INCRBY a 6",
        "INCRBY b 5",
        "INCRBY A 5",
        "DECRBY a 5",
        "INCR a",
        "SET a 5",
        "DEL a",
    ] {
        assert_eq!(client.send(&format!("ONCE key {sent}")), REUSED, "{sent}");
    }
    // The arguments are not joined to one string.
    assert_eq!(client.send("ONCE two DEL ab c"), ":0|");
    assert_eq!(client.send("ONCE two DEL a bc"), REUSED);
    assert_eq!(client.send("GET a"), "$1|5|");
    // Each space has its own idempotency keys.
    client.send("SELECT 1");
    assert_eq!(client.send("ONCE key INCR a"), ":1|");
    assert_eq!(client.send("ONCE key INCR a"), ":1|");
    // A refused command does not use up its key.
    assert!(client.send("ONCE three SET a x").starts_with("-ERR "));
    assert_eq!(client.send("ONCE three INCR a"), ":2|");
}

#[test]
fn a_key_is_kept_also_where_nothing_changed() {
    let mut client = Client::new(RespConfig::default());
    assert_eq!(client.send("DEL a"), ":0|");
    assert_eq!(
        (client.node.made, client.node.replicas[0].clock()),
        (0, 0),
        "no transaction"
    );
    assert_eq!(client.send("ONCE key DEL a"), ":0|");
    assert_eq!((client.node.made, client.node.replicas[0].clock()), (1, 1));
    let written: Vec<u64> = client.session.writes().iter().map(|it| it.clock).collect();
    assert_eq!(written, [1], "it can be waited for");
    client.send("INCR a");
    assert_eq!(client.send("ONCE key DEL a"), "$-1|");
    assert_eq!(client.send("ONCE key INCR a"), REUSED);
    assert!(client.send("ONCE other SET a x").starts_with("-ERR "));
    let own = client.node.replicas[0].writer();
    let told = [
        KeyStatus::New,
        KeyStatus::Before(Some((own, 1))),
        KeyStatus::Reused,
    ];
    assert_eq!(client.node.keyed, told);
    assert_eq!(client.send("GET a"), "$1|1|");
}

#[test]
fn a_retry_can_be_waited_for_as_what_was_made_first() {
    for closed in [false, true] {
        let mut client = Client::new(RespConfig::default());
        let replica = &mut client.node.replicas[0];
        if closed {
            replica
                .members_mut()
                .found(&[7; 32], &[0; 16], NOW)
                .expect("the first member");
        }
        client.send("ONCE key INCR a");
        let made = client.session.writes().to_vec();
        // Another session, which makes a command before and one after.
        client.session = Session::new(8, Arc::new(RespConfig::default()));
        client.send("SELECT 1");
        client.send("INCR b");
        client.send("SELECT 0");
        assert_eq!(client.send("ONCE key INCR a"), ":1|");
        let waits = client.session.writes().contains(&made[0]);
        assert_eq!(waits, closed, "nobody is waited for without members");
        assert_eq!(client.session.writes().len(), 1 + usize::from(closed));
    }
}

#[test]
fn what_writes_no_counter_has_no_key() {
    let refused = |name: &str| {
        format!(
            "-ERR '{name}' can't be made under an idempotency key: ONCE takes one command that writes counters, or EXEC|"
        )
    };
    let config = RespConfig {
        flush: true,
        ..RespConfig::default()
    };
    let mut client = Client::new(config);
    for (sent, name) in [
        ("GET a", "get"),
        ("MGET a b", "mget"),
        ("FLUSHDB", "flushdb"),
        ("MULTI", "multi"),
        ("SELECT 1", "select"),
        ("PING", "ping"),
        ("ONCE b INCR a", "once"),
        ("SUBSCRIBE a", "subscribe"),
    ] {
        assert_eq!(client.send(&format!("ONCE key {sent}")), refused(name));
    }
    for (sent, answer) in [
        (
            "ONCE key",
            "-ERR wrong number of arguments for 'once' command|",
        ),
        (
            "ONCE key INCR",
            "-ERR wrong number of arguments for 'incr' command|",
        ),
        (
            "ONCE key foo a",
            "-ERR unknown command 'foo', with args beginning with: 'a' |",
        ),
        ("ONCE key EXEC", "-ERR EXEC without MULTI|"),
        (
            "ONCE key EXEC now",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command|",
        ),
        (
            "ONCE '' INCR a",
            "-ERR an idempotency key has 1 to 255 bytes, this one has 0|",
        ),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    let (fits, long) = (
        "k".repeat(ONCE_KEY_BYTES_MAX),
        "k".repeat(ONCE_KEY_BYTES_MAX + 1),
    );
    assert_eq!(client.send(&format!("ONCE {fits} INCR a")), ":1|");
    assert_eq!(
        client.send(&format!("ONCE {long} INCR a")),
        "-ERR an idempotency key has 1 to 255 bytes, this one has 256|"
    );
    // Any bytes are a valid key.
    let bytes = b"*4\r\n$4\r\nONCE\r\n$3\r\n\x00\xff\n\r\n$4\r\nINCR\r\n$1\r\na\r\n";
    for _ in 0..2 {
        assert_eq!(client.feed(bytes).0, b":2\r\n");
    }
}

#[test]
fn all_that_is_queued_is_made_once() {
    let queue = |client: &mut Client, commands: &[&str], end: &str| {
        assert_eq!(client.send("MULTI"), "+OK|");
        for sent in commands {
            assert_eq!(client.send(sent), "+QUEUED|", "{sent}");
        }
        client.send(end)
    };
    let all = ["INCRBY a 5", "GET a", "DEL b", "PING", "GETDEL c", "INCR a"];
    let mut client = Client::new(RespConfig::default());
    client.send("MSET b 1 c 2");
    let answer = queue(&mut client, &all, "ONCE key EXEC");
    assert_eq!(answer, "*6|:5|$1|5|:1|+PONG|$1|2|:6|");
    client.send("INCR b");
    let clock = client.node.replicas[0].clock();
    let again = format!("*6|:6|$1|6|$-1|+PONG|{}:6|", replayed("getdel"));
    assert_eq!(queue(&mut client, &all, "once key exec"), again);
    assert_eq!(client.node.replicas[0].clock(), clock);
    assert_eq!(client.send("MGET a b c"), "*3|$1|6|$1|1|$-1|");
    // Another queue, or a single command, is a different request.
    for commands in [&all[..5], &["INCR a"], &[]] {
        assert_eq!(queue(&mut client, commands, "ONCE key EXEC"), REUSED);
    }
    assert_eq!(client.send("ONCE key INCRBY a 5"), REUSED);
    assert_eq!(client.send("EXEC"), "-ERR EXEC without MULTI|");
    // Arguments don't move from one command to the next.
    assert_eq!(
        queue(&mut client, &["DEL a", "DEL b"], "ONCE x EXEC"),
        "*2|:1|:1|"
    );
    assert_eq!(queue(&mut client, &["DEL a DEL b"], "ONCE x EXEC"), REUSED);
    client.send("HELLO 3");
    let again = queue(&mut client, &["DEL a", "DEL b"], "ONCE x EXEC");
    assert_eq!(again, "*2|_|_|");
}

#[test]
fn under_a_key_all_is_made_or_nothing() {
    let mut client = Client::new(RespConfig::default());
    client.send("SET a 9223372036854775807");
    for _ in 0..2 {
        for sent in ["MULTI", "INCR b", "INCR a"] {
            client.send(sent);
        }
        assert_eq!(
            client.send("ONCE key EXEC"),
            "-EXECABORT Transaction discarded because of: increment or decrement would overflow|"
        );
        assert_eq!(client.send("GET b"), "$-1|");
    }
    client.send("SET a 1");
    for answer in ["*2|:1|:2|", "*2|:1|:2|"] {
        for sent in ["MULTI", "INCR b", "INCR a"] {
            client.send(sent);
        }
        assert_eq!(client.send("ONCE key EXEC"), answer);
    }
    // A command under a key other than `EXEC` is refused while commands are queued, and makes the
    // transaction fail.
    for (sent, answer) in [
        ("MULTI", "+OK|"),
        ("INCR b", "+QUEUED|"),
        (
            "ONCE other INCR b",
            "-ERR ONCE inside MULTI takes nothing but EXEC: its key is that of all that is queued|",
        ),
        (
            "ONCE other EXEC",
            "-EXECABORT Transaction discarded because of previous errors.|",
        ),
        ("MULTI", "+OK|"),
        (
            "ONCE '' EXEC",
            "-EXECABORT Transaction discarded because of: an idempotency key has 1 to 255 bytes, this one has 0|",
        ),
        ("EXEC", "-ERR EXEC without MULTI|"),
        ("GET b", "$1|1|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
}

#[test]
fn watched_keys_guard_what_is_new_and_not_a_retry() {
    let mut client = Client::new(RespConfig::default());
    let mut exec = |between: &str| {
        for sent in ["WATCH w", between, "MULTI", "INCR a"] {
            client.send(sent);
        }
        client.send("ONCE key EXEC")
    };
    assert_eq!(exec("INCR w"), "*-1|", "it was changed");
    assert_eq!(exec("PING"), "*1|:1|", "and did not take the key");
    assert_eq!(exec("INCR w"), "*1|:1|", "it is made, whatever changed");
}

#[test]
fn too_much_for_one_transaction_is_refused_whole() {
    let mut client = Client::new(RespConfig::default());
    let pairs: String = (0..10_000).map(|at| format!(" k{at} 1")).collect();
    for _ in 0..2 {
        assert_eq!(client.send(&format!("ONCE key MSET{pairs}")), "+OK|");
    }
    assert_eq!(client.node.replicas[0].clock(), 1);
    let keys: String = (0..10_001).map(|at| format!(" k{at}")).collect();
    client.send("SET k10000 1");
    assert_eq!(
        client.send(&format!("ONCE other DEL{keys}")),
        "-ERR a transaction has at most 10000 operations, this one 10001|"
    );
    assert_eq!(client.node.replicas[0].len(), 10_001);
    assert_eq!(client.send("ONCE other INCR a"), ":1|");
    // The adds of a command are stored and sent together with its key, so their bytes are limited.
    client.send("MULTI");
    for at in 0..300 {
        client.send(&format!("INCR {}{at}", "k".repeat(500)));
    }
    let refused = client.send("ONCE long EXEC");
    assert!(
        refused.starts_with("-EXECABORT Transaction discarded because of: what is added under this idempotency key takes 15"),
        "{refused}"
    );
    assert!(refused.contains("over the limit of 131072"), "{refused}");
    assert_eq!(client.node.replicas[0].len(), 10_002);
    assert_eq!(client.send("ONCE long INCR a"), ":2|");
}

#[test]
fn it_is_let_in_as_other_commands_are() {
    let mut client = Client::new(RespConfig {
        password: Some("secret".to_owned()),
        strict: true,
        ..RespConfig::default()
    });
    let no_auth = "-NOAUTH Authentication required.|";
    assert_eq!(client.send("ONCE key INCR a"), no_auth);
    client.send("AUTH secret");
    let mut bytes = request("ONCE key INCR a").repeat(3);
    bytes.extend(request("INCR a"));
    assert_eq!(show(&client.feed(&bytes).0), ":1|:1|:1|:2|");
    let refused = client.send("ONCE other SETNX a 1");
    assert!(refused.starts_with("-NEEDSCENTRE 'setnx' "), "{refused}");
    client.send("SUBSCRIBE x");
    let refused = client.send("ONCE other INCR a");
    assert!(
        refused.starts_with("-ERR Can't execute 'once'"),
        "{refused}"
    );
}
