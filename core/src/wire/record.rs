//! The encoding of membership records. Messages of open spaces have one byte of it.

use super::bytes::{Fail, Reader, put_bytes, put_varint};
use super::keyed::read_keyed;
use super::side::{read_clock, read_stamp};
use crate::bounds::{LIMIT_NAME_BYTES_MAX, LIMITS_MAX, MEMBERS_MAX};
use crate::error::{DecodeError, Limited, MemberError, Rule, detail};
use crate::message::Message;
use crate::message::records::{
    Ack, Admit, Announce, Ballot, Configuration, Fence, Leave, Limit, MembershipRecord, Owner,
    Retired, Ruling, Statement, Vote,
};
use crate::optional::{GUESTS, MEMBERS, Optional};
use crate::state::delta::Entry;
use crate::state::slot::Stamp;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A bit of the byte about the space: keyed operations follow.
const KEYED: u8 = 4;
/// A bit of the same byte: keyed operations may be missing.
const WITHOUT_KEYS: u8 = 8;
/// A bit of the same byte: the writers whose keyed operations may be missing follow.
const KEY_GAPS: u8 = 16;

pub(super) fn put_records(out: &mut Vec<u8>, message: &Message) {
    let keyed = if message.keyed.is_empty() { 0 } else { KEYED };
    let without_keys = if GUESTS && message.without_keys {
        WITHOUT_KEYS
    } else {
        0
    };
    let key_gaps = if message.key_gaps.is_empty() {
        0
    } else {
        KEY_GAPS
    };
    let known = u8::from(message.closed) + u8::from(message.complete);
    out.push(known + keyed + without_keys + key_gaps);
    if key_gaps > 0 {
        put_varint(out, message.key_gaps.len() as u64);
    }
    for writer in message.key_gaps.iter() {
        put_varint(out, u64::from(*writer));
    }
    if !message.is_closed() {
        return;
    }
    put_varint(out, message.records.len() as u64);
    for record in message.records() {
        out.push(record.kind());
        put_varint(out, u64::from(record.writer));
        put_record(out, record, &message.delta.writers);
    }
}

fn put_record(out: &mut Vec<u8>, record: &MembershipRecord, writers: &[Entry]) {
    let after = |by: Stamp| by.clock - writers[by.writer as usize].lo - 1;
    let stamp = |out: &mut Vec<u8>, by: Stamp| {
        put_varint(out, u64::from(by.writer));
        put_varint(out, after(by));
    };
    let by = record.stamp();
    match &record.statement {
        Statement::Announce(it) => {
            put_varint(out, after(by));
            out.extend_from_slice(&it.owner);
            out.extend_from_slice(&it.nonce);
            put_varint(out, it.generation);
        }
        Statement::Admit(it) => {
            put_varint(out, it.turn);
            stamp(out, by);
        }
        Statement::Ack(it) => {
            put_varint(out, after(by));
            put_varint(out, it.want);
            put_seen(out, &it.seen);
        }
        Statement::Vote(it) => {
            put_varint(out, after(by));
            put_slot(out, (it.era, it.number));
            put_ballot(out, &it.promised);
            // A ruling without limits keeps the encoding from before limits existed.
            out.push(match &it.accepted {
                None => 0,
                Some((_, ruling)) if ruling.limits.is_empty() => 1,
                Some(_) => 2,
            });
            if let Some((ballot, ruling)) = &it.accepted {
                put_ballot(out, ballot);
                put_owners(out, &ruling.members);
                if !ruling.limits.is_empty() {
                    put_limits(out, &ruling.limits);
                }
            }
        }
        Statement::Base(seen, told) => {
            put_seen(out, seen);
            out.push(u8::from(*told));
        }
        Statement::Horizon(clock) => put_varint(out, *clock),
        Statement::Leave(it) => {
            put_varint(out, after(by));
            put_varint(out, u64::from(it.successor));
        }
        Statement::Fence(it) => {
            put_varint(out, it.turn);
            stamp(out, by);
            put_varint(out, u64::from(it.successor));
        }
        Statement::Retired(it) => {
            stamp(out, by);
            put_varint(out, it.upto);
        }
        Statement::Configuration(_, it) => {
            put_varint(out, after(by));
            put_slot(out, (it.era, it.number));
            put_owners(out, &it.members);
            if !it.limits.is_empty() {
                put_limits(out, &it.limits);
            }
        }
        Statement::Gone(_, it) => {
            put_varint(out, after(by));
            out.extend_from_slice(&it.0);
            put_varint(out, it.1);
        }
    }
}

fn put_seen(out: &mut Vec<u8>, seen: &[(u32, u64)]) {
    put_varint(out, seen.len() as u64);
    for (writer, clock) in seen {
        put_varint(out, u64::from(*writer));
        put_varint(out, *clock);
    }
}

fn put_slot(out: &mut Vec<u8>, (era, number): (u64, u64)) {
    put_varint(out, era);
    put_varint(out, number);
}

fn put_ballot(out: &mut Vec<u8>, (round, owner): &Ballot) {
    put_varint(out, *round);
    out.extend_from_slice(owner);
}

fn put_owners(out: &mut Vec<u8>, owners: &[Owner]) {
    put_varint(out, owners.len() as u64);
    for owner in owners {
        out.extend_from_slice(owner);
    }
}

fn put_limits(out: &mut Vec<u8>, limits: &[Limit]) {
    put_varint(out, limits.len() as u64);
    for it in limits {
        put_bytes(out, it.name.as_bytes());
        for number in [it.limit, it.period_ms, it.since] {
            put_varint(out, number);
        }
    }
}

pub(super) fn read_records(reader: &mut Reader<'_>, message: &mut Message) -> Result<(), Fail> {
    let mut flags = reader.u8();
    if !GUESTS && flags > 0 {
        return Err(reader.fail(DecodeError::MembersUnsupported.into()));
    }
    let mut take = |known: bool, flag: u8| {
        let set = known && flags & flag != 0;
        flags -= if set { flag } else { 0 };
        set
    };
    let keyed = take(MEMBERS, KEYED);
    message.without_keys = take(GUESTS, WITHOUT_KEYS);
    let key_gaps = take(GUESTS, KEY_GAPS);
    (message.closed, message.complete) = match flags {
        0 if !message.without_keys && !key_gaps => (false, false),
        1 => (true, false),
        2 => (true, true),
        _ => return Err(reader.malformed(Rule::Flag)),
    };
    if key_gaps {
        let key_gaps = read_key_gaps(reader, &message.delta.writers)?;
        message.key_gaps.set(key_gaps);
    }
    if GUESTS && message.closed {
        read_all_records(reader, message)?;
    }
    match keyed {
        true => read_keyed(reader, message),
        false => Ok(()),
    }
}

fn read_all_records(reader: &mut Reader<'_>, message: &mut Message) -> Result<(), Fail> {
    let count = reader.count(3);
    let mut before = None;
    for _ in 0..count {
        let kind = reader.u8();
        let writer = read_index(reader, &message.delta.writers)?;
        let statement = read_statement(reader, kind, writer, &message.delta.writers)?;
        let record = MembershipRecord { writer, statement };
        let place = record.place();
        if before.is_some_and(|before| before >= place) {
            return Err(reader.malformed(Rule::RecordsAscend));
        }
        before = Some(place);
        message.records.update(|it| it.push(record));
    }
    Ok(())
}

fn read_key_gaps(reader: &mut Reader<'_>, writers: &[Entry]) -> Result<Vec<u32>, Fail> {
    let mut key_gaps: Vec<u32> = Vec::new();
    for _ in 0..reader.count(1) {
        let writer = read_index(reader, writers)?;
        if key_gaps.last().is_some_and(|last| *last >= writer) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        key_gaps.push(writer);
    }
    match key_gaps.is_empty() {
        true => Err(reader.malformed(Rule::WritersAscend)),
        false => Ok(key_gaps),
    }
}

fn read_statement(
    reader: &mut Reader<'_>,
    kind: u8,
    writer: u32,
    writers: &[Entry],
) -> Result<Statement, Fail> {
    let own = &writers[writer as usize];
    Ok(match kind {
        0 => Statement::Announce(Box::new(Announce {
            clock: read_clock(reader, own),
            owner: reader.array(),
            nonce: reader.array(),
            generation: reader.varint(),
        })),
        1 => Statement::Admit(Admit {
            turn: reader.varint(),
            by: read_stamp(reader, writers),
        }),
        2 => Statement::Ack(Box::new(read_ack(reader, own, writers)?)),
        3 => Statement::Leave(Leave {
            clock: read_clock(reader, own),
            successor: read_index(reader, writers)?,
        }),
        4 => Statement::Fence(Fence {
            turn: reader.varint(),
            by: read_stamp(reader, writers),
            successor: read_index(reader, writers)?,
        }),
        5 => Statement::Retired(Retired {
            to: read_stamp(reader, writers),
            upto: reader.varint(),
        }),
        6 | 11 => {
            let clock = read_clock(reader, own);
            let configuration = Configuration {
                era: reader.varint(),
                number: reader.varint(),
                members: read_owners(reader)?,
                limits: match kind {
                    6 => Vec::new(),
                    _ => read_limits(reader)?,
                },
            };
            Statement::Configuration(clock, Box::new(configuration))
        }
        7 => {
            let clock = read_clock(reader, own);
            Statement::Gone(clock, Box::new((reader.array(), reader.varint())))
        }
        10 => Statement::Vote(Box::new(Vote {
            clock: read_clock(reader, own),
            era: reader.varint(),
            number: reader.varint(),
            promised: (reader.varint(), reader.array()),
            accepted: match reader.u8() {
                0 => None,
                flag @ (1 | 2) => {
                    let ballot = (reader.varint(), reader.array());
                    let members = read_owners(reader)?;
                    let limits = match flag {
                        1 => Vec::new(),
                        _ => read_limits(reader)?,
                    };
                    Some((ballot, Ruling { members, limits }))
                }
                _ => return Err(reader.malformed(Rule::Flag)),
            },
        })),
        9 => match reader.varint() {
            clock if clock > 0 && clock <= own.hi => Statement::Horizon(clock),
            _ => return Err(reader.malformed(Rule::RecordKind)),
        },
        8 if own.lo == 0 && own.hi > 0 => {
            let seen = read_seen(reader, writers)?.into();
            let told = match reader.u8() {
                told @ (0 | 1) => told == 1,
                _ => return Err(reader.malformed(Rule::Flag)),
            };
            Statement::Base(seen, told)
        }
        _ => return Err(reader.malformed(Rule::RecordKind)),
    })
}

fn read_ack(reader: &mut Reader<'_>, own: &Entry, writers: &[Entry]) -> Result<Ack, Fail> {
    Ok(Ack {
        clock: read_clock(reader, own),
        want: reader.varint(),
        seen: read_seen(reader, writers)?,
    })
}

fn read_seen(reader: &mut Reader<'_>, writers: &[Entry]) -> Result<Vec<(u32, u64)>, Fail> {
    let count = reader.count(2);
    let mut seen: Vec<(u32, u64)> = Vec::with_capacity(count);
    for _ in 0..count {
        let writer = read_index(reader, writers)?;
        if seen.last().is_some_and(|last| last.0 >= writer) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        let clock = reader.varint();
        if clock == 0 {
            return Err(reader.malformed(Rule::WriterClock));
        }
        seen.push((writer, clock));
    }
    Ok(seen)
}

fn read_index(reader: &mut Reader<'_>, writers: &[Entry]) -> Result<u32, Fail> {
    let writer = reader.varint32();
    match writer as usize >= writers.len() {
        true => Err(reader.malformed(Rule::ColumnWriter)),
        false => Ok(writer),
    }
}

fn read_owners(reader: &mut Reader<'_>) -> Result<Vec<Owner>, Fail> {
    let count = reader.count(32);
    if count > MEMBERS_MAX {
        return Err(reader.fail(
            MemberError::MembersFull {
                members: detail(count),
            }
            .into(),
        ));
    }
    let mut owners: Vec<Owner> = Vec::with_capacity(count);
    for _ in 0..count {
        let owner = reader.array();
        if owners.last().is_some_and(|last| *last >= owner) {
            return Err(reader.malformed(Rule::WritersAscend));
        }
        owners.push(owner);
    }
    Ok(owners)
}

fn read_limits(reader: &mut Reader<'_>) -> Result<Vec<Limit>, Fail> {
    let count = reader.count(4);
    if count == 0 || count > LIMITS_MAX {
        return Err(reader.malformed(Rule::Limits));
    }
    let mut limits: Vec<Limit> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.text(Limited::LimitName, LIMIT_NAME_BYTES_MAX);
        let limit = Limit {
            name: name.into(),
            limit: reader.varint(),
            period_ms: reader.varint(),
            since: reader.varint(),
        };
        let ascends = limits.last().is_none_or(|last| last.name < limit.name);
        if !ascends || !limit.is_sound() {
            return Err(reader.malformed(Rule::Limits));
        }
        limits.push(limit);
    }
    Ok(limits)
}
