//! Five real nodes under load over HTTP, the Redis protocol and WebSocket, with faults of every kind. At each
//! node, each acknowledged operation counts exactly once, and each other one at most once.
//!
//! Environment variables:
//! - `TALLYMESH_FAULTS_SECONDS=n` sets the length of the run.
//! - `TALLYMESH_FAULTS_SEED=n` draws other faults.
//! - `TALLYMESH_FAULTS_ONLY=Wedge,Copy` plays these kinds only, by their names in the code.
//! - `TALLYMESH_FAULTS_LEASE` sets the guest timeout.
//! - `TALLYMESH_FAULTS_TABLE` names a file for the metrics.
//! - `TALLYMESH_BIN_NEXT` names the program to which nodes are upgraded.
//!
//! Processes have timers of their own. So a seed determines the faults, but not their exact times.
#![cfg(unix)]

#[path = "../common/client.rs"]
mod client;
mod disk;
mod guests;
#[path = "../common/history.rs"]
mod history;
mod ledger;
mod links;
mod load;
mod mesh;
#[path = "../common/node.rs"]
mod node;
mod play;
#[path = "../common/proxy.rs"]
mod proxy;
mod report;
mod rights;
mod storm;
#[path = "../common/wire.rs"]
mod wire;

use play::Plan;
use report::Metrics;
use std::time::Duration;

/// Length of the faults, in seconds.
const SECONDS: u64 = 30;
const LEASE: &str = "10s";

#[test]
fn acknowledged_operations_count_once_whatever_befalls_nodes() {
    let only = std::env::var("TALLYMESH_FAULTS_ONLY").ok();
    let kinds = storm::Kind::ALL.into_iter().filter(|kind| {
        let name = format!("{kind:?}");
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|it| it == name))
    });
    let plan = Plan {
        kinds: kinds.collect(),
        seed: number("TALLYMESH_FAULTS_SEED", 1),
        length: Duration::from_secs(number("TALLYMESH_FAULTS_SECONDS", SECONDS)),
        lease: std::env::var("TALLYMESH_FAULTS_LEASE").unwrap_or_else(|_| LEASE.to_owned()),
    };
    println!("{plan:?}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let metrics = runtime.block_on(play::play(&plan));
    let metrics: Metrics = metrics.unwrap_or_else(|why| panic!("{plan:?}: {why}"));
    println!("{metrics}");
    if let Some(file) = std::env::var_os("TALLYMESH_FAULTS_TABLE") {
        std::fs::write(file, format!("{metrics}\n")).expect("write the table");
    }
    // Otherwise the run had too few faults.
    for kind in &plan.kinds {
        assert!(metrics.counts.contains_key(kind), "{kind:?}: {metrics:?}");
    }
    assert!(only.is_some() || metrics.is_busy(), "{metrics:?}");
}

fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{name}={text} is no number"))
}
