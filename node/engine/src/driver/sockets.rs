//! Clients whose sockets are served on the driver's own thread, as far as the driver knows them.
//!
//! The driver owns the poll and the replicas. A face that serves its clients here implements
//! [`SocketClients`], and [`Start`](super::Start) has the function that makes it. In each turn the
//! driver lends the face its open spaces and its commit gate.

use super::commit_gate::CommitGate;
use crate::driver::Spaces;
use crate::metrics::Metrics;
use mio::event::Event;
use mio::{Registry, Token};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::model::Notice;

/// The first token of the sockets. The tokens below it are the driver's own.
pub const FIRST_TOKEN: Token = Token(1);

/// Makes the clients of a face, and registers their listener.
pub type Begin = Box<dyn FnOnce(&Registry) -> io::Result<Box<dyn SocketClients>> + Send>;

/// The clients of one face.
pub trait SocketClients: Send {
    /// Records that a socket can be read from or written to.
    fn wake(&mut self, event: &Event);

    /// Adds a client after its TLS handshake.
    fn secured(&mut self, client: Secured, registry: &Registry, metrics: &Metrics);

    /// Whether there is something to do at once.
    fn is_ready(&self) -> bool;

    /// When something is due without any input.
    fn next_deadline(&self) -> Option<Instant>;

    /// Receives commands and executes them, with one turn for each ready connection. `unix_ms` is
    /// the wall clock, and `since_start` the time since the driver's start, in milliseconds.
    fn work(
        &mut self,
        registry: &Registry,
        spaces: &mut Spaces,
        gate: &mut CommitGate,
        metrics: &Metrics,
        unix_ms: u64,
        since_start: u64,
    );

    /// The space that a panic may have left half changed, if there is one. Then the node stops.
    fn half_changed(&self) -> Option<usize>;

    /// Sets how many links to other nodes there are.
    fn set_links(&mut self, links: usize);

    /// Whether any client is subscribed to events.
    fn are_listening(&self) -> bool;

    /// Queues the events of a space for subscribers.
    fn notify(
        &mut self,
        notices: Vec<Notice>,
        space: (usize, &Spaces),
        clock: &WallClock,
        gate: (&CommitGate, &Metrics),
    );

    /// Sends the output whose commit is durable.
    fn release(&mut self, durable: u64, metrics: &Metrics);
}

/// A client after its TLS handshake.
pub struct Secured {
    /// Its socket, which is in non-blocking mode.
    pub socket: std::net::TcpStream,
    /// The TLS session, with any input that was read along with the handshake.
    pub tls: rustls::ServerConnection,
    /// The address of the client.
    pub from: SocketAddr,
}
