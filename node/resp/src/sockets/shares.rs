//! Bounds on the bytes that connections occupy: incomplete commands, unread answers, subscriptions.
//!
//! There are three sums. Connections before authentication have a small sum of their own, so that
//! no other client has to give way to them. Clients without a member's ticket have most of the
//! rest, and members have the whole. If a sum is full, the ticket or address with the most bytes
//! gives way, with its largest connection.

use super::{Clients, Connection};
use crate::protocol::ReplyError;
use crate::protocol::limits::HELD_TOTAL_BYTES_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tallymesh_node_engine::access::TicketId;
use tallymesh_node_engine::driver::CommitGate;
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_ground::model::Role;
use tallymesh_node_ground::rate::client;

/// [`HELD_TOTAL_BYTES_MAX`], and less in tests.
const HELD_BYTES: usize = if cfg!(test) {
    2 << 20
} else {
    HELD_TOTAL_BYTES_MAX
};

/// Bytes that clients below the role member may occupy; the rest is reserved for members.
const LIMITED_BYTES: usize = HELD_BYTES / 4 * 3;

/// Bytes that connections before authentication may occupy, beside all others. A higher value takes
/// that much memory. A lower value ends connections that send a long ticket in pieces while many
/// do.
const STRANGER_BYTES: usize = HELD_BYTES / 8;

/// Bytes that a connection may still occupy after it receives the error. A larger one is closed at
/// once.
const SMALL_BYTES: usize = if cfg!(test) { 8 << 10 } else { 64 << 10 };

/// The sum in which a connection is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Class {
    #[default]
    Stranger,
    Limited,
    Member,
}

/// The ticket or address to which a connection's bytes are charged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Payer {
    Ticket(TicketId),
    Address(IpAddr),
}

/// The bytes of a connection, as they were last counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Footprint {
    pub(super) bytes: usize,
    class: Class,
}

/// The sums.
#[derive(Default)]
pub(super) struct OccupiedBytes {
    strangers: usize,
    limited: usize,
    members: usize,
}

impl OccupiedBytes {
    fn of(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Stranger => &mut self.strangers,
            Class::Limited => &mut self.limited,
            Class::Member => &mut self.members,
        }
    }

    /// A connection is closed.
    pub(super) fn forget(&mut self, footprint: Footprint) {
        *self.of(footprint.class) -= footprint.bytes;
    }

    /// Subtracts the bytes of a connection that is closed or counted again.
    fn over(&self) -> Option<Over> {
        let over = |class, limit, who| Some(Over { class, limit, who });
        if self.strangers > STRANGER_BYTES {
            let who = "connections that have not authenticated";
            return over(Some(Class::Stranger), STRANGER_BYTES, who);
        }
        if self.limited > LIMITED_BYTES {
            let who = "connections without a member's ticket";
            return over(Some(Class::Limited), LIMITED_BYTES, who);
        }
        match self.limited + self.members > HELD_BYTES {
            true => over(None, HELD_BYTES, "connections"),
            false => None,
        }
    }
}

/// A sum that is over its limit.
struct Over {
    /// The class of the connections that give way; `None` stands for all that have authenticated.
    class: Option<Class>,
    limit: usize,
    who: &'static str,
}

impl Over {
    fn counts(&self, class: Class) -> bool {
        match self.class {
            Some(only) => class == only,
            None => class != Class::Stranger,
        }
    }
}

impl Connection {
    fn class(&self) -> Class {
        let role = self.pass.as_ref().map(|pass| pass.role());
        match role {
            _ if self.is_stranger() => Class::Stranger,
            Some(role) if role < Role::Member => Class::Limited,
            _ => Class::Member,
        }
    }

    fn payer(&self) -> Payer {
        let ticket = self.pass.as_ref().filter(|_| !self.is_stranger());
        match ticket {
            Some(pass) => Payer::Ticket(pass.ticket()),
            None => Payer::Address(client(self.ends.address)),
        }
    }
}

impl Clients {
    /// Records how many bytes a connection occupies.
    pub(super) fn weigh(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_deref_mut) else {
            return;
        };
        let footprint = Footprint {
            bytes: connection.session.heap_bytes() + connection.out.unsent(),
            class: connection.class(),
        };
        let before = std::mem::replace(&mut connection.footprint, footprint);
        self.held_bytes.forget(before);
        *self.held_bytes.of(footprint.class) += footprint.bytes;
    }

    /// Ends connections while a sum is over its limit.
    pub(super) fn end_greedy(&mut self, gate: &CommitGate, metrics: &Metrics) {
        while let Some(over) = self.held_bytes.over() {
            let mut shares: BTreeMap<Payer, (usize, (usize, usize))> = BTreeMap::new();
            let all = self.connections.iter();
            for (at, connection) in all.filter_map(|(at, it)| Some((at, it.as_deref()?))) {
                if over.counts(connection.footprint.class) && connection.footprint.bytes > 0 {
                    let bytes = connection.footprint.bytes;
                    let (sum, most) = shares.entry(connection.payer()).or_default();
                    *sum += bytes;
                    *most = (*most).max((bytes, at));
                }
            }
            let most = shares.into_values().max();
            let Some((sum, (bytes, at))) = most else {
                break;
            };
            let error = ReplyError::HeldFull {
                bytes,
                sum,
                who: over.who,
                limit: over.limit,
            };
            let ends = self.connection(at).is_some_and(|it| it.ending.is_some());
            self.dismiss(at, &error, gate, metrics);
            self.weigh(at);
            let holds = self.connection(at).map_or(0, |it| it.footprint.bytes);
            if ends || holds > SMALL_BYTES {
                self.close(at, metrics);
            }
        }
    }
}
