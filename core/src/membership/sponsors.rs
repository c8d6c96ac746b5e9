//! Sponsors of guests: which member admits a guest, and answers for what the guest has seen.
//!
//! A member admits a node at its hello, before the node has written anything. Its acknowledgements then
//! wait for the guest, so nothing is collected that the guest may still refer to. It admits a page with its first
//! transaction, and acknowledges until then only what [pages have](Membership::note_pages). A later admission outranks
//! an earlier one if its member has checked the guest's first transactions ([`HEARD`]). If the sponsor is
//! gone, its successor answers for the guest.

use super::Membership;
use crate::error::{AdmissionError, Error, MemberError, detail};
use crate::indexed_state::State;
use crate::membership::room::Bringer;
use crate::membership::writer_state::WriterState;
use crate::message::Message;
use crate::message::records::{
    Admit, HEARD, MembershipRecord, Owner, SUCCESSORS_MAX, Statement, of,
};
use crate::optional::{MEMBERS, Optional};
use crate::state::page::OWN;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

impl Membership {
    /// Checks that a writer may be admitted that has seen these clocks of other writers, or nothing.
    pub(crate) fn may_admit(
        &self,
        state: &State,
        writer: &WriterId,
        lonely: bool,
        seen: &dyn Fn(&WriterId) -> u64,
    ) -> Result<(), Error> {
        if self.forgotten_upto(writer).is_some() {
            return Err(AdmissionError::Gone {
                writer: detail(*writer),
            }
            .into());
        }
        let behind = |(number, clock): &(u32, u64)| seen(&state.id(*number)) < *clock;
        match !lonely && self.given_up().iter().any(behind) {
            true => Err(AdmissionError::Behind.into()),
            false => Ok(()),
        }
    }

    /// Whether a message's sender is unknown here, and no incarnation of a member.
    pub(crate) fn is_unknown(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        let announces = |record: &MembershipRecord| {
            let writer = &message.delta.writers[record.writer as usize].writer;
            writer == live && matches!(record.statement, Statement::Announce(_))
        };
        state.number_of(live).is_none() && !message.records().iter().any(announces)
    }

    /// Whether no member waited for a message's sender. Until a member's start announces itself, this is so for all
    /// senders but members: the start before counts, which may have acknowledged a fence.
    pub(crate) fn is_unheard(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        self.is_unknown(state, message, live)
            || self.is_early() && !self.is_from_member(state, message, live)
    }

    /// Admits a writer that has requested it and has made no transaction yet. The members wait for it from
    /// its first transaction on. Everything that it is sent must be from after this call.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica is none, [`AdmissionError::Gone`] if the writer is over,
    /// [`WriteError::WritersFull`](crate::WriteError::WritersFull).
    pub(crate) fn admit(&mut self, state: &mut State, writer: &WriterId) -> Result<(), Error> {
        if !self.is_member() {
            return Err(MemberError::NotAMember.into());
        }
        if self.forgotten_upto(writer).is_some() {
            return Err(AdmissionError::Gone {
                writer: detail(*writer),
            }
            .into());
        }
        self.room_for_writer(state, writer, Bringer::Guest)?;
        self.become_sponsor_of(state, *writer, false)
    }

    /// Admits a writer of a program that never is a member, as [`admit`](crate::MembersMut::admit) does.
    ///
    /// Such programs come and go, and many never report what they received. So the member takes the writer to
    /// have everything that it is sent, which is at least everything here. If the writer has less, members
    /// may reject its first transactions. A member that starts again must not face that.
    pub(crate) fn admit_guest(
        &mut self,
        state: &mut State,
        writer: &WriterId,
    ) -> Result<(), Error> {
        self.admit(state, writer)?;
        let seen = self.members_part(|number| state.clock_at(number));
        if let Some(number) = state.number_of(writer)
            && state.clock_at(number) == 0
            && self.table.reported_by(number).is_some()
        {
            self.table.update(|it| it.sponsor(number, seen));
        }
        Ok(())
    }

    /// Makes this member the sponsor of a writer, in one of two cases:
    /// - The writer connects, and has no sponsor yet.
    /// - The member has received the writer's first transactions now, and the writer had seen enough when it
    ///   made them. This admission outranks all admissions that members made when the writer connected. The
    ///   writer may have received less from others than they think.
    pub(crate) fn become_sponsor_of(
        &mut self,
        state: &mut State,
        writer: WriterId,
        heard: bool,
    ) -> Result<(), Error> {
        let number = self.number(state, writer);
        let writer_state = &self.table.writer_states[number as usize];
        let leaves = writer_state.leave.is_some()
            && writer_state.fence.is_none()
            && writer_state.retired.is_none();
        if writer_state.is_over() && !(heard && leaves) {
            return Err(AdmissionError::Gone {
                writer: detail(writer),
            }
            .into());
        }
        let turn = match (writer_state.sponsor, heard) {
            _ if writer_state.announce.is_some() => return Ok(()),
            (None, false) => 0,
            (None, true) => HEARD,
            (Some(_), false) => return Ok(()),
            (Some(sponsor), true) => (sponsor.turn | 1) + 1,
        };
        self.record(state, number, |by| Statement::Admit(Admit { turn, by }))?;
        if leaves {
            return Ok(()); // no member waits for it any more
        }
        let seen = self.acked();
        self.table.update(|it| it.sponsor(number, seen));
        Ok(())
    }

    /// Whether this replica answers for a writer: it is the sponsor, or took over from the sponsor.
    pub(crate) fn is_sponsor_of(&self, writer_state: &WriterState) -> bool {
        writer_state
            .sponsor
            .is_some_and(|sponsor| self.successor_of(sponsor.by.writer) == OWN)
    }

    /// The writers that this member sponsors, by local number, ascending.
    pub(crate) fn sponsored_numbers(&self) -> impl Iterator<Item = u32> {
        let writer_states = self.table.writer_states.iter().zip(0u32..);
        let sponsored = writer_states.filter(|(writer_state, _)| {
            writer_state.announce.is_none()
                && !writer_state.is_over()
                && self.is_sponsor_of(writer_state)
        });
        sponsored.map(|(_, number)| number)
    }

    /// Whether this member sponsors a writer.
    pub(crate) fn is_sponsored(&self, state: &State, writer: &WriterId) -> bool {
        let number = state.number_of(writer);
        let writer_state = number.map(|number| &self.table.writer_states[number as usize]);
        writer_state.is_some_and(|writer_state| {
            writer_state.announce.is_none()
                && !writer_state.is_over()
                && self.is_sponsor_of(writer_state)
        })
    }

    /// The writers that this member sponsors, each with its [`progress`](Self::progress).
    pub(crate) fn levels(&self, state: &State) -> impl Iterator<Item = (WriterId, u64, bool)> {
        let held = self.members_part(|number| state.clock_at(number));
        self.sponsored_numbers().map(move |number| {
            let theirs = self.seen_there(number);
            let mut held = held.iter();
            let level = held.all(|(number, clock)| of(theirs, *number) >= *clock);
            let far = theirs.iter().map(|entry| entry.1).sum();
            (state.id(number), far, level)
        })
    }

    /// Returns the writer that answers for a writer now: itself, or the last of its successors.
    pub(crate) fn successor_of(&self, writer: u32) -> u32 {
        let mut at = writer;
        for _ in 0..SUCCESSORS_MAX {
            match self.table.writer_states[at as usize].successor() {
                Some(next) => at = next,
                None => return at,
            }
        }
        at
    }

    /// The member that answers for a guest, if the guest was admitted once. A guest that leaves names the member
    /// whose admission counts for it. If that member is forgotten here, its admission is attributed to the writer
    /// that took over from it. After two admissions it is not certain which one the guest means. Two members that
    /// guessed differently would both take over from the guest, and count it twice.
    pub(crate) fn only_sponsor(&self, guest: u32) -> Option<u32> {
        let writer_state = self.table.writer_states.get(guest as usize)?;
        let sponsor = writer_state
            .sponsor
            .filter(|it| writer_state.intro == Some(*it))?;
        Some(sponsor.by.writer)
    }

    /// The sponsor of this replica's writer. `None` before an admission, and for a member's writer.
    pub(crate) fn sponsor(&self, state: &State) -> Option<WriterId> {
        let sponsor = self.sponsor_number()?;
        Some(state.id(self.successor_of(sponsor)))
    }

    /// The member that admitted this replica's writer, which is no member's. Others wait for that member in
    /// place of this replica.
    pub(crate) fn sponsor_number(&self) -> Option<u32> {
        let writer_state = &self.table.writer_states[OWN as usize];
        let sponsor = writer_state
            .sponsor
            .filter(|_| writer_state.announce.is_none())?;
        Some(sponsor.by.writer)
    }

    /// The transaction that admitted a writer.
    pub(crate) fn introduced_by(
        &self,
        state: &State,
        writer: &WriterId,
    ) -> Option<(WriterId, u64)> {
        let number = state.number_of(writer)?;
        let by = self.table.writer_states[number as usize].intro?.by;
        Some((state.id(by.writer), by.clock))
    }

    /// The owner and the generation of a writer that is a member's incarnation.
    pub(crate) fn incarnation(&self, state: &State, writer: &WriterId) -> Option<(Owner, u64)> {
        let number = state.number_of(writer)?;
        let announce = self.table.writer_states[number as usize]
            .announce
            .as_ref()?;
        Some((announce.owner, announce.generation))
    }

    /// Notes which incarnations, whose place is not certain, the sender of a message has accepted.
    pub(crate) fn vouch(&mut self, state: &State, message: &Message, live: WriterId) {
        let is_unsure = |number: &u32| self.table.writer_states[*number as usize].is_unsure();
        let is_named = |number: &u32| {
            let writer = state.id(*number);
            writer != live && message.hi(&writer) > Some(0)
        };
        let named = self.starts().filter(is_unsure).filter(is_named);
        let named: Vec<u32> = named.collect();
        let Some(table) = self.table.get_mut() else {
            return;
        };
        for number in named {
            let vouched = &mut table.vouched;
            if !vouched.contains(&(live, number)) {
                vouched.push((live, number));
            }
        }
    }

    /// Notes that a member has transactions of this guest for good. It judged the guest by its base when it
    /// admitted the guest. A replica that does not have the guest now has forgotten it.
    pub(crate) fn note_confirmed(&mut self) {
        self.table.update(|it| {
            let own = &mut it.writer_states[OWN as usize];
            if own.announce.is_none() && own.intro.is_some() {
                own.base = None;
            }
        });
    }

    /// Notes the clocks that a sponsored writer has seen, by its message, and whether a member knows of this start
    /// by then. This replica has merged all of the message.
    pub(crate) fn note_message(&mut self, state: &State, writer: &WriterId, message: &Message) {
        if message.is_complete() {
            let clock = message.hi(&state.id(OWN)).unwrap_or(0);
            self.note_told(state, writer, clock);
        }
        self.note_clocks(state, writer, &|writer| message.hi(writer).unwrap_or(0));
    }

    /// Notes that a sponsored writer has seen these clocks, if this replica covers all of them.
    pub(crate) fn note_seen(&mut self, state: &State, writer: &WriterId, seen: &VersionVector) {
        if state.vector().covers(seen) {
            self.note_clocks(state, writer, &|writer| seen.get(writer));
        }
    }

    pub(crate) fn note_clocks(
        &mut self,
        state: &State,
        writer: &WriterId,
        hi: &dyn Fn(&WriterId) -> u64,
    ) {
        let Some(number) = state.number_of(writer) else {
            return;
        };
        let writer_state = &self.table.writer_states[number as usize];
        if number == OWN || writer_state.announce.is_some() || !self.is_sponsor_of(writer_state) {
            return;
        }
        let before = self.table.reported_by(number).unwrap_or_default();
        let seen = self.members_part(|number| {
            let writer = &state.id(number);
            hi(writer).max(of(before, number))
        });
        self.table.update(|it| it.sponsor(number, seen));
    }

    /// The clocks of those writers that are members' incarnations.
    pub(crate) fn members_part(&self, clock: impl Fn(u32) -> u64) -> Vec<(u32, u64)> {
        let of = self.starts().map(|number| (number, clock(number)));
        of.filter(|(_, clock)| *clock > 0).collect()
    }

    /// Returns the clocks that this member can acknowledge: it and all of its guests have seen them.
    pub(crate) fn seen(&self, state: &State) -> Vec<(u32, u64)> {
        let mut seen = self.members_part(|number| self.clock_with_keys(state, number));
        for (writer_state, number) in self.table.writer_states.iter().zip(0u32..) {
            if writer_state.announce.is_some()
                || writer_state.is_over()
                || !self.is_sponsor_of(writer_state)
            {
                continue;
            }
            let theirs = self.seen_there(number);
            for (writer, clock) in &mut seen {
                *clock = of(theirs, *writer).min(*clock);
            }
        }
        if let Some(pages) = self.table.pages.as_ref().filter(|_| MEMBERS) {
            for (number, clock) in &mut seen {
                let writer = state.id(*number);
                let have = pages.iter().find(|it| it.0 == writer);
                *clock = have.map_or(0, |it| it.1).min(*clock);
            }
        }
        self.hold_back_starts(state, &mut seen);
        seen.retain(|(_, clock)| *clock > 0);
        seen
    }

    /// Leaves out other starts whose place is not certain, while this one is
    /// [uninformed](Self::is_uninformed). Earlier acknowledgements stay as they are.
    fn hold_back_starts(&self, state: &State, seen: &mut [(u32, u64)]) {
        let unsure = |number: u32| {
            let writer = self.writer(number);
            let counts = number != OWN && writer.is_unsure() && self.counts(number);
            let announce = writer.announce.as_ref().filter(|_| counts);
            announce.map(|it| it.clock)
        };
        if !seen.iter().any(|it| unsure(it.0).is_some()) || !self.is_uninformed(state) {
            return;
        }
        let before = self.acked();
        for (number, clock) in seen {
            if let Some(announced) = unsure(*number) {
                *clock = (announced - 1).max(of(&before, *number)).min(*clock);
            }
        }
    }

    /// Returns the clocks that a sponsored writer has seen at least. It reported them, or else its last
    /// sponsor acknowledged them.
    pub(crate) fn seen_there(&self, number: u32) -> &[(u32, u64)] {
        let told = self.table.reported_by(number);
        let sponsor = self.table.writer_states[number as usize].sponsor;
        let sponsor = sponsor.map(|sponsor| sponsor.by.writer as usize);
        let before = sponsor.and_then(|sponsor| self.table.writer_states[sponsor].ack.as_ref());
        match (told, before) {
            (Some(seen), _) => seen,
            (None, Some(ack)) => &ack.seen,
            (None, None) => &[],
        }
    }

    /// Returns how much of the members' transactions a sponsored writer has seen, and whether it has seen all
    /// that are here. The first result is a number that grows with it.
    pub(crate) fn progress(&self, state: &State, writer: &WriterId) -> (u64, bool) {
        let number = state.number_of(writer).unwrap_or(OWN);
        let theirs = self.seen_there(number);
        let held = self.members_part(|number| state.clock_at(number));
        let mut held = held.iter();
        let level = held.all(|(number, clock)| of(theirs, *number) >= *clock);
        (theirs.iter().map(|entry| entry.1).sum(), level)
    }
}

#[cfg(test)]
mod tests;
