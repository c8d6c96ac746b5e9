//! A whole node: [`config`] has the settings as they are written, and what they mean;
//! [`node::Node`] starts all parts of a node from them, and stops them.

pub mod config;
pub mod node;
mod ready_file;
