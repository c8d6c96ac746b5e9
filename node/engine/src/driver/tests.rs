//! Requests and frames at a driver without sockets. The tests of the Redis face have a driver with clients.

mod contained;
#[allow(dead_code)] // Tests of the Redis face use the rest.
mod gate;
mod requests;

use super::replay::Replay;
use super::*;
use crate::driver::NewLink;
use futures::FutureExt;
use gate::Gate;
use std::future::Future;
use tallymesh_core::{Op, WriterId};
use tallymesh_node_ground::model::{Demand, PeerKind, Refusal, Wanted};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

const SPACE: SpaceId = SpaceId(0);

/// A node without peers that commits at once, and whose clients take their own turns.
struct Alone {
    runtime: Runtime,
    gate: Gate,
    handle: Handle,
    metrics: Metrics,
    ended: oneshot::Receiver<Result<(), StoreError>>,
}

impl Alone {
    fn new(durability: Durability) -> Alone {
        let mut runtime = Builder::new_current_thread();
        let gate = Gate::new();
        let metrics = Metrics::new();
        let running = start(Start {
            spaces: vec![Space::default()],
            owner: [7; 32],
            guest_timeout_ms: 0,
            key_window: Duration::from_secs(60),
            keyed_bounds: Default::default(),
            durability,
            store: Box::new(gate.clone()),
            folder: None,
            ledger: crate::access::Ledger::open(None).expect("in memory"),
            sockets: None,
            broadcast: mpsc::channel(16).0,
            used: mpsc::unbounded_channel().0,
            metrics: metrics.clone(),
            node_table: crate::network::NodeTable::default(),
            clock: WallClock::default(),
        });
        let Running { handle, ended } = running.expect("start");
        Alone {
            runtime: runtime.enable_time().build().expect("a runtime"),
            gate,
            handle,
            metrics,
            ended,
        }
    }
}

fn within_patience<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    let waited = async { timeout(PATIENCE, future).await };
    runtime.block_on(waited).expect("it comes in time")
}
