//! The settings of HTTP and of gossip, as plain data. They stand below the faces, so that what reads settings compiles
//! without a face.

mod gossip;
mod http;

pub use gossip::{GossipConfig, GossipLimits, MemoryMax, RelayLimits, size};
pub use http::{HTTP_CLIENTS, HttpRate, HttpRules, SYNC_IDLE};
