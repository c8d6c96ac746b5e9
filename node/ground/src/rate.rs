//! Rates: token buckets for peers, clients and log lines, and the name by which a client is counted.
//! Nothing here does I/O, and each caller passes the time.

mod bucket;
mod client;
mod log_lines;

pub use bucket::Pace;
pub use bucket::Rate;
pub use client::client;
pub use log_lines::{LogPace, left_out};
