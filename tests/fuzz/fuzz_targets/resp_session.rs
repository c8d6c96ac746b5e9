//! Fuzzes a session of the Redis face of a node with pipelines of the commands that there are.
//!
//! It takes that module and the tests' host as they are, as the target `resp` does.

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

    // Code that only the rest of the node calls is not dead.
    #[allow(dead_code, unused_imports)]
    pub(crate) mod resp {
        pub(crate) mod protocol;
    }

    #[path = "resp/protocol/tests"]
    pub(crate) mod tests {
        #[allow(dead_code)]
        pub(crate) mod host;
        #[allow(dead_code)]
        pub(crate) mod hostile;
        pub(crate) mod pipelines;
    }
}

use node::{escape, identity, model, problems, resp};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::tests::pipelines::pipelines(bytes));
