//! Clients that send requests to members, and those of them that wait.

use super::{Metered, World, oracle::Dot};
use tallymesh_core::{Error, Input, MemberError, QuotaError, RequestId, RightKind};

const KEYS: [&str; 3] = ["api", "api:a", "api:b"];
/// How long a client pauses between two requests, in milliseconds.
const THINK_MS: (u64, u64) = (10, 200);
const PATIENCE_MS: u64 = 1_000;
/// Milliseconds between two checks for a new period, while a client waits.
const LOOK_MS: u64 = 20;

/// A scheduled event of this scenario.
pub enum Event {
    /// A client sends a request.
    Ask(usize),
    /// A client receives an acknowledgement, with the period and the transaction.
    Told(Option<usize>, u64, Option<(String, Dot)>),
}

pub(super) struct Client {
    at: usize,
    /// Whether it has an open request.
    asks: bool,
}

impl Client {
    pub(super) fn waits_at(&self, at: usize) -> bool {
        self.at == at && self.asks
    }
}

pub(super) struct Waiting {
    client: usize,
    key: &'static str,
    cost: u64,
    since: u64,
    want: Option<(String, RequestId)>,
}

impl World {
    pub(super) fn begin_clients(&mut self) {
        for at in 0..self.own.plan.members {
            for _ in 0..self.own.plan.clients[at] {
                let client = self.own.clients.len();
                self.own.clients.push(Client { at, asks: false });
                self.after((0, THINK_MS.1), Event::Ask(client));
            }
        }
    }

    pub(super) fn client(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Ask(_) if self.own.over => Ok(()),
            Event::Ask(client) => self.ask(client),
            Event::Told(client, cost, counted) => {
                if let Some(client) = client {
                    self.think(client);
                }
                self.own.metrics.allowed += cost;
                match counted {
                    Some((name, dot)) => self.note_allowed(name, dot, cost),
                    None => {
                        self.own.metrics.uncounted += cost;
                        Ok(())
                    }
                }
            }
        }
    }

    fn ask(&mut self, client: usize) -> Result<(), String> {
        let at = self.own.clients[client].at;
        self.own.clients[client].asks = true;
        let key = KEYS[self.random.index(self.own.plan.keys)];
        let cost = 1 + self.random.below(4);
        if !self.nodes[at].alive {
            self.think(client);
            return Ok(());
        }
        let is_first = self.own.waiting[at].is_empty();
        let allowed = is_first && self.allow(at, key, cost, Some(client))?;
        self.meter(at, key, cost, allowed);
        if allowed {
            return Ok(());
        }
        if !self.own.plan.waits {
            self.think(client);
            return self.lacks(at, key, cost);
        }
        let since = self.now;
        self.own.waiting[at].push_back(Waiting {
            client,
            key,
            cost,
            since,
            want: None,
        });
        self.look_at(since + LOOK_MS, at);
        self.want(at)
    }

    /// Adds a request in the present period to the metrics, and whether it was allowed at once.
    fn meter(&mut self, at: usize, key: &str, cost: u64, allowed: bool) {
        let Ok(period) = self.nodes[at].replica.quota().period(key) else {
            return;
        };
        let members = self.own.plan.members;
        let metered = self.own.metrics.periods.entry(period.name);
        let it = metered.or_insert_with(|| Metered {
            limit: period.limit.limit,
            asked: vec![0; members],
            allowed: 0,
        });
        it.asked[at] += cost;
        it.allowed += if allowed { cost } else { 0 };
    }

    /// A client that does not wait was rejected.
    fn lacks(&mut self, at: usize, key: &str, cost: u64) -> Result<(), String> {
        self.own.metrics.refused += 1;
        let Ok(period) = self.nodes[at].replica.quota().period(key) else {
            return Ok(());
        };
        let now = self.now;
        let sync = &mut self.nodes[at].sync;
        sync.lack_rights(now, &period.name, RightKind::Period, cost);
        self.input(at, Input::Tick)
    }

    /// The waiting clients' member requests the rights that they lack in the present period.
    fn want(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        self.set_time(at);
        let node = &mut self.nodes[at];
        let mut any = false;
        for it in &mut self.own.waiting[at] {
            let Ok(period) = node.replica.quota().period(it.key) else {
                continue;
            };
            if it.want.as_ref().is_some_and(|want| want.0 == period.name) {
                continue;
            }
            if let Some((_, want)) = it.want.take() {
                node.sync.end_rights_request(now, want);
            }
            let until = it.since + PATIENCE_MS;
            let sync = &mut node.sync;
            let want = sync.request_rights(now, &period.name, RightKind::Period, it.cost, until);
            it.want = Some((period.name, want));
            any = true;
        }
        match any {
            true => self.input(at, Input::Tick),
            false => Ok(()),
        }
    }

    pub(super) fn think(&mut self, client: usize) {
        self.own.clients[client].asks = false;
        self.after(THINK_MS, Event::Ask(client));
    }

    /// Allows this amount if it is left, and acknowledges it to the client once it is written. Returns false
    /// if it is not left.
    pub(super) fn allow(
        &mut self,
        at: usize,
        key: &str,
        cost: u64,
        client: Option<usize>,
    ) -> Result<bool, String> {
        self.set_time(at);
        let replica = &mut self.nodes[at].replica;
        let writer = replica.writer();
        match replica.quota_mut().allow(key, cost, &mut Vec::new()) {
            Ok(period) => {
                let clock = replica.clock();
                let mut all = self.nodes.iter();
                let counts = all.all(|it| it.replica.members().accepts_from(&writer));
                let counted = counts.then_some((period.name, (writer, clock)));
                self.when_written(at, Event::Told(client, cost, counted));
                self.changed(at)?;
                Ok(true)
            }
            Err(
                Error::Quota(QuotaError::LimitReached(_) | QuotaError::NoLimit)
                | Error::Member(MemberError::NotAMember),
            ) => Ok(false),
            Err(error) => Err(format!("{at} allows: {error}")),
        }
    }

    /// Serves the waiting clients, and ends the waits that have timed out.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some(first) = self.own.waiting[at].front() {
            let (client, key, cost, since) = (first.client, first.key, first.cost, first.since);
            let served = self.allow(at, key, cost, Some(client))?;
            if !served && since + PATIENCE_MS > self.now {
                self.look_at(self.now + LOOK_MS, at);
                break;
            }
            let now = self.now;
            let first = self.own.waiting[at].pop_front();
            if let Some((_, want)) = first.and_then(|it| it.want) {
                self.nodes[at].sync.end_rights_request(now, want);
            }
            match served {
                true => self.own.metrics.waited += 1,
                false => {
                    self.own.metrics.refused += 1;
                    self.think(client);
                }
            }
        }
        self.want(at)
    }
}
