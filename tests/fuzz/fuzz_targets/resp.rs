//! Fuzzes the Redis face of a node.
//!
//! It takes that module and the tests' host as they are, without the node around them: most of
//! what a node is built from is libp2p, which has no part in this.

#![no_main]

#[path = "../../../node/src"]
mod node {
    #[allow(dead_code)]
    pub(crate) mod escape;

    #[allow(dead_code)]
    pub(crate) mod identity {
        pub(crate) mod keys;
        mod owner_key;
        pub(crate) use owner_key::OwnerKey;
    }

    #[allow(dead_code, unused_imports)]
    pub(crate) mod model;

    #[allow(dead_code, unused_imports)]
    pub(crate) mod problems;

    // What only the rest of the node calls is not dead.
    #[allow(dead_code, unused_imports)]
    pub(crate) mod resp {
        pub(crate) mod protocol;
    }

    #[path = "resp/protocol/tests"]
    pub(crate) mod tests {
        #[allow(dead_code)]
        pub(crate) mod host;
        pub(crate) mod hostile;
    }
}

use node::{escape, identity, model, problems, resp};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::tests::hostile::client(bytes));
