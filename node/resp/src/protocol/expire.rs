//! Expiries of counters: times in Redis's forms, and the commands about them.

use super::command::{Command, Spec};
use super::counters::{View, Writing, integer, key};
use super::error::ReplyError;
use super::limits::EXPIRY_MAX;
use super::reply::Reply;
use super::request::Args;
use tallymesh_core::Op;
use tallymesh_node_ground::model::{Event, OperationError};

/// The unit of a number that is a time, and the time from which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    InSeconds,
    InMillis,
    AtSeconds,
    AtMillis,
}

impl Until {
    /// The meaning of an option of `SET` or `GETEX`.
    pub(super) fn named(word: &[u8]) -> Option<Until> {
        let names = [
            ("EX", Until::InSeconds),
            ("PX", Until::InMillis),
            ("EXAT", Until::AtSeconds),
            ("PXAT", Until::AtMillis),
        ];
        let found = names
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, until)| *until)
    }

    /// The time in milliseconds since 1970, which may be before that. `None` beyond 64 bits.
    fn time(self, number: i64, now: u64) -> Option<i64> {
        let millis = match self {
            Until::InSeconds | Until::AtSeconds => number.checked_mul(1000)?,
            Until::InMillis | Until::AtMillis => number,
        };
        match self {
            Until::InSeconds | Until::InMillis => millis.checked_add(i64::try_from(now).ok()?),
            Until::AtSeconds | Until::AtMillis => Some(millis),
        }
    }

    /// The time in `text`. The time and the number itself must be above 0.
    pub(super) fn deadline<'a>(
        self,
        text: &'a [u8],
        name: &'static str,
        now: Option<u64>,
    ) -> Result<u64, ReplyError<'a>> {
        let number = integer(text)?;
        let time = self.time(number, known(now)?).filter(|_| number > 0);
        let time = time.and_then(|time| u64::try_from(time).ok());
        time.filter(|time| *time <= EXPIRY_MAX)
            .ok_or(ReplyError::ExpireTime(name))
    }
}

/// The time of the space, unless the node still awaits the clock of another member.
pub(super) fn known<'a>(now: Option<u64>) -> Result<u64, ReplyError<'a>> {
    now.ok_or(ReplyError::Operation(
        OperationError::CatchingUp(Vec::new()),
    ))
}

/// Answers the `TTL` family.
pub(super) fn read(command: Command, key: &str, view: &impl View, now: u64, reply: &mut Reply<'_>) {
    if view.value(key).is_none() {
        return reply.integer(-2);
    }
    let Some(at) = view.expiry(key) else {
        return reply.integer(-1);
    };
    let left = at.saturating_sub(now);
    let number = match command {
        Command::Ttl => (left + 500) / 1000,
        Command::PTtl => left,
        Command::ExpireTime => (at + 500) / 1000,
        _ => at,
    };
    reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

/// The conditions of the `EXPIRE` family.
#[derive(Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn parse<'a>(args: &Args<'a>) -> Result<Conditions, ReplyError<'a>> {
        let mut is = Conditions::default();
        for word in args.iter().skip(3) {
            let option = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut is.nx,
                b"xx" => &mut is.xx,
                b"gt" => &mut is.gt,
                b"lt" => &mut is.lt,
                _ => return Err(ReplyError::ExpireOption(word)),
            };
            *option = true;
        }
        if is.nx && (is.xx || is.gt || is.lt) {
            return Err(ReplyError::ExpireNx);
        }
        match is.gt && is.lt {
            true => Err(ReplyError::ExpireGtLt),
            false => Ok(is),
        }
    }

    /// Whether `time` may replace `current`. A counter without an expiry lives for ever.
    fn hold(&self, time: i64, current: Option<u64>) -> bool {
        let current = current.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| time <= current)
            || self.lt && current.is_some_and(|current| time >= current))
    }
}

impl<'a> Writing<'_, '_, 'a> {
    /// Makes and answers the `EXPIRE` family. A time in the past deletes the counter at once.
    pub(super) fn expire(
        &mut self,
        spec: &'static Spec,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let until = match spec.command {
            Command::Expire => Until::InSeconds,
            Command::PExpire => Until::InMillis,
            Command::ExpireAt => Until::AtSeconds,
            _ => Until::AtMillis,
        };
        let key = key(args.at(1))?;
        let conditions = Conditions::parse(args)?;
        let (number, now) = (integer(args.at(2))?, known(self.now)?);
        let time = until.time(number, now);
        let time =
            time.filter(|time| u64::try_from(*time).is_ok_and(|at| at <= EXPIRY_MAX) || *time < 0);
        let time = time.ok_or(ReplyError::ExpireTime(spec.name))?;
        let exists = self.tx.value(key).is_some();
        let done = exists && conditions.hold(time, self.tx.expiry(key));
        if done {
            match u64::try_from(time) {
                Ok(at) if at > now => self.apply(key, Op::Expire(at), Event::Expire)?,
                _ => {
                    self.delete(key)?;
                }
            }
        }
        reply.integer(i64::from(done));
        Ok(())
    }
}
