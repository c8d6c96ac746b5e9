//! Sequences: numbers, each handed out at most once in the whole mesh.
//!
//! All numbers that were not yet given to a writer are the rest of the sequence. The rest belongs to one
//! writer. This writer gives ranges of numbers to itself and to members that request some
//! (`sync/wants/sequences.rs`). A writer with a range hands out its numbers alone.
//!
//! A number could be handed out twice only if a range were given twice. Then the giver would have forgotten a
//! gift, or two writers would have the rest. So a writer uses nothing before most members have stored durably
//! that it was given. This applies to a range, to a new rest and to an inherited rest.
//!
//! Only one process uses a range. The unused part becomes a gap when that process ends. A restart from its
//! store does not use the range either, because the store may be an old copy.
//!
//! A rest goes to the [successor](crate::MembersMut::retire) of its writer, as rights do. So the successor
//! has received everything that most members have stored of it.
//!
//! The state counts how far a range was used, for all to read. A count in memory serves the use itself. Near
//! a watched number, ranges go back to the writer that gives them (`sequence/watch.rs`).

mod watch;

pub(crate) use watch::Watching;
pub use watch::{Reached, Watched};

use super::{QuotaMut, QuotaRef, QuotaTransaction};
use crate::bounds::{NUMBERS_AT_ONCE_MAX, SEQUENCE_NUMBER_MAX};
use crate::error::{Error, MemberError, QuotaError};
use crate::ledger::sequence::{Piece, SequenceKey, check_sequence};
use crate::state::keys::KeyId;
use crate::state::operation::Op;
use crate::state::vector::VersionVector;
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum number of gaps listed one by one. Older gaps become one count of lost numbers.
const GAPS_MAX: usize = 64;

/// The state of a sequence, according to this replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The smallest number that was never given to any writer. The first number is 1.
    pub next: u64,
    /// Lower bound on how many numbers were handed out.
    pub issued: u64,
    /// Numbers given to writers and, according to this replica, not handed out. Each of them may have been
    /// handed out. Ascending.
    pub held: Vec<(Range<u64>, WriterId)>,
    /// Numbers that were lost with their writers and are never handed out again. The writer may have handed
    /// out some of them before, unknown to this replica. Ascending.
    pub gaps: Vec<Range<u64>>,
    /// How many numbers were lost before these gaps.
    pub lost: u64,
    /// The numbers that are watched, ascending.
    pub watched: Vec<Watched>,
}

/// The ranges and rests of this process, by the name of the sequence.
#[derive(Clone, Default)]
pub(super) struct Sequences {
    /// The writer that has them.
    by: Option<WriterId>,
    own: BTreeMap<String, Own>,
    /// How many numbers were handed out since the last read.
    used: BTreeMap<String, u64>,
}

#[derive(Clone, Default)]
struct Own {
    /// Ranges by their end.
    ranges: BTreeMap<u64, Left>,
    /// Whether most members have stored that this writer has the rest.
    may_give: bool,
}

#[derive(Clone)]
struct Left {
    next: u64,
    /// Whether most members have stored that it was given.
    sure: bool,
}

/// A number that a transaction hands out.
pub(super) struct Draw {
    name: String,
    end: u64,
    number: u64,
}

/// A part of a sequence that was given to this writer. It is used once most members have stored that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReceivedPart {
    /// The rest.
    Rest,
    /// The range with this end.
    Range(u64),
}

impl Sequences {
    /// Records that a number was handed out.
    pub(super) fn note_drawn(&mut self, draw: Draw) {
        let Draw { name, end, number } = draw;
        if let Some(own) = self.own.get_mut(&name) {
            match own.ranges.get_mut(&end).filter(|_| number + 1 < end) {
                Some(left) => left.next = number + 1,
                None => _ = own.ranges.remove(&end),
            }
        }
        *self.used.entry(name).or_default() += 1;
    }
}

impl<'a> QuotaRef<'a> {
    /// The state of a sequence, or `None` if there is none of this name. The cost grows with its number of
    /// ranges.
    pub fn sequence(self, name: &str) -> Option<Sequence> {
        let (mut known, mut lost) = (Sequence::default(), 0);
        let mut drawn = BTreeMap::new();
        for (key, value) in self.pieces(name) {
            match key.piece {
                Piece::Rest(_) => known.next = known.next.max(value),
                Piece::Range { holder, end } => {
                    known.held.push((end.saturating_sub(value)..end, holder));
                }
                Piece::Gap { end } => known.gaps.push(end.saturating_sub(value)..end),
                Piece::Lost => lost = value,
                Piece::Watch { number } => known.watched.push(Watched::open(number)),
                Piece::Drawn { by, number } => _ = drawn.insert(number, (by, value - 1)),
            }
        }
        if known.next == 0 {
            return None;
        }
        known.held.sort_by_key(|it| it.0.start);
        known.gaps.sort_by_key(|it| it.start);
        known.lost = lost;
        let ranges = known.held.iter().map(|it| &it.0).chain(&known.gaps);
        let open: u64 = ranges.map(|it| it.end - it.start).sum();
        known.issued = (known.next - 1).saturating_sub(open).saturating_sub(lost);
        known.set_reached(&drawn);
        Some(known)
    }

    /// All non-empty counters of a sequence.
    fn pieces(self, name: &str) -> impl Iterator<Item = (SequenceKey<'a>, u64)> {
        self.state
            .index()
            .of_sequence(self.state.keys(), name)
            .filter_map(move |(key_id, key)| {
                let value = u64::try_from(self.state.value_at(key_id)?).ok()?;
                (value > 0).then_some((key, value))
            })
    }

    /// Calls `take` with the name of each sequence, in the order of their bytes.
    pub fn each_sequence(self, take: &mut dyn FnMut(&str)) {
        for name in self.state.index().sequences() {
            let is_rest = |key: &SequenceKey<'_>| matches!(key.piece, Piece::Rest(_));
            if self.pieces(name).any(|(key, _)| is_rest(&key)) {
                take(name);
            }
        }
    }

    /// The name of the sequence to which a counter belongs.
    pub fn sequence_at(self, key_id: KeyId) -> Option<&'a str> {
        let key = self.state.keys().get(key_id).and_then(SequenceKey::parse);
        key.map(|key| key.name)
    }

    /// How many numbers of a sequence can be handed out here now.
    pub fn numbers_here(self, name: &str) -> u64 {
        self.numbers_of(name, true)
    }

    /// How many numbers were given to this writer and can't be handed out yet.
    pub(crate) fn numbers_coming(self, name: &str) -> u64 {
        self.numbers_of(name, false)
    }

    fn numbers_of(self, name: &str, sure: bool) -> u64 {
        let own = self.quota.sequences.own.get(name);
        let own = own.filter(|_| self.quota.sequences.by == Some(self.state.writer()));
        let ranges = own.into_iter().flat_map(|own| &own.ranges);
        let ranges = ranges.filter(|it| it.1.sure == sure);
        ranges.map(|(end, left)| end - left.next).sum()
    }

    /// The transactions that made a counter's value.
    fn made_by(self, key_id: KeyId) -> VersionVector {
        let shards = self.state.shards(key_id);
        let each = shards.map(|it| VersionVector::of(it.writer, it.clock));
        each.fold(VersionVector::default(), |all, one| all.joined(&one))
    }

    /// The writer with the rest of a sequence, according to this replica. `None` if there is no rest, or more
    /// than one.
    pub fn rest_holder(self, name: &str) -> Option<WriterId> {
        let mut holders = self.pieces(name).filter_map(|(key, _)| match key.piece {
            Piece::Rest(holder) => Some(holder),
            _ => None,
        });
        holders.next().filter(|_| holders.next().is_none())
    }

    /// The number that this replica would give next, or `None` if it may not give any.
    fn next_to_give(self, name: &str) -> Option<u64> {
        let own = self.quota.sequences.own.get(name);
        own.filter(|it| it.may_give && self.quota.sequences.by == Some(self.state.writer()))?;
        let piece = Piece::Rest(self.state.writer());
        let next = self.state.value(&SequenceKey { piece, name }.key());
        let next = next.and_then(|it| u64::try_from(it).ok());
        next.filter(|it| *it > 0 && self.membership.may_take())
    }

    /// Adds steps that turn the oldest gaps into a count, if there are too many gaps. Only the writer with
    /// the rest does so.
    fn fold_gaps(self, name: &str, steps: &mut Vec<(String, Op)>) {
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        let mut watched: Vec<u64> = Vec::new();
        for (key, value) in self.pieces(name) {
            match key.piece {
                Piece::Gap { end } => gaps.push((end, value)),
                Piece::Watch { number } => watched.push(number),
                _ => {}
            }
        }
        // A gap with a watched number stays, because the watch reports the number as lost.
        let told = |gap: &(u64, u64)| {
            let lost = gap.0.saturating_sub(gap.1)..gap.0;
            watched.iter().any(|number| lost.contains(number))
        };
        gaps.retain(|gap| !told(gap));
        let Some(many) = gaps.len().checked_sub(GAPS_MAX).filter(|it| *it > 0) else {
            return;
        };
        gaps.sort_unstable();
        gaps.truncate(many);
        let numbers: u64 = gaps.iter().map(|it| it.1).sum();
        let key = |piece| SequenceKey { piece, name }.key();
        steps.push((key(Piece::Lost), Op::Add(numbers.cast_signed())));
        let gone = gaps.iter().map(|it| key(Piece::Gap { end: it.0 }));
        steps.extend(gone.map(|key| (key, Op::Delete)));
    }
}

impl QuotaMut<'_> {
    /// Begins a sequence, as a transaction of its own, and adds each counter that changed to
    /// `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::begin_sequence`]. Nothing is changed then.
    pub fn begin_sequence(&mut self, name: &str, changed: &mut Vec<KeyId>) -> Result<(), Error> {
        let mut transaction = self.replica.begin()?;
        transaction.quota_mut().begin_sequence(name)?;
        transaction.commit(changed);
        Ok(())
    }

    /// Hands out the next of the numbers that are here, as a transaction of its own, and adds each counter
    /// that changed to `changed`.
    ///
    /// # Errors
    /// As [`QuotaTransaction::draw`]. Nothing is changed then.
    pub fn draw(&mut self, name: &str, changed: &mut Vec<KeyId>) -> Result<u64, Error> {
        let mut transaction = self.replica.begin()?;
        let number = transaction.quota_mut().draw(name)?;
        transaction.commit(changed);
        Ok(number)
    }

    /// Records the parts of a sequence that were given to this writer. Returns those that are not sure. Each
    /// comes with the transactions that members must have before it is sure.
    pub(crate) fn look_at_sequence(&mut self, name: &str) -> Vec<(ReceivedPart, VersionVector)> {
        let writer = self.replica.writer();
        if self.replica.quota.sequences.by != Some(writer) {
            self.replica.quota.sequences.own.clear();
            self.replica.quota.sequences.by = Some(writer);
        }
        let mut own = self
            .replica
            .quota
            .sequences
            .own
            .remove(name)
            .unwrap_or_default();
        let mut unsure = Vec::new();
        let mut has_rest = false;
        for (key_id, key) in self
            .replica
            .state
            .index()
            .of_sequence(self.replica.state.keys(), name)
        {
            let value = self
                .replica
                .value_at(key_id)
                .and_then(|it| u64::try_from(it).ok());
            let Some(value) = value.filter(|it| *it > 0 && key.holder() == Some(writer)) else {
                continue;
            };
            match key.piece {
                Piece::Rest(_) => {
                    has_rest = true;
                    if !own.may_give {
                        unsure.push((ReceivedPart::Rest, self.read().made_by(key_id)));
                    }
                }
                Piece::Range { end, .. } => {
                    let next = end.saturating_sub(value);
                    let left = own.ranges.entry(end).or_insert(Left { next, sure: false });
                    if !left.sure {
                        unsure.push((ReceivedPart::Range(end), self.read().made_by(key_id)));
                    }
                }
                _ => {}
            }
        }
        own.may_give &= has_rest;
        self.replica.quota.sequences.own.insert(name.into(), own);
        unsure
    }

    /// Records that most members have stored a gift. From then on this writer may use it. It may use a rest
    /// only if there is no other rest. If there is one, and this writer has given nothing of its own rest
    /// yet, the own rest is deleted.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted).
    pub(crate) fn numbers_are_sure(
        &mut self,
        name: &str,
        given: ReceivedPart,
        changed: &mut Vec<KeyId>,
    ) -> Result<(), Error> {
        let writer = self.replica.writer();
        let rests = self
            .read()
            .pieces(name)
            .filter_map(|(key, value)| match key.piece {
                Piece::Rest(holder) => Some((holder == writer, value)),
                _ => None,
            });
        let rests: Vec<(bool, u64)> = rests.collect();
        let Some(own) = self.replica.quota.sequences.own.get_mut(name) else {
            return Ok(());
        };
        match given {
            ReceivedPart::Range(end) => {
                if let Some(left) = own.ranges.get_mut(&end) {
                    left.sure = true;
                }
            }
            ReceivedPart::Rest => {
                own.may_give = rests.len() == 1 && rests[0].0;
                if !own.may_give && rests.contains(&(true, 1)) {
                    let piece = Piece::Rest(writer);
                    self.make(&[(SequenceKey { piece, name }.key(), Op::Delete)], changed)?;
                }
            }
        }
        Ok(())
    }

    /// Gives the next `count` numbers of a sequence to a member, or fewer if there are fewer. Returns how
    /// many it gave: none if this replica may not give any.
    ///
    /// # Errors
    /// [`WriteError::ClockExhausted`](crate::WriteError::ClockExhausted),
    /// [`WriteError::CountersFull`](crate::WriteError::CountersFull).
    pub(crate) fn give_numbers(
        &mut self,
        name: &str,
        to: WriterId,
        count: u64,
        changed: &mut Vec<KeyId>,
    ) -> Result<u64, Error> {
        let to_member = to == self.replica.writer()
            || self
                .replica
                .membership
                .is_counted_member(&self.replica.state, &to);
        let Some(next) = self.read().next_to_give(name).filter(|_| to_member) else {
            return Ok(0);
        };
        let rest = SequenceKey {
            piece: Piece::Rest(self.replica.writer()),
            name,
        };
        let left = SEQUENCE_NUMBER_MAX.saturating_sub(next - 1);
        let count = count.min(NUMBERS_AT_ONCE_MAX).min(left);
        if count == 0 {
            return Ok(0);
        }
        let range = SequenceKey {
            piece: Piece::Range {
                holder: to,
                end: next + count,
            },
            name,
        };
        let by = Op::Add(count.cast_signed());
        let mut steps = Vec::from([(rest.key(), by), (range.key(), by)]);
        self.read().fold_gaps(name, &mut steps);
        self.make(&steps, changed)?;
        Ok(count)
    }

    /// How many numbers of each sequence were handed out since the last call.
    pub(crate) fn take_numbers_used(&mut self) -> BTreeMap<String, u64> {
        core::mem::take(&mut self.replica.quota.sequences.used)
    }
}

impl QuotaTransaction<'_, '_> {
    /// Begins a sequence. Its first number can be handed out once most members have stored that, and if no
    /// other member has begun one with this name. [`SyncMachine`](crate::sync::SyncMachine) checks both.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`], [`QuotaError::SequenceExists`],
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge). For a name, the errors of
    /// [`Replica::add`](crate::Replica::add) for a key, and
    /// [`DecodeError::TooLarge`](crate::DecodeError::TooLarge) over
    /// [`SEQUENCE_NAME_BYTES_MAX`](crate::bounds::SEQUENCE_NAME_BYTES_MAX). After an error, the transaction
    /// is as it was before and may go on.
    pub fn begin_sequence(&mut self, name: &str) -> Result<(), Error> {
        check_sequence(name)?;
        let piece = Piece::Rest(self.transaction.replica().writer());
        let key = SequenceKey { piece, name }.key();
        if self.read().sequence(name).is_some() || self.transaction.value(&key).is_some() {
            return Err(QuotaError::SequenceExists.into());
        }
        self.draw_on(&key, Op::Add(1))
    }

    /// Makes an operation on a counter of a sequence.
    fn draw_on(&mut self, key: &str, op: Op) -> Result<(), Error> {
        self.transaction.room_for(1)?;
        if !self.transaction.replica().members().may_take() {
            return Err(MemberError::NotAMember.into());
        }
        let mut saved = self.transaction.savepoint();
        self.transaction.step(key, op, &mut saved)?;
        self.transaction.count_op()
    }

    /// Hands out the next number of a sequence that is here, together with the other operations of the
    /// transaction. No other call gets this number, even if its receiver never gets it.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`], [`QuotaError::NoSequence`],
    /// [`WriteError::TransactionTooLarge`](crate::WriteError::TransactionTooLarge).
    /// [`QuotaError::NumbersShort`] if no number is here and one must be requested. After an error, the
    /// transaction is as it was before and may go on.
    pub fn draw(&mut self, name: &str) -> Result<u64, Error> {
        let Some((end, number)) = self.next_number(name) else {
            check_sequence(name)?;
            return Err(match self.read().sequence(name) {
                _ if !self.transaction.replica().members().may_take() => {
                    MemberError::NotAMember.into()
                }
                Some(_) => QuotaError::NumbersShort.into(),
                None => QuotaError::NoSequence.into(),
            });
        };
        let holder = self.transaction.replica().writer();
        let piece = Piece::Range { holder, end };
        let last = number + 1 == end;
        let op = if last { Op::Delete } else { Op::Add(-1) };
        // Both operations are made, or neither.
        self.transaction.room_for(2)?;
        self.draw_on(&SequenceKey { piece, name }.key(), op)?;
        self.note_watched(name, number)?;
        let name = name.into();
        let draws = &mut self.transaction.noted_mut().draws;
        draws.push(Draw { name, end, number });
        Ok(number)
    }

    /// The next number that may be handed out here, and the end of its range.
    fn next_number(&self, name: &str) -> Option<(u64, u64)> {
        let numbers = &self.transaction.replica().quota.sequences;
        let own = numbers.own.get(name);
        let own = own.filter(|_| numbers.by == Some(self.transaction.replica().writer()))?;
        let mut sure = own.ranges.iter().filter(|it| it.1.sure).map(|(end, left)| {
            let drawn = self.transaction.noted().draws.iter().rev();
            let mut drawn = drawn.filter(|it| it.end == *end && it.name == name);
            (*end, drawn.next().map_or(left.next, |it| it.number + 1))
        });
        sure.find(|(end, next)| next < end)
    }
}

#[cfg(test)]
mod tests;
