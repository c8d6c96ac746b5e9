//! Fuzzes a session of the Redis face of a node with pipelines of the commands that there are.
//!
//! It takes that module and the tests' host as they are, as the target `resp` does.

#![no_main]

#[path = "../../../node/resp/src"]
mod resp {
    // Code that only the sockets call is not dead.
    #[allow(dead_code, unused_imports)]
    pub(crate) mod protocol;

    #[path = "protocol/tests"]
    pub(crate) mod tests {
        #[allow(dead_code)]
        pub(crate) mod host;
        #[allow(dead_code)]
        pub(crate) mod hostile;
        pub(crate) mod pipelines;
    }
}

use resp::protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| resp::tests::pipelines::pipelines(bytes));
