//! What is done at members: at once if they hold what it takes, and else as soon as they have been given
//! it, or not at all.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use tallymesh_core::{Error, Flow, Holding, Input, QuotaError, RequestId, RightKind};

use crate::world::{Member, World};

/// What somebody wants of a member.
#[derive(Clone)]
pub(crate) enum Deed {
    Spend {
        name: String,
        amount: u64,
    },
    Transfer {
        from: String,
        to: Vec<(String, u64)>,
    },
    Next {
        name: String,
    },
}

impl Deed {
    /// Of what it takes something, and how much.
    pub(crate) fn takes(&self) -> (&str, u64) {
        match self {
            Deed::Spend { name, amount } => (name, *amount),
            Deed::Transfer { from, to } => (from, to.iter().map(|it| it.1).sum()),
            Deed::Next { name } => (name, 1),
        }
    }
}

/// Somebody who waits.
pub(crate) struct Waiting {
    pub(crate) deed: Deed,
    pub(crate) until: u64,
    want: RequestId,
}

/// How something ended.
pub(crate) enum Outcome {
    Spent,
    Transferred,
    HandedOut { number: u64, watched: bool },
    RightsShort(Holding),
    NumbersShort,
}

/// Something that ended.
pub(crate) struct Event {
    pub(crate) at: usize,
    pub(crate) now: u64,
    pub(crate) deed: Deed,
    pub(crate) outcome: Outcome,
}

impl World {
    pub(crate) fn mint(&mut self, at: usize, name: &str, amount: u64) -> Result<(), Error> {
        self.members[at]
            .replica
            .quota_mut()
            .flow(name, Flow::Mint(amount))?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    pub(crate) fn grant(
        &mut self,
        at: usize,
        name: &str,
        to: usize,
        amount: u64,
    ) -> Result<(), Error> {
        let to = self.members[to].replica.writer();
        let grant = Flow::Grant { to, amount };
        self.members[at].replica.quota_mut().flow(name, grant)?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    pub(crate) fn begin(&mut self, at: usize, name: &str) -> Result<(), Error> {
        let replica = &mut self.members[at].replica;
        replica.quota_mut().begin_sequence(name, &mut Vec::new())?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    pub(crate) fn watch(&mut self, at: usize, name: &str, number: u64) -> Result<(), Error> {
        let replica = &mut self.members[at].replica;
        replica
            .quota_mut()
            .watch_number(name, number, &mut Vec::new())?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    /// Asks a member for something, for so long.
    pub(crate) fn ask(&mut self, at: usize, deed: Deed, wait_ms: u32) -> Result<(), Error> {
        let now = self.now();
        let until = now + u64::from(wait_ms);
        let sync = &mut self.members[at].sync;
        let (name, amount) = deed.takes();
        let want = match deed {
            Deed::Next { .. } => sync.request_numbers(now, name, amount, until),
            _ => sync.request_rights(now, name, RightKind::Rights, amount, until),
        };
        let waiting = Waiting { deed, until, want };
        self.members[at].waiting.push(waiting);
        self.serve(at)?;
        if !self.members[at].waiting.is_empty() {
            self.handle(at, Input::Tick);
        }
        Ok(())
    }

    /// Serves who waits at a member, and refuses those who have waited for long enough. Nobody overtakes
    /// who waits for the same.
    pub(crate) fn serve(&mut self, at: usize) -> Result<(), Error> {
        let now = self.now();
        let (mut place, mut before) = (0, Vec::<String>::new());
        while let Some(Waiting { deed, until, .. }) = self.members[at].waiting.get(place) {
            let (deed, late) = (deed.clone(), *until <= now);
            let name = deed.takes().0;
            let made = match before.iter().any(|it| it == name) {
                true => None,
                false => self.members[at].make(&deed)?,
            };
            if made.is_none() && !late {
                before.push(name.to_owned());
                place += 1;
                continue;
            }
            let outcome = match made {
                Some(outcome) => outcome,
                None => self.members[at].refusal(&deed),
            };
            let member = &mut self.members[at];
            let want = member.waiting.remove(place).want;
            match deed {
                Deed::Next { .. } => member.sync.end_numbers(now, want),
                _ => member.sync.end_rights_request(now, want),
            }
            if let Outcome::HandedOut { number, .. } = outcome {
                let issued = &mut self.found.issued;
                self.found.twice += u64::from(issued.iter().any(|it| it.0 == number));
                issued.push((number, at));
            }
            self.handle(at, Input::Changed);
            self.note(Event {
                at,
                now,
                deed,
                outcome,
            });
        }
        Ok(())
    }
}

impl Member {
    /// Does what is wanted, of what is held here; `None` if that is not enough.
    fn make(&mut self, deed: &Deed) -> Result<Option<Outcome>, Error> {
        let made = match deed {
            Deed::Spend { name, amount } => {
                let spent = self.replica.quota_mut().flow(name, Flow::Spend(*amount));
                spent.map(|()| Outcome::Spent)
            }
            Deed::Transfer { from, to } => {
                let to: Vec<(&str, u64)> = to.iter().map(|it| (it.0.as_str(), it.1)).collect();
                let mut transaction = self.replica.begin()?;
                transaction.quota_mut().transfer(from, &to).map(|()| {
                    transaction.commit(&mut Vec::new());
                    Outcome::Transferred
                })
            }
            Deed::Next { name } => {
                let drawn = self.replica.quota_mut().draw(name, &mut Vec::new());
                drawn.map(|number| Outcome::HandedOut {
                    number,
                    watched: self.replica.quota().sequence(name).is_some_and(|known| {
                        let mut watched = known.watched.iter();
                        watched.any(|it| it.number == number)
                    }),
                })
            }
        };
        match made {
            Ok(outcome) => Ok(Some(outcome)),
            // Nobody may have heard of it here yet.
            Err(Error::Quota(
                QuotaError::NoBudget | QuotaError::NoSequence | QuotaError::NumbersShort,
            )) => Ok(None),
            Err(Error::Quota(QuotaError::RightsShort(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What somebody is told who is refused.
    fn refusal(&self, deed: &Deed) -> Outcome {
        match deed {
            Deed::Next { .. } => Outcome::NumbersShort,
            _ => {
                let budget = self.replica.quota().budget(deed.takes().0);
                Outcome::RightsShort(budget.map(|it| it.rights).unwrap_or_default())
            }
        }
    }
}
