//! The actions of a replica by itself, beside transactions on counters; and how it restarts or rejoins.

use super::Local;
use super::configs::Config;
use super::world::{CutId, Did, Node, Remade, Step, World, guarded};
use crate::ledger::NAMES;
use crate::search::NodeId;
use tallymesh_core::{
    Encode, Error, Flow, Mark, MemberError, Message, Owner, QuotaError, Replica, Space,
    VersionVector, WriterId,
};

impl World<'_> {
    /// Performs an action that changes no counter.
    pub(super) fn tend(&mut self, node: NodeId, step: Local) -> Result<NodeId, String> {
        let from = self.node(node);
        let (at, mut counts, mut cut) = (from.at, from.counts, from.cut);
        let mut replica = from.replica.clone();
        let before = replica.clock();
        let present = replica.members().configuration().cloned();
        let known: Vec<WriterId> = replica.members().retired().map(|it| it.0).collect();
        match step {
            Local::Propose(_) => counts.proposals += 1,
            Local::Pass => {
                counts.passes += 1;
                replica.set_time(self.now(&counts));
            }
            _ => {}
        }
        let config = self.config;
        let done = guarded(|| tend(&mut replica, step, config))?;
        done.map_err(|error| format!("{step:?}: {error}"))?;
        if replica.clock() > before {
            match step {
                Local::Acknowledge => counts.acks += 1,
                Local::Leave => counts.leaves += 1,
                Local::Fence(..) => counts.fences += 1,
                _ => {}
            }
            let votes = matches!(step, Local::Vote | Local::Propose(_));
            let decided = replica.members().configuration().filter(|_| votes);
            let retired = replica.members().retired();
            let did = Did {
                retires: retired.filter(|it| !known.contains(&it.0)).collect(),
                decides: decided.filter(|it| present.as_ref() != Some(it)).cloned(),
                ..Did::default()
            };
            let stamp = (replica.writer(), replica.clock());
            cut = self.made(stamp, cut, Step::Local(step, counts.passes), did);
        }
        self.adopt(replica, at, counts, cut)
    }

    /// An operation on the budget. A rejected one changes nothing.
    pub(super) fn flow(&mut self, node: NodeId, number: u8) -> Result<NodeId, String> {
        let from = self.node(node);
        let (at, mut counts, cut) = (from.at, from.counts, from.cut);
        let mut replica = from.replica.clone();
        let before = replica.clock();
        let next = (at + 1) % self.config.members as u8;
        let flow = match self.config.flows[usize::from(number)] {
            Flow::Grant { amount, .. } => Flow::Grant {
                to: writer(self.config, next, 0),
                amount,
            },
            flow => flow,
        };
        match guarded(|| replica.quota_mut().flow(NAMES[0], flow))? {
            Ok(()) => {}
            Err(
                Error::Quota(QuotaError::RightsShort(_) | QuotaError::NoBudget)
                | Error::Member(MemberError::NotAMember | MemberError::UnknownWriter { .. }),
            ) => {
                return match replica.clock() == before {
                    true => Ok(node),
                    false => Err(format!("{flow:?} was refused, and made")),
                };
            }
            Err(error) => return Err(format!("{flow:?}: {error}")),
        }
        counts.ops += 1;
        let did = Did {
            flow: Some(flow),
            ..Did::default()
        };
        let stamp = (replica.writer(), replica.clock());
        let step = Step::Local(Local::Flow(number), counts.passes);
        let cut = self.made(stamp, cut, step, did);
        self.adopt(replica, at, counts, cut)
    }

    /// A member restarts from an earlier state of its store.
    pub(super) fn restart(&mut self, node: NodeId, from: NodeId) -> Result<NodeId, String> {
        let Node { at, mut counts, .. } = *self.node(node);
        let from = self.node(from);
        let cut = from.cut;
        let stored = guarded(|| Message::decode_stored(&from.replica.snapshot().encode_stored()))?;
        let stored = stored.map_err(|error| format!("a store's message: {error}"))?;
        counts.restarts += 1;
        let (owner, nonce) = (owner(at), nonce(at, counts.starts()));
        let writer = writer(self.config, at, counts.starts());
        let mut replica = Replica::new(Space::default(), writer);
        replica.set_time(self.now(&counts));
        let restored = guarded(|| replica.restore(&stored))?;
        restored.map_err(|error| format!("the log does not replay: {error}"))?;
        let now = u64::from(counts.restarts) + 1;
        match guarded(|| replica.members_mut().announce(&owner, &nonce, now))? {
            Ok(()) => {}
            Err(Error::Member(MemberError::NotAMember)) => return Ok(node),
            Err(error) => return Err(format!("the announcement: {error}")),
        }
        let step = Step::Local(Local::Restart(node), counts.passes);
        let stamp = (replica.writer(), replica.clock());
        let cut = self.made(stamp, cut, step, Did::default());
        let cut = self.withdraw(&mut replica, cut)?;
        self.adopt(replica, at, counts, cut)
    }

    /// A tab that was given up rejoins through a member that has the end of its writer. Returns the same node
    /// if this member does not have it.
    pub(super) fn comes_back(&mut self, node: NodeId, by: NodeId) -> Result<NodeId, String> {
        if let Some(&after) = self.returned.get(&(node, by)) {
            return Ok(after);
        }
        self.executed += 1;
        let after = self.come_back(node, by)?;
        self.returned.insert((node, by), after);
        Ok(after)
    }

    fn come_back(&mut self, node: NodeId, by: NodeId) -> Result<NodeId, String> {
        let (old, helper) = (self.node(node), self.node(by));
        let (was, own) = (old.replica.writer(), old.cut);
        let Some(upto) = helper.replica.members().final_clock(&was) else {
            return Ok(node);
        };
        let (at, mut counts, mut cut) = (old.at, old.counts, helper.cut);
        counts.returns += 1;
        let writer = writer(self.config, at, counts.starts());
        let state = helper.replica.delta(&VersionVector::default()).encode();
        let state = Message::decode(&state).map_err(|error| format!("the state: {error}"))?;
        let mut replica = old.replica.clone();
        let journal = guarded(|| {
            replica
                .rejoin_mut()
                .begin_again(writer, &state, &mut |_| ())
        })?;
        let journal = journal.map_err(|error| format!("{at} begins again: {error}"))?;
        let returned = guarded(|| {
            replica
                .rejoin_mut()
                .make_again(journal, Some(upto), 0, &mut |_| ())
        })?;
        if returned.unknown.is_some() {
            return Err(format!("{at} has forgotten what it did: {returned:?}"));
        }
        for again in returned.again {
            let clock = again.clock;
            let remade = Remade {
                original: self.find(own, (was, again.was))?,
                again,
                now: self.now(&counts),
            };
            self.remake(cut, writer, &remade)?;
            if let Some(clock) = clock {
                cut = self.remade(cut, (writer, clock), remade);
            }
        }
        cut = self.withdraw(&mut replica, cut)?;
        self.adopt(replica, at, counts, cut)
    }

    fn remade(&mut self, before: CutId, stamp: (WriterId, u64), remade: Remade) -> CutId {
        let step = Step::Again(remade.original);
        let again = Some(remade);
        let did = Did {
            again,
            ..Did::default()
        };
        self.made(stamp, before, step, did)
    }
}

/// Calls the core for an action that changes no counter.
fn tend(replica: &mut Replica, step: Local, config: &Config) -> Result<(), Error> {
    match step {
        Local::Acknowledge => replica.members_mut().acknowledge().map(|_| ()),
        Local::Absorb => {
            replica.members_mut().fence_strays()?;
            replica.members_mut().retire().map(|_| ())
        }
        Local::Collect => {
            let mut mark = Mark::default();
            replica.since(&mut mark);
            replica.members_mut().collect(&mark);
            Ok(())
        }
        Local::Decide => {
            let mut mark = Mark::default();
            replica.since(&mut mark);
            replica.members_mut().decide_expiries(&mark).map(|_| ())
        }
        Local::Leave => replica.members_mut().leave(),
        Local::Fence(at, number) => {
            let owner = owner(at);
            let members = replica
                .members()
                .configuration()
                .map(|it| it.members.clone());
            let mut members = members.unwrap_or_default();
            if usize::from(at) < config.members && members.contains(&owner) {
                members.retain(|it| *it != owner);
                replica.members_mut().force(&members)?;
            }
            replica.members_mut().fence(&writer(config, at, number))
        }
        Local::Propose(number) => {
            let owners = config.proposals[usize::from(number)].iter();
            let owners: Vec<Owner> = owners.map(|at| owner(*at)).collect();
            replica.members_mut().propose(&owners)
        }
        Local::Vote => replica.members_mut().vote().map(|_| ()),
        Local::Found => {
            let owners: Vec<Owner> = (0..config.members as u8).map(owner).collect();
            replica.members_mut().found(&owner(0), &nonce(0, 0), 1)?;
            replica.members_mut().force(&owners)
        }
        Local::Announce(at) => replica.members_mut().announce(&owner(at), &nonce(at, 0), 1),
        Local::Flow(_)
        | Local::Transact(_)
        | Local::Materialize(_)
        | Local::Expire(_)
        | Local::Restart(_)
        | Local::Pass => Ok(()),
    }
}

/// The owner of a member's place. A place beyond the members gets an owner without a replica.
pub(super) fn owner(at: u8) -> Owner {
    [at + 1; 32]
}

fn nonce(at: u8, number: u8) -> [u8; 16] {
    let mut nonce = [number; 16];
    nonce[0] = at;
    nonce
}

/// The writer of a place at its start of this number.
pub(super) fn writer(config: &Config, at: u8, number: u8) -> WriterId {
    let owner = match usize::from(at) < config.members {
        true => owner(at),
        false => [99; 32],
    };
    WriterId::mint(&Space::default(), &owner, &nonce(at, number))
}
