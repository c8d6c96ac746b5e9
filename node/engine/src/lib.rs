//! The engine of a node: the driver, which owns all replicas and their sync machines, and what it
//! needs beside the store. The faces use [`driver::Handle`] to give it requests.
//!
//! [`access`] says who may do what, [`network`] who is connected, [`metrics`] counts, [`contain`]
//! is the boundary of a panic; [`browser`] and [`tls`] are shared by the faces. [`settings`] has the
//! settings of HTTP and gossip.

pub mod access;
pub mod browser;
pub mod contain;
pub mod driver;
pub mod metrics;
pub mod network;
pub mod settings;
pub mod tls;
