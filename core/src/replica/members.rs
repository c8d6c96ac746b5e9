//! Membership, as a program operates it: founding, announcing, leaving and fencing.
//! [The rules](crate::membership) stand with the parts.

use super::{QuotaHooks, Replica};
use crate::error::{Error, MemberError};
use crate::membership::place::Predecessor;
use crate::membership::votes::checked;
use crate::message::records::{Ack, Configuration, Owner, Statement};
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Changes of the members, and this replica's statements about writers: see [`Replica::members_mut`].
///
/// It borrows the whole replica, because these operations span its parts: the writer table, the state, the
/// idempotency log, and the transactions of earlier writers.
pub struct MembersMut<'a> {
    pub(super) replica: &'a mut Replica,
}

impl MembersMut<'_> {
    /// Closes the space: the owner of this replica's writer is its first member, and all writers
    /// that are known here are admitted. `nonce` is what the writer was minted with; `unix_ms`
    /// helps to order the owner's incarnations.
    ///
    /// # Errors
    /// [`MemberError::Closed`] if the space has members already. [`MemberError::NotAMember`] if this replica
    /// [stands aside](MembersMut::stand_aside).
    pub fn found(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if self.replica.stands_aside() {
            return Err(MemberError::NotAMember.into());
        }
        let replica = &mut *self.replica;
        let state = &mut replica.state;
        replica.membership.found(state, owner, nonce, unix_ms)?;
        replica.quota.configured(&replica.membership);
        Ok(())
    }

    /// Announces this writer as an incarnation of a member. Declares the owner's earlier incarnations dead,
    /// with this writer as their successor. Also admits earlier writers that ended before they had announced
    /// themselves. Until then, other replicas refuse messages that name them.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`], also while this replica [stands aside](MembersMut::stand_aside).
    pub fn announce(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        self.announce_after(owner, nonce, unix_ms, None)
    }

    /// As [`announce`](MembersMut::announce), by a start that follows an earlier one [in its
    /// place](crate::Predecessor). `before` is that one, as [`Members::only_start`](crate::Members::only_start)
    /// told right after the store was restored. Name it only if all of this holds:
    /// - It ran where this process runs, and a lock proves that it has ended.
    /// - It had its vote, or itself followed a start that had.
    /// - The store has everything that the earlier start ever published.
    ///
    /// # Errors
    /// As [`announce`](MembersMut::announce).
    pub fn announce_after(
        &mut self,
        owner: &Owner,
        nonce: &[u8; 16],
        unix_ms: u64,
        before: Option<Predecessor>,
    ) -> Result<(), Error> {
        let Replica {
            state,
            membership,
            rejoin,
            aside,
            ..
        } = &mut *self.replica;
        if aside.is_some() || !membership.configuration().is_some_and(|it| it.has(owner)) {
            return Err(MemberError::NotAMember.into());
        }
        let clock = membership.next_clock(state)?;
        let begins = state.clock() == 0;
        membership.follow(state, owner, before);
        let earlier: Vec<u32> = membership.incarnations(owner).collect();
        let announce = membership.announcement(clock, owner, nonce, unix_ms);
        let vote = membership.inherited_vote(owner, clock);
        membership.note(state, OWN, Statement::Announce(Box::new(announce)));
        if let Some(vote) = vote {
            membership.note(state, OWN, Statement::Vote(vote));
        }
        let silent = rejoin.left_behind(state, membership);
        let silent = silent.iter().filter_map(|it| state.number_of(&it.0));
        for writer in earlier.into_iter().chain(silent) {
            membership.end_earlier(state, writer, clock);
        }
        membership.made(state, clock);
        membership.note_announced(begins);
        membership.establish();
        Ok(())
    }

    /// Replaces the configuration without asking a majority, when one is lost for ever.
    ///
    /// The new configuration wins over each decision that the members of the present one may still make. A
    /// member that was only out of reach, and is not among `members`, loses its vote.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, [`MemberError::MembersFull`].
    pub fn force(&mut self, members: &[Owner]) -> Result<(), Error> {
        let Some(present) = self
            .replica
            .membership
            .configuration()
            .filter(|_| self.replica.membership.is_member())
        else {
            return Err(MemberError::NotAMember.into());
        };
        let next = Configuration {
            era: present.era + 1,
            number: present.number + 1,
            members: checked(members)?,
            limits: present.limits.clone(),
        };
        self.decide(next)
    }

    /// Leaves: makes the writer's last transaction. Its sponsor is the successor.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if no member has admitted it.
    pub fn leave(&mut self) -> Result<(), Error> {
        self.replica.membership.leave(&mut self.replica.state)
    }

    /// Declares a writer dead. This member takes over what is known of it, which may be nothing: so
    /// it becomes certain that nothing of it counts.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, [`MemberError::UnknownWriter`] if it is its own,
    /// [`WriteError::WritersFull`](crate::WriteError::WritersFull).
    pub fn fence(&mut self, writer: &WriterId) -> Result<(), Error> {
        self.replica
            .membership
            .fence(&mut self.replica.state, writer)
    }

    /// Fences the incarnations of owners that are no members any more. Also fences earlier incarnations of
    /// this replica's own owner that it had not received when it announced itself.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn fence_strays(&mut self) -> Result<(), Error> {
        self.replica
            .membership
            .fence_strays(&mut self.replica.state)
    }

    /// Admits a writer that has requested it and has made no transaction yet. Members wait for this writer
    /// from its first transaction on. Send it only state from after the admission.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none,
    /// [`AdmissionError::Gone`](crate::AdmissionError::Gone) if the writer is over,
    /// [`WriteError::WritersFull`](crate::WriteError::WritersFull).
    pub fn admit(&mut self, writer: &WriterId) -> Result<(), Error> {
        self.replica
            .membership
            .admit(&mut self.replica.state, writer)
    }

    /// Makes the next [acknowledgement](crate::MembersMut::acknowledge) even if no replica waits for it. It
    /// then also requests those of the other members.
    pub fn request_acknowledgement(&mut self) {
        self.replica.membership.ask_for_acknowledgement()
    }

    /// Publishes what this member has merged, if a replica waits for it. Returns whether it did.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub fn acknowledge(&mut self) -> Result<bool, Error> {
        let Replica {
            state,
            membership,
            idempotency,
            ..
        } = &mut *self.replica;
        if !membership.is_member() {
            return Ok(false);
        }
        // A replica that receives this acknowledgement must have received the withdrawals before it.
        idempotency.withdraw(state, membership, &mut |_, _| ())?;
        idempotency.give_up_keys(state, membership);
        let seen = membership.seen(state);
        let asks = membership.asks_for_acknowledgements();
        let asks_for_keys = idempotency.asks_for_keys(state, membership);
        if !asks && !asks_for_keys && !membership.is_awaited(&seen) {
            return Ok(false);
        }
        let clock = membership.next_clock(state)?;
        if asks {
            membership.note_asked(state, clock);
        }
        if asks_for_keys {
            idempotency.ask_for_keys(state, membership, clock);
        }
        let want = membership.asked().max(idempotency.asked_for_keys());
        let seen = membership.seen_up_to(state, seen, clock);
        membership.record(state, OWN, |by| {
            Statement::Ack(Box::new(Ack {
                clock: by.clock,
                want,
                seen,
            }))
        })?;
        Ok(true)
    }

    /// Accepts from a member which transactions are [stable](crate::Members::stable), if this replica has
    /// seen all that the member had. `seen` says what the member had. Otherwise a transaction could be
    /// missing here that was made before these were stable.
    pub fn accept_stable(&mut self, stable: &VersionVector, seen: &VersionVector) {
        self.replica
            .membership
            .accept_stable(&self.replica.state, stable, seen)
    }
}
