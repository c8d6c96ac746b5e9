//! The place that a request uses, and the reason why a ticket is not enough for it.

use super::Role;

/// The code for a request that a valid ticket does not allow.
const FORBIDDEN: &str = "forbidden";

/// The code for a valid ticket whose clients have all their places.
const FULL: &str = "clients_full";

/// The place that a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// No space.
    Nowhere,
    /// The space of this number.
    Space(usize),
    /// The node as a whole, and so every space.
    Everywhere,
}

/// The reason why a ticket is not enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turned {
    /// The stable code of the refusal.
    pub code: &'static str,
    /// The text of the refusal.
    pub text: String,
}

impl Turned {
    /// A request that a valid ticket does not allow.
    pub fn forbidden(text: impl Into<String>) -> Turned {
        Turned {
            code: FORBIDDEN,
            text: text.into(),
        }
    }

    /// A request that needs another role than the ticket gives.
    pub fn of_role(what: &str, needed: Role, role: Role) -> Turned {
        Turned::forbidden(format!(
            "{what} takes the role {needed}, and the ticket gives {role}; ask a member for another"
        ))
    }

    /// A valid ticket whose clients already have all their places.
    pub fn full(text: String) -> Turned {
        let code = FULL;
        Turned { code, text }
    }

    /// Whether the ticket is valid, and there is no place.
    pub fn is_full(&self) -> bool {
        self.code == FULL
    }

    /// Whether the ticket is valid for another place or request.
    pub fn is_forbidden(&self) -> bool {
        self.code == FORBIDDEN
    }
}
