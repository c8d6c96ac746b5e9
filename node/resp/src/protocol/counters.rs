//! The meaning of commands on single counters: reads of a view, and writes to a transaction.

use super::budgets;
use super::command::{Command, Spec, Sub, find_sub};
use super::error::ReplyError;
use super::expire::{self, Until};
use super::limits::KEY_BYTES_MAX;
use super::reply::Reply;
use super::request::{Args, number};
use super::server::help;
use tallymesh_core::{
    Budget, Error, MemberError, Op, Period, QuotaError, RESERVED, Replica, Transaction, WriteError,
};
use tallymesh_node_ground::model::{Event, Role, Turned};

/// The source of reads: a replica, or a transaction that is being made. The parts of budgets are no
/// counters, and not shown.
pub(super) trait View {
    fn value(&self, key: &str) -> Option<i128>;
    fn expiry(&self, key: &str) -> Option<u64>;
    fn budget(&self, name: &str) -> Option<Budget>;
    /// The present period of a key, if a limit covers it.
    ///
    /// # Errors
    /// [`MemberError::NotAMember`] if this replica has never met the members, so that it knows no
    /// limit. The errors of [`QuotaRef::period`](tallymesh_core::QuotaRef::period) for a key that a
    /// limit covers.
    fn period(&self, key: &str) -> Result<Option<Period>, Error>;
}

/// Whether a limit covers a key, as far as the members' configuration is known here.
fn is_limited(replica: &Replica, key: &str) -> Result<bool, Error> {
    let present = replica.members().configuration();
    let present = present.ok_or(Error::Member(MemberError::NotAMember))?;
    Ok(present.limit_of(key).is_some())
}

impl View for Replica {
    fn value(&self, key: &str) -> Option<i128> {
        Replica::value(self, key).filter(|_| !is_reserved(key))
    }

    fn expiry(&self, key: &str) -> Option<u64> {
        self.expiry_at(self.key_id(key).filter(|_| !is_reserved(key))?)
    }

    fn budget(&self, name: &str) -> Option<Budget> {
        self.quota().budget(name)
    }

    fn period(&self, key: &str) -> Result<Option<Period>, Error> {
        let period = is_limited(self, key)?.then(|| self.quota().period(key));
        period.transpose()
    }
}

impl View for Transaction<'_> {
    fn value(&self, key: &str) -> Option<i128> {
        Transaction::value(self, key).filter(|_| !is_reserved(key))
    }

    fn expiry(&self, key: &str) -> Option<u64> {
        Transaction::expiry(self, key).filter(|_| !is_reserved(key))
    }

    fn budget(&self, name: &str) -> Option<Budget> {
        self.quota().budget(name)
    }

    fn period(&self, key: &str) -> Result<Option<Period>, Error> {
        let period = is_limited(self.replica(), key)?.then(|| self.quota().period(key));
        period.transpose()
    }
}

/// Whether a key is reserved for the parts of budgets, sequences and limits. No counter has such a
/// key.
#[inline]
pub(super) fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED)
}

/// The key of a counter, if the bytes are a valid one.
#[inline]
pub(super) fn key(bytes: &[u8]) -> Result<&str, ReplyError<'_>> {
    match shown_key(bytes)? {
        key if is_reserved(key) => Err(ReplyError::Core(Error::Quota(QuotaError::ReservedKey))),
        key => Ok(key),
    }
}

/// A key for a read only. A reserved key has no counter, so a [`View`] shows none.
#[inline]
pub(super) fn shown_key(bytes: &[u8]) -> Result<&str, ReplyError<'_>> {
    if !(1..=KEY_BYTES_MAX).contains(&bytes.len()) {
        let bytes = bytes.len();
        return Err(ReplyError::Core(Error::Write(WriteError::KeyLength {
            bytes,
        })));
    }
    std::str::from_utf8(bytes).map_err(|_| ReplyError::KeyText)
}

/// The number in an argument.
#[inline]
pub(super) fn integer(text: &[u8]) -> Result<i64, ReplyError<'_>> {
    number(text).ok_or(ReplyError::NotInteger)
}

/// A value to store.
fn counted(text: &[u8]) -> Result<i64, ReplyError<'_>> {
    number(text).ok_or(ReplyError::NotCounterValue)
}

/// The amount by which the `INCR` family changes a counter. `None` for other commands.
#[inline]
pub(super) fn amount<'a>(command: Command, args: &Args<'a>) -> Option<Result<i64, ReplyError<'a>>> {
    Some(match command {
        Command::Incr => Ok(1),
        Command::Decr => Ok(-1),
        Command::IncrBy => integer(args.at(2)),
        Command::DecrBy => {
            integer(args.at(2)).and_then(|by| by.checked_neg().ok_or(ReplyError::DecrementOverflow))
        }
        _ => return None,
    })
}

/// The value of a counter after an add, if both values fit into 64 bits.
#[inline]
pub(super) fn sum<'a>(before: Option<i128>, by: i64) -> Result<i64, ReplyError<'a>> {
    // Several writers together may exceed 64 bits; Redis has no such integer.
    let before = i64::try_from(before.unwrap_or(0)).map_err(|_| ReplyError::NotInteger)?;
    before.checked_add(by).ok_or(ReplyError::Overflow)
}

/// Answers a command that reads counters.
///
/// # Errors
/// When its arguments are wrong. Part of an answer may then already be in the output.
pub(super) fn read<'a>(
    spec: &'static Spec,
    args: &Args<'a>,
    view: &impl View,
    now: u64,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    match spec.command {
        Command::Get => reply.value(view.value(shown_key(args.at(1))?)),
        Command::MGet => {
            reply.array(args.len() - 1);
            for arg in args.iter().skip(1) {
                reply.value(view.value(shown_key(arg)?));
            }
        }
        Command::Exists | Command::Touch => {
            let mut count = 0;
            for arg in args.iter().skip(1) {
                count += usize::from(view.value(shown_key(arg)?).is_some());
            }
            reply.count(count);
        }
        Command::Type => reply.status(match view.value(shown_key(args.at(1))?) {
            Some(_) => "string",
            None => "none",
        }),
        Command::Object => read_object(args, view, reply)?,
        Command::BudgetGet => budgets::get(view.budget(shown_key(args.at(1))?), reply),
        Command::ExpireTime | Command::PExpireTime | Command::PTtl | Command::Ttl => {
            expire::read(spec.command, shown_key(args.at(1))?, view, now, reply);
        }
        other => unreachable!("{other:?} has no arm among the reads"),
    }
    Ok(())
}

fn read_object<'a>(
    args: &Args<'a>,
    view: &impl View,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let sub = check_sub("object", Command::Object, args)?;
    if sub == Sub::Help {
        help("object", Command::Object, reply);
        return Ok(());
    }
    if view.value(shown_key(args.at(2))?).is_none() {
        reply.null();
        return Ok(());
    }
    match sub {
        Sub::ObjectEncoding => reply.bulk(b"int"),
        Sub::ObjectRefCount => reply.integer(1),
        Sub::ObjectFreq => return Err(ReplyError::Frequency),
        _ => return Err(ReplyError::IdleTime),
    }
    Ok(())
}

/// The part of a command in the arguments, if their number is valid for it.
pub(super) fn check_sub<'a>(
    name: &'static str,
    command: Command,
    args: &Args<'a>,
) -> Result<Sub, ReplyError<'a>> {
    let Some(found) = find_sub(command, args.at(1)) else {
        return Err(ReplyError::UnknownSubcommand {
            command: name,
            name: args.at(1),
        });
    };
    match found.takes(args.len()) {
        true => Ok(found.sub),
        false => Err(ReplyError::SubcommandArity {
            command: name,
            name: found.name,
        }),
    }
}

/// Whether a command that writes is one operation, so that it is made whole or not at all. These are
/// nearly all commands.
pub(super) fn is_one_step(spec: &Spec) -> bool {
    use Command::{Decr, DecrBy, Incr, IncrBy};
    matches!(spec.command, Incr | Decr | IncrBy | DecrBy)
}

/// Most operations of a transaction that a command needs.
pub(super) fn ops_max(spec: &Spec, args: &Args<'_>) -> usize {
    match spec.command {
        Command::MSet => args.len() / 2,
        Command::Del | Command::Unlink => args.len() - 1,
        Command::BudgetTransfer => args.len() / 2,
        // One for the number, and one for the end of its watch.
        Command::SequenceNext => 2,
        // The notice of the watch, and the writer that handed the number out.
        Command::SequenceUnwatch => 8,
        // One for a value and one for its expiry.
        _ => 2,
    }
}

/// The writes of one transaction.
pub(super) struct Writing<'d, 'r, 'a> {
    pub(super) tx: &'d mut Transaction<'r>,
    /// The time, in milliseconds since 1970. `None` while the node awaits the clock of another member: then it must
    /// not be asked for a time that counts from now.
    pub(super) now: Option<u64>,
    /// Whether options are refused that only a centre could keep.
    pub(super) strict: bool,
    /// The role of the session's ticket, where clients need tickets.
    pub(super) role: Option<Role>,
    /// The events for subscribers.
    pub(super) events: &'d mut Vec<(Event, &'a str)>,
}

impl<'a> Writing<'_, '_, 'a> {
    /// Makes a command that writes, and answers it.
    ///
    /// # Errors
    /// When it is refused. Its arguments are checked before anything is done. The replica may still
    /// refuse one of several steps, for example for a counter that a budget's name has. Then the
    /// caller drops the transaction, or makes the command as an [attempt](Transaction::attempt).
    pub(super) fn run(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        if let Some(by) = amount(spec.command, args) {
            return self.add(key(args.at(1))?, by?, reply);
        }
        match spec.command {
            Command::Set => self.set(args, reply),
            Command::SetNx => self.set_new(args, reply),
            Command::SetEx => self.set_until(spec, Until::InSeconds, args, reply),
            Command::PSetEx => self.set_until(spec, Until::InMillis, args, reply),
            Command::MSet => self.set_many(args, reply),
            Command::GetSet => self.get_set(args, reply),
            Command::GetDel => self.get_del(args, reply),
            Command::GetEx => self.get_until(args, reply),
            Command::Del | Command::Unlink => self.delete_many(args, reply),
            Command::IncrEx => self.add_bounded(args, reply),
            Command::Persist => {
                let key = key(args.at(1))?;
                let had = self.persist(key)?;
                reply.integer(i64::from(had));
                Ok(())
            }
            Command::BudgetCap
            | Command::BudgetEndLease
            | Command::BudgetFloor
            | Command::BudgetGrant
            | Command::BudgetLease
            | Command::BudgetMint
            | Command::BudgetSpend
            | Command::BudgetTransfer => self.flow(spec.command, args, reply),
            Command::SequenceBegin
            | Command::SequenceNext
            | Command::SequenceWatch
            | Command::SequenceUnwatch => self.sequence(spec.command, args, reply),
            Command::Expire | Command::ExpireAt | Command::PExpire | Command::PExpireAt => {
                self.expire(spec, args, reply)
            }
            other => unreachable!("{other:?} has no arm among the writes"),
        }
    }

    fn add(&mut self, key: &'a str, by: i64, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        let after = sum(self.tx.value(key), by)?;
        self.apply(key, Op::Add(by), Event::IncrBy)?;
        reply.integer(after);
        Ok(())
    }

    fn set(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        let key = key(args.at(1))?;
        let options = Options::of_set(args)?;
        let until = options.deadline("set", self.now)?;
        let value = counted(args.at(2))?;
        if options.tells() {
            self.check_strict("set nx|xx|get", "Use SET without them, or INCRBY.")?;
        }
        let before = self.tx.value(key);
        let made = options
            .if_present
            .is_none_or(|present| present == before.is_some());
        if made {
            let until = until.or_else(|| self.tx.expiry(key).filter(|_| options.keep));
            self.store(key, value, until)?;
        }
        match (options.get, made) {
            (true, _) => reply.value(before),
            (false, true) => reply.ok(),
            (false, false) => reply.null(),
        }
        Ok(())
    }

    /// Sets a counter, with an expiry if there is one.
    fn store(
        &mut self,
        key: &'a str,
        value: i64,
        until: Option<u64>,
    ) -> Result<(), ReplyError<'a>> {
        self.apply(key, Op::Set(value), Event::Set)?;
        match until {
            Some(at) => self.apply(key, Op::Expire(at), Event::Expire),
            None => Ok(()),
        }
    }

    fn set_new(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        self.check_strict("setnx", "Use SET, or INCRBY.")?;
        let (key, value) = (key(args.at(1))?, counted(args.at(2))?);
        let new = self.tx.value(key).is_none();
        if new {
            self.store(key, value, None)?;
        }
        reply.integer(i64::from(new));
        Ok(())
    }

    fn set_until(
        &mut self,
        spec: &'static Spec,
        until: Until,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let (key, at) = (
            key(args.at(1))?,
            until.deadline(args.at(2), spec.name, self.now)?,
        );
        self.store(key, counted(args.at(3))?, Some(at))?;
        reply.ok();
        Ok(())
    }

    fn set_many(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        if args.len().is_multiple_of(2) {
            return Err(ReplyError::Arity("mset"));
        }
        let pairs = || (1..args.len()).step_by(2);
        for at in pairs() {
            key(args.at(at))?;
            counted(args.at(at + 1))?;
        }
        for at in pairs() {
            self.store(key(args.at(at))?, counted(args.at(at + 1))?, None)?;
        }
        reply.ok();
        Ok(())
    }

    fn get_set(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        self.check_strict(
            "getset",
            "Use GET or SET; to begin a new period, count under a new key.",
        )?;
        let (key, value) = (key(args.at(1))?, counted(args.at(2))?);
        let before = self.tx.value(key);
        self.store(key, value, None)?;
        reply.value(before);
        Ok(())
    }

    fn get_del(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        self.check_strict(
            "getdel",
            "Use GET or DEL; to begin a new period, count under a new key.",
        )?;
        let key = key(args.at(1))?;
        let before = self.tx.value(key);
        self.delete(key)?;
        reply.value(before);
        Ok(())
    }

    fn get_until(&mut self, args: &Args<'a>, reply: &mut Reply<'_>) -> Result<(), ReplyError<'a>> {
        let key = key(args.at(1))?;
        let options = Options::parse(args, 2, Options::GETEX)?;
        let value = self.tx.value(key);
        if value.is_none() {
            reply.null();
            return Ok(());
        }
        match options.deadline("getex", self.now)? {
            Some(at) if Some(at) <= self.now => {
                self.delete(key)?;
            }
            Some(at) => self.apply(key, Op::Expire(at), Event::Expire)?,
            None if options.persist => {
                self.persist(key)?;
            }
            None => {}
        }
        reply.value(value);
        Ok(())
    }

    fn delete_many(
        &mut self,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        for arg in args.iter().skip(1) {
            key(arg)?;
        }
        let mut count = 0;
        for arg in args.iter().skip(1) {
            count += usize::from(self.delete(key(arg)?)?);
        }
        reply.count(count);
        Ok(())
    }

    /// Deletes a counter. Returns whether it existed.
    pub(super) fn delete(&mut self, key: &'a str) -> Result<bool, ReplyError<'a>> {
        let existed = self.tx.value(key).is_some();
        if existed {
            self.apply(key, Op::Delete, Event::Del)?;
        }
        Ok(existed)
    }

    pub(super) fn persist(&mut self, key: &'a str) -> Result<bool, ReplyError<'a>> {
        // Without an expiry there is nothing to remove, and nothing to send to others.
        let had = self.tx.expiry(key).is_some();
        if had {
            self.apply(key, Op::Persist, Event::Persist)?;
        }
        Ok(had)
    }

    pub(super) fn apply(
        &mut self,
        key: &'a str,
        op: Op,
        event: Event,
    ) -> Result<(), ReplyError<'a>> {
        self.tx.apply(key, op)?;
        self.events.push((event, key));
        Ok(())
    }

    /// Checks that the session's ticket allows some forms of a command.
    pub(super) fn check_role(&self, needed: Role, what: &str) -> Result<(), ReplyError<'a>> {
        match self.role {
            Some(role) if role < needed => Err(Turned::of_role(what, needed, role).into()),
            _ => Ok(()),
        }
    }

    fn check_strict(
        &self,
        what: &'static str,
        instead: &'static str,
    ) -> Result<(), ReplyError<'a>> {
        match self.strict {
            true => Err(ReplyError::NeedsCentre { what, instead }),
            false => Ok(()),
        }
    }
}

/// The options after the value of `SET`, or after the key of `GETEX`.
#[derive(Default)]
pub(super) struct Options<'a> {
    /// `XX` is true, `NX` is false.
    if_present: Option<bool>,
    get: bool,
    keep: bool,
    persist: bool,
    until: Option<(Until, &'a [u8])>,
}

impl<'a> Options<'a> {
    const SET: bool = true;
    const GETEX: bool = false;

    /// The options of `SET`.
    pub(super) fn of_set(args: &Args<'a>) -> Result<Options<'a>, ReplyError<'a>> {
        Options::parse(args, 3, Options::SET)
    }

    /// Whether the answer depends on the earlier value.
    pub(super) fn tells(&self) -> bool {
        self.get || self.if_present.is_some()
    }

    fn parse(args: &Args<'a>, from: usize, set: bool) -> Result<Options<'a>, ReplyError<'a>> {
        let mut options = Options::default();
        let mut at = from;
        while at < args.len() {
            let word = args.at(at);
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let timed = options.until.map(|(until, _)| until);
            if set && is("NX") && options.if_present != Some(true) {
                options.if_present = Some(false);
            } else if set && is("XX") && options.if_present != Some(false) {
                options.if_present = Some(true);
            } else if set && is("GET") {
                options.get = true;
            } else if set && is("KEEPTTL") && timed.is_none() {
                options.keep = true;
            } else if !set && is("PERSIST") && timed.is_none() {
                options.persist = true;
            } else if let Some(until) = Until::named(word)
                && !options.keep
                && !options.persist
                && timed.is_none_or(|timed| timed == until)
                && at + 1 < args.len()
            {
                at += 1;
                options.until = Some((until, args.at(at)));
            } else {
                return Err(ReplyError::Syntax);
            }
            at += 1;
        }
        Ok(options)
    }

    fn deadline(
        &self,
        name: &'static str,
        now: Option<u64>,
    ) -> Result<Option<u64>, ReplyError<'a>> {
        self.until
            .map(|(until, text)| until.deadline(text, name, now))
            .transpose()
    }
}
