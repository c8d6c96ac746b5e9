//! The data that the driver, its faces and the network part share: spaces, operations and their
//! results, rows, events, refusals.
//!
//! Nothing here does I/O, waits, or has a lock. This module imports nothing of the node but keys
//! ([`crate::identity`]). The texts of refusals are in [`crate::problems`], beside the table of
//! their codes.

mod access;
pub mod bounds;
mod budgets;
mod counters;
pub mod decimal;
mod demand;
mod events;
mod faults;
mod limits;
mod links;
mod member_name;
mod members;
mod notices;
mod operation;
mod operation_error;
mod position;
mod refusal;
mod role;
mod sequences;
mod session;
mod space;
mod stuck;

pub use access::{Place, Turned};
pub use budgets::{BudgetPage, BudgetRow, HolderRow, HoldingRow, LeaseRow};
pub use counters::ShardRow;
pub use counters::{
    AuditPage, Audited, Change, ChangedPart, Changes, Counter, Page, Query, Reading,
};
pub use decimal::Decimal;
pub use decimal::{decimal, decimal_if_any};
pub use demand::{Centre, Completeness, Demand, Heard, Keyed, ReadBack, Unreached, Written};
pub use events::{Comeback, News, Renewal};
pub use faults::{FaultReport, Origin, Side};
pub use limits::{LimitList, LimitRow, PeriodRow};
pub use links::{Carried, LinkRow, LinkState, PeerKind, PeerScope, Sender};
pub use member_name::{MemberName, MemberNames};
pub use members::{
    Absorption, ConfigurationRow, MemberChange, MemberRow, Membership, Retiree, Retirement,
};
pub use members::{LISTED_MAX, MemberList, MemberLists, OwnWriters, fate};
pub use notices::{Event, Notice};
pub use operation::{Done, Operation, Recipient, Sum, Transacted};
pub use operation::{Made, grant};
pub use operation_error::{AtPresent, OperationError};
pub use position::{NoPosition, Position, Wanted};
pub use refusal::Refusal;
pub use role::Role;
pub use sequences::{GapRow, HeldRow, SequencePage, SequenceRow, WatchRow};
pub use session::{Lack, LastWrite};
pub use space::{CopyRow, RESERVED, Tally};
pub use space::{Sizes, SpaceId, SpaceStatus, WriterRow};
pub use stuck::{StuckPart, StuckRow, StuckShare};
