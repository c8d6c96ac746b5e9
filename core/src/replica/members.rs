//! Membership, as a program operates it: founding, announcing, leaving and fencing.
//! [The rules](crate::membership) stand with the parts.

use super::{QuotaHooks, Replica};
use crate::error::Error;
use crate::membership::votes::checked;
use crate::message::records::{Admit, Configuration, Fence, Intro, Owner, Says};
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Replica {
    /// The present configuration; `None` while the space is open.
    pub fn configuration(&self) -> Option<&Configuration> {
        self.membership.configuration()
    }

    /// Closes the space: the owner of this replica's writer is its first member, and all writers
    /// that are known here are taken in. `nonce` is what the writer was minted with; `unix_ms`
    /// helps to order the owner's incarnations.
    ///
    /// # Errors
    /// [`Error::Closed`] if the space has members already.
    pub fn found(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if self.membership.configuration().is_some() {
            return Err(Error::Closed);
        }
        // A full space gets room by that.
        let clock = self.membership.clock_after(&self.state)?;
        let configuration = Configuration {
            era: 0,
            number: 1,
            members: Vec::from([*owner]),
            limits: Vec::new(),
        };
        let announce = self.membership.announcement(clock, owner, nonce, unix_ms);
        self.membership
            .note(&self.state, OWN, Says::Announce(Box::new(announce)));
        let by = Stamp { writer: OWN, clock };
        for writer in 1..self.state.writers.len() as u32 {
            self.membership
                .note(&self.state, writer, Says::Admit(Admit { turn: 0, by }));
        }
        self.membership.table.configuration = Some((by, configuration));
        self.quota.configured(&self.membership);
        self.membership.table.established = true;
        self.membership.made(&mut self.state, clock);
        self.membership.table.cards[OWN as usize].base = None;
        Ok(())
    }

    /// Announces this writer as an incarnation of a member, and declares the owner's earlier ones
    /// dead, with itself as their heir. Those that ended before they had announced themselves are taken
    /// in along with it: of a writer that nobody took in, others take it that they have forgotten it.
    ///
    /// # Errors
    /// [`Error::NotAMember`].
    pub fn announce(&mut self, owner: &Owner, nonce: &[u8; 16], unix_ms: u64) -> Result<(), Error> {
        if !self
            .membership
            .configuration()
            .is_some_and(|it| it.has(owner))
        {
            return Err(Error::NotAMember);
        }
        let clock = self.membership.next_clock(&self.state)?;
        let begins = self.clock() == 0;
        let earlier: Vec<u32> = self.membership.incarnations(owner).collect();
        let announce = self.membership.announcement(clock, owner, nonce, unix_ms);
        let vote = self.membership.inherited_vote(owner, clock);
        self.membership
            .note(&self.state, OWN, Says::Announce(Box::new(announce)));
        if let Some(vote) = vote {
            self.membership.note(&self.state, OWN, Says::Vote(vote));
        }
        let by = Stamp { writer: OWN, clock };
        let silent = self
            .rejoin
            .left_behind(&self.state, &self.membership)
            .into_iter()
            .map(|it| it.0);
        let silent: Vec<u32> = silent
            .filter_map(|id| self.state.numbers.get(&id))
            .collect();
        for writer in earlier.into_iter().chain(silent) {
            let card = &self.membership.table.cards[writer as usize];
            if writer != OWN && !card.is_over() {
                if card.intro.is_none() && card.announce.is_none() {
                    self.membership
                        .note(&self.state, writer, Says::Admit(Admit { turn: 0, by }));
                }
                let fence = Fence {
                    turn: 0,
                    by,
                    heir: OWN,
                };
                self.membership
                    .note(&self.state, writer, Says::Fence(fence));
            }
        }
        self.membership.made(&mut self.state, clock);
        // Who took a start in as it greeted waits for it from what it had acknowledged.
        let card = &mut self.membership.table.cards[OWN as usize];
        if begins && card.intro.is_some() {
            card.base = None;
        }
        self.membership.establish();
        Ok(())
    }

    /// Whether this replica is a member.
    pub fn is_member(&self) -> bool {
        self.membership.is_member()
    }

    /// Whether a start of a member's, or the end of one, waits for this member's acknowledgement, which waits
    /// for those who are attached here: until then the start has [no vote](crate::membership::Membership::has_vote), and it is not
    /// certain what counts of the one that ended.
    pub(crate) fn holds_up_members(&self) -> bool {
        self.membership.holds_up_members(&self.state)
    }

    /// Notes that a writer that is attached to this member has seen this, if all of it is here.
    pub(crate) fn told(&mut self, writer: &WriterId, seen: &VersionVector) {
        self.membership.told(&self.state, writer, seen)
    }

    /// The clock up to which a writer is held.
    pub(crate) fn held(&self, writer: &WriterId) -> u64 {
        self.state.held(writer)
    }

    /// How far a writer that is attached here has got with what members made, as a number that grows
    /// with it, and whether it has seen all that is held here.
    pub(crate) fn progress(&self, writer: &WriterId) -> (u64, bool) {
        self.membership.progress(&self.state, writer)
    }

    /// Replaces the configuration without asking a majority, when one is lost for ever. It beats
    /// whatever the members of the present one may still decide among themselves: a member that
    /// was only out of reach, and is not among `members`, loses its say.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::MembersFull`].
    pub fn force_members(&mut self, members: &[Owner]) -> Result<(), Error> {
        let Some(present) = self
            .membership
            .configuration()
            .filter(|_| self.membership.is_member())
        else {
            return Err(Error::NotAMember);
        };
        let next = Configuration {
            era: present.era + 1,
            number: present.number + 1,
            members: checked(members)?,
            limits: present.limits.clone(),
        };
        self.decide(next)
    }

    /// Says goodbye: the writer's last transaction, after which it makes no other and takes nothing
    /// in. Its home takes over.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if no member has taken it in.
    pub fn leave(&mut self) -> Result<(), Error> {
        self.membership.leave(&mut self.state)
    }

    /// Declares a writer dead. This member takes over what is known of it, which may be nothing: so
    /// it becomes certain that nothing of it counts.
    ///
    /// # Errors
    /// [`Error::NotAMember`] if this replica is none, [`Error::UnknownWriter`] if it is its own,
    /// [`Error::WritersFull`].
    pub fn fence(&mut self, writer: &WriterId) -> Result<(), Error> {
        self.membership.fence(&mut self.state, writer)
    }

    /// Whether messages of this writer's own may be taken: not if it left, for then all of it is
    /// held, or was declared dead.
    pub fn takes_from(&self, writer: &WriterId) -> bool {
        self.membership.takes_from(&self.state, writer)
    }

    /// Whether a writer is a member's incarnation that counts.
    pub(crate) fn is_counted_member(&self, writer: &WriterId) -> bool {
        self.membership.is_counted_member(&self.state, writer)
    }

    /// Declares the incarnations dead of owners that are members no more, and those before this one of
    /// its own owner's, of which it did not know when it announced itself.
    ///
    /// # Errors
    /// [`Error::ClockExhausted`].
    pub fn fence_strays(&mut self) -> Result<(), Error> {
        self.membership.fence_strays(&mut self.state)
    }

    /// The last clock of a writer that counts, if it is over and that is certain here.
    pub fn last_of(&self, writer: &WriterId) -> Option<u64> {
        self.membership.last_of(&self.state, writer)
    }

    /// Whether a writer is known here.
    pub(crate) fn knows(&self, writer: &WriterId) -> bool {
        self.state.knows(writer)
    }

    /// Whether everything up to an admission was seen here: who was taken in by it and is not known
    /// was forgotten.
    pub(crate) fn has_seen(&self, intro: &Intro) -> bool {
        self.membership.has_seen(&self.state, intro)
    }

    /// Whether a writer is a member's incarnation that counts, and whose place is certain: it does not
    /// have to come back for having begun from an old state, and lose what it alone holds.
    pub(crate) fn is_sure_member(&self, writer: &WriterId) -> bool {
        self.membership.is_sure_member(&self.state, writer)
    }

    /// Whether this is a member's writer that another living one has taken in.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.membership.is_acknowledged()
    }

    /// Whether this is a member's writer that others have taken in.
    pub fn is_established(&self) -> bool {
        self.membership.is_established()
    }

    /// The last clock of a forgotten writer that was taken over, if it is still remembered.
    pub fn taken_over(&self, writer: &WriterId) -> Option<u64> {
        self.membership.taken_over(writer)
    }
}

#[cfg(test)]
mod tests;
