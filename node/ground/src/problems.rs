//! All refusals of requests, over HTTP and over the Redis protocol, in one table of stable codes.
//!
//! For each code the table has its meaning, the advice, its HTTP status, its effect on a write, and
//! its form for Redis clients. The sentence with the numbers of the case is made where the request
//! is refused. Where Redis has the same refusal, the text is exactly that of Redis.
//!
//! docs/errors.md is made from this table, and a test compares them.

mod refusals;
mod table;
#[cfg(test)]
mod tests;

pub use table::*;

use std::borrow::Cow;
use std::fmt::Write;
use tallymesh_core::{Error, MemberError, ScopeError};

/// The text that a client gets for a fault of the program.
pub const INTERNAL_TEXT: &str = "a fault of the program ended this, and whether it was done is not known; \
     read before you try again, and report what the node's log says";

/// The text where an operation was made before under its idempotency key, with less effect.
pub const MADE_WEAKER_TEXT: &str = "this was made before under its idempotency key, at a node that had to begin \
     again; not all that it had cancelled of others could be cancelled again, so read the counters, and make \
     what is still wanted under a new key";

/// The effect of a refused write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Applied {
    /// It was not applied: nothing was changed.
    No,
    /// It was applied here, but the requested level was not reached, or its effect is gone by now.
    Here,
    /// It is not known whether it was or will be applied.
    Unknown,
}

impl Applied {
    /// The name of this value.
    pub const fn word(self) -> &'static str {
        match self {
            Applied::No => "no",
            Applied::Here => "here",
            Applied::Unknown => "unknown",
        }
    }
}

/// The form of a refusal for a Redis client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// An error that begins with this word; the connection goes on.
    Error(&'static str),
    /// An error that begins with this word, and the end of the connection.
    End(&'static str),
}

/// One kind of refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its stable name.
    pub code: &'static str,
    /// Its HTTP status; `None` if it does not occur over HTTP.
    pub status: Option<u16>,
    /// Its effect on a write; `None` if no write is refused with it.
    pub applied: Option<Applied>,
    /// Its form for a Redis client; `None` if it does not occur there.
    pub resp: Option<Shown>,
    /// Its meaning.
    pub means: &'static str,
    /// Over HTTP, the seconds after which to retry, if they are known.
    pub wait_s: Option<u32>,
    /// The advice to the user.
    pub advice: &'static str,
}

impl Kind {
    /// A refusal over HTTP that changed nothing.
    const fn http(code: &'static str, status: u16, means: &'static str) -> Kind {
        Kind {
            code,
            status: Some(status),
            applied: Some(Applied::No),
            resp: None,
            means,
            wait_s: None,
            advice: "",
        }
    }

    /// A refusal over the Redis protocol only, which changed nothing.
    const fn resp(code: &'static str, means: &'static str) -> Kind {
        Kind {
            code,
            status: None,
            applied: Some(Applied::No),
            resp: Some(Shown::Error("ERR")),
            means,
            wait_s: None,
            advice: "",
        }
    }

    /// A refusal of one node to let another one join by a ticket. It occurs in the logs of both
    /// nodes only. Its code has the form of the codes that tickets have over HTTP.
    const fn between_nodes(code: &'static str, means: &'static str) -> Kind {
        Kind {
            code,
            status: None,
            applied: None,
            resp: None,
            means,
            wait_s: None,
            advice: "",
        }
    }

    /// An error of a frame from another replica. It ends the link.
    const fn link(code: &'static str, means: &'static str) -> Kind {
        Kind {
            code,
            status: Some(400),
            applied: None,
            resp: None,
            means,
            wait_s: None,
            advice: "",
        }
    }

    /// Sets the seconds after which to retry over HTTP.
    const fn after(mut self, seconds: u32) -> Kind {
        self.wait_s = Some(seconds);
        self
    }

    const fn advice(mut self, advice: &'static str) -> Kind {
        self.advice = advice;
        self
    }

    const fn shown(mut self, shown: Shown) -> Kind {
        self.resp = Some(shown);
        self
    }

    /// A Redis client gets it as an ordinary error.
    const fn both(self) -> Kind {
        self.shown(Shown::Error("ERR"))
    }

    const fn here(mut self) -> Kind {
        self.applied = Some(Applied::Here);
        self
    }

    const fn unknown(mut self) -> Kind {
        self.applied = Some(Applied::Unknown);
        self
    }

    /// The word before the text of a Redis error.
    pub fn prefix(&self) -> &'static str {
        match self.resp {
            Some(Shown::Error(prefix) | Shown::End(prefix)) => prefix,
            None => "ERR",
        }
    }
}

/// The kind for a code from another part. A test checks that each such code is in the table.
pub fn of(code: &str) -> &'static Kind {
    let found = TABLE.iter().find(|kind| kind.code == code);
    found.unwrap_or(&&INTERNAL)
}

/// The sentence about a refusal of the replica. It is the replica's own text, or the node's where
/// the text must name a command, because the replica has no commands. Every protocol shows this
/// text.
pub fn text(error: &Error) -> Cow<'static, str> {
    match error {
        Error::Member(MemberError::NotAMember) => Cow::Borrowed(ASK_A_MEMBER),
        Error::Scope(ScopeError::BeyondRole) => Cow::Owned(format!("{error}; {HIGHER_ROLE}")),
        error => Cow::Owned(error.to_string()),
    }
}

/// The advice where a node's role does not allow an operation.
const HIGHER_ROLE: &str = "`tallymesh status --json` shows this node's role; for more, join with a ticket of \
    another role, such as a member makes with `tallymesh invite --role editor`";

/// The text of `not_a_member` where a space has members, or where the node joined with a ticket.
const ASK_A_MEMBER: &str = "Only a member of the space may do this, and this node is none: ask the node of a \
    member, such as the one that gave you the ticket";

/// The same where the space has no members and this node may be the first. Mostly it occurs on a
/// fresh node.
pub(crate) const NEEDS_MESH: &str = "This needs a mesh: run `tallymesh members init` once (budgets, sequences \
    and rate limits need one)";

/// A section of the page: its title, and the condition for its rows.
type Section = (&'static str, fn(&Kind) -> bool);

/// The page docs/errors.md.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let sections: [Section; 4] = [
        ("Requests", |kind| !is_link(kind) && kind.status.is_some()),
        ("Links", is_link),
        ("Tickets between nodes only", is_between_nodes),
        ("Redis clients only", |kind| {
            kind.resp.is_some() && kind.status.is_none()
        }),
    ];
    for (title, wanted) in sections {
        let mut kinds: Vec<&Kind> = TABLE.iter().copied().filter(|kind| wanted(kind)).collect();
        kinds.sort_by_key(|kind| kind.code);
        page.push_str(&format!("\n## {title}\n"));
        page.push_str("| code | HTTP | a write | Redis | means | what to do |\n");
        page.push_str("|---|---|---|---|---|---|\n");
        for kind in kinds {
            row(&mut page, kind);
        }
    }
    page
}

/// Whether it is an error of a frame, which is no write.
fn is_link(kind: &Kind) -> bool {
    kind.applied.is_none() && kind.status.is_some()
}

/// Whether it occurs only between nodes, and in their logs.
fn is_between_nodes(kind: &Kind) -> bool {
    kind.status.is_none() && kind.resp.is_none()
}

fn row(page: &mut String, kind: &Kind) {
    let status = kind.status.map(|status| status.to_string());
    let shown = match kind.resp {
        None => String::new(),
        Some(Shown::Error(prefix)) => format!("`{prefix}`"),
        Some(Shown::End(prefix)) => format!("`{prefix}`, ends"),
    };
    // Writing to a text can't fail.
    let _ = writeln!(
        page,
        "| `{}` | {} | {} | {shown} | {} | {} |",
        kind.code,
        status.unwrap_or_default(),
        kind.applied.map_or("", Applied::word),
        kind.means,
        kind.advice,
    );
}

const HEAD: &str = "\
# Errors

This page is made from the table in `node/ground/src/problems/table.rs`; a test compares them.

Over HTTP a refusal is `application/problem+json` (RFC 9457) with the fields `title`, `status`, \
`code`, `detail`, and, where they apply, `applied`, `line` and `op`. The `code` is stable; the \
`detail` names what was sent and the limit, and may change. A Redis client gets an error whose \
text is Redis's own where Redis has the same refusal; the codes name those texts here.

**A write** that is refused is one of three. `no`: it was not applied, and nothing was changed. \
`here`: it was applied at this node, but the level that was asked for was not reached, or what it \
wrote is gone by now. `unknown`: it may have been applied, or may still be, so read the counter \
before you write again. A connection that breaks before the answer came, over whatever protocol, is \
`unknown` too. A write with an idempotency key may be sent again in each of these cases, to the same \
node or, in a space with members, to any member.

\"Redis\" names the word before the text, and whether the connection ends. For tickets the code stands \
behind it, `WRONGPASS ticket_expired: the ticket ended ...`; a ticket that was taken, and is worth \
nothing any more when a command comes, is refused with `NOAUTH` instead.
";
