//! `SCAN`, `KEYS` and `RANDOMKEY`.

use super::*;
use crate::protocol::limits::*;
use std::collections::BTreeSet;

/// The cursor and the keys of a reply.
fn parse(reply: &str) -> (String, Vec<String>) {
    let mut lines = reply.split('|');
    assert_eq!(lines.next(), Some("*2"), "{reply}");
    lines.next();
    let cursor = lines.next().expect("a cursor").to_owned();
    let keys = lines.skip(2).step_by(2).filter(|key| !key.is_empty());
    (cursor, keys.map(str::to_owned).collect())
}

/// Scans from start to end. Between calls, `meanwhile` may change things.
fn scan(client: &mut Client, options: &str, mut meanwhile: impl FnMut(&mut Client)) -> Vec<String> {
    let mut cursor = "0".to_owned();
    let mut all = Vec::new();
    for _ in 0..10_000 {
        let (next, keys) = parse(&client.send(&format!("SCAN {cursor}{options}")));
        all.extend(keys);
        if next == "0" {
            return all;
        }
        cursor = next;
        meanwhile(client);
    }
    panic!("the scan does not end");
}

fn filled(count: u32) -> Client {
    let mut client = Client::new(RespConfig::default());
    for at in 0..count {
        client.node.replicas[0]
            .add(&format!("k{at}"), 1)
            .expect("room");
    }
    client
}

#[test]
fn a_scan_lists_each_counter_once_when_nothing_changes() {
    for (count, options) in [
        (0, ""),
        (1, ""),
        (10, ""),
        (11, ""),
        (100, " COUNT 7"),
        (100, " COUNT 1000"),
    ] {
        let mut client = filled(count);
        let mut keys = scan(&mut client, options, |_| {});
        assert_eq!(keys.len(), count as usize, "{options}");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count as usize, "{options}");
    }
    let mut client = filled(100);
    assert_eq!(scan(&mut client, " MATCH k1?", |_| {}).len(), 10);
    assert_eq!(scan(&mut client, " MATCH * TYPE STRING", |_| {}).len(), 100);
    assert_eq!(client.send("SCAN 0 TYPE hash"), "*2|$1|0|*0|");
    client.send("EXPIRE k5 -1");
    client.send("PEXPIRE k6 10");
    client.node.set_time(NOW + 10);
    assert_eq!(scan(&mut client, "", |_| {}).len(), 98);
}

#[test]
fn scans_refuse_what_redis_refuses() {
    play_same(&[
        ("SCAN x", "-ERR invalid cursor|"),
        ("SCAN -1", "-ERR invalid cursor|"),
        ("SCAN ''", "-ERR invalid cursor|"),
        ("SCAN 0 COUNT 0", "-ERR syntax error|"),
        (
            "SCAN 0 COUNT x",
            "-ERR value is not an integer or out of range|",
        ),
        ("SCAN 0 COUNT", "-ERR syntax error|"),
        ("SCAN 0 FOO 1", "-ERR syntax error|"),
        ("SCAN 0 TYPE foo", "-ERR unknown type name 'foo'|"),
        ("SCAN 99999 COUNT 5", "*2|$1|0|*0|"),
        ("SCAN 18446744073709551615", "*2|$1|0|*0|"),
    ]);
}

#[test]
fn what_is_there_all_the_while_is_listed_whatever_changes() {
    for seed in 0..seeds(300) {
        let mut state = SplitMix64::new(seed);
        let mut client = filled(60);
        let mut stayed: BTreeSet<String> = (0..60).map(|at| format!("k{at}")).collect();
        let options = format!(" COUNT {}", 1 + state.next_u64() % 9);
        let listed = scan(&mut client, &options, |client| {
            for _ in 0..state.next_u64() % 6 {
                let key = format!("k{}", state.next_u64() % 90);
                let sent = match state.next_u64() % 5 {
                    0 | 1 => {
                        stayed.remove(&key);
                        format!("DEL {key}")
                    }
                    2 => format!("INCR {key}"),
                    3 => format!("EXPIRE {key} 100"),
                    _ => {
                        // Handles are assigned again, and the scan begins again.
                        client.node.generation += u16::from(state.next_u64().is_multiple_of(20));
                        format!("SET {key} 5")
                    }
                };
                client.send(&sent);
            }
        });
        let listed: BTreeSet<String> = listed.into_iter().collect();
        let missed: Vec<&String> = stayed.difference(&listed).collect();
        assert!(missed.is_empty(), "seed {seed}: {missed:?}");
    }
}

#[test]
fn a_scan_begins_again_when_handles_were_given_anew() {
    let mut client = filled(20);
    let (cursor, mut all) = parse(&client.send("SCAN 0"));
    assert_eq!(cursor, "10");
    // The same counters, in the reverse order.
    let mut other = client.node.other();
    for at in (0..20).rev() {
        other.add(&format!("k{at}"), 1).expect("room");
    }
    client.node.replicas[0] = other;
    client.node.generation = 1;
    let (cursor, keys) = parse(&client.send(&format!("SCAN {cursor}")));
    all.extend(keys);
    let (cursor, keys) = parse(&client.send(&format!("SCAN {cursor}")));
    all.extend(keys);
    assert_eq!(cursor, "0");
    assert_eq!(all.into_iter().collect::<BTreeSet<String>>().len(), 20);
}

#[test]
fn one_call_is_bounded_whatever_it_asks_for() {
    let mut client = filled(SCAN_WORK_MAX + 10);
    let (cursor, keys) = parse(&client.send("SCAN 0 COUNT 9223372036854775807"));
    assert_eq!(keys.len(), SCAN_WORK_MAX as usize);
    assert_eq!(cursor, SCAN_WORK_MAX.to_string());
    // Where no counters are left, the reply lists few rather than passing by many.
    for at in 0..50 {
        client.send(&format!("DEL k{at}"));
    }
    let (cursor, keys) = parse(&client.send("SCAN 0 COUNT 3"));
    assert_eq!((cursor.as_str(), keys.len()), ("30", 0));
    let keys = "k".repeat(500);
    let mut client = Client::new(RespConfig::default());
    for at in 0..KEYS_BYTES_MAX / 500 {
        client.node.replicas[0]
            .add(&format!("{keys}{at}"), 1)
            .expect("room");
    }
    assert_eq!(
        client.send("KEYS k*"),
        "-ERR more keys match than one reply may hold; use SCAN|"
    );
    assert_eq!(client.send("KEYS x*"), "*0|");
}

#[test]
fn a_long_listing_gives_others_their_turns() {
    let mut client = filled(3 * TURN_WORK_MAX as u32);
    client.send("DEL k5");
    let before = client.session.commands();
    let (out, flow) = client.feed(&request("KEYS k*"));
    assert_eq!((out.len(), flow), (0, Flow::Turn));
    assert!(client.session.work() <= TURN_WORK_MAX + 10);
    assert!(client.session.heap_bytes() > TURN_WORK_MAX);
    // Commands that arrive meanwhile are answered after the scan. Other clients write in between.
    client.node.replicas[0]
        .transact(&[("k6".to_owned(), tallymesh_core::Op::Delete)])
        .expect("room");
    client.node.replicas[0].add("last", 1).expect("room");
    let (mut out, mut flow) = client.feed(b"PING\r\n");
    let mut turns = 2;
    while flow == Flow::Turn {
        let more = client.feed(b"");
        out.extend(more.0);
        (flow, turns) = (more.1, turns + 1);
    }
    assert!(turns >= 3, "{turns}");
    let answer = show(&out);
    assert!(answer.starts_with("*59998|") && answer.ends_with("|+PONG|"));
    assert!(!answer.contains("|k6|") && answer.contains("|k59999|"));
    assert_eq!(client.session.commands() - before, 2, "it is one command");
    // A pattern that takes longer to compare needs more turns for the same counters.
    client.feed(&request(&format!("KEYS {}b", "*1".repeat(200))));
    assert!(client.session.work() <= TURN_WORK_MAX + 10);
    let worst = format!("SCAN 0 COUNT 100000 MATCH *{}?x*", "k".repeat(3));
    let mut client = Client::new(RespConfig::default());
    for at in 0..5_000 {
        let key = format!("{}{at}", "k".repeat(400));
        client.node.replicas[0].add(&key, 1).expect("room");
    }
    let (cursor, _) = parse(&client.send(&worst));
    assert_ne!(cursor, "0", "it goes on in the next call");
    assert!(client.session.work() < 2 * TURN_WORK_MAX);
}

#[test]
fn patterns_are_bounded() {
    let mut client = Client::new(RespConfig::default());
    let long = "*".repeat(PATTERN_BYTES_MAX + 1);
    for sent in [
        "SCAN 0 MATCH",
        "KEYS",
        "CONFIG GET",
        "SUBSCRIBE",
        "PSUBSCRIBE",
    ] {
        assert_eq!(
            client.send(&format!("{sent} {long}")),
            "-ERR a channel or pattern has at most 1088 bytes, not 1089|",
            "{sent}"
        );
    }
    let fits = "*".repeat(PATTERN_BYTES_MAX);
    assert_eq!(client.send(&format!("KEYS {fits}")), "*0|");
}

#[test]
fn random_keys_exist_and_all_come_up() {
    let mut client = filled(200);
    for at in 0..200 {
        if at % 40 != 7 {
            client.send(&format!("DEL k{at}"));
        }
    }
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        seen.insert(client.send("RANDOMKEY"));
    }
    let wanted: BTreeSet<String> = [7, 47, 87, 127, 167]
        .iter()
        .map(|at| format!("k{at}"))
        .collect();
    let seen: BTreeSet<String> = seen
        .iter()
        .filter_map(|reply| reply.split('|').nth(1))
        .map(str::to_owned)
        .collect();
    assert_eq!(seen, wanted);
    // A single counter among many deleted ones is found too.
    let mut client = filled(20_000);
    for at in 0..20_000 {
        if at != 12_345 {
            client.node.replicas[0]
                .apply(&format!("k{at}"), tallymesh_core::Op::Delete)
                .expect("a key");
        }
    }
    assert_eq!(client.send("RANDOMKEY"), "$6|k12345|");
}

/// Many counters: more than one turn can go through.
fn crowded() -> Client {
    filled(TURN_WORK_MAX as u32 + 500)
}

#[test]
fn others_have_their_turn_between_commands_that_look_at_all_counters() {
    let mut client = crowded();
    let commands = 5;
    let mut flow = client.feed(&request("KEYS nomatch*").repeat(commands)).1;
    let mut turns = 1;
    while flow == Flow::Turn {
        let (done, work) = (client.session.commands(), client.session.work());
        assert!(done <= turns, "{done} in {turns} turns");
        assert!(work <= TURN_WORK_MAX + 10, "{work} in one turn");
        flow = client.feed(b"").1;
        turns += 1;
    }
    assert_eq!(client.session.commands(), commands as u64);
    assert!(
        turns > commands as u64,
        "each of them takes more than a turn"
    );
    // The work is counted, and not the commands: a turn executes many cheap ones.
    let (out, flow) = client.feed(&request("GET k1").repeat(1_000));
    assert_eq!((out.len(), flow), (1_000 * "$1\r\n1\r\n".len(), Flow::Open));
    // The work of a scan is the counters that it passes, and that of a read of many is each
    // counter. An answer costs by its length, and a ticket or password costs its check.
    let many = format!("MGET{}", " k".repeat(9_999));
    let named = "CLIENT SETNAME x".to_owned();
    for (command, most) in [
        ("SCAN 0 COUNT 5000", 5),
        (many.as_str(), 3),
        ("COMMAND", 200),
        ("AUTH default x", 11),
        (named.as_str(), 10_000),
    ] {
        let before = client.session.commands();
        let mut flow = client.feed(&request(command).repeat(200)).1;
        let first = client.session.commands() - before;
        assert!(first <= most, "{first} of {command} in one turn");
        let mut turns = 1;
        while flow != Flow::Open {
            flow = client.feed(b"").1;
            turns += 1;
        }
        assert_eq!(client.session.commands() - before, 200, "{command}");
        assert!(first == 200 || turns > 1, "{command}: {turns} turns");
    }
}

#[test]
fn info_puts_together_only_what_is_asked_for() {
    let mut client = filled(3);
    for section in [
        "server",
        "clients",
        "memory",
        "persistence",
        "stats",
        "replication",
        "tallymesh",
    ] {
        assert!(
            client.send(&format!("INFO {section}")).contains("|# "),
            "{section}"
        );
        assert_eq!(client.node.sized, 0, "{section}");
    }
    assert_eq!(client.send("INFO nothing"), "$0||");
    client.send("INFO keyspace");
    client.send("INFO");
    assert_eq!(client.node.sized, 4, "once for each space and time");
}
