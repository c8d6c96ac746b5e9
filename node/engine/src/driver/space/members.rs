//! The part of a node in a space with members: it announces its start, does its regular duties, and
//! changes the members on request.

use super::copies::Latest;
use super::place::InPlace;
use super::quiet::Quiet;
use super::{OpenSpace, mint};
use crate::driver::nonces::{Nonce, Nonces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tallymesh_core::{
    Configuration, Error, Fate, Input, Link, Listed, MemberError, Owner, Returned, ScopeError,
    WriterId,
};
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{
    Absorption, Comeback, ConfigurationRow, MemberChange, Membership, News, OperationError,
    Refusal, Retiree, Retirement, Tally,
};
use tallymesh_node_ground::rate::LogPace;
use tallymesh_node_store::StoreError;

/// How often a member does its duties, in milliseconds. A longer interval keeps dead writers for
/// longer; a shorter one costs work while nothing happens.
const TEND_MS: u64 = 1_000;

/// How soon it does them after something arrived that may let others continue, in milliseconds.
const TEND_SOON_MS: u64 = 50;

/// The duties take at most one part in so many of the time, and are done more rarely if they take
/// long. They go through all writers, which may be tens of thousands.
const TEND_PART: u64 = 20;

/// Paces the log lines about retired writers, one for each guest.
static RETIRED_LOG: LogPace = LogPace::new();

/// The state of this node's part in a space.
pub(super) struct Part {
    /// The last writer ids minted here, each with its nonce: the present one, and perhaps one under
    /// which the node is to continue.
    minted: Vec<(WriterId, [u8; 16])>,
    /// Whether local writes outlive the process. Without that the node is never a member.
    pub(super) durable: bool,
    /// When the duties are due, in milliseconds since the start.
    pub(super) due: u64,
    /// When they were done last.
    pub(super) done: u64,
    /// The shortest time from one round of duties to the next, in milliseconds.
    pub(super) rest: u64,
    /// When something last arrived from each member, beside the open links.
    heard: BTreeMap<Owner, Heard>,
    quiet: Quiet,
    /// The configuration that readers of events received last.
    told: Option<Configuration>,
    absorbed: BTreeSet<WriterId>,
    /// Which start this one follows, and whether a next one may follow it.
    pub(super) place: InPlace,
    /// Whether the node was adopted, and has not gone on under another writer since.
    pub(super) is_adopted: bool,
    /// Whether the node was adopted since its start.
    pub(super) was_adopted: bool,
    /// What tells whether a process on a copy of the data folder took this one's place.
    pub(super) latest: Latest,
    /// The work done since the metrics last took it.
    pub(super) tally: Tally,
}

/// When something last arrived from a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    /// Its writer and clock at the last look.
    seen: (Option<WriterId>, u64),
    /// The time of the last change of those, or of the last frame on a link with the member that
    /// has ended. It is the later of both, in milliseconds since the start. `None` before that,
    /// because all that this node has of the member is from the store.
    at: Option<u64>,
}

impl Heard {
    /// Updates its writer and clock.
    fn look(&mut self, seen: (Option<WriterId>, u64), now: u64) {
        if self.seen != seen {
            *self = Heard {
                seen,
                at: Some(now),
            };
        }
    }

    /// Records that a frame arrived from it at this time.
    fn frame(&mut self, at: u64) {
        self.at = self.at.max(Some(at));
    }
}

impl Part {
    pub(super) fn new(minted: (WriterId, [u8; 16]), durable: bool, place: InPlace) -> Part {
        Part {
            place,
            is_adopted: false,
            was_adopted: false,
            latest: Latest::default(),
            minted: vec![minted],
            durable,
            due: 0,
            done: 0,
            rest: TEND_SOON_MS,
            heard: BTreeMap::new(),
            quiet: Quiet::default(),
            told: None,
            absorbed: BTreeSet::new(),
            tally: Tally::default(),
        }
    }
}

impl Part {
    /// When something was last heard from a member, beside the open links; `None` if nothing was since the start.
    pub(super) fn heard_at(&self, owner: &Owner) -> Option<u64> {
        self.heard.get(owner).and_then(|it| it.at)
    }

    /// How long nothing was heard from a member, in milliseconds; `None` if nothing was since the start.
    pub(super) fn silent_ms(&self, owner: &Owner, now: u64) -> Option<u64> {
        self.heard_at(owner).map(|at| now.saturating_sub(at))
    }
}

/// How long the duties rest after they took this long, in milliseconds.
fn rest_after(took: Duration) -> u64 {
    let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    took.saturating_mul(TEND_PART).clamp(TEND_SOON_MS, TEND_MS)
}

impl OpenSpace {
    /// Whether this node is to be a member, and has not announced this start yet.
    pub(in crate::driver) fn is_starting(&self) -> bool {
        let named = self.replica.members().configuration();
        let named = named.is_some_and(|it| it.has(&self.owner));
        named && self.part.durable && !self.is_copied() && !self.replica.members().is_announced()
    }

    /// Whether this node's owner is a member, and this writer is none: it has not announced itself,
    /// or it is over, and the node goes on under another one. Both states pass.
    pub(super) fn is_to_be_member(&self) -> bool {
        let named = self.replica.members().configuration();
        let named = named.is_some_and(|it| it.has(&self.owner));
        named && self.part.durable && !self.is_copied() && !self.replica.members().may_take()
    }

    pub(super) fn announce(&mut self) {
        if !self.is_starting() || self.is_replaced() {
            return;
        }
        let (owner, nonce) = (self.owner, self.nonce());
        let follows = self.part.place.follows();
        let mut members = self.replica.members_mut();
        match members.announce_after(&owner, &nonce, self.unix_ms, follows) {
            Ok(()) => {
                self.wrote = true;
                self.part.due = 0;
                self.look_at_place();
                self.look_at_start();
            }
            Err(error) => {
                let (space, code) = (self.name().as_str(), error.code());
                tracing::error!(space, code, %error, "can't take part as a member");
            }
        }
    }

    /// Mints a fresh writer id, and stores its nonce before the id is used.
    fn mint(&mut self, nonces: &mut Nonces) -> Result<(WriterId, Nonce), StoreError> {
        let minted = mint(self.replica.space(), &self.owner)?;
        let present = self.replica.writer();
        self.part.minted.retain(|it| it.0 == present);
        self.part.minted.push(minted);
        nonces.note(self.replica.space(), minted.1);
        nonces.save()?;
        Ok(minted)
    }

    /// The nonce with which the present writer id was minted.
    fn nonce(&self) -> [u8; 16] {
        let present = self.replica.writer();
        let minted = self.part.minted.iter().find(|it| it.0 == present);
        minted.map_or([0; 16], |it| it.1)
    }

    /// Does the duties soon, because something arrived that may let others continue.
    pub(in crate::driver) fn tend_soon(&mut self, now: u64) {
        if self.replica.members().configuration().is_some() {
            let soon = (self.part.done + self.part.rest).max(now);
            self.part.due = self.part.due.min(soon);
        }
    }

    /// When the duties are due, in a space with members.
    pub(super) fn tend_due(&self) -> Option<u64> {
        self.replica
            .members()
            .configuration()
            .map(|_| self.part.due)
    }

    /// Does the duties of a member if they are due.
    pub(super) fn tend(&mut self, now: u64) {
        self.take_part(now);
        if self.tend_due().is_none_or(|due| due > now) {
            return;
        }
        let begun = Instant::now();
        let due = self.announce_due(now).unwrap_or(now + TEND_MS);
        let part = &mut self.part;
        (part.due, part.done) = (due, now);
        if !part.durable {
            self.stored = self.replica.mark(); // Nothing outlives the process.
        }
        match self.sync.tend(now, &mut self.replica, &self.stored) {
            Ok(true) => self.wrote = true,
            Ok(false) => {}
            Err(error) => {
                let (space, code) = (self.name().as_str(), error.code());
                tracing::error!(space, code, %error, "can't do a member's duties");
            }
        }
        self.look_at_place();
        self.look_at_start();
        self.look_at_writers();
        self.look_at_members(now);
        self.part.rest = rest_after(begun.elapsed());
    }

    /// Records which writers were retired by a successor, and which were forgotten.
    fn look_at_writers(&mut self) {
        let own = self.replica.writer();
        let listed = self.replica.members().writer_table();
        let absorbed: Vec<Listed> = listed.filter(|it| it.fate == Fate::Absorbed).collect();
        let now: BTreeSet<WriterId> = absorbed.iter().map(|it| it.writer).collect();
        let gone = self.part.absorbed.difference(&now).count();
        self.part.tally.forgotten += gone;
        for it in absorbed {
            if self.part.absorbed.contains(&it.writer) {
                continue;
            }
            self.part.tally.absorbed += usize::from(it.successor == Some(own));
            let (space, writer) = (self.name().as_str(), it.writer.to_string());
            let heir = it.successor.map(|heir| heir.to_string());
            if let Some(left_out) = RETIRED_LOG.admit(Instant::now()) {
                tracing::info!(
                    space,
                    %writer,
                    heir,
                    left_out,
                    "a writer was retired, and its part taken over"
                );
            }
            let news = Absorption { writer, heir };
            self.news.push(News::Absorbed(Arc::new(news)));
        }
        self.part.absorbed = now;
    }

    /// Records from which members something arrived. Requests acknowledgements if the mesh is quiet.
    fn look_at_members(&mut self, now: u64) {
        let members = self.replica.members().list();
        if self.part.quiet.look(&members, now) {
            self.replica.members_mut().request_acknowledgement();
        }
        for member in members {
            let seen = (member.writer, member.clock);
            let heard = self.part.heard.entry(member.owner);
            heard.or_insert(Heard { seen, at: None }).look(seen, now);
        }
    }

    /// Records when the member at the other end of a link last sent a frame. The link ends, and is
    /// forgotten.
    pub(super) fn note_heard(&mut self, link: Link) {
        if self.replica.members().configuration().is_none() {
            return;
        }
        let ends = self.links().find(|it| it.link == link);
        let Some((writer, at)) = ends.and_then(|it| Some((it.writer?, it.last_heard?))) else {
            return;
        };
        let members = self.replica.members().list();
        if let Some(member) = members.iter().find(|it| it.writer == Some(writer)) {
            let seen = (member.writer, member.clock);
            let heard = self.part.heard.entry(member.owner);
            heard.or_insert(Heard { seen, at: None }).frame(at);
        }
    }

    /// Informs the readers of events if the members changed.
    pub(super) fn tell_members(&mut self) {
        let present = self.replica.members().configuration();
        if present == self.part.told.as_ref() {
            return;
        }
        self.part.told = present.cloned();
        let Some(present) = present else {
            return;
        };
        let row = ConfigurationRow::from(present);
        tracing::info!(
            space = self.name().as_str(),
            era = row.era,
            number = row.number,
            members = row.members.len(),
            "the space has new members"
        );
        self.news.push(News::Members(Arc::new(row)));
    }

    /// Returns the counts since the last call, and resets them.
    pub(in crate::driver) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.part.tally)
    }

    fn refuse_if_not_durable(&self) -> Result<(), Refusal> {
        match self.part.durable {
            true => Ok(()),
            false => Err(Refusal::MemoryOnly),
        }
    }

    /// Makes this node the first member.
    pub(in crate::driver) fn found(&mut self, now: u64) -> Result<Membership, Refusal> {
        self.refuse_if_not_durable()?;
        self.refuse_if_copied()?;
        if !self.may_found() {
            return Err(Error::Scope(ScopeError::BeyondRole).into());
        }
        let (owner, nonce) = (self.owner, self.nonce());
        self.replica
            .members_mut()
            .found(&owner, &nonce, self.unix_ms)?;
        self.wrote = true;
        self.tend_soon(now);
        Ok(self.membership(now))
    }

    /// Proposes a change of the members, unless it is already made or proposed. With `again` it
    /// proposes the change once more.
    pub(in crate::driver) fn change_members(
        &mut self,
        now: u64,
        change: &MemberChange,
        again: bool,
    ) -> Result<Membership, Refusal> {
        let Some(present) = self.replica.members().configuration() else {
            return Err(self.open());
        };
        let present = ConfigurationRow::from(present);
        if change.is_in(&present) || change.is_stale(&present) {
            return Ok(self.membership(now));
        }
        let wanted = change.applied_to(&present.members);
        let limits = change.limits_after(&present);
        let proposed = match &limits {
            // A proposed limit also has the number with which it begins.
            Some(limits) => self
                .replica
                .members()
                .proposed_limits()
                .is_some_and(|proposed| {
                    proposed.len() == limits.len()
                        && proposed.iter().zip(limits).all(|(a, b)| {
                            (&a.name, a.limit, a.period_ms) == (&b.name, b.limit, b.period_ms)
                        })
                }),
            None => self.replica.members().proposal() == Some(&wanted[..]),
        };
        if again || !proposed {
            self.refuse_if_copied()?;
            if self.is_starting() {
                return Err(Refusal::CatchingUp);
            }
            let before = self.replica.clock();
            match limits {
                Some(limits) => self.replica.quota_mut().propose_limits(&limits)?,
                None => self.replica.members_mut().propose(&wanted)?,
            }
            self.wrote |= self.replica.clock() != before;
            self.tend_soon(now);
        }
        Ok(self.membership(now))
    }

    /// Replaces the members without asking the present ones.
    pub(in crate::driver) fn force_members(
        &mut self,
        now: u64,
        owners: &[OwnerKey],
    ) -> Result<Membership, Refusal> {
        if self.replica.members().configuration().is_none() {
            return Err(self.open());
        }
        self.refuse_if_copied()?;
        let owners: Vec<Owner> = owners.iter().map(|owner| owner.0).collect();
        self.announce();
        self.replica.members_mut().force(&owners)?;
        self.wrote = true;
        self.tend_soon(now);
        Ok(self.membership(now))
    }

    pub(super) fn open(&self) -> Refusal {
        Refusal::NoMembers {
            space: self.name().to_string(),
            may_found: self.may_found(),
        }
    }

    /// Whether this node may make itself the first member, if there is none.
    fn may_found(&self) -> bool {
        self.role.limit().is_none()
    }

    /// The reason why this node can't do what only a member may do.
    pub(in crate::driver) fn not_a_member(&self) -> OperationError {
        match self.replica.members().configuration() {
            _ if self.is_kept_out() => OperationError::FolderCopied,
            Some(_) if self.is_to_be_member() => OperationError::CatchingUp(Vec::new()),
            None if self.may_found() => OperationError::NeedsMesh,
            _ => Error::Member(MemberError::NotAMember).into(),
        }
    }

    /// Declares writers dead. Returns the present state of each.
    pub(in crate::driver) fn retire(
        &mut self,
        now: u64,
        who: Retiree,
    ) -> Result<Vec<Retirement>, Refusal> {
        if self.replica.members().configuration().is_none() {
            return Err(self.open());
        }
        self.refuse_if_copied()?;
        if self.is_starting() {
            return Err(Refusal::CatchingUp);
        }
        if !self.replica.members().is_member() {
            return Err(Error::Member(MemberError::NotAMember).into());
        }
        let writers = match who {
            Retiree::Writer(writer) => vec![writer],
            Retiree::Owner(owner) => self.writers_of(owner)?,
        };
        for writer in &writers {
            self.fence(writer)?;
        }
        self.tend_soon(now);
        Ok(writers.iter().map(|it| self.retirement(it)).collect())
    }

    fn fence(&mut self, writer: &WriterId) -> Result<(), Refusal> {
        if self.replica.members().final_clock(writer).is_some() {
            return Ok(());
        }
        let listed = self
            .replica
            .members()
            .writer_table()
            .find(|it| it.writer == *writer);
        let Some(listed) = listed else {
            return Err(Error::Member(MemberError::UnknownWriter { writer: *writer }).into());
        };
        let living = self.replica.members().list().into_iter();
        let mut living = living.filter(|member| member.writer == Some(*writer));
        if let (Some(member), Fate::Living) = (living.next(), listed.fate) {
            let owner = OwnerKey(member.owner);
            return Err(Refusal::IsMember { owner });
        }
        let before = self.replica.clock();
        self.replica.members_mut().fence(writer)?;
        self.wrote |= self.replica.clock() != before;
        Ok(())
    }

    /// The living writers of an owner that is no member.
    fn writers_of(&self, owner: OwnerKey) -> Result<Vec<WriterId>, Refusal> {
        let present = self.replica.members().configuration();
        if present.is_some_and(|it| it.has(&owner.0)) {
            return Err(Refusal::IsMember { owner });
        }
        let theirs = self.replica.members().writer_table();
        let theirs = theirs.filter(|it| it.owner == Some(owner.0));
        let theirs: Vec<WriterId> = theirs.map(|it| it.writer).collect();
        match theirs.is_empty() {
            true => Err(Refusal::UnknownOwner { owner }),
            false => Ok(theirs),
        }
    }

    fn retirement(&self, writer: &WriterId) -> Retirement {
        let upto = self.replica.members().final_clock(writer);
        Retirement {
            writer: writer.to_string(),
            fate: match upto {
                Some(_) => "absorbed",
                None => "dead",
            },
            upto,
        }
    }

    /// Whether an owner may decide on the rights of others.
    pub(in crate::driver) fn trusts(&self, owner: OwnerKey) -> bool {
        match self.replica.members().configuration() {
            Some(members) => members.has(&owner.0),
            None => owner.0 == self.owner,
        }
    }

    /// Reports the fate of the earlier writer's transactions.
    pub(in crate::driver) fn came_back(&mut self, returned: &Returned) {
        let ops = returned.again.iter().flat_map(|again| &again.ops);
        let again = returned.again.iter().filter(|it| !it.refused);
        let news = Comeback {
            writer: self.replica.writer().to_string(),
            again: again.map(|it| it.count as usize).sum(),
            unknown: returned.unknown,
            weaker: ops.filter(|op| op.left > 0).count(),
            refused: returned.again.iter().filter(|it| it.refused).count(),
        };
        let (space, again, weaker) = (self.name().as_str(), news.again, news.weaker);
        let refused = news.refused;
        let unknown = news.unknown.map(|it| format!("{} to {}", it.0, it.1));
        match (&unknown, weaker + refused) {
            (None, 0) => tracing::info!(space, again, "rejoined, and nothing is lost"),
            _ => tracing::warn!(
                space,
                again,
                weaker,
                refused,
                unknown,
                "rejoined; of some transactions it is not known whether they count, or they cancel \
                 less than they had seen, or spend what is not held here any more: compare the counters \
                 with your records"
            ),
        }
        self.news.push(News::Returned(Arc::new(news)));
    }

    /// Continues under a fresh writer id, as the sync machine ordered.
    pub(in crate::driver) fn renew(
        &mut self,
        now: u64,
        nonces: &mut Nonces,
    ) -> Result<(), StoreError> {
        let (space, was) = (self.name().to_string(), self.replica.writer().to_string());
        let (writer, nonce) = self.mint(nonces)?;
        // It mostly begins from a state of others, which may lack its vote.
        let leads = self.part.place.end() && self.sync.goes_on_from_own_state();
        let before = self.replica.writer();
        self.handle(now, Input::Own { writer, nonce });
        self.handle(now, Input::Renew { writer });
        if leads {
            self.go_on_in_place(&before);
        }
        self.renewals += 1;
        let writer = writer.to_string();
        match self.replica.members().configuration() {
            None => tracing::error!(
                %space,
                %was,
                %writer,
                "another process writes under this node's writer id, so it takes a new one: is this \
                 machine, or its memory, a copy?"
            ),
            Some(_) if std::mem::take(&mut self.part.is_adopted) => tracing::info!(
                %space,
                %was,
                %writer,
                "this adopted copy goes on under a new writer, from a member's state"
            ),
            Some(_) => tracing::warn!(
                %space,
                %was,
                %writer,
                "this node's writer was retired while it was away, or somebody else writes under it, so it \
                 begins again from a member's state, and makes again what was not taken over"
            ),
        }
        self.tell_renewal(was, writer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duties_that_take_long_rest_for_longer() {
        let rest = |millis: u64| rest_after(Duration::from_millis(millis));
        assert_eq!([0, 1, 2].map(rest), [TEND_SOON_MS; 3]);
        assert_eq!([3, 10, 49].map(rest), [60, 200, 980]);
        assert_eq!([50, 5_000, u64::MAX].map(rest), [TEND_MS; 3]);
    }

    #[test]
    fn a_member_is_heard_of_when_it_writes_or_a_frame_comes_and_not_before() {
        let writer = |id| Some(WriterId::from_bytes([id; 16]));
        let seen = (writer(1), 5);
        let mut heard = Heard { seen, at: None };
        heard.look(seen, 10);
        assert_eq!(heard.at, None, "that was in the store");
        heard.look((writer(1), 6), 20);
        assert_eq!(heard.at, Some(20));
        heard.look((writer(1), 6), 30);
        heard.frame(15);
        assert_eq!(heard.at, Some(20), "the later one counts");
        heard.frame(25);
        assert_eq!(heard.at, Some(25));
        heard.look((writer(2), 6), 40);
        assert_eq!(heard.at, Some(40), "it has started again");
    }
}
