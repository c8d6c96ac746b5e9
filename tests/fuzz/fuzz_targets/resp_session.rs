//! Fuzzes a session of the Redis face of a node with pipelines of the commands that there are.
//!
//! It takes that module and the tests' host as they are, as the target `resp` does.

#![no_main]

// Code that only the sockets call is not dead.
#[allow(dead_code, unused_imports)]
#[path = "../../../node/resp/src/protocol.rs"]
mod protocol;

#[path = "../../../node/resp/src/protocol/tests"]
mod tests {
    #[allow(dead_code)]
    pub(crate) mod host;
    #[allow(dead_code)]
    pub(crate) mod hostile;
    pub(crate) mod pipelines;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::pipelines::pipelines(bytes));
