//! All open spaces, with a record of which of them have work to do. There may be thousands, most of
//! them idle.
//!
//! A mutable access to a space wakes it, as does its own deadline. A turn goes through the spaces
//! that are awake, and puts them to sleep at its end. A sleeping space can be read as it is: a
//! space with an expired counter is awake.

use super::space::OpenSpace;
use crate::access::{Authorities, Authority};
use std::collections::{BTreeSet, HashMap};
use std::ops::{Index, IndexMut};
use tallymesh_core::{Snapshot, Space};
use tallymesh_node_ground::clock::WallClock;
use tallymesh_node_ground::identity::OwnerKey;
use tallymesh_node_ground::model::{Sizes, SpaceId};
use tallymesh_node_store::Record;

/// How many of the first spaces are in use from the start. Each other space comes into use, and so
/// is synced, once there is something in it here or at a peer. A higher value costs each link a
/// hello and some digests for each space. A lower value costs the first write in a space a round
/// trip.
const IN_USE_MIN: usize = 64;

/// The open spaces, by their places in the configuration.
pub struct Spaces {
    all: Vec<OpenSpace>,
    places: HashMap<Box<str>, SpaceId>,
    states: Vec<State>,
    /// The spaces that are awake, each once, in the order in which they woke.
    awake: Vec<usize>,
    /// The spaces that were awake since they last gave their record to the store, each once.
    unsaved: Vec<usize>,
    /// The spaces that gave a record which is not yet known to be durable.
    given: Vec<usize>,
    /// The deadlines of the sleeping spaces, in milliseconds since the start.
    deadlines: BTreeSet<(u64, usize)>,
    /// When a counter of each sleeping space expires next, in milliseconds since 1970.
    expiries: BTreeSet<(u64, usize)>,
    /// The wall clock of the present batch, in milliseconds since 1970.
    unix_ms: u64,
    /// The clocks of linked nodes.
    clock: WallClock,
    /// Whether any Redis client subscribes to events.
    listening: bool,
}

#[derive(Clone, Default)]
struct State {
    awake: bool,
    unsaved: bool,
    given: bool,
    in_use: bool,
    deadline: Option<u64>,
    expiry: Option<u64>,
}

impl Spaces {
    /// Makes the set from these spaces, all awake.
    pub(super) fn new(all: Vec<OpenSpace>) -> Spaces {
        let name = |(place, space): (usize, &OpenSpace)| {
            let name = space.name().as_str();
            (Box::from(name), SpaceId(place))
        };
        let mut spaces = Spaces {
            places: all.iter().enumerate().map(name).collect(),
            states: vec![State::default(); all.len()],
            awake: Vec::new(),
            unsaved: Vec::new(),
            given: Vec::new(),
            deadlines: BTreeSet::new(),
            expiries: BTreeSet::new(),
            unix_ms: 0,
            clock: WallClock::new(|| 0),
            listening: false,
            all,
        };
        for place in 0..spaces.all.len() {
            spaces.states[place].in_use = place < IN_USE_MIN || !spaces.all[place].is_blank();
            spaces.wake(place);
        }
        spaces
    }

    /// How many spaces are open.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenSpace> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OpenSpace> {
        self.all.iter_mut()
    }

    /// How many counters there are in a space. It does not wake a sleeping space, because none of
    /// its counters has changed or expired.
    pub fn sizes(&mut self, place: usize) -> Sizes {
        self.all[place].sizes()
    }

    pub(super) fn find(&self, name: &str) -> Option<SpaceId> {
        self.places.get(name).copied()
    }

    /// The spaces in use, in their order.
    pub(super) fn in_use(&self) -> impl Iterator<Item = SpaceId> {
        let states = self.states.iter().enumerate();
        let in_use = states.filter(|(_, state)| state.in_use);
        in_use.map(|(place, _)| SpaceId(place))
    }

    /// Brings a space into use; returns whether it was not in use before.
    pub(super) fn use_it(&mut self, space: SpaceId) -> bool {
        !std::mem::replace(&mut self.states[space.0].in_use, true)
    }

    /// The spaces that are awake, have content, and are not in use yet.
    pub(super) fn begun(&self) -> Vec<SpaceId> {
        let begun = |place: &usize| !self.states[*place].in_use && !self.all[*place].is_blank();
        let awake = self.awake.iter().copied();
        awake.filter(begun).map(SpaceId).collect()
    }

    /// Sets the clock that has those of linked nodes.
    pub(super) fn set_clock(&mut self, clock: WallClock) {
        self.clock = clock;
    }

    /// Begins a batch at this time.
    pub(super) fn set_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
        for place in &self.awake {
            self.all[*place].judge_time(unix_ms, &self.clock);
        }
    }

    /// The time of a space in the present batch, by which its counters expire, in milliseconds since 1970.
    pub fn time(&self, place: usize) -> u64 {
        self.all[place].time_at(self.unix_ms)
    }

    /// Sets whether Redis clients subscribe to events from now on.
    pub(super) fn set_listening(&mut self, listening: bool) {
        self.listening = listening;
        for place in &self.awake {
            self.all[*place].set_listening(listening);
        }
    }

    /// Wakes the spaces that are due. `now` is in milliseconds since the start.
    pub(super) fn wake_due(&mut self, now: u64) {
        while let Some((_, place)) = self.deadlines.first().filter(|it| it.0 <= now).copied() {
            self.wake(place);
        }
        let unix_ms = self.unix_ms;
        while let Some((_, place)) = self.expiries.first().filter(|it| it.0 <= unix_ms).copied() {
            self.wake(place);
        }
    }

    /// The place of the space that is number `at` among those awake, counted from 0.
    pub(super) fn awake(&self, at: usize) -> Option<usize> {
        self.awake.get(at).copied()
    }

    /// Calls a function for each space that is awake.
    pub(super) fn for_each_awake(&mut self, mut take: impl FnMut(&mut OpenSpace)) {
        for place in &self.awake {
            take(&mut self.all[*place]);
        }
    }

    /// Puts all spaces to sleep until they are due.
    pub(super) fn end_turn(&mut self) {
        for place in self.awake.drain(..) {
            let (state, space) = (&mut self.states[place], &self.all[place]);
            state.awake = false;
            (state.deadline, state.expiry) = (space.next_deadline(), space.next_expiry_by_wall());
            self.deadlines.extend(state.deadline.map(|at| (at, place)));
            self.expiries.extend(state.expiry.map(|at| (at, place)));
            if !std::mem::replace(&mut state.unsaved, true) {
                self.unsaved.push(place);
            }
        }
    }

    /// The first deadline of the sleeping spaces, in milliseconds since the start.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|it| it.0)
    }

    /// When a counter of the sleeping spaces expires next by the own clock, in milliseconds since 1970.
    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.first().map(|it| it.0)
    }

    /// The records that the store lacks of the spaces whose turns have ended.
    pub(super) fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for place in self.unsaved.drain(..) {
            let state = &mut self.states[place];
            state.unsaved = false;
            if !std::mem::replace(&mut state.given, true) {
                self.given.push(place);
            }
            records.extend(self.all[place].record());
        }
        records
    }

    /// Excludes a space from all further records to the store.
    pub(super) fn leave_out(&mut self, space: SpaceId) {
        self.end_turn();
        self.unsaved.retain(|place| *place != space.0);
    }

    /// Makes every space count its counters again, because a panic may have interrupted the
    /// counting.
    pub(super) fn forget_sizes(&mut self) {
        self.all.iter_mut().for_each(OpenSpace::forget_sizes);
    }

    pub(super) fn name(&self, space: SpaceId) -> &Space {
        self.all[space.0].name()
    }

    /// Records that all records given so far are durable.
    pub(super) fn stored(&mut self) {
        for place in self.given.drain(..) {
            self.states[place].given = false;
            self.all[place].stored();
        }
    }

    /// Begins a snapshot of a space. The space need not be awake for that, because no turn follows
    /// that would put it to sleep again.
    pub(super) fn begin_snapshot(&mut self, space: SpaceId) -> Snapshot {
        Snapshot::begin(&self.all[space.0].replica)
    }

    #[cold]
    fn wake(&mut self, place: usize) {
        let (state, space) = (&mut self.states[place], &mut self.all[place]);
        if let Some(at) = state.deadline.take() {
            self.deadlines.remove(&(at, place));
        }
        if let Some(at) = state.expiry.take() {
            self.expiries.remove(&(at, place));
        }
        state.awake = true;
        self.awake.push(place);
        space.judge_time(self.unix_ms, &self.clock);
        space.set_listening(self.listening);
    }
}

impl Authority for OpenSpace {
    fn name(&self) -> &Space {
        self.name()
    }

    fn trusts(&self, owner: OwnerKey) -> bool {
        self.trusts(owner)
    }
}

impl Authorities for Spaces {
    type One = OpenSpace;

    fn at(&self, place: usize) -> &OpenSpace {
        &self.all[place]
    }

    fn all(&self) -> impl Iterator<Item = &OpenSpace> {
        self.all.iter()
    }
}

impl Index<usize> for Spaces {
    type Output = OpenSpace;

    #[inline]
    fn index(&self, place: usize) -> &OpenSpace {
        &self.all[place]
    }
}

impl IndexMut<usize> for Spaces {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut OpenSpace {
        if !self.states[place].awake {
            self.wake(place);
        }
        &mut self.all[place]
    }
}
