//! Roles: what somebody may do in a space.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tallymesh_core::Role as Limit;
use utoipa::ToSchema;

/// What somebody may do in a space. Each may do what those before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Reader,
    /// Adds, under its own writer.
    Writer,
    /// Resets, deletes and sets, too.
    Editor,
    /// Speaks for others, is trusted for what it says of them, and decides who else may do what.
    Member,
}

impl Role {
    /// All roles, the least one first.
    pub const ALL: [Role; 4] = [Role::Reader, Role::Writer, Role::Editor, Role::Member];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Writer => "writer",
            Role::Editor => "editor",
            Role::Member => "member",
        }
    }

    /// What a replica of this role is held to; a member's to nothing.
    pub(crate) fn limit(self) -> Option<Limit> {
        match self {
            Role::Reader => Some(Limit::Reader),
            Role::Writer => Some(Limit::Writer),
            Role::Editor => Some(Limit::Editor),
            Role::Member => None,
        }
    }
}

impl From<Limit> for Role {
    fn from(limit: Limit) -> Role {
        match limit {
            Limit::Reader => Role::Reader,
            Limit::Writer => Role::Writer,
            Limit::Editor => Role::Editor,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let mut roles = Role::ALL.into_iter();
        roles
            .find(|role| role.name() == text)
            .ok_or_else(|| format!("`{text}` is no role: it is reader, writer, editor or member"))
    }
}
