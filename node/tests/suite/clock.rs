//! Expiry by a wall clock that jumps, and by the clocks of linked members.

use crate::join::CLOSED;
use crate::members::{close, peers_of};
use crate::process::{Node as Process, eventually, kept_address};
use crate::redis::Redis;
use crate::tickets::ticket;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tallymesh_core::Op;
use tallymesh_node::clock::WallClock;
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::driver::Handle;
use tallymesh_node::model::{News, SpaceId, Wanted};
use tallymesh_node::node::Node;
use tallymesh_node::store::Memory;
use tokio::time::{sleep, timeout};

/// A node in this process whose clock the test sets.
struct Clocked {
    node: Node,
    handle: Handle,
    space: SpaceId,
    time: Arc<AtomicU64>,
    /// How often the clock was asked.
    asked: Arc<AtomicU64>,
    store: Memory,
}

impl Clocked {
    async fn start(store: Memory, now: u64) -> Clocked {
        let time = Arc::new(AtomicU64::new(now));
        let asked = Arc::new(AtomicU64::new(0));
        let (clock, count) = (time.clone(), asked.clone());
        let args = UpArgs {
            data: Some("unused".into()),
            http: Some("127.0.0.1:0".into()),
            ..UpArgs::default()
        };
        let mut config = Config {
            clock: WallClock::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
                clock.load(Ordering::SeqCst)
            }),
            ..args.config().expect("a valid configuration")
        };
        // It looks at the clock all the time.
        config.gossip.book = false;
        let node = Node::start_on(Box::new(store.clone()), config).await;
        let node = node.expect("start");
        let handle = node.handle().clone();
        let space = handle.space("default").expect("open");
        Clocked {
            node,
            handle,
            space,
            time,
            asked,
            store,
        }
    }

    fn set_time(&self, now: u64) {
        self.time.store(now, Ordering::SeqCst);
    }

    async fn make(&self, key: &str, op: Op) {
        let done = self.handle.apply(self.space, key.into(), op).await;
        done.expect("done");
    }

    async fn value(&self, key: &str) -> Option<i128> {
        let read = self.handle.read(self.space, key.into()).await;
        read.expect("it runs").map(|counter| counter.now.value)
    }

    /// Waits until the driver has nothing left to do and sleeps.
    async fn quiet(&self) {
        let mut before = u64::MAX;
        loop {
            let asked = self.asked.load(Ordering::SeqCst);
            if asked == before {
                return;
            }
            before = asked;
            // The network looks each 100 ms, a driver at work each few.
            sleep(Duration::from_millis(30)).await;
        }
    }

    async fn expiring(&self) -> usize {
        self.handle.status().await.expect("it runs")[0].expiring
    }

    async fn clock(&self) -> u64 {
        self.handle.status().await.expect("it runs")[0].clock
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_ahead_is_noticed_without_being_asked() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    node.make("likes", Op::Add(5)).await;
    node.make("likes", Op::Expire(90_000_000)).await;
    let all = Some(Wanted::default());
    let news = node.handle.watch(node.space, all).await;
    let mut news = news.expect("it runs");
    node.quiet().await;
    // A day in no time: the driver sleeps by another clock.
    node.set_time(90_000_000);
    let told = timeout(Duration::from_secs(10), news.recv()).await;
    let Ok(Ok(News::Changed(changes, _))) = told else {
        panic!("{told:?}");
    };
    assert_eq!(
        (changes.counters[0].key.as_str(), changes.counters[0].now),
        ("likes", None)
    );
    assert_eq!(node.expiring().await, 0);
    // It is deleted, so it stays away when the clock goes back, and a new life counts from zero.
    node.set_time(1_000_000);
    assert_eq!(node.value("likes").await, None);
    node.make("likes", Op::Add(2)).await;
    node.set_time(u64::MAX / 2);
    assert_eq!(node.value("likes").await, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jump_back_loses_no_expiry() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    for key in ["a", "b"] {
        node.make(key, Op::Add(5)).await;
    }
    node.make("a", Op::Expire(2_000_000)).await;
    node.make("b", Op::Expire(3_000_000)).await;
    node.set_time(10);
    assert_eq!(node.value("a").await, Some(5));
    assert_eq!(node.expiring().await, 2);
    node.set_time(2_000_000);
    assert_eq!(
        (node.value("a").await, node.value("b").await),
        (None, Some(5))
    );
    node.set_time(0);
    assert_eq!(
        (node.value("a").await, node.value("b").await),
        (None, Some(5))
    );
    node.set_time(3_000_000);
    assert_eq!(node.value("b").await, None);
    assert_eq!(node.expiring().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stands_still_does_not_make_the_driver_spin() {
    let node = Clocked::start(Memory::default(), 1_000_000).await;
    node.make("likes", Op::Add(5)).await;
    node.make("likes", Op::Expire(2_000_000)).await;
    let (commits, asked) = (node.store.commits(), node.asked.load(Ordering::SeqCst));
    for now in [0, 1_500_000, 5, 1_990_000] {
        node.set_time(now);
        sleep(Duration::from_millis(50)).await;
        assert_eq!(node.value("likes").await, Some(5));
    }
    let asked = node.asked.load(Ordering::SeqCst) - asked;
    assert!(asked < 50, "the clock was asked {asked} times in 0.2 s");
    assert_eq!(node.store.commits(), commits, "nothing was written");
    node.set_time(2_000_000);
    assert_eq!(node.value("likes").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_finds_the_expiries_that_are_stored() {
    let store = Memory::default();
    let node = Clocked::start(store.clone(), 1_000_000).await;
    let ops = (0..5_000).flat_map(|number| {
        let key = format!("k{number}");
        [(key.clone(), Op::Add(1)), (key, Op::Expire(2_000_000))]
    });
    let done = node.handle.transact(node.space, ops.collect()).await;
    assert_eq!(done.expect("done").len(), 10_000);
    assert_eq!((node.expiring().await, node.clock().await), (5_000, 1));
    node.node.run(async {}).await.expect("stop");

    // More are due at once than the driver deletes in one batch.
    let node = Clocked::start(store, 1_500_000).await;
    assert_eq!((node.expiring().await, node.clock().await), (5_000, 0));
    assert_eq!(node.value("k100").await, Some(1));
    node.set_time(2_500_000);
    assert_eq!(node.value("k100").await, None);
    let all_deleted = async {
        while node.expiring().await > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = timeout(Duration::from_secs(10), all_deleted).await;
    in_time.expect("in time");
    assert_eq!(node.clock().await, 5_000, "one delete each");
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn is_kept(nodes: [&Process; 3], key: &str) {
    let [one, _, off] = nodes;
    knows_clocks(off, 2);
    eventually("the fast one holds the expiry", || {
        (off.space()["expiring"] == 1).then_some(())
    });
    off.add(key, 1);
    for node in nodes {
        eventually(&format!("{key} counts on"), || {
            (node.value(key) == Some(2)).then_some(())
        });
    }
    assert_eq!(one.space()["expiring"], 1);
}

/// A member whose clock is fast ends nothing between the moment when a link comes up and the moment when it hears the
/// other's clock, neither at its start nor after it was cut off.
#[test]
fn a_member_whose_clock_is_fast_ends_nothing_when_links_come_up() {
    let [one, two, mut fast] = members_of_which_one_is_off(|node| node.put_forward(2 * HOUR));
    fast.kill();
    one.add("start", 1);
    expire(&one, "start", HOUR);
    fast.start_again();
    is_kept([&one, &two, &fast], "start");

    let cut = |cut: bool| {
        let (status, answer) = fast.post("/v1/demo/cut", &json!({ "cut": cut }).to_string());
        assert_eq!(status, 200, "{answer}");
    };
    cut(true);
    eventually("alone it ends it by its own clock", || {
        (fast.space()["expiring"] == 0).then_some(())
    });
    one.add("cut", 1);
    one.add("start", 1);
    expire(&one, "start", 3 * HOUR);
    let persist = "/v1/spaces/default/counters/start/persist";
    assert_eq!(one.post(persist, "").0, 200);
    expire(&one, "cut", HOUR);
    cut(false);
    is_kept([&one, &two, &fast], "cut");
    assert_eq!(fast.value("start"), Some(3), "it was refreshed");
}

/// Asks until it is not too early any more.
fn in_time(node: &Process, mut ask: impl FnMut() -> (u16, serde_json::Value)) -> serde_json::Value {
    eventually("it knows the time", || {
        let (status, answer) = ask();
        let is_early = status == 503 && answer["code"] == "catching_up";
        assert!(status == 200 || is_early, "{answer}\n{}", node.log());
        (status == 200).then_some(answer)
    })
}

/// A member that has just started does not know by how much its clock is slow. A time that counts from now waits for
/// that.
#[test]
fn what_counts_from_now_waits_until_a_member_knows_the_time() {
    let [one, _two, mut slow] = members_of_which_one_is_off(|node| node.put_back(2 * HOUR));
    let space = "/v1/spaces/default";
    let hour = json!({"in_ms": HOUR.as_millis()}).to_string();
    for round in 0..4 {
        let key = format!("likes{round}");
        let path = format!("{space}/counters/{key}/expire");
        slow.add(&key, 5);
        eventually("others have the counter", || one.value(&key));
        slow.kill();
        slow.start_again();
        let mut redis = Redis::connect(&slow);
        match round % 2 {
            0 => drop(in_time(&slow, || slow.post(&path, &hour))),
            _ => eventually("EXPIRE is made", || {
                match redis.ask(&["EXPIRE", &key, "3600"]) {
                    OwnedFrame::Integer(1) => Some(()),
                    OwnedFrame::Error(text) if text.starts_with("TRYAGAIN") => None,
                    other => panic!("{other:?}"),
                }
            }),
        }
        knows_clocks(&slow, 2);
        let left = off_by(redis.integer(&["PEXPIRETIME", &key]) as u64);
        let [hour, minute] = [HOUR, MINUTE].map(|it| it.as_millis() as i64);
        assert!((left - hour).abs() < minute, "{key}: {left}");
        assert_eq!(one.value(&key), Some(5), "{key}");
    }
    let (status, answer) = slow.post(&format!("{space}/budgets/gift/mint"), r#"{"amount":9}"#);
    assert_eq!(status, 200, "{answer}");
    slow.kill();
    slow.start_again();
    let path = format!("{space}/budgets/gift/leases/01234567890123456789012345678901");
    let lease = json!({"amount": 3, "lease_ms": HOUR.as_millis()}).to_string();
    let given = in_time(&slow, || slow.put(&path, &lease));
    let until = given["lease"]["until"]
        .as_str()
        .and_then(|it| it.parse().ok());
    let left = off_by(until.expect("a time"));
    assert!(left > 0, "{given}");
}

/// Three members. The last one's clock is set by `set` while it does not run, and then it knows the clocks of the
/// others.
fn members_of_which_one_is_off(set: impl FnOnce(&mut Process)) -> [Process; 3] {
    let one = Process::start(&["--resp", "127.0.0.1:0"]);
    let others = peers_of(&[&one]);
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let two = Process::start(&others);
    let others = peers_of(&[&one, &two]);
    let mut arguments: Vec<&str> = others.iter().map(String::as_str).collect();
    arguments.extend(["--resp", "127.0.0.1:0", "--demo"]);
    let mut off = Process::start_with_clock(&arguments);
    close(&[&one, &two, &off]);
    off.terminate();
    set(&mut off);
    off.start_again();
    knows_clocks(&off, 2);
    for node in [&one, &two] {
        knows_clocks(node, 2);
    }
    [one, two, off]
}

/// Waits until a node knows the clocks of so many others.
fn knows_clocks(node: &Process, others: usize) {
    eventually("it knows their clocks", || {
        let knows = |peer: &serde_json::Value| peer["node"]["about"]["clock_offset_ms"].is_i64();
        let peers = node.peers();
        (peers.iter().filter(|peer| knows(peer)).count() == others).then_some(())
    });
}

/// The time of a node's clock, less this machine's, in milliseconds.
fn off_by(unix_ms: u64) -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed();
    unix_ms as i64 - now.expect("after 1970").as_millis() as i64
}

/// How far the own clock of a node is ahead, in milliseconds.
fn shown_off(node: &Process) -> i64 {
    let time = node.get("/v1/status").1["time"].clone();
    let text = time.as_str().expect("a decimal");
    off_by(text.parse().expect("a number"))
}

fn expire(node: &Process, key: &str, after: Duration) {
    let path = format!("/v1/spaces/default/counters/{key}/expire");
    let (status, answer) = node.post(&path, &json!({"in_ms": after.as_millis()}).to_string());
    assert_eq!(status, 200, "{answer}");
}

/// Until when a counter lives that is set to expire at `node` after an hour, by each way to say it.
fn means_an_hour(node: &Process) {
    node.add("http", 1);
    expire(node, "http", HOUR);
    let transaction = json!({"ops": [
        {"op": "add", "key": "whole", "by": 1},
        {"op": "expire", "key": "whole", "in_ms": HOUR.as_millis()},
    ]});
    let (status, answer) = node.post("/v1/spaces/default/transactions", &transaction.to_string());
    assert_eq!(status, 200, "{answer}");
    let mut redis = Redis::connect(node);
    redis.ask(&["INCR", "redis"]);
    assert_eq!(redis.integer(&["EXPIRE", "redis", "3600"]), 1);
    redis.ask(&["SET", "set", "1", "EX", "3600"]);
    for key in ["http", "whole", "redis", "set"] {
        let at = redis.integer(&["PEXPIRETIME", key]);
        let left = off_by(at as u64);
        let minute = MINUTE.as_millis() as i64;
        assert!(
            (left - HOUR.as_millis() as i64).abs() < minute,
            "{key}: {left}"
        );
        let told = redis.integer(&["TTL", key]);
        assert!((3_540..=3_600).contains(&told), "{key}: {told}");
    }
}

#[test]
fn a_member_whose_clock_is_fast_ends_nothing_while_it_is_linked() {
    let [mut one, mut two, fast] = members_of_which_one_is_off(|node| node.put_forward(2 * HOUR));
    assert!(shown_off(&fast) > 0);
    one.add("likes", 1);
    expire(&one, "likes", HOUR);
    eventually("the fast one holds the expiry", || {
        (fast.space()["expiring"] == 1).then_some(())
    });
    fast.add("likes", 1);
    for node in [&fast, &one, &two] {
        eventually("it counts on", || {
            (node.value("likes") == Some(2)).then_some(())
        });
    }
    means_an_hour(&fast);
    assert_eq!(fast.space()["expiring"], 5);
    // A link to one other is enough, because of two clocks the one that is behind counts.
    two.kill();
    eventually("it notices", || (fast.peers().len() == 1).then_some(()));
    fast.add("likes", 1);
    assert_eq!(fast.value("likes"), Some(3));
    one.kill();
    eventually("alone it ends them by its own clock", || {
        (fast.space()["expiring"] == 0).then_some(())
    });
    assert_eq!(fast.value("likes"), None);
}

/// A node that is no member goes by the clocks of the members that it is linked to, and without a link ends nothing.
#[test]
fn a_guest_whose_clock_is_fast_ends_nothing() {
    let mut one = Process::start(&[CLOSED, "--listen", &kept_address()]);
    close(&[&one]);
    let ticket = ticket(&one.run(&["invite", "--role", "editor"], ""));
    let mut guest = Process::start_with_clock(&[CLOSED, "--join", &ticket]);
    knows_clocks(&guest, 1);
    guest.put_forward(2 * HOUR);
    eventually("it reads that", || {
        (shown_off(&guest) > HOUR.as_millis() as i64).then_some(())
    });
    one.add("likes", 1);
    expire(&one, "likes", HOUR);
    eventually("it holds the expiry", || {
        (guest.space()["expiring"] == 1).then_some(())
    });
    guest.add("likes", 1);
    for node in [&one, &guest] {
        eventually("it counts on", || {
            (node.value("likes") == Some(2)).then_some(())
        });
    }

    one.kill();
    eventually("alone it reads by its own clock", || {
        guest.value("likes").is_none().then_some(())
    });
    let likes = "/v1/spaces/default/counters/likes";
    let refused = |(status, problem): (u16, serde_json::Value)| {
        let told = (status, &problem["code"], &problem["applied"]);
        assert_eq!(told, (409, &json!("expired"), &json!("no")), "{problem}");
    };
    refused(guest.post(&format!("{likes}/add"), ""));
    refused(guest.put(likes, r#"{"value":50}"#));
    refused(guest.delete(likes));
    refused(guest.post(&format!("{likes}/persist"), ""));
    assert_eq!(guest.space()["expiring"], 1);
    guest.add("views", 1);

    one.start_again();
    eventually("it goes by the member's clock again", || {
        (guest.value("likes") == Some(2)).then_some(())
    });
    guest.add("likes", 1);
    eventually("the member receives that", || {
        (one.value("likes") == Some(3)).then_some(())
    });
    let metrics = guest.get("/metrics").1;
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.contains("tallymesh_expired_total 0\n"), "{metrics}");
}

#[cfg(unix)]
#[test]
fn a_member_whose_clock_is_slow_ends_counters_in_time() {
    let [one, two, slow] = members_of_which_one_is_off(|node| node.put_back(2 * HOUR));
    assert!(shown_off(&slow) < 0);
    means_an_hour(&slow);
    one.add("likes", 1);
    eventually("it has the counter", || slow.value("likes"));
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    let at = (now + Duration::from_secs(1)).as_millis();
    let path = "/v1/spaces/default/counters/likes/expire";
    let (status, answer) = slow.post(path, &json!({ "at": at }).to_string());
    assert_eq!(status, 200, "{answer}");
    // The others hang, so that it has to do this itself. Their links stay for some seconds.
    for node in [&one, &two] {
        let hang = ["-STOP", &node.pid().to_string()];
        let hung = std::process::Command::new("kill").args(hang).status();
        assert!(hung.expect("kill").success());
    }
    eventually("it is over", || {
        (slow.space()["expiring"] == 4).then_some(())
    });
    assert_eq!(slow.value("likes"), None);
    let metrics = slow.get("/metrics").1;
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.contains("tallymesh_expired_total 1\n"), "{metrics}");
}
