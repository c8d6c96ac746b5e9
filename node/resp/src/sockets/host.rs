//! The view that sessions of the Redis protocol have of the node.

use super::{Connection, Ends};
use crate::protocol::{Facts, Host, KeyIdRange, Seen};
use slab::Slab;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::{Asker, Error, KeyId, KeyStatus, Replica};
use tallymesh_node_engine::access::{
    AuthThrottle, Client, Credentials, Ledger, OperatorToken, TOKEN_PREFIX, places,
};
use tallymesh_node_engine::driver::Spaces;
use tallymesh_node_engine::metrics::{Metrics, resident_bytes};
use tallymesh_node_ground::model::{
    AtPresent, Event, Lack, LastWrite, Place, Role, Sizes, StuckPart, Turned,
};
use tallymesh_node_ground::problems::TOKEN_WRONG;

/// How long a measured memory size is shown before it is measured again.
const MEMORY_TIME: Duration = Duration::from_secs(1);

/// Counts and records over all connections.
pub(super) struct ServerState {
    port: u16,
    run_id: String,
    started: Instant,
    /// Connections since the start.
    made: u64,
    /// Commands since the start.
    pub(super) commands: u64,
    /// Links to other nodes.
    pub(super) links: usize,
    /// Failed authentication attempts.
    auth_throttle: AuthThrottle,
    /// The ledger, which lists the revoked tickets.
    ledger: Ledger,
    /// The operator's token.
    token: OperatorToken,
    /// The places of the clients that have shown a ticket.
    places: places::Shared,
    /// The memory in use, and when it was measured.
    memory: Option<(Instant, u64)>,
}

impl ServerState {
    pub(super) fn new(
        port: u16,
        ledger: Ledger,
        token: OperatorToken,
        clients_max: usize,
    ) -> ServerState {
        let mut bytes = [0; 20];
        // It only distinguishes one start from another.
        let _ = getrandom::fill(&mut bytes);
        ServerState {
            port,
            ledger,
            token,
            places: places::Shared::new(clients_max),
            memory: None,
            run_id: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            started: Instant::now(),
            made: 0,
            commands: 0,
            links: 0,
            auth_throttle: AuthThrottle::default(),
        }
    }

    /// Bytes of memory that the process uses, measured once a second at most.
    fn memory_bytes(&mut self, now: Instant) -> u64 {
        let fresh = |it: &(Instant, u64)| now.duration_since(it.0) < MEMORY_TIME;
        if let Some((_, bytes)) = self.memory.filter(fresh) {
            return bytes;
        }
        let bytes = resident_bytes().unwrap_or(0);
        self.memory = Some((now, bytes));
        bytes
    }

    /// A number for a new connection, never given twice.
    pub(super) fn next_id(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

/// The view of one connection while it has its turn.
pub(super) struct ConnectionView<'a> {
    pub(super) spaces: &'a mut Spaces,
    /// All connections but this one.
    pub(super) others: &'a Slab<Option<Box<Connection>>>,
    /// The number of this connection's session, its fixed facts, and when it last sent.
    pub(super) own: (u64, Arc<Ends>, Instant),
    /// The ticket of this connection.
    pub(super) pass: Option<Box<Credentials>>,
    pub(super) server: &'a mut ServerState,
    pub(super) metrics: &'a Metrics,
    pub(super) unix_ms: u64,
    /// Milliseconds since the driver's start.
    pub(super) since_start: u64,
    pub(super) now: Instant,
    /// Whether a command changed anything.
    pub(super) wrote: bool,
    /// The space that the present command may be changing.
    pub(super) changing: Option<usize>,
    /// Whether the connection has shown a valid ticket.
    pub(super) shown: bool,
}

impl Host for ConnectionView<'_> {
    #[inline]
    fn executed(&mut self) {
        self.changing = None;
    }

    fn lacks(&mut self, space: usize, lacked: &Lack) {
        self.changing = Some(space);
        self.spaces[space].lacks(self.since_start, lacked);
    }

    fn stuck(&self, space: usize, lacked: &Lack) -> Vec<StuckPart> {
        self.spaces[space].stuck_of(self.since_start, lacked)
    }

    fn awaits_clock(&self, space: usize) -> bool {
        self.spaces[space].awaits_clock()
    }

    fn at_present(&self, space: usize) -> AtPresent {
        self.spaces[space].at_present(self.since_start)
    }

    fn refused(&mut self, code: &'static str) {
        self.metrics.refused("redis", code);
    }

    fn may_log_in(&mut self) -> Result<(), Duration> {
        self.server
            .auth_throttle
            .may_try(self.own.1.address, self.now)
    }

    fn log_in_failed(&mut self, code: &'static str) -> Option<Duration> {
        let from = self.own.1.address;
        self.server.auth_throttle.failed(from, code, self.now)
    }

    fn log_in(&mut self, shown: &[u8]) -> Result<Role, Turned> {
        if shown.starts_with(TOKEN_PREFIX.as_bytes()) {
            if !self.server.token.is(shown) {
                return Err(Turned {
                    code: TOKEN_WRONG.code,
                    text: "this is not the token of this node's operator; take the one in the file `token` \
                           of this node's data folder"
                        .into(),
                });
            }
            // The token has no end and no bounds, and needs none of the places that tickets share.
            (self.pass, self.shown) = (None, true);
            return Ok(Role::Member);
        }
        let mut pass = Credentials::read(shown, &self.server.ledger, self.spaces, self.unix_ms)?;
        let role = pass.role();
        let client = Client::new(Some(self.own.1.address), role, Some(pass.grant()));
        let before = self.pass.as_mut();
        let same = before.and_then(|it| it.place.take_if(|held| held.client() == client));
        pass.place = Some(match same {
            Some(place) => place,
            None => self
                .server
                .places
                .begin(client)
                .map_err(|full| Turned::full(full.told("Redis connections")))?,
        });
        self.pass = Some(Box::new(pass));
        self.shown = true;
        Ok(role)
    }

    fn judge(&self, place: Place) -> Result<(), Turned> {
        let pass = self.pass.as_ref();
        pass.map_or(Ok(()), |it| it.judge(place, self.spaces, self.unix_ms))
    }

    fn spaces(&self) -> usize {
        self.spaces.count()
    }

    fn space_name(&self, space: usize) -> &str {
        self.spaces[space].name().as_str()
    }

    #[inline]
    fn replica(&self, space: usize) -> &Replica {
        &self.spaces[space].replica
    }

    #[inline]
    fn writable(&mut self, space: usize) -> Result<&mut Replica, Error> {
        self.changing = Some(space);
        self.spaces[space].writable()
    }

    #[inline]
    fn wrote(&mut self, space: usize, changed: KeyId, event: Event) {
        self.wrote = true;
        self.spaces[space].wrote(changed, event);
    }

    fn made(&mut self, space: usize) {
        self.wrote = true;
        self.spaces[space].made();
    }

    fn asker(&self, space: usize) -> Asker {
        let (address, pass) = (Some(self.own.1.address), self.pass.as_deref());
        let role = pass.map_or(Role::Member, Credentials::role);
        let client = Client::new(address, role, pass.map(Credentials::grant));
        self.spaces[space].asker(client.party, client.is_limited())
    }

    fn asked(&mut self, space: usize, asked: KeyStatus) {
        self.spaces[space].asked(asked);
    }

    fn sizes(&mut self, space: usize) -> Sizes {
        self.spaces.sizes(space)
    }

    fn memory_bytes(&mut self) -> u64 {
        self.server.memory_bytes(self.now)
    }

    fn key_ids(&self, space: usize) -> KeyIdRange {
        let replica = &self.spaces[space].replica;
        KeyIdRange {
            end: replica.key_ids_end(),
            generation: replica.generation() as u16, // Scans are shorter than 65,536 of them.
        }
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn space_time(&self, space: usize) -> u64 {
        self.spaces.time(space)
    }

    fn random(&mut self) -> u64 {
        getrandom::u64().unwrap_or(0)
    }

    fn holders(&mut self, writes: &[LastWrite]) -> usize {
        let held = writes
            .iter()
            .map(|it| self.spaces[it.space].holders(it, None));
        held.min().unwrap_or(0)
    }

    fn facts(&self) -> Facts {
        Facts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: self.server.run_id.clone(),
            process_id: std::process::id(),
            port: self.server.port,
            uptime_ms: u64::try_from(self.server.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            connections: self.others.len(),
            connections_total: self.server.made,
            commands_total: self.server.commands,
            links: self.server.links,
        }
    }

    fn seen(&self, session: u64) -> Seen {
        let (own, ends, heard) = &self.own;
        if *own == session {
            return ends.seen(*heard);
        }
        let mut others = self.others.iter().filter_map(|(_, it)| it.as_deref());
        let other = others.find(|it| it.session.id() == session);
        other.map(Connection::seen).unwrap_or_default()
    }

    fn others(&self, take: &mut dyn FnMut(u64, &str)) {
        for other in self.others.iter().filter_map(|(_, it)| it.as_deref()) {
            take(other.session.id(), &other.session.describe(&other.seen()));
        }
    }
}
