//! The end of a history: all living replicas exchange everything, until nothing is left to do.

use super::{Actor, World};
use crate::oracle::Dot;
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::explore::open_expiries;
use tallymesh_core::{Error, MemberError, Owner, VersionVector, WriterId};

impl World {
    /// All living replicas exchange everything, and the members put everything in order. At the end all
    /// states must be the same, and no larger than needed.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.note(|| "the end".into());
        self.now += 1_000;
        // By now, a replica that was given up has noticed it. Members fence the writers that are gone.
        for at in 0..self.actors.len() {
            let given_up = self.is_given_up(self.actors[at].replica.writer());
            self.gives_up(at, given_up);
        }
        // A round may change no state and still not be the last. A member may have found that its request was
        // acknowledged, and may request more in the next round.
        let mut quiet = 0;
        for round in 0.. {
            self.drop_owners()?;
            if !self.has_member() {
                return Ok(());
            }
            if round > 60 {
                return Err(format!("no end: {}", self.describe()));
            }
            let before: Vec<Vec<u8>> = self.alive().map(|at| self.bytes(at)).collect();
            let alive: Vec<usize> = self.alive().collect();
            for &from in &alive {
                for &to in &alive {
                    let actor = &self.actors[from].replica;
                    let speaks = actor.members().is_member() || actor.members().sponsor().is_some();
                    if from != to && (speaks || self.actors[to].replica.members().is_member()) {
                        self.exchange(from, to)?;
                    }
                }
            }
            self.check_digests()?;
            for &at in &alive {
                self.actors[at].alive &= !self.actors[at].left; // it has sent everything
            }
            for &at in &alive {
                if self.actors[at].replica.members().is_member() {
                    self.bury(at)?;
                    let waits = self.actors[at].aside.is_some();
                    let now = self.clock(at);
                    for key in (0..self.oracle.keys().len()).filter(|_| !waits) {
                        let Actor { replica, view, .. } = &mut self.actors[at];
                        self.oracle.materialize(view, replica, now, key)?;
                    }
                    self.end_leases(at)?;
                    let replica = &mut self.actors[at].replica;
                    replica
                        .members_mut()
                        .acknowledge()
                        .map_err(|error| error.to_string())?;
                    self.settle(at)?;
                    self.absorb_at(at)?;
                }
                let now = self.clock(at);
                let actor = &mut self.actors[at];
                actor.log.keep(&mut actor.replica);
                actor.log.check(&mut actor.replica, now)?;
                self.collect_at(at)?;
            }
            for at in 0..self.actors.len() {
                let actor = &self.actors[at];
                if actor.alive && (actor.stale || actor.aside.is_some()) {
                    self.come_back(at)?;
                }
            }
            let after: Vec<Vec<u8>> = self.alive().map(|at| self.bytes(at)).collect();
            let same = before == after && after.windows(2).all(|pair| pair[0] == pair[1]);
            quiet = if same { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
        }
        if !self.has_member() {
            return Ok(());
        }
        for at in self.alive() {
            let replica = &self.actors[at].replica;
            let known = |dot: Dot| dot.0 == replica.writer() || self.shared.contains(&dot);
            let done = self.oracle.check_once(&self.actors[at].view, &known);
            done.map_err(|error| format!("replica {at}: {error}: {}", self.describe()))?;
        }
        self.check_rights()?;
        self.check_size()
    }

    /// Checks that equal vectors have equal digests, no matter where garbage was collected.
    fn check_digests(&mut self) -> Result<(), String> {
        let mut digests = BTreeMap::new();
        let alive: Vec<usize> = self.alive().collect();
        for at in alive {
            let replica = &mut self.actors[at].replica;
            if replica.members().configuration().is_none() {
                continue;
            }
            let digest = replica.forks_mut().content_digest();
            let first = *digests.entry(replica.digest()).or_insert(digest);
            if first != digest {
                return Err(format!("{at} holds the same vector and another content"));
            }
        }
        Ok(())
    }

    /// Whether a member is left to put things in order.
    fn has_member(&self) -> bool {
        self.alive()
            .any(|at| self.actors[at].replica.members().is_member())
    }

    /// Takes members that are gone for good out of the configuration.
    fn drop_owners(&mut self) -> Result<(), String> {
        let owner = |actor: &Actor| actor.member.filter(|_| actor.alive).map(|it| it.0);
        let living: Vec<Owner> = self.actors.iter().filter_map(owner).collect();
        let newest = |actor: &&mut Actor| {
            let configuration = actor.replica.members().configuration();
            (!actor.stale, configuration.map(|it| (it.era, it.number)))
        };
        let members = self.actors.iter_mut();
        let members = members.filter(|it| it.alive && it.replica.members().is_member());
        let Some(actor) = members.max_by_key(newest) else {
            return Ok(());
        };
        let configuration = actor.replica.members().configuration();
        let mut members = configuration.map_or(Vec::new(), |it| it.members.clone());
        let before = members.len();
        members.retain(|owner| living.contains(owner));
        if members.len() < before {
            let done = actor.replica.members_mut().force(&members);
            done.map_err(|error| error.to_string())?;
        }
        let clock = actor.replica.clock();
        let writer = actor.replica.writer();
        self.oracle.note(&mut actor.view, (writer, clock));
        Ok(())
    }

    fn alive(&self) -> impl Iterator<Item = usize> {
        (0..self.actors.len()).filter(|at| self.actors[*at].alive)
    }

    fn bytes(&self, at: usize) -> Vec<u8> {
        self.actors[at].replica.canonical_bytes()
    }

    /// Fences every writer that this member has and that is gone without a leave.
    fn bury(&mut self, by: usize) -> Result<(), String> {
        let own = self.actors[by].replica.writer();
        let replica = &self.actors[by].replica;
        let known = replica
            .writers()
            .map(|it| it.0)
            .chain(replica.members().sponsored());
        let known: BTreeSet<WriterId> = known.collect();
        let living: Vec<WriterId> = self
            .alive()
            .map(|at| self.actors[at].replica.writer())
            .collect();
        for writer in known
            .iter()
            .filter(|it| !living.contains(it) && **it != own)
        {
            if self.actors[by].replica.members().accepts_from(writer) {
                match self.actors[by].replica.members_mut().fence(writer) {
                    Ok(()) | Err(Error::Member(MemberError::NotAMember)) => {}
                    Err(error) => return Err(error.to_string()),
                }
                self.settle(by)?;
            }
        }
        Ok(())
    }

    /// Checks that the state is only as large as the living replicas make it.
    fn check_size(&self) -> Result<(), String> {
        let living: Vec<WriterId> = self
            .alive()
            .filter(|at| !self.actors[*at].left)
            .map(|at| self.actors[at].replica.writer())
            .collect();
        for at in self.alive() {
            let replica = &self.actors[at].replica;
            for (writer, _) in replica.writers() {
                if !living.contains(&writer) && replica.members().is_member() {
                    return Err(format!("{at} still knows {writer}: {}", self.describe()));
                }
            }
            if open_expiries(replica) > 0 {
                return Err(format!("{at} has not decided: {}", self.describe()));
            }
            let keys = match &self.ledger {
                Some(books) => books.check_end(replica, &living, self.oracle.keys().len())?,
                None => self.oracle.keys().len(),
            };
            if replica.shard_count() > living.len() * keys {
                let count = replica.shard_count();
                return Err(format!("{at} has {count} shards: {}", self.describe()));
            }
        }
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for at in self.alive() {
            let replica = &self.actors[at].replica;
            let writers: Vec<String> = replica
                .writers()
                .map(|(writer, clock)| format!("{}@{clock}", &writer.to_string()[..4]))
                .collect();
            text += &format!(
                "\n  {at} {} {} shards {} {writers:?}\n    {:?}\n",
                if replica.members().is_member() {
                    "member"
                } else {
                    "tab"
                },
                &replica.writer().to_string()[..4],
                replica.shard_count(),
                replica.delta(&VersionVector::default()),
            );
        }
        text
    }
}
