//! `MULTI`: queued commands, made as one transaction, and guarded by watched keys.

use super::command::{Command, Kind, Spec};
use super::counters::{self, Writing, check_sub, key, ops_max};
use super::error::ReplyError;
use super::limits::{
    QUEUED_ARGS_MAX, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, TRANSACTION_OPS_MAX, WATCHED_MAX,
};
use super::once::commit;
use super::reply::Reply;
use super::request::{Args, Span};
use super::session::Session;
use super::{Host, budgets};
use tallymesh_core::{Error, KeyId, KeyStatus, Once, RESERVED, Replica, Transaction, WriteError};
use tallymesh_node_ground::model::Event;

/// The commands that `MULTI` has queued, with their arguments in one buffer.
#[derive(Default)]
pub(super) struct Multi {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Each command, and where its arguments end in `spans`.
    commands: Vec<(&'static Spec, usize)>,
    /// Most operations of the transaction that they need.
    ops: usize,
    /// Whether a command was refused, so that `EXEC` will be.
    failed: bool,
}

impl Multi {
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.commands.capacity() * size_of::<(&Spec, usize)>()
    }

    fn push(&mut self, spec: &'static Spec, args: &Args<'_>) -> Result<(), ReplyError<'static>> {
        let ops = match spec.kind {
            Kind::Write => ops_max(spec, args),
            _ => 0,
        };
        let bytes: usize = args.iter().map(<[u8]>::len).sum();
        if self.commands.len() == QUEUED_COMMANDS_MAX
            || self.ops + ops > TRANSACTION_OPS_MAX
            || self.spans.len() + args.len() > QUEUED_ARGS_MAX
            || self.bytes.len() + bytes > QUEUED_BYTES_MAX
        {
            return Err(ReplyError::QueueFull);
        }
        self.ops += ops;
        args.copy_to(&mut self.bytes, &mut self.spans);
        self.commands.push((spec, self.spans.len()));
        Ok(())
    }

    /// Whether any of them writes counters.
    fn writes(&self) -> bool {
        let mut commands = self.commands.iter();
        commands.any(|(spec, _)| spec.kind == Kind::Write)
    }

    /// Whether any of them reads counters.
    pub(super) fn reads(&self) -> bool {
        self.commands
            .iter()
            .any(|(spec, _)| spec.kind == Kind::Read)
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = (&'static Spec, Args<'_>)> {
        let mut start = 0;
        self.commands.iter().map(move |(spec, end)| {
            let spans = self.spans.get(start..*end).unwrap_or_default();
            start = *end;
            (*spec, Args::new(&self.bytes, spans))
        })
    }
}

/// A key from `WATCH`.
pub(super) struct Watched {
    space: usize,
    key: Box<str>,
    version: u64,
}

impl Session {
    /// Makes and answers the commands about transactions.
    pub(super) fn transaction<'a>(
        &mut self,
        command: Command,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        match command {
            Command::Exec => return self.exec(None, host, reply),
            Command::Once => return self.once(args, host, reply),
            Command::Multi if self.multi.is_some() => return Err(ReplyError::MultiNested),
            Command::Multi => self.multi = Some(Box::default()),
            Command::Discard => {
                self.multi.take().ok_or(ReplyError::DiscardWithoutMulti)?;
                self.watched = Vec::new();
            }
            Command::Watch => self.watch(args, host)?,
            _ => self.watched = Vec::new(),
        }
        reply.ok();
        Ok(())
    }

    /// Queues a command for `EXEC`.
    pub(super) fn queue<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let fits = match spec.command {
            Command::Object => check_sub("object", Command::Object, args).map(|_| ()),
            _ => Ok(()),
        };
        let queued = match (fits, &mut self.multi) {
            (Ok(()), Some(multi)) => multi.push(spec, args),
            (fits, _) => fits,
        };
        if queued.is_err() {
            self.fail_multi();
        } else {
            reply.status("QUEUED");
        }
        queued
    }

    /// Makes the next `EXEC` fail, if commands are being queued.
    pub(super) fn fail_multi(&mut self) {
        if let Some(multi) = &mut self.multi {
            // It will be discarded in any case.
            **multi = Multi {
                failed: true,
                ..Multi::default()
            };
        }
    }

    fn watch<'a>(&mut self, args: &Args<'a>, host: &mut dyn Host) -> Result<(), ReplyError<'a>> {
        if self.multi.is_some() {
            return Err(ReplyError::WatchInMulti);
        }
        if self.config.strict {
            return Err(ReplyError::NeedsCentre {
                what: "watch",
                instead: "Use MULTI alone: its commands are made together, whatever happens.",
            });
        }
        for arg in args.iter().skip(1) {
            key(arg)?;
        }
        if self.watched.len() + args.len() - 1 > WATCHED_MAX {
            return Err(ReplyError::WatchedFull);
        }
        let space = self.space;
        for arg in args.iter().skip(1) {
            let key = key(arg)?;
            let mut watched = self.watched.iter();
            // A key that was already watched may have changed meanwhile.
            if !watched.any(|it| it.space == space && *it.key == *key) {
                self.watched.push(Watched {
                    space,
                    key: key.into(),
                    version: host.replica(space).version(key),
                });
            }
        }
        Ok(())
    }

    /// Makes the queued commands, under an idempotency key if there is one.
    pub(super) fn exec<'a>(
        &mut self,
        key: Option<&[u8]>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let multi = self.multi.take().ok_or(ReplyError::ExecWithoutMulti)?;
        self.work += multi.len();
        let watched = std::mem::take(&mut self.watched);
        if multi.failed {
            return Err(ReplyError::ExecAbort);
        }
        let once = key.map(|key| multi.once(key));
        if let Some(once) = &once
            && self.is_made(once, host)?
        {
            self.answer_all(&multi, host, reply);
            return Ok(());
        }
        let mut watched = watched.iter();
        if watched.any(|it| host.replica(it.space).version(&it.key) != it.version) {
            reply.null_array();
            return Ok(());
        }
        if once.is_none() && !multi.writes() {
            self.answer_all(&multi, host, reply);
            return Ok(());
        }
        let mut events = Vec::new();
        if let Some(changed) = self.make(&multi, once, host, &mut events, reply)? {
            self.tell(host, &changed, &events, once.is_some());
        }
        Ok(())
    }

    /// Makes all queued commands on one transaction. A refused command leaves nothing of its steps,
    /// and the others are made, as in Redis. Under a key, one refusal refuses all, and there is no further
    /// answer. The reason is that a retry must be able to tell what was made.
    fn make<'m>(
        &self,
        multi: &'m Multi,
        once: Option<Once>,
        host: &mut dyn Host,
        events: &mut Vec<(Event, &'m str)>,
        reply: &mut Reply<'_>,
    ) -> Result<Option<Vec<KeyId>>, ReplyError<'static>> {
        let (now, strict) = (host.space_time(self.space), self.config.strict);
        let known = self.known_time(host);
        let abort = |error: Error| ReplyError::ExecAbortBecause(Box::new(ReplyError::Core(error)));
        self.prepare(multi.commands(), host).map_err(abort)?;
        let keyed = once.map(|once| (once, host.asker(self.space)));
        let present = host.at_present(self.space);
        let begun = host.writable(self.space).and_then(Replica::begin);
        let mut tx = begun.map_err(abort)?;
        let begin = reply.out.len();
        let (mut lacks, mut failed) = (Vec::new(), false);
        reply.array(multi.len());
        for (spec, args) in multi.commands() {
            let (start, told) = (reply.out.len(), events.len());
            let done = match spec.kind {
                Kind::Read => counters::read(spec, &args, &tx, now, reply),
                Kind::Write => {
                    let mut run = |tx: &mut Transaction<'_>| {
                        let mut writing = Writing {
                            tx,
                            now: known,
                            strict,
                            role: self.role,
                            events: &mut *events,
                        };
                        writing.run(spec, &args, reply)
                    };
                    match counters::is_one_step(spec) {
                        true => run(&mut tx),
                        false => tx.attempt(run),
                    }
                }
                _ => self.answer(spec.command, &args, reply),
            };
            match done {
                Ok(()) => {}
                // The replica has no room for a transaction like this one.
                Err(ReplyError::Core(
                    error @ Error::Write(
                        WriteError::CountersFull { .. } | WriteError::TransactionTooLarge { .. },
                    ),
                )) => return Err(abort(error)),
                Err(error) => {
                    let lack = budgets::lacked(Some(spec), &args, &error, &tx);
                    let quota = tx.replica().quota();
                    let error = error.at_present(&present, lack.as_ref(), quota);
                    lacks.extend(lack);
                    if once.is_some() {
                        reply.out.truncate(begin);
                        reply.error(&ReplyError::ExecAbortBecause(Box::new(error)));
                        failed = true;
                        break;
                    }
                    events.truncate(told);
                    reply.out.truncate(start);
                    reply.error(&error);
                }
            }
        }
        let mut changed = Vec::new();
        match failed {
            true => drop(tx),
            false => commit(tx, keyed, &mut changed)
                .map_err(|error| ReplyError::ExecAbortBecause(Box::new(error)))?,
        }
        lacks.iter().for_each(|it| host.lacks(self.space, it));
        Ok(Some(changed).filter(|_| !failed))
    }

    /// Reports the changes of this session's transaction to the host. A transaction without changes
    /// was only made if it is `kept` for its key.
    pub(super) fn tell(
        &mut self,
        host: &mut dyn Host,
        changed: &[KeyId],
        events: &[(Event, &str)],
        kept: bool,
    ) {
        if changed.is_empty() && !kept {
            return;
        }
        let space = self.space;
        let replica = host.replica(space);
        self.written(space, replica.writer(), replica.clock());
        if kept {
            host.asked(space, KeyStatus::New);
        }
        if changed.is_empty() {
            return host.made(space);
        }
        let mut told = Vec::with_capacity(events.len());
        for (event, key) in events {
            if let Some(counter) = host.replica(space).key_id(key) {
                host.wrote(space, counter, *event);
                told.push(counter);
            }
        }
        told.sort_unstable();
        for counter in changed {
            if told.binary_search(counter).is_err() {
                let replica = host.replica(space);
                let event = match replica.quota().budget_at(*counter) {
                    Some(_) => Event::Budget,
                    // There are no events about sequences and periods.
                    None if replica
                        .key(*counter)
                        .is_some_and(|it| it.starts_with(RESERVED)) =>
                    {
                        Event::Merge
                    }
                    // No command requested that change: the counter had expired, and a command
                    // found it.
                    None => Event::Expired,
                };
                host.wrote(space, *counter, event);
            }
        }
    }
}
