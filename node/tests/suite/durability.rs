//! What survives: restarts, kill -9 under load, a store that fails.

use crate::process::{Node, eventually, up};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::model::{Refusal, Sum};
use tallymesh_node::node::NodeError;
use tallymesh_node::store::{self, Memory};

/// Starts that are killed at a random moment.
const KILLS: u64 = 20;

/// Clients that add all the time.
const CLIENTS: usize = 4;

#[test]
fn a_restart_keeps_all_and_mints_a_new_writer() {
    let mut node = Node::start(&[]);
    let identity = node.peer_id.clone();
    node.add("likes", 5);
    node.add("views", -7);
    let before = node.space();
    assert!(node.terminate().success(), "{}", node.log());
    node.start_again();
    let after = node.space();
    assert_eq!(node.peer_id, identity);
    assert_eq!(
        (node.value("likes"), node.value("views")),
        (Some(5), Some(-7))
    );
    assert_eq!(after["digest"], before["digest"]);
    assert_ne!(after["writer"], before["writer"]);
    assert_eq!(after["clock"], "0");
    node.add("likes", 1);
    assert_eq!(node.value("likes"), Some(6));
    assert_eq!(node.space()["writers"], 2);
}

#[test]
fn kill_9_under_load_loses_no_acknowledged_add() {
    let seed = random_seed();
    let mut random = seed;
    let mut node = Node::start(&[]);
    let mut writers = BTreeSet::new();
    // For each client: what was acknowledged, and what was tried.
    let sums: Vec<[AtomicI64; 2]> = (0..CLIENTS).map(|_| Default::default()).collect();
    for round in 0..KILLS {
        let writer = node.space()["writer"].as_str().expect("an id").to_owned();
        assert!(writers.insert(writer), "a writer id came twice");
        let wait = Duration::from_micros(next(&mut random) % 60_000);
        let url = node.url.clone();
        thread::scope(|scope| {
            for (client, sums) in sums.iter().enumerate() {
                let url = &url;
                scope.spawn(move || add_until_refused(url, client, sums));
            }
            let acknowledged = || {
                sums.iter()
                    .map(|[done, _]| done.load(Ordering::SeqCst))
                    .sum::<i64>()
            };
            let before = acknowledged();
            eventually("the load begins", || {
                (acknowledged() > before).then_some(())
            });
            thread::sleep(wait); // Chooses the moment; nothing is right or wrong because of it.
            node.kill();
        });
        node.start_again();
        for (client, [done, tried]) in sums.iter().enumerate() {
            let value = node.value(&format!("client-{client}")).unwrap_or(0);
            let (done, tried) = (done.load(Ordering::SeqCst), tried.load(Ordering::SeqCst));
            assert!(
                (i128::from(done)..=i128::from(tried)).contains(&value),
                "seed {seed}, round {round}, client {client}: {done} acknowledged, {value} kept, {tried} tried"
            );
            // From here on the kept value is what both begin with.
            let value = i64::try_from(value).expect("small");
            sums[client][0].store(value, Ordering::SeqCst);
            sums[client][1].store(value, Ordering::SeqCst);
        }
    }
    assert_eq!(node.space()["faults"], 0);
}

/// Adds in turn one at a time and in bulk, until the node is gone.
pub(crate) fn add_until_refused(url: &str, client: usize, [done, tried]: &[AtomicI64; 2]) {
    let agent = crate::process::agent();
    for turn in 0_u64.. {
        let (path, body, by) = match turn % 2 {
            0 => (
                format!("counters/client-{client}/add"),
                "{\"by\":3}".to_owned(),
                3,
            ),
            _ => (
                "add".to_owned(),
                format!("client-{client} 5\n").repeat(4),
                20,
            ),
        };
        tried.fetch_add(by, Ordering::SeqCst);
        let answer = agent
            .post(format!("{url}/v1/spaces/default/{path}"))
            .send(body);
        match answer {
            Ok(answer) if answer.status() == 200 => done.fetch_add(by, Ordering::SeqCst),
            _ => return,
        };
    }
}

#[test]
fn a_folder_in_use_is_refused_with_advice() {
    let node = Node::start(&[]);
    let second = up(&node.data())
        .args(["--http", "127.0.0.1:0"])
        .output()
        .expect("run");
    let words = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{words}");
    assert!(
        words.contains("in use by another process") && words.contains("--data"),
        "{words}"
    );
}

fn config() -> Config {
    let args = UpArgs {
        data: Some("unused".into()),
        http: Some("127.0.0.1:0".into()),
        ..UpArgs::default()
    };
    args.config().expect("a valid configuration")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_store_stops_the_node_and_acknowledges_nothing() {
    let store = Memory::default();
    let node = tallymesh_node::node::Node::start_on(Box::new(store.clone()), config());
    let node = node.await.expect("start");
    let handle = node.handle().clone();
    let space = handle.space("default").expect("open");
    store.fail_after(7);
    let mut acknowledged = 0;
    let refusal = loop {
        assert!(acknowledged < 100, "a commit that fails was acknowledged");
        match handle.add(space, "likes".into(), 1).await {
            Ok(_) => acknowledged += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(acknowledged, 7);
    assert_eq!(refusal, Refusal::Stopped);
    let ended = node
        .run(std::future::pending())
        .await
        .expect_err("the store failed");
    assert!(matches!(ended, NodeError::Store(_)), "{ended}");
    assert_eq!(ended.code(), "store_io");

    let again = tallymesh_node::node::Node::start_on(Box::new(store), config());
    let again = again.await.expect("start again");
    let counter = again.handle().read(space, "likes".into()).await;
    assert_eq!(
        counter.map(|counter| counter.map(|c| c.now.value)),
        Ok(Some(7))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_becomes_a_snapshot_and_stays_the_same_state() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let config = || Config {
        data: folder.path().join("data"),
        ..config()
    };
    let node = tallymesh_node::node::Node::start(config()).await;
    let node = node.expect("start");
    let handle = node.handle().clone();
    let space = handle.space("default").expect("open");
    let sums = |round: u64| -> Vec<Sum> {
        let sum = |number: u64| Sum {
            key: format!(
                "a counter with a rather long name, number {:016x}",
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ),
            by: i64::try_from(round + number).expect("small"),
            line: number + 1,
        };
        (0..5_000).map(sum).collect()
    };
    let first_commit = || {
        let report = store::check(&config().data, &mut |_, _, _| Ok(()), &mut |_| {});
        report.expect("a whole folder").commits.0
    };
    let mut rounds = 0;
    while first_commit() <= 1 {
        handle.add_many(space, sums(rounds)).await.expect("add");
        rounds += 1;
        assert!(rounds < 1_000, "the begin of the log never went");
    }
    handle.add(space, "after".into(), 1).await.expect("add");
    let before = handle.status().await.expect("status");
    node.run(async {}).await.expect("stop");

    let again = tallymesh_node::node::Node::start(config()).await;
    let again = again.expect("start again");
    let after = again.handle().status().await.expect("status");
    assert_eq!(after[0].digest, before[0].digest);
    assert_eq!((after[0].counters, after[0].shards), (5_001, 5_001));
    let key = sums(0)[3].key.clone();
    let expected: u64 = (0..rounds).map(|round| round + 3).sum();
    let counter = again.handle().read(space, key).await;
    let value = counter.expect("it runs").map(|counter| counter.now.value);
    assert_eq!(value, Some(i128::from(expected)));
}

/// A seed from the system; a failing test prints it.
pub(crate) fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("random bytes");
    u64::from_le_bytes(bytes) | 1
}

/// xorshift64: the moments need not be good random numbers.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
