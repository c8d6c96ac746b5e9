//! `ONCE`: a command, or all commands that `MULTI` has queued, under an idempotency key. It counts
//! once, however often and at whichever member it is sent.
//!
//! A retry is the same key with the same command and arguments, byte for byte, except the case of
//! the command's name. A retry changes nothing, and nothing is computed again: the result of the
//! first request stands. So the answer to a retry has the present values, and not the values that
//! the first request found.

use super::command::{Command, Kind, Spec, find};
use super::counters::{self, Options, View, key};
use super::error::ReplyError;
use super::multi::Multi;
use super::reply::Reply;
use super::request::Args;
use super::session::{Session, unfit};
use super::{Host, budgets, increx};
use tallymesh_core::{
    AdmissionError, Asker, DecodeError, Error, KeyId, KeyStatus, Once, Transaction,
};
use tallymesh_node_ground::model::bounds::ONCE_KEY_BYTES_MAX;

impl Session {
    /// Makes and answers `ONCE`.
    pub(super) fn once<'a>(
        &mut self,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let (name, args) = (args.at(1), args.from(2));
        let found = find(args.name());
        let is_exec = found.is_some_and(|spec| spec.command == Command::Exec);
        let checked = match check(name, found, &args) {
            Ok(_) if is_exec => return self.exec(Some(name), host, reply),
            // This is as for an `EXEC` that was wrong.
            Err(error) if is_exec => {
                self.multi = None;
                self.watched = Vec::new();
                return Err(ReplyError::ExecAbortBecause(Box::new(error)));
            }
            Ok(_) if self.multi.is_some() => Err(ReplyError::OnceInMulti),
            checked => checked,
        };
        let spec = checked.inspect_err(|_| self.fail_multi())?;
        let once = digest(name, b"redis command", [(spec, args)].into_iter());
        match self.is_made(&once, host)? {
            true => replay(spec, &args, host.replica(self.space), reply),
            false => self.write(spec, &args, Some(once), host, reply),
        }
    }

    /// Whether an operation was made before. If so, `WAIT` waits for the transaction that made it.
    pub(super) fn is_made(
        &mut self,
        once: &Once,
        host: &mut dyn Host,
    ) -> Result<bool, ReplyError<'static>> {
        let space = self.space;
        let asked = host.replica(space).keyed().lookup(once);
        if asked != KeyStatus::New {
            host.asked(space, asked);
        }
        match asked {
            KeyStatus::New => Ok(false),
            KeyStatus::Reused => Err(ReplyError::KeyReused),
            KeyStatus::Before(maker) => {
                let replica = host.replica(space);
                if replica.keyed().is_weaker(once) {
                    return Err(ReplyError::MadeWeaker);
                }
                if !self.levels.is_local() && replica.keyed().written_before(once).is_none() {
                    return Err(Error::Admission(AdmissionError::Outdated).into());
                }
                // Without members there is no wait. Nor is there one for a transaction that all of
                // them have taken over.
                let maker = maker.filter(|_| replica.members().configuration().is_some());
                if let Some((writer, clock)) = maker {
                    self.written(space, writer, clock);
                }
                Ok(true)
            }
        }
    }

    /// Answers all queued commands and makes none of them: they only read, or were made before.
    pub(super) fn answer_all(&self, multi: &Multi, host: &dyn Host, reply: &mut Reply<'_>) {
        let now = host.space_time(self.space);
        let replica = host.replica(self.space);
        reply.array(multi.len());
        for (spec, args) in multi.commands() {
            let start = reply.out.len();
            let done = match spec.kind {
                Kind::Read => counters::read(spec, &args, replica, now, reply),
                Kind::Write => replay(spec, &args, replica, reply),
                _ => self.answer(spec.command, &args, reply),
            };
            if let Err(error) = done {
                reply.out.truncate(start);
                reply.error(&error);
            }
        }
    }
}

impl Multi {
    /// All queued commands, under a key.
    pub(super) fn once(&self, key: &[u8]) -> Once {
        digest(key, b"redis exec", self.commands())
    }
}

/// Makes a transaction visible, under a key if there is one.
pub(super) fn commit(
    tx: Transaction<'_>,
    once: Option<(Once, Asker)>,
    changed: &mut Vec<KeyId>,
) -> Result<(), ReplyError<'static>> {
    let Some((once, asker)) = once else {
        tx.commit(changed);
        return Ok(());
    };
    let made = tx.commit_once_for(once, Some(&asker), changed);
    made.map_err(|error| match error {
        Error::Decode(DecodeError::TooLarge { size, .. }) => {
            ReplyError::OnceTooLarge { bytes: size }
        }
        error => error.into(),
    })
}

/// The command, if it may be made under this key.
fn check<'a>(
    name: &[u8],
    found: Option<&'static Spec>,
    args: &Args<'a>,
) -> Result<&'static Spec, ReplyError<'a>> {
    let fits = found.filter(|spec| spec.takes(args.len()));
    let spec = fits.ok_or_else(|| unfit(found, args))?;
    if spec.kind != Kind::Write && spec.command != Command::Exec {
        return Err(ReplyError::NotOnce(spec.name));
    }
    match (1..=ONCE_KEY_BYTES_MAX).contains(&name.len()) {
        true => Ok(spec),
        false => Err(ReplyError::OnceKey(name.len())),
    }
}

/// The digest of commands under a key, as `kind` of request. It has the number of arguments of
/// each, and the length before each argument, so that no other commands give the same bytes.
fn digest<'a>(
    key: &[u8],
    kind: &[u8],
    commands: impl Iterator<Item = (&'static Spec, Args<'a>)>,
) -> Once {
    let mut content = kind.to_vec();
    let mut put = |bytes: &[u8]| {
        content.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        content.extend_from_slice(bytes);
    };
    for (spec, args) in commands {
        put(&(args.len() as u64).to_le_bytes());
        put(spec.name.as_bytes());
        args.iter().skip(1).for_each(&mut put);
    }
    Once::new(key, &content)
}

/// Answers a command that writes and was made before, with the present values. If the command's
/// answer is a number of counters that it found, the answer is nil. If nil would have another
/// meaning, or the found values are the only purpose of the command, the answer is an error.
fn replay<'a>(
    spec: &'static Spec,
    args: &Args<'a>,
    view: &impl View,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    use Command::{BudgetCap, BudgetEndLease, BudgetFloor, BudgetGrant, BudgetMint, BudgetSpend};
    use Command::{BudgetTransfer, Decr, DecrBy, GetDel, GetEx, GetSet, Incr, IncrBy, IncrEx};
    use Command::{MSet, PSetEx, Set, SetEx, SetNx};
    use Command::{SequenceBegin, SequenceUnwatch, SequenceWatch};
    match spec.command {
        Incr | Decr | IncrBy | DecrBy => match view.value(key(args.at(1))?) {
            Some(value) => reply.number(value),
            None => reply.null(),
        },
        IncrEx => return increx::replay(args, view, reply),
        GetEx => reply.value(view.value(key(args.at(1))?)),
        Set if Options::of_set(args)?.tells() => return Err(ReplyError::Replayed(spec.name)),
        Set | SetEx | PSetEx | MSet => reply.ok(),
        SequenceBegin | SequenceWatch | SequenceUnwatch => reply.ok(),
        BudgetCap | BudgetEndLease | BudgetFloor | BudgetGrant | BudgetMint | BudgetSpend
        | BudgetTransfer => {
            return budgets::told(spec.command, args, view, reply);
        }
        SetNx | GetSet | GetDel => return Err(ReplyError::Replayed(spec.name)),
        _ => reply.null(),
    }
    Ok(())
}
