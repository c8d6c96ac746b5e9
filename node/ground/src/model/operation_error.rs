//! The reasons why an operation is refused.

use super::{Lack, MemberName, Recipient, StuckPart};
use crate::identity::OwnerKey;
use tallymesh_core::{
    DecodeError, Error, Holding, Limited, MemberError, QuotaError, QuotaRef, ScopeError,
};

/// The reason why an operation was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationError {
    /// The replica refused.
    Core(Error),
    /// This node has too little of a budget, and requests the missing amount from others.
    Asked {
        /// The error of the replica.
        error: Error,
        /// The requested amount.
        asked: u64,
    },
    /// This node has too little of a budget or a sequence, and members that are away hold some.
    Stuck {
        /// The refusal.
        error: Box<OperationError>,
        /// What they hold.
        parts: Vec<StuckPart>,
    },
    /// Rights can move only to the present writer of another member, and this is none.
    NoRecipient(Recipient),
    /// A budget's name has this many bytes, which are too many.
    BudgetName(usize),
    /// A budget's name has this many bytes, which are too many for a lease of it.
    LeasedName(usize),
    /// A sequence's name has this many bytes, which are too many.
    SequenceName(usize),
    /// A key that a limit covers has this many bytes, which are too many.
    LimitKey(usize),
    /// Only a member may do it, and this node is about to be one: it still catches up after its
    /// start. If it has waited for long, the members that it does not reach are named.
    CatchingUp(Vec<MemberName>),
    /// Only a member may do it. The space has no members, and this node may become the first.
    NeedsMesh,
    /// Only a member may do it, and this node runs on a copy of a member's data folder.
    FolderCopied,
}

impl OperationError {
    /// A stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            OperationError::Core(error) | OperationError::Asked { error, .. } => error.code(),
            OperationError::Stuck { error, .. } => error.code(),
            OperationError::NoRecipient(_) => "no_recipient",
            OperationError::BudgetName(_) => "budget_name",
            OperationError::LeasedName(_) => "leased_name",
            OperationError::SequenceName(_) => "sequence_name",
            OperationError::LimitKey(_) => "limit_key",
            OperationError::CatchingUp(_) => "catching_up",
            OperationError::NeedsMesh => Error::Member(MemberError::NotAMember).code(),
            OperationError::FolderCopied => "folder_copied",
        }
    }

    /// How much of the budget this node and others have, if this node has too little.
    pub fn held(&self) -> Option<Holding> {
        let error = match self {
            OperationError::Core(error) | OperationError::Asked { error, .. } => error,
            OperationError::Stuck { error, .. } => return error.held(),
            _ => return None,
        };
        match error {
            Error::Quota(
                QuotaError::RightsShort(short)
                | QuotaError::RoomShort(short)
                | QuotaError::LimitReached(short),
            ) => Some(short.held),
            _ => None,
        }
    }

    /// The members that it names.
    pub fn members(&self) -> Vec<OwnerKey> {
        match self {
            OperationError::Stuck { parts, .. } => {
                parts.iter().map(|part| part.member.owner).collect()
            }
            OperationError::CatchingUp(unreached) => unreached.iter().map(|it| it.owner).collect(),
            _ => Vec::new(),
        }
    }

    /// The amount that was requested from others.
    pub fn asked(&self) -> Option<u64> {
        match self {
            OperationError::Asked { asked, .. } => Some(*asked),
            OperationError::Stuck { error, .. } => error.asked(),
            _ => None,
        }
    }
}

/// The reasons for which a node refuses things at present, in a space.
#[derive(Clone, Debug)]
pub struct AtPresent {
    /// The reason why it can't do what only a member may do.
    pub not_a_member: OperationError,
    /// Whether it awaits the clock of another member, so that it may end no counter.
    pub awaits_clock: bool,
    /// Whether earlier starts of it may hold what this one is about to take over: it has just started, or has no vote
    /// yet.
    pub takes_over: bool,
    /// The members that it does not reach, if it has had no vote for long.
    pub unreached: Vec<MemberName>,
}

impl AtPresent {
    /// The reason for which an error stands, if there is another one. `lack` is what was missing, and `quota` is of
    /// the replica.
    pub fn reason(
        &self,
        error: &Error,
        lack: Option<&Lack>,
        quota: QuotaRef<'_>,
    ) -> Option<OperationError> {
        let is_to_come = |lack: &Lack| quota.is_to_take_over(&lack.name, lack.kind);
        match error {
            Error::Member(MemberError::NotAMember) => Some(self.not_a_member.clone()),
            Error::Scope(ScopeError::Expired) if self.awaits_clock => {
                Some(OperationError::CatchingUp(Vec::new()))
            }
            _ if self.takes_over && lack.is_some_and(is_to_come) => {
                Some(OperationError::CatchingUp(self.unreached.clone()))
            }
            _ => None,
        }
    }
}

impl OperationError {
    /// Adds what members hold that are away, if it is anything. A start that catches up names them itself.
    pub fn stuck(self, parts: Vec<StuckPart>) -> OperationError {
        match parts.is_empty() || matches!(self, OperationError::CatchingUp(_)) {
            true => self,
            false => OperationError::Stuck {
                error: Box::new(self),
                parts,
            },
        }
    }
}

impl From<Error> for OperationError {
    fn from(error: Error) -> OperationError {
        match error {
            Error::Decode(DecodeError::TooLarge {
                what: Limited::BudgetName,
                size,
                ..
            }) => OperationError::BudgetName(size),
            Error::Decode(DecodeError::TooLarge {
                what: Limited::LeasedName,
                size,
                ..
            }) => OperationError::LeasedName(size),
            Error::Decode(DecodeError::TooLarge {
                what: Limited::SequenceName,
                size,
                ..
            }) => OperationError::SequenceName(size),
            Error::Decode(DecodeError::TooLarge {
                what: Limited::PeriodKey,
                size,
                ..
            }) => OperationError::LimitKey(size),
            error => OperationError::Core(error),
        }
    }
}
