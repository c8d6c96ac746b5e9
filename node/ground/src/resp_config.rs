//! The settings of the Redis protocol. They stand here because that protocol is also built without an engine, to
//! be fuzzed.

use std::fmt;

/// The behaviour of sessions, the same for all of a node.
///
/// By default clients need not authenticate, commands may decide by this node's state, and nothing
/// can be flushed.
#[derive(Clone, Default)]
pub struct RespConfig {
    /// The password for `AUTH`, for the user `default`. `None` if clients need none.
    pub password: Option<String>,
    /// Whether `AUTH` needs a ticket instead of a password.
    pub tickets: bool,
    /// Whether commands are refused whose effect depends on this node's state.
    pub strict: bool,
    /// Whether `FLUSHDB` and `FLUSHALL` are available.
    pub flush: bool,
    /// Answers of `CONFIG GET` beside those that sessions have themselves, such as `port` or
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
    /// Shows everything except the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RespConfig")
            .field("tickets", &self.tickets)
            .field("strict", &self.strict)
            .field("flush", &self.flush)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
