//! A whole node: [`node::Node`] starts all parts of a node from its settings, and stops them.

pub mod node;
mod ready_file;
