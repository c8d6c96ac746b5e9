//! How Redis clients connect: through the listener, or after a TLS handshake elsewhere; and which
//! connection is closed if there are too many.

use super::output::Output;
use super::strangers::Room;
use super::stream::Stream;
use super::{CONNECTIONS, Clients, Connection, Ends};
use crate::protocol::{RespConfig, Session};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tallymesh_node_engine::access::{Ledger, OperatorToken};
use tallymesh_node_engine::driver::Secured;
use tallymesh_node_engine::metrics::Metrics;

/// Connections accepted before the existing connections have their turn.
const ACCEPTS_MAX: usize = 64;

/// How Redis clients are served.
pub struct Serve {
    /// The listener. `None` means that clients connect elsewhere, and arrive as [`Secured`] after
    /// their TLS handshake.
    pub listener: Option<std::net::TcpListener>,
    /// The port of that listener.
    pub port: u16,
    /// The access rules.
    pub rules: RespConfig,
    /// Most clients at once.
    pub clients_max: usize,
    /// The ledger, which lists the revoked tickets.
    pub ledger: Ledger,
    /// The operator's token, which allows as much as a member's ticket.
    pub token: OperatorToken,
}

impl Clients {
    /// Accepts some of the connections that wait at the listener.
    pub(super) fn accept(&mut self, registry: &Registry, metrics: &Metrics) {
        for _ in 0..ACCEPTS_MAX {
            if self.has_lobby() {
                if !self.may_leave_lobby(Instant::now()) {
                    self.accepting = false; // The others wait with the system.
                    return;
                }
                if let Some((stream, from)) = self.leave_lobby() {
                    self.welcome(stream, from, registry, metrics);
                }
                continue;
            }
            let Some(listener) = &self.listener else {
                self.accepting = false;
                return;
            };
            let (socket, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.accepting = false;
                    return;
                }
                // A waiting connection broke, or too many files are open. The next attempt may
                // succeed.
                Err(error) => {
                    tracing::warn!(%error, "can't accept a Redis connection");
                    self.accepting = false;
                    return;
                }
            };
            self.welcome(Stream::Plain(socket), from, registry, metrics);
        }
    }

    /// Adds a client after its TLS handshake.
    pub(super) fn accept_secured(
        &mut self,
        client: Secured,
        registry: &Registry,
        metrics: &Metrics,
    ) {
        let stream = Stream::secured(TcpStream::from_std(client.socket), client.tls);
        self.welcome(stream, client.from, registry, metrics);
    }

    fn welcome(
        &mut self,
        stream: Stream,
        from: SocketAddr,
        registry: &Registry,
        metrics: &Metrics,
    ) {
        if let Err(error) = self.take_in(stream, from, registry, metrics) {
            tracing::warn!(%error, peer = %from, "can't serve a Redis connection");
        }
    }

    fn take_in(
        &mut self,
        stream: Stream,
        from: SocketAddr,
        registry: &Registry,
        metrics: &Metrics,
    ) -> io::Result<()> {
        let now = Instant::now();
        let given_back = match self.make_room(now, metrics) {
            Room::Yes => Ok(stream),
            Room::No => Err(stream),
            Room::At(until) => match self.wait_in_lobby(stream, from, until) {
                Ok(()) => return Ok(()),
                Err(stream) => Err(stream),
            },
        };
        let mut stream = match given_back {
            Ok(stream) => stream,
            Err(mut stream) => {
                // Whether the client can still receive the error does not matter.
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                metrics.resp_refused();
                return Ok(());
            }
        };
        stream.socket().set_nodelay(true)?;
        let local = stream.socket().local_addr()?.to_string();
        let id = self.server.next_id();
        let entry = self.connections.vacant_entry();
        let token = Token(CONNECTIONS + entry.key());
        registry.register(
            stream.socket(),
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let ends = Ends {
            peer: from.to_string(),
            address: from.ip(),
            local,
            made: now,
        };
        let at = entry.key();
        // The socket does not report input that was read along with the handshake.
        let readable = stream.is_secured();
        entry.insert(Some(Box::new(Connection {
            stream,
            session: Session::new(id, self.config.clone()),
            pass: None,
            ends: Arc::new(ends),
            heard: now,
            out: Output::default(),
            readable,
            read_closed: false,
            again: false,
            writable: false,
            queued: false,
            wait: None,
            ending: None,
            subscribed: false,
            news: Default::default(),
            stranger: None,
            lapsed: false,
            footprint: Default::default(),
        })));
        metrics.resp_clients(self.connections.len());
        self.note_stranger(at, now);
        if readable {
            self.queue(at);
        }
        Ok(())
    }
}
