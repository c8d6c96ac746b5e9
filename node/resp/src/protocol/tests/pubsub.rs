//! Subscriptions and their messages.

use super::*;
use crate::protocol::limits::*;
use tallymesh_node_ground::model::{Event, Notice};

fn notify(client: &Client, space: usize, key: &str, event: Event) -> String {
    let mut out = Vec::new();
    client
        .session
        .hear(&Notice::new(space, key, event), &mut out);
    show(&out)
}

#[test]
fn subscriptions_are_confirmed_as_in_redis() {
    play(
        &RespConfig::default(),
        &[
            (
                "UNSUBSCRIBE",
                "*3|$11|unsubscribe|$-1|:0|",
                ">3|$11|unsubscribe|_|:0|",
            ),
            (
                "PUNSUBSCRIBE",
                "*3|$12|punsubscribe|$-1|:0|",
                ">3|$12|punsubscribe|_|:0|",
            ),
            (
                "UNSUBSCRIBE x",
                "*3|$11|unsubscribe|$1|x|:0|",
                ">3|$11|unsubscribe|$1|x|:0|",
            ),
            (
                "SUBSCRIBE a b",
                "*3|$9|subscribe|$1|a|:1|*3|$9|subscribe|$1|b|:2|",
                ">3|$9|subscribe|$1|a|:1|>3|$9|subscribe|$1|b|:2|",
            ),
            (
                "SUBSCRIBE a",
                "*3|$9|subscribe|$1|a|:2|",
                ">3|$9|subscribe|$1|a|:2|",
            ),
            (
                "PSUBSCRIBE c*",
                "*3|$10|psubscribe|$2|c*|:3|",
                ">3|$10|psubscribe|$2|c*|:3|",
            ),
            (
                "GET a",
                "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context|",
                "_|",
            ),
            ("PING", "*2|$4|pong|$0||", "+PONG|"),
            ("PING hi", "*2|$4|pong|$2|hi|", "$2|hi|"),
            (
                "UNSUBSCRIBE a",
                "*3|$11|unsubscribe|$1|a|:2|",
                ">3|$11|unsubscribe|$1|a|:2|",
            ),
            (
                "UNSUBSCRIBE",
                "*3|$11|unsubscribe|$1|b|:1|",
                ">3|$11|unsubscribe|$1|b|:1|",
            ),
            (
                "PUNSUBSCRIBE",
                "*3|$12|punsubscribe|$2|c*|:0|",
                ">3|$12|punsubscribe|$2|c*|:0|",
            ),
            ("GET a", "$-1|", "_|"),
            ("PING", "+PONG|", ""),
            (
                "SUBSCRIBE a",
                "*3|$9|subscribe|$1|a|:1|",
                ">3|$9|subscribe|$1|a|:1|",
            ),
            ("RESET", "+RESET|", ""),
            ("GET a", "$-1|", ""),
        ],
    );
}

#[test]
fn messages_come_for_channels_and_patterns() {
    for (resp3, sign) in [(false, '*'), (true, '>')] {
        let mut client = Client::new(RespConfig::default());
        client.session.resp3 = resp3;
        assert_eq!(notify(&client, 0, "a", Event::IncrBy), "");
        client.send("SUBSCRIBE __keyspace@0__:a __keyevent@0__:del");
        client.send("PSUBSCRIBE __key*@1__:*");
        assert!(client.session.is_subscribed());
        for (space, key, event, messages) in [
            (0, "b", Event::IncrBy, String::new()),
            (
                0,
                "a",
                Event::IncrBy,
                format!("{sign}3|$7|message|$16|__keyspace@0__:a|$6|incrby|"),
            ),
            (
                0,
                "a",
                Event::Del,
                format!(
                    "{sign}3|$7|message|$16|__keyspace@0__:a|$3|del|{sign}3|$7|message|$18|__keyevent@0__:del|$1|a|"
                ),
            ),
            (
                1,
                "a",
                Event::Merge,
                format!(
                    "{sign}4|$8|pmessage|$12|__key*@1__:*|$16|__keyspace@1__:a|$5|merge|{sign}4|$8|pmessage|$12|__key*@1__:*|$20|__keyevent@1__:merge|$1|a|"
                ),
            ),
        ] {
            assert_eq!(notify(&client, space, key, event), messages);
        }
        client.send("UNSUBSCRIBE");
        client.send("PUNSUBSCRIBE");
        assert!(!client.session.is_subscribed());
        assert_eq!(notify(&client, 0, "a", Event::Del), "");
    }
}

#[test]
fn subscriptions_are_bounded() {
    let mut client = Client::new(RespConfig::default());
    let names: String = (0..SUBSCRIPTIONS_MAX).map(|at| format!(" c{at}")).collect();
    let full =
        "-ERR a connection has at most 1024 channels and patterns; use a pattern for several keys|";
    assert_eq!(client.send(&format!("SUBSCRIBE{names} more")), full);
    assert!(!client.session.is_subscribed());
    assert!(
        client
            .send(&format!("SUBSCRIBE{names}"))
            .ends_with(":1024|")
    );
    assert_eq!(client.send("PSUBSCRIBE more"), full);
    client.send("UNSUBSCRIBE c0");
    assert!(client.send("PSUBSCRIBE more").ends_with(":1024|"));
    let mut client = Client::new(RespConfig::default());
    let long = "x".repeat(PATTERN_BYTES_MAX + 1);
    assert_eq!(
        client.send(&format!("PSUBSCRIBE a {long}")),
        "-ERR a channel or pattern has at most 1088 bytes, not 1089|"
    );
    assert!(!client.session.is_subscribed());
}

#[test]
fn the_bytes_of_all_subscriptions_are_bounded() {
    let mut client = Client::new(RespConfig::default());
    let name = |at: usize| format!("{at:04}{}", "x".repeat(1_020));
    let names: String = (0..128).map(|at| format!(" {}", name(at))).collect();
    assert!(
        client
            .send(&format!("PSUBSCRIBE{names}"))
            .ends_with(":128|")
    );
    let full = "-ERR the channels and patterns of a connection have at most 131072 bytes together, \
                and these would have 131073; use a pattern for several keys|";
    assert_eq!(client.send("PSUBSCRIBE a"), full);
    client.session.resp3 = true;
    assert_eq!(client.send("SUBSCRIBE a"), full);
    client.send(&format!("PUNSUBSCRIBE {}", name(5)));
    assert!(client.send("SUBSCRIBE a").ends_with(":128|"));
    // The bytes of patterns are counted together with the other memory of the connection.
    assert!(client.session.heap_bytes() > SUBSCRIPTION_BYTES_MAX);
    client.send("PUNSUBSCRIBE");
    client.send("UNSUBSCRIBE");
    assert!(client.session.heap_bytes() < SUBSCRIPTION_BYTES_MAX / 2);
}

#[test]
fn an_event_of_many_patterns_is_told_in_turns() {
    let mut client = Client::new(RespConfig::default());
    let names: String = (0..100).map(|at| format!(" *[^{at:03}]a")).collect();
    client.send(&format!("PSUBSCRIBE{names}"));
    client.send("SUBSCRIBE __keyspace@0__:aa");
    let notice = Notice::new(0, "aa", Event::Del);
    let mut whole = Vec::new();
    client.session.hear(&notice, &mut whole);
    let (mut parts, mut midway, mut turns) = (Vec::new(), Midway::default(), 1);
    while !client
        .session
        .notify(&notice, &mut midway, (&mut 0, 500), &mut parts)
    {
        turns += 1;
        assert!(turns < 1_000, "it begins again each time");
    }
    assert_eq!(show(&parts), show(&whole));
    assert_eq!(midway, Midway::default());
    assert!(turns > 5, "{turns}");
}
