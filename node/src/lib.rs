//! A Tallymesh node: [`tallymesh_core`] as a daemon with libp2p, a durable store, HTTP, the
//! Redis protocol and a command line.
//!
//! The binary `tallymesh` is a thin shell around this library. [`node::Node`] is the whole node.
//! Its parts use [`driver::Handle`] to send commands to the driver, the one task that owns the
//! replicas. The driver persists before it publishes and before it acknowledges.
//!
//! # Floors
//! A module names only modules of lower floors, and no face names another face. So each floor can
//! be read without those above it. `cargo xtask check` holds this (`xtask/src/tidy/floors.rs`).
//!
//! ```text
//!  cli                            commands: to a running node over HTTP, or on a data folder
//!  node                           starts and stops all parts
//!  config                         settings as they are written, and what they mean
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  http    resp    gossip         faces: programs and pages, Redis clients, other nodes
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  driver                         replicas, sync machines, the commit gate
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  metrics contain network        figures; the boundary of a panic; who is connected
//!  access  store   browser  tls   who may do what; the disk; the rule for browsers; TLS
//!  ──────────────────────────────────────────────────────────────────────────────────────
//!  api                            the table of calls: fields, refusals, roles, names
//!  problems                       the codes and texts of refusals
//!  model                          plain data: spaces, operations, rows, events, refusals
//!  identity rate clock ...        keys and addresses; token buckets; time, text and the log
//! ```

pub mod access;
mod api;
pub mod browser;
pub mod cli;
pub mod clock;
pub mod config;
mod contain;
mod descriptors;
pub mod driver;
mod escape;
pub mod gossip;
pub mod http;
pub mod identity;
mod listen;
mod logging;
pub mod metrics;
pub mod model;
pub mod network;
pub mod node;
pub mod problems;
pub mod rate;
mod ready_file;
pub mod resp;
pub mod store;
pub mod tls;
