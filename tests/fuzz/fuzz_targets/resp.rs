//! Fuzzes the Redis face of a node.
//!
//! It takes the module `protocol` and the tests' host as they are, without the sockets and the
//! engine around them.

#![no_main]

// What only the sockets call is not dead.
#[allow(dead_code, unused_imports)]
#[path = "../../../node/resp/src/protocol.rs"]
mod protocol;

#[path = "../../../node/resp/src/protocol/tests"]
mod tests {
    #[allow(dead_code)]
    pub(crate) mod host;
    pub(crate) mod hostile;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::hostile::client(bytes));
