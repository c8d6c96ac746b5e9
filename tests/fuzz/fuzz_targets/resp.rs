//! Fuzzes the Redis face of a node.
//!
//! It takes the module `protocol` and the tests' host as they are, without the sockets and the
//! engine around them.

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
        pub(crate) mod hostile;
    }
}

use resp::protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| resp::tests::hostile::client(bytes));
