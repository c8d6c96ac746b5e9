//! Clients: their requests, and how long they wait.

use super::{Event, MEMBERS, NAME, Work, World};
use crate::sim::text;
use tallymesh_core::{Error, Flow, Input, MemberError, QuotaError, RequestId, RightKind};

/// How long a client pauses between two requests, in milliseconds.
pub(super) const THINK_MS: (u64, u64) = (20, 200);

/// One client.
pub(super) struct Client {
    /// The member that it asks.
    at: usize,
    /// Whether it has an open request.
    asks: bool,
    /// Whether it has seen that the limit is reached, and sends no more requests.
    has_stopped: bool,
}

impl Client {
    pub(super) fn new(at: usize) -> Client {
        Client {
            at,
            asks: false,
            has_stopped: false,
        }
    }

    pub(super) fn waits_at(&self, at: usize) -> bool {
        self.at == at && self.asks
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }
}

pub(super) struct Waiting {
    client: usize,
    since: u64,
    want: RequestId,
}

impl World {
    /// A client sends its next request.
    pub(super) fn ask(&mut self, client: usize) -> Result<(), String> {
        self.own.clients[client].asks = true;
        let at = self.own.clients[client].at;
        if !self.nodes[at].alive {
            self.think(client);
            return Ok(());
        }
        if let Work::Limit(limit) = self.own.plan.work {
            return self.count(client, limit);
        }
        // A client that came earlier is served earlier.
        if self.own.waiting[at].is_empty() && self.make(at, client)? {
            return Ok(());
        }
        let (now, until) = (self.now, self.now + self.own.plan.patience_ms);
        let sync = &mut self.nodes[at].sync;
        let want = match self.own.plan.work {
            Work::Sequence(_) => sync.request_numbers(now, NAME, 1, until),
            _ => sync.request_rights(now, NAME, RightKind::Rights, 1, until),
        };
        self.own.waiting[at].push_back(Waiting {
            client,
            since: now,
            want,
        });
        self.look_at(until, at);
        self.input(at, Input::Tick)
    }

    /// Counts one more, if this member does not see that the limit is reached. Else the client stops.
    fn count(&mut self, client: usize, limit: u64) -> Result<(), String> {
        let at = self.own.clients[client].at;
        let replica = &mut self.nodes[at].replica;
        let seen = replica.value(NAME).unwrap_or(0);
        if seen >= i128::from(limit) {
            self.own.clients[client].has_stopped = true;
            return Ok(());
        }
        replica.add(NAME, 1).map_err(text)?;
        let number = u64::try_from(seen + 1).map_err(|_| "a counter went under 0")?;
        self.when_written(at, Event::Told(client, number));
        self.changed(at)
    }

    /// Spends a unit or draws a number, and acknowledges it to the client once it is written. Returns false
    /// if this member has none.
    fn make(&mut self, at: usize, client: usize) -> Result<bool, String> {
        let replica = &mut self.nodes[at].replica;
        let made = match self.own.plan.work {
            Work::Sequence(_) => replica.quota_mut().draw(NAME, &mut Vec::new()),
            _ => replica.quota_mut().flow(NAME, Flow::Spend(1)).map(|()| 0),
        };
        match made {
            Ok(number) => {
                self.own.taken += 1;
                self.when_written(at, Event::Told(client, number));
                self.changed(at)?;
                Ok(true)
            }
            Err(
                Error::Quota(
                    QuotaError::RightsShort(_)
                    | QuotaError::NoBudget
                    | QuotaError::NumbersShort
                    | QuotaError::NoSequence,
                )
                | Error::Member(MemberError::NotAMember),
            ) => Ok(false),
            Err(error) => Err(format!("{at} asks: {error}")),
        }
    }

    /// A client receives its acknowledgement.
    pub(super) fn told(&mut self, client: usize, number: u64) -> Result<(), String> {
        let own = &mut self.own;
        own.metrics.made += 1;
        match own.plan.work {
            Work::Limit(_) => own.metrics.twice += u64::from(!own.numbers.insert(number)),
            Work::Sequence(_) => {
                if number == 0 || !own.numbers.insert(number) {
                    return Err(format!("{number} is handed out again"));
                }
                own.drawn.push((self.now, number));
            }
            Work::Budget(minted) | Work::Retired(minted) if own.metrics.made > minted => {
                return Err("more was spent than there is".into());
            }
            Work::Budget(_) | Work::Retired(_) => {}
        }
        self.ends(client, true);
        Ok(())
    }

    /// A request of a client is acknowledged, or the client gives up.
    fn ends(&mut self, client: usize, served: bool) {
        self.think(client);
        if let Some(smaller) = self.is_in_smaller(self.own.clients[client].at) {
            let half = &mut self.own.metrics.halves[usize::from(smaller)];
            half.served += u64::from(served);
            half.refused += u64::from(!served);
        }
    }

    pub(super) fn think(&mut self, client: usize) {
        self.own.clients[client].asks = false;
        self.after(THINK_MS, Event::Ask(client));
    }

    /// Serves the waiting clients in their order. Ends the waits that have timed out.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some(&Waiting {
            client,
            since,
            want,
        }) = self.own.waiting[at].front()
        {
            let until = since + self.own.plan.patience_ms;
            let served = self.make(at, client)?;
            if !served && until > self.now {
                self.look_at(until, at);
                break;
            }
            self.own.waiting[at].pop_front();
            let sync = &mut self.nodes[at].sync;
            match self.own.plan.work {
                Work::Sequence(_) => sync.end_numbers(self.now, want),
                _ => sync.end_rights_request(self.now, want),
            }
            if !served {
                self.ends(client, false);
            }
        }
        Ok(())
    }

    /// Moves the clients of a member that is gone to other members.
    pub(super) fn turn_from(&mut self, gone: usize) {
        let others: Vec<usize> = (0..MEMBERS).filter(|at| *at != gone).collect();
        self.own.waiting[gone].clear();
        for client in 0..self.own.clients.len() {
            if self.own.clients[client].at == gone {
                self.own.clients[client].at = *self.random.pick(&others);
                if self.own.clients[client].asks {
                    self.think(client);
                }
            }
        }
    }
}
