//! How a session goes on, and what it waits for.

#[allow(unused_imports, reason = "what the docs name")]
use super::session::Session;
use tallymesh_core::{Level, WriterId};

/// How a session goes on after it was fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Its next bytes are welcome.
    Open,
    /// Its output is long, and commands may be left: flush some of it, and feed again, if only
    /// nothing.
    Full,
    /// It has done the work of a turn, and commands are left: let others have theirs, and feed again, if
    /// only nothing.
    Turn,
    /// It waits for members, as [`Session::wait`] says; answer it as that says, and feed again.
    Waits,
    /// It is over: flush its output, and close the connection.
    Close,
}

/// The event that a session waits for. Times count from when [`Flow::Waits`] was returned, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Members. Call [`Session::answer_wait`] once they are there or the time is over.
    Holders {
        /// How many must hold what it [wrote](Session::writes) durably.
        members: usize,
        /// For how long it waits at most. `None`: for ever.
        timeout_ms: Option<u64>,
    },
    /// That what it has just written reaches a level. Call [`Session::answer_level`] once it did, or
    /// the time is over.
    Write {
        /// The last write of the session.
        written: Written,
        /// The level.
        level: Level,
        /// For how long it waits at most.
        timeout_ms: u64,
    },
    /// That all is seen here which members of that level hold now. Call [`Session::answer_level`].
    Read {
        /// The space's number.
        space: usize,
        /// The level.
        level: Level,
        /// For how long it waits at most.
        timeout_ms: u64,
    },
    /// That time passes, as it tried to authenticate in vain too often. Call
    /// [`Session::answer_pause`] then.
    Pause {
        /// For how long.
        timeout_ms: u64,
    },
    /// That there are enough rights here for [what was refused](Session::lack). Call
    /// [`Session::answer_rights`] once there are, or the time is over.
    Rights {
        /// The space's number.
        space: usize,
        /// For how long it waits at most.
        timeout_ms: u64,
    },
}

/// The last transaction of a writer in one space that a session made, or was told of in place of one
/// that it asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The space's number.
    pub space: usize,
    /// The writer that made it.
    pub writer: WriterId,
    /// The writer's clock then. Whoever holds it holds all before.
    pub clock: u64,
}
