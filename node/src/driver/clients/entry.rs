//! How Redis clients come in: from the listener, or with keys agreed on; and who gives way if there are
//! too many.

use super::line::Line;
use super::output::Output;
use super::strangers::Room;
use super::{CONNECTIONS, Clients, Connection, Ends};
use crate::metrics::Metrics;
use crate::resp::{RespConfig, Session};
use crate::trust::{Ledger, OperatorToken};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Connections that are accepted before those that are there have their turn.
const ACCEPTS_MAX: usize = 64;

/// How Redis clients are served.
pub(crate) struct Serve {
    /// Where they connect. `None`: elsewhere, and they [come](Secured) with keys agreed on.
    pub(crate) listener: Option<std::net::TcpListener>,
    /// The port where they do.
    pub(crate) port: u16,
    /// What is allowed to whom.
    pub(crate) rules: RespConfig,
    /// Most of them at once.
    pub(crate) clients_max: usize,
    /// Which of their tickets are revoked.
    pub(crate) ledger: Ledger,
    /// The operator's token, which is as good as a member's ticket.
    pub(crate) token: OperatorToken,
}

/// A Redis client with which keys are agreed on.
pub(crate) struct Secured {
    /// Its connection, which does not block.
    pub(crate) socket: std::net::TcpStream,
    /// The keys, and what was read beside them.
    pub(crate) tls: rustls::ServerConnection,
    /// Where it comes from.
    pub(crate) from: SocketAddr,
}

impl Clients {
    /// Takes in who waits at the listener, some of them at a time.
    pub(super) fn accept(&mut self, registry: &Registry, metrics: &Metrics) {
        for _ in 0..ACCEPTS_MAX {
            if self.has_lobby() {
                if !self.may_leave_lobby(Instant::now()) {
                    self.accepting = false; // The others wait with the system.
                    return;
                }
                if let Some((line, from)) = self.leave_lobby() {
                    self.welcome(line, from, registry, metrics);
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
                // A connection that broke while it waited, or too many files: others may do.
                Err(error) => {
                    tracing::warn!(%error, "can't accept a Redis connection");
                    self.accepting = false;
                    return;
                }
            };
            self.welcome(Line::Plain(socket), from, registry, metrics);
        }
    }

    /// Takes in a client with which keys are agreed on.
    pub(in crate::driver) fn secured(
        &mut self,
        client: Secured,
        registry: &Registry,
        metrics: &Metrics,
    ) {
        let line = Line::secured(TcpStream::from_std(client.socket), client.tls);
        self.welcome(line, client.from, registry, metrics);
    }

    fn welcome(&mut self, line: Line, from: SocketAddr, registry: &Registry, metrics: &Metrics) {
        if let Err(error) = self.take_in(line, from, registry, metrics) {
            tracing::warn!(%error, peer = %from, "can't serve a Redis connection");
        }
    }

    fn take_in(
        &mut self,
        line: Line,
        from: SocketAddr,
        registry: &Registry,
        metrics: &Metrics,
    ) -> io::Result<()> {
        let now = Instant::now();
        let given_back = match self.make_room(now, metrics) {
            Room::Yes => Ok(line),
            Room::No => Err(line),
            Room::At(until) => match self.wait_in_lobby(line, from, until) {
                Ok(()) => return Ok(()),
                Err(line) => Err(line),
            },
        };
        let mut line = match given_back {
            Ok(line) => line,
            Err(mut line) => {
                // Whether it can still be told does not matter.
                let _ = line.write(b"-ERR max number of clients reached\r\n");
                metrics.resp_refused();
                return Ok(());
            }
        };
        line.socket().set_nodelay(true)?;
        let local = line.socket().local_addr()?.to_string();
        let id = self.books.next_id();
        let entry = self.connections.vacant_entry();
        let token = Token(CONNECTIONS + entry.key());
        registry.register(
            line.socket(),
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
        // Of what was read along with the keys no socket will tell.
        let readable = line.is_secured();
        entry.insert(Some(Box::new(Connection {
            line,
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
