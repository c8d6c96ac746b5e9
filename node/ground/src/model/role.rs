//! Roles: the rights of an owner or a ticket holder in a space.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use tallymesh_core::Role as Limit;
use utoipa::ToSchema;

/// A role in a space. Each role includes the rights of those before it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May read.
    Reader,
    /// May add, under its own writer.
    Writer,
    /// May reset, delete and set, too.
    Editor,
    /// May pass on the changes of others, is trusted in what it states about them, and decides on
    /// the rights of others.
    Member,
}

impl Role {
    /// All roles, the one with the fewest rights first.
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

    /// The peer scope of a replica with this role; `None` for a member.
    pub fn limit(self) -> Option<Limit> {
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
