//! Watches on numbers of a sequence, so that the N-th number is handed out as the N-th, or close to it.
//!
//! A watch is part of the state, so all members see it. The writer that hands the number out records this in
//! the same transaction. So the record survives if the process ends before it reports the number. The record
//! stays until the watch is ended, so each reader sees it at least once. The number identifies the watch.
//!
//! All numbers below a watched one should be handed out before it. When the watched number is the next to be
//! given, the giving writer keeps it back. Members then give their unneeded numbers back to the giving
//! writer, and it [passes them on](QuotaMut::pass_on) to members that request some.
//!
//! A returned range is used like any other range, once most members have acknowledged the return.
//! `sync/wants/sequences.rs` decides how long a number is kept back.

use super::{Left, Piece, Sequence, SequenceKey};
use crate::bounds::{SEQUENCE_NUMBER_MAX, WATCHES_MAX};
use crate::error::{Error, MemberError, QuotaError};
use crate::quota::{QuotaMut, QuotaPreview, QuotaRef, QuotaTransaction};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// A number that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The number.
    pub number: u64,
    /// Its state.
    pub reached: Reached,
}

impl Watched {
    pub(super) fn open(number: u64) -> Watched {
        let reached = Reached::NotYet;
        Watched { number, reached }
    }
}

/// The state of a watched number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is not known to be handed out.
    NotYet,
    /// It was handed out.
    HandedOut {
        /// The writer that did.
        by: WriterId,
        /// Upper bound on the numbers below it that were neither handed out nor lost at that time. So it was
        /// the (number - lost - below)-th at least.
        below: u64,
    },
    /// A writer that had not received the watch handed it out, or it was lost long ago.
    Passed,
    /// It was lost with its writer, which may have handed it out before.
    Lost,
}

/// The effect of watches on the numbers that are to be given next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watching {
    /// None of them is watched.
    Nothing,
    /// This count of numbers comes before a watched one.
    Before(u64),
    /// The next number is watched, or the last given number is. The flag says whether some member still has
    /// numbers that come before it.
    At(bool),
}

impl Sequence {
    /// Sets the state of each watched number.
    pub(super) fn set_reached(&mut self, drawn: &BTreeMap<u64, (WriterId, u64)>) {
        let has = |number: u64| self.held.iter().any(|it| it.0.contains(&number));
        let lost = |number: u64| self.gaps.iter().any(|it| it.contains(&number));
        for watched in &mut self.watched {
            let number = watched.number;
            watched.reached = match drawn.get(&number) {
                Some(&(by, below)) => Reached::HandedOut { by, below },
                None if number >= self.next || has(number) => Reached::NotYet,
                None if lost(number) => Reached::Lost,
                None => Reached::Passed,
            };
        }
        self.watched.sort_by_key(|it| it.number);
    }
}

impl QuotaRef<'_> {
    /// The sequences that have watched numbers and of which this process has some numbers.
    pub(crate) fn watched_sequences(self) -> Vec<String> {
        let own = |name: &&str| self.quota.sequences.own.contains_key(*name);
        self.state
            .index()
            .watched()
            .filter(own)
            .map(String::from)
            .collect()
    }

    /// The effect of watches on the numbers that are to be given next.
    pub(crate) fn watching(self, name: &str) -> Watching {
        let Some(known) = self.sequence(name).filter(|it| !it.watched.is_empty()) else {
            return Watching::Nothing;
        };
        let Sequence {
            next,
            held,
            watched,
            ..
        } = known;
        let is_watched = |number| watched.iter().any(|it| it.number == number);
        let last = next - 1;
        if is_watched(last) && held.iter().any(|it| it.0.contains(&last)) {
            return Watching::At(true);
        }
        let ahead = watched.iter().map(|it| it.number);
        match ahead.filter(|number| *number >= next).min() {
            None => Watching::Nothing,
            Some(number) if number == next => Watching::At(!held.is_empty()),
            Some(number) => Watching::Before(number - next),
        }
    }

    /// The ranges from which this process hands numbers out, ascending, each as its next number and its end.
    fn own_ranges(self, name: &str) -> Vec<(u64, u64)> {
        let own = self.quota.sequences.own.get(name);
        let own = own.filter(|_| self.quota.sequences.by == Some(self.state.writer()));
        let ranges = own.into_iter().flat_map(|own| &own.ranges);
        let ranges = ranges.filter(|it| it.1.sure && it.1.next < *it.0);
        ranges.map(|(end, left)| (left.next, *end)).collect()
    }
}

impl QuotaMut<'_> {
    /// Watches a number, as a transaction of its own, and adds each counter that changed to `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::watch_number`]. Nothing is changed then.
    pub fn watch_number(
        &mut self,
        name: &str,
        number: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().watch_number(name, number)?;
        transaction.commit(changed);
        Ok(())
    }

    /// Ends the watch of a number, as a transaction of its own, and adds each counter that changed to
    /// `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::end_watch`]. Nothing is changed then.
    pub fn end_watch(
        &mut self,
        name: &str,
        number: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().end_watch(name, number)?;
        transaction.commit(changed);
        Ok(())
    }

    /// Gives the first `count` of the numbers that came back to this writer to a member, or fewer if there
    /// are fewer. Returns how many it gave: none if this replica gives no numbers.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub(crate) fn pass_on(
        &mut self,
        name: &str,
        to: WriterId,
        count: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<u64, Error> {
        let may = to != self.replica.writer()
            && self
                .replica
                .membership
                .is_counted_member(&self.replica.state, &to);
        if !may || count == 0 || self.read().next_to_give(name).is_none() {
            return Ok(0);
        }
        let mut left = count;
        let mut moves = Vec::new();
        for (next, end) in self.read().own_ranges(name) {
            let upto = end.min(next.saturating_add(left));
            left -= upto - next;
            moves.push(Move {
                next,
                from: next,
                upto,
                end,
            });
            if left == 0 {
                break;
            }
        }
        self.move_ranges(name, &moves, to, changed)?;
        Ok(count - left)
    }

    /// Gives the numbers that are here, except the first `keep`, back to the writer that gives them. Returns
    /// how many it gave back.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub(crate) fn return_numbers(
        &mut self,
        name: &str,
        to: WriterId,
        keep: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<u64, Error> {
        if !self.replica.membership.is_member()
            || !self
                .replica
                .membership
                .is_counted_member(&self.replica.state, &to)
        {
            return Ok(0);
        }
        let mut left = keep;
        let mut moves = Vec::new();
        for (next, end) in self.read().own_ranges(name) {
            let from = end.min(next.saturating_add(left));
            left -= from - next;
            if from < end {
                moves.push(Move {
                    next,
                    from,
                    upto: end,
                    end,
                });
            }
        }
        self.move_ranges(name, &moves, to, changed)?;
        Ok(moves.iter().map(|it| it.upto - it.from).sum())
    }

    /// Moves numbers of own ranges to a member, and joins adjacent numbers into one range.
    ///
    /// The kept part of a range gets another end if the end moves. It may be used at once, because most
    /// members have acknowledged the original range. A writer can't take the numbers after it without having
    /// received both changes.
    fn move_ranges(
        &mut self,
        name: &str,
        moves: &[Move],
        to: WriterId,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let own = self.replica.writer();
        let key = |holder, end| {
            let piece = Piece::Range { holder, end };
            SequenceKey { piece, name }.key()
        };
        let add = |numbers: u64| Op::Add(numbers.cast_signed());
        let mut steps = Vec::new();
        let mut first = None;
        for (at, it) in moves.iter().enumerate() {
            match it.upto == it.end {
                true => steps.push((key(own, it.end), Op::Delete)),
                false => steps.push((
                    key(own, it.end),
                    Op::Add(-(it.upto - it.from).cast_signed()),
                )),
            }
            if it.next < it.from {
                steps.push((key(own, it.from), add(it.from - it.next)));
            }
            let from = first.take().unwrap_or(it.from);
            match moves.get(at + 1).is_some_and(|after| after.from == it.upto) {
                true => first = Some(from),
                false => steps.push((key(to, it.upto), add(it.upto - from))),
            }
        }
        if steps.is_empty() {
            return Ok(());
        }
        self.make(&steps, changed)?;
        if let Some(own) = self.replica.quota.sequences.own.get_mut(name) {
            for it in moves {
                match own.ranges.get_mut(&it.end).filter(|_| it.upto < it.end) {
                    Some(left) => left.next = it.upto,
                    None => _ = own.ranges.remove(&it.end),
                }
                if it.next < it.from {
                    let (next, sure) = (it.next, true);
                    own.ranges.insert(it.from, Left { next, sure });
                }
            }
        }
        Ok(())
    }
}

/// The numbers `from..upto` of the own range `next..end`, of which they are the first or the last ones.
struct Move {
    next: u64,
    from: u64,
    upto: u64,
    end: u64,
}

impl QuotaPreview<'_, '_> {
    /// Whether a number of a sequence is watched.
    pub fn is_watched(self, name: &str, number: u64) -> bool {
        let piece = Piece::Watch { number };
        self.transaction.value(&SequenceKey { piece, name }.key()) > Some(0)
    }
}

impl QuotaTransaction<'_, '_> {
    /// Watches a number of a sequence: all members see when it was handed out, and by whom, until the
    /// watch is [ended](QuotaTransaction::end_watch). A number that is watched already is left as it is.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`], [`QuotaError::NoSequence`],
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge).
    /// [`QuotaError::NumberRange`] for a number that is not from 1 to [`SEQUENCE_NUMBER_MAX`].
    /// [`QuotaError::WatchesFull`] over [`WATCHES_MAX`]. After an error, the transaction is as it was before
    /// and may go on.
    pub fn watch_number(&mut self, name: &str, number: u64) -> Result<(), Error> {
        let known = self.known_sequence(name)?;
        if !(1..=SEQUENCE_NUMBER_MAX).contains(&number) {
            return Err(QuotaError::NumberRange { number }.into());
        }
        if known.watched.iter().any(|it| it.number == number) {
            return Ok(());
        }
        if known.watched.len() >= WATCHES_MAX {
            return Err(QuotaError::WatchesFull.into());
        }
        let piece = Piece::Watch { number };
        self.draw_on(&SequenceKey { piece, name }.key(), Op::Add(1))
    }

    /// Ends the watch of a number, and removes its record. If the number is not watched, nothing changes.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`], [`QuotaError::NoSequence`],
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge). The transaction stays as
    /// it was then, and may go on.
    pub fn end_watch(&mut self, name: &str, number: u64) -> Result<(), Error> {
        self.known_sequence(name)?;
        let is_its = |piece: Piece| match piece {
            Piece::Watch { number: of } | Piece::Drawn { number: of, .. } => of == number,
            _ => false,
        };
        let keys = self.read().pieces(name).map(|(key, _)| key);
        let keys: Vec<String> = keys
            .filter(|it| is_its(it.piece))
            .map(|it| it.key())
            .collect();
        keys.iter()
            .try_for_each(|key| self.draw_on(key, Op::Delete))
    }

    fn known_sequence(&self, name: &str) -> Result<Sequence, Error> {
        super::check_sequence(name)?;
        match self.read().sequence(name) {
            _ if !self.transaction.replica().members().is_member() => {
                Err(MemberError::NotAMember.into())
            }
            Some(known) => Ok(known),
            None => Err(QuotaError::NoSequence.into()),
        }
    }

    /// Records that this transaction hands out a number, if the number is watched.
    pub(super) fn note_watched(&mut self, name: &str, number: u64) -> Result<(), Error> {
        if !self.preview().is_watched(name, number) {
            return Ok(());
        }
        let known = self.read().sequence(name).unwrap_or_default();
        let held = known.held.iter().map(|it| it.0.start..it.0.end.min(number));
        let held: u64 = held.map(|it| it.end.saturating_sub(it.start)).sum();
        let drawn = self
            .transaction
            .noted()
            .draws
            .iter()
            .filter(|it| it.name == name && it.number < number);
        let below = held.saturating_sub(drawn.count() as u64);
        let by = self.transaction.replica().writer();
        let piece = Piece::Drawn { by, number };
        let by = Op::Add((below + 1).cast_signed());
        self.draw_on(&SequenceKey { piece, name }.key(), by)
    }
}

#[cfg(test)]
mod tests;
