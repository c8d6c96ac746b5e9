//! The frames by which a member asks another for rights of a budget, and for numbers of a sequence.

use super::bytes::{Fail, Reader, put_bytes, put_varint};
use crate::bounds::{BUDGET_NAME_BYTES_MAX, SEQUENCE_NAME_BYTES_MAX};
use crate::error::{DecodeError, Limited, Rule};
use crate::ledger::RightKind;
use crate::ledger::account::check_name;
use crate::ledger::period::PeriodId;
use crate::ledger::sequence::check_sequence;
use alloc::string::String;
use alloc::vec::Vec;

/// The largest amount of a budget's operation.
const AMOUNT_MAX: u64 = i64::MAX as u64;

/// A request for rights of a budget, to a member that has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The kind of the rights.
    pub kind: RightKind,
    /// The budget.
    pub name: String,
    /// The receiver's clock as the sender has seen it. Rights that the receiver gave after that clock are on
    /// their way.
    pub seen: u64,
    /// The amount that is missing for waiting callers, 0 if none waits. At most 2^63 - 1.
    pub need: u64,
    /// The amount that the sender used of late, with the amount for waiting callers. At most 2^63 - 1.
    pub recent: u64,
}

/// A request for numbers of a sequence, to the member that gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The sequence.
    pub name: String,
    /// The receiver's clock as the sender has seen it.
    pub seen: u64,
    /// How many numbers are missing for waiting callers, or will be soon. At most 2^63 - 1.
    pub need: u64,
    /// How many numbers the sender handed out of late. At most 2^63 - 1.
    pub recent: u64,
}

pub(super) fn put_want(out: &mut Vec<u8>, want: &Want) {
    out.push(want.kind as u8);
    put_bytes(out, want.name.as_bytes());
    for number in [want.seen, want.need, want.recent] {
        put_varint(out, number);
    }
}

pub(super) fn read_want(reader: &mut Reader<'_>) -> Result<Want, Fail> {
    let kind = match reader.u8() {
        0 => RightKind::Rights,
        1 => RightKind::Room,
        2 => RightKind::Period,
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    let name = reader.text(Limited::BudgetName, BUDGET_NAME_BYTES_MAX);
    check_name(name).map_err(|error| reader.fail(error))?;
    if kind == RightKind::Period && PeriodId::parse(name).is_none() {
        return Err(reader.malformed(Rule::Period));
    }
    let (seen, need, recent) = (reader.varint(), reader.varint(), reader.varint());
    if need.max(recent) > AMOUNT_MAX {
        return Err(reader.fail(DecodeError::Number.into()));
    }
    Ok(Want {
        kind,
        name: name.into(),
        seen,
        need,
        recent,
    })
}

pub(super) fn put_draw(out: &mut Vec<u8>, draw: &Draw) {
    put_bytes(out, draw.name.as_bytes());
    for number in [draw.seen, draw.need, draw.recent] {
        put_varint(out, number);
    }
}

pub(super) fn read_draw(reader: &mut Reader<'_>) -> Result<Draw, Fail> {
    let name = reader.text(Limited::SequenceName, SEQUENCE_NAME_BYTES_MAX);
    check_sequence(name).map_err(|error| reader.fail(error))?;
    let (seen, need, recent) = (reader.varint(), reader.varint(), reader.varint());
    if need.max(recent) > AMOUNT_MAX {
        return Err(reader.fail(DecodeError::Number.into()));
    }
    Ok(Draw {
        name: name.into(),
        seen,
        need,
        recent,
    })
}
