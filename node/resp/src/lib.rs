//! The face of the Redis protocol. [`protocol`] is everything between bytes and replicas, and
//! `sockets` the connections, which the driver's thread serves.

pub mod protocol;
mod sockets;

pub use protocol::RespConfig;
pub use sockets::{Serve, begin};

#[cfg(test)]
pub(crate) mod panics {
    //! Panics where a test requires them.

    /// An argument whose command panics before it asks for a replica.
    pub(crate) const BEFORE: &str = "panic-before";
    /// A key whose add panics while it changes its replica.
    pub(crate) const WITHIN: &str = "panic-within";

    pub(crate) fn panic_if_told(arg: &[u8], word: &str) {
        assert!(arg != word.as_bytes(), "on purpose");
    }
}
