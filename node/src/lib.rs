//! A Tallymesh node: `tallymesh-core` as a daemon with libp2p, a durable store, HTTP, the
//! Redis protocol and a command line.
//!
//! The binary `tallymesh` is a thin shell around this library. [`node::Node`] is the whole node.
//! Its parts use [`driver::Handle`] to send commands to the driver, the one task that owns the
//! replicas. The driver persists before it publishes and, with durability `always`, before it
//! acknowledges.
//!
//! # Floors
//! Each part is a crate of its own in a folder beside this one; the parts that programs outside may
//! need have a path here. A crate depends only on crates of lower floors, and no face on another
//! one. So each can be read and compiled without those above it. `cargo xtask check` holds this
//! (`xtask/src/tidy/packages.rs`), and the floors inside `ground`, `engine` and `server`
//! (`xtask/src/tidy/floors.rs`). One test goes upward:
//! the promises of the commit gate to Redis clients are tested in `resp`, with a store of `engine`'s
//! tests.
//!
//! ```text
//!  server                    node: starts and stops all parts
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  http    resp    gossip    faces: programs and pages, Redis clients, other nodes
//!  cli                       commands: to a running node over HTTP, or on a data folder
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  config                    settings as they are written, and what they mean
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  engine                    driver: replicas, sync machines, the commit gate
//!                            metrics, contain, network: figures; the boundary of a panic; who
//!                            is connected
//!                            access, browser, tls: who may do what; the rule for browsers; TLS
//!                            settings: those of HTTP and gossip, as plain data
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  store                     the disk
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  ground                    api: the table of calls: fields, refusals, roles, names
//!                            problems: the codes and texts of refusals
//!                            model: plain data: spaces, operations, rows, events, refusals
//!                            identity, rate, clock, ...: keys and addresses; token buckets;
//!                            time, text and the log
//! ```

mod whole_node;

pub use tallymesh_node_cli as cli;
pub use tallymesh_node_config as config;
pub use tallymesh_node_engine::{access, browser, driver, metrics, network, settings, tls};
pub use tallymesh_node_gossip as gossip;
pub use tallymesh_node_ground::{clock, identity, model, problems, rate};
pub use tallymesh_node_http as http;
pub use tallymesh_node_resp as resp;
pub use tallymesh_node_server::node;
pub use tallymesh_node_store as store;
pub use whole_node::WHOLE_NODE;
