//! Requests with levels and with session tokens.

use super::{Handle, Refusal, SpaceId};
use crate::driver::{
    Command, Completeness, Keyed, Operation, ReadBack, Request, Transacted, Written,
};
use crate::identity::OwnerKey;
use std::fmt;
use std::time::Duration;
use tallymesh_core::{Level, Token};
use tokio::sync::oneshot;

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

impl Centre {
    /// The alternative.
    fn advice(self) -> &'static str {
        match self {
            Centre::CompareAndSet => {
                "a write can't depend on a value that holds in all of the mesh at once: that takes a \
                 centre. To stay above a floor, take a budget; to decide at one place, let one member \
                 alone `set` the counter, at level quorum, and read at level quorum"
            }
            Centre::Sequence => {
                "what add returns is what this node sees, and another node may return the same: a \
                 unique sequence takes a centre. Take numbers from tickets, or let one member alone \
                 add to this counter"
            }
        }
    }
}

impl fmt::Display for Centre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.advice())
    }
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
    pub lacking: Vec<OwnerKey>,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreached {
            needed, reached, ..
        } = self;
        let level = self.level.name();
        let names: Vec<String> = self.lacking.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        match self.applied {
            true => write!(
                f,
                "the write is applied here and goes on to the others, but in time only {reached} of \
                 {needed} members that level {level} takes were known to hold it (not {names}); do not \
                 write it again: read it at level {level}, or look at `tallymesh members`"
            ),
            false => write!(
                f,
                "nothing was read: in time only {reached} of {needed} members that level {level} takes \
                 had told what they hold, and all of that was seen here (not {names}); try again, or \
                 read at level local what this node has"
            ),
        }
    }
}

impl Handle {
    /// Makes several operations, all or none, and waits until the demanded level is reached. Under
    /// an idempotency key they are made once, however often and at whichever member they are
    /// requested. The result is durable at this node at every level.
    ///
    /// # Errors
    /// As [`transact`](Handle::transact), and:
    ///
    /// - [`Refusal::KeyReused`]: another request was made under the idempotency key.
    /// - [`Refusal::NoMembers`]: the level is above local, and the space has no members. Nothing is
    ///   applied.
    /// - `token_full`: the session depends on too many writers. Nothing is applied.
    /// - [`Refusal::LevelNotReached`]: it is applied here, but the level was not reached in time.
    pub async fn write(
        &self,
        space: SpaceId,
        ops: Vec<Operation>,
        once: Option<Keyed>,
        demand: Demand,
    ) -> Result<Written<Transacted>, Refusal> {
        let request = |reply| Request::Write {
            ops,
            once,
            demand,
            reply,
        };
        self.demand(space, request).await?
    }

    /// Refuses a demand that a write can't meet, before anything is applied.
    ///
    /// # Errors
    /// [`Refusal::NoMembers`], `token_full`.
    pub async fn check(&self, space: SpaceId, demand: Demand) -> Result<(), Refusal> {
        let request = |reply| Request::Check { demand, reply };
        self.demand(space, request).await?
    }

    /// Waits until all writes of this node so far reach the demanded level. Returns the writes on
    /// which the session then depends. It is for writes that are made by other methods.
    ///
    /// # Errors
    /// [`Refusal::NoMembers`], `token_full`, [`Refusal::LevelNotReached`].
    pub async fn reach(&self, space: SpaceId, demand: Demand) -> Result<Written<()>, Refusal> {
        let request = |reply| Request::Reach { demand, reply };
        self.demand(space, request).await?
    }

    /// Reads counters at the same moment, once this node has the writes that the demand names.
    /// Without keys it only waits, and later reads at this node are as new.
    ///
    /// # Errors
    /// [`Refusal::NoMembers`] for a level above local in a space that has none,
    /// [`Refusal::LevelNotReached`], [`Refusal::TokenNotReached`].
    pub async fn read_back(
        &self,
        space: SpaceId,
        keys: Vec<String>,
        demand: Demand,
    ) -> Result<ReadBack, Refusal> {
        let request = |reply| Request::ReadBack {
            keys,
            demand,
            reply,
        };
        self.demand(space, request).await?
    }

    /// Returns how complete a read at this node is, which is the time of the last message from each
    /// member.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn completeness(&self, space: SpaceId) -> Result<Completeness, Refusal> {
        let request = |reply| Request::Completeness { reply };
        self.demand(space, request).await
    }

    async fn demand<T>(
        &self,
        space: SpaceId,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Refusal> {
        let ask = |reply| Command::Demand {
            space,
            request: request(reply),
        };
        self.ask(ask).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_happened_and_what_to_do() {
        let unreached = |applied| Unreached {
            level: Level::Quorum,
            applied,
            needed: 3,
            reached: 2,
            lacking: vec![OwnerKey([0xab; 32])],
        };
        let lacking = vec!["00ff".to_owned()];
        let cases = [
            (
                Refusal::LevelNotReached(unreached(true)),
                "level_not_reached",
                [
                    "applied here",
                    "2 of 3",
                    "quorum",
                    "abab",
                    "do not write it again",
                ],
            ),
            (
                Refusal::LevelNotReached(unreached(false)),
                "level_not_reached",
                ["nothing was read", "2 of 3", "quorum", "abab", "try again"],
            ),
            (
                Refusal::TokenNotReached { lacking },
                "token_not_reached",
                [
                    "nothing was read",
                    "1 writers",
                    "00ff",
                    "try again",
                    "new session",
                ],
            ),
            (
                Refusal::NeedsCentre(Centre::CompareAndSet),
                "needs_centre",
                ["centre", "budget", "set", "one member", "quorum"],
            ),
            (
                Refusal::NeedsCentre(Centre::Sequence),
                "needs_centre",
                ["centre", "add", "unique", "tickets", "one member"],
            ),
        ];
        for (refusal, code, words) in cases {
            assert_eq!(refusal.code(), code);
            let text = refusal.to_string();
            for word in words {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
}
