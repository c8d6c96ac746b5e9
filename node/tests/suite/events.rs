//! Readers of events that reconnect, and what they are told.

use crate::process::{Node, agent, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Read};

/// One event, or an id without one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerEvent {
    id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: Option<Value>,
}

pub(crate) struct Stream {
    lines: Lines<BufReader<Box<dyn Read>>>,
    /// The last id that came.
    pub(crate) id: Option<String>,
}

impl Stream {
    pub(crate) fn open(node: &Node, query: &str, last: Option<&str>) -> Stream {
        let mut request = agent().get(format!("{}/v1/spaces/default/events{query}", node.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.call().expect("a stream");
        assert_eq!(response.status(), 200);
        let body: Box<dyn Read> = Box::new(response.into_body().into_reader());
        Stream {
            lines: BufReader::new(body).lines(),
            id: None,
        }
    }

    pub(crate) fn next(&mut self) -> ServerEvent {
        let mut told = ServerEvent::default();
        loop {
            let line = self
                .lines
                .next()
                .expect("the stream goes on")
                .expect("a line");
            match line.split_once(": ") {
                Some(("id", id)) => told.id = Some(id.to_owned()),
                Some(("event", name)) => told.name = Some(name.to_owned()),
                Some(("data", data)) => told.data = serde_json::from_str(data).ok(),
                _ if line.is_empty() && told != ServerEvent::default() => break,
                _ => {}
            }
        }
        self.id = told.id.clone().or(self.id.take());
        told
    }

    /// The counters that are told of, up to this one.
    fn until(&mut self, last: &str) -> Vec<Value> {
        let mut told = Vec::new();
        while told.last().is_none_or(|it: &Value| it["key"] != last) {
            told.extend(self.next().data);
        }
        told
    }
}

fn value(told: &[Value], key: &str) -> Option<Value> {
    let of = told.iter().filter(|it| it["key"] == key);
    of.map(|it| it["value"].clone()).next_back()
}

/// Adds counters so that the next ones are kept elsewhere than the ones before.
fn fill(node: &Node, name: &str) {
    let lines: String = (0..128).map(|n| format!("{name}{n}\n")).collect();
    assert_eq!(node.post("/v1/spaces/default/add", &lines).0, 200);
}

#[test]
fn who_comes_back_is_told_of_what_changed_meanwhile() {
    let node = Node::start(&[]);
    for key in ["old", "c"] {
        node.add(key, 1);
    }
    fill(&node, "fill");
    node.add("late", 1);
    let mut stream = Stream::open(&node, "", None);
    let first = stream.next();
    assert!(first.id.is_some() && first.data.is_none(), "{first:?}");
    node.add("late", 1);
    assert_eq!(value(&stream.until("late"), "late"), Some(json!("2")));
    let last = stream.id.clone().expect("an id");
    drop(stream);

    // From the id of the last event nothing is told that was told before.
    let mut stream = Stream::open(&node, "", Some(&last));
    let again = stream.next();
    assert!(again.data.is_none(), "{again:?}");
    drop(stream);

    node.add("late", 5);
    node.add("new", 7);
    assert_eq!(node.delete("/v1/spaces/default/counters/late").0, 200);
    let since = format!("?since={last}");
    for (query, header, key) in [
        ("", Some(last.as_str()), "next"),
        (since.as_str(), None, "after"),
    ] {
        let mut stream = Stream::open(&node, query, header);
        let mut told = Vec::new();
        while value(&told, "late").is_none() || value(&told, "new").is_none() {
            let next = stream.next();
            assert_eq!(next.name, None);
            told.extend(next.data);
        }
        assert_eq!(value(&told, "late"), Some(json!(null)));
        assert_eq!(value(&told, "new"), Some(json!("7")));
        assert_eq!(value(&told, "old"), None, "it did not change");
        // Then the news.
        node.add(key, 1);
        assert_eq!(value(&stream.until(key), key), Some(json!("1")));
        assert!(stream.id.is_some_and(|id| id != last));
    }
    // The header goes before the address, which a browser can't change when it reconnects.
    let mut stream = Stream::open(&node, &since, Some("nonsense"));
    assert_eq!(stream.next().name.as_deref(), Some("skipped"));
}

#[test]
fn who_can_t_be_told_is_told_all() {
    let mut node = Node::start(&["--space", "default", "other"]);
    node.add("gone", 1);
    node.add("stays", 2);
    let mut stream = Stream::open(&node, "", None);
    stream.next();
    let id = stream.id.expect("an id");
    // That of another space is none of this one's.
    let url = format!("{}/v1/spaces/other/events?since={id}", node.url);
    let response = agent().get(url).call().expect("a stream");
    let mut lines = BufReader::new(response.into_body().into_reader()).lines();
    assert!(lines.any(|line| line.expect("a line") == "event: skipped"));

    node.delete("/v1/spaces/default/counters/gone");
    assert!(node.terminate().success());
    node.start_again();
    let mut stream = Stream::open(&node, "", Some(&id));
    let skipped = stream.next();
    assert_eq!(skipped.name.as_deref(), Some("skipped"), "{skipped:?}");
    assert_eq!(
        stream.until("stays"),
        [json!({"key": "stays", "value": "2"})]
    );
    let up_to = stream.next();
    assert!(up_to.data.is_none() && up_to.id.is_some_and(|up_to| up_to != id));
    // Of one key, also that it is absent.
    let mut stream = Stream::open(&node, "?key=gone", Some(&id));
    assert_eq!(stream.next().name.as_deref(), Some("skipped"));
    assert_eq!(
        stream.until("gone"),
        [json!({"key": "gone", "value": null})]
    );
}

#[test]
fn what_was_dropped_meanwhile_is_not_missed() {
    let node = Node::start(&[]);
    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    node.add("gone", 1);
    node.add("stays", 2);
    let mut stream = Stream::open(&node, "", None);
    stream.next();
    let id = stream.id.clone().expect("an id");
    drop(stream);
    node.delete("/v1/spaces/default/counters/gone");
    eventually("nothing is left of it", || {
        let shards = node.space()["shards"].as_u64().expect("a number");
        (shards == 1).then_some(())
    });
    let mut stream = Stream::open(&node, "", Some(&id));
    assert_eq!(stream.next().name.as_deref(), Some("skipped"));
    assert_eq!(
        stream.until("stays"),
        [json!({"key": "stays", "value": "2"})]
    );
}

#[test]
fn a_prefix_tells_which_counters_matter() {
    let node = Node::start(&[]);
    let mut stream = Stream::open(&node, "?prefix=a%2F", None);
    stream.next();
    for key in ["b", "a%2Fx", "ab", "a%2Fy"] {
        node.add(key, 1);
    }
    let told = stream.until("a/y");
    assert!(
        told.iter()
            .all(|it| it["key"].as_str().is_some_and(|key| key.starts_with("a/")))
    );
    let id = stream.id.clone().expect("an id");
    drop(stream);
    for key in ["b", "a%2Fx"] {
        node.add(key, 1);
    }
    let mut stream = Stream::open(&node, "?prefix=a%2F", Some(&id));
    let told = stream.until("a/x");
    assert_eq!(value(&told, "a/x"), Some(json!("2")));
    assert!(value(&told, "b").is_none());
    let mut stream = Stream::open(&node, "?prefix=a%2F", Some("nonsense"));
    assert_eq!(stream.next().name.as_deref(), Some("skipped"));
    let told = stream.until("a/y");
    assert_eq!(told.len(), 2, "{told:?}");
}
