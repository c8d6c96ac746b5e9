//! The face of the Redis protocol. [`protocol`] is everything between bytes and replicas, and
//! `sockets` the connections, which the driver's thread serves.

pub mod protocol;
mod sockets;

pub use protocol::RespConfig;
pub(crate) use sockets::{Serve, begin};
