//! The node as a whole: the real binary on loopback, and the library where a test must reach
//! inside.

mod api;
mod audit;
mod bounds;
mod browsers;
mod budgets;
mod calls;
mod cli;
mod clock;
mod cluster;
mod config;
#[cfg(unix)]
mod copies;
mod data;
mod dead_links;
#[cfg(unix)]
mod descriptors;
mod durability;
#[cfg(target_os = "linux")]
mod edges;
#[cfg(target_os = "linux")]
mod endurance;
mod events;
#[cfg(unix)]
mod folder;
mod fresh;
mod hostile;
mod http;
mod join;
mod late;
mod leases;
mod liar;
mod limits;
mod links;
#[cfg(unix)]
mod logs;
#[cfg(unix)]
mod majority;
mod members;
mod metrics;
mod network;
mod once;
mod operation;
mod operations;
mod peer_directory;
mod post;
mod printed;
mod process;
mod races;
mod redis;
mod relay;
mod releases;
mod removed;
mod resp;
mod resp_tickets;
mod resp_tls;
mod restart;
mod retries;
mod revoked;
mod roles;
mod sequences;
mod shares;
mod silent;
mod spaces;
mod spending;
mod swarm;
mod sync;
mod tickets;
mod token;
