//! Clients: their requests, how long they wait, and where they repeat requests.

use super::{Dot, Event, MEMBERS, NAME, Policy, THINK_MS, World};
use tallymesh_core::{
    Error, Flow, Input, KeyStatus, MemberError, Once, QuotaError, RequestId, RightKind,
};

/// Milliseconds between two requests of a plain policy. An answer takes up to 60 ms.
const PLAIN_AGAIN_MS: u64 = 60;
/// Answers of 1000 to keyed requests that are lost.
const UNANSWERED: u64 = 100;

/// One client.
pub(super) struct Client {
    /// The member that it asks.
    pub(super) at: usize,
    /// Whether it has an open request.
    pub(super) asks: bool,
    /// The kind of its wish: to spend a unit, or to give one back.
    wish: RightKind,
    /// Number of its wishes that were acknowledged.
    done: u64,
    /// Units that it has spent and not given back.
    spent: u64,
}

#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) client: usize,
    pub(super) since: u64,
    /// The kind of right that it waits for: rights to spend, or room to give back.
    wish: RightKind,
    want: Option<RequestId>,
}

impl Client {
    pub(super) fn new(at: usize) -> Client {
        Client {
            at,
            asks: false,
            wish: RightKind::Rights,
            done: 0,
            spent: 0,
        }
    }
}

impl World {
    /// A client sends the request of its wish.
    pub(super) fn ask(&mut self, client: usize) -> Result<(), String> {
        self.own.clients[client].asks = true;
        let Client { at, wish, .. } = self.own.clients[client];
        if !self.nodes[at].alive {
            self.ask_again(client);
            return Ok(());
        }
        // A client that came earlier is served earlier.
        if self.own.waiting[at].is_empty() && self.make(at, client)? {
            self.own.metrics.at_once += 1;
            return Ok(());
        }
        let (now, until) = (self.now, self.now + self.own.plan.patience_ms);
        let sync = &mut self.nodes[at].sync;
        let asks = self.own.policy == Policy::Members;
        let want = asks.then(|| sync.request_rights(now, NAME, wish, 1, until));
        self.own.waiting[at].push_back(Waiting {
            client,
            since: now,
            wish,
            want,
        });
        self.look_at(until, at);
        self.input(at, Input::Tick)
    }

    /// A client that got no answer repeats its request.
    fn ask_again(&mut self, client: usize) {
        self.own.clients[client].asks = false;
        self.at(self.now + THINK_MS.1, Event::Ask(client));
    }

    pub(super) fn clients_of_ended(&mut self, at: usize) {
        self.own.waiting[at].clear();
        for client in 0..self.own.clients.len() {
            let it = &self.own.clients[client];
            if it.at == at && it.asks {
                self.ask_again(client);
            }
        }
    }

    /// Spends a unit or gives one back, as the client wishes. Acknowledges it to the client once it is
    /// written. Returns false if this member has too few rights or too little room.
    fn make(&mut self, at: usize, client: usize) -> Result<bool, String> {
        let (wish, key) = (self.own.clients[client].wish, self.key(client));
        let flow = match wish {
            RightKind::Rights => Flow::Spend(1),
            RightKind::Room | RightKind::Period => Flow::Mint(1),
        };
        let once = Once::new(key.as_bytes(), wish_name(wish));
        let keyed = self.own.plan.keyed;
        self.set_time(at);
        let replica = &mut self.nodes[at].replica;
        let made = match keyed {
            false => replica.quota_mut().flow(NAME, flow),
            true if replica.keyed().lookup(&once) != KeyStatus::New => Ok(()),
            true => replica.begin().and_then(|mut tx| {
                tx.quota_mut().flow(NAME, flow)?;
                tx.commit_once(once, &mut Vec::new())
            }),
        };
        match made {
            Ok(()) => {
                self.own.taken += u64::from(wish == RightKind::Rights);
                let dot = (replica.writer(), at, replica.clock());
                self.when_written(at, Event::Told(client, dot));
                self.changed(at)?;
                Ok(true)
            }
            // A replica that has just started is not a member yet, or does not have the budget.
            Err(
                Error::Quota(QuotaError::RightsShort(_) | QuotaError::RoomShort(_))
                | Error::Member(MemberError::NotAMember)
                | Error::Quota(QuotaError::NoBudget),
            ) => Ok(false),
            Err(error) => Err(format!("{at} spends: {error}")),
        }
    }

    /// The idempotency key of a client's wish.
    fn key(&self, client: usize) -> String {
        format!("{client} {}", self.own.clients[client].done)
    }

    /// A client receives the acknowledgement of its wish.
    pub(super) fn told(&mut self, client: usize, dot: Dot) -> Result<(), String> {
        let (wish, key) = (self.own.clients[client].wish, self.key(client));
        if !self.own.plan.keyed || self.own.made.insert(key) {
            match wish {
                RightKind::Rights => self.note_spent(dot, 1)?,
                RightKind::Room | RightKind::Period => self.own.metrics.spent -= 1,
            }
        }
        self.ends(client, true);
        Ok(())
    }

    /// A request of a client is acknowledged, or the client gives up.
    fn ends(&mut self, client: usize, served: bool) {
        self.own.clients[client].asks = false;
        self.after(THINK_MS, Event::Ask(client));
        if self.is_cut_off() && self.own.clients[client].at == 2 {
            self.own.metrics.cut.0 += u64::from(served);
            self.own.metrics.cut.1 += u64::from(!served);
        }
        let keyed = self.own.plan.keyed;
        let asks_elsewhere = keyed && (!served || self.random.chance(UNANSWERED));
        if asks_elsewhere {
            // It repeats the wish, at any member.
            self.own.clients[client].at = self.random.index(MEMBERS);
        } else if served {
            self.wish_next(client);
        }
    }

    fn wish_next(&mut self, client: usize) {
        let given_back = self.own.plan.given_back;
        let gives = given_back > 0 && self.troubled && self.random.chance(given_back);
        let it = &mut self.own.clients[client];
        it.done += 1;
        match it.wish {
            RightKind::Rights => it.spent += 1,
            RightKind::Room | RightKind::Period => it.spent -= 1,
        }
        it.wish = match gives && it.spent > 0 {
            true => RightKind::Room,
            false => RightKind::Rights,
        };
    }

    /// Serves the waiting clients, each kind in its order.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        for wish in [RightKind::Rights, RightKind::Room] {
            loop {
                let mut waiting = self.own.waiting[at].iter();
                let Some(place) = waiting.position(|it| it.wish == wish) else {
                    break;
                };
                let client = self.own.waiting[at][place].client;
                if !self.make(at, client)? {
                    break;
                }
                let Some(it) = self.own.waiting[at].remove(place) else {
                    break;
                };
                self.end_want(at, it.want);
                self.own.metrics.waits.push(self.now - it.since);
            }
        }
        Ok(())
    }

    /// Ends the waits that have timed out.
    pub(super) fn give_up(&mut self, at: usize) {
        let patience = self.own.plan.patience_ms;
        while let Some(until) = self.own.waiting[at].front().map(|it| it.since + patience) {
            if until > self.now {
                return self.look_at(until, at);
            }
            if let Some(it) = self.own.waiting[at].pop_front() {
                self.end_want(at, it.want);
                let (metrics, minted) = (&mut self.own.metrics, self.own.plan.minted);
                metrics.refused += 1;
                metrics.refused_early += u64::from(metrics.spent < minted / 10 * 9);
                self.ends(it.client, false);
            }
        }
    }

    fn end_want(&mut self, at: usize, want: Option<RequestId>) {
        if let Some(want) = want {
            self.nodes[at].sync.end_rights_request(self.now, want);
        }
    }

    /// Sends the request of a plain policy.
    pub(super) fn plain_ask(&mut self, at: usize) {
        let missing = self.own.waiting[at].len() as u64;
        if self.own.policy == Policy::Members || missing == 0 {
            return;
        }
        if self.own.ask_at[at] > self.now {
            return self.look_at(self.own.ask_at[at], at);
        }
        self.own.ask_at[at] = self.now + PLAIN_AGAIN_MS;
        self.look_at(self.own.ask_at[at], at);
        let replica = &self.nodes[at].replica;
        let held = |other: usize| {
            let writer = self.nodes[other].replica.writer();
            let holders = replica.quota().holders_of(NAME);
            let mut held = holders.iter().filter(|it| it.writer == writer);
            held.next().map_or(0, |it| it.rights)
        };
        let others = (0..MEMBERS).filter(|other| *other != at && self.is_linked(at, *other));
        let others: Vec<usize> = others.filter(|other| held(*other) > 0).collect();
        let richest = others.iter().copied().max_by_key(|other| held(*other));
        let to = match (self.own.policy, richest) {
            (_, None) => return,
            (Policy::Missing, _) => others[self.random.index(others.len())],
            (_, Some(richest)) => richest,
        };
        self.own.metrics.requests += 1;
        self.after(self.settings.delay_ms, Event::Plain(to, at, missing));
    }

    pub(super) fn plain_grant(
        &mut self,
        at: usize,
        from: usize,
        missing: u64,
    ) -> Result<(), String> {
        let to = self.nodes[from].replica.writer();
        let linked = self.is_linked(at, from);
        let replica = &mut self.nodes[at].replica;
        let here = replica.quota().budget(NAME).map_or(0, |it| it.rights.here);
        let here = u64::try_from(here).unwrap_or(0);
        let amount = match self.own.policy {
            Policy::Missing => missing.min(here),
            _ => here.div_ceil(2),
        };
        if !linked
            || amount == 0
            || replica
                .quota_mut()
                .flow(NAME, Flow::Grant { to, amount })
                .is_err()
        {
            return Ok(());
        }
        self.own.metrics.moves += 1;
        self.changed(at)
    }
}

/// The content of a keyed request.
fn wish_name(wish: RightKind) -> &'static [u8] {
    match wish {
        RightKind::Rights => b"spend",
        RightKind::Room | RightKind::Period => b"give back",
    }
}
