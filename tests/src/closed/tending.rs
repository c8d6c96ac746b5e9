//! The duties of members: they acknowledge, retire writers and collect garbage.

use super::{Actor, World};
use tallymesh_core::{Encode, Error, Replica, WriterId};

impl World {
    pub(super) fn tend(
        &mut self,
        work: impl Fn(&mut Replica) -> Result<(), Error>,
    ) -> Result<(), String> {
        let Some(at) = self.pick(|actor| actor.replica.members().is_member()) else {
            return Ok(());
        };
        self.note(|| format!("{at} acknowledges"));
        self.end_leases(at)?;
        work(&mut self.actors[at].replica).map_err(|error| error.to_string())?;
        self.settle(at)?;
        if self.random.chance(100) {
            let Actor { replica, view, .. } = &self.actors[at];
            let state = replica.snapshot().encode_stored();
            self.actors[at].saved = Some((state, view.clone()));
        }
        Ok(())
    }

    pub(super) fn absorb(&mut self) -> Result<(), String> {
        match self.pick(|actor| actor.replica.members().is_member()) {
            Some(at) => self.absorb_at(at).map(|_| ()),
            None => Ok(()),
        }
    }

    pub(super) fn absorb_at(&mut self, at: usize) -> Result<usize, String> {
        let replica = &mut self.actors[at].replica;
        replica
            .members_mut()
            .fence_strays()
            .map_err(|error| error.to_string())?;
        self.settle(at)?;
        let replica = &mut self.actors[at].replica;
        let before: Vec<WriterId> = replica.members().retired().map(|it| it.0).collect();
        // The rights of the retired writers move in the transaction after that.
        let clock = replica.clock() + 1;
        let count = replica
            .members_mut()
            .retire()
            .map_err(|error| error.to_string())?;
        self.taken.note(replica, &before, clock);
        self.note(|| format!("{at} absorbs {count}"));
        self.metrics.absorbed += count as u64;
        self.settle(at)?;
        Ok(count)
    }

    pub(super) fn collect(&mut self) -> Result<(), String> {
        match self.pick(|_| true) {
            Some(at) => self.collect_at(at).map(|_| ()),
            None => Ok(()),
        }
    }

    pub(super) fn collect_at(&mut self, at: usize) -> Result<bool, String> {
        if !self.actors[at].replica.members().is_member()
            && let Some(member) = self.pick(|actor| actor.replica.members().is_member())
        {
            let member = &self.actors[member].replica;
            let (settled, seen) = (member.members().stable(), member.vector());
            self.actors[at]
                .replica
                .members_mut()
                .accept_stable(&settled, &seen);
        }
        let now = self.clock(at);
        let actor = &mut self.actors[at];
        if self.random.chance(800) {
            actor.log.keep(&mut actor.replica);
            if self.random.chance(100) {
                actor.log.check(&mut actor.replica, now)?;
            }
        }
        if let Some(store) = &mut actor.store {
            store.append(&mut actor.replica);
        }
        let decided = actor.replica.members_mut().decide_expiries(&actor.log.mark);
        let decided = decided.map_err(|error| error.to_string())?;
        self.metrics.decided += u64::from(decided);
        if decided {
            self.note(|| format!("{at} decides on expiries"));
            self.settle(at)?;
        }
        let actor = &mut self.actors[at];
        let done = decided | actor.replica.members_mut().collect(&actor.log.mark);
        self.metrics.collections += u64::from(done);
        self.note(|| format!("{at} collects: {done}"));
        self.check(at)?;
        Ok(done)
    }
}
