//! Replicas that cannot go on rejoin: tabs that were given up, and members restored from a backup.

use super::{Actor, World};
use crate::oracle::{Dot, View};
use tallymesh_core::explore::expiry_marks;
use tallymesh_core::{
    Encode, Error, Journal, MemberError, Message, Owner, Predecessor, Replica, Space,
    VersionVector, WriterId,
};

impl World {
    /// The state from which a member starts again: mostly its newest one, sometimes a backup.
    pub(super) fn restored(&mut self, at: usize) -> (Vec<u8>, View) {
        if let Some(saved) = self.actors[at].saved.clone()
            && self.random.chance(250)
        {
            self.note(|| format!("{at} is restored from a backup"));
            return saved;
        }
        let actor = &self.actors[at];
        (actor.replica.snapshot().encode_stored(), actor.view.clone())
    }

    /// The start that a next one from this stored state follows in its place: that of `at`, if the state has
    /// all of it, and if it followed another one or had its vote.
    pub(super) fn predecessor(&self, at: usize, owner: Owner, state: &[u8]) -> Option<Predecessor> {
        let replica = &self.actors[at].replica;
        let members = replica.members();
        let is_whole = replica.snapshot().encode_stored() == state;
        let may = is_whole && (members.follows() || members.has_vote());
        members
            .only_start(&owner)
            .filter(|it| may && it.writer == replica.writer())
    }

    /// A start announces itself.
    pub(super) fn announce(
        &mut self,
        at: usize,
        owner: Owner,
        nonce: [u8; 16],
        now: u64,
        before: Option<Predecessor>,
    ) -> Result<(), String> {
        let mut members = self.actors[at].replica.members_mut();
        match members.announce_after(&owner, &nonce, now, before) {
            Ok(()) => {
                let follows = self.actors[at].replica.members().follows();
                self.metrics.follows += u64::from(follows);
                self.settle(at)
            }
            // The member was taken out of the configuration meanwhile.
            Err(Error::Member(MemberError::NotAMember)) => {
                self.actors[at].alive = false;
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// A replica that cannot go on takes the next step to rejoin.
    pub(super) fn come_back(&mut self, at: usize) -> Result<(), String> {
        if self.actors[at].aside.is_some() && !self.actors[at].stale {
            return self.resume(at);
        }
        let Some(helper) = self.helper(at) else {
            // Every replica with newer state is gone.
            self.actors[at].stale &= !self.actors[at].replica.members().is_member();
            return Ok(());
        };
        let owner = self.actors[at].member.map(|it| it.0);
        let configuration = self.actors[helper].replica.members().configuration();
        let is_member = |owner: &Owner| configuration.is_some_and(|it| it.has(owner));
        match owner.filter(is_member) {
            Some(owner) => self.begin_as_member(at, helper, owner),
            None => self.return_as_tab(at, helper),
        }
    }

    /// A replica whose state the returning one can begin from: a member, or for the last member a tab.
    fn helper(&mut self, at: usize) -> Option<usize> {
        let writer = self.actors[at].replica.writer();
        let owned = self.actors[at].member.is_some();
        let member = self.pick(|actor| {
            let other = actor.replica.writer() != writer;
            other && actor.replica.members().is_member() && !actor.stale
        });
        member.or_else(|| {
            self.pick(|actor| owned && !actor.stale && actor.replica.members().sponsor().is_some())
        })
    }

    fn upto(&self, at: usize, writer: WriterId) -> Option<u64> {
        self.actors[at].replica.members().final_clock(&writer)
    }

    /// A tab rejoins once a member has the clock up to which the tab was retired.
    fn return_as_tab(&mut self, at: usize, helper: usize) -> Result<(), String> {
        let aside = self.actors[at].aside.as_ref().and_then(Journal::writer);
        let old = aside.unwrap_or(self.actors[at].replica.writer());
        let upto = self.upto(helper, old);
        let published = self.published(old);
        if upto.is_none() {
            if !self.actors[helper].replica.members().is_member() {
                return Ok(());
            }
            let knows = |replica: &Replica| replica.writers().any(|(writer, _)| writer == old);
            // If no replica ever received a message of a writer, none can have forgotten it.
            let heard =
                |it: &Actor| it.replica.writer() != old && it.view.vector().contains_key(&old);
            let is_new = !self.taken.has(&old) && !self.actors.iter().any(heard);
            if is_new || knows(&self.actors[helper].replica) {
                self.note(|| format!("{helper} ends {at}, for it to come back"));
                let done = self.actors[helper].replica.members_mut().fence(&old);
                done.map_err(|error| error.to_string())?;
                return self.settle(helper);
            }
            // The writer may have been forgotten here, in an earlier life. Then other replicas may still have
            // its end.
            let says =
                |it: &Actor| knows(&it.replica) || it.replica.members().final_clock(&old).is_some();
            let others = self.actors.iter().enumerate().filter(|it| it.0 != at);
            let others = others.filter(|it| it.1.alive && !it.1.stale);
            let mut others = others.filter(|it| it.1.replica.members().is_member());
            if others.any(|it| says(it.1)) {
                return Ok(());
            }
        }
        self.note(|| format!("{at} returns by {helper}, which has it up to {upto:?}"));
        self.actors[at].member = None;
        let journal = self.begin_again(at, helper, None)?;
        let journal = self.actors[at].aside.take().unwrap_or(journal);
        self.make_again(at, journal, upto, published)
    }

    /// The last clock of a writer that it has sent to any other replica.
    fn published(&self, writer: WriterId) -> u64 {
        let sent = self.sent.iter().filter(|sent| sent.writer == writer);
        let told = sent.filter_map(|sent| sent.view.vector().get(&writer).copied());
        told.max().unwrap_or(0)
    }

    /// A member begins again as a new incarnation, and ends the old one.
    fn begin_as_member(&mut self, at: usize, helper: usize, owner: Owner) -> Result<(), String> {
        self.note(|| format!("{at} begins again from {helper}"));
        let old = self.actors[at].replica.writer();
        let journal = self.begin_again(at, helper, Some(owner))?;
        let done = self.actors[at].replica.members_mut().fence(&old);
        done.map_err(|error| error.to_string())?;
        self.settle(at)?;
        // A journal that was put aside before stays there, because the replica has written nothing since.
        self.actors[at].aside.get_or_insert(journal);
        Ok(())
    }

    /// A member replays the transactions that nobody retired from its old incarnation, once those are
    /// certain. It does so under one more incarnation, because the present one may have retired others.
    fn resume(&mut self, at: usize) -> Result<(), String> {
        let old = self.actors[at].aside.as_ref().and_then(Journal::writer);
        let Some(upto) = old.and_then(|old| self.upto(at, old)) else {
            return Ok(());
        };
        let Some(owner) = self.actors[at].member.map(|it| it.0) else {
            return Ok(());
        };
        self.note(|| format!("{at} goes on, {upto} was taken over"));
        let aside = self.actors[at].aside.take();
        // Its rights on budgets move along, or are retired as those of other writers are.
        let along = self.ledger.is_some() && self.random.chance(500);
        let none = self.begin_again_with(at, at, Some(owner), along)?;
        // It may have received something of a budget from a retired writer meanwhile.
        if !none.is_empty() && self.ledger.is_none() {
            return Err(format!("{at} wrote while it waited: {none:?}"));
        }
        match aside {
            Some(journal) => self.make_again(at, journal, Some(upto), 0),
            None => Ok(()),
        }
    }

    /// A replica replaces its state by the whole state of another.
    fn begin_again(
        &mut self,
        at: usize,
        from: usize,
        owner: Option<Owner>,
    ) -> Result<Journal, String> {
        self.begin_again_with(at, from, owner, false)
    }

    fn begin_again_with(
        &mut self,
        at: usize,
        from: usize,
        owner: Option<Owner>,
        along: bool,
    ) -> Result<Journal, String> {
        let nonce = self.random.bytes();
        let key = owner.unwrap_or([99; 32]);
        let writer = WriterId::mint(&Space::default(), &key, &nonce);
        if along {
            let done = self.actors[at].replica.quota_mut().hand_over(writer);
            done.map_err(|error| error.to_string())?;
            self.settle(at)?;
        }
        let state = self.actors[from].replica.delta(&VersionVector::default());
        let state = Message::decode(&state.encode()).map_err(|error| error.to_string())?;
        let view = self.actors[from].view.clone();
        let actor = &mut self.actors[at];
        let journal = actor
            .replica
            .rejoin_mut()
            .begin_again(writer, &state, &mut |_| ());
        let journal = journal.map_err(|error| format!("{at} begins again: {error}"))?;
        actor.view = view;
        actor.stale = false;
        actor.doomed = false;
        actor.left = false;
        actor.member = owner.map(|owner| (owner, nonce));
        self.metrics.returns += 1;
        self.settle(at)?;
        if let Some(owner) = owner {
            let now = self.now;
            self.announce(at, owner, nonce, now, None)?;
        }
        Ok(journal)
    }

    fn make_again(
        &mut self,
        at: usize,
        journal: Journal,
        upto: Option<u64>,
        published: u64,
    ) -> Result<(), String> {
        let Some(old) = journal.writer() else {
            return Ok(());
        };
        let now = self.clock(at);
        let super::Actor { replica, view, .. } = &mut self.actors[at];
        replica.set_time(now);
        let returned = replica
            .rejoin_mut()
            .make_again(journal, upto, published, &mut |_| ());
        let unknown = Some((1, published)).filter(|_| upto.is_none() && published > 0);
        if returned.unknown != unknown {
            return Err(format!("{unknown:?} is unknown of {at}: {returned:?}"));
        }
        self.metrics.unknown += u64::from(unknown.is_some());
        let taken = &self.taken;
        for again in &returned.again {
            let keeps = |dot: Dot, cancels: &[Dot]| taken.keeps(dot, cancels);
            let writers = (old, replica.writer());
            let replica = &*replica;
            let marks = |key: &str, clock| expiry_marks(replica, key, clock);
            if let Some(books) = &mut self.ledger
                && books.reissue(view, writers, again)?
            {
                let clock = again.clock.unwrap_or(0);
                self.oracle.note(view, (replica.writer(), clock));
                continue;
            }
            let done = self
                .oracle
                .reissue(view, writers, (now, &marks), again, &keeps);
            done.map_err(|error| format!("replica {at}: {error}"))?;
        }
        self.metrics.again += returned.again.len() as u64;
        self.note(|| format!("{at} makes again {:?}", returned.again));
        self.settle(at)
    }
}
