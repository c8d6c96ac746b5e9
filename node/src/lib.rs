//! A Tallymesh node: [`tallymesh_core`] as a daemon with libp2p, a durable store, HTTP, the
//! Redis protocol and a command line.
//!
//! The binary `tallymesh` is a thin shell around this library. [`node::Node`] is the whole node.
//! Its parts use [`driver::Handle`] to send commands to the driver, the one task that owns the
//! replicas. The driver persists before it publishes and before it acknowledges.

pub mod access;
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
