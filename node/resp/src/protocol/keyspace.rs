//! Commands on all counters of a space: `SCAN`, `KEYS`, `RANDOMKEY`, `DBSIZE`, `FLUSHDB`.

use super::command::Command;
use super::counters::{integer, is_reserved};
use super::error::ReplyError;
use super::glob::{self, Glob};
use super::limits::{
    KEYS_BYTES_MAX, SCAN_WORK_MAX, STEPS_FOR_WORK, TRANSACTION_OPS_MAX, TURN_WORK_MAX,
};
use super::reply::Reply;
use super::request::Args;
use super::session::Session;
use super::{Host, KeyIdRange, budgets, sequences};
use std::collections::BTreeSet;
use tallymesh_core::{KeyId, Op, Replica};
use tallymesh_node_ground::model::Event;

/// Counters that one `SCAN` lists by default.
const COUNT_DEFAULT: u32 = 10;

/// Most names in one answer of `BUDGET.LIST` or `SEQUENCE.LIST`.
const NAMES_MAX: usize = 1_000;

/// KeyIds that `SCAN` passes for each counter that it may list. If most are unused, it lists fewer
/// rather than take longer.
const PASSED_FOR_EACH: u32 = 10;

/// KeyIds that are tried at random before a search in order.
const TRIES: u32 = 64;

/// The types that Redis has; counters are strings there.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

impl Session {
    /// Answers the commands on all counters.
    pub(super) fn keyspace<'a>(
        &mut self,
        command: Command,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let space = self.space;
        self.work += match command {
            Command::DbSize | Command::Scan | Command::Keys => 0,
            // They go through all counters.
            _ => host.key_ids(space).end as usize,
        };
        match command {
            Command::Scan => {
                self.work += scan(space, args, host, reply)?;
            }
            Command::BudgetHolders => return budgets::holders(args, host.replica(space), reply),
            Command::BudgetLeases => return budgets::leases(args, host.replica(space), reply),
            Command::BudgetList => {
                let quota = host.replica(space).quota();
                return names("budget.list", args, |take| quota.each_budget(take), reply);
            }
            Command::SequenceGet => return sequences::get(args, host.replica(space), reply),
            Command::SequenceList => {
                let quota = host.replica(space).quota();
                return names(
                    "sequence.list",
                    args,
                    |take| quota.each_sequence(take),
                    reply,
                );
            }
            Command::Keys => return self.keys(args.at(1), host, reply),
            Command::DbSize => reply.count(host.sizes(space).counters),
            Command::RandomKey => {
                let (end, random) = (host.key_ids(space).end, host.random());
                let replica = host.replica(space);
                match pick(replica, end, random).and_then(|counter| replica.key(counter)) {
                    Some(key) => reply.bulk(key.as_bytes()),
                    None => reply.null(),
                }
            }
            other => unreachable!("{other:?} has no arm among the commands on all counters"),
        }
        Ok(())
    }

    /// Deletes all counters that this node has, in its space or in all spaces. Up to
    /// [`TRANSACTION_OPS_MAX`] are one transaction. Other clients wait until all are deleted.
    pub(super) fn flush<'a>(
        &mut self,
        command: Command,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let word = args.at(1).to_ascii_lowercase();
        if args.len() > 2 || !matches!(word.as_slice(), b"" | b"sync" | b"async") {
            return Err(ReplyError::Syntax);
        }
        if !self.config.flush {
            return Err(ReplyError::FlushOff);
        }
        let spaces = match command {
            Command::FlushDb => self.space..self.space + 1,
            _ => 0..host.spaces(),
        };
        for space in spaces {
            self.flush_space(space, host)?;
        }
        reply.ok();
        Ok(())
    }

    fn flush_space<'a>(&mut self, space: usize, host: &mut dyn Host) -> Result<(), ReplyError<'a>> {
        let mut counters = Vec::new();
        host.replica(space)
            .each_counter(&mut |counter| counters.push(counter));
        self.work += 4 * counters.len();
        for part in counters.chunks(TRANSACTION_OPS_MAX) {
            let replica = host.writable(space)?;
            let keys = part.iter().filter_map(|counter| replica.key(*counter));
            let ops: Vec<(String, Op)> = keys.map(|key| (key.to_owned(), Op::Delete)).collect();
            replica.transact(&ops)?;
            self.written(space, replica.writer(), replica.clock());
            for counter in part {
                host.wrote(space, *counter, Event::Del);
            }
        }
        Ok(())
    }
}

/// Answers a command that lists names with a prefix, after a name, by their bytes. `each` calls its
/// argument with all names, in any order.
fn names<'a>(
    command: &'static str,
    args: &Args<'a>,
    each: impl FnOnce(&mut dyn FnMut(&str)),
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    if args.len() > 3 {
        return Err(ReplyError::Arity(command));
    }
    let (prefix, after) = (args.at(1), args.at(2));
    let mut names: BTreeSet<String> = BTreeSet::new();
    each(&mut |name| {
        let wanted = name.as_bytes().starts_with(prefix);
        let last = names.last().filter(|_| names.len() == NAMES_MAX);
        let fits = last.is_none_or(|last| name < last.as_str());
        if wanted && fits && (after.is_empty() || name.as_bytes() > after) {
            names.insert(name.to_owned());
            if names.len() > NAMES_MAX {
                names.pop_last();
            }
        }
    });
    reply.array(names.len());
    for name in names {
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// The options of a `SCAN`.
struct Scan {
    count: u32,
    pattern: Option<Glob>,
    /// Whether it selects a type that no counter has.
    void: bool,
}

impl Scan {
    fn parse<'a>(args: &Args<'a>) -> Result<Scan, ReplyError<'a>> {
        let mut scan = Scan {
            count: COUNT_DEFAULT,
            pattern: None,
            void: false,
        };
        for at in (2..args.len()).step_by(2) {
            let value = args.at(at + 1);
            if at + 1 == args.len() {
                return Err(ReplyError::Syntax);
            }
            match args.at(at).to_ascii_lowercase().as_slice() {
                b"count" => match integer(value)? {
                    ..1 => return Err(ReplyError::Syntax),
                    count => scan.count = u32::try_from(count).unwrap_or(u32::MAX),
                },
                b"match" => {
                    glob::check(value)?;
                    scan.pattern = (value != b"*").then(|| Glob::new(value));
                }
                b"type" => {
                    let named = |name: &&&str| name.as_bytes().eq_ignore_ascii_case(value);
                    let name = TYPES
                        .iter()
                        .find(named)
                        .ok_or(ReplyError::TypeName(value))?;
                    scan.void = *name != "string";
                }
                _ => return Err(ReplyError::Syntax),
            }
        }
        Ok(scan)
    }
}

/// Lists the counters from the cursor on. A counter keeps its KeyId while it exists, and a cursor
/// is a place among the KeyIds. So every counter that exists from a scan's first call to its last
/// is listed. If KeyIds were given anew in between, the scan begins again. It ends early once it
/// has compared as many bytes as a turn may. Returns its work.
fn scan<'a>(
    space: usize,
    args: &Args<'a>,
    host: &mut dyn Host,
    reply: &mut Reply<'_>,
) -> Result<usize, ReplyError<'a>> {
    let cursor = cursor(args.at(1)).ok_or(ReplyError::Cursor)?;
    let scan = Scan::parse(args)?;
    let KeyIdRange { end, generation } = host.key_ids(space);
    let mut at = match cursor >> 32 == u64::from(generation) {
        true => cursor as u32, // its lower half
        false => 0,
    };
    let replica = host.replica(space);
    let mut found = Vec::new();
    let mut left = scan
        .count
        .saturating_mul(PASSED_FOR_EACH)
        .min(SCAN_WORK_MAX);
    if scan.void {
        at = end;
    }
    let (count, from) = (scan.count.min(SCAN_WORK_MAX) as usize, at);
    let (mut seen, mut steps) = (0, 0);
    while at < end && left > 0 && seen < count && steps < TURN_WORK_MAX * STEPS_FOR_WORK {
        let counter = KeyId::from_u32(at);
        if let Some(key) = existing(replica, counter) {
            seen += 1;
            let fits = |glob: &Glob| glob.matches(key.as_bytes(), &mut steps);
            if scan.pattern.as_ref().is_none_or(fits) {
                found.push(counter);
            }
        }
        at += 1;
        left -= 1;
    }
    let next = match at < end {
        true => u64::from(generation) << 32 | u64::from(at),
        false => 0,
    };
    reply.array(2);
    reply.value(Some(i128::from(next)));
    write_keys(replica, &found, reply);
    Ok((at - from) as usize + steps / STEPS_FOR_WORK)
}

fn cursor(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

/// The key of a counter, if the counter exists and is no part of a budget.
fn existing(replica: &Replica, counter: KeyId) -> Option<&str> {
    let key = replica.key(counter).filter(|key| !is_reserved(key))?;
    replica.value_at(counter).map(|_| key)
}

fn write_keys(replica: &Replica, counters: &[KeyId], reply: &mut Reply<'_>) {
    reply.array(counters.len());
    for counter in counters {
        reply.bulk(replica.key(*counter).unwrap_or_default().as_bytes());
    }
}

/// A `KEYS` that has gone through some of the counters, and lets others have their turn before it
/// continues.
pub(super) struct Listing {
    space: usize,
    generation: u16,
    glob: Glob,
    /// The next KeyId.
    at: u32,
    /// The keys that matched, and the bytes that they need in the answer.
    found: Vec<KeyId>,
    bytes: usize,
}

impl Listing {
    /// The memory that it uses beside itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.glob.heap_bytes() + self.found.capacity() * size_of::<KeyId>()
    }
}

impl Session {
    /// Lists the counters that match, or as many as it reaches in this turn. In that case the
    /// command is postponed, and continues there. A key that exists from its first turn to its last
    /// is listed. A key that does not exist at the end is not.
    fn keys<'a>(
        &mut self,
        pattern: &'a [u8],
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let space = self.space;
        let KeyIdRange { end, generation } = host.key_ids(space);
        let mut listing = match self.listing.take() {
            Some(listing) if (listing.space, listing.generation) == (space, generation) => listing,
            _ => {
                glob::check(pattern)?;
                Box::new(Listing {
                    space,
                    generation,
                    glob: Glob::new(pattern),
                    at: 0,
                    found: Vec::new(),
                    bytes: 0,
                })
            }
        };
        let replica = host.replica(space);
        let mut steps = 0;
        while listing.at < end {
            if self.work + steps / STEPS_FOR_WORK >= TURN_WORK_MAX {
                self.work += steps / STEPS_FOR_WORK;
                self.listing = Some(listing);
                self.put_off = true;
                return Ok(());
            }
            let counter = KeyId::from_u32(listing.at);
            listing.at += 1;
            self.work += 1;
            let Some(key) = existing(replica, counter) else {
                continue;
            };
            if listing.glob.matches(key.as_bytes(), &mut steps) {
                listing.bytes += key.len() + 8;
                if listing.bytes > KEYS_BYTES_MAX {
                    return Err(ReplyError::KeysTooMany);
                }
                listing.found.push(counter);
            }
        }
        listing.found.retain(|it| existing(replica, *it).is_some());
        write_keys(replica, &listing.found, reply);
        Ok(())
    }
}

/// An existing counter, if there is one. All are equally likely while most KeyIds are in use.
fn pick(replica: &Replica, end: u32, random: u64) -> Option<KeyId> {
    let exists = |at: u32| {
        let counter = KeyId::from_u32(at);
        existing(replica, counter).map(|_| counter)
    };
    let mut number = random;
    let mut start = 0;
    for _ in 0..TRIES {
        // The upper half of a product spreads over the range.
        number = number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(random | 1);
        start = (((number >> 32) * u64::from(end)) >> 32) as u32; // below `end`
        if let Some(counter) = exists(start) {
            return Some(counter);
        }
    }
    (start..end).chain(0..start).find_map(exists)
}
