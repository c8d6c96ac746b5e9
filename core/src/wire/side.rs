//! The encoding of the records that slots have beside their rows. Plain messages have one byte of it.

use super::bytes::{Fail, Reader, put_varint, put_wide, unzigzag, zigzag};
use crate::bounds::{EXPIRED_MAX, EXPIRED_SLOTS_MAX, EXPIRY_MAX};
use crate::error::{DecodeError, Rule};
use crate::message::Message;
use crate::optional::{GUESTS, Optional};
use crate::state::delta::{Entry, KeySide};
use crate::state::page::Row;
use crate::state::slot::{
    Assignment, Expired, Expiry, Extra, Fold, Lift, Moved, NEVER, RankedAssignment, Side, Slot,
    Stamp, Upto, WIDE_MAX, Watermark, Withdrawal,
};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

const EXTRA: u64 = 1;
const WATERMARK: u64 = 2;
const LIFT: u64 = 4;
const MOVED: u64 = 8;
const FOLD: u64 = 16;
const WITHDRAWALS: u64 = 32;
const EXPIRED: u64 = 64;

const BEGAN: u64 = 1;
const ADDED: u64 = 2;
const HIGH: u64 = 4;
const BASE_RESET: u64 = 8;
const BASE_SET: u64 = 16;
const EXPIRY: u64 = 32;
const ABSORBED: u64 = 64;
const FLOOR: u64 = 128;

const FOLD_ADDS: u64 = 1;
const FOLD_RESET: u64 = 2;
const FOLD_SET: u64 = 4;
const FOLD_UNTIL: u64 = 8;

/// The bit if `applies`, else 0.
fn bit(applies: bool, bit: u64) -> u64 {
    if applies { bit } else { 0 }
}

pub(super) fn put_sides(out: &mut Vec<u8>, message: &Message) {
    put_varint(out, message.delta.sides.len() as u64);
    let mut before = 0;
    for KeySide { key, side } in &message.delta.sides {
        put_varint(out, u64::from(key - before));
        before = *key;
        put_varint(out, u64::from(side.writer));
        let parts = bit(side.extra.is_some(), EXTRA)
            | bit(side.watermark.is_some(), WATERMARK)
            | bit(side.lift.is_some(), LIFT)
            | bit(side.moved.is_some(), MOVED)
            | bit(side.fold.is_some(), FOLD)
            | bit(!side.withdrawals.is_empty(), WITHDRAWALS)
            | bit(!side.expired.is_empty(), EXPIRED);
        put_varint(out, parts);
        if let (Some(extra), Some(row)) = (&side.extra, message.delta.row(*key, side.writer)) {
            put_extra(out, extra, row.clock);
        }
        let stamp = |out: &mut Vec<u8>, stamp: Stamp| {
            put_varint(out, u64::from(stamp.writer));
            put_varint(
                out,
                stamp.clock - message.delta.writers[stamp.writer as usize].lo - 1,
            );
        };
        if let Some(watermark) = &side.watermark {
            put_varint(out, watermark.clock);
            put_wide(out, watermark.total);
            stamp(out, watermark.by);
        }
        if let Some(lift) = &side.lift {
            put_varint(out, lift.clock);
            stamp(out, lift.by);
        }
        if let Some(moved) = &*side.moved {
            put_wide(out, moved.amount);
            stamp(out, moved.to);
        }
        if let Some(fold) = &*side.fold {
            put_fold(out, fold, message.delta.writers[side.writer as usize].lo);
        }
        if !side.withdrawals.is_empty() {
            put_varint(out, side.withdrawals.len() as u64);
        }
        for withdrawal in side.withdrawals.iter() {
            put_varint(out, withdrawal.clock);
            put_wide(out, withdrawal.amount);
            put_varint(out, withdrawal.clock - withdrawal.before);
            out.push(u8::from(withdrawal.several));
            stamp(out, withdrawal.by);
        }
        if !side.expired.is_empty() {
            put_varint(out, side.expired.len() as u64);
        }
        for it in side.expired.iter() {
            put_expired(out, it);
            out.push(u8::from(it.spared.is_some()));
            if let Some(by) = it.spared {
                stamp(out, by);
            }
        }
    }
}

fn put_expired(out: &mut Vec<u8>, it: &Expired) {
    put_varint(out, it.clock);
    put_varint(out, it.time);
    put_varint(out, it.upto.len() as u64);
    for upto in &it.upto {
        put_varint(out, u64::from(upto.writer));
        put_varint(out, upto.clock);
        put_wide(out, upto.total);
    }
}

fn put_extra(out: &mut Vec<u8>, extra: &Extra, clock: u64) {
    let parts = bit(extra.began != 0, BEGAN)
        | bit(extra.added != clock, ADDED)
        | bit(extra.high != 0, HIGH)
        | bit(extra.assignment == Some(Assignment::Reset), BASE_RESET)
        | bit(
            matches!(extra.assignment, Some(Assignment::Set(_))),
            BASE_SET,
        )
        | bit(extra.expiry.is_some(), EXPIRY)
        | bit(extra.absorbed, ABSORBED)
        | bit(
            GUESTS && extra.expiry.is_some_and(|it| *it.floor > 0),
            FLOOR,
        );
    put_varint(out, parts);
    if extra.began != 0 {
        put_varint(out, clock - extra.began);
    }
    if extra.added != clock {
        put_varint(
            out,
            if extra.added == 0 {
                0
            } else {
                clock - extra.added
            },
        );
    }
    if extra.high != 0 {
        put_varint(out, zigzag(extra.high));
    }
    if let Some(Assignment::Set(value)) = extra.assignment {
        put_varint(out, zigzag(value));
    }
    if let Some(expiry) = extra.expiry {
        put_varint(out, clock - expiry.clock);
        put_until(out, expiry.until);
        if GUESTS && *expiry.floor > 0 {
            put_varint(out, *expiry.floor);
        }
    }
}

fn put_fold(out: &mut Vec<u8>, fold: &Fold, lo: u64) {
    put_varint(out, fold.clock - lo - 1);
    put_wide(out, fold.amount);
    let parts = bit(fold.adds, FOLD_ADDS)
        | bit(fold.assignment.is_some_and(|it| !it.set), FOLD_RESET)
        | bit(fold.assignment.is_some_and(|it| it.set), FOLD_SET)
        | bit(fold.until.is_some(), FOLD_UNTIL);
    put_varint(out, parts);
    if let Some(it) = &fold.assignment {
        put_varint(out, it.clock);
        out.extend_from_slice(it.writer.as_bytes());
        if it.set {
            put_varint(out, zigzag(it.value));
        }
    }
    if let Some(until) = fold.until {
        put_until(out, until);
    }
}

/// Appends 0 for never, else one more than the time.
fn put_until(out: &mut Vec<u8>, until: u64) {
    put_varint(out, if until == NEVER { 0 } else { until + 1 });
}

pub(super) fn read_sides(reader: &mut Reader<'_>, message: &mut Message) -> Result<(), Fail> {
    let count = reader.count(4);
    let mut before: Option<(u32, u32)> = None;
    for _ in 0..count {
        let key = reader
            .varint()
            .saturating_add(before.map_or(0, |(key, _)| u64::from(key)));
        let writer = reader.varint();
        if key >= message.delta.keys.len() as u64 || writer >= message.delta.writers.len() as u64 {
            return Err(reader.malformed(Rule::SidesAscend));
        }
        let place = (key as u32, writer as u32);
        if before.is_some_and(|before| before >= place) {
            return Err(reader.malformed(Rule::SidesAscend));
        }
        before = Some(place);
        let row = message.delta.row(place.0, place.1).copied();
        let side = read_side(reader, &message.delta.writers, place.1, row)?;
        message.delta.sides.push(KeySide { key: place.0, side });
    }
    Ok(())
}

fn read_side(
    reader: &mut Reader<'_>,
    writers: &[Entry],
    writer: u32,
    row: Option<Row>,
) -> Result<Side, Fail> {
    let parts = reader.varint();
    let known = if GUESTS { EXPIRED << 1 } else { MOVED };
    if parts == 0 || parts >= known {
        return Err(match GUESTS {
            true => reader.malformed(Rule::SideParts),
            // The parts of absorbed writers come before the byte that says that the space has members.
            false => reader.fail(DecodeError::MembersUnsupported.into()),
        });
    }
    let mut side = Side::new(writer);
    if parts & EXTRA != 0 {
        let Some(row) = row else {
            return Err(reader.malformed(Rule::Extra));
        };
        let extra = read_extra(reader, row.clock)?;
        let slot = Slot::new(writer, row, Some(&extra));
        if slot.total().abs() >= WIDE_MAX {
            return Err(reader.fail(DecodeError::Number.into()));
        }
        side.extra = slot.side.extra;
    }
    if parts & WATERMARK != 0 {
        side.watermark = Some(Watermark {
            clock: reader.varint(),
            total: reader.wide(),
            by: read_stamp(reader, writers),
        });
    }
    if parts & LIFT != 0 {
        let clock = reader.varint();
        let by = read_stamp(reader, writers);
        side.lift = Some(Box::new(Lift { clock, by }));
    }
    if GUESTS && parts & MOVED != 0 {
        let amount = reader.wide();
        let to = read_stamp(reader, writers);
        side.moved.set(Some(Box::new(Moved { to, amount })));
    }
    if GUESTS && parts & FOLD != 0 {
        let fold = read_fold(reader, &writers[writer as usize])?;
        side.fold.set(Some(Box::new(fold)));
    }
    if GUESTS && parts & WITHDRAWALS != 0 {
        let hi = writers[writer as usize].hi;
        side.withdrawals.set(read_withdrawals(reader, writers, hi)?);
    }
    if GUESTS && parts & EXPIRED != 0 {
        let hi = writers[writer as usize].hi;
        side.expired.set(read_expired(reader, writers, hi)?);
    }
    Ok(side)
}

/// At least one expiry that was carried out, by transactions up to the clock `hi`.
fn read_expired(reader: &mut Reader<'_>, writers: &[Entry], hi: u64) -> Result<Vec<Expired>, Fail> {
    let count = reader.count(4);
    if count == 0 || count > EXPIRED_MAX {
        return Err(reader.malformed(Rule::Expired));
    }
    let mut expired: Vec<Expired> = Vec::with_capacity(count);
    let mut named = 0;
    for _ in 0..count {
        let (clock, time) = (reader.varint(), reader.varint());
        let upto = read_upto(reader, writers)?;
        named += upto.len();
        let ascends = expired.last().map_or(0, |last| last.clock) < clock;
        if !ascends || clock > hi || time == NEVER || named > EXPIRED_SLOTS_MAX {
            return Err(reader.malformed(Rule::Expired));
        }
        let spared = match reader.u8() {
            0 => None,
            1 => Some(read_stamp(reader, writers)),
            _ => return Err(reader.malformed(Rule::Flag)),
        };
        expired.push(Expired {
            clock,
            time,
            upto,
            spared,
        });
    }
    Ok(expired)
}

/// The slots that an expiry names, ascending by writer.
fn read_upto(reader: &mut Reader<'_>, writers: &[Entry]) -> Result<Vec<Upto>, Fail> {
    let count = reader.count(3);
    let mut slots: Vec<Upto> = Vec::with_capacity(count.min(EXPIRED_SLOTS_MAX));
    for _ in 0..count {
        let upto = Upto {
            writer: reader.varint32(),
            clock: reader.varint(),
            total: reader.wide(),
        };
        let entry = writers.get(upto.writer as usize);
        let ascends = slots.last().is_none_or(|last| last.writer < upto.writer);
        if !ascends || !entry.is_some_and(|it| (1..=it.hi).contains(&upto.clock)) {
            return Err(reader.malformed(Rule::Expired));
        }
        slots.push(upto);
    }
    Ok(slots)
}

/// At least one withdrawal, of transactions up to the clock `hi`.
fn read_withdrawals(
    reader: &mut Reader<'_>,
    writers: &[Entry],
    hi: u64,
) -> Result<Vec<Withdrawal>, Fail> {
    let count = reader.count(6);
    let mut withdrawals: Vec<Withdrawal> = Vec::with_capacity(count);
    for _ in 0..count {
        let clock = reader.varint();
        let amount = reader.wide();
        let since = reader.varint();
        let several = match reader.u8() {
            0 => false,
            1 => true,
            _ => return Err(reader.malformed(Rule::Flag)),
        };
        let ascends = withdrawals.last().is_none_or(|last| last.clock < clock);
        if !ascends || clock > hi || since == 0 || since > clock {
            return Err(reader.malformed(Rule::Withdrawals));
        }
        withdrawals.push(Withdrawal {
            clock,
            amount,
            before: clock - since,
            several,
            by: read_stamp(reader, writers),
        });
    }
    match withdrawals.is_empty() {
        true => Err(reader.malformed(Rule::Withdrawals)),
        false => Ok(withdrawals),
    }
}

/// Reads a clock after the entry's `lo` and not after its `hi`.
pub(super) fn read_clock(reader: &mut Reader<'_>, entry: &Entry) -> u64 {
    let after = reader.varint();
    let clock = entry.lo.checked_add(1).and_then(|c| c.checked_add(after));
    clock.filter(|clock| *clock <= entry.hi).unwrap_or_else(|| {
        reader.malformed(Rule::ShardClock);
        0
    })
}

pub(super) fn read_stamp(reader: &mut Reader<'_>, writers: &[Entry]) -> Stamp {
    let writer = reader.varint32();
    let clock = match writers.get(writer as usize) {
        Some(entry) => read_clock(reader, entry),
        None => {
            reader.malformed(Rule::ColumnWriter);
            0
        }
    };
    Stamp { writer, clock }
}

/// Reads a clock as its distance before the row's clock.
fn read_before(reader: &mut Reader<'_>, clock: u64) -> u64 {
    let before = clock.saturating_sub(reader.varint());
    if before == 0 {
        reader.malformed(Rule::Lifetime);
    }
    before
}

fn read_extra(reader: &mut Reader<'_>, clock: u64) -> Result<Extra, Fail> {
    let parts = reader.varint();
    let bases = parts & (BASE_RESET | BASE_SET);
    let known = if GUESTS { FLOOR << 1 } else { FLOOR };
    let floor_alone = parts & (FLOOR | EXPIRY) == FLOOR;
    if parts == 0 || parts >= known || floor_alone || bases == BASE_RESET | BASE_SET {
        return Err(reader.malformed(Rule::Extra));
    }
    let mut extra = Extra {
        added: clock,
        absorbed: parts & ABSORBED != 0,
        ..Extra::default()
    };
    if parts & BEGAN != 0 {
        extra.began = read_before(reader, clock);
    }
    if parts & ADDED != 0 {
        let before = reader.varint();
        extra.added = match before {
            0 => 0,
            before => clock.saturating_sub(before),
        };
        if before != 0 && extra.added == 0 {
            return Err(reader.malformed(Rule::Lifetime));
        }
    }
    if parts & HIGH != 0 {
        extra.high = unzigzag(reader.varint());
        // The check comes before the total is computed, which could exceed 128 bits.
        if extra.high == 0 || i128::from(extra.high).abs() > WIDE_MAX >> 64 {
            return Err(reader.fail(DecodeError::Number.into()));
        }
    }
    extra.assignment = match bases {
        BASE_RESET => Some(Assignment::Reset),
        BASE_SET => Some(Assignment::Set(unzigzag(reader.varint()))),
        _ => None,
    };
    if parts & EXPIRY != 0 {
        let mut expiry = Expiry::new(read_before(reader, clock), read_until(reader));
        if GUESTS && parts & FLOOR != 0 {
            expiry.floor.set(read_floor(reader));
        }
        extra.expiry = Some(expiry);
    }
    let ordered = (extra.added == 0 || extra.added >= extra.began)
        && extra
            .expiry
            .is_none_or(|expiry| expiry.clock >= extra.began)
        && (extra.assignment.is_none() || extra.began > 0);
    if !ordered {
        return Err(reader.malformed(Rule::Lifetime));
    }
    Ok(extra)
}

/// A floor is not 0, and the time of an expiry that was carried out.
fn read_floor(reader: &mut Reader<'_>) -> u64 {
    let floor = reader.varint();
    if floor == 0 || floor == NEVER {
        reader.malformed(Rule::Expired);
    }
    floor
}

fn read_until(reader: &mut Reader<'_>) -> u64 {
    match reader.varint() {
        0 => NEVER,
        more if more - 1 <= EXPIRY_MAX => more - 1,
        _ => {
            reader.fail(DecodeError::Number.into());
            NEVER
        }
    }
}

fn read_fold(reader: &mut Reader<'_>, entry: &Entry) -> Result<Fold, Fail> {
    let clock = read_clock(reader, entry);
    let amount = reader.wide();
    let parts = reader.varint();
    let bases = parts & (FOLD_RESET | FOLD_SET);
    if parts >= FOLD_UNTIL << 1 || bases == FOLD_RESET | FOLD_SET {
        return Err(reader.malformed(Rule::SideParts));
    }
    let mut assignment = None;
    if bases != 0 {
        let set = bases == FOLD_SET;
        assignment = Some(RankedAssignment {
            set,
            clock: reader.varint(),
            writer: WriterId::from_bytes(reader.array()),
            value: if set { unzigzag(reader.varint()) } else { 0 },
        });
    }
    Ok(Fold {
        clock,
        amount,
        adds: parts & FOLD_ADDS != 0,
        assignment,
        until: match parts & FOLD_UNTIL {
            0 => None,
            _ => Some(read_until(reader)),
        },
    })
}
