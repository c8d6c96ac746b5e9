//! The settings of each face, as plain data. They stand below the faces, so that what reads settings compiles
//! without a face.

mod gossip;
mod http;
mod resp;

pub use gossip::{GossipConfig, GossipLimits, MemoryMax, RelayLimits, size};
pub use http::{HTTP_CLIENTS, HttpRate, HttpRules, SYNC_IDLE};
pub use resp::RespConfig;
