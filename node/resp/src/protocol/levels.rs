//! `CLIENT LEVEL`: how many members the commands of a session have to reach.
//!
//! At a level above local, a write is made at once, and its answer waits until so many members have
//! stored it durably. A read is postponed until this node has everything that so many members have.
//! Meanwhile the session executes no other command.

use super::Host;
use super::command::{Command, Kind, Spec, find};
use super::error::ReplyError;
use super::reply::Reply;
use super::request::{Args, number};
use super::session::{LastWrite, Session, Wait, note};
use tallymesh_core::Level;
use tallymesh_node_ground::model::bounds::LEVEL_WAIT_MS_MAX;

/// The default wait for a level, in milliseconds, as over HTTP.
const WAIT_MS: u64 = 5_000;

/// The reason why a level was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The stable code of the refusal.
    pub code: &'static str,
    /// The text of the refusal.
    pub text: String,
}

/// How far a session's commands have to reach, and the waiting command.
pub(super) struct Levels {
    level: Level,
    wait_ms: u64,
    /// The result of the wait of a read, which is executed next.
    seen: Option<Result<(), Unmet>>,
    /// The writes of the present command.
    wrote: Vec<LastWrite>,
    /// The answer that waits until all writes have reached the level.
    answer: Vec<u8>,
}

impl Default for Levels {
    fn default() -> Levels {
        Levels {
            level: Level::Local,
            wait_ms: WAIT_MS,
            seen: None,
            wrote: Vec::new(),
            answer: Vec::new(),
        }
    }
}

impl Levels {
    #[inline]
    pub(super) fn is_local(&self) -> bool {
        self.level == Level::Local
    }

    /// Whether the next command is a postponed one.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.seen.is_some()
    }

    /// Drops the result of the wait of a read that is not executed after all. The next read has its
    /// own wait.
    pub(super) fn forget_seen(&mut self) {
        self.seen = None;
    }

    /// Records the writes of a command.
    #[inline]
    pub(super) fn note(&mut self, written: LastWrite) {
        if !self.is_local() {
            note(&mut self.wrote, written);
        }
    }

    /// The wait for the next write, if any is left.
    fn next_write(&mut self) -> Option<Wait> {
        Some(Wait::Write {
            written: self.wrote.pop()?,
            level: self.level,
            timeout_ms: self.wait_ms,
        })
    }
}

impl Session {
    /// Answers and sets the level.
    pub(super) fn client_level<'a>(
        &mut self,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let name = args.at(2);
        let mut levels = [Level::Local, Level::Quorum, Level::All].into_iter();
        let named = levels.find(|it| it.name().as_bytes().eq_ignore_ascii_case(name));
        let wait_ms = match args.len() {
            2 => {
                reply.bulk(self.levels.level.name().as_bytes());
                return Ok(());
            }
            3 => WAIT_MS,
            4 => {
                let millis = number(args.at(3)).ok_or(ReplyError::TimeoutNotInteger)?;
                u64::try_from(millis).map_err(|_| ReplyError::TimeoutNegative)?
            }
            _ => return Err(ReplyError::Syntax),
        };
        self.levels.level = named.ok_or(ReplyError::LevelName(name))?;
        self.levels.wait_ms = wait_ms.min(LEVEL_WAIT_MS_MAX);
        reply.ok();
        Ok(())
    }

    /// Executes a command, once this node has the state that it reads. Its writes have to reach the
    /// level.
    pub(super) fn perform_at_level<'a>(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let seen = self.levels.seen.take();
        // Queued commands were checked when they were queued.
        if self.multi.is_none() && is_held_back(spec) {
            let spaces = match spec.command {
                Command::FlushAll => 0..host.spaces(),
                _ => self.space..self.space + 1,
            };
            for space in spaces {
                self.check_members(space, host)?;
            }
        }
        match seen {
            None if self.reads(spec, args) => {
                self.put_off = true;
                self.wait = Some(Wait::Read {
                    space: self.space,
                    level: self.levels.level,
                    timeout_ms: self.levels.wait_ms,
                });
                return Ok(());
            }
            Some(Err(unmet)) => return Err(self.unseen(unmet)),
            None | Some(Ok(())) => {}
        }
        self.levels.wrote.clear();
        let start = reply.out.len();
        self.perform(spec, args, host, reply)?;
        if self.put_off {
            // It continues in the next turn, and has already waited.
            self.levels.seen = seen;
        }
        if let Some(wait) = self.levels.next_write() {
            self.levels.answer = reply.out.split_off(start);
            self.wait = Some(wait);
        }
        Ok(())
    }

    /// Refuses a command that no member could reach.
    pub(super) fn check_members(
        &self,
        space: usize,
        host: &mut dyn Host,
    ) -> Result<(), ReplyError<'static>> {
        let members = host.replica(space).members().configuration();
        members.map(|_| ()).ok_or(ReplyError::NoMembers)
    }

    /// Whether a command shows counters, itself or through the commands queued by `MULTI`.
    fn reads(&self, spec: &Spec, args: &Args<'_>) -> bool {
        let ends = match spec.command {
            Command::Once => find(args.at(2)).is_some_and(|it| it.command == Command::Exec),
            command => command == Command::Exec,
        };
        match &self.multi {
            Some(multi) => ends && multi.reads(),
            None => matches!(spec.kind, Kind::Read | Kind::Keyspace),
        }
    }

    /// The refusal of a command whose state did not arrive in time. No part of it was done, so
    /// queued commands are discarded.
    fn unseen(&mut self, unmet: Unmet) -> ReplyError<'static> {
        let error = ReplyError::Unmet(unmet);
        match self.multi.take() {
            None => error,
            Some(_) => {
                self.watched = Vec::new();
                ReplyError::ExecAbortBecause(Box::new(error))
            }
        }
    }

    /// Ends its wait for a level. Feed it after that, even with no bytes.
    pub fn answer_level(&mut self, met: Result<(), Unmet>, out: &mut Vec<u8>) {
        match self.wait {
            Some(Wait::Read { .. }) => {
                self.wait = None;
                self.levels.seen = Some(met);
            }
            Some(Wait::Write { .. }) => {
                let resp3 = self.resp3;
                let answer = std::mem::take(&mut self.levels.answer);
                self.wait = match met {
                    Ok(()) => self.levels.next_write(),
                    Err(unmet) => {
                        Reply { out, resp3 }.error(&ReplyError::Unmet(unmet));
                        self.levels.wrote.clear();
                        return self.wait = None;
                    }
                };
                match self.wait {
                    Some(_) => self.levels.answer = answer,
                    None => out.extend_from_slice(&answer),
                }
            }
            Some(
                Wait::Holders { .. }
                | Wait::Rights { .. }
                | Wait::Membership { .. }
                | Wait::Pause { .. },
            )
            | None => {}
        }
    }
}

/// Whether a command needs members, when no commands are queued.
fn is_held_back(spec: &Spec) -> bool {
    let kinds = [Kind::Read, Kind::Keyspace, Kind::Write, Kind::Flush];
    kinds.contains(&spec.kind) || spec.command == Command::Once
}
