//! Admission rules: which messages a replica accepts, and from whom.
//!
//! Collection makes these rules necessary: a record that is absent here may be new, or collected. Each rule
//! has an [error](crate::Error) of its own, and a refused message changes nothing.
//!
//! | sender, or writer of the message | answer |
//! |---|---|
//! | builds on something that is missing here | `not_covered`: the receiver pulls that first |
//! | a writer that no member has admitted | `stranger` |
//! | a writer that left, was fenced or retired, beyond what counts of it | `gone`, `behind` |
//! | a start that had not seen what may have been collected | `behind` |
//! | a start that may be such a one, and the message does not tell | `unsure`: a complete message is needed |
//! | has collected what this replica had not seen at its own begin | `outdated`: this replica rejoins |
//! | a writer that was forgotten here, at a clock that counted | accepted; its part is covered, and skipped |
//!
//! [`WriterStatus`] is the judgement of one writer of a message.

use super::Membership;
use crate::error::{AdmissionError, Error, MergeError, detail};
use crate::indexed_state::State;
use crate::membership::room::Bringer;
use crate::membership::writer_state::WriterState;
use crate::message::Message;
use crate::message::records::{HEARD, Owner, Statement, of};
use crate::optional::{GUESTS, GuestPart, Optional};
use crate::state::delta::Entry;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// The longest chain of admissions that is followed.
pub(crate) const ADMISSIONS_MAX: usize = 8;

/// The places of a message's writers that were forgotten here. Everything of them is covered.
pub(crate) type Forgotten = GuestPart<Vec<usize>>;

/// The knowledge of this replica about a writer that a message names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterStatus {
    /// The replica has the writer, or the writer is new.
    Known,
    /// The replica forgot the writer, and covers everything of it.
    Forgotten,
    /// No member has admitted the writer.
    Stranger,
}

/// Returns the entries of a chunk whose writers are forgotten here. `forgotten` says it of the entries of the
/// last chunk of the same transfer.
#[inline(always)]
pub(crate) fn forgotten_in(chunk: &Message, last: &Message, forgotten: &Forgotten) -> Forgotten {
    let mut gone = Forgotten::default();
    if GUESTS {
        let last = &last.delta.writers;
        let is_gone = |writer: &WriterId| {
            let at = last.binary_search_by_key(writer, |entry| entry.writer);
            at.is_ok_and(|at| forgotten.contains(&at))
        };
        let writers = chunk.delta.writers.iter().enumerate();
        let writers = writers.filter(|(_, entry)| is_gone(&entry.writer));
        gone.set(writers.map(|(at, _)| at).collect());
    }
    gone
}

/// Returns the clocks that a writer of a message had seen at its first transaction, by the message's numbers.
fn base_in(message: &Message, at: u32) -> Option<&[(u32, u64)]> {
    message
        .records_of(at)
        .find_map(|record| match &record.statement {
            Statement::Base(seen, _) => Some(&seen[..]),
            _ => None,
        })
}

impl Membership {
    /// Whether the message has anything that this replica lacks.
    pub(crate) fn news(&self, state: &State, message: &Message) -> bool {
        let mut writers = message.delta.writers.iter().enumerate();
        writers.any(|(at, entry)| {
            entry.hi > state.held(&entry.writer)
                && !(GUESTS
                    && self.writer_status(state, message, at, None, 0) == WriterStatus::Forgotten)
        })
    }

    /// Whether a message replaces everything that this replica has. No member has waited for this replica, so
    /// it may still have records that were collected elsewhere.
    ///
    /// # Errors
    /// [`AdmissionError::Outdated`] if that would lose own transactions.
    pub(crate) fn is_replaced_by(&self, state: &State, message: &Message) -> Result<bool, Error> {
        let whole = message.is_whole();
        let alone = state.is_alone();
        if !whole || alone || self.is_counted() {
            return Ok(false);
        }
        let left = self.table.writer_states[OWN as usize].leave.is_some();
        match state.clock() == 0 || left {
            true => Ok(true),
            false => Err(AdmissionError::Outdated.into()),
        }
    }

    /// Admits the sender if it is new, and notes what the sender has seen.
    pub(crate) fn admit_sender(
        &mut self,
        state: &mut State,
        message: &Message,
        live: Option<WriterId>,
        newcomer: Option<WriterId>,
    ) -> Result<(), Error> {
        if !GUESTS {
            return Ok(());
        }
        if let Some(writer) = newcomer {
            self.become_sponsor_of(state, writer, true)?;
        }
        if let Some(writer) = live {
            self.vouch(state, message, writer);
            if self.is_member() {
                self.note_message(state, &writer, message);
            }
        }
        Ok(())
    }

    /// Whether a member has admitted a writer, or its owner has announced it.
    pub(crate) fn is_placed(&self, number: Option<u32>) -> bool {
        number.is_some_and(|number| {
            let writer_state = &self.table.writer_states[number as usize];
            writer_state.intro.is_some() || writer_state.announce.is_some()
        })
    }

    /// Whether the sender of a complete message, which does not name a writer, has forgotten it.
    pub(crate) fn is_gone_from(&self, state: &State, message: &Message, writer: &WriterId) -> bool {
        let hi = |writer: &WriterId| message.hi(writer);
        hi(writer).is_none() && self.is_gone_in(state, message, writer, &hi)
    }

    /// Whether the sender of a complete message has forgotten a writer that was not absorbed, as far as this
    /// replica has learned. The sender would not have done so if it had waited for this replica.
    pub(crate) fn is_passed_over_in(&self, state: &State, message: &Message) -> bool {
        let writer_states = self.table.writer_states.iter().zip(state.ids()).skip(1);
        let mut open = writer_states.filter(|(writer_state, _)| writer_state.retired.is_none());
        open.any(|(_, writer)| self.is_gone_from(state, message, writer))
    }

    /// The same with the end clocks of the message as a function.
    pub(crate) fn is_gone_in(
        &self,
        state: &State,
        message: &Message,
        writer: &WriterId,
        hi: &dyn Fn(&WriterId) -> Option<u64>,
    ) -> bool {
        let gone = |owner: Owner, generation: u64| {
            message
                .records()
                .iter()
                .any(|record| match &record.statement {
                    Statement::Gone(_, gone) => gone.0 == owner && gone.1 >= generation,
                    _ => false,
                })
        };
        // Two writers may have admitted each other, so the chain of admissions may have no end.
        let mut at = *writer;
        for _ in 0..ADMISSIONS_MAX {
            if let Some((owner, generation)) = self.incarnation(state, &at)
                && gone(owner, generation)
            {
                return true;
            }
            let Some((by, clock)) = self.introduced_by(state, &at) else {
                return false;
            };
            if let Some(hi) = hi(&by) {
                return hi >= clock;
            }
            at = by;
        }
        false
    }

    /// Returns the sender of a message if this replica has to admit it together with the message.
    ///
    /// # Errors
    /// [`AdmissionError::Gone`] if the sender is over or forgotten, [`AdmissionError::Stranger`] if this
    /// replica is no member and cannot admit it. Otherwise the errors of [`may_admit`](Self::may_admit) and
    /// [`next_clock`](Self::next_clock).
    pub(crate) fn newcomer(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Result<Option<WriterId>, Error> {
        let Some(live) = live.filter(|_| self.configuration().is_some()) else {
            return Ok(None);
        };
        let gone = Error::from(AdmissionError::Gone {
            writer: detail(live),
        });
        if !self.accepts_from(state, &live) {
            return Err(gone);
        }
        let entry = |writer: &WriterId| {
            let at = message
                .delta
                .writers
                .binary_search_by_key(writer, |e| e.writer);
            at.ok().map(|at| (at as u32, message.delta.writers[at].hi))
        };
        let Some((at, hi)) = entry(&live) else {
            return Ok(None);
        };
        let number = state.number_of(&live);
        let brought = |it: &Statement| matches!(it, Statement::Admit(_) | Statement::Announce(_));
        let known = number.is_some() || message.has_record(at, brought);
        if self.writer_status(state, message, at as usize, Some(live), 0) == WriterStatus::Forgotten
        {
            return Err(gone);
        }
        let base = base_in(message, at);
        // The member that admitted the sender may have nothing of it, and may not have its base.
        let unheard = number.is_none_or(|it| state.clock_at(it) == 0);
        // An incarnation of a member, or a guest that a member admitted, needs no admission here.
        let early = unheard && base.is_some();
        let early = early && !message.has_record(at, |it| matches!(it, Statement::Announce(_)));
        if hi == 0 || known && !early {
            return Ok(None);
        }
        // No member admits a sender whose own message says that others ended it.
        if message.has_ended(&live) {
            return Err(gone);
        }
        let seen = |writer: &WriterId| {
            let entry = entry(writer);
            entry.map_or(0, |(at, _)| of(base.unwrap_or_default(), at))
        };
        if !self.is_member() {
            return Err(AdmissionError::Stranger {
                writer: detail(live),
            }
            .into());
        }
        self.may_admit(state, &live, base.is_some_and(<[_]>::is_empty), &seen)?;
        self.next_clock(state)?;
        Ok(Some(live))
    }

    /// Whether this replica is a member, and a message's sender is no member's incarnation. Neither the table
    /// here nor the message says that it is one.
    ///
    /// Another member's start also brings transactions that it had before this replica received its first
    /// message. No sponsor answers for such a start.
    pub(crate) fn is_from_guest(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        self.is_member() && !self.is_from_member(state, message, live)
    }

    /// Whether a message's sender is a member's incarnation. The table here or the message may say that it
    /// is.
    pub(crate) fn is_from_member(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        let members = self.configuration();
        let announces = message
            .records()
            .iter()
            .any(|record| match &record.statement {
                Statement::Announce(it) => {
                    let writer = &message.delta.writers[record.writer as usize].writer;
                    writer == live && members.is_some_and(|members| members.has(&it.owner))
                }
                _ => false,
            });
        announces || self.is_counted_member(state, live)
    }

    /// Returns the index of each writer of a message that was forgotten here.
    pub(crate) fn forgotten(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Forgotten {
        let mut forgotten = Forgotten::default();
        if self.configuration().is_some() {
            let writers = 0..message.delta.writers.len();
            let is_one = |at: &usize| {
                self.writer_status(state, message, *at, live, 0) == WriterStatus::Forgotten
            };
            forgotten.set(writers.filter(is_one).collect());
        }
        forgotten
    }

    /// Whether this replica's sponsor is dead or no member any more, by the records here or by a message. The
    /// sender of the message does not have this replica's writer.
    pub(crate) fn is_orphaned_by(&self, state: &State, message: &Message) -> bool {
        let Some(sponsor) = self.sponsor_number() else {
            return false;
        };
        let id = state.id(sponsor);
        let dead = message.records().iter().any(|record| {
            let writer = message.delta.writers[record.writer as usize].writer;
            writer == id
                && matches!(
                    record.statement,
                    Statement::Fence(_) | Statement::Retired(_)
                )
        });
        let theirs = message
            .records()
            .iter()
            .find_map(|record| match &record.statement {
                Statement::Configuration(_, it) => Some(&**it),
                _ => None,
            });
        let members = theirs.max(self.configuration());
        let owner = self.incarnation(state, &id).map(|it| it.0);
        let member = owner.is_some_and(|owner| members.is_some_and(|it| it.has(&owner)));
        dead || !self.accepts_from(state, &id) || !member
    }

    /// Whether the configuration in a message leaves out this member's owner, or else the given owner.
    pub(crate) fn is_dropped_in(&self, message: &Message, owner: Option<Owner>) -> bool {
        let owner = self.owner_of(OWN).or(owner);
        message
            .records()
            .iter()
            .any(|record| match &record.statement {
                Statement::Configuration(_, it) => owner.is_none_or(|owner| !it.has(&owner)),
                _ => false,
            })
    }

    /// Whether this replica has a newer configuration than a whole state. A replica that began again from
    /// that state would forget what it agreed to.
    pub(crate) fn knows_newer_members(&self, state: &Message) -> bool {
        let numbers = state
            .records()
            .iter()
            .filter_map(|record| match &record.statement {
                Statement::Configuration(_, it) => Some((it.era, it.number)),
                _ => None,
            });
        self.configuration().map(|it| (it.era, it.number)) > numbers.max()
    }

    /// Whether a writer of a message is an incarnation of an owner that is no member here.
    pub(crate) fn is_no_member(&self, message: &Message, at: usize) -> bool {
        message
            .records()
            .iter()
            .any(|record| match &record.statement {
                Statement::Announce(it) if record.writer as usize == at => !self
                    .configuration()
                    .is_some_and(|members| members.has(&it.owner)),
                _ => false,
            })
    }

    /// Returns what this replica knows of a writer that a message names.
    pub(crate) fn writer_status(
        &self,
        state: &State,
        message: &Message,
        at: usize,
        live: Option<WriterId>,
        depth: usize,
    ) -> WriterStatus {
        let writer = message.delta.writers[at].writer;
        if self.configuration().is_none() || state.knows(&writer) {
            return WriterStatus::Known;
        }
        // Whatever the message says of it: members may have ended it before they knew its owner, or who admitted it.
        if self.forgotten_upto(&writer).is_some() {
            return WriterStatus::Forgotten;
        }
        // A sender that has to be admitted now brings its base. If the sender has its admission, and this
        // replica has it too, the writer was forgotten here.
        let is_base = |statement: &Statement| matches!(statement, Statement::Base(_, false));
        let is_sender = live == Some(writer) && self.is_member();
        let mut status = match is_sender && message.has_record(at as u32, is_base) {
            true => WriterStatus::Known,
            // The message builds on something that is missing here, and the caller reports it.
            false if message.delta.writers[at].lo > 0 => WriterStatus::Known,
            // The sender of the message has the writer's admission, and has learned that this replica has it
            // too.
            false => WriterStatus::Forgotten,
        };
        for record in message.records_of(at as u32) {
            match &record.statement {
                Statement::Announce(it) => {
                    return match self.gone(&it.owner) >= Some(it.generation) {
                        true => WriterStatus::Forgotten,
                        false => WriterStatus::Known,
                    };
                }
                Statement::Admit(admit) => {
                    let by = admit.by.writer as usize;
                    let covered = admit.by.clock <= state.held(&message.delta.writers[by].writer)
                        || depth < ADMISSIONS_MAX
                            && self.writer_status(state, message, by, live, depth + 1)
                                == WriterStatus::Forgotten;
                    if covered {
                        return WriterStatus::Forgotten;
                    }
                    status = WriterStatus::Known;
                }
                // No member has admitted it yet.
                Statement::Base(_, false) if status == WriterStatus::Forgotten => {
                    status = WriterStatus::Stranger
                }
                _ => {}
            }
        }
        status
    }

    /// Checks all admission rules, before anything is changed.
    ///
    /// # Errors
    /// The error of the first rule that the message breaks.
    pub(crate) fn check(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Result<(), Error> {
        let from_guest =
            GUESTS && live.is_some_and(|live| self.is_from_guest(state, message, &live));
        let tells = |entry: &Entry| entry.hi > state.held(&entry.writer);
        let tells = || match live {
            Some(_) => message.delta.writers.iter().any(tells),
            None => self.news(state, message),
        };
        if self.configuration().is_some() && !message.is_closed() && tells() {
            // The sender keeps no journal yet: it first has to learn that there are members. Until then it
            // does not send the base that distinguishes a newcomer from a forgotten writer.
            let writer = live.unwrap_or(message.delta.writers[0].writer);
            return Err(AdmissionError::Stranger {
                writer: detail(writer),
            }
            .into());
        }
        let unheard = GUESTS && live.is_some_and(|live| self.is_unheard(state, message, &live));
        if GUESTS && self.table.writer_states[OWN as usize].leave.is_some() {
            return Err(AdmissionError::Retired.into()); // no member waits for this replica any more
        }
        let mut strangers = 0;
        for (at, entry) in message.delta.writers.iter().enumerate() {
            match self.writer_status(state, message, at, live, 0) {
                WriterStatus::Known => {}
                WriterStatus::Forgotten => {
                    if self
                        .forgotten_upto(&entry.writer)
                        .is_some_and(|upto| entry.hi > upto)
                    {
                        return Err(AdmissionError::Behind.into());
                    }
                    continue;
                }
                WriterStatus::Stranger => {
                    let writer = entry.writer;
                    return Err(AdmissionError::Stranger {
                        writer: detail(writer),
                    }
                    .into());
                }
            }
            let held = state.held(&entry.writer);
            if entry.lo > held {
                return Err(Error::not_covered(entry.writer, entry.lo, held));
            }
            match state.number_of(&entry.writer) {
                Some(OWN) if entry.hi > held => {
                    return Err(MergeError::OwnClockAhead {
                        heard: detail(entry.hi),
                        own: detail(held),
                    }
                    .into());
                }
                Some(number) if GUESTS => {
                    let WriterState { retired, fence, .. } =
                        self.table.writer_states[number as usize];
                    if held == 0 && entry.hi > 0 {
                        self.check_base(state, message, at as u32)?;
                        let first = self.check_first(state, message, at as u32, live);
                        // No member receives a writer of its own that was declared dead, so nobody has to
                        // wait for it.
                        first.map_err(|error| match fence {
                            Some(_) => Error::from(AdmissionError::Behind),
                            None => error,
                        })?;
                    }
                    if retired.is_some_and(|retired| entry.hi > retired.upto) {
                        return Err(AdmissionError::Behind.into()); // the sender builds on transactions that do not count
                    }
                    // No member waited for this sender before all agreed on the dead writer's last clock.
                    let unheard = unheard && fence.is_some();
                    if entry.hi > held && (unheard || from_guest && self.has_buried(number)) {
                        return Err(AdmissionError::Behind.into());
                    }
                }
                Some(_) => {}
                None if from_guest && self.is_no_member(message, at) => {
                    return Err(AdmissionError::Behind.into()); // the guest's transactions from there do not count here
                }
                None => {
                    if GUESTS {
                        self.check_base(state, message, at as u32)?;
                    }
                    strangers += 1;
                }
            }
        }
        if let Some(live) = live.filter(|_| GUESTS) {
            self.check_unsure(state, message, &live)?;
        }
        for record in message.records() {
            let writer = message.delta.writers[record.writer as usize].writer;
            if let Statement::Retired(retired) = &record.statement
                && state.held(&writer) > retired.upto
            {
                return Err(AdmissionError::Outdated.into()); // this replica has transactions that do not count
            }
            let own = writer == state.writer();
            if own
                && matches!(
                    record.statement,
                    Statement::Fence(_) | Statement::Retired(_)
                )
            {
                return Err(AdmissionError::Retired.into()); // this replica's writer is over
            }
        }
        let own = state.writer();
        let named = message
            .delta
            .writers
            .iter()
            .any(|entry| entry.writer == own);
        if message.is_complete() && self.is_gone_from(state, message, &own) {
            return Err(AdmissionError::Retired.into()); // its writer is over, and forgotten
        }
        if message.is_complete() && !named && self.is_orphaned_by(state, message) {
            return Err(AdmissionError::Outdated.into()); // no member there has it, or waits for it
        }
        if message.is_complete() && self.began_before(state, message) {
            return Err(AdmissionError::Outdated.into()); // and no member has admitted it
        }
        let held = || self.members_part(|number| state.clock_at(number));
        if message.is_complete() && self.is_replaced_by(state, message) != Ok(true) {
            if self.is_passed_over_in(state, message) {
                return Err(AdmissionError::Outdated.into()); // no member waited for it
            }
            if self.is_counted() && !self.has_seen_horizon(state, message, &held()) {
                return Err(AdmissionError::Outdated.into()); // it has records that were collected there
            }
        }
        self.room_for_writers(state, strangers, Bringer::Peer)?;
        state.room_for_keys(&message.delta, false)
    }

    /// Checks that a member's incarnation did not begin from too old a state: it may cancel records that were
    /// collected since that state.
    ///
    /// # Errors
    /// [`AdmissionError::Unsure`] if the message is not complete, so that it cannot say.
    /// [`AdmissionError::Behind`] if the incarnation had not seen the GC horizon.
    pub(crate) fn check_base(
        &self,
        state: &State,
        message: &Message,
        at: u32,
    ) -> Result<(), Error> {
        if !message.is_closed() {
            return Ok(());
        }
        let announces = message.has_record(at, |it| matches!(it, Statement::Announce(_)));
        let Some(base) = announces.then(|| base_in(message, at)).flatten() else {
            return Ok(());
        };
        let seen = |number: u32| {
            let writer = &state.id(number);
            let at = message
                .delta
                .writers
                .binary_search_by_key(writer, |e| e.writer);
            at.map_or(0, |at| of(base, at as u32))
        };
        for (writer, clock) in self.horizons() {
            if self.covers(seen, Stamp { writer, clock }) {
                continue;
            }
            if !message.is_complete() {
                let writer = message.delta.writers[at as usize].writer;
                return Err(AdmissionError::Unsure {
                    writer: detail(writer),
                }
                .into());
            }
            if !self.is_gone_from(state, message, &state.id(writer)) {
                return Err(AdmissionError::Behind.into());
            }
        }
        Ok(())
    }

    /// Checks the first transactions of a guest in a message from another guest. They are rejected, for now,
    /// if no member is known to have checked them, because the message does not carry the first guest's base.
    ///
    /// # Errors
    /// [`MergeError::NotCovered`].
    pub(crate) fn check_first(
        &self,
        state: &State,
        message: &Message,
        at: u32,
        live: Option<WriterId>,
    ) -> Result<(), Error> {
        let entry = &message.delta.writers[at as usize];
        let passes_on =
            |live: WriterId| live != entry.writer && self.is_from_guest(state, message, &live);
        let heard = message.has_record(at, |it| match it {
            Statement::Admit(admit) => admit.turn >= HEARD,
            statement => matches!(statement, Statement::Announce(_)),
        });
        if !live.is_some_and(passes_on) || heard {
            return Ok(());
        }
        Err(Error::not_covered(entry.writer, entry.hi, 0))
    }

    /// Checks the sender against each incarnation here whose place is not certain. The sender may have
    /// collected records that such an incarnation had not seen.
    ///
    /// # Errors
    /// [`AdmissionError::Unsure`] if the message is not complete, so that it cannot say.
    /// [`AdmissionError::Outdated`] if the incarnation had not seen the sender's GC horizon.
    pub(crate) fn check_unsure(
        &self,
        state: &State,
        message: &Message,
        live: &WriterId,
    ) -> Result<(), Error> {
        for number in self.starts() {
            let (writer_state, writer) = (
                &self.table.writer_states[number as usize],
                &state.id(number),
            );
            if !writer_state.is_unsure() {
                continue;
            }
            let knows = message.hi(writer) > Some(0);
            let vouched = |it: &(WriterId, u32)| it.0 == *live && it.1 == number;
            if writer == live || knows || self.table.vouched.iter().any(vouched) {
                continue;
            }
            if message.is_closed() && !message.is_complete() {
                return Err(AdmissionError::Unsure {
                    writer: detail(*writer),
                }
                .into());
            }
            let base = writer_state.base.as_deref().unwrap_or_default();
            if !self.has_seen_horizon(state, message, base) {
                return Err(AdmissionError::Outdated.into());
            }
        }
        Ok(())
    }

    /// Whether a writer had seen the GC horizon of a message's sender at its first transaction. `base` has
    /// the clocks that the writer had seen.
    pub(crate) fn has_seen_horizon(
        &self,
        state: &State,
        message: &Message,
        base: &[(u32, u64)],
    ) -> bool {
        message.records().iter().all(|record| {
            let Statement::Horizon(clock) = record.statement else {
                return true;
            };
            let at = record.writer as usize;
            match state.number_of(&message.delta.writers[at].writer) {
                Some(writer) => self.covers(|number| of(base, number), Stamp { writer, clock }),
                None => self.writer_status(state, message, at, None, 0) == WriterStatus::Forgotten,
            }
        })
    }
}

#[cfg(all(test, feature = "members"))]
mod tests;
