//! The node as a whole: the real binary on loopback, and the library where a test must reach
//! inside.

mod api;
mod audit;
mod cli;
mod clock;
mod cluster;
mod config;
mod data;
mod durability;
mod events;
mod figures;
mod http;
mod liar;
mod members;
mod once;
mod operation;
mod operations;
mod post;
mod process;
mod redis;
mod resp;
mod restart;
mod retries;
mod sync;
mod tickets;
