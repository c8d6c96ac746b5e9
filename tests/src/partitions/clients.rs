//! Clients: what they ask for, and how long they wait.

use super::world::{NAME, World, text};
use super::{MEMBERS, Work};
use tallymesh_core::{Error, Flow, Input, Stock, WantId};

/// How long a client thinks between two questions.
pub(super) const THINK_MS: (u64, u64) = (20, 200);

/// One client.
pub(super) struct Client {
    /// Whom it asks.
    pub(super) at: usize,
    /// When it asks next; none while it waits, or if it has stopped.
    pub(super) due: Option<u64>,
}

pub(super) struct Waiting {
    client: usize,
    pub(super) since: u64,
    want: WantId,
}

impl World {
    /// A client asks.
    pub(super) fn ask(&mut self, client: usize) -> Result<(), String> {
        self.clients[client].due = None;
        let at = self.clients[client].at;
        if let Work::Limit(limit) = self.plan.work {
            return self.count(client, limit);
        }
        // Who came before is served before.
        if self.members[at].waiting.is_empty() && self.make(at)? {
            self.ends(client, true);
            return Ok(());
        }
        let (now, until) = (self.now, self.now + self.plan.patience_ms);
        let member = &mut self.members[at];
        let want = match self.plan.work {
            Work::Sequence(_) => member.sync.want_numbers(now, NAME, 1, until),
            _ => member.sync.want_rights(now, NAME, Stock::Rights, 1, until),
        };
        member.waiting.push_back(Waiting {
            client,
            since: now,
            want,
        });
        self.handle(at, Input::Tick)
    }

    /// Counts one more, if the limit is not reached as far as is seen here; else the client stops.
    fn count(&mut self, client: usize, limit: u64) -> Result<(), String> {
        let at = self.clients[client].at;
        let replica = &mut self.members[at].replica;
        let seen = replica.value(NAME).unwrap_or(0);
        if seen >= i128::from(limit) {
            return Ok(());
        }
        replica.add(NAME, 1).map_err(text)?;
        self.figures.made += 1;
        let number = u64::try_from(seen + 1).map_err(|_| "a counter went under 0")?;
        self.figures.twice += u64::from(!self.numbers.insert(number));
        self.handle(at, Input::Changed)?;
        self.ends(client, true);
        Ok(())
    }

    /// Spends a unit or draws a number; false if there is none here.
    fn make(&mut self, at: usize) -> Result<bool, String> {
        let replica = &mut self.members[at].replica;
        let made = match self.plan.work {
            Work::Sequence(_) => replica.next_ticket(NAME, &mut Vec::new()),
            _ => replica.flow(NAME, Flow::Spend(1)).map(|()| 0),
        };
        let number = match made {
            Ok(number) => number,
            Err(
                Error::RightsShort(_)
                | Error::NoBudget
                | Error::NumbersShort
                | Error::NoSequence
                | Error::NotAMember,
            ) => return Ok(false),
            Err(error) => return Err(format!("{at} asks: {error}")),
        };
        self.figures.made += 1;
        match self.plan.work {
            Work::Sequence(_) => {
                if number == 0 || !self.numbers.insert(number) {
                    return Err(format!("{at} hands {number} out again"));
                }
                self.drawn.push((self.now, number));
            }
            Work::Budget(minted) | Work::Retired(minted) if self.figures.made > minted => {
                return Err("more was spent than there is".into());
            }
            _ => {}
        }
        self.handle(at, Input::Changed)?;
        self.check(at)?;
        Ok(true)
    }

    /// A client is answered, or gives up.
    fn ends(&mut self, client: usize, served: bool) {
        let think = self.random.range(THINK_MS.0, THINK_MS.1);
        self.clients[client].due = Some(self.now + think);
        if let Some(smaller) = self.is_in_smaller(self.clients[client].at) {
            let half = &mut self.figures.halves[usize::from(smaller)];
            half.served += u64::from(served);
            half.refused += u64::from(!served);
        }
    }

    /// Serves who waits in their order, and lets those go who have waited for long enough.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        while let Some(first) = self.members[at].waiting.front() {
            let late = first.since + self.plan.patience_ms <= self.now;
            let served = self.make(at)?;
            if !served && !late {
                break;
            }
            let member = &mut self.members[at];
            if let Some(it) = member.waiting.pop_front() {
                match self.plan.work {
                    Work::Sequence(_) => member.sync.end_numbers(self.now, it.want),
                    _ => member.sync.end_want(self.now, it.want),
                }
                self.ends(it.client, served);
            }
        }
        Ok(())
    }

    /// Whoever asks a member that is gone asks another one from now on.
    pub(super) fn turn_from(&mut self, gone: usize) {
        let others: Vec<usize> = (0..MEMBERS).filter(|at| *at != gone).collect();
        self.members[gone].waiting.clear();
        for client in 0..self.clients.len() {
            if self.clients[client].at == gone {
                self.clients[client].at = *self.random.pick(&others);
                self.clients[client].due = Some(self.now + THINK_MS.1);
            }
        }
    }
}
