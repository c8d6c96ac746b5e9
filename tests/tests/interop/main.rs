//! Replicas in all runtimes and native nodes in one mesh, under cuts and reloads, compared with one oracle.
//! Each read must be the result of the operations that the replica sees. Equal vectors must have equal bytes.
//!
//! Environment variables:
//! - `TALLYMESH_SEED=n` plays another run.
//! - `TALLYMESH_STEPS=n` plays a run of this length.
//! - `TALLYMESH_TRACE=1` prints each step.
//! - `TALLYMESH_INTEROP_TABLE` names a file for the metrics.
//! - `TALLYMESH_DRIVER` is the command of one more driver, which takes part as well.
//!
//! Processes have timers of their own. So a seed determines the actions, but not exactly what each replica
//! sees by then. `tests/runtimes/interop/README.md` has the protocol of drivers.

mod answer;
mod check;
mod driver;
mod gate;
mod metrics;
mod native;
#[path = "../common/node.rs"]
#[allow(dead_code)]
mod node;
mod play;
mod pull;
#[path = "../common/wire.rs"]
#[allow(dead_code)]
mod wire;
mod world;

use tallymesh_tests::seeds;

const STEPS: u64 = 450;

#[test]
fn all_runtimes_agree() {
    let seed = seeds::chosen().unwrap_or(1);
    let steps = seeds::number("TALLYMESH_STEPS").unwrap_or(STEPS);
    println!("TALLYMESH_SEED={seed} TALLYMESH_STEPS={steps}");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let metrics = runtime.block_on(play::play(seed, steps));
    let metrics = metrics.unwrap_or_else(|why| panic!("TALLYMESH_SEED={seed}: {why}"));
    println!("{metrics}");
    if let Some(file) = std::env::var_os("TALLYMESH_INTEROP_TABLE") {
        std::fs::write(file, format!("{metrics}\n")).expect("write the table");
    }
    // Otherwise the run proves nothing.
    metrics.check(steps).unwrap_or_else(|why| panic!("{why}"));
}
