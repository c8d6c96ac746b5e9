//! `INCREX`: adds within bounds, and sets an expiry with it.
//!
//! A bound must be kept by all replicas that add, at the same time. A counter has no bounds,
//! because a replica has only its own state. So the kind of the key decides how a bound is kept:
//!
//! - **A limit covers the key**: the command allows an amount in the present [period](Period).
//!   `UBOUND` is the limit, and `EX` with `ENX` its period, or they are left out.
//! - **A budget has the name**: the command spends, or mints. `LBOUND` is its floor, `UBOUND` its
//!   cap, or they are left out.
//! - **Otherwise it is a counter**, which accepts an expiry and no bounds.
//!
//! The kind must be known. A node that has never met the members knows no limit, so it refuses the
//! command. A key that a limit covers and that is too long for a period is refused, too.
//!
//! Only a centre could keep other bounds and expiries. They are refused, with the alternative. A
//! change that would leave a bound is answered as in Redis: with the value at this node, and 0.

use super::counters::{View, Writing, key};
use super::error::ReplyError;
use super::expire::{Until, known};
use super::reply::Reply;
use super::request::{Args, number};
use super::why::Why;
use tallymesh_core::{Budget, Error, Flow, KeyId, Op, Period, QuotaError, Replica};
use tallymesh_node_ground::model::{Event, OperationError, Role};

/// The options after the key.
#[derive(Default)]
pub(super) struct Bounded<'a> {
    /// The amount, 1 if it is left out.
    by: i64,
    lower: Option<i64>,
    upper: Option<i64>,
    saturates: bool,
    until: Option<(Until, &'a [u8])>,
    persist: bool,
    /// Whether it expires only if it had no expiry.
    if_none: bool,
}

impl<'a> Bounded<'a> {
    /// Reads the options as Redis does: each once, in any order.
    pub(super) fn parse(args: &Args<'a>) -> Result<Bounded<'a>, ReplyError<'a>> {
        let mut it = Bounded::default();
        let (mut by, mut lower, mut upper) = (None, None, None);
        let mut at = 2;
        while at < args.len() {
            let word = args.at(at);
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let value = Some(args.at(at + 1)).filter(|_| at + 1 < args.len());
            let timed = it.until.is_some() || it.persist;
            let flag = match () {
                () if is("SATURATE") && !it.saturates => Some(&mut it.saturates),
                () if is("ENX") && !it.if_none && !it.persist => Some(&mut it.if_none),
                () if is("PERSIST") && !timed && !it.if_none => Some(&mut it.persist),
                () => None,
            };
            if let Some(flag) = flag {
                *flag = true;
                at += 1;
                continue;
            }
            let value = value.ok_or(ReplyError::Syntax)?;
            let named = match () {
                () if is("BYINT") => &mut by,
                () if is("LBOUND") => &mut lower,
                () if is("UBOUND") => &mut upper,
                () if is("BYFLOAT") && by.is_none() => {
                    let (name, why) = (word, Why::NotInteger);
                    return Err(ReplyError::Unsupported { name, why });
                }
                () => {
                    let until = Until::named(word).filter(|_| !timed);
                    it.until = Some((until.ok_or(ReplyError::Syntax)?, value));
                    at += 2;
                    continue;
                }
            };
            if named.replace(value).is_some() {
                return Err(ReplyError::Syntax);
            }
            at += 2;
        }
        if it.if_none && it.until.is_none() {
            return Err(ReplyError::EnxAlone);
        }
        let read = |text: Option<&'a [u8]>, what| {
            let read = |text| number(text).ok_or(ReplyError::NotIntegerOption(what));
            text.map(read).transpose()
        };
        it.by = read(by, "Increment")?.unwrap_or(1);
        it.lower = read(lower, "LBOUND")?;
        it.upper = read(upper, "UBOUND")?;
        match it.lower.zip(it.upper).is_some_and(|(low, high)| low > high) {
            true => Err(ReplyError::BoundsCrossed),
            false => Ok(it),
        }
    }

    fn deadline(&self, now: Option<u64>) -> Result<Option<u64>, ReplyError<'a>> {
        let deadline = |(until, text): (Until, &'a [u8])| until.deadline(text, "increx", now);
        self.until.map(deadline).transpose()
    }

    /// The option that does not fit the limit of a key, if there is one.
    fn against_limit(&self, period: &Period, now: u64) -> Result<Option<String>, ReplyError<'a>> {
        let limit = &period.limit;
        let (most, name, period_ms) = (limit.limit, &limit.name, limit.period_ms);
        let deadline = self.deadline(Some(now))?;
        let fits = |until: Until, at: u64| match until {
            Until::InSeconds | Until::InMillis => at - now == period_ms,
            Until::AtSeconds | Until::AtMillis => at == period.ends,
        };
        let until = self.until.map(|it| it.0).zip(deadline);
        Ok(match () {
            () if self.by < 0 => Some(format!(
                "The limit '{name}' covers this key, and of a period nothing is given back"
            )),
            () if self.upper.is_some_and(|it| u64::try_from(it) != Ok(most)) => Some(format!(
                "The limit '{name}' covers this key with {most}: leave UBOUND out, or set another \
                 limit with 'tallymesh limit set'"
            )),
            () if self.lower.is_some_and(|it| it > 0) => Some(format!(
                "The limit '{name}' covers this key, and what is used of it begins at 0: leave \
                 LBOUND out"
            )),
            () if self.persist || until.is_some() && !self.if_none => Some(format!(
                "The limit '{name}' covers this key with periods that nothing makes longer: give ENX \
                 along, or leave the expiry out"
            )),
            () if until.is_some_and(|(until, at)| !fits(until, at)) => Some(format!(
                "The limit '{name}' covers this key with periods of {period_ms} ms: give PX \
                 {period_ms} ENX, or leave the expiry out"
            )),
            () => None,
        })
    }

    /// The option that does not fit a budget, if there is one.
    fn against_budget(&self, budget: &Budget) -> Option<String> {
        let (floor, cap) = (budget.floor, budget.cap);
        match () {
            () if self.until.is_some() || self.persist => {
                Some("A budget goes by this name, and has no expiry: leave that out".to_owned())
            }
            () if self.lower.is_some_and(|it| i128::from(it) != floor) => Some(format!(
                "The budget's floor is {floor}: leave LBOUND out, or move it with BUDGET.FLOOR"
            )),
            () if self.upper.is_some_and(|it| Some(i128::from(it)) != cap) => Some(match cap {
                Some(cap) => format!(
                    "The budget's cap is {cap}: leave UBOUND out, or move it with BUDGET.CAP"
                ),
                None => "The budget has no cap: leave UBOUND out".to_owned(),
            }),
            () => None,
        }
    }

    /// The option that does not fit a counter, if there is one.
    fn against_counter(&self) -> Option<&'static str> {
        (self.lower.is_some() || self.upper.is_some()).then_some(
            "A counter has no bounds that all nodes keep. For so much in each period set a limit of \
             this name with 'tallymesh limit set'; for so much in all make it a budget, with \
             BUDGET.MINT or BUDGET.CAP",
        )
    }
}

/// Does the work before the transaction of the command: brings this node's share of a period in.
pub(super) fn prepare(
    args: &Args<'_>,
    replica: &mut Replica,
    changed: &mut Vec<KeyId>,
) -> Result<(), Error> {
    let (Ok(asked), Ok(key)) = (Bounded::parse(args), key(args.at(1))) else {
        return Ok(());
    };
    match u64::try_from(asked.by) {
        // A saturating command uses whatever there is, however little.
        Ok(by) if asked.saturates => replica.quota_mut().bring_in_for(key, by.min(1), changed),
        Ok(by) => replica.quota_mut().bring_in_for(key, by, changed),
        Err(_) => Ok(()),
    }
}

impl<'a> Writing<'_, '_, 'a> {
    pub(super) fn add_bounded(
        &mut self,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let (key, asked) = (key(args.at(1))?, Bounded::parse(args)?);
        if let Some(period) = View::period(&*self.tx, key)? {
            let by = self.allow(key, &asked, period)?;
            let used = View::period(&*self.tx, key)?.map_or(0, |it| it.used());
            reply.changed(used, by);
            return Ok(());
        }
        if let Some(budget) = self.tx.budget(key) {
            let by = self.flow_bounded(key, &asked, &budget)?;
            let value = self.tx.budget(key).map_or(0, |it| it.value);
            reply.changed(value, by);
            return Ok(());
        }
        self.count_bounded(key, &asked, reply)
    }

    /// Allows an amount of a period. Returns how much.
    fn allow(
        &mut self,
        key: &'a str,
        asked: &Bounded<'a>,
        period: Period,
    ) -> Result<i64, ReplyError<'a>> {
        if let Some(instead) = asked.against_limit(&period, known(self.now)?)? {
            return Err(ReplyError::BoundNeedsCentre(instead.into()));
        }
        let cost = asked.by.unsigned_abs();
        let (here, used) = (period.left.here, period.used());
        self.within(asked, cost, here, used, |writing, cost| {
            writing.tx.quota_mut().allow(key, cost)
        })
    }

    /// Spends from a budget, or mints. Returns the change.
    fn flow_bounded(
        &mut self,
        key: &'a str,
        asked: &Bounded<'a>,
        budget: &Budget,
    ) -> Result<i64, ReplyError<'a>> {
        if let Some(instead) = asked.against_budget(budget) {
            return Err(ReplyError::BoundNeedsCentre(instead.into()));
        }
        let amount = asked.by.unsigned_abs();
        if asked.by < 0 {
            let here = budget.rights.here;
            let spent = self.within(asked, amount, here, budget.value, |writing, amount| {
                writing.tx.quota_mut().flow(key, Flow::Spend(amount))
            })?;
            return Ok(-spent);
        }
        self.check_role(Role::Editor, "'increx' that mints")?;
        let here = budget.room.map_or(i128::MAX, |it| it.here);
        self.within(asked, amount, here, budget.value, |writing, amount| {
            writing.tx.quota_mut().flow(key, Flow::Mint(amount))
        })
    }

    /// Uses this amount or, if it saturates, at most the amount that is here. Returns how much.
    fn within(
        &mut self,
        asked: &Bounded<'a>,
        amount: u64,
        here: i128,
        value: i128,
        make: impl Fn(&mut Self, u64) -> Result<(), Error>,
    ) -> Result<i64, ReplyError<'a>> {
        let some = u64::try_from(here)
            .ok()
            .filter(|it| (1..amount).contains(it));
        let amount = some.filter(|_| asked.saturates).unwrap_or(amount);
        // The used amount fits into 63 bits.
        let made =
            i64::try_from(amount).map_err(|_| Error::Quota(QuotaError::AmountRange { amount }));
        let made = made.and_then(|by| make(self, amount).map(|()| by));
        made.map_err(|error| match error {
            Error::Quota(
                QuotaError::LimitReached(_) | QuotaError::RightsShort(_) | QuotaError::RoomShort(_),
            ) => {
                let why = Box::new(error.into());
                ReplyError::AtBound { value, why }
            }
            error => OperationError::from(error).into(),
        })
    }

    fn count_bounded(
        &mut self,
        key: &'a str,
        asked: &Bounded<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        if let Some(instead) = asked.against_counter() {
            return Err(ReplyError::BoundNeedsCentre(instead.into()));
        }
        let deadline = asked.deadline(self.now)?;
        if deadline.is_some() || asked.persist {
            self.check_role(Role::Editor, "'increx' with an expiry")?;
        }
        let before = self.tx.value(key).unwrap_or(0);
        // Several writers together may exceed 64 bits; Redis has no such integer.
        let before = i64::try_from(before).map_err(|_| ReplyError::NotInteger)?;
        let (after, by) = match before.checked_add(asked.by) {
            Some(after) => (after, asked.by),
            None if asked.saturates => {
                let after = before.saturating_add(asked.by);
                (after, after - before)
            }
            None => {
                let (value, why) = (before.into(), Box::new(ReplyError::Overflow));
                return Err(ReplyError::AtBound { value, why });
            }
        };
        let stays = asked.if_none && self.tx.expiry(key).is_some();
        match deadline.filter(|_| !stays) {
            Some(at) if Some(at) <= self.now => {
                self.delete(key)?;
            }
            deadline => {
                self.apply(key, Op::Add(by), Event::IncrBy)?;
                if let Some(at) = deadline {
                    self.apply(key, Op::Expire(at), Event::Expire)?;
                }
                if asked.persist {
                    self.persist(key)?;
                }
            }
        }
        reply.changed(after.into(), by);
        Ok(())
    }
}

/// Answers a command that was made before, with its whole amount, because under a key only a whole
/// one is made.
pub(super) fn replay<'a>(
    args: &Args<'a>,
    view: &impl View,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let (key, asked) = (key(args.at(1))?, Bounded::parse(args)?);
    if asked.saturates {
        return Err(ReplyError::Replayed("increx"));
    }
    // A limit may cover the key only since then, or may be unknown here. The amount has counted.
    let Ok(period) = view.period(key) else {
        return Err(ReplyError::Replayed("increx"));
    };
    let period = period.map(|it| it.used());
    let value = period.or_else(|| view.budget(key).map(|it| it.value));
    let value = value.or_else(|| view.value(key)).unwrap_or(0);
    reply.changed(value, asked.by);
    Ok(())
}
