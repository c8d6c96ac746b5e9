//! Clients: what they ask for, how long they wait, and whom they ask again.

use super::Policy;
use super::world::{DELAY_MS, Flight, MEMBERS, NAME, THINK_MS, World};
use tallymesh_core::{Asked, Error, Flow, Input, Once, Stock, WantId};

/// How often the plain policies ask: an answer takes up to 60 ms.
const PLAIN_AGAIN_MS: u64 = 60;
/// How many in a thousand answers to what is asked under a key are lost.
const UNANSWERED: u64 = 100;

/// One client.
pub(super) struct Client {
    /// Whom it asks.
    pub(super) at: usize,
    /// When it asks next; none while it waits.
    pub(super) due: Option<u64>,
    /// What it asks for.
    wish: Stock,
    /// How many of its wishes were answered as made.
    done: u64,
    /// What it has spent and not given back.
    spent: u64,
}

#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) client: usize,
    pub(super) since: u64,
    /// What it waits for: rights to spend, or room to give back.
    wish: Stock,
    want: Option<WantId>,
}

impl Client {
    pub(super) fn new(at: usize, due: u64) -> Client {
        Client {
            at,
            due: Some(due),
            wish: Stock::Rights,
            done: 0,
            spent: 0,
        }
    }
}

impl World {
    /// A client asks for what it wishes.
    pub(super) fn ask(&mut self, client: usize) -> Result<(), String> {
        self.clients[client].due = None;
        let Client { at, wish, .. } = self.clients[client];
        // Who came before is served before.
        let nobody = self.members[at].waiting.is_empty();
        if nobody && self.make(at, client)? {
            self.figures.at_once += 1;
            self.ends(client, true);
            return Ok(());
        }
        let until = self.now + self.plan.patience_ms;
        let now = self.now;
        let member = &mut self.members[at];
        let asks = self.policy == Policy::Members;
        let want = asks.then(|| member.sync.want_rights(now, NAME, wish, 1, until));
        member.waiting.push_back(Waiting {
            client,
            since: now,
            wish,
            want,
        });
        self.handle(at, Input::Tick)
    }

    /// Spends a unit, or gives one back, as a client wishes; false if there is not enough here.
    fn make(&mut self, at: usize, client: usize) -> Result<bool, String> {
        let Client { wish, done, .. } = self.clients[client];
        let flow = match wish {
            Stock::Rights => Flow::Spend(1),
            Stock::Room | Stock::Window => Flow::Mint(1),
        };
        let key = format!("{client} {done}");
        let once = Once::new(key.as_bytes(), wish_name(wish));
        let replica = &mut self.members[at].replica;
        if self.plan.keyed && replica.asked(&once) != Asked::New {
            return Ok(true);
        }
        let made = match self.plan.keyed {
            false => replica.flow(NAME, flow),
            true => replica.begin().and_then(|mut tx| {
                tx.flow(NAME, flow)?;
                tx.commit_once(once, &mut Vec::new())
            }),
        };
        match made {
            Ok(()) => {
                if !self.plan.keyed || self.made.insert(key) {
                    match wish {
                        Stock::Rights => self.figures.spent += 1,
                        Stock::Room | Stock::Window => self.figures.spent -= 1,
                    }
                }
                if self.figures.spent > self.plan.minted && self.plan.strike.is_none() {
                    return Err("more was spent than there is".into());
                }
                self.note_spent(at);
                self.handle(at, Input::Changed)?;
                self.check(at)?;
                Ok(true)
            }
            // Who has just started is no member yet, or knows of nothing.
            Err(
                Error::RightsShort(_) | Error::RoomShort(_) | Error::NotAMember | Error::NoBudget,
            ) => Ok(false),
            Err(error) => Err(format!("{at} spends: {error}")),
        }
    }

    /// A client is answered, or gives up.
    fn ends(&mut self, client: usize, served: bool) {
        let think = self.random.range(THINK_MS.0, THINK_MS.1);
        self.clients[client].due = Some(self.now + think);
        if self.is_cut_off() && self.clients[client].at == 2 {
            self.figures.cut.0 += u64::from(served);
            self.figures.cut.1 += u64::from(!served);
        }
        let asks_elsewhere = self.plan.keyed && (!served || self.random.chance(UNANSWERED));
        if asks_elsewhere {
            // The same again, at any member.
            self.clients[client].at = self.random.index(MEMBERS);
        } else if served {
            self.wish_next(client);
        }
    }

    fn wish_next(&mut self, client: usize) {
        let given_back = self.plan.given_back;
        let calm = self.begun + self.plan.trouble_ms <= self.now;
        let gives = given_back > 0 && !calm && self.random.chance(given_back);
        let it = &mut self.clients[client];
        it.done += 1;
        match it.wish {
            Stock::Rights => it.spent += 1,
            Stock::Room | Stock::Window => it.spent -= 1,
        }
        it.wish = match gives && it.spent > 0 {
            true => Stock::Room,
            false => Stock::Rights,
        };
    }

    /// Serves who waits, each kind in its order.
    pub(super) fn serve(&mut self, at: usize) -> Result<(), String> {
        for wish in [Stock::Rights, Stock::Room] {
            loop {
                let mut waiting = self.members[at].waiting.iter();
                let Some(place) = waiting.position(|it| it.wish == wish) else {
                    break;
                };
                let client = self.members[at].waiting[place].client;
                if !self.make(at, client)? {
                    break;
                }
                let Some(it) = self.members[at].waiting.remove(place) else {
                    break;
                };
                self.end_want(at, it.want);
                self.figures.waits.push(self.now - it.since);
                self.ends(client, true);
            }
        }
        Ok(())
    }

    pub(super) fn give_up(&mut self, at: usize) {
        let (now, patience) = (self.now, self.plan.patience_ms);
        let late = |it: &Waiting| it.since + patience <= now;
        while self.members[at].waiting.front().is_some_and(late)
            && let Some(it) = self.members[at].waiting.pop_front()
        {
            self.end_want(at, it.want);
            self.figures.refused += 1;
            let early = self.figures.spent < self.plan.minted / 10 * 9;
            self.figures.refused_early += u64::from(early);
            self.ends(it.client, false);
        }
    }

    fn end_want(&mut self, at: usize, want: Option<WantId>) {
        if let Some(want) = want {
            self.members[at].sync.end_want(self.now, want);
        }
    }

    /// Asks by a plain policy.
    pub(super) fn plain_ask(&mut self, at: usize) {
        let member = &self.members[at];
        let missing = member.waiting.len() as u64;
        if self.policy == Policy::Members || missing == 0 || member.ask_at > self.now {
            return;
        }
        self.members[at].ask_at = self.now + PLAIN_AGAIN_MS;
        let replica = &self.members[at].replica;
        let linked = |other: usize| {
            self.links
                .values()
                .any(|it| it.contains(&at) && it.contains(&other))
        };
        let held = |other: usize| {
            let writer = self.members[other].replica.writer();
            let holders = replica.holders_of(NAME);
            holders
                .iter()
                .find(|it| it.writer == writer)
                .map_or(0, |it| it.rights)
        };
        let others =
            (0..MEMBERS).filter(|other| *other != at && linked(*other) && held(*other) > 0);
        let others: Vec<usize> = others.collect();
        let to = match self.policy {
            _ if others.is_empty() => return,
            Policy::Missing => others[self.random.index(others.len())],
            _ => others
                .iter()
                .copied()
                .max_by_key(|other| held(*other))
                .unwrap_or(0),
        };
        self.figures.requests += 1;
        let arrives = self.now + self.random.range(DELAY_MS.0, DELAY_MS.1);
        self.fly(arrives, to, Flight::Ask(at, missing));
    }

    pub(super) fn plain_grant(
        &mut self,
        at: usize,
        from: usize,
        missing: u64,
    ) -> Result<(), String> {
        let linked = self
            .links
            .values()
            .any(|it| it.contains(&at) && it.contains(&from));
        let to = self.members[from].replica.writer();
        let replica = &mut self.members[at].replica;
        let here = replica.budget(NAME).map_or(0, |it| it.rights.here);
        let here = u64::try_from(here).unwrap_or(0);
        let amount = match self.policy {
            Policy::Missing => missing.min(here),
            _ => here.div_ceil(2),
        };
        if !linked || amount == 0 || replica.flow(NAME, Flow::Grant { to, amount }).is_err() {
            return Ok(());
        }
        self.figures.moves += 1;
        self.handle(at, Input::Changed)
    }
}

/// What a key stands for.
fn wish_name(wish: Stock) -> &'static [u8] {
    match wish {
        Stock::Rights => b"spend",
        Stock::Room | Stock::Window => b"give back",
    }
}
