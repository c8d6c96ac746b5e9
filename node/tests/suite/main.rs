//! The node as a whole: the real binary on loopback, and the library where a test must reach
//! inside.

mod api;
mod audit;
mod book;
mod cli;
mod clock;
mod cluster;
mod data;
mod durability;
mod events;
mod http;
mod liar;
mod members;
mod network;
mod once;
mod operations;
mod post;
mod process;
mod redis;
mod relay;
mod resp;
mod restart;
mod retries;
mod sync;
