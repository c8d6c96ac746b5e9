//! How a session continues, and the events that it waits for.

#[allow(unused_imports, reason = "what the docs name")]
use super::Session;
use tallymesh_core::Level;
use tallymesh_node_ground::model::LastWrite;

/// How a session continues after it was fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It accepts its next bytes.
    Open,
    /// Its output is long, and commands may be left. Flush some of it, and feed again, even with no
    /// bytes.
    Full,
    /// It has done the work of a turn, and commands are left. Let others have their turn, and feed
    /// again, even with no bytes.
    Turn,
    /// It waits, as [`Session::wait`] describes. Answer the wait, and feed again.
    Waits,
    /// It is over: flush its output, and close the connection.
    Close,
}

/// The event that a session waits for. Times count from when [`Flow::Waits`] was returned, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For members. Call [`Session::answer_wait`] once there are enough, or the time is over.
    Holders {
        /// How many must have stored its [writes](Session::writes) durably.
        members: usize,
        /// The longest wait. `None` for no end.
        timeout_ms: Option<u64>,
    },
    /// For its last write to reach a level. Call [`Session::answer_level`] once it has, or the time
    /// is over.
    Write {
        /// The last write of the session.
        written: LastWrite,
        /// The level.
        level: Level,
        /// The longest wait.
        timeout_ms: u64,
    },
    /// For this node to have everything that members of that level have now. Call
    /// [`Session::answer_level`].
    Read {
        /// The space's number.
        space: usize,
        /// The level.
        level: Level,
        /// The longest wait.
        timeout_ms: u64,
    },
    /// For time to pass, because too many attempts to authenticate failed. Call
    /// [`Session::answer_pause`] after it.
    Pause {
        /// The length of the pause.
        timeout_ms: u64,
    },
    /// For enough rights here for [the refused command](Session::lack). Call
    /// [`Session::answer_rights`] once there are enough, or the time is over.
    Rights {
        /// The space's number.
        space: usize,
        /// The longest wait.
        timeout_ms: u64,
    },
    /// For this node to be a member, because it still starts. Call [`Session::answer_rights`] once it
    /// is, or the time is over.
    Membership {
        /// The space's number.
        space: usize,
        /// The longest wait.
        timeout_ms: u64,
    },
}
