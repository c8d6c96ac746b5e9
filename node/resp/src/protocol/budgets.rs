//! `BUDGET.…`: commands on budgets, which Redis does not have. Each is one command, so that roles,
//! keys and transactions work as for all others.

use super::command::{Command, Spec, find};
use super::counters::{View, Writing, key};
use super::error::ReplyError;
use super::expire::known;
use super::reply::Reply;
use super::request::{Args, number};
use tallymesh_core::{Budget, Error, Flow, Holding, LeaseId, QuotaError, Replica, RightKind};
use tallymesh_node_ground::model::{Lack, OperationError, Recipient, grant};

/// An amount of a budget.
fn quantity(text: &[u8]) -> Result<u64, ReplyError<'_>> {
    let number = number(text).ok_or(ReplyError::NotInteger)?;
    u64::try_from(number).map_err(|_| ReplyError::Quantity)
}

/// `RAISE` or `LOWER`.
fn raises<'a>(word: &'a [u8]) -> Result<bool, ReplyError<'a>> {
    match word.to_ascii_lowercase().as_slice() {
        b"raise" => Ok(true),
        b"lower" => Ok(false),
        _ => Err(ReplyError::Syntax),
    }
}

impl<'a> Writing<'_, '_, 'a> {
    /// Makes a command on a budget, and answers as [`told`] does.
    pub(super) fn flow(
        &mut self,
        command: Command,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let name = key(args.at(1))?;
        let flow = match command {
            Command::BudgetGrant => {
                self.grant(name, args)?;
                return told(command, args, self.tx, reply);
            }
            Command::BudgetTransfer => {
                self.transfer(name, args)?;
                return told(command, args, self.tx, reply);
            }
            Command::BudgetLease => return self.lease(name, args, reply),
            Command::BudgetEndLease => Flow::EndLease {
                id: lease_id(args.at(2))?,
            },
            Command::BudgetFloor if raises(args.at(2))? => Flow::RaiseFloor(quantity(args.at(3))?),
            Command::BudgetFloor => Flow::LowerFloor(quantity(args.at(3))?),
            Command::BudgetCap if raises(args.at(2))? => Flow::RaiseCap(quantity(args.at(3))?),
            Command::BudgetCap => Flow::LowerCap(quantity(args.at(3))?),
            Command::BudgetMint => Flow::Mint(quantity(args.at(2))?),
            Command::BudgetSpend => spend(args)?,
            other => unreachable!("{other:?} has no arm among the writes of budgets"),
        };
        let made = self.tx.quota_mut().flow(name, flow);
        made.map_err(OperationError::from)?;
        told(command, args, self.tx, reply)
    }

    fn lease(
        &mut self,
        name: &'a str,
        args: &Args<'a>,
        reply: &mut Reply<'_>,
    ) -> Result<(), ReplyError<'a>> {
        let (id, amount) = (lease_id(args.at(2))?, quantity(args.at(3))?);
        known(self.now)?;
        let given = self
            .tx
            .quota_mut()
            .lease(name, id, quantity(args.at(4))?, amount);
        let lease = given.map_err(OperationError::from)?;
        reply.number(lease.until.into());
        Ok(())
    }

    fn grant(&mut self, name: &'a str, args: &Args<'a>) -> Result<(), ReplyError<'a>> {
        let kind = granted(args)?;
        let text = std::str::from_utf8(args.at(2)).ok();
        let to = text.and_then(Recipient::parse);
        let to = to.ok_or(ReplyError::Recipient(args.at(2)))?;
        grant(self.tx, name, &to, kind, quantity(args.at(3))?)?;
        Ok(())
    }

    fn transfer(&mut self, from: &'a str, args: &Args<'a>) -> Result<(), ReplyError<'a>> {
        if !args.len().is_multiple_of(2) {
            return Err(ReplyError::Arity("budget.transfer"));
        }
        let pairs = (2..args.len()).step_by(2);
        let shares = pairs.map(|at| Ok((key(args.at(at))?, quantity(args.at(at + 1))?)));
        let shares: Result<Vec<(&str, u64)>, ReplyError<'a>> = shares.collect();
        let made = self.tx.quota_mut().transfer(from, &shares?);
        made.map_err(OperationError::from)?;
        Ok(())
    }
}

/// A lease's id.
fn lease_id<'a>(text: &'a [u8]) -> Result<LeaseId, ReplyError<'a>> {
    let id = std::str::from_utf8(text).unwrap_or_default();
    Ok(LeaseId::parse(id)?)
}

/// The operation of `BUDGET.SPEND`, which may name a lease.
fn spend<'a>(args: &Args<'a>) -> Result<Flow, ReplyError<'a>> {
    let amount = quantity(args.at(2))?;
    match args.len() {
        3 => Ok(Flow::Spend(amount)),
        5 if args.at(3).eq_ignore_ascii_case(b"lease") => {
            let id = lease_id(args.at(4))?;
            Ok(Flow::SpendLeased { id, amount })
        }
        _ => Err(ReplyError::Syntax),
    }
}

/// The kind of rights that a grant moves.
fn granted<'a>(args: &Args<'a>) -> Result<RightKind, ReplyError<'a>> {
    match args.len() {
        4 => Ok(RightKind::Rights),
        5 if args.at(4).eq_ignore_ascii_case(b"room") => Ok(RightKind::Room),
        _ => Err(ReplyError::Syntax),
    }
}

/// Answers a command on a budget that was made, now or before. The answer is the present value,
/// floor or cap, or the rest here that can be granted.
pub(super) fn told<'a>(
    command: Command,
    args: &Args<'a>,
    view: &impl View,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let budget = view.budget(key(args.at(1))?);
    let shown = match command {
        Command::BudgetFloor => budget.map(|it| it.floor),
        Command::BudgetCap => budget.and_then(|it| it.cap),
        Command::BudgetGrant => budget.and_then(|it| match granted(args) {
            Ok(RightKind::Room) => it.room.map(|room| room.here),
            _ => Some(it.rights.here),
        }),
        _ => budget.map(|it| it.value),
    };
    match shown {
        Some(number) => reply.number(number),
        None => reply.null(),
    }
    Ok(())
}

/// The lack for which a command was refused. If a transfer lacks room, the budget is not named.
#[inline]
pub(super) fn lacked(
    spec: Option<&'static Spec>,
    args: &Args<'_>,
    error: &ReplyError<'_>,
    view: &impl View,
) -> Option<Lack> {
    let error = match error {
        ReplyError::AtBound { why, .. } => why,
        error => error,
    };
    let (amount, kind) = match error {
        ReplyError::Core(Error::Quota(QuotaError::RightsShort(short))) => {
            (short.asked, Some(RightKind::Rights))
        }
        ReplyError::Core(Error::Quota(QuotaError::RoomShort(short))) => {
            (short.asked, Some(RightKind::Room))
        }
        ReplyError::Core(Error::Quota(QuotaError::LimitReached(short))) => {
            (short.asked, Some(RightKind::Period))
        }
        ReplyError::Core(Error::Quota(QuotaError::NumbersShort)) => (1, None),
        _ => return None,
    };
    // After `ONCE` and its key comes the command itself.
    let (command, args) = match spec.map(|it| it.command) {
        Some(Command::Once) => (find(args.at(2)).map(|it| it.command), args.from(2)),
        command => (command, *args),
    };
    let is_told = command != Some(Command::BudgetTransfer) || kind == Some(RightKind::Rights);
    let name = key(args.at(1)).ok().filter(|_| is_told)?;
    let name = match kind {
        Some(RightKind::Period) => view.period(name).ok()??.name,
        _ => name.to_owned(),
    };
    Some(Lack { name, kind, amount })
}

/// Answers `BUDGET.GET`.
pub(super) fn get(budget: Option<Budget>, reply: &mut Reply<'_>) {
    let Some(budget) = budget else {
        return reply.null();
    };
    let held = |it: Holding| [it.here, it.pending, it.elsewhere];
    let rights = ["rights", "rights-pending", "rights-elsewhere"];
    let room = ["room", "room-pending", "room-elsewhere"];
    let mut fields = vec![("value", budget.value), ("floor", budget.floor)];
    fields.extend(budget.cap.map(|cap| ("cap", cap)));
    fields.extend(rights.into_iter().zip(held(budget.rights)));
    fields.push(("leased", budget.leased));
    let of_room = budget.room.into_iter().flat_map(held);
    fields.extend(room.into_iter().zip(of_room));
    reply.map(fields.len());
    for (name, number) in fields {
        reply.bulk(name.as_bytes());
        reply.value(Some(number));
    }
}

/// Answers `BUDGET.HOLDERS`: for each writer its id, its rights, its room and its amount on lease.
pub(super) fn holders<'a>(
    args: &Args<'a>,
    replica: &Replica,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let holders = replica.quota().holders_of(key(args.at(1))?);
    reply.array(holders.len());
    for holder in holders {
        reply.array(4);
        reply.bulk(holder.writer.to_string().as_bytes());
        reply.value(Some(holder.rights));
        reply.value(Some(holder.room));
        reply.value(Some(holder.leased));
    }
    Ok(())
}

/// Answers `BUDGET.LEASES`: for each lease its id, the writer that gave it, its rest, and when the
/// rest returns.
pub(super) fn leases<'a>(
    args: &Args<'a>,
    replica: &Replica,
    reply: &mut Reply<'_>,
) -> Result<(), ReplyError<'a>> {
    let mut leases = replica.quota().leases_of(key(args.at(1))?);
    leases.sort_unstable_by_key(|it| (it.until, it.id));
    reply.array(leases.len());
    for lease in leases {
        reply.array(4);
        reply.bulk(lease.id.to_string().as_bytes());
        reply.bulk(lease.writer.to_string().as_bytes());
        reply.value(Some(lease.left));
        reply.value(Some(lease.until.into()));
    }
    Ok(())
}
