//! Moves rights and room from one member to another, and names the reasons why an operation is
//! refused.

use crate::identity::OwnerKey;
use crate::problems;
use std::fmt;
use tallymesh_core::bounds::{
    BUDGET_NAME_BYTES_MAX, LEASED_NAME_BYTES_MAX, PERIOD_KEY_BYTES_MAX, SEQUENCE_NAME_BYTES_MAX,
};
use tallymesh_core::{
    DecodeError, Error, Flow, Holding, Limited, MemberError, QuotaError, Replica, Stock,
    Transaction, WriterId,
};

/// The recipient of rights or room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A member, under any writer.
    Member(OwnerKey),
    /// A member's present writer.
    Writer(WriterId),
}

impl Recipient {
    /// Reads a member's key of 64 hex digits, or a writer of 32.
    pub fn parse(text: &str) -> Option<Recipient> {
        let member = OwnerKey::digits(text).map(Recipient::Member);
        member.or_else(|| WriterId::parse(text).map(Recipient::Writer))
    }

    /// The present writer of the recipient, if it has one.
    fn writer(&self, replica: &Replica) -> Option<WriterId> {
        match self {
            Recipient::Writer(writer) => Some(*writer),
            Recipient::Member(owner) => {
                let members = replica.members().list();
                members.iter().find(|it| it.owner == owner.0)?.writer
            }
        }
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipient::Member(owner) => owner.fmt(f),
            Recipient::Writer(writer) => writer.fmt(f),
        }
    }
}

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
    /// start.
    CatchingUp,
    /// Only a member may do it. The space has no members, and this node may become the first.
    NeedsMesh,
}

impl OperationError {
    /// A stable name of the kind of refusal.
    pub fn code(&self) -> &'static str {
        match self {
            OperationError::Core(error) | OperationError::Asked { error, .. } => error.code(),
            OperationError::NoRecipient(_) => "no_recipient",
            OperationError::BudgetName(_) => "budget_name",
            OperationError::LeasedName(_) => "leased_name",
            OperationError::SequenceName(_) => "sequence_name",
            OperationError::LimitKey(_) => "limit_key",
            OperationError::CatchingUp => "catching_up",
            OperationError::NeedsMesh => Error::Member(MemberError::NotAMember).code(),
        }
    }

    /// How much of the budget this node and others have, if this node has too little.
    pub fn held(&self) -> Option<Holding> {
        let (OperationError::Core(error) | OperationError::Asked { error, .. }) = self else {
            return None;
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

    /// The amount that was requested from others.
    pub fn asked(&self) -> Option<u64> {
        match self {
            OperationError::Asked { asked, .. } => Some(*asked),
            _ => None,
        }
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationError::Core(error) => f.write_str(&problems::text(error)),
            OperationError::Asked { error, asked } => write!(
                f,
                "{error}; {asked} more are asked for of other members: try again, or let the write \
                 wait for them: `--rights-wait` of commands, `tallymesh-rights-wait-ms` over HTTP"
            ),
            OperationError::NoRecipient(to) => write!(
                f,
                "{to} is no other member, or none of which a start is known here; rights move to \
                 members only: see `tallymesh members`"
            ),
            OperationError::BudgetName(bytes) => write!(
                f,
                "a budget's name has at most {BUDGET_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::LeasedName(bytes) => write!(
                f,
                "rights are leased of budgets whose names have at most {LEASED_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::SequenceName(bytes) => write!(
                f,
                "a sequence's name has at most {SEQUENCE_NAME_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::LimitKey(bytes) => write!(
                f,
                "a key that a limit covers has at most {PERIOD_KEY_BYTES_MAX} bytes, not {bytes}"
            ),
            OperationError::NeedsMesh => f.write_str(problems::NEEDS_MESH),
            OperationError::CatchingUp => f.write_str(
                "this node has just started, and catches up with the other members before it takes part; try \
                 again in some seconds",
            ),
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

/// Moves rights or room to the present writer of the recipient.
pub(crate) fn grant(
    transaction: &mut Transaction<'_>,
    key: &str,
    to: &Recipient,
    stock: Stock,
    amount: u64,
) -> Result<(), OperationError> {
    let nobody = || OperationError::NoRecipient(*to);
    let writer = to.writer(transaction.replica()).ok_or_else(nobody);
    // If this node is no member, that error comes first.
    let writer = match transaction.replica().members().is_member() {
        true => writer?,
        false => return Err(Error::Member(MemberError::NotAMember).into()),
    };
    // For rate limits, only the requests of members move anything.
    let flow = Flow::grant(stock, writer, amount).ok_or(Error::Quota(QuotaError::NoBudget))?;
    let moved = transaction.quota_mut().flow(key, flow);
    moved.map_err(|error| match error {
        Error::Member(MemberError::UnknownWriter { .. }) => nobody(),
        error => error.into(),
    })
}
