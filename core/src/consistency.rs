//! Consistency levels and sessions: which transactions count, here and at members.
//!
//! # What it adds
//! A writer may be over, and then only a part of its transactions counts. So a version vector alone does not
//! say what a replica vouches for. [`Consistency`] does: it reads the state, the membership and the journal,
//! and changes nothing. It also reads and writes *tokens*, by which a client carries what its session depends
//! on to another replica.
//!
//! # What it guarantees
//! - **A member vouches for a transaction only if it counts**, in the writer's own shards or in its
//!   successor's.
//! - **A quorum read misses no quorum write.** A majority of members vouches for each of them. The argument,
//!   and where it ends, are in `sync/levels.rs`, with the conversation that asks the members.
//! - **A replica that covers a token shows everything that its session has read and written.**
//!
//! # What it follows, and where it departs
//! Levels are quorum consensus (Gifford 1979), without a version number for each value: answers are merged.
//! Tokens give the session guarantees of Terry, Demers, Petersen, Spreitzer, Theimer and Welch (1994). One
//! vector stands for the read set and for the write set, because a replica's view is a causal cut.

#[cfg(feature = "tokens")]
use crate::bounds::TOKEN_WRITERS_MAX;
#[cfg(feature = "tokens")]
use crate::error::{Error, TokenError, detail};
use crate::indexed_state::State;
use crate::membership::Membership;
#[cfg(feature = "members")]
use crate::message::records::Owner;
use crate::rejoin::Rejoin;
#[cfg(any(feature = "members", feature = "tokens"))]
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
#[cfg(feature = "tokens")]
use crate::wire::Token;
use crate::writer_id::WriterId;
#[cfg(feature = "tokens")]
use alloc::vec::Vec;

/// A replica's place in a space with members, as it reports it to counted members.
#[cfg(feature = "members")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footing {
    /// Era and number of the newest configuration that it has.
    pub(crate) present: (u64, u64),
    /// Whether it has accepted a configuration with the next number.
    pub(crate) accepted: bool,
    /// Whether it is a member with a vote.
    pub(crate) counts: bool,
}

/// The newest configuration that may be decided, according to a replica with this footing.
#[cfg(feature = "members")]
pub(crate) fn newest((era, number): (u64, u64), accepted: bool) -> (u64, u64) {
    (era, number.saturating_add(u64::from(accepted)))
}

/// Reads of which transactions count: see [`Replica::consistency`].
///
/// A view: it borrows the replica, reads, and changes nothing.
///
/// [`Replica::consistency`]: crate::Replica::consistency
#[derive(Clone, Copy)]
pub struct Consistency<'a> {
    membership: &'a Membership,
    state: &'a State,
    rejoin: &'a Rejoin,
}

impl<'a> Consistency<'a> {
    #[inline(always)]
    pub(crate) fn new(
        membership: &'a Membership,
        state: &'a State,
        rejoin: &'a Rejoin,
    ) -> Consistency<'a> {
        Consistency {
            membership,
            state,
            rejoin,
        }
    }

    /// The number of unconfirmed transactions, of this and of earlier writers: no member is known to have
    /// them for good. 0 while the space is open.
    #[inline]
    pub fn unconfirmed(self) -> usize {
        self.rejoin.unheld(self.membership)
    }

    /// The writers of earlier starts with transactions that may be unconfirmed, from before this replica wrote
    /// under its present writer.
    pub fn earlier_writers(self) -> impl Iterator<Item = WriterId> + 'a {
        self.rejoin.earlier().iter().map(|it| it.writer)
    }

    /// This replica's footing; `None` while the space is open.
    #[cfg(feature = "members")]
    pub(crate) fn footing(self) -> Option<Footing> {
        let it = self.membership.configuration()?;
        let own = self.membership.owner_of(OWN);
        let (era, next) = self.membership.next_number()?;
        let votes = self.membership.votes(era, next);
        let mut votes = votes.iter();
        Some(Footing {
            present: (it.era, it.number),
            accepted: votes.any(|(of, vote)| Some(*of) == own && vote.accepted.is_some()),
            counts: self.membership.has_vote(self.state),
        })
    }

    /// The clock up to which a writer's transactions are here, in its own shards or in its successor's. For a
    /// writer that is over, only transactions that count.
    pub(crate) fn counted(self, writer: &WriterId) -> u64 {
        match self.membership.last_of(self.state, writer) {
            Some(upto) => upto,
            None => self.state.held(writer),
        }
    }

    /// The own transactions so far: the ones to ask members for after a write.
    pub fn written(self) -> VersionVector {
        VersionVector::of(self.state.writer(), self.state.clock())
    }

    /// Whether all these transactions are here and count. A transaction of a writer that is over counts only
    /// if the writer's end includes it. Otherwise its process made it again, under another writer.
    pub fn holds(self, upto: &VersionVector) -> bool {
        upto.iter()
            .all(|(writer, clock)| self.holds_of(&writer, clock))
    }

    /// Whether a writer's transactions up to this clock are here and count.
    pub fn holds_of(self, writer: &WriterId, clock: u64) -> bool {
        self.counted(writer) >= clock
    }

    /// Whether this replica has everything that counts among these transactions.
    #[cfg(feature = "members")]
    pub(crate) fn sees(self, held: &VersionVector) -> bool {
        held.iter().all(|(writer, clock)| {
            self.state.held(&writer) >= clock
                || self.membership.last_of(self.state, &writer).is_some()
        })
    }

    /// The clock up to which a writer's transactions count here, and would count once if a retry came here.
    /// Guests pass transactions on without the keys of retries.
    #[cfg(feature = "members")]
    fn vouched(self, writer: &WriterId) -> u64 {
        let counted = self.counted(writer);
        match self.state.number_of(writer) {
            Some(number) => counted.min(self.membership.clock_with_keys(self.state, number)),
            None => counted,
        }
    }

    /// Whether a member can vouch for all these transactions: they count here, and a retry would not count
    /// again.
    #[cfg(feature = "members")]
    pub(crate) fn vouches(self, upto: &VersionVector) -> bool {
        upto.iter()
            .all(|(writer, clock)| self.vouched(&writer) >= clock)
    }

    /// For each writer of these transactions, the clock up to which a member can vouch for it.
    #[cfg(feature = "members")]
    pub(crate) fn vouched_of(self, upto: &VersionVector) -> VersionVector {
        let vouched = upto
            .iter()
            .map(|(writer, _)| (writer, self.vouched(&writer)));
        VersionVector::from_sorted(vouched.filter(|it| it.1 > 0).collect())
    }

    /// Whether a member has acknowledged all these transactions while it certainly was in the present
    /// configuration. It is certain if the member had accepted no configuration with the next number.
    #[cfg(feature = "members")]
    pub(crate) fn is_acknowledged_by(self, owner: &Owner, upto: &VersionVector) -> bool {
        let Some((era, next)) = self.membership.next_number() else {
            return false;
        };
        let votes = self.membership.votes(era, next);
        if votes.iter().any(|(_, vote)| vote.accepted.is_some()) {
            return false;
        }
        let mut living = self
            .membership
            .incarnations(owner)
            .filter(|it| *it != OWN && self.membership.counts(*it));
        living.any(|number| {
            let ack = self.membership.writer(number).ack.as_ref();
            let ack = ack.filter(|_| {
                self.membership
                    .is_sure_member(self.state, &self.state.id(number))
            });
            let seen = |writer: &WriterId| {
                let number = self.state.number_of(writer);
                number.zip(ack).map_or(0, |(number, ack)| ack.of(number))
            };
            upto.iter().all(|(writer, clock)| seen(&writer) >= clock)
        })
    }

    /// The transactions on which a session depends. The session had `before`, and has read everything here or
    /// just made a transaction here.
    ///
    /// Right after an own transaction, these are one writer and the part of `before` that is missing here. A
    /// transaction brings along everything that its writer had. If there are too many writers, the stable
    /// ones are left out: all members, and all guests that they sponsor, are known to have these.
    ///
    /// # Errors
    /// [`TokenError::TokenFull`] if there are still too many.
    #[cfg(feature = "tokens")]
    pub fn token(self, before: &Token) -> Result<Token, Error> {
        let mut vector = self.frontier().joined(&self.unheld_of(before.vector()));
        if vector.len() > TOKEN_WRITERS_MAX {
            let stable = self.membership.stable(self.state);
            let rest = vector.iter().filter(|it| stable.get(&it.0) < it.1);
            vector = VersionVector::from_sorted(rest.collect());
        }
        Token::new(vector)
    }

    /// Rejects a token to which the next transaction could not be added.
    ///
    /// # Errors
    /// [`TokenError::TokenFull`].
    #[cfg(feature = "tokens")]
    pub fn room_in_token(self, before: &Token) -> Result<(), Error> {
        let writers = self.unheld_of(before.vector()).len() + 1;
        match writers > TOKEN_WRITERS_MAX {
            true => Err(TokenError::TokenFull {
                writers: detail(writers),
            }
            .into()),
            false => Ok(()),
        }
    }

    /// The part of these transactions that is missing here, or does not count.
    #[cfg(feature = "tokens")]
    fn unheld_of(self, vector: &VersionVector) -> VersionVector {
        let unheld = vector.iter().filter(|it| self.counted(&it.0) < it.1);
        VersionVector::from_sorted(unheld.collect())
    }

    /// The smallest set of transactions that stands for everything here: a replica with these has all of it.
    /// Everything that was merged before the last own transaction comes along with it.
    #[cfg(feature = "tokens")]
    fn frontier(self) -> VersionVector {
        let own = self.state.clock();
        let tops = self.state.numbered().filter_map(|(writer, number)| {
            let at = number as usize;
            let is_merged_along =
                !self.state.is_merged_since(number, own) && self.is_merged_along(number);
            let is_top = number == OWN || !is_merged_along;
            (is_top && self.state.clocks()[at] > 0).then_some((writer, self.state.clocks()[at]))
        });
        let tops: Vec<(WriterId, u64)> = tops.collect();
        VersionVector::from_sorted(tops)
    }

    /// Whether a peer that merges this replica's transactions also merges what this replica had of a writer.
    /// In a space with members, this is not certain of a writer that was not admitted, or that is over and
    /// not yet retired. About guests, peers accept only a member's word.
    #[cfg(feature = "tokens")]
    fn is_merged_along(self, number: u32) -> bool {
        let writer_state = self.membership.writer(number);
        let guest = writer_state.intro.is_some() && !writer_state.is_over();
        self.membership.configuration().is_none()
            || writer_state.retired.is_some()
            || self.membership.counts(number)
            || guest && self.membership.is_member()
    }
}

#[cfg(test)]
mod tests;
