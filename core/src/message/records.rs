//! Membership records: statements about writers, which travel with the state.
//!
//! A space is open until a [`Configuration`] names its members. In an open space nobody is admitted, has a
//! successor or is retired, and nothing is dropped.
//!
//! Everything here is a [`MembershipRecord`]: one statement, made in a transaction of some writer and stamped
//! with it. A message contains it if it contains its stamp. So records travel with the shards, in causal
//! order. All that is known of one writer is its
//! [`WriterState`](crate::membership::writer_state::WriterState).
//!
//! | record | says |
//! |---|---|
//! | [`Announce`] | the writer is an incarnation of this owner, of this generation |
//! | [`Admit`] | a member sponsors the writer |
//! | [`Ack`] | a member and its guests have seen this much of the members' writers |
//! | [`Vote`] | a member's register in a ballot |
//! | [`Leave`] | the writer leaves, and names its successor |
//! | [`Fence`] | a member declares the writer dead, and names its successor |
//! | [`Retired`] | a successor took the writer's totals over, up to a clock |
//! | [`Configuration`] | who the members are, and the rate limits |

use crate::bounds::{LIMIT_NAME_BYTES_MAX, PERIOD_MS_MAX, PERIOD_MS_MIN};
#[cfg(feature = "budgets")]
use crate::error::{Error, QuotaError};
use crate::reserved::RESERVED;
use crate::sort::sort;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// The longest chain of successors that is followed.
pub(crate) const SUCCESSORS_MAX: usize = 64;

pub(crate) use crate::sheet::of;

/// An owner: the Ed25519 public key from which a program's writer ids are made.
pub type Owner = [u8; 32];

/// The members of a space, with its rate limits. Members are the owners whose votes count.
///
/// A configuration has a number. A forced one begins a new era. A later era wins over all numbers of earlier
/// eras.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Configuration {
    /// How many forced changes there were.
    pub era: u64,
    /// Its number, from 1.
    pub number: u64,
    /// The members, ascending.
    pub members: Vec<Owner>,
    /// The limits for each period, ascending by name.
    pub limits: Vec<Limit>,
}

impl Configuration {
    /// Whether the owner is a member.
    pub fn has(&self, owner: &Owner) -> bool {
        self.members.binary_search(owner).is_ok()
    }

    /// Returns the limit that covers a key. It is the limit of the key's name, or else of the part before the
    /// key's first colon.
    pub fn limit_of(&self, key: &str) -> Option<&Limit> {
        let named = |name: &str| {
            let at = self
                .limits
                .binary_search_by(|it| it.name.as_str().cmp(name));
            at.ok().map(|at| &self.limits[at])
        };
        named(key).or_else(|| named(key.split_once(':')?.0))
    }
}

/// The amount that is allowed in each period of each key that the limit covers.
///
/// A limit covers the key that is its name, and the keys that continue after its name with a colon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// The amount that is allowed in a period, from 1 to `i64::MAX`.
    pub limit: u64,
    /// How long a period is, in milliseconds. Periods are counted since 1970.
    pub period_ms: u64,
    /// The number of the configuration that set the limit or changed its period. A proposed limit has 0.
    pub since: u64,
}

impl Limit {
    /// Whether its name, its amount and its period are in range.
    pub(crate) fn is_sound(&self) -> bool {
        let named = matches!(self.name.len(), 1..=LIMIT_NAME_BYTES_MAX);
        let named = named && !self.name.starts_with(RESERVED);
        let period = (PERIOD_MS_MIN..=PERIOD_MS_MAX).contains(&self.period_ms);
        named && period && matches!(i64::try_from(self.limit), Ok(1..))
    }

    /// Checks that its name, its amount and its period are in range.
    ///
    /// # Errors
    /// [`QuotaError::LimitName`], [`QuotaError::LimitRange`], [`QuotaError::PeriodRange`].
    #[cfg(feature = "budgets")]
    pub fn check(&self) -> Result<(), Error> {
        let bytes = self.name.len();
        let (limit, ms) = (self.limit, self.period_ms);
        match self.is_sound() {
            true => Ok(()),
            false if !(PERIOD_MS_MIN..=PERIOD_MS_MAX).contains(&ms) => {
                Err(QuotaError::PeriodRange { ms }.into())
            }
            false if !matches!(i64::try_from(limit), Ok(1..)) => {
                Err(QuotaError::LimitRange { limit }.into())
            }
            false => Err(QuotaError::LimitName { bytes }.into()),
        }
    }
}

/// The transaction in which a member admitted a writer. For a member's writer, the transaction in which it
/// announced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intro {
    /// The member's writer.
    pub by: WriterId,
    /// Its clock.
    pub clock: u64,
    /// The owner whose incarnation the member's writer is.
    pub owner: Owner,
    /// The incarnation's generation.
    pub generation: u64,
}

/// The content of a decision: a configuration without its era and number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ruling {
    pub(crate) members: Vec<Owner>,
    pub(crate) limits: Vec<Limit>,
}

/// A writer's announcement of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announce {
    /// The announcing transaction's clock.
    pub(crate) clock: u64,
    pub(crate) owner: Owner,
    /// The nonce. With the owner's key and the space it gives the writer's id.
    pub(crate) nonce: [u8; 16],
    /// The incarnation's generation. It ascends with the owner's incarnations.
    pub(crate) generation: u64,
}

/// The least turn of an admission after the member has checked the guest's first transactions. The check
/// found that the guest had seen enough when it began.
///
/// Admissions of a lower turn were made when the guest connected, before any check.
pub(crate) const HEARD: u64 = 2;

/// An admission: a member sponsors a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admit {
    /// **Rank of an admission.** 0 when the guest connects. The next even number, at least [`HEARD`], once a
    /// member has checked its first transactions.
    ///
    /// Odd if the admitting member has been forgotten since, so that a later admission outranks it.
    pub(crate) turn: u64,
    pub(crate) by: Stamp,
}

/// A member's acknowledgement: how much of the members' writers the member and its guests have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) clock: u64,
    /// The clock of an own acknowledgement that this member asks all to acknowledge, 0 for none.
    pub(crate) want: u64,
    /// The clocks that they have seen, ascending by the writer's number.
    pub(crate) seen: Vec<(u32, u64)>,
}

impl Ack {
    pub(crate) fn of(&self, writer: u32) -> u64 {
        of(&self.seen, writer)
    }
}

/// A writer's last transaction: the writer leaves, and names its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    pub(crate) clock: u64,
    pub(crate) successor: u32,
}

/// A member's declaration that a writer is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// A later turn replaces an earlier one.
    pub(crate) turn: u64,
    pub(crate) by: Stamp,
    pub(crate) successor: u32,
}

/// A round, and the owner that began it.
pub(crate) type Ballot = (u64, Owner);

/// A member's vote on the configuration of one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) clock: u64,
    pub(crate) era: u64,
    pub(crate) number: u64,
    /// The member accepts nothing under a lesser ballot.
    pub(crate) promised: Ballot,
    /// The ruling that the member accepted last, with its ballot.
    pub(crate) accepted: Option<(Ballot, Ruling)>,
}

/// The record of a writer that was absorbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retired {
    /// The successor and its transaction.
    pub(crate) to: Stamp,
    /// The last clock that was taken over.
    pub(crate) upto: u64,
}

/// A membership record about a writer. Its writers are local numbers, or index a message's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MembershipRecord {
    pub(crate) writer: u32,
    pub(crate) statement: Statement,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Announce(Box<Announce>),
    Admit(Admit),
    Ack(Box<Ack>),
    Vote(Box<Vote>),
    Leave(Leave),
    Fence(Fence),
    Retired(Retired),
    /// The writer learned of a decided configuration, or forced one, at this clock.
    Configuration(u64, Box<Configuration>),
    /// The writer took over an incarnation of this owner, of this generation, at this clock. The incarnation
    /// and all of earlier generations were forgotten.
    Gone(u64, Box<(Owner, u64)>),
    /// The clocks that the writer had seen at its first transaction, by number, until its place is certain.
    /// The flag says whether an admission of the writer is known.
    Base(Box<[(u32, u64)]>, bool),
    /// The sender may have collected records that this member's writer stamped up to this clock.
    Horizon(u64),
}

impl MembershipRecord {
    /// The transaction in which the record was made.
    pub(crate) fn stamp(&self) -> Stamp {
        let own = |clock| Stamp {
            writer: self.writer,
            clock,
        };
        match &self.statement {
            Statement::Announce(announce) => own(announce.clock),
            Statement::Ack(ack) => own(ack.clock),
            Statement::Vote(vote) => own(vote.clock),
            Statement::Leave(leave) => own(leave.clock),
            Statement::Configuration(clock, _)
            | Statement::Gone(clock, _)
            | Statement::Horizon(clock) => own(*clock),
            Statement::Base(..) => own(1),
            Statement::Admit(admit) => admit.by,
            Statement::Fence(fence) => fence.by,
            Statement::Retired(retired) => retired.to,
        }
    }

    /// The record's place in a message.
    pub(crate) fn place(&self) -> (u8, u32, u64, u32, u64, Owner) {
        let by = self.stamp();
        let (turn, owner) = match &self.statement {
            Statement::Admit(admit) => (admit.turn, Owner::default()),
            Statement::Gone(_, gone) => (0, gone.0),
            _ => (0, Owner::default()),
        };
        (self.kind(), self.writer, by.clock, by.writer, turn, owner)
    }

    /// Whether it belongs to one replica, and not to the shared state.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.statement, Statement::Base(..) | Statement::Horizon(_))
    }

    /// The place of the record's kind in a message.
    pub(crate) fn kind(&self) -> u8 {
        match &self.statement {
            Statement::Announce(_) => 0,
            Statement::Admit(_) => 1,
            Statement::Ack(_) => 2,
            Statement::Leave(_) => 3,
            Statement::Fence(_) => 4,
            Statement::Retired(_) => 5,
            Statement::Configuration(_, it) if it.limits.is_empty() => 6,
            Statement::Gone(..) => 7,
            Statement::Base(..) => 8,
            Statement::Horizon(_) => 9,
            Statement::Vote(_) => 10,
            Statement::Configuration(..) => 11,
        }
    }

    /// Calls `map` on each number in it.
    pub(crate) fn renumber(&mut self, mut map: impl FnMut(u32) -> u32) {
        self.writer = map(self.writer);
        match &mut self.statement {
            Statement::Announce(_)
            | Statement::Vote(_)
            | Statement::Configuration(..)
            | Statement::Gone(..)
            | Statement::Horizon(_) => {}
            Statement::Admit(admit) => admit.by.writer = map(admit.by.writer),
            Statement::Ack(ack) => {
                for (writer, _) in &mut ack.seen {
                    *writer = map(*writer);
                }
                sort(&mut ack.seen);
            }
            Statement::Base(seen, _) => {
                for (writer, _) in seen.iter_mut() {
                    *writer = map(*writer);
                }
                sort(seen);
            }
            Statement::Leave(leave) => leave.successor = map(leave.successor),
            Statement::Fence(fence) => {
                fence.by.writer = map(fence.by.writer);
                fence.successor = map(fence.successor);
            }
            Statement::Retired(retired) => retired.to.writer = map(retired.to.writer),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
