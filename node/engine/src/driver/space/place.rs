//! Whether this start follows the one before in its place, and whether a next one may follow this one. A
//! member's start that follows another one has its vote at once (see [`Places`](crate::driver::places)).
//!
//! A right is lost before the commit of what takes it away. It is gained only after the commit of what gives
//! it: a next start must find in the store what the others said when they acknowledged this one.

use super::OpenSpace;
use crate::driver::places::Followed;
use tallymesh_core::{Predecessor, WriterId};

/// How long after its start a member waits for others to catch up with, in milliseconds. A longer
/// time helps if they are slow to reach; a shorter one helps if they are gone.
const ANNOUNCE_MS: u64 = 5_000;

/// How long after its start a member that follows its earlier start waits for links to more members than it
/// needs, in milliseconds. They know best whether its store is an older copy. A longer time delays it where
/// other members are gone.
const FOLLOW_MS: u64 = 500;

/// The start that this one follows, and what a next one may follow.
#[derive(Debug, Default)]
pub(super) struct InPlace {
    /// The start that this one may follow, as the store had it.
    follows: Option<Predecessor>,
    /// Whether the next start may follow this one.
    leads: bool,
    /// Whether that has changed since the driver last took it.
    is_new: bool,
    /// Whether this start was found to follow the one before.
    following: bool,
    /// The record of the store that has the vote of a start that follows none.
    gain: Gain,
}

/// How far the store has what gave a start its vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Gain {
    /// The start has no vote.
    #[default]
    Nothing,
    /// The next record has it.
    Next,
    /// The record of this number has it.
    Given(u64),
}

impl InPlace {
    /// The place of a start that may follow this one.
    pub(super) fn after(follows: Option<Predecessor>) -> InPlace {
        InPlace {
            follows,
            leads: follows.is_some(),
            ..InPlace::default()
        }
    }

    /// The start that this one may follow.
    pub(super) fn follows(&self) -> Option<Predecessor> {
        self.follows
    }

    /// The starts that the next one may follow: that of `writer`, and the one before as long as the store may
    /// end with it.
    pub(super) fn followed(&self, writer: WriterId) -> Vec<Followed> {
        if !self.leads {
            return Vec::new();
        }
        let before = self.follows.map(|it| Followed {
            writer: it.writer,
            clock: Some(it.clock),
        });
        let clock = None;
        before
            .into_iter()
            .chain([Followed { writer, clock }])
            .collect()
    }

    /// Ends all rights of this place: the start follows none, and the next one may not follow it. Returns whether
    /// the next one could follow it so far.
    pub(super) fn end(&mut self) -> bool {
        (self.follows, self.following, self.gain) = (None, false, Gain::Nothing);
        let led = self.leads;
        self.set_leads(false);
        led
    }

    /// Goes on in this process after a start that the next one could follow.
    fn go_on(&mut self, before: Predecessor) {
        *self = InPlace {
            is_new: true,
            ..InPlace::after(Some(before))
        };
    }

    fn set_leads(&mut self, leads: bool) {
        self.is_new |= self.leads != leads;
        self.leads = leads;
    }

    /// Notes that the store was given all changes so far, the last of them in the record of this number.
    pub(super) fn given(&mut self, record: u64) {
        if self.gain == Gain::Next {
            self.gain = Gain::Given(record);
        }
    }
}

impl OpenSpace {
    /// Announces this start if the owner is a member and has not announced the present writer. It
    /// does so once the node has caught up with the others, because the store may be an old copy.
    pub(super) fn take_part(&mut self, now: u64) {
        if self.is_starting() && (now >= ANNOUNCE_MS || self.has_heard_enough(now)) {
            self.announce();
        }
    }

    /// Whether this start has heard enough of others to announce itself. One that follows another start gives
    /// those some time who know best whether its store is an older copy.
    fn has_heard_enough(&self, now: u64) -> bool {
        let members = self.replica.members().configuration();
        let members = members.map_or(0, |it| it.members.len());
        let enough = (members - members / 2).min(members.saturating_sub(1));
        let waits = self.part.place.follows.is_some() && now < FOLLOW_MS;
        self.sync.has_caught_up(&self.replica)
            && (!waits || self.sync.linked_member_count(&self.replica) >= enough)
    }

    /// When a start that follows another one has given those enough time, if it waits for that.
    pub(super) fn announce_due(&self, now: u64) -> Option<u64> {
        let waits = self.part.place.follows.is_some() && now < FOLLOW_MS && self.is_starting();
        waits.then_some(FOLLOW_MS)
    }

    /// Lets the present writer follow the one before it in this process, whose state it goes on with. A member that
    /// makes transactions of an earlier writer again would lose its vote otherwise.
    pub(super) fn go_on_in_place(&mut self, before: &WriterId) {
        let start = self.replica.members().only_start(&self.owner);
        if let Some(start) = start.filter(|it| it.writer == *before) {
            self.part.place.go_on(start);
        }
    }

    /// Judges again whether the next start may follow this one. Before the announcement it may if this one
    /// may follow the one before. Then it may if this one does, or if the store has what gave it its vote.
    pub(super) fn look_at_place(&mut self) {
        let (follows, votes) = {
            let members = self.replica.members();
            if !members.is_announced() || !self.part.durable {
                return;
            }
            let follows = members.follows();
            (follows, follows || members.has_vote())
        };
        let place = &mut self.part.place;
        place.following = follows;
        if follows {
            return; // It has led since it began.
        }
        if !votes {
            place.end();
            return;
        }
        if place.follows.take().is_some() {
            // What others have said since is not in the store yet.
            place.set_leads(false);
        }
        if place.leads {
            return;
        }
        match place.gain {
            Gain::Nothing => place.gain = Gain::Next,
            Gain::Given(record) if record <= self.durable_record => place.set_leads(true),
            Gain::Given(_) => {}
            Gain::Next if self.replica.is_at(&self.stored) => place.set_leads(true),
            Gain::Next => {}
        }
        if !self.part.place.leads {
            // A restart in the meantime would have to wait for the others.
            self.part.due = self.part.due.min(self.part.done + self.part.rest);
        }
    }

    /// The starts that the next one in this place may follow, if that has changed.
    pub(in crate::driver) fn take_followed(&mut self) -> Option<Vec<Followed>> {
        let generation = self.replica.generation();
        let follows = self.part.place.follows;
        let replaced = follows.is_some_and(|it| it.generation != generation);
        if replaced && !self.replica.members().is_announced() {
            // The state is not that of the store any more, and may lack what this member answered for.
            self.part.place.end();
        }
        // Others may just have said that the store lacked something.
        if self.part.place.following && !self.replica.members().follows() {
            self.look_at_place();
        }
        let writer = self.replica.writer();
        let place = &mut self.part.place;
        std::mem::take(&mut place.is_new).then(|| place.followed(writer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Predecessor = Predecessor {
        writer: WriterId::from_bytes([1; 16]),
        clock: 7,
        generation: 0,
    };

    #[test]
    fn a_start_that_follows_none_leads_none_before_the_store_has_its_vote() {
        let own = WriterId::from_bytes([2; 16]);
        let mut place = InPlace::after(None);
        assert_eq!(place.followed(own), []);
        place.gain = Gain::Next;
        place.given(3);
        assert_eq!(place.gain, Gain::Given(3));
        place.given(4);
        assert_eq!(place.gain, Gain::Given(3), "the first record has it");
        place.set_leads(true);
        let clock = None;
        let leads = [Followed { writer: own, clock }];
        assert_eq!(place.followed(own), leads);
        assert!(place.is_new);
    }

    #[test]
    fn the_next_start_may_follow_this_one_or_the_one_that_this_one_follows() {
        let own = WriterId::from_bytes([2; 16]);
        let mut place = InPlace::after(Some(BEFORE));
        let clock = |it: &Followed| it.clock;
        let followed = place.followed(own);
        let clocks: Vec<_> = followed.iter().map(clock).collect();
        assert_eq!(clocks, [Some(7), None]);
        assert_eq!(
            [followed[0].writer, followed[1].writer],
            [BEFORE.writer, own]
        );
        assert!(place.end());
        assert_eq!((place.followed(own), place.follows()), (Vec::new(), None));
        assert!(place.is_new && !place.end());
        // The process goes on under another writer from its own state.
        place.go_on(BEFORE);
        assert_eq!(
            (place.followed(own).len(), place.follows()),
            (2, Some(BEFORE))
        );
        assert!(place.is_new && place.end());
    }
}
