use super::*;
use crate::random::Random;

fn node(workload: Workload, seed: u64) -> Node {
    let mut random = Random::new(seed);
    let interval_ms = 100;
    let config = Config {
        workload,
        interval_ms,
    };
    Node::new(config, Box::new(move || random.bytes()))
}

/// A node `id` of n1 and n2.
fn begun(id: &str) -> Node {
    let mut node = node(Workload::GrowAndShrink, id.bytes().map(u64::from).sum());
    let init = json!({"type": "init", "msg_id": 1, "node_id": id, "node_ids": ["n1", "n2"]});
    assert_eq!(ask(&mut node, init)["type"], "init_ok");
    node
}

/// All lines that a node prints now.
fn said(node: &mut Node) -> Vec<Said> {
    std::iter::from_fn(|| node.poll()).collect()
}

/// The messages that a node sends, without notes.
fn messages(node: &mut Node) -> Vec<Message> {
    let lines = said(node).into_iter().map(|said| match said {
        Said::Line(line) => Message::parse(&line).unwrap(),
        Said::Note(note) => panic!("{note}"),
    });
    lines.collect()
}

/// The answer to a client. It must be the first message that the node sends.
fn ask(node: &mut Node, body: Value) -> Value {
    let id = body["msg_id"].clone();
    node.line(0, &Message::new("c1", "n1", body).line());
    let Some(Said::Line(line)) = node.poll() else {
        panic!("no answer");
    };
    let answer = Message::parse(&line).unwrap();
    assert_eq!((&*answer.src, &*answer.dest), ("n1", "c1"));
    assert_eq!(answer.body["in_reply_to"], id);
    answer.body
}

fn value(node: &mut Node) -> i64 {
    let answer = ask(node, json!({"type": "read", "msg_id": 9}));
    assert_eq!(answer["type"], "read_ok");
    answer["value"].as_i64().unwrap()
}

/// The code of the error with which the node rejects a message with this body.
fn code(node: &mut Node, body: &str) -> u64 {
    let line = format!(r#"{{"src":"c1","dest":"n1","body":{body}}}"#);
    node.line(0, &line);
    let Some(Said::Line(line)) = node.poll() else {
        panic!("no answer to {body}");
    };
    let answer = Message::parse(&line).unwrap().body;
    assert_eq!(answer["type"], "error", "{body}: {answer}");
    answer["code"].as_u64().unwrap()
}

#[test]
fn adds_count_and_reads_tell_their_sum() {
    let mut node = begun("n1");
    assert_eq!(value(&mut node), 0);
    for (delta, sum) in [(5, 5), (-7, -2), (0, -2)] {
        let add = json!({"type": "add", "msg_id": 4, "delta": delta});
        assert_eq!(
            ask(&mut node, add),
            json!({"type": "add_ok", "in_reply_to": 4})
        );
        assert_eq!(value(&mut node), sum);
    }
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let mut node = begun("n1");
    ask(&mut node, json!({"type": "add", "msg_id": 2, "delta": 3}));
    for (body, expected) in [
        (r#"{"type":"add","msg_id":3,"delta":0.5}"#, 12),
        (r#"{"type":"add","msg_id":3,"delta":1.0}"#, 12),
        (r#"{"type":"add","msg_id":3,"delta":1e2}"#, 12),
        (
            r#"{"type":"add","msg_id":3,"delta":9223372036854775808}"#,
            12,
        ),
        (
            r#"{"type":"add","msg_id":3,"delta":-9223372036854775809}"#,
            12,
        ),
        (
            r#"{"type":"add","msg_id":3,"delta":123456789012345678901234567890}"#,
            12,
        ),
        (r#"{"type":"add","msg_id":3,"delta":"1"}"#, 12),
        (r#"{"type":"add","msg_id":3,"delta":null}"#, 12),
        (r#"{"type":"add","msg_id":3}"#, 12),
        (r#"{"msg_id":3}"#, 12),
        (r#"{"type":7,"msg_id":3}"#, 12),
        (
            r#"{"type":"init","msg_id":3,"node_id":"n2","node_ids":["n1","n2"]}"#,
            12,
        ),
        (r#"{"type":"init","msg_id":3,"node_ids":["n1","n2"]}"#, 12),
        (
            r#"{"type":"init","msg_id":3,"node_id":"n1","node_ids":["n1",2]}"#,
            12,
        ),
        (r#"{"type":"topology","msg_id":3}"#, 10),
        // The node's own total would leave 64 bits.
        (
            r#"{"type":"add","msg_id":3,"delta":9223372036854775807}"#,
            14,
        ),
    ] {
        assert_eq!(code(&mut node, body), expected, "{body}");
        assert_eq!(value(&mut node), 3, "{body}");
    }
    let most = json!({"type": "add", "msg_id": 3, "delta": i64::MAX - 3});
    assert_eq!(ask(&mut node, most)["type"], "add_ok");
    assert_eq!(value(&mut node), i64::MAX);
}

#[test]
fn a_counter_that_only_grows_refuses_less_than_0() {
    let mut node = node(Workload::Grow, 3);
    let init = json!({"type": "init", "msg_id": 1, "node_id": "n1", "node_ids": ["n1"]});
    ask(&mut node, init);
    for (delta, kind) in [
        (-1, "error"),
        (i64::MIN, "error"),
        (0, "add_ok"),
        (2, "add_ok"),
    ] {
        let add = json!({"type": "add", "msg_id": 2, "delta": delta});
        assert_eq!(ask(&mut node, add)["type"], kind, "{delta}");
    }
    assert_eq!(value(&mut node), 2);
}

#[test]
fn before_init_nothing_is_counted() {
    let mut node = node(Workload::GrowAndShrink, 3);
    assert_eq!(
        code(&mut node, r#"{"type":"add","msg_id":1,"delta":1}"#),
        11
    );
    assert_eq!(code(&mut node, r#"{"type":"read","msg_id":2}"#), 11);
    assert_eq!(node.next_deadline(), None);
    for _ in 0..2 {
        // The second `init` is repeated, because its answer may have been lost.
        let init = json!({"type": "init", "msg_id": 1, "node_id": "n1", "node_ids": ["n1", "n2"]});
        assert_eq!(ask(&mut node, init)["type"], "init_ok");
    }
    assert_eq!(value(&mut node), 0);
}

#[test]
fn what_cannot_be_answered_is_noted_and_not_done() {
    let mut node = begun("n1");
    let before = value(&mut node);
    for line in [
        "",
        "no JSON",
        "[1]",
        r#"{"src":"c1","dest":"n1"}"#,
        r#"{"src":"c1","dest":"n1","body":[]}"#,
        r#"{"dest":"n1","body":{"type":"add","msg_id":1,"delta":1}}"#,
        r#"{"src":"c1","dest":"n1","body":{"type":"add","delta":1}}"#,
        r#"{"src":"c1","dest":"n1","body":{"type":"add","msg_id":"1","delta":1}}"#,
        r#"{"src":"n3","dest":"n1","body":{"type":"frame","number":0,"heard":false}}"#,
        r#"{"src":"n2","dest":"n1","body":{"type":"frame","heard":false}}"#,
        r#"{"src":"n2","dest":"n1","body":{"type":"frame","number":0,"hello":"?"}}"#,
    ] {
        said(&mut node);
        node.line(0, line);
        let said = said(&mut node);
        assert!(matches!(said[..], [Said::Note(_)]), "{line}: {said:?}");
    }
    assert_eq!(value(&mut node), before);
}

#[test]
fn a_sum_of_more_than_64_bits_is_refused_and_not_cut() {
    let mut nodes = [begun("n1"), begun("n2")];
    for node in &mut nodes {
        let add = json!({"type": "add", "msg_id": 2, "delta": i64::MAX});
        node.line(0, &Message::new("c1", "n1", add).line());
    }
    exchange(&mut nodes, 0..2_000, |_| true);
    assert_eq!(code(&mut nodes[0], r#"{"type":"read","msg_id":3}"#), 14);
    let add = json!({"type": "add", "msg_id": 4, "delta": -i64::MAX});
    ask(&mut nodes[0], add);
    assert_eq!(value(&mut nodes[0]), i64::MAX);
}

/// Lets time pass for both nodes. Messages get through if `lets` returns true for their count.
fn exchange(
    nodes: &mut [Node; 2],
    time: std::ops::Range<u64>,
    mut lets: impl FnMut(usize) -> bool,
) {
    let mut count = 0;
    for now in time {
        for at in 0..2 {
            if nodes[at].next_deadline().is_some_and(|due| due <= now) {
                nodes[at].tick(now);
            }
            for message in messages(&mut nodes[at]) {
                if message.dest.starts_with('c') {
                    continue;
                }
                count += 1;
                if lets(count) {
                    nodes[1 - at].line(now, &message.line());
                }
            }
        }
    }
}

#[test]
fn a_node_is_silent_until_it_is_known_that_all_have_begun() {
    let mut nodes = [begun("n1"), begun("n2")];
    exchange(&mut nodes, 0..1_000, |_| panic!("a message"));
    let mut count = 0;
    // One node gets a request, and the other receives a message because of it.
    value(&mut nodes[0]);
    exchange(&mut nodes, 1_000..2_000, |at| {
        count = at;
        true
    });
    assert!(count >= 2, "{count} messages");
}

#[test]
fn nodes_meet_though_the_first_messages_get_lost() {
    for lost in 0..12 {
        let mut nodes = [begun("n1"), begun("n2")];
        for (at, delta) in [(0, 5), (1, 70)] {
            let add = json!({"type": "add", "msg_id": 2, "delta": delta});
            nodes[at].line(0, &Message::new("c1", "n1", add).line());
        }
        exchange(&mut nodes, 0..2_500, |at| at > lost);
        let values = nodes.each_mut().map(value);
        assert_eq!(values, [75, 75], "{lost} lost");
    }
}

#[test]
fn a_node_that_was_started_again_is_heard() {
    let mut nodes = [begun("n1"), begun("n2")];
    let add = json!({"type": "add", "msg_id": 2, "delta": 5});
    ask(&mut nodes[0], add.clone());
    exchange(&mut nodes, 0..1_000, |_| true);
    nodes[1] = node(Workload::GrowAndShrink, 99);
    let init = json!({"type": "init", "msg_id": 1, "node_id": "n2", "node_ids": ["n1", "n2"]});
    nodes[1].line(1_000, &Message::new("c1", "n2", init).line());
    nodes[1].line(1_000, &Message::new("c1", "n2", add).line());
    exchange(&mut nodes, 1_000..3_000, |_| true);
    assert_eq!(nodes.each_mut().map(value), [10, 10]);
}

#[test]
fn a_frame_that_is_refused_ends_its_link_and_the_next_one_serves() {
    let mut nodes = [begun("n1"), begun("n2")];
    let add = json!({"type": "add", "msg_id": 2, "delta": 5});
    ask(&mut nodes[0], add.clone());
    exchange(&mut nodes, 0..1_000, |_| true);
    let broken = json!({"type": FRAME, "number": 0, "heard": true, "frame": "AAAA"});
    let broken = Message::new("n2", "n1", broken).line();
    nodes[0].line(1_000, &broken);
    let noted = said(&mut nodes[0]);
    assert!(matches!(noted[..], [Said::Note(_)]), "{noted:?}");
    nodes[1].line(1_000, &Message::new("c1", "n2", add).line());
    exchange(&mut nodes, 1_000..3_000, |_| true);
    assert_eq!(nodes.each_mut().map(value), [10, 10]);
    // The node ignores a late message on the closed link.
    nodes[0].line(3_000, &broken);
    assert_eq!(said(&mut nodes[0]), []);
    nodes[0].tick(4_000);
    let sent = messages(&mut nodes[0]);
    let on_next = |message: &Message| message.body["number"] == 1;
    assert!(!sent.is_empty() && sent.iter().all(on_next), "{sent:?}");
}
