//! Requests about the members of a space, and about writers to retire.

use super::Handle;
use crate::driver::command::WriteContext;
use crate::driver::space::{OpenSpace, Settled};
use crate::driver::{NoNews, Watch};
use std::time::Duration;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    MemberChange, Membership, News, Refusal, Retiree, Retirement, SpaceId,
};
use tokio::time::{Instant, timeout_at};

/// The time after which an undecided proposal is made again. Two members that propose at once each
/// add a random time, so that one of them succeeds.
const PROPOSE_AGAIN: Duration = Duration::from_secs(2);

/// How long a decided change waits until the linked members have it and vote. A shorter time may answer before the mesh
/// bears the loss of one of them.
const SETTLES: Duration = Duration::from_secs(10);

/// The pause before a ticket is checked again when the configuration changed meanwhile.
const JUDGE_AGAIN: Duration = Duration::from_millis(20);

/// The pause before a member that does not take part yet is asked again.
const CAUGHT_UP_AGAIN: Duration = Duration::from_millis(100);

/// Whether a ticket makes its holder a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It does not, or the holder is already a member.
    Never,
    /// This node may not know of a removal yet. The ticket is checked again after this time.
    Later(Duration),
    /// It does, by the configuration of this era and number.
    Now(OwnerKey, (u64, u64)),
}

impl Handle {
    /// Reads the members of a space.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn members(&self, space: SpaceId) -> Result<Membership, Refusal> {
        self.read_in(space, |space, now| space.membership(now))
            .await
    }

    /// Whether an owner may decide on the rights of others in a space. The members of the space
    /// may, and in a space without members only this node.
    ///
    /// # Errors
    /// Fails when the node stops first.
    pub async fn trusts(&self, space: SpaceId, owner: OwnerKey) -> Result<bool, Refusal> {
        self.read_in(space, move |space, _| space.trusts(owner))
            .await
    }

    /// Makes this node the first member of a space.
    ///
    /// # Errors
    /// Fails when the space has members, when the node's state is in memory only, or when it stops
    /// first.
    pub async fn found(&self, space: SpaceId) -> Result<Membership, Refusal> {
        self.write_in(space, |space, context| space.found(context.now))
            .await?
    }

    /// Changes the members, and waits at most `wait` until that is decided. If another member's
    /// change is decided first, this one is proposed on top of it.
    ///
    /// Then it waits until the members to which links lead have the new configuration, and vote under it. A start
    /// that is new in it votes once n - floor(n/2) others know it, which are as many as had to agree to a member
    /// more. Without that, the loss of one of these right after the answer could leave the members undecided for
    /// ever, although a majority is up. In Raft (Ongaro 2014) a change is committed by a majority of the new
    /// configuration for the same reason.
    ///
    /// # Errors
    /// Fails with [`Refusal::Undecided`] if the change is not decided in time; it may still be
    /// later. Also fails when this node is no member, or stops first.
    pub async fn change_members(
        &self,
        space: SpaceId,
        change: &MemberChange,
        wait: Duration,
    ) -> Result<Membership, Refusal> {
        let deadline = Instant::now() + wait;
        let mut news = self.watch(space, None).await?;
        let (mut again, mut proposed) = (false, false);
        loop {
            let (now, over) = match self.propose(space, change.clone(), again).await {
                Err(Refusal::CatchingUp) if Instant::now() < deadline => {
                    tokio::time::sleep(CAUGHT_UP_AGAIN).await;
                    continue;
                }
                // The ticket was valid for the proposal, which may be decided by now.
                Err(Refusal::Ticket { .. }) if proposed => {
                    (self.by(None).members(space).await?, true)
                }
                now => (now?, false),
            };
            proposed = true;
            let configuration = now.configuration.as_ref();
            if configuration.is_some_and(|it| change.is_in(it)) {
                let left = deadline.saturating_duration_since(Instant::now());
                // It is decided, whatever comes of this.
                let _ = self.settle(space, left.min(SETTLES)).await;
                return Ok(now);
            }
            let retry = Instant::now() + PROPOSE_AGAIN + jitter();
            let told = !over && members_changed(&mut news, deadline.min(retry)).await?;
            if !told && (over || Instant::now() >= deadline) {
                let now = self.by(None).members(space).await?;
                return Err(Refusal::Undecided {
                    unanswered: now.named(&now.unanswered),
                });
            }
            again = !told;
        }
    }

    /// Waits until the members to which links lead have the present configuration, and vote under it.
    async fn settle(&self, space: SpaceId, wait: Duration) -> Result<(), Refusal> {
        let deadline = Instant::now() + wait;
        for settled in [Settled::Known, Settled::Voting] {
            let left = deadline.saturating_duration_since(Instant::now());
            self.wait_in(space, move |space, now, reply| {
                space.settle(now, (settled, left), reply);
                None
            })
            .await??;
        }
        Ok(())
    }

    /// Proposes a change of the members, unless it is already made or proposed. With `again` it
    /// proposes the change once more.
    async fn propose(
        &self,
        space: SpaceId,
        change: MemberChange,
        again: bool,
    ) -> Result<Membership, Refusal> {
        let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
            space.change_members(context.now, &change, again)
        };
        self.write_in(space, work).await?
    }

    /// Makes an owner a member by a ticket, as long as the ticket stays valid. `judge` is called
    /// before each proposal. A proposal is made only if the configuration has not changed since
    /// that check.
    ///
    /// # Errors
    /// Fails as [`Handle::change_members`] does.
    pub async fn admit(
        &self,
        space: SpaceId,
        judge: impl Fn() -> Admission,
        wait: Duration,
    ) -> Result<(), Refusal> {
        let deadline = Instant::now() + wait;
        let mut news = self.watch(space, None).await?;
        let mut again = false;
        loop {
            let change = match judge() {
                Admission::Never => return Ok(()),
                Admission::Later(wait) => {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                Admission::Now(owner, at) => MemberChange::Admit(owner, at),
            };
            let now = match self.propose(space, change.clone(), again).await {
                Err(Refusal::CatchingUp) if Instant::now() < deadline => {
                    tokio::time::sleep(CAUGHT_UP_AGAIN).await;
                    continue;
                }
                now => now?,
            };
            let present = now.configuration.as_ref();
            if present.is_some_and(|it| change.is_in(it)) {
                return Ok(());
            }
            if present.is_some_and(|it| change.is_stale(it)) {
                // The network is about to receive the configuration, too.
                again = false;
                tokio::time::sleep(JUDGE_AGAIN).await;
                continue;
            }
            let retry = Instant::now() + PROPOSE_AGAIN + jitter();
            let told = members_changed(&mut news, deadline.min(retry)).await?;
            if !told && Instant::now() >= deadline {
                let now = self.members(space).await?;
                return Err(Refusal::Undecided {
                    unanswered: now.named(&now.unanswered),
                });
            }
            again = !told;
        }
    }

    /// Replaces the members without a decision of the present ones.
    ///
    /// # Errors
    /// Fails when this node is no member, when there would be no members or too many, or when the
    /// node stops first.
    pub async fn force_members(
        &self,
        space: SpaceId,
        members: Vec<OwnerKey>,
    ) -> Result<Membership, Refusal> {
        let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
            space.force_members(context.now, &members)
        };
        self.write_in(space, work).await?
    }

    /// Declares writers dead. It waits at most `wait` until their parts are taken over, which needs
    /// a message of every member.
    ///
    /// # Errors
    /// Fails when a writer is unknown or belongs to a present member, when this node is no member,
    /// or when it stops first.
    pub async fn retire(
        &self,
        space: SpaceId,
        who: Retiree,
        wait: Duration,
    ) -> Result<Vec<Retirement>, Refusal> {
        let deadline = Instant::now() + wait;
        let mut news = self.watch(space, None).await?;
        let mut before = None;
        loop {
            let work = move |space: &mut OpenSpace, context: &WriteContext<'_>| {
                space.retire(context.now, who)
            };
            let asked = self.write_in(space, work).await.flatten();
            let now = match (asked, before.take()) {
                (Err(Refusal::CatchingUp), known) if Instant::now() < deadline => {
                    before = known;
                    tokio::time::sleep(CAUGHT_UP_AGAIN).await;
                    continue;
                }
                // The ticket was valid for the declaration.
                (Err(Refusal::Ticket { .. }), Some(before)) => return Ok(before),
                (now, _) => now?,
            };
            let done = now.iter().all(|it| it.upto.is_some());
            if done || !absorbed(&mut news, deadline).await? {
                return Ok(now);
            }
            before = Some(now);
        }
    }
}

/// Waits until the members may have changed. Returns false if that did not happen in time.
async fn members_changed(news: &mut Watch, until: Instant) -> Result<bool, Refusal> {
    heard(news, until, |news| matches!(news, News::Members(_))).await
}

/// Waits until a writer may have been absorbed. Returns false if that did not happen in time.
async fn absorbed(news: &mut Watch, until: Instant) -> Result<bool, Refusal> {
    heard(news, until, |news| matches!(news, News::Absorbed(_))).await
}

async fn heard(
    news: &mut Watch,
    until: Instant,
    wanted: impl Fn(&News) -> bool,
) -> Result<bool, Refusal> {
    loop {
        match timeout_at(until, news.recv()).await {
            Err(_) => return Ok(false),
            Ok(Ok(news)) if wanted(&news) => return Ok(true),
            Ok(Ok(_)) => {}
            Ok(Err(NoNews::Lost)) => return Ok(true),
            Ok(Err(NoNews::Stopped)) => return Err(Refusal::Stopped),
        }
    }
}

/// A random time, at most as long as a proposal may take.
fn jitter() -> Duration {
    let mut bytes = [0; 2];
    // Without randomness it is proposed again at once, which is no worse than a late proposal.
    let _ = getrandom::fill(&mut bytes);
    PROPOSE_AGAIN.mul_f64(f64::from(u16::from_le_bytes(bytes)) / 65_536.0)
}
