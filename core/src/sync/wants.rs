//! Requests for rights: a member that is short of rights of a budget asks members that hold some.
//!
//! Every replica sees who holds what. So a member asks exactly those that hold enough, the richest first, each
//! for as much as is still missing. It also says how much was used here of late. The holder gives by a
//! transaction of its own, which arrives as any other; nothing else answers. The holder alone decides how much
//! (`wants/share.rs`): a request is no claim. A member asks for nothing that all holders together cannot meet,
//! because that would only move rights away from where they are used.
//!
//! With nobody waiting, a member asks for more when its rights fall under a few times what it used of late.
//!
//! Only members ask and are asked, on the links between them.

mod give;
mod recent;
mod sequences;
mod share;

use super::{Link, Millis, SyncMachine};
use crate::ledger::{Holding, Stock};
use crate::replica::Replica;
use crate::wire::{Body, GIVES, LENDS, Want};
use crate::writer_id::WriterId;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// How soon is asked again at first, in milliseconds; then after twice as long each time.
const ASK_AGAIN_MS: Millis = 250;
/// How soon is asked again at last.
const ASK_AGAIN_MS_MAX: Millis = 4_000;
/// How long more is asked for after somebody was refused who does not wait.
const UNWAITED_MS: Millis = 5_000;
/// More is asked for ahead where less is held than so many times what was used of late.
const LOW: i128 = 4;
/// How often at most more of a stock is asked for with nobody who lacks anything.
const AHEAD_AGAIN_MS: Millis = 250;
/// So many are noted of who lacks something and does not wait; more are not.
const UNWAITED_MAX: usize = 1_024;

/// The name of a budget, and which of its stocks.
pub(super) type StockId = (String, Stock);

/// The number of rights that are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantId(u32);

/// How far rights that are waited for have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// How much is wanted.
    pub amount: u64,
    /// What is held here and elsewhere, as far as is known here.
    pub holding: Holding,
    /// How much of what is elsewhere is held by members that can be asked now.
    pub reachable: i128,
    /// How much of the same stock has been asked for, and has not come.
    pub asked: u64,
}

impl Supply {
    /// Whether as much is here as is wanted: it may be used now, if nobody else does before.
    pub fn is_met(&self) -> bool {
        self.holding.here >= i128::from(self.amount)
    }
}

#[derive(Clone)]
struct Open {
    id: WantId,
    stock: StockId,
    amount: u64,
    until: Millis,
    /// Whether somebody waits for it.
    waited: bool,
}

/// What was asked for of a stock, and of whom.
#[derive(Clone)]
struct Round {
    stock: StockId,
    due: Millis,
    tries: u32,
    asked: Vec<Asked>,
    /// Who was asked before and has given nothing: it is asked last.
    silent: Vec<WriterId>,
    /// The least that was held here since.
    least: i128,
}

/// Who was asked for how much, and its clock as it was known then.
#[derive(Clone)]
struct Asked {
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

/// What is wanted here, and what was given to others.
#[derive(Clone, Default)]
pub(super) struct Wants {
    /// The longest waiting first.
    open: Vec<Open>,
    rounds: Vec<Round>,
    ids: u32,
    recent: recent::Recent,
    given: give::Given,
    /// Whether anything is to be looked at that is not yet.
    soon: Option<Millis>,
    /// What is wanted of sequences.
    sequences: sequences::Sequences,
}

/// A member that can be asked.
struct Source {
    link: Link,
    writer: WriterId,
    held: u64,
}

/// What is lacked of a stock.
struct Lack {
    holding: Holding,
    sources: Vec<Source>,
    reachable: i128,
    /// As much of what is wanted as can be met, the longest waiting first.
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

    fn open(&mut self, now: Millis, open: Open) -> WantId {
        let id = WantId(self.ids);
        self.ids = self.ids.wrapping_add(1);
        self.open.push(Open { id, ..open });
        self.soon = Some(now);
        id
    }
}

impl SyncMachine {
    /// Begins to wait for rights: members that hold some are asked with the next
    /// [`Input::Tick`](super::Input), which is due at once, and again until there are as many here as are
    /// wanted, or it is `until`. See [`supply`](SyncMachine::supply). Whoever waits tries to use them whenever
    /// it [is met](Supply::is_met), and then [ends](SyncMachine::end_want) it; until then these rights are
    /// given to nobody else.
    pub fn want_rights(
        &mut self,
        now: Millis,
        name: &str,
        stock: Stock,
        amount: u64,
        until: Millis,
    ) -> WantId {
        let open = Open {
            id: WantId(0),
            stock: (name.into(), stock),
            amount,
            until,
            waited: true,
        };
        self.wants.open(now, open)
    }

    /// Somebody was refused so much and does not wait: members are asked for a few seconds, so that there
    /// is enough when it is tried again.
    pub fn lack_rights(&mut self, now: Millis, name: &str, stock: Stock, amount: u64) {
        let until = now + UNWAITED_MS;
        let mut unwaited = self.wants.open.iter_mut().filter(|it| !it.waited);
        let same = unwaited.find(|it| it.stock.1 == stock && it.stock.0 == name);
        if let Some(same) = same {
            same.amount = same.amount.max(amount);
            same.until = until;
            self.wants.soon = Some(now);
            return;
        }
        if unwaited.count() < UNWAITED_MAX {
            let open = Open {
                id: WantId(0),
                stock: (name.into(), stock),
                amount,
                until,
                waited: false,
            };
            self.wants.open(now, open);
        }
    }

    /// How far rights that are waited for have come; `None` if nothing of this number is waited for, as
    /// its time is over, or if there is no such budget here.
    pub fn supply(&self, replica: &Replica, want: WantId) -> Option<Supply> {
        let open = self.wants.open.iter().find(|it| it.id == want)?;
        self.supply_at(replica, &open.stock, open.amount)
    }

    /// The same of so much of a stock, whether it is waited for or not: what a refusal tells. `None` if
    /// there is no such budget here.
    pub fn supply_of(
        &self,
        replica: &Replica,
        name: &str,
        stock: Stock,
        amount: u64,
    ) -> Option<Supply> {
        self.supply_at(replica, &(name.into(), stock), amount)
    }

    fn supply_at(&self, replica: &Replica, id: &StockId, amount: u64) -> Option<Supply> {
        let lack = self.lack(replica, id)?;
        let round = self.wants.rounds.iter().find(|it| it.stock == *id);
        Some(Supply {
            amount,
            holding: lack.holding,
            reachable: lack.reachable,
            asked: round.map_or(0, Round::hoped),
        })
    }

    /// Waits for these rights no longer.
    pub fn end_want(&mut self, now: Millis, want: WantId) {
        self.wants.open.retain(|it| it.id != want);
        self.wants.soon = Some(now);
    }

    /// A peer asks for rights, or for numbers of a sequence.
    pub(super) fn asked_for(&mut self, now: Millis, replica: &mut Replica, link: Link, body: Body) {
        match body {
            Body::Want(want) => self.wanted(now, replica, link, want),
            Body::Draw(draw) => self.drawn(now, replica, link, draw),
            _ => {}
        }
    }

    /// Asks for what is lacked, and notes what was used.
    pub(super) fn look_at_wants(&mut self, now: Millis, replica: &mut Replica) {
        self.look_at_sequences(now, replica);
        let mut used: Vec<StockId> = Vec::new();
        let recent = &mut self.wants.recent;
        replica.quota_mut().take_used(&mut |name, stock, amount| {
            recent.note(now, name, stock, amount);
            used.push((name.into(), stock));
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
        let mut ids: Vec<StockId> = wants.open.iter().map(|it| it.stock.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        wants
            .rounds
            .retain(|it| ids.binary_search(&it.stock).is_ok());
        for id in ids {
            self.look_at_stock(now, replica, id);
        }
    }

    fn look_at_stock(&mut self, now: Millis, replica: &Replica, id: StockId) {
        let Some(lack) = self.lack(replica, &id) else {
            return;
        };
        let here = lack.holding.here;
        // Who does not wait is served by that much being here.
        let served = |it: &Open| !it.waited && it.stock == id && i128::from(it.amount) <= here;
        self.wants.open.retain(|it| !served(it));
        let short = i128::from(lack.needed) - here;
        let at = self.wants.rounds.iter().position(|it| it.stock == id);
        if short <= 0 {
            at.map(|at| self.wants.rounds.swap_remove(at));
            return;
        }
        let short = u64::try_from(short).unwrap_or(u64::MAX);
        let jitter = self.next_random();
        let rounds = &mut self.wants.rounds;
        let at = at.unwrap_or(rounds.len());
        if at == rounds.len() {
            rounds.push(Round {
                stock: id.clone(),
                due: now,
                tries: 0,
                asked: Vec::new(),
                silent: Vec::new(),
                least: here,
            });
        }
        let round = &mut rounds[at];
        if here > round.least {
            // Something came: what is missing still is asked for at once.
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
                round.asked.push(Asked {
                    writer,
                    need,
                    clock,
                });
                missing -= need;
                requests.push((source.link, writer, need));
            }
        }
        let used = self.wants.recent.amount(now, &id);
        // The first one gives what will be used, too.
        let mut recent = used.saturating_add(lack.needed).min(i64::MAX as u64);
        for (link, writer, need) in requests {
            self.ask_for(replica, link, writer, (&id, need, recent));
            recent = 0;
        }
    }

    /// Asks the richest member for more if little is left of what was used of late.
    fn ask_ahead(&mut self, now: Millis, replica: &Replica, id: &StockId) {
        let recent = self.wants.recent.amount(now, id).min(i64::MAX as u64);
        let here = replica.quota().stock(&id.0, id.1).map(|it| it.here);
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
        (id, need, recent): (&StockId, u64, u64),
    ) {
        let want = Want {
            stock: id.1,
            name: id.0.clone(),
            seen: replica.state.held(&writer),
            need,
            recent,
        };
        self.send(replica, link, Body::Want(want));
    }

    /// What is held of a stock, by whom of those that can be asked, and how much of it is needed here.
    fn lack(&self, replica: &Replica, id: &StockId) -> Option<Lack> {
        let (name, stock) = (id.0.as_str(), id.1);
        let holding = replica.quota().stock(name, stock)?;
        let own = replica.writer();
        let mut sources: Vec<Source> = Vec::new();
        for peer in &self.peers {
            let asks = if stock == Stock::Period { LENDS } else { GIVES };
            let gives = peer.greeting.as_ref().filter(|it| it.gives & asks > 0);
            let Some(writer) = gives.map(|it| it.writer) else {
                continue;
            };
            let known = writer == own || sources.iter().any(|it| it.writer == writer);
            if known || !replica.members().is_counted_member(&writer) {
                continue;
            }
            let held = replica.quota().stock_of(name, stock, writer).max(0);
            let held = u64::try_from(held).unwrap_or(u64::MAX);
            if held > 0 {
                let link = peer.link;
                sources.push(Source { link, writer, held });
            }
        }
        // Of those that hold as much, not all ask the same one first.
        let distance = |of: &WriterId| {
            let pairs = of.as_bytes().iter().zip(own.as_bytes());
            pairs.map(|(a, b)| a ^ b).collect::<Vec<u8>>()
        };
        sources.sort_by_cached_key(|it| (Reverse(it.held), distance(&it.writer)));
        let reachable: i128 = sources.iter().map(|it| i128::from(it.held)).sum();
        let all = holding.here.saturating_add(reachable);
        let mut needed: u64 = 0;
        for open in self.wants.open.iter().filter(|it| it.stock == *id) {
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
