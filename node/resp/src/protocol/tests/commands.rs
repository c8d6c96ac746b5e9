//! Each command on counters, and its answer.

use super::*;

#[test]
fn integers_count_as_in_redis() {
    play(
        &RespConfig::default(),
        &[
            ("GET a", "$-1|", "_|"),
            ("INCR a", ":1|", ""),
            ("incr a", ":2|", ""),
            ("InCrBy a 40", ":42|", ""),
            ("DECR a", ":41|", ""),
            ("DECRBY a 100", ":-59|", ""),
            ("DECRBY a -60", ":1|", ""),
            ("GET a", "$1|1|", ""),
            ("INCRBY a 9223372036854775806", ":9223372036854775807|", ""),
            ("INCR a", "-ERR increment or decrement would overflow|", ""),
            ("GET a", "$19|9223372036854775807|", ""),
            ("DECRBY b 9223372036854775807", ":-9223372036854775807|", ""),
            ("DECR b", ":-9223372036854775808|", ""),
            ("DECR b", "-ERR increment or decrement would overflow|", ""),
            (
                "DECRBY b -9223372036854775808",
                "-ERR decrement would overflow|",
                "",
            ),
            (
                "INCRBY b 1.5",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "INCRBY b 9223372036854775808",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "INCRBY b +1",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "INCRBY b 01",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "INCRBY b -0",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "INCRBY b ''",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            ("INCRBY c 0", ":0|", ""),
            (
                "MGET a nothing c",
                "*3|$19|9223372036854775807|$-1|$1|0|",
                "*3|$19|9223372036854775807|_|$1|0|",
            ),
        ],
    );
}

#[test]
fn sets_take_integers_and_options() {
    play(
        &RespConfig::default(),
        &[
            ("SET a 5", "+OK|", ""),
            ("SET a -7", "+OK|", ""),
            ("GET a", "$2|-7|", ""),
            (
                "SET a x",
                "-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|",
                "",
            ),
            (
                "SET a 9223372036854775808",
                "-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|",
                "",
            ),
            ("SET a 1 NX", "$-1|", "_|"),
            ("SET b 1 NX", "+OK|", ""),
            ("SET c 1 XX", "$-1|", "_|"),
            ("SET a 2 XX", "+OK|", ""),
            ("SET a 3 GET", "$1|2|", ""),
            ("SET d 3 GET", "$-1|", "_|"),
            ("SET d 4 NX GET", "$1|3|", ""),
            ("GET d", "$1|3|", ""),
            ("SET e 4 XX GET", "$-1|", "_|"),
            ("EXISTS e", ":0|", ""),
            ("SET a 1 NX XX", "-ERR syntax error|", ""),
            ("SET a 1 EX", "-ERR syntax error|", ""),
            ("SET a 1 PERSIST", "-ERR syntax error|", ""),
            ("SET a 1 EX 5 PX 5", "-ERR syntax error|", ""),
            ("SET a 1 EX 5 KEEPTTL", "-ERR syntax error|", ""),
            ("SET a 1 KEEPTTL EX 5", "-ERR syntax error|", ""),
            (
                "SET a 1 EX 0",
                "-ERR invalid expire time in 'set' command|",
                "",
            ),
            (
                "SET a 1 EX -1",
                "-ERR invalid expire time in 'set' command|",
                "",
            ),
            (
                "SET a 1 EX x",
                "-ERR value is not an integer or out of range|",
                "",
            ),
            (
                "SET a 1 EX 9223372036854775807",
                "-ERR invalid expire time in 'set' command|",
                "",
            ),
            (
                "SET a 1 PX 9223372036854775807",
                "-ERR invalid expire time in 'set' command|",
                "",
            ),
            (
                "SET a 1 PXAT 8640000000000001",
                "-ERR invalid expire time in 'set' command|",
                "",
            ),
            ("SET a 1 PXAT 8640000000000000", "+OK|", ""),
            ("PEXPIRETIME a", ":8640000000000000|", ""),
            ("SET a 1 EX 10", "+OK|", ""),
            ("TTL a", ":10|", ""),
            ("SET a 2 KEEPTTL", "+OK|", ""),
            ("PTTL a", ":10000|", ""),
            ("SET a 2", "+OK|", ""),
            ("TTL a", ":-1|", ""),
            ("SET a 2 px 1500", "+OK|", ""),
            ("PEXPIRETIME a", ":1001500|", ""),
            ("SET a 2 EXAT 2000", "+OK|", ""),
            ("EXPIRETIME a", ":2000|", ""),
            ("SET a 2 PXAT 2000001", "+OK|", ""),
            ("EXPIRETIME a", ":2000|", ""),
            ("SET a 2 EXAT 1", "+OK|", ""),
            ("GET a", "$-1|", "_|"),
            ("SETNX f 1", ":1|", ""),
            ("SETNX f 2", ":0|", ""),
            (
                "SETNX g x",
                "-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|",
                "",
            ),
            ("SETEX f 10 3", "+OK|", ""),
            ("TTL f", ":10|", ""),
            (
                "SETEX f 0 3",
                "-ERR invalid expire time in 'setex' command|",
                "",
            ),
            ("PSETEX f 10 4", "+OK|", ""),
            ("PTTL f", ":10|", ""),
            (
                "PSETEX f -1 4",
                "-ERR invalid expire time in 'psetex' command|",
                "",
            ),
            ("GETSET f 5", "$1|4|", ""),
            ("TTL f", ":-1|", ""),
            ("GETSET h 5", "$-1|", "_|"),
            ("GETDEL h", "$1|5|", ""),
            ("GETDEL h", "$-1|", "_|"),
            ("MSET i 1 j 2 i 3", "+OK|", ""),
            ("MGET i j", "*2|$1|3|$1|2|", ""),
            (
                "MSET i 1 j",
                "-ERR wrong number of arguments for 'mset' command|",
                "",
            ),
            (
                "MSET i 9 j x",
                "-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|",
                "",
            ),
            ("GET i", "$1|3|", ""),
        ],
    );
}

#[test]
fn expiries_are_as_in_redis() {
    play_same(&[
        ("TTL a", ":-2|"),
        ("PTTL a", ":-2|"),
        ("EXPIRETIME a", ":-2|"),
        ("PEXPIRETIME a", ":-2|"),
        ("EXPIRE a 10", ":0|"),
        ("PERSIST a", ":0|"),
        ("INCR a", ":1|"),
        ("EXPIRETIME a", ":-1|"),
        ("PERSIST a", ":0|"),
        ("EXPIRE a 10 XX", ":0|"),
        ("EXPIRE a 10 GT", ":0|"),
        ("EXPIRE a 100 LT", ":1|"),
        ("EXPIRE a 100 NX", ":0|"),
        ("EXPIRE a 50 gt", ":0|"),
        ("EXPIRE a 50 lt", ":1|"),
        ("EXPIRE a 50 LT", ":0|"),
        ("EXPIRE a 60 XX GT", ":1|"),
        ("TTL a", ":60|"),
        (
            "EXPIRE a 1 NX XX",
            "-ERR NX and XX, GT or LT options at the same time are not compatible|",
        ),
        (
            "EXPIRE a 1 LT GT",
            "-ERR GT and LT options at the same time are not compatible|",
        ),
        ("EXPIRE a 1 foo", "-ERR Unsupported option foo|"),
        (
            "EXPIRE a x",
            "-ERR value is not an integer or out of range|",
        ),
        (
            "EXPIRE a 9223372036854775807",
            "-ERR invalid expire time in 'expire' command|",
        ),
        (
            "PEXPIRE a 9223372036854775807",
            "-ERR invalid expire time in 'pexpire' command|",
        ),
        (
            "PEXPIREAT a 8640000000000001",
            "-ERR invalid expire time in 'pexpireat' command|",
        ),
        ("INCR a", ":2|"),
        ("TTL a", ":60|"),
        ("PERSIST a", ":1|"),
        ("TTL a", ":-1|"),
        ("PEXPIRE a 1499", ":1|"),
        ("TTL a", ":1|"),
        ("PEXPIRE a 1500", ":1|"),
        ("TTL a", ":2|"),
        ("EXPIREAT a 1001", ":1|"),
        ("PTTL a", ":1000|"),
        ("PEXPIREAT a 1000001", ":1|"),
        ("PTTL a", ":1|"),
        ("PEXPIREAT a 1000000", ":1|"),
        ("EXISTS a", ":0|"),
        ("INCR a", ":1|"),
        ("EXPIRE a -1", ":1|"),
        ("EXISTS a", ":0|"),
        ("SET b 3", "+OK|"),
        ("GETEX b EX 10", "$1|3|"),
        ("TTL b", ":10|"),
        ("GETEX b", "$1|3|"),
        ("TTL b", ":10|"),
        ("GETEX b PERSIST", "$1|3|"),
        ("TTL b", ":-1|"),
        ("GETEX b PERSIST EX 1", "-ERR syntax error|"),
        ("GETEX b KEEPTTL", "-ERR syntax error|"),
        (
            "GETEX b PX 0",
            "-ERR invalid expire time in 'getex' command|",
        ),
        ("GETEX b PXAT 5", "$1|3|"),
        ("EXISTS b", ":0|"),
    ]);
}

#[test]
fn an_expired_counter_is_absent_and_begins_anew() {
    let mut client = Client::new(RespConfig::default());
    assert_eq!(client.send("SET a 5 PX 100"), "+OK|");
    assert_eq!(client.node.told(), ["0 a set", "0 a expire"]);
    client.node.set_time(NOW + 100);
    assert_eq!(client.send("GET a"), "$-1|");
    assert_eq!(client.send("EXISTS a"), ":0|");
    assert_eq!(client.send("PERSIST a"), ":0|");
    assert_eq!(client.send("INCR a"), ":1|");
    assert_eq!(client.send("TTL a"), ":-1|");
    assert_eq!(client.node.told(), ["0 a incrby"]);
}

#[test]
fn keys_are_counted_deleted_and_described() {
    play(
        &RespConfig::default(),
        &[
            ("DBSIZE", ":0|", ""),
            ("RANDOMKEY", "$-1|", "_|"),
            ("MSET a 1 b 2 c 3", "+OK|", ""),
            ("DBSIZE", ":3|", ""),
            ("EXISTS a b a nothing", ":3|", ""),
            ("TOUCH a b nothing", ":2|", ""),
            ("TYPE a", "+string|", ""),
            ("TYPE nothing", "+none|", ""),
            ("OBJECT ENCODING a", "$3|int|", ""),
            ("OBJECT encoding nothing", "$-1|", "_|"),
            ("OBJECT REFCOUNT a", ":1|", ""),
            (
                "OBJECT IDLETIME a",
                "-ERR idle time not tracked: counters are never evicted|",
                "",
            ),
            (
                "OBJECT FREQ a",
                "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.|",
                "",
            ),
            (
                "OBJECT FOO a",
                "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.|",
                "",
            ),
            (
                "OBJECT ENCODING",
                "-ERR wrong number of arguments for 'object|encoding' command|",
                "",
            ),
            ("DEL a b a nothing", ":2|", ""),
            ("UNLINK a", ":0|", ""),
            ("UNLINK c", ":1|", ""),
            ("DBSIZE", ":0|", ""),
            ("KEYS *", "*0|", ""),
            ("INCR one", ":1|", ""),
            ("RANDOMKEY", "$3|one|", ""),
            ("KEYS *", "*1|$3|one|", ""),
            ("KEYS t*", "*0|", ""),
            (
                "FLUSHDB",
                "-ERR flushing is off at this node, since it deletes what all replicas counted; start the node with --resp-flush, or DEL single keys|",
                "",
            ),
            (
                "FLUSHALL ASYNC",
                "-ERR flushing is off at this node, since it deletes what all replicas counted; start the node with --resp-flush, or DEL single keys|",
                "",
            ),
            ("FLUSHDB NOW", "-ERR syntax error|", ""),
            ("GET one", "$1|1|", ""),
        ],
    );
}

#[test]
fn flushing_deletes_all_of_one_space_or_of_all() {
    let config = RespConfig {
        flush: true,
        ..RespConfig::default()
    };
    let rows = [
        ("MSET a 1 b 2", "+OK|", ""),
        ("SELECT 1", "+OK|", ""),
        ("INCR c", ":1|", ""),
        ("FLUSHDB", "+OK|", ""),
        ("DBSIZE", ":0|", ""),
        ("SELECT 0", "+OK|", ""),
        ("DBSIZE", ":2|", ""),
        ("FLUSHALL SYNC", "+OK|", ""),
        ("DBSIZE", ":0|", ""),
        ("FLUSHALL", "+OK|", ""),
    ];
    play(&config, &rows);
    let mut client = Client::new(config);
    client.send("MSET a 1 b 2");
    client.node.told();
    client.send("FLUSHDB");
    assert_eq!(client.node.told(), ["0 a del", "0 b del"]);
    for at in 0..10_001 {
        client.node.replicas[0]
            .add(&format!("k{at}"), 1)
            .expect("room");
    }
    assert_eq!(client.send("FLUSHDB"), "+OK|");
    assert_eq!(client.send("DBSIZE"), ":0|");
    assert_eq!(client.node.told().len(), 10_001);
}

#[test]
fn spaces_are_databases() {
    play_same(&[
        ("INCR a", ":1|"),
        ("SELECT 1", "+OK|"),
        ("INCR a", ":1|"),
        ("INCR a", ":2|"),
        ("SELECT 2", "-ERR DB index is out of range|"),
        ("SELECT -1", "-ERR DB index is out of range|"),
        ("SELECT x", "-ERR value is not an integer or out of range|"),
        ("GET a", "$1|2|"),
        ("SELECT 0", "+OK|"),
        ("GET a", "$1|1|"),
    ]);
}

#[test]
fn a_sum_beyond_64_bits_is_read_whole_and_not_added_to() {
    let mut client = Client::new(RespConfig::default());
    let mut other = client.node.other();
    other.add("a", i64::MAX).expect("room");
    client.send("INCRBY a 5");
    client.node.replicas[0]
        .merge(&other.snapshot())
        .expect("a good message");
    for (sent, answer) in [
        ("GET a", "$19|9223372036854775812|"),
        ("MGET a", "*1|$19|9223372036854775812|"),
        ("INCR a", "-ERR value is not an integer or out of range|"),
        (
            "DECRBY a 5",
            "-ERR value is not an integer or out of range|",
        ),
        ("MULTI", "+OK|"),
        ("DECRBY a 5", "+QUEUED|"),
        ("EXEC", "*1|-ERR value is not an integer or out of range|"),
        ("GET a", "$19|9223372036854775812|"),
        ("SET a 1", "+OK|"),
        ("INCR a", ":2|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
}

#[test]
fn what_changed_is_told_once_for_each_event() {
    let mut client = Client::new(RespConfig::default());
    for (sent, told) in [
        ("INCR a", &["0 a incrby"][..]),
        ("DECRBY a 4", &["0 a incrby"]),
        ("INCRBY a x", &[]),
        ("SET a 4", &["0 a set"]),
        ("SET a 4 NX", &[]),
        ("SET a 4 EX 10", &["0 a set", "0 a expire"]),
        ("SET a 5 KEEPTTL", &["0 a set", "0 a expire"]),
        ("PERSIST a", &["0 a persist"]),
        ("PERSIST a", &[]),
        ("EXPIRE a 5", &["0 a expire"]),
        ("EXPIRE a 5 NX", &[]),
        ("EXPIRE a -5", &["0 a del"]),
        ("SET e 1", &["0 e set"]),
        ("PEXPIREAT e 1000000", &["0 e del"]),
        ("DEL a", &[]),
        ("MSET a 1 b 2", &["0 a set", "0 b set"]),
        ("GETEX a", &[]),
        ("GETEX a PXAT 5", &["0 a del"]),
        ("GETSET a 2", &["0 a set"]),
        ("DEL a b c", &["0 a del", "0 b del"]),
        ("GETDEL a", &[]),
        ("SELECT 1", &[]),
        ("SETNX a 2", &["1 a set"]),
    ] {
        client.send(sent);
        assert_eq!(client.node.told(), told, "{sent}");
    }
}
