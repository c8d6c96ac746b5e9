//! The laws of the core, each over many random cases from fixed seeds.
//!
//! The same bodies run natively and in wasm32. Set `TALLYMESH_SEED` to run one case only, and
//! `TALLYMESH_CASES` to multiply the number of cases (natively).

mod cancel;
mod chunks;
mod codec;
mod deltas;
mod forks;
mod key_ids;
mod limits;
mod machine;
mod members;
mod merge;
mod resume;
mod returns;
mod snapshots;
mod support;
mod transactions;
mod versions;
