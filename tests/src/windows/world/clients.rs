//! Clients that ask members to allow something, and those of them that wait for it.

use super::{Member, World};
use crate::windows::Metered;
use tallymesh_core::{Error, Input, Stock, WantId, WriterId};

const KEYS: [&str; 3] = ["api", "api:a", "api:b"];
/// How long a client thinks between two requests.
const THINK_MS: (u64, u64) = (10, 200);
pub(super) const PATIENCE_MS: u64 = 1_000;

pub(super) struct Waiting {
    pub(super) client: usize,
    key: &'static str,
    cost: u64,
    pub(super) since: u64,
    want: Option<(String, WantId)>,
}

pub(super) struct Client {
    at: usize,
    /// When it asks next; none while it waits.
    pub(super) due: Option<u64>,
}

impl World {
    pub(super) fn begin_clients(&mut self) {
        for at in 0..self.plan.members {
            for _ in 0..self.plan.clients[at] {
                let due = Some(self.now + self.random.below(THINK_MS.1));
                self.clients.push(Client { at, due });
            }
        }
    }

    /// Notes what was asked for in the present period, and allowed at once.
    fn meter(&mut self, at: usize, key: &str, cost: u64, allowed: bool) {
        let Ok(period) = self.members[at].replica.period(key) else {
            return;
        };
        let metered = self.figures.periods.entry(period.window);
        let it = metered.or_insert_with(|| Metered {
            limit: period.limit.limit,
            asked: vec![0; self.plan.members],
            allowed: 0,
        });
        it.asked[at] += cost;
        it.allowed += if allowed { cost } else { 0 };
    }

    /// Somebody was refused who does not wait.
    fn lacks(&mut self, at: usize, key: &str, cost: u64) -> Result<(), String> {
        self.figures.refused += 1;
        let Ok(period) = self.members[at].replica.period(key) else {
            return Ok(());
        };
        let (now, name) = (self.now, period.window);
        let sync = &mut self.members[at].sync;
        sync.lack_rights(now, &name, Stock::Window, cost);
        self.handle(at, Input::Tick)
    }

    pub(super) fn ask(&mut self, client: usize) -> Result<(), String> {
        let at = self.clients[client].at;
        self.clients[client].due = None;
        let key = KEYS[self.random.index(self.plan.keys)];
        let cost = 1 + self.random.below(4);
        let allowed = self.members[at].waiting.is_empty() && self.allow(at, key, cost)?;
        self.meter(at, key, cost, allowed);
        if allowed || !self.plan.waits {
            self.think(client);
            return match allowed {
                true => Ok(()),
                false => self.lacks(at, key, cost),
            };
        }
        let since = self.now;
        self.members[at].waiting.push_back(Waiting {
            client,
            key,
            cost,
            since,
            want: None,
        });
        self.want(at)
    }

    /// Has those who wait ask for what they lack of the present period.
    fn want(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        let clock = self.clock(at);
        let Member {
            replica,
            sync,
            waiting,
            ..
        } = &mut self.members[at];
        replica.set_time(clock);
        let mut any = false;
        for it in waiting {
            let Ok(period) = replica.period(it.key) else {
                continue;
            };
            if it.want.as_ref().is_some_and(|want| want.0 == period.window) {
                continue;
            }
            if let Some((_, want)) = it.want.take() {
                sync.end_want(now, want);
            }
            let until = it.since + PATIENCE_MS;
            let want = sync.want_rights(now, &period.window, Stock::Window, it.cost, until);
            it.want = Some((period.window, want));
            any = true;
        }
        match any {
            true => self.handle(at, Input::Tick),
            false => Ok(()),
        }
    }

    pub(super) fn think(&mut self, client: usize) {
        let think = self.random.range(THINK_MS.0, THINK_MS.1);
        self.clients[client].due = Some(self.now + think);
    }

    /// Allows so much if it is left; false if not.
    pub(super) fn allow(&mut self, at: usize, key: &str, cost: u64) -> Result<bool, String> {
        let clock = self.clock(at);
        let replica = &mut self.members[at].replica;
        replica.set_time(clock);
        let writer = replica.writer();
        match replica.allow(key, cost, &mut Vec::new()) {
            Ok(period) => {
                let counts = self.members.iter().all(|it| it.replica.takes_from(&writer));
                self.handle(at, Input::Changed)?;
                self.figures.allowed += cost;
                if !counts {
                    self.figures.uncounted += cost;
                    return Ok(true);
                }
                let (name, dot) = (period.window, (writer, self.members[at].replica.clock()));
                if self.seen.insert(name.clone()) {
                    self.figures.windows += 1;
                }
                let most = self.bound(&name);
                let (sum, made) = self.allowed.entry(name.clone()).or_default();
                *sum += cost;
                made.push((dot, cost));
                if *sum > most && self.plan.moves > 0 {
                    self.forget_lost(&name);
                }
                let sum = &self.allowed[&name].0;
                // What an old copy of a disk knows nothing of does not count.
                if *sum > most && self.plan.old == 0 {
                    return Err(format!("{at} allows {cost}, so {sum} of {most} in {name}"));
                }
                Ok(true)
            }
            Err(Error::LimitReached(_) | Error::NoLimit | Error::NotAMember) => Ok(false),
            Err(error) => Err(format!("{at} allows: {error}")),
        }
    }

    /// Leaves out what was allowed by a member that was cut off and taken out, and had not told anybody:
    /// that does not count.
    fn forget_lost(&mut self, name: &str) {
        let members = &self.members;
        let is_lost = |(writer, clock): (WriterId, u64)| {
            let ends = members.iter().filter_map(|it| it.replica.last_of(&writer));
            ends.min().is_some_and(|last| clock > last)
        };
        if let Some((sum, made)) = self.allowed.get_mut(name) {
            let lost = made.extract_if(.., |it| is_lost(it.0));
            let lost: u64 = lost.map(|it| it.1).sum();
            *sum -= lost;
            self.figures.uncounted += lost;
        }
    }

    /// Serves who waits, and lets those go who have waited for long enough.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some(first) = self.members[at].waiting.front() {
            let (key, cost, since) = (first.key, first.cost, first.since);
            let served = self.allow(at, key, cost)?;
            if !served && since + PATIENCE_MS > self.now {
                break;
            }
            let now = self.now;
            let member = &mut self.members[at];
            if let Some(first) = member.waiting.pop_front() {
                if let Some((_, want)) = first.want {
                    member.sync.end_want(now, want);
                }
                self.think(first.client);
            }
            match served {
                true => self.figures.waited += 1,
                false => self.figures.refused += 1,
            }
        }
        self.want(at)
    }
}
