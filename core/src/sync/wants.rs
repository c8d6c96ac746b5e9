//! Requests for rights: a member that is short of rights of a budget asks members that hold some.
//!
//! Every replica sees who holds what. So a member asks exactly those that hold enough, the richest first,
//! each for as much as is still missing. It also says how much was used here of late. A member asks for
//! nothing that all holders together cannot meet, because that would only move rights away from where they
//! are used.
//!
//! The holder gives by a transaction of its own, which arrives as any other; nothing else answers. The holder
//! alone decides how much (`wants/share.rs`): a request is no claim.
//!
//! With nobody waiting, a member asks for more when its rights fall under a few times what it used of late.
//!
//! Only members ask and are asked, on the links between them.

mod give;
mod recent;
mod sequences;
mod share;

use super::{Link, Millis, SyncMachine};
use crate::ledger::{Holding, RightKind};
use crate::replica::Replica;
use crate::wire::{Body, GIVES, LENDS, Want};
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// First interval between requests, in milliseconds. It doubles each time.
const ASK_AGAIN_MS: Millis = 250;
/// Longest interval between requests, in milliseconds.
const ASK_AGAIN_MS_MAX: Millis = 4_000;
/// Duration in milliseconds of a request for a caller that was rejected and does not wait.
const UNWAITED_MS: Millis = 5_000;
/// A member requests more ahead if it holds less than this multiple of its recent use.
const LOW: i128 = 4;
/// Shortest interval in milliseconds between requests for the same rights when no caller is short of them.
const AHEAD_AGAIN_MS: Millis = 250;
/// Maximum number of requests for callers that do not wait. Further ones are dropped.
const UNWAITED_MAX: usize = 1_024;

/// The name of a budget or a period, and the kind of its rights.
pub(super) type RightsId = (String, RightKind);

/// The id of a request for rights, or for numbers of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u32);

/// The progress of a request for rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RightsProgress {
    /// The requested amount.
    pub amount: u64,
    /// The amounts here and elsewhere, according to this replica.
    pub holding: Holding,
    /// The part of the amount elsewhere that belongs to members that can be asked now.
    pub reachable: i128,
    /// The amount of these rights that was requested and has not arrived.
    pub asked: u64,
}

impl RightsProgress {
    /// Whether the whole amount is here. It may be used now, unless another caller uses it first.
    pub fn is_met(&self) -> bool {
        self.holding.here >= i128::from(self.amount)
    }
}

#[derive(Clone)]
struct Open {
    id: RequestId,
    rights: RightsId,
    amount: u64,
    until: Millis,
    /// Whether a caller waits for it.
    waited: bool,
}

/// The open requests for the same rights, by receiver.
#[derive(Clone)]
struct Round {
    rights: RightsId,
    due: Millis,
    tries: u32,
    asked: Vec<SentRequest>,
    /// Members that were asked before and gave nothing. They are asked last.
    silent: Vec<WriterId>,
    /// The smallest amount that was here since then.
    least: i128,
}

/// A request to one member: its writer, the amount, and that writer's clock here at that time.
#[derive(Clone)]
struct SentRequest {
    writer: WriterId,
    need: u64,
    clock: u64,
}

impl Round {
    fn hoped(&self) -> u64 {
        let needs = self.asked.iter().map(|it| it.need);
        needs.fold(0, u64::saturating_add)
    }
}

/// Requests for rights here, and gifts to others.
#[derive(Clone, Default)]
pub(super) struct Wants {
    /// Ordered by waiting time, the longest first.
    open: Vec<Open>,
    rounds: Vec<Round>,
    ids: u32,
    recent: recent::Recent,
    given: give::Gifts,
    /// The next look, if one is due before other timers.
    soon: Option<Millis>,
    /// Requests for numbers of sequences.
    sequences: sequences::Sequences,
}

/// A member that can be asked.
struct Source {
    link: Link,
    writer: WriterId,
    held: u64,
}

/// The missing amount of some rights, and where it can come from.
struct Lack {
    holding: Holding,
    sources: Vec<Source>,
    reachable: i128,
    /// The sum of the requested amounts that can be met, the longest waiting first.
    needed: u64,
}

impl Wants {
    pub(super) fn due(&self) -> Option<Millis> {
        let until = self.open.iter().map(|it| it.until);
        let rounds = self.rounds.iter().map(|it| it.due);
        let others = [self.soon, self.sequences.due()];
        until
            .chain(rounds)
            .chain(others.into_iter().flatten())
            .min()
    }

    pub(super) fn gone(&mut self, link: Link) {
        self.given.gone(link);
    }

    fn open(&mut self, now: Millis, open: Open) -> RequestId {
        let id = RequestId(self.ids);
        self.ids = self.ids.wrapping_add(1);
        self.open.push(Open { id, ..open });
        self.soon = Some(now);
        id
    }
}

impl SyncMachine {
    /// Requests rights for a caller that waits until `until`.
    ///
    /// The next [`Input::Tick`](super::Input), which is due at once, sends requests to members that hold
    /// some. Further ticks repeat them until the amount is here, or until `until`. See
    /// [`rights_progress`](SyncMachine::rights_progress). The caller tries to use the rights whenever the
    /// request [is met](RightsProgress::is_met). Then it [ends](SyncMachine::end_rights_request) the request.
    /// Until then, these rights are given to no other member.
    pub fn request_rights(
        &mut self,
        now: Millis,
        name: &str,
        kind: RightKind,
        amount: u64,
        until: Millis,
    ) -> RequestId {
        let open = Open {
            id: RequestId(0),
            rights: (name.into(), kind),
            amount,
            until,
            waited: true,
        };
        self.wants.open(now, open)
    }

    /// Requests rights for a caller that was rejected and does not wait. The request lasts for a few seconds,
    /// so that a retry finds enough rights here.
    pub fn lack_rights(&mut self, now: Millis, name: &str, kind: RightKind, amount: u64) {
        let until = now + UNWAITED_MS;
        let mut unwaited = self.wants.open.iter_mut().filter(|it| !it.waited);
        let same = unwaited.find(|it| it.rights.1 == kind && it.rights.0 == name);
        if let Some(same) = same {
            same.amount = same.amount.max(amount);
            same.until = until;
            self.wants.soon = Some(now);
            return;
        }
        if unwaited.count() < UNWAITED_MAX {
            let open = Open {
                id: RequestId(0),
                rights: (name.into(), kind),
                amount,
                until,
                waited: false,
            };
            self.wants.open(now, open);
        }
    }

    /// The progress of a request for rights. Returns `None` if there is no such request, for example because
    /// its time is over, or if there is no such budget here.
    pub fn rights_progress(&self, replica: &Replica, request: RequestId) -> Option<RightsProgress> {
        let open = self.wants.open.iter().find(|it| it.id == request)?;
        self.progress_at(replica, &open.rights, open.amount)
    }

    /// The progress of an amount of rights, requested or not. The error of a rejected operation reports it.
    /// Returns `None` if there is no such budget here.
    pub fn rights_progress_of(
        &self,
        replica: &Replica,
        name: &str,
        kind: RightKind,
        amount: u64,
    ) -> Option<RightsProgress> {
        self.progress_at(replica, &(name.into(), kind), amount)
    }

    fn progress_at(&self, replica: &Replica, id: &RightsId, amount: u64) -> Option<RightsProgress> {
        let lack = self.lack(replica, id)?;
        let round = self.wants.rounds.iter().find(|it| it.rights == *id);
        Some(RightsProgress {
            amount,
            holding: lack.holding,
            reachable: lack.reachable,
            asked: round.map_or(0, Round::hoped),
        })
    }

    /// Ends a request for rights.
    pub fn end_rights_request(&mut self, now: Millis, request: RequestId) {
        self.wants.open.retain(|it| it.id != request);
        self.wants.soon = Some(now);
    }

    /// Handles a peer's request for rights, or for numbers of a sequence.
    pub(super) fn asked_for(&mut self, now: Millis, replica: &mut Replica, link: Link, body: Body) {
        match body {
            Body::Want(want) => self.wanted(now, replica, link, want),
            Body::Draw(draw) => self.drawn(now, replica, link, draw),
            _ => {}
        }
    }

    /// Requests missing rights, and records used ones.
    pub(super) fn look_at_wants(&mut self, now: Millis, replica: &mut Replica) {
        self.look_at_sequences(now, replica);
        let mut used: Vec<RightsId> = Vec::new();
        let recent = &mut self.wants.recent;
        replica.quota_mut().take_used(&mut |name, kind, amount| {
            recent.note(now, name, kind, amount);
            used.push((name.into(), kind));
        });
        for id in used {
            self.ask_ahead(now, replica, &id);
        }
        let wants = &mut self.wants;
        wants.soon = None;
        wants.open.retain(|it| it.until > now);
        if wants.open.is_empty() {
            wants.rounds.clear();
            return;
        }
        let mut ids: Vec<RightsId> = wants.open.iter().map(|it| it.rights.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        wants
            .rounds
            .retain(|it| ids.binary_search(&it.rights).is_ok());
        for id in ids {
            self.look_at_rights(now, replica, id);
        }
    }

    fn look_at_rights(&mut self, now: Millis, replica: &Replica, id: RightsId) {
        let Some(lack) = self.lack(replica, &id) else {
            return;
        };
        let here = lack.holding.here;
        // A request without a waiting caller is met as soon as the amount is here.
        let served = |it: &Open| !it.waited && it.rights == id && i128::from(it.amount) <= here;
        self.wants.open.retain(|it| !served(it));
        let short = i128::from(lack.needed) - here;
        let at = self.wants.rounds.iter().position(|it| it.rights == id);
        if short <= 0 {
            at.map(|at| self.wants.rounds.swap_remove(at));
            return;
        }
        let short = u64::try_from(short).unwrap_or(u64::MAX);
        let jitter = self.random.next_u64();
        let rounds = &mut self.wants.rounds;
        let at = at.unwrap_or(rounds.len());
        if at == rounds.len() {
            rounds.push(Round {
                rights: id.clone(),
                due: now,
                tries: 0,
                asked: Vec::new(),
                silent: Vec::new(),
                least: here,
            });
        }
        let round = &mut rounds[at];
        if here > round.least {
            // Some rights arrived. The missing rest is requested at once.
            round
                .asked
                .retain(|it| replica.state.held(&it.writer) == it.clock);
            round.tries = 0;
            round.least = here;
        }
        round.least = round.least.min(here);
        if round.due <= now {
            let wait = (ASK_AGAIN_MS << round.tries.min(8)).min(ASK_AGAIN_MS_MAX);
            round.due = now + wait + jitter % (wait / 4);
            round.tries += 1;
            round.silent = round.asked.drain(..).map(|it| it.writer).collect();
            round.least = here;
        }
        let mut missing = short.saturating_sub(round.hoped());
        let mut requests: Vec<(Link, WriterId, u64)> = Vec::new();
        let mut sources: Vec<&Source> = lack.sources.iter().collect();
        sources.sort_by_key(|it| round.silent.contains(&it.writer));
        for source in sources {
            let need = missing.min(source.held);
            let writer = source.writer;
            if need > 0 && round.asked.iter().all(|it| it.writer != writer) {
                let clock = replica.state.held(&writer);
                round.asked.push(SentRequest {
                    writer,
                    need,
                    clock,
                });
                missing -= need;
                requests.push((source.link, writer, need));
            }
        }
        let used = self.wants.recent.amount(now, &id);
        // The first receiver also gives ahead of the expected use.
        let mut recent = used.saturating_add(lack.needed).min(i64::MAX as u64);
        for (link, writer, need) in requests {
            self.ask_for(replica, link, writer, (&id, need, recent));
            recent = 0;
        }
    }

    /// Requests more from the richest member if little is left compared to the recent use.
    fn ask_ahead(&mut self, now: Millis, replica: &Replica, id: &RightsId) {
        let recent = self.wants.recent.amount(now, id).min(i64::MAX as u64);
        let here = replica.quota().rights(&id.0, id.1).map(|it| it.here);
        let low = here.filter(|here| *here < LOW * i128::from(recent));
        let Some(here) = low.filter(|_| self.wants.recent.is_due(now, id, AHEAD_AGAIN_MS)) else {
            return;
        };
        if let Some(lack) = self.lack(replica, id)
            && let Some(richest) = lack.sources.first()
            && i128::from(richest.held) > here
        {
            self.ask_for(replica, richest.link, richest.writer, (id, 0, recent));
        }
    }

    fn ask_for(
        &mut self,
        replica: &Replica,
        link: Link,
        writer: WriterId,
        (id, need, recent): (&RightsId, u64, u64),
    ) {
        let want = Want {
            kind: id.1,
            name: id.0.clone(),
            seen: replica.state.held(&writer),
            need,
            recent,
        };
        self.send(replica, link, Body::Want(want));
    }

    /// The amounts of some rights, the members that can be asked for them, and the amount needed here.
    fn lack(&self, replica: &Replica, id: &RightsId) -> Option<Lack> {
        let (name, kind) = (id.0.as_str(), id.1);
        let holding = replica.quota().rights(name, kind)?;
        let own = replica.writer();
        let mut sources: Vec<Source> = Vec::new();
        for peer in &self.peers {
            let asks = if kind == RightKind::Period {
                LENDS
            } else {
                GIVES
            };
            let gives = peer.hello.as_ref().filter(|it| it.gives & asks > 0);
            let Some(writer) = gives.map(|it| it.writer) else {
                continue;
            };
            let known = writer == own || sources.iter().any(|it| it.writer == writer);
            if known || !replica.members().is_counted_member(&writer) {
                continue;
            }
            let held = replica.quota().rights_of(name, kind, writer).max(0);
            let held = u64::try_from(held).unwrap_or(u64::MAX);
            if held > 0 {
                let link = peer.link;
                sources.push(Source { link, writer, held });
            }
        }
        // Members with equal amounts are ordered by distance, so not every replica asks the same one first.
        let distance = |of: &WriterId| {
            let pairs = of.as_bytes().iter().zip(own.as_bytes());
            pairs.map(|(a, b)| a ^ b).collect::<Vec<u8>>()
        };
        sources.sort_by_cached_key(|it| (Reverse(it.held), distance(&it.writer)));
        let reachable: i128 = sources.iter().map(|it| i128::from(it.held)).sum();
        let all = holding.here.saturating_add(reachable);
        let mut needed: u64 = 0;
        for open in self.wants.open.iter().filter(|it| it.rights == *id) {
            let sum = needed.saturating_add(open.amount);
            if i128::from(sum) <= all {
                needed = sum;
            }
        }
        Some(Lack {
            holding,
            sources,
            reachable,
            needed,
        })
    }
}

#[cfg(test)]
mod tests;
