//! What the network counts, what it lets peers take, and what nodes tell each other.

use crate::liar::Liar;
use crate::process::{Node, agent, eventually, read};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tallymesh_node::clock::WallClock;
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::node;
use tallymesh_node::store::Memory;

/// A figure of a node, 0 if it is not there.
pub(crate) fn figure(url: &str, name: &str) -> f64 {
    let answer = agent().get(format!("{url}/metrics")).call();
    let (_, text) = read(answer.expect("an answer"));
    let text = text.as_str().expect("text");
    let values = text.lines().filter_map(|line| line.strip_prefix(name));
    let values = values.map(|value| value.trim().parse::<f64>().expect("a number"));
    values.sum()
}

pub(crate) fn refused(url: &str, reason: &str) -> f64 {
    let name = format!("tallymesh_network_refused_total{{reason=\"{reason}\"}}");
    figure(url, &name)
}

/// The row of a node among another's peers, once it tells about itself.
fn told(url: &str, peer: &str) -> Value {
    eventually("it tells about itself", || {
        let row = row(url, peer)?;
        row["node"]["about"].is_object().then_some(row)
    })
}

fn row(url: &str, peer: &str) -> Option<Value> {
    let answer = agent().get(format!("{url}/v1/peers")).call();
    let (_, answer) = read(answer.expect("an answer"));
    let rows = answer["peers"].as_array().expect("a list");
    rows.iter().find(|row| row["peer"] == peer).cloned()
}

/// Starts a node in this process.
pub(crate) async fn start(change: impl FnOnce(&mut Config)) -> (node::Node, String) {
    let args = UpArgs {
        data: Some("unused".into()),
        http: Some("127.0.0.1:0".into()),
        ..UpArgs::default()
    };
    let mut config = args.config().expect("a valid configuration");
    change(&mut config);
    let node = node::Node::start_on(Box::new(Memory::default()), config).await;
    let node = node.expect("start");
    let url = format!("http://{}", node.http());
    (node, url)
}

#[test]
fn messages_are_counted_by_protocol_space_and_peer() {
    let one = Node::start(&["--space", "default", "idle"]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    one.add("likes", 1);
    eventually("it arrived", || two.value("likes"));
    // A push, once they know of each other: sync may have been faster with the first.
    eventually("a push came", || {
        one.add("likes", 1);
        let fresh = figure(&two.url, "tallymesh_network_pushes_fresh_total");
        (fresh > 0.0).then_some(())
    });
    for node in [&one, &two] {
        for direction in ["in", "out"] {
            let of = |what: &str, label: &str| {
                let name =
                    format!("tallymesh_network_{what}_total{{{label},direction=\"{direction}\"}}");
                figure(&node.url, &name)
            };
            assert!(of("messages", "protocol=\"sync\"") > 0.0, "{direction}");
            assert!(
                of("space_messages", "space=\"default\"") > 0.0,
                "{direction}"
            );
            let bytes = of("space_bytes", "space=\"default\"");
            let most = of("bytes", "protocol=\"sync\"") + of("bytes", "protocol=\"push\"");
            assert!(bytes > 0.0 && bytes <= most, "{bytes} of {most}");
            let transport = match direction {
                "in" => "Inbound",
                _ => "Outbound",
            };
            let all = format!(
                "tallymesh_libp2p_bandwidth_bytes_total{{protocols=\"/ip4/tcp\",direction=\"{transport}\"}}"
            );
            let all = figure(&node.url, &all)
                .max(figure(&node.url, &all.replace("/ip4/tcp", "/ip4/tcp/p2p")));
            assert!(all > bytes, "{all} over all of {bytes}");
        }
    }
    let pushes = figure(
        &two.url,
        "tallymesh_network_messages_total{protocol=\"push\",direction=\"in\"}",
    );
    let fresh = figure(&two.url, "tallymesh_network_pushes_fresh_total");
    assert!(fresh > 0.0 && fresh <= pushes, "{fresh} of {pushes}");
    let row = row(&two.url, &one.peer_id).expect("a row");
    let traffic = &row["node"]["traffic"];
    for field in ["messages_in", "bytes_in", "messages_out", "bytes_out"] {
        assert!(traffic["sync"][field].as_u64() > Some(0), "{traffic}");
    }
    assert!(traffic["push"]["bytes_in"].as_u64() > Some(0), "{traffic}");
    let text = one.get("/metrics").1.as_str().expect("text").to_owned();
    let idle = text
        .lines()
        .find(|line| line.contains("network_space") && line.contains("idle"));
    // The other sends a hello only in spaces that it has, so there is nothing of it but this node's hello.
    assert!(
        idle.is_none_or(|line| line.contains("\"out\"") || line.ends_with(" 0")),
        "{idle:?}"
    );
}

#[test]
fn nodes_tell_each_other_their_version_and_clock() {
    let one = Node::start(&[]);
    let two = Node::start(&["--peer", &one.listen[1]]);
    for (node, other) in [(&one, &two), (&two, &one)] {
        let about = told(&node.url, &other.peer_id)["node"]["about"].clone();
        assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
        let offset = about["clock_offset_ms"].as_i64().expect("a number");
        let error = about["clock_error_ms"].as_i64().expect("a number");
        assert!(offset.abs() <= error, "{about}");
        assert!(about["rtt_us"].as_u64() > Some(0), "{about}");
        assert!(about["uptime_ms"].as_u64() > Some(0), "{about}");
        assert!(
            about["disk_free_percent"].is_number() || !cfg!(unix),
            "{about}"
        );
    }
    let shown = one.run(&["peers"], "").stdout;
    let shown = String::from_utf8(shown).expect("text");
    let version = format!("version {}, clock ", env!("CARGO_PKG_VERSION"));
    assert!(
        shown.contains(&version) && shown.contains("round trip"),
        "{shown}"
    );
    let lines = one.run(&["peers", "--json"], "").stdout;
    let line: Value = serde_json::from_slice(&lines).expect("JSON");
    assert_eq!(line["node"]["about"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_shows() {
    const AHEAD_MS: u64 = 300_000;
    let (one, url) = start(|config| {
        config.clock = WallClock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.expect("after 1970").as_millis() as u64 + AHEAD_MS
        });
    })
    .await;
    let peer = one.listen()[0].parse().expect("an address");
    let (two, other) = start(|config| config.gossip.peers = vec![peer]).await;
    for (url, peer, sign) in [(&other, one.peer_id(), 1), (&url, two.peer_id(), -1)] {
        let about = tokio::task::block_in_place(|| told(url, peer));
        let about = &about["node"]["about"];
        let offset = about["clock_offset_ms"].as_i64().expect("a number");
        let error = about["clock_error_ms"].as_i64().expect("a number");
        let off = (offset - sign * AHEAD_MS as i64).abs();
        assert!(off <= error, "{about}");
    }
}

#[test]
fn what_a_peer_tells_may_be_anything() {
    let node = Node::start(&[]);
    let huge = vec![b' '; 1 << 20];
    let deep = "[".repeat(1000).into_bytes();
    let nonsense: [&[u8]; 4] = [
        b"",
        &huge,
        &deep,
        b"{\"version\":\"\\u0007\",\"clock_ms\":1,\"uptime_ms\":1}",
    ];
    let liars = nonsense.map(|about| Liar::meet(&node.listen[0], about.to_vec()));
    let extreme = json!({"version": "9", "clock_ms": u64::MAX, "uptime_ms": u64::MAX, "disk_free_percent": 101});
    let extreme = Liar::meet(&node.listen[0], extreme.to_string().into_bytes());
    let row = told(&node.url, &extreme.peer_id());
    assert_eq!(row["node"]["about"]["clock_offset_ms"], (1u64 << 53) - 1);
    assert_eq!(row["node"]["about"].get("disk_free_percent"), None);
    eventually("its clock is warned of", || {
        node.log()
            .contains("counters expire by these clocks")
            .then_some(())
    });
    for liar in &liars {
        let asked = eventually("it is asked", || {
            let row = self::row(&node.url, &liar.peer_id())?;
            let about = &row["node"]["traffic"]["about"];
            (about["messages_out"].as_u64() > Some(0)).then_some(row)
        });
        assert_eq!(asked["node"].get("about"), None, "{asked}");
    }
    node.add("likes", 1);
    assert_eq!(node.value("likes"), Some(1));
}

#[test]
fn strangers_leave_room_for_those_that_are_dialled() {
    let member = Node::start(&[]);
    let node = Node::start(&[
        "--connections",
        "1",
        "--peer",
        &member.listen[0],
        "--connections-in",
        "1",
    ]);
    eventually("the configured peer is there", || {
        row(&node.url, &member.peer_id)
    });
    let first = Liar::start(&node);
    eventually("the first stranger is let in", || {
        row(&node.url, &first.peer_id())
    });
    let second = Liar::start(&node);
    eventually("the second one is not", || {
        (refused(&node.url, "incoming") > 0.0).then_some(())
    });
    assert!(row(&node.url, &second.peer_id()).is_none());
    eventually("it is logged", || {
        let log = node.log();
        (log.contains("--connections-in allows") && log.contains(&second.peer_id())).then_some(())
    });
    node.add("likes", 1);
    eventually("the configured peer is served", || member.value("likes"));
    drop(first);
    let third = eventually("there is room again", || {
        let third = Liar::start(&node);
        let deadline = std::time::Instant::now() + Duration::from_secs(1);
        while std::time::Instant::now() < deadline {
            if row(&node.url, &third.peer_id()).is_some() {
                return Some(third);
            }
        }
        None
    });
    drop(third);
}

#[test]
fn members_are_let_in_whatever_others_there_are() {
    let mut two = Node::start(&[]);
    let mut one = Node::start(&["--peer", &two.listen[0]]);
    let members = "/v1/spaces/default/members";
    assert_eq!(one.post(&format!("{members}/init"), "").0, 200);
    eventually("they are linked", || row(&one.url, &two.peer_id));
    let owner = two.get("/v1/status").1["owner"].clone();
    let add = json!({"owner": owner, "wait_ms": 10000}).to_string();
    let (status, answer) = one.post(&format!("{members}/add"), &add);
    assert_eq!(status, 200, "{answer}");
    eventually("the second one knows of it", || {
        let (_, answer) = two.get(members);
        (answer["members"].as_array()?.len() == 2).then_some(())
    });
    one.terminate();
    two.terminate();
    one.start_again_with(["--connections-in", "0"].map(str::to_owned).to_vec());
    let stranger = Liar::start(&one);
    eventually("strangers are not let in", || {
        (refused(&one.url, "incoming") > 0.0).then_some(())
    });
    assert!(row(&one.url, &stranger.peer_id()).is_none());
    two.start_again_with(vec!["--peer".into(), one.listen[0].clone()]);
    eventually("a member is", || row(&one.url, &two.peer_id));
}

#[test]
fn who_connects_too_often_waits() {
    let node = Node::start(&["--connect-rate", "1/s:1"]);
    let mut liars = Vec::new();
    eventually("one is refused", || {
        liars.push(Liar::start(&node));
        (refused(&node.url, "arrivals") > 0.0).then_some(())
    });
    eventually("the first is let in", || {
        (!node.peers().is_empty() || liars.len() < 2).then_some(())
    });
}

#[test]
fn a_node_that_takes_too_much_memory_lets_nobody_in() {
    let node = Node::start(&["--memory-max", "1MiB"]);
    let _liar = Liar::start(&node);
    eventually("it is refused", || {
        (refused(&node.url, "memory") > 0.0).then_some(())
    });
    assert!(node.peers().is_empty());
}

#[test]
fn a_peer_that_sends_too_much_is_slowed_and_nothing_is_lost() {
    let one = Node::start(&["--peer-frames", "20/s:1"]);
    let two = Node::start(&["--peer", &one.listen[0]]);
    two.add("likes", 1);
    eventually("its frames wait", || {
        two.add("likes", 1);
        (figure(&one.url, "tallymesh_network_slowed_total") > 0.0).then_some(())
    });
    eventually("all arrives", || {
        let same = one.space()["digest"] == two.space()["digest"];
        same.then_some(())
    });
    assert_eq!(one.value("likes"), two.value("likes"));
    assert_eq!(refused(&one.url, "flood"), 0.0);
    assert!(row(&one.url, &two.peer_id).is_some());
}

#[test]
fn a_peer_that_does_not_wait_is_cut_off() {
    let node = Node::start(&["--peer-frames", "1/s:1"]);
    let good = Node::start(&["--peer", &node.listen[0]]);
    let liar = Liar::start(&node);
    eventually("it is connected", || row(&node.url, &liar.peer_id()));
    liar.flood(50);
    eventually("it is cut off", || {
        (refused(&node.url, "flood") > 0.0 && row(&node.url, &liar.peer_id()).is_none())
            .then_some(())
    });
    node.add("likes", 1);
    eventually("others are served", || good.value("likes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_a_hello_is_cut_off() {
    let (node, url) = start(|config| {
        config.gossip.limits.hello_timeout = Duration::from_secs(2);
    })
    .await;
    let address = node.listen()[0].clone();
    let peer = address.parse().expect("an address");
    let (other, _) = start(|config| config.gossip.peers = vec![peer]).await;
    let met = Liar::meet(&address, Vec::new());
    tokio::task::block_in_place(|| {
        met.send_hello([0; 16]);
        let silent = Liar::meet(&address, Vec::new());
        eventually("the silent one is cut off", || {
            (refused(&url, "silent") > 0.0 && row(&url, &silent.peer_id()).is_none()).then_some(())
        });
        for peer in [other.peer_id(), &met.peer_id()] {
            assert!(row(&url, peer).is_some(), "{peer} has sent its hello");
        }
    });
}
