//! Requests with levels and with session tokens.

use super::Handle;
use crate::driver::command::{Command, WriteContext};
use crate::driver::space::Write;
use tallymesh_node_ground::model::{
    Completeness, Demand, Keyed, Operation, ReadBack, Refusal, SpaceId, Transacted, Written,
};

impl Handle {
    /// Makes several operations, all or none, and waits until the demanded level is reached. Under
    /// an idempotency key they are made once, however often and at whichever member they are
    /// requested. The result is durable at this node at every level.
    ///
    /// # Errors
    /// As [`transact`](Handle::transact), and:
    ///
    /// - [`Refusal::KeyReused`]: another request was made under the idempotency key.
    /// - [`Refusal::MadeWeaker`]: the request was made before, and lacks a part of its effect.
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
        let ask = |reply| Command::Write {
            space,
            work: Box::new(move |space, context| {
                let WriteContext {
                    now,
                    metrics,
                    permit,
                } = context;
                let until = now.saturating_add(demand.rights_wait_ms.into());
                let write = Write {
                    ops,
                    once,
                    demand,
                    reply,
                    until,
                    permit,
                    request: None,
                };
                space.write(now, write, metrics)
            }),
        };
        self.ask(ask).await?
    }

    /// Refuses a demand that a write can't meet, before anything is applied.
    ///
    /// # Errors
    /// [`Refusal::NoMembers`], `token_full`.
    pub async fn check(&self, space: SpaceId, demand: Demand) -> Result<(), Refusal> {
        self.read_in(space, move |space, _| space.check(&demand))
            .await?
    }

    /// Waits until all writes of this node so far reach the demanded level. Returns the writes on
    /// which the session then depends. It is for writes that are made by other methods.
    ///
    /// # Errors
    /// [`Refusal::NoMembers`], `token_full`, [`Refusal::LevelNotReached`].
    pub async fn reach(&self, space: SpaceId, demand: Demand) -> Result<Written<()>, Refusal> {
        self.wait_in(space, move |space, now, reply| {
            space.reach(now, &demand, reply)
        })
        .await?
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
        self.wait_in(space, move |space, now, reply| {
            space.read_back(now, keys, &demand, reply);
            None
        })
        .await?
    }

    /// Returns how complete a read at this node is, which is the time of the last message from each
    /// member.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn completeness(&self, space: SpaceId) -> Result<Completeness, Refusal> {
        self.read_in(space, |space, now| space.completeness(now))
            .await
    }
}
