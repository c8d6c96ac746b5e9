//! How far a request has to reach before it is answered, and how far its answer reached.

use super::{Counter, MemberName};
use crate::identity::OwnerKey;
use serde::Serialize;
use std::time::Duration;
use tallymesh_core::{Level, Once, Party, Token};

/// The conditions that a request has to meet before it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The members that have to store a write durably, or that a read has to ask.
    pub level: Level,
    /// The writes on which the session depends. A read waits until this node has them, and the
    /// answer contains a new token. An empty token begins a session; `None` is no session.
    pub token: Option<Token>,
    /// The longest wait. Less refuses more where links are slow; more keeps clients waiting when a
    /// majority is away.
    pub wait: Duration,
    /// The longest wait of a write for the rights that it spends, or for the room that it needs, in
    /// milliseconds. Less refuses more where other members have the rights; more keeps clients
    /// waiting.
    pub rights_wait_ms: u32,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand {
            level: Level::Local,
            token: None,
            wait: Duration::from_secs(5),
            rights_wait_ms: 0,
        }
    }
}

/// A guarantee that only one place for the whole mesh could give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Centre {
    /// A write under a condition on the value in the whole mesh.
    CompareAndSet,
    /// Numbers from `add`, one after the other, none of them twice.
    Sequence,
}

/// A level that was not reached in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The level.
    pub level: Level,
    /// Whether the request is a write, which is applied here. Otherwise it is a read, which was not
    /// made.
    pub applied: bool,
    /// The number of members that the level needs.
    pub needed: usize,
    /// The number of members that counted.
    pub reached: usize,
    /// The members that did not count.
    pub lacking: Vec<MemberName>,
}

/// An operation under an idempotency key, and the party that it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The key, and the request under it.
    pub once: Once,
    /// The party with which the caller shares room for keys.
    pub party: Party,
    /// Whether the caller has a role below member.
    pub limited: bool,
}

impl From<Once> for Keyed {
    /// A request of this program itself.
    fn from(once: Once) -> Keyed {
        Keyed {
            once,
            party: Party::default(),
            limited: false,
        }
    }
}

/// A write that has reached its level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    /// The result.
    pub done: T,
    /// The state on which the session depends now, if the request was part of a session.
    pub token: Option<Token>,
}

/// Counters that were read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    /// The counters, in the order of the keys; `None` for an absent one.
    pub counters: Vec<Option<Counter>>,
    /// The state on which the session depends now. `None` without a session, or if a token can't
    /// name all of that state. Then continue with the earlier token, which names less.
    pub token: Option<Token>,
    /// How complete the state was.
    pub completeness: Completeness,
}

/// How complete the state of a node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Completeness {
    /// The members, ascending by owner; none in a space that has none.
    pub members: Vec<Heard>,
}

/// When this node last received something from a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heard {
    /// Its owner's key.
    pub owner: OwnerKey,
    /// Whether it is this node.
    pub own: bool,
    /// Milliseconds since anything arrived from the member, over its own link or through others.
    /// `None` if nothing has arrived since this node was started, and for this node itself.
    pub last_heard_ms: Option<u64>,
}
