//! The ground floor of a node, which each part may name: plain data, the table of calls, refusals
//! with their codes and texts, keys and addresses, rates, clocks, text and the log. Nothing here
//! owns a replica, a disk or a connection.

pub mod api;
pub mod clock;
pub mod descriptors;
pub mod escape;
pub mod identity;
pub mod listen;
pub mod logging;
pub mod model;
pub mod problems;
pub mod rate;
pub mod resp_config;
