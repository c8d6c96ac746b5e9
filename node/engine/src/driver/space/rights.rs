//! Writes that wait for rights of a budget, for room under its cap, or for numbers of a sequence.
//! The node requests them from other members. While a member starts, they wait until it takes part.

use super::{OpenSpace, Refusal};
use crate::driver::levels::Reply;
use crate::driver::{Permit, Release};
use crate::metrics::Metrics;
use std::sync::Arc;
use tallymesh_core::{Error, QuotaError, RequestId, RightKind, RightsProgress, period_end};
use tallymesh_node_ground::model::{
    AtPresent, Demand, Keyed, Lack, Operation, OperationError, Transacted, Written,
};

/// How long after the node's start what an earlier start of it held is about to come back, in milliseconds. Lower
/// lets a client be told that rights are used up which this node has once others know of its start. Higher has a
/// client try again for longer, where another member holds it up.
const STARTS_MS: u64 = 10_000;

/// A write with all parts of its request.
pub(in crate::driver) struct Write {
    pub(in crate::driver) ops: Vec<Operation>,
    pub(in crate::driver) once: Option<Keyed>,
    pub(in crate::driver) demand: Demand,
    pub(in crate::driver) reply: Reply<Written<Transacted>>,
    /// The deadline of its wait for rights, in milliseconds since the start.
    pub(in crate::driver) until: u64,
    /// The ticket by which it is requested, which may be invalid after a wait.
    pub(in crate::driver) permit: Option<Arc<Permit>>,
    /// The rights that it waits for. `None` if it waits until this node is a member.
    pub(in crate::driver) request: Option<RightsRequest>,
}

/// The rights request of a waiting write or command.
pub(in crate::driver) struct RightsRequest {
    id: RequestId,
    shortage: Lack,
    /// When the period ends for which it waits, in milliseconds since the start; `None` if it waits
    /// for no period.
    ends: Option<u64>,
}

/// A waiting command of a Redis client.
pub(in crate::driver) struct Short {
    /// `None` if it waits until this node is a member.
    request: Option<RightsRequest>,
    until: u64,
    /// Ends the wait, with the number of milliseconds that are left.
    end: Box<dyn FnOnce(u64) -> Release + Send>,
}

impl OpenSpace {
    /// Makes a write, or lets it wait for rights. Returns the answer if there is nothing to wait
    /// for.
    pub(in crate::driver) fn write(
        &mut self,
        now: u64,
        mut write: Write,
        metrics: &Metrics,
    ) -> Option<Release> {
        let permitted = self.permits(&write);
        let checked = permitted.and_then(|()| self.check(&write.demand));
        let done = checked.and_then(|()| self.transact(&write.ops, write.once));
        let mut done = done.map_err(|refusal| self.at_present_refused(now, refusal, None));
        let waited = write.request.take();
        let shortage = match &done {
            Ok(_) => None,
            Err(refusal) => self.shortage(&write.ops, refusal),
        };
        if write.until > now && done.as_ref().is_err_and(is_too_early) {
            if let Some(request) = waited {
                self.end_request(now, &request);
            }
            self.shorts.push(write);
            return None;
        }
        if let Some(shortage) = shortage {
            if write.until > now {
                write.request = Some(self.continue_request(now, waited, shortage, write.until));
                self.shorts.push(write);
                return None;
            }
            let asked = self.lacks(now, &shortage);
            let stuck = self.stuck_of(now, &shortage);
            done = done.map_err(|refusal| {
                let refusal = self.at_present_refused(now, refusal, Some(&shortage));
                refusal.asked(asked).stuck(stuck)
            });
        }
        if let Some(request) = waited {
            self.end_request(now, &request);
        }
        if done.as_ref().is_ok_and(|it| !it.again) {
            metrics.operations(&write.ops);
        }
        let Write {
            once,
            demand,
            reply,
            ..
        } = write;
        self.reach(now, done, once.map(|it| it.once), &demand, reply)
    }

    /// The reasons for which this node refuses things at present.
    pub fn at_present(&self, now: u64) -> AtPresent {
        let has_vote = self.replica.members().has_vote();
        AtPresent {
            not_a_member: self.not_a_member(),
            awaits_clock: self.awaits_clock(),
            takes_over: now < STARTS_MS || !has_vote,
            unreached: match has_vote {
                true => Vec::new(),
                false => self.unreached_members(now),
            },
        }
    }

    /// The refusal with the reason for which it stands [at present](AtPresent).
    fn at_present_refused(&self, now: u64, refusal: Refusal, lack: Option<&Lack>) -> Refusal {
        match refusal {
            Refusal::Op {
                index,
                on,
                key,
                error: OperationError::Core(error),
            } => {
                let reason = self
                    .at_present(now)
                    .reason(&error, lack, self.replica.quota());
                let error = reason.unwrap_or(error.into());
                Refusal::Op {
                    index,
                    on,
                    key,
                    error,
                }
            }
            refusal => refusal,
        }
    }

    /// Judges the ticket by which a write is requested.
    fn permits(&self, write: &Write) -> Result<(), Refusal> {
        let judged = |it: &Arc<Permit>| it.judge_in(self, self.wall());
        write.permit.as_ref().map_or(Ok(()), judged)
    }

    /// Continues an equal rights request, or begins a new one.
    fn continue_request(
        &mut self,
        now: u64,
        waited: Option<RightsRequest>,
        shortage: Lack,
        until: u64,
    ) -> RightsRequest {
        match waited {
            Some(request) if request.shortage == shortage => return request,
            Some(other) => self.end_request(now, &other),
            None => {}
        }
        self.begin_request(now, shortage, until)
    }

    fn begin_request(&mut self, now: u64, shortage: Lack, until: u64) -> RightsRequest {
        let (name, amount) = (&shortage.name, shortage.amount);
        let id = match shortage.kind {
            Some(kind) => self.sync.request_rights(now, name, kind, amount, until),
            None => self.sync.request_numbers(now, name, amount, until),
        };
        let window = Some(name).filter(|_| shortage.kind == Some(RightKind::Period));
        let ends = window.and_then(|it| period_end(it));
        let ends = ends.map(|it| now.saturating_add(it.saturating_sub(self.unix_ms)));
        RightsRequest { id, shortage, ends }
    }

    fn end_request(&mut self, now: u64, request: &RightsRequest) {
        match request.shortage.kind {
            Some(_) => self.sync.end_rights_request(now, request.id),
            None => self.sync.end_numbers(now, request.id),
        }
    }

    /// Whether enough rights have arrived, or there is nothing to wait for any more.
    fn has_arrived(&self, request: &RightsRequest) -> bool {
        let Lack { name, amount, .. } = &request.shortage;
        match request.shortage.kind {
            Some(_) => {
                let progress = self.sync.rights_progress(&self.replica, request.id);
                progress.is_none_or(|it| it.is_met())
            }
            None => self.replica.quota().numbers_here(name) >= *amount,
        }
    }

    /// Waits for the rights for whose lack a command of a Redis client was refused.
    pub fn wait_for_rights(
        &mut self,
        now: u64,
        lack: &Lack,
        timeout_ms: u64,
        end: impl FnOnce(u64) -> Release + Send + 'static,
    ) {
        let until = now.saturating_add(timeout_ms);
        let request = self.begin_request(now, lack.clone(), until);
        let (request, end) = (Some(request), Box::new(end));
        self.commands.push(Short {
            request,
            until,
            end,
        });
    }

    /// Waits until this node is a member, for a command of a Redis client that only a member makes.
    pub fn wait_for_membership(
        &mut self,
        now: u64,
        timeout_ms: u64,
        end: impl FnOnce(u64) -> Release + Send + 'static,
    ) {
        let (request, until, end) = (None, now.saturating_add(timeout_ms), Box::new(end));
        self.commands.push(Short {
            request,
            until,
            end,
        });
    }

    /// Whether the rights have arrived. If no rights are named: whether this node does not start any more, and knows
    /// the time.
    fn is_over(&self, request: Option<&RightsRequest>) -> bool {
        match request {
            Some(request) => self.has_arrived(request),
            None => !self.is_to_be_member() && !self.awaits_clock(),
        }
    }

    /// Requests the missing rights from others, for a client that was refused and does not wait.
    /// Returns the requested amount, if the others have as much.
    pub fn lacks(&mut self, now: u64, lack: &Lack) -> u64 {
        let (name, amount) = (&lack.name, lack.amount);
        let Some(kind) = lack.kind else {
            self.sync.lack_numbers(now, name, amount);
            return 0;
        };
        let progress = self
            .sync
            .rights_progress_of(&self.replica, name, kind, amount);
        self.sync.lack_rights(now, name, kind, amount);
        let missing = |it: RightsProgress| {
            let missing = i128::from(amount) - it.holding.here;
            u64::try_from(missing)
                .ok()
                .filter(|_| missing <= it.reachable)
        };
        progress.and_then(missing).unwrap_or(0)
    }

    /// The rights that are missing here, if a write was refused for their lack.
    fn shortage(&self, ops: &[Operation], refusal: &Refusal) -> Option<Lack> {
        let Refusal::Op { index, error, .. } = refusal else {
            return None;
        };
        if let OperationError::Core(Error::Quota(QuotaError::NumbersShort)) = error {
            let name = ops.get(*index)?.key();
            let same = |it: &&Operation| matches!(it, Operation::Next { key } if key == name);
            return Some(Lack {
                name: name.to_owned(),
                kind: None,
                // The earlier draws of the same transaction need numbers, too.
                amount: ops.get(..=*index)?.iter().filter(same).count() as u64,
            });
        }
        let (short, kind) = match error {
            OperationError::Core(Error::Quota(QuotaError::RightsShort(short))) => {
                (short, RightKind::Rights)
            }
            OperationError::Core(Error::Quota(QuotaError::RoomShort(short))) => {
                (short, RightKind::Room)
            }
            OperationError::Core(Error::Quota(QuotaError::LimitReached(short))) => {
                (short, RightKind::Period)
            }
            _ => return None,
        };
        let name = match &ops.get(*index)? {
            // The transfer lacked room in one of the budgets that it pays into.
            Operation::Transfer { to, .. } if kind == RightKind::Room => {
                let full = to.iter().find(|(name, amount)| {
                    *amount == short.asked && self.held(name, kind).is_some()
                });
                &full?.0
            }
            Operation::Allow { key, .. } => &self.replica.quota().period(key).ok()?.name,
            operation => operation.key(),
        };
        // The earlier operations of the same transaction need rights, too.
        let taken = self.held(name, kind).unwrap_or(0) - short.held.here;
        let amount = i128::from(short.asked) + taken.max(0);
        Some(Lack {
            name: name.to_owned(),
            kind: Some(kind),
            amount: u64::try_from(amount).ok()?,
        })
    }

    /// How much of a budget this node may use now.
    fn held(&self, name: &str, kind: RightKind) -> Option<i128> {
        Some(self.replica.quota().rights(name, kind)?.here)
    }

    /// When the first wait for rights reaches its deadline.
    pub(super) fn shorts_due(&self) -> Option<u64> {
        let due = |until: u64, request: Option<&RightsRequest>| {
            let ends = request.and_then(|request| request.ends);
            ends.map_or(until, |ends| ends.min(until))
        };
        let commands = self
            .commands
            .iter()
            .map(|it| due(it.until, it.request.as_ref()));
        let writes = self
            .shorts
            .iter()
            .map(|it| due(it.until, it.request.as_ref()));
        writes.chain(commands).min()
    }

    /// Removes and returns the writes whose rights have arrived, whose deadline has passed, or
    /// whose tickets are no longer valid.
    pub(in crate::driver) fn take_due_writes(&mut self, now: u64) -> Vec<Write> {
        let mut due = Vec::new();
        for write in std::mem::take(&mut self.shorts) {
            match self.is_over(write.request.as_ref())
                || write.until <= now
                || self.permits(&write).is_err()
            {
                true => due.push(write),
                false => self.shorts.push(write),
            }
        }
        due
    }

    /// Ends the waits of the commands whose rights have arrived, or whose deadline has passed.
    pub(in crate::driver) fn end_due_commands(&mut self, now: u64) -> Vec<Release> {
        let mut ended = Vec::new();
        for short in std::mem::take(&mut self.commands) {
            match self.is_over(short.request.as_ref()) || short.until <= now {
                true => {
                    if let Some(request) = &short.request {
                        self.end_request(now, request);
                    }
                    ended.push((short.end)(short.until.saturating_sub(now)));
                }
                false => self.commands.push(short),
            }
        }
        ended
    }
}

/// Whether a write was refused because this node still starts.
fn is_too_early(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Op { error, .. } => matches!(error, OperationError::CatchingUp(_)),
        refusal => matches!(refusal, Refusal::CatchingUp),
    }
}
