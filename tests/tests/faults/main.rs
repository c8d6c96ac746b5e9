//! Five real nodes under load over HTTP, as Redis clients and over WebSocket, while everything is done to
//! them: each operation that was acknowledged counts exactly once at each node, each other one at most
//! once.
//!
//! `TALLYMESH_FAULTS_SECONDS=n` lets it go on so long, `TALLYMESH_FAULTS_SEED=n` draws other faults,
//! `TALLYMESH_FAULTS_LEASE` says how long members wait for guests, `TALLYMESH_FAULTS_TABLE` names a file
//! for the figures, and `TALLYMESH_BIN_NEXT` the program that nodes are upgraded to. Processes have timers
//! of their own: a seed tells what is done, and not quite when.
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
mod storm;
#[path = "../common/wire.rs"]
mod wire;

use play::{Figures, Plan};
use std::time::Duration;

/// How long the faults go on.
const SECONDS: u64 = 30;
const LEASE: &str = "10s";

#[test]
fn acknowledged_operations_count_once_whatever_befalls_nodes() {
    let plan = Plan {
        seed: number("TALLYMESH_FAULTS_SEED", 1),
        length: Duration::from_secs(number("TALLYMESH_FAULTS_SECONDS", SECONDS)),
        lease: std::env::var("TALLYMESH_FAULTS_LEASE").unwrap_or_else(|_| LEASE.to_owned()),
    };
    println!("{plan:?}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let figures = runtime.block_on(play::play(&plan));
    let figures: Figures = figures.unwrap_or_else(|why| panic!("{plan:?}: {why}"));
    println!("{figures}");
    if let Some(file) = std::env::var_os("TALLYMESH_FAULTS_TABLE") {
        std::fs::write(file, format!("{figures}\n")).expect("write the table");
    }
    // Else the storm was none.
    for kind in storm::Kind::ALL {
        assert!(figures.counts.contains_key(&kind), "{kind:?}: {figures:?}");
    }
    assert!(figures.is_busy(), "{figures:?}");
}

fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{name}={text} is no number"))
}
