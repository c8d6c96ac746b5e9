//! Writer states: all that is known of one writer, from the records about it.
//!
//! Records arrive in any order, and twice. The later one of a kind stays: [`WriterState::merge`] has the order
//! for each kind, and it is the same everywhere.

use crate::message::records::{
    Ack, Admit, Announce, Fence, Leave, MembershipRecord, Retired, Statement, Vote,
};
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;

/// The records about one writer in a space with members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriterState {
    /// Its incarnation, if its owner announced one.
    pub(crate) announce: Option<Box<Announce>>,
    /// The clocks that the writer had seen at its first transaction, by number, until its place is certain.
    ///
    /// A guest's place is certain once a member admits it. An incarnation's is certain once all members that
    /// count have acknowledged it.
    pub(crate) base: Option<Box<[(u32, u64)]>>,
    /// The first admission. Its stamp says whether a replica has ever received the writer's records.
    pub(crate) intro: Option<Admit>,
    /// The latest admission: it names the writer's sponsor.
    pub(crate) sponsor: Option<Admit>,
    /// Its latest acknowledgement.
    pub(crate) ack: Option<Box<Ack>>,
    /// Its register in the decision on the next configuration.
    pub(crate) vote: Option<Box<Vote>>,
    /// Its leave, with its successor.
    pub(crate) leave: Option<Leave>,
    /// The fence of a member, with the clock up to which the writer counts.
    pub(crate) fence: Option<Fence>,
    /// The move of its totals to its successor.
    pub(crate) retired: Option<Retired>,
}

impl WriterState {
    /// Whether it is a member's incarnation whose place is not certain yet.
    pub(crate) fn is_unsure(&self) -> bool {
        self.announce.is_some() && self.base.is_some()
    }

    /// Whether the writer has left, was declared dead, or was absorbed.
    pub(crate) fn is_over(&self) -> bool {
        self.leave.is_some() || self.fence.is_some() || self.retired.is_some()
    }

    /// Whether one transaction admitted the writer and declared it dead. No replica with a place in the space
    /// had received anything of the writer before.
    pub(crate) fn is_burial(&self) -> bool {
        let by = self.intro.map(|it| it.by);
        by.is_some() && by == self.fence.map(|it| it.by)
    }

    /// The writer's successor, which has taken over or will take over.
    pub(crate) fn successor(&self) -> Option<u32> {
        match (self.retired, self.fence, self.leave) {
            (Some(retired), ..) => Some(retired.to.writer),
            (_, Some(fence), _) => Some(fence.successor),
            (_, _, Some(leave)) => Some(leave.successor),
            _ => None,
        }
    }

    /// The writer's records, as statements about `writer`.
    pub(crate) fn records(&self, writer: u32) -> impl Iterator<Item = MembershipRecord> {
        let moved = self.sponsor.filter(|sponsor| Some(*sponsor) != self.intro);
        let told = self.intro.is_some();
        let base = self.base.clone().map(|seen| Statement::Base(seen, told));
        [
            self.announce.clone().map(Statement::Announce),
            base,
            self.intro.map(Statement::Admit),
            moved.map(Statement::Admit),
            self.ack.clone().map(Statement::Ack),
            self.vote.clone().map(Statement::Vote),
            self.leave.map(Statement::Leave),
            self.fence.map(Statement::Fence),
            self.retired.map(Statement::Retired),
        ]
        .into_iter()
        .flatten()
        .map(move |statement| MembershipRecord { writer, statement })
    }

    /// Merges a record, and returns whether it was new. `ids` are the writers by number.
    pub(crate) fn merge(&mut self, statement: &Statement, ids: &[WriterId]) -> bool {
        let rank = |by: Stamp| (ids[by.writer as usize], by.clock);
        match statement {
            Statement::Announce(announce) => {
                let news = self.announce.is_none();
                self.announce.get_or_insert_with(|| announce.clone());
                news
            }
            Statement::Admit(admit) => {
                // The least of concurrent admissions is the first one, by which the writer is introduced. The
                // greatest is the sponsor's.
                let key = |admit: &Admit| (admit.turn, rank(admit.by));
                let first = self.intro.is_none_or(|intro| key(admit) < key(&intro));
                if first {
                    self.intro = Some(*admit);
                }
                let last = self
                    .sponsor
                    .is_none_or(|sponsor| key(admit) > key(&sponsor));
                if last {
                    self.sponsor = Some(*admit);
                }
                first || last
            }
            Statement::Ack(ack) => {
                let news = self.ack.as_ref().is_none_or(|old| ack.clock > old.clock);
                if news {
                    self.ack = Some(ack.clone());
                }
                news
            }
            Statement::Vote(vote) => {
                let news = self.vote.as_ref().is_none_or(|old| vote.clock > old.clock);
                if news {
                    self.vote = Some(vote.clone());
                }
                news
            }
            Statement::Leave(leave) => self.leave.replace(*leave) != Some(*leave),
            Statement::Fence(fence) => {
                // The least stamp of concurrent fences wins.
                let wins = |old: Fence| {
                    fence.turn > old.turn || fence.turn == old.turn && rank(fence.by) < rank(old.by)
                };
                let news = self.fence.is_none_or(wins);
                if news {
                    self.fence = Some(*fence);
                }
                news
            }
            Statement::Retired(retired) => {
                self.base = None; // all have acknowledged it
                self.retired.replace(*retired) != Some(*retired)
            }
            // A guest's record is for the member that admits it.
            Statement::Base(seen, _) => {
                if self.announce.is_some() && self.retired.is_none() {
                    self.base.get_or_insert_with(|| seen.clone());
                }
                false
            }
            // These records are about the space, not about a writer.
            Statement::Configuration(..) | Statement::Gone(..) | Statement::Horizon(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
