//! The Redis protocol: programs that count in Redis can count here.
//!
//! This is all between bytes and replicas, with no socket, clock or thread: whoever owns the
//! connections [feeds](Session::feed) what came in to a connection's [`Session`], which executes
//! each complete command on the replicas that a [`Host`] lends it, and appends the replies. The
//! driver of a node is such an owner: it flushes replies once what they speak of is durable.
//!
//! ```text
//! bytes ──▶ Request ──▶ command ──▶ Replica        (one connection: Session)
//!           framing     table          │
//! out   ◀── Reply ◀────────────────────┘
//! ```
//!
//! Commands mean what they mean in Redis, for integers, as far as that is honest on a mesh:
//!
//! - What a command answers is what *this node* sees. Others may have counted more.
//! - All that `EXEC` makes is one transaction, and so is a command on several counters: every
//!   replica sees all of it or none.
//! - Conditional and draining commands (`SET` with `NX`, `XX` or `GET`, `SETNX`, `GETSET`, `GETDEL`,
//!   `WATCH`) decide by this node's view. Where that would mislead, [`RespConfig::strict`] refuses
//!   them.
//! - `ONCE key` before a command that writes, or before `EXEC`, makes it count once, however often and
//!   at whichever member it is sent.
//! - `INCREX` keeps the bounds of a limit or a budget, and refuses those that only a centre could keep.
//! - `BUDGET.…` are for budgets. What else reads counters does not see these, and what else writes them
//!   is refused.
//! - A value is wider than Redis's: what all writers added up may leave 64 bits. `GET` then answers
//!   all its digits; `INCR` and `DECR` answer as Redis does to text that is no 64-bit integer, and
//!   change nothing. They also change nothing when what they would answer leaves 64 bits, or when
//!   what this node's writer added to the counter since it was last set or deleted does.

mod access;
mod budgets;
mod command;
mod connection;
mod counters;
mod error;
mod expire;
mod flow;
mod glob;
mod held;
mod increx;
mod keyspace;
mod levels;
pub mod limits;
mod multi;
mod once;
mod pubsub;
mod reply;
mod request;
mod rights;
mod sequences;
mod server;
mod session;
mod why;

pub use access::{Place, Turned};
pub use error::{Broken, ReplyError};
pub use flow::{Flow, Wait, Written};
pub use levels::Unmet;
pub use pubsub::{Event, Midway, Notice};
pub use request::Args;
pub use rights::Lack;
pub use session::Session;
pub use why::Why;

use crate::driver::OperationError;
use crate::trust::Role;
use std::fmt;
use std::time::Duration;
use tallymesh_core::{Asked, Asker, Error, KeyId, Replica};

/// How sessions behave, the same for all of a node.
///
/// By default nobody has to authenticate, views may be decided by, and nothing can be flushed.
#[derive(Clone, Default)]
pub struct RespConfig {
    /// What `AUTH` must bring, for the user `default`. `None`: nobody has to authenticate.
    pub password: Option<String>,
    /// Whether `AUTH` must bring a ticket, in place of a password.
    pub tickets: bool,
    /// Whether commands are refused whose effect depends on what this node has seen.
    pub strict: bool,
    /// Whether `FLUSHDB` and `FLUSHALL` are there.
    pub flush: bool,
    /// What `CONFIG GET` tells beside what sessions know themselves, such as `port` or
    /// `appendonly`. Names are in lower case.
    pub parameters: Vec<(String, String)>,
}

impl RespConfig {
    /// Whether clients have to authenticate.
    pub fn asks(&self) -> bool {
        self.tickets || self.password.is_some()
    }
}

impl fmt::Debug for RespConfig {
    /// Shows all but the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RespConfig")
            .field("tickets", &self.tickets)
            .field("strict", &self.strict)
            .field("flush", &self.flush)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// What a session needs of the node.
///
/// Spaces go by their number, which is below [`spaces`](Host::spaces); there is at least one.
pub trait Host {
    /// How many spaces are open.
    fn spaces(&self) -> usize;

    /// The name of a space.
    fn space_name(&self, space: usize) -> &str;

    /// The replica of a space. Its [time](Replica::set_time) is [`unix_ms`](Host::unix_ms).
    fn replica(&mut self, space: usize) -> &mut Replica;

    /// The replica of a space, to write to it.
    ///
    /// # Errors
    /// When the node may not write there.
    fn writable(&mut self, space: usize) -> Result<&mut Replica, Error> {
        Ok(self.replica(space))
    }

    /// Hears that a command is executed: what it has [asked to write](Host::writable) to is whole.
    fn executed(&mut self) {}

    /// Hears that a local transaction changed a counter, once for each event.
    fn wrote(&mut self, space: usize, changed: KeyId, event: Event);

    /// Hears that a local transaction was made that changed no counter, and is to be kept all the same.
    fn made(&mut self, space: usize);

    /// Hears what became of a command under an idempotency key: it was new and is made, it was made
    /// before, or its key is another one's.
    fn asked(&mut self, space: usize, asked: Asked);

    /// For whom this connection makes operations under idempotency keys.
    fn asker(&self, _space: usize) -> Asker {
        Asker::default()
    }

    /// Hears that a command was refused as so much of a budget is not held here.
    fn lacks(&mut self, _space: usize, _lacked: &Lack) {}

    /// Why the node can't do in a space what only a member may do.
    fn not_a_member(&self, _space: usize) -> OperationError {
        Error::NotAMember.into()
    }

    /// Hears that a command was refused, with its stable code.
    fn refused(&mut self, _code: &'static str) {}

    /// Whether this connection may try a password; if not yet, how long it has to wait.
    ///
    /// # Errors
    /// When too many tries failed where it comes from.
    fn may_log_in(&mut self) -> Result<(), Duration>;

    /// Hears that it tried in vain, with the stable code of the refusal; tells how long it should pause, if
    /// too many tries failed where it comes from.
    fn log_in_failed(&mut self, code: &'static str) -> Option<Duration>;

    /// Takes a ticket that this connection shows, in place of the one before; tells its role.
    ///
    /// # Errors
    /// When it is worth nothing in any space. The one before holds then.
    fn log_in(&mut self, ticket: &[u8]) -> Result<Role, Turned>;

    /// Judges the ticket of this connection, by the time and the members of the present batch. Without a
    /// ticket nobody is asked for one.
    ///
    /// # Errors
    /// When it is worth nothing there, or does not speak of it.
    fn judge(&self, place: Place) -> Result<(), Turned>;

    /// How many counters of a space exist, and how many of them expire: at once, without looking
    /// at them all.
    fn sizes(&mut self, space: usize) -> Sizes;

    /// Bytes of memory in use, told at once.
    fn memory_bytes(&mut self) -> u64;

    /// Where the handles of a space end.
    fn handles(&self, space: usize) -> Handles;

    /// The wall clock of the present batch, in milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// A random number.
    fn random(&mut self) -> u64;

    /// How many other members hold all these transactions durably.
    fn holders(&mut self, writes: &[Written]) -> usize;

    /// What `INFO` tells.
    fn facts(&self) -> Facts;

    /// What is known of a connection from outside.
    fn seen(&self, session: u64) -> Seen;

    /// Calls `take` with the number and the [description](Session::describe) of each other
    /// connection.
    fn others(&self, take: &mut dyn FnMut(u64, &str));
}

/// How many counters of a space there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// All that exist.
    pub counters: usize,
    /// Those that expire.
    pub expiring: usize,
}

/// Where the handles of a space end, for `SCAN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    /// One more than the greatest handle's number.
    pub end: u32,
    /// Goes up whenever a counter may have got another handle while it existed: when the replica
    /// is another one, or a whole state took the place of what it held. Scans then begin again.
    pub generation: u16,
}

/// What `INFO` tells of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The program's version.
    pub version: String,
    /// A name of this start, 40 hexadecimal digits.
    pub run_id: String,
    /// The process.
    pub process_id: u32,
    /// The port of this protocol.
    pub port: u16,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Connections of this protocol.
    pub connections: usize,
    /// Those since the start.
    pub connections_total: u64,
    /// Commands since the start.
    pub commands_total: u64,
    /// Links to other nodes.
    pub links: usize,
}

/// What is known of a connection from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The address and port of its other end.
    pub peer: String,
    /// The address and port of this end.
    pub local: String,
    /// Seconds since it was made.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
}

#[cfg(test)]
pub(crate) mod tests;
