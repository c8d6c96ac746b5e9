//! Clients that repeat requests through a proxy that drops, delays and repeats, over three real nodes.
//! Meanwhile the nodes are killed and cut. Each operation must count once, at each node.
//!
//! `TALLYMESH_OPS=n` makes this many operations, `TALLYMESH_SEED=n` draws others. Processes have timers of
//! their own. So a seed determines the requests and the faults of messages, but not their exact times.

#[path = "../common/client.rs"]
mod client;
#[path = "../common/history.rs"]
mod history;
mod mesh;
#[path = "../common/node.rs"]
mod node;
mod play;
#[path = "../common/proxy.rs"]
mod proxy;
#[path = "../common/wire.rs"]
mod wire;

use play::{Metrics, Plan};
use std::sync::{Mutex, PoisonError};
use tallymesh_tests::seeds;
use wire::Wire;

const OPERATIONS: usize = 3_000;
/// Number of operations of clients without keys. Many of them count twice.
const WITHOUT_KEYS: usize = 400;

/// One run at a time, because each needs both processors.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn each_operation_counts_once_over_http() {
    counts_once(Wire::Http);
}

#[test]
fn each_operation_counts_once_over_resp() {
    counts_once(Wire::Resp);
}

/// Without idempotency keys, the other tests would see these results.
#[test]
fn clients_without_keys_count_too_much() {
    let plan = Plan {
        keyed: false,
        trouble: false,
        operations: WITHOUT_KEYS,
        ..plan(Wire::Http)
    };
    let why = play(plan).expect_err("it counts right");
    assert!(why.contains("counters are wrong"), "{why}");
}

fn counts_once(wire: Wire) {
    let metrics = play(plan(wire)).unwrap_or_else(|why| panic!("{why}"));
    println!("{wire:?}:\n{metrics}");
    // Otherwise the run had too few faults.
    let twice = metrics.taken_twice.unwrap_or(1);
    let happened = [metrics.kills, metrics.cuts, metrics.duplicates, twice];
    assert!(happened.iter().all(|count| *count > 0), "{metrics:?}");
}

fn plan(wire: Wire) -> Plan {
    let operations = std::env::var("TALLYMESH_OPS").ok();
    let operations = operations.map_or(OPERATIONS, |text| {
        text.parse().expect("TALLYMESH_OPS is a number")
    });
    Plan {
        wire,
        seed: seeds::chosen().unwrap_or(1),
        operations,
        keyed: true,
        trouble: true,
    }
}

fn play(plan: Plan) -> Result<Metrics, String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(play::play(plan))
}
