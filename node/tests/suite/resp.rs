//! The Redis protocol of a real node: counters of Redis clients, beside those of everybody else.

use crate::process::{DEADLINE, Node, eventually, up};
use crate::redis::{Redis, command, text};
use redis_protocol::resp2::types::OwnedFrame;
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const RESP: [&str; 2] = ["--resp", "127.0.0.1:0"];

fn start(more: &[&str]) -> Node {
    Node::start(&[&RESP[..], more].concat())
}

#[test]
fn a_counter_is_the_same_for_redis_clients_http_and_the_command_line() {
    let node = start(&[]);
    let mut redis = Redis::connect(&node);
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    node.add("likes", 4);
    assert_eq!(redis.integer(&["INCRBY", "likes", "10"]), 15);
    assert_eq!(node.value("likes"), Some(15));
    let printed = node.run(&["get", "likes"], "");
    assert_eq!(String::from_utf8_lossy(&printed.stdout).trim(), "15");
    assert_eq!(
        redis.text(&["SET", "likes", "3", "PX", "100000"]),
        Some("OK".into())
    );
    let left = redis.integer(&["PTTL", "likes"]);
    assert!((1..=100_000).contains(&left), "{left}");
    assert_eq!(redis.integer(&["DEL", "likes", "other"]), 1);
    assert_eq!(
        (redis.text(&["GET", "likes"]), node.value("likes")),
        (None, None)
    );
    assert_eq!(redis.text(&["GET", "a\u{ff}"]), None);
}

#[test]
fn a_pipeline_is_answered_in_order_and_whole() {
    let node = start(&[]);
    let mut redis = Redis::connect(&node);
    let count = 20_000;
    let mut bytes = Vec::new();
    for number in 0..count {
        bytes.extend(command(&[
            "INCR",
            if number % 2 == 0 { "even" } else { "odd" },
        ]));
    }
    // Two threads, since the node stops reading when nobody takes its answers.
    thread::scope(|scope| {
        let mut sender = redis.split();
        scope.spawn(move || sender.send(&bytes));
        for number in 0..count {
            let expected = OwnedFrame::Integer(number / 2 + 1);
            assert_eq!(redis.reply(), expected, "reply {number}");
        }
    });
    assert_eq!(node.value("odd"), Some(i128::from(count / 2)));
}

#[test]
fn select_picks_a_space() {
    let node = start(&["--space", "first", "--space", "second"]);
    let mut redis = Redis::connect(&node);
    redis.integer(&["INCRBY", "a", "1"]);
    assert_eq!(redis.text(&["SELECT", "1"]), Some("OK".into()));
    assert_eq!(redis.text(&["GET", "a"]), None);
    redis.integer(&["INCRBY", "a", "2"]);
    let refused = redis.text(&["SELECT", "2"]).expect("an error");
    assert!(
        refused.starts_with("ERR DB index is out of range"),
        "{refused}"
    );
    let value =
        |space: &str| node.get(&format!("/v1/spaces/{space}/counters/a")).1["value"].clone();
    assert_eq!((value("first"), value("second")), ("1".into(), "2".into()));
}

#[test]
fn a_transaction_is_seen_whole_at_another_node() {
    let one = start(&[]);
    let two = start(&["--peer", &one.listen[0]]);
    let mut redis = Redis::connect(&one);
    for round in 1..=20_i64 {
        assert_eq!(redis.text(&["MULTI"]), Some("OK".into()));
        assert_eq!(redis.text(&["INCRBY", "from", "-1"]), Some("QUEUED".into()));
        assert_eq!(redis.text(&["INCRBY", "to", "1"]), Some("QUEUED".into()));
        let done = OwnedFrame::Array(vec![
            OwnedFrame::Integer(-round),
            OwnedFrame::Integer(round),
        ]);
        assert_eq!(redis.ask(&["EXEC"]), done);
    }
    let mut other = Redis::connect(&two);
    eventually("all has arrived", || {
        let OwnedFrame::Array(both) = other.ask(&["MGET", "from", "to"]) else {
            panic!("no array");
        };
        let number =
            |frame: &OwnedFrame| text(frame.clone()).map_or(0, |it| it.parse().expect("a number"));
        let (from, to): (i64, i64) = (number(&both[0]), number(&both[1]));
        assert_eq!(from + to, 0);
        (to == 20).then_some(())
    });
}

#[test]
fn a_subscriber_hears_of_what_another_node_counted() {
    let one = start(&[]);
    let two = start(&["--peer", &one.listen[0]]);
    let mut subscriber = Redis::connect(&two);
    let confirmed = subscriber.ask(&["PSUBSCRIBE", "__keyspace@0__:like*"]);
    assert!(matches!(confirmed, OwnedFrame::Array(_)), "{confirmed:?}");
    Redis::connect(&one).integer(&["INCRBY", "likes", "3"]);
    let OwnedFrame::Array(message) = subscriber.reply() else {
        panic!("no message");
    };
    let words: Vec<String> = message.into_iter().filter_map(text).collect();
    assert_eq!(
        words[..3],
        ["pmessage", "__keyspace@0__:like*", "__keyspace@0__:likes"]
    );
    assert_eq!(
        Redis::connect(&two).text(&["GET", "likes"]),
        Some("3".into())
    );
}

#[test]
fn a_password_is_asked_for() {
    let node = start(&["--resp-password", "secret"]);
    let mut redis = Redis::connect(&node);
    let refused = redis.text(&["INCR", "likes"]).expect("an error");
    assert_eq!(refused, "NOAUTH Authentication required.");
    let refused = redis.text(&["AUTH", "secrets"]).expect("an error");
    assert!(refused.starts_with("WRONGPASS"), "{refused}");
    assert_eq!(redis.text(&["AUTH", "secret"]), Some("OK".into()));
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
}

#[test]
fn what_only_a_centre_could_do_is_refused_when_strict_and_flushing_unless_allowed() {
    let node = start(&["--resp-strict"]);
    let mut redis = Redis::connect(&node);
    for words in [
        &["SET", "a", "1", "NX"][..],
        &["SETNX", "a", "1"],
        &["GETDEL", "a"],
        &["GETSET", "a", "1"],
        &["WATCH", "a"],
    ] {
        let refused = redis.text(words).expect("an error");
        assert!(refused.starts_with("NEEDSCENTRE "), "{words:?}: {refused}");
    }
    let refused = redis.text(&["FLUSHALL"]).expect("an error");
    assert!(refused.starts_with("ERR "), "{refused}");
    assert_eq!(redis.integer(&["INCR", "a"]), 1);

    let node = start(&["--resp-flush"]);
    let mut redis = Redis::connect(&node);
    redis.integer(&["INCR", "a"]);
    assert_eq!(redis.text(&["FLUSHALL"]), Some("OK".into()));
    assert_eq!(redis.text(&["GET", "a"]), None);
}

#[test]
fn bad_bytes_close_one_connection_and_leave_the_others() {
    let node = start(&[]);
    let mut good = Redis::connect(&node);
    good.integer(&["INCR", "a"]);
    for bytes in [
        &b"*1\r\n$-7\r\nPING\r\n"[..],
        b"*99999999999\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$99999999999\r\n",
        b"*1\r\n:1\r\n",
    ] {
        let mut bad = Redis::connect(&node);
        bad.send(bytes);
        let refused = text(bad.reply()).expect("an error");
        assert!(refused.starts_with("ERR Protocol error"), "{refused}");
        assert!(bad.try_reply().is_err(), "the connection is closed");
    }
    assert_eq!(good.integer(&["INCR", "a"]), 2);
}

#[test]
fn thousands_of_connections_count_and_more_are_refused() {
    let node = start(&["--resp-clients", "1000"]);
    let mut clients: Vec<Redis> = (0..1000).map(|_| Redis::connect(&node)).collect();
    for client in &mut clients {
        client.send(&command(&["INCR", "a"]));
    }
    let mut replies: Vec<i64> = clients
        .iter_mut()
        .map(|client| match client.reply() {
            OwnedFrame::Integer(number) => number,
            other => panic!("{other:?}"),
        })
        .collect();
    replies.sort_unstable();
    assert_eq!(replies, (1..=1000).collect::<Vec<i64>>());
    let refused = text(Redis::connect(&node).reply()).expect("an error");
    assert_eq!(refused, "ERR max number of clients reached");
    drop(clients);
    eventually("there is room again", || {
        let mut client = Redis::connect(&node);
        client.try_send(&command(&["INCR", "a"])).ok()?;
        (client.try_reply().ok()? == OwnedFrame::Integer(1001)).then_some(())
    });
}

#[test]
fn who_takes_no_answers_is_not_read_from_and_a_subscriber_is_cut_off() {
    let node = start(&[]);
    let mut slow = Redis::connect(&node);
    slow.ask(&["PSUBSCRIBE", "*"]);
    // A writer with long keys: each change is told to the subscriber, who does not listen.
    let mut writer = Redis::connect(&node);
    let key = "k".repeat(500);
    let burst = command(&["INCR", &key]);
    let burst: Vec<u8> = burst.repeat(100);
    let begun = Instant::now();
    let cut = || {
        let (_, metrics) = node.get("/metrics");
        let line = "tallymesh_resp_cut_off_total 1";
        metrics.as_str().is_some_and(|text| text.contains(line))
    };
    while !cut() {
        assert!(begun.elapsed() < DEADLINE, "it was never cut off");
        for _ in 0..50 {
            writer.send(&burst);
            for _ in 0..100 {
                writer.reply();
            }
        }
    }
    assert!(writer.integer(&["INCR", "a"]) == 1);
}

#[test]
fn who_sends_no_more_is_answered_still() {
    let node = start(&[]);
    let mut redis = Redis::connect(&node);
    redis.send(&command(&["INCR", "a"]).repeat(100));
    redis.end();
    for number in 1..=100 {
        assert_eq!(redis.reply(), OwnedFrame::Integer(number));
    }
    assert!(redis.try_reply().is_err(), "the connection is closed");
}

#[test]
fn wait_counts_members_that_hold_the_writes() {
    let one = start(&["--listen", "/ip4/127.0.0.1/tcp/0"]);
    let mut redis = Redis::connect(&one);
    redis.integer(&["INCR", "a"]);
    assert_eq!(
        redis.integer(&["WAIT", "1", "10"]),
        0,
        "nobody else is there"
    );
    let two = start(&["--peer", &one.listen[0]]);
    let founded = one.run(&["members", "init"], "");
    assert!(founded.status.success(), "{founded:?}");
    let id = two.run(&["id"], "");
    let id = String::from_utf8_lossy(&id.stdout).trim().to_owned();
    let added = one.run(&["members", "add", &id], "");
    assert!(added.status.success(), "{added:?}");
    eventually("the other member holds a write", || {
        redis.integer(&["INCR", "a"]);
        (redis.integer(&["WAIT", "1", "5000"]) == 1).then_some(())
    });
    let value = Redis::connect(&two).text(&["GET", "a"]);
    assert!(value.is_some(), "what was waited for is there");
}

#[test]
fn memory_writes_nothing_and_forgets_and_an_interval_is_kept_at_a_stop() {
    let mut node = start(&["--durability", "memory"]);
    Redis::connect(&node).integer(&["INCR", "a"]);
    let written = fs::read_dir(node.data()).expect("the operator's token is there");
    let written: Vec<_> = written.map(|it| it.expect("a file").file_name()).collect();
    assert_eq!(written, ["token"], "nothing that is counted is written");
    let status = node.get("/v1/status").1;
    assert_eq!(
        (status["durability"].as_str(), status["resp"].as_str()),
        (Some("memory"), Some(node.resp.as_str()))
    );
    node.terminate();
    node.start_again();
    assert_eq!(Redis::connect(&node).text(&["GET", "a"]), None);

    let mut node = start(&["--durability", "interval:60s"]);
    Redis::connect(&node).integer(&["INCR", "a"]);
    assert!(node.terminate().success());
    node.start_again();
    assert_eq!(Redis::connect(&node).text(&["GET", "a"]), Some("1".into()));
}

#[test]
fn a_busy_port_is_named() {
    let node = start(&[]);
    let other = tempfile::tempdir().expect("temporary folder");
    let second = up(other.path())
        .args(["--http", "127.0.0.1:0", "--resp", &node.resp])
        .output()
        .expect("run");
    let words = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{words}");
    assert!(
        words.contains(&node.resp) && words.contains("--resp"),
        "{words}"
    );
}

/// Clients that count all the time, and nodes that are killed at a random moment: each command has
/// its own key too, so that a command that counted twice would show.
#[test]
fn kill_9_loses_and_doubles_nothing_that_was_acknowledged() {
    let seed = crate::durability::random_seed();
    let mut random = seed;
    let mut node = start(&[]);
    let mut kept: BTreeMap<String, i64> = BTreeMap::new();
    for round in 0..kills() {
        let wait = Duration::from_micros(crate::durability::next(&mut random) % 40_000);
        let count = AtomicI64::new(0);
        let records: Vec<Vec<(String, bool)>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|client| {
                    let (node, count) = (&node, &count);
                    let redis = Redis::connect(node);
                    scope.spawn(move || count_until_cut(redis, round, client, count))
                })
                .collect();
            eventually("the load begins", || {
                (count.load(Ordering::SeqCst) > 0).then_some(())
            });
            thread::sleep(wait); // Chooses the moment; nothing is right or wrong because of it.
            node.kill();
            clients
                .into_iter()
                .map(|it| it.join().expect("a client"))
                .collect()
        });
        node.start_again();
        let mut redis = Redis::connect(&node);
        for (key, acknowledged) in records.into_iter().flatten() {
            let value = redis.text(&["GET", &key]);
            let held = match value.as_deref() {
                None => 0,
                Some("1") => 1,
                Some(other) => panic!("seed {seed}, round {round}: {key} is {other}"),
            };
            assert!(
                held == 1 || !acknowledged,
                "seed {seed}, round {round}: {key} is lost"
            );
            let client = key.split('-').nth(2).expect("a client").to_owned();
            *kept.entry(client).or_default() += held;
        }
        for (client, sum) in &kept {
            let value = redis.text(&["GET", &format!("sum-{client}")]);
            let value: i64 = value.map_or(0, |text| text.parse().expect("a number"));
            assert_eq!(value, *sum, "seed {seed}, round {round}, client {client}");
        }
    }
    assert_eq!(node.space()["faults"], 0);
}

/// With an interval, answers come before the commit: what a crash takes back is the newest part of
/// what was acknowledged, and nothing that two commits have passed since.
#[test]
fn kill_9_takes_back_no_more_than_the_interval_that_was_asked_for() {
    let seed = crate::durability::random_seed();
    let mut random = seed;
    let mut node = start(&["--durability", "interval:20ms"]);
    for round in 0..kills() {
        let wait = Duration::from_micros(crate::durability::next(&mut random) % 60_000);
        let mut redis = Redis::connect(&node);
        let key = |number: usize| format!("op-{round}-{number}");
        let safe = 50;
        for number in 0..safe {
            redis.integer(&["INCR", &key(number)]);
        }
        let before = commits(&node);
        let mut acknowledged = safe;
        // The first may have begun before the last of them; each needs something to commit.
        eventually("two commits", || {
            redis.integer(&["INCR", &key(acknowledged)]);
            acknowledged += 1;
            (commits(&node) >= before + 2).then_some(())
        });
        let tried = thread::scope(|scope| {
            let counting = scope.spawn(move || {
                for number in acknowledged.. {
                    if redis.try_send(&command(&["INCR", &key(number)])).is_err()
                        || redis.try_reply().is_err()
                    {
                        return number + 1;
                    }
                }
                acknowledged
            });
            thread::sleep(wait); // Chooses the moment; nothing is right or wrong because of it.
            node.kill();
            counting.join().expect("a client")
        });
        node.start_again();
        let mut redis = Redis::connect(&node);
        let held = |number: usize| redis.text(&["GET", &format!("op-{round}-{number}")]);
        let held: Vec<Option<String>> = (0..tried).map(held).collect();
        let kept = held.iter().take_while(|value| value.is_some()).count();
        assert!(
            kept >= safe,
            "seed {seed}, round {round}: {kept} of {safe} are there"
        );
        let rest = held[kept..].iter().all(Option::is_none);
        assert!(
            rest,
            "seed {seed}, round {round}: holes after {kept}: {held:?}"
        );
        let once = held.iter().flatten().all(|value| value == "1");
        assert!(once, "seed {seed}, round {round}: {held:?}");
    }
}

/// How many times a node is killed: `TALLYMESH_KILLS`, or a few.
fn kills() -> u64 {
    match std::env::var("TALLYMESH_KILLS") {
        Ok(text) => text.parse().expect("TALLYMESH_KILLS is a number"),
        Err(_) => 10,
    }
}

/// How many commits a node has made since its start.
fn commits(node: &Node) -> u64 {
    let (_, text) = node.get("/metrics");
    let text = text.as_str().expect("text");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("tallymesh_commits_total "));
    line.expect("a figure").parse().expect("a number")
}

/// Counts operations, each under a key of its own and in its client's sum, as one transaction, in
/// pipelines; returns the keys and whether each was acknowledged.
fn count_until_cut(
    mut redis: Redis,
    round: u64,
    client: usize,
    count: &AtomicI64,
) -> Vec<(String, bool)> {
    let mut records = Vec::new();
    for turn in 0.. {
        let begun = records.len();
        let mut bytes = Vec::new();
        for operation in 0..8 {
            let key = format!("op-{round}-{client}-{turn}-{operation}");
            bytes.extend(command(&["MULTI"]));
            bytes.extend(command(&["INCR", &key]));
            bytes.extend(command(&["INCR", &format!("sum-{client}")]));
            bytes.extend(command(&["EXEC"]));
            records.push((key, false));
        }
        if redis.try_send(&bytes).is_err() {
            break;
        }
        for record in &mut records[begun..] {
            for _ in 0..4 {
                if redis.try_reply().is_err() {
                    return records;
                }
            }
            record.1 = true;
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
    records
}
