//! The Redis protocol: programs that count in Redis can count here.
//!
//! This module is everything between bytes and replicas, without a socket, clock or thread. The
//! owner of the connections [feeds](Session::feed) received bytes to a connection's [`Session`].
//! The session executes each complete command on the replicas that a [`Host`] lends it, and appends
//! the replies. The driver of a node is such an owner: it flushes replies once their content is
//! durable.
//! ```text
//! bytes ──▶ Request ──▶ command ──▶ Replica        (one connection: Session)
//!           framing     table          │
//! out   ◀── Reply ◀────────────────────┘
//! ```
//!
//! Commands have their meaning in Redis, for integers, as far as a mesh can keep it:
//!
//! - A command answers with the state of *this node*. Others may have counted more.
//! - All commands of an `EXEC` are one transaction, and so is a command on several counters. Each
//!   replica applies all of it or none.
//! - Conditional and draining commands (`SET` with `NX`, `XX` or `GET`, `SETNX`, `GETSET`,
//!   `GETDEL`, `WATCH`) decide by this node's state. Where that would mislead,
//!   [`RespConfig::strict`] refuses them.
//! - `ONCE key` before a command that writes, or before `EXEC`, makes it count once, however often
//!   and at whichever member it is sent.
//! - `INCREX` keeps the bounds of a limit or a budget. It refuses bounds that only a centre could
//!   keep.
//! - `BUDGET.…` commands are for budgets. Other commands that read counters do not show budgets,
//!   and other commands that write them are refused.
//! - A value is wider than Redis's: the sum of all writers may exceed 64 bits. `GET` then answers
//!   with all its digits. `INCR` and `DECR` then answer as Redis does to text that is no 64-bit
//!   integer, and change nothing. They also change nothing if their answer would exceed 64 bits.
//!   The same holds if this node's own sum since the last set or delete would exceed them.

mod access;
mod budgets;
mod command;
mod connection;
mod counters;
mod error;
mod expire;
mod flow;
mod glob;
mod increx;
mod keyspace;
mod levels;
pub mod limits;
mod multi;
mod once;
mod pubsub;
mod received_bytes;
mod reply;
mod request;
mod rights;
mod sequences;
mod server;
mod session;
mod why;

pub use error::{Broken, ReplyError};
pub use flow::{Flow, Wait};
pub use levels::Unmet;
pub use pubsub::Midway;
pub use request::Args;
pub use session::Session;
use tallymesh_node_ground::model::{
    AtPresent, Event, Lack, LastWrite, Place, Role, Sizes, StuckPart, Turned,
};
pub use tallymesh_node_ground::resp_config::RespConfig;
pub use why::Why;

use std::time::Duration;
use tallymesh_core::{Asker, Error, KeyId, KeyStatus, MemberError, Replica};

/// The functions of the node that a session needs.
///
/// A space is given by its number, which is below [`spaces`](Host::spaces); there is at least one.
pub trait Host {
    /// How many spaces are open.
    fn spaces(&self) -> usize;

    /// The name of a space.
    fn space_name(&self, space: usize) -> &str;

    /// The replica of a space. Its [time](Replica::set_time) is [`space_time`](Host::space_time).
    fn replica(&self, space: usize) -> &Replica;

    /// The replica of a space, for a write.
    ///
    /// # Errors
    /// When the node may not write there.
    fn writable(&mut self, space: usize) -> Result<&mut Replica, Error>;

    /// Reports the end of a command. The replicas that it has [asked to write](Host::writable) to
    /// are whole.
    fn executed(&mut self) {}

    /// Reports that a local transaction changed a counter, once for each event.
    fn wrote(&mut self, space: usize, changed: KeyId, event: Event);

    /// Reports a local transaction that changed no counter, but has to be stored.
    fn made(&mut self, space: usize);

    /// Reports the result of a command under an idempotency key. It was new and is made, it was
    /// made before, or its key belongs to another request.
    fn asked(&mut self, space: usize, asked: KeyStatus);

    /// The asker for whom this connection makes operations under idempotency keys.
    fn asker(&self, _space: usize) -> Asker {
        Asker::default()
    }

    /// Reports that a command was refused because this node has too little of a budget.
    fn lacks(&mut self, _space: usize, _lacked: &Lack) {}

    /// What members hold that are away, of what a refused command lacks.
    fn stuck(&self, _space: usize, _lacked: &Lack) -> Vec<StuckPart> {
        Vec::new()
    }

    /// Whether the node awaits the clock of another member of a space.
    fn awaits_clock(&self, _space: usize) -> bool {
        false
    }

    /// The reasons for which the node refuses things in a space at present.
    fn at_present(&self, _space: usize) -> AtPresent {
        AtPresent {
            not_a_member: Error::Member(MemberError::NotAMember).into(),
            awaits_clock: false,
            takes_over: false,
            unreached: Vec::new(),
        }
    }

    /// Reports that a command was refused, with its stable code.
    fn refused(&mut self, _code: &'static str) {}

    /// Checks whether this connection may try a password. The error is the time to wait.
    ///
    /// # Errors
    /// When too many attempts from its address failed.
    fn may_log_in(&mut self) -> Result<(), Duration>;

    /// Reports a failed attempt to authenticate, with the stable code of the refusal. Returns how
    /// long the connection should pause, if too many attempts from its address failed.
    fn log_in_failed(&mut self, code: &'static str) -> Option<Duration>;

    /// Sets the ticket of this connection, which replaces the earlier one. Returns its role.
    ///
    /// # Errors
    /// When it is valid in no space. Then the earlier ticket stays.
    fn log_in(&mut self, ticket: &[u8]) -> Result<Role, Turned>;

    /// Judges the ticket of this connection, by the time and the members of the present batch. A
    /// connection without a ticket passes.
    ///
    /// # Errors
    /// When the ticket is not valid there, or does not cover the place.
    fn judge(&self, place: Place) -> Result<(), Turned>;

    /// How many counters of a space exist, and how many of them expire. It returns at once, without
    /// a search.
    fn sizes(&mut self, space: usize) -> Sizes;

    /// Bytes of memory in use, returned at once.
    fn memory_bytes(&mut self) -> u64;

    /// The end of the KeyIds of a space.
    fn key_ids(&self, space: usize) -> KeyIdRange;

    /// The wall clock of the present batch, in milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// The time of a space in the present batch, in milliseconds since 1970. Its counters expire by it.
    fn space_time(&self, space: usize) -> u64;

    /// A random number.
    fn random(&mut self) -> u64;

    /// How many other members have stored all these transactions durably.
    fn holders(&mut self, writes: &[LastWrite]) -> usize;

    /// The facts for `INFO`.
    fn facts(&self) -> Facts;

    /// The outer facts about a connection.
    fn seen(&self, session: u64) -> Seen;

    /// Calls `take` with the number and the [description](Session::describe) of each other
    /// connection.
    fn others(&self, take: &mut dyn FnMut(u64, &str));
}

/// The end of the KeyIds of a space, for `SCAN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyIdRange {
    /// One more than the highest KeyId.
    pub end: u32,
    /// Goes up whenever an existing counter may have got another KeyId: when the replica is a new
    /// one, or a whole state replaced its content. Scans then begin again.
    pub generation: u16,
}

/// The facts about the node for `INFO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The program's version.
    pub version: String,
    /// A name of this start, 40 hexadecimal digits.
    pub run_id: String,
    /// The id of the process.
    pub process_id: u32,
    /// The port of this protocol.
    pub port: u16,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Open connections of this protocol.
    pub connections: usize,
    /// Connections since the start.
    pub connections_total: u64,
    /// Commands since the start.
    pub commands_total: u64,
    /// Links to other nodes.
    pub links: usize,
}

/// The outer facts about a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The address and port of its other end.
    pub peer: String,
    /// The address and port of this end.
    pub local: String,
    /// Seconds since it was accepted.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
}

#[cfg(test)]
pub(crate) mod tests;
