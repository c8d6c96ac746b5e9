//! Replicas that write, join, retire each other's writers, withdraw adds and collect, at random. Beside them
//! is a model: what each operation had seen, and so what a counter must come to.

use super::super::build::{Cursor, Selection};
use super::super::delta::Delta;
use super::super::join::{Found, Judged};
use super::super::operation::Op;
use super::super::slot::{Slot, Stamp, Withdrawal};
use super::super::sweep::sweep;
use super::super::vector::VersionVector;
use super::super::*;
use crate::hash::{SplitMix64, mix};
use crate::optional::GUESTS;
use alloc::format;
use alloc::string::String;

/// The random choices of a case.
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Runs `body` for so many seeds. A failure prints its seed.
pub(super) fn cases(count: u64, body: impl Fn(&mut Random)) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::eprintln!("seed {}", self.0);
            }
        }
    }
    for seed in 0..count {
        let named = Seed(seed);
        body(&mut Random(SplitMix64::new(mix(seed))));
        drop(named);
    }
}

pub(super) fn id(number: usize) -> WriterId {
    WriterId::from_bytes([number as u8; 16])
}

pub(super) fn state(number: usize) -> State {
    State::new(Space::default(), id(number))
}

/// One operation, as a transaction of its own. Returns whether it was one.
pub(super) fn apply(state: &mut State, key: &str, op: Op) -> bool {
    let key_id = match op.creates() {
        true => Some(state.key_id(key).unwrap()),
        false => state.keys.find(key),
    };
    let Some(key_id) = key_id else { return false };
    let clock = state.clock() + 1;
    if let Op::Add(by) = op
        && !state.collected
        && state.add_again(key_id, by)
    {
        return true;
    }
    let mut draft = state.draft(key_id);
    let (allows, made) = (|_: &_| Ok(()), |_, _: &_| ());
    state
        .step(&mut draft, (clock, false), op, allows, made)
        .unwrap();
    if !state.put_draft(&mut draft) {
        return false;
    }
    state.made(clock);
    true
}

/// The own slot of a counter.
pub(super) fn own_slot(state: &State, key: &str) -> Option<Slot> {
    let slots = state.slots(state.keys.find(key)?);
    slots.into_iter().find(|slot| slot.writer() == OWN)
}

/// A part of a delta: what a selection picks, up to about `budget` bytes, and where it stopped.
pub(super) fn part(
    state: &State,
    selection: &mut Selection<'_, Vec<u64>>,
    budget: usize,
) -> (Delta, Cursor) {
    let mut picked = state.select(selection, budget);
    selection.to = picked.stopped;
    let mut delta = Delta::default();
    let named = state.gather(selection, &mut picked.key_ids, &mut delta);
    let base = match budget {
        usize::MAX => selection.lows,
        _ => &picked.lows,
    };
    let table = (base, &named);
    state.assemble(selection, &picked.key_ids, &mut delta, table, &|_| false);
    (delta, picked.stopped)
}

/// The delta interval from `since` to the present.
pub(super) fn delta(state: &State, since: &VersionVector) -> Delta {
    let lows = state.clocks_in(since);
    part(state, &mut Selection::all(&lows), usize::MAX).0
}

/// The whole state. Two states are equal if these are.
pub(super) fn full(state: &State) -> Delta {
    delta(state, &VersionVector::default())
}

/// Whether a state may join a delta: it has everything that the delta builds on.
pub(super) fn covers(state: &State, delta: &Delta) -> bool {
    delta
        .writers
        .iter()
        .all(|entry| entry.lo <= state.held(&entry.writer))
}

/// What the layers above know and judge.
#[derive(Clone, Default)]
pub(super) struct Above {
    /// Whether what is covered and absent was collected.
    pub(super) collects: bool,
    /// The writers that were retired, each with the transaction of its successor that did it.
    pub(super) retired: Vec<(WriterId, (WriterId, u64))>,
}

/// Joins several parts, and then moves the clocks to the ends of the last one: all that a join is. The result
/// is how many shards and records were installed.
pub(super) fn join_parts(state: &mut State, parts: &[Delta], ends: &Delta, above: &Above) -> usize {
    let mut ignore = |_| ();
    let mut found = Found::new(state.is_alone(), &mut ignore);
    let judged = Judged {
        collects: above.collects,
        forgotten: &[],
    };
    for part in parts {
        state.install(part, judged, &mut found).unwrap();
    }
    let (installed, odd) = (found.installed, found.odd);
    for (writer, (successor, clock)) in &above.retired {
        if state.held(successor).max(ends.hi(successor).unwrap_or(0)) >= *clock {
            drop_unmoved(state, writer);
        }
    }
    state.normalize(odd, &mut |_| ());
    for entry in &ends.writers {
        let number = state.number(entry.writer) as usize;
        state.advance(number, entry.hi);
    }
    installed
}

/// Drops the slots of a retired writer that its successor did not take over, because nothing survived in them.
fn drop_unmoved(state: &mut State, writer: &WriterId) {
    let Some(number) = state.number_of(writer) else {
        return;
    };
    for key_id in state.slots_of(&[number]) {
        let mut slots = state.slots(key_id);
        slots.retain(|slot| slot.side.moved.is_some() || slot.writer() != number);
        state.put_slots(key_id, slots);
        state.forget_unused(key_id);
    }
}

/// Joins a delta, whose low clocks must be covered.
pub(super) fn join(state: &mut State, delta: &Delta, above: &Above) -> usize {
    assert!(covers(state, delta));
    join_parts(state, core::slice::from_ref(delta), delta, above)
}

/// Collects what is stable. Returns whether there was anything.
pub(super) fn sweep_all(state: &mut State, stable: &dyn Fn(&State, Stamp) -> bool) -> bool {
    let mut any = false;
    for at in 0..state.pages.len() {
        for key_id in state.odd_counters(at) {
            let mut slots = state.slots(key_id);
            let is_stable = |stamp| stable(state, stamp);
            if sweep(&mut slots, &state.ids, &is_stable, &mut false) {
                any = true;
                counter::normalize(&mut slots);
                state.put_slots(key_id, slots);
                state.forget_unused(key_id);
            }
        }
    }
    if any {
        state.note_collected();
    }
    any
}

/// What a state comes to once everything is stable, and collected if it may be. Replicas that have the same
/// transactions are equal then, whichever of them collected already.
pub(super) fn settled(state: &State, above: &Above) -> Delta {
    let mut state = state.clone();
    if above.collects {
        sweep_all(&mut state, &|_, _| true);
    }
    full(&state)
}

/// An operation that was made, and what its replica had seen before.
pub(super) struct Event {
    pub(super) writer: WriterId,
    pub(super) clock: u64,
    pub(super) key: String,
    pub(super) op: Op,
    pub(super) seen: VersionVector,
    /// The clock of the writer's add before it in the same lifetime, 0 for none.
    pub(super) before: u64,
    /// The transactions that withdrew it.
    pub(super) withdrawn: Vec<(WriterId, u64)>,
}

/// Some replicas with a shared past, each of which has seen a part of the others.
pub(super) struct World {
    pub(super) states: Vec<State>,
    pub(super) keys: Vec<String>,
    pub(super) events: Vec<Event>,
    pub(super) above: Above,
    /// Whether the replicas collect, if they may.
    pub(super) sweeps: bool,
}

impl World {
    pub(super) fn new(random: &mut Random, count: usize) -> World {
        let keys = match random.below(4) {
            0 => 1,
            1 | 2 => 1 + random.below(6),
            _ => 60 + random.below(80),
        };
        World {
            states: (1..=count).map(state).collect(),
            keys: (0..keys).map(|at| format!("key:{at}")).collect(),
            events: Vec::new(),
            above: Above {
                collects: GUESTS && random.chance(60),
                retired: Vec::new(),
            },
            sweeps: true,
        }
    }

    /// Some steps of each replica: operations, and deltas of others since any vector.
    pub(super) fn play(&mut self, random: &mut Random, steps: usize, adds_only: bool) {
        for _ in 0..steps {
            let at = random.below(self.states.len());
            match random.below(100) {
                _ if adds_only || !GUESTS => {}
                0..8 if !self.events.is_empty() => {
                    let recent = self.events.len().min(12);
                    let picked = self.events.len() - 1 - random.below(recent);
                    self.withdraw(at, picked);
                }
                8 | 9 if self.above.collects => {
                    let gone = random.below(self.states.len());
                    self.retire(at, gone);
                }
                10..16 if self.above.collects && self.sweeps => self.sweep(at),
                _ => {}
            }
            if random.chance(25) {
                let (from, since) = (
                    random.below(self.states.len()),
                    random.below(self.states.len()),
                );
                let since = self.states[since].vector();
                let told = delta(&self.states[from], &since);
                let state = &mut self.states[at];
                let is_own =
                    |it: &super::delta::Entry| it.writer == state.writer() && it.hi > state.clock();
                let twin = told.writers.iter().any(is_own);
                if covers(state, &told) && !twin {
                    join(state, &told, &self.above);
                }
                continue;
            }
            if self.is_retired(at) {
                continue;
            }
            let key = self.keys[random.below(self.keys.len())].clone();
            let amount = random.below(9) as i64 - 4;
            let op = match random.below(10) {
                _ if adds_only => Op::Add(amount),
                0 => Op::Reset,
                1 | 2 => Op::Delete,
                3 => Op::Set(amount),
                4 => Op::Expire(1 + random.next() % 1_000),
                5 => Op::Persist,
                _ => Op::Add(amount),
            };
            self.operate(at, &key, op);
        }
    }

    /// Makes an operation at a replica, and notes what it had seen.
    pub(super) fn operate(&mut self, at: usize, key: &str, op: Op) {
        let state = &mut self.states[at];
        let (seen, slot) = (state.vector(), own_slot(state, key));
        if apply(state, key, op) {
            let (writer, clock) = (state.writer(), state.clock());
            let goes_on = |now: &Slot| slot.as_ref().is_some_and(|it| it.began() == now.began());
            let goes_on = own_slot(state, key).is_some_and(|now| goes_on(&now));
            self.events.push(Event {
                writer,
                clock,
                key: key.into(),
                op,
                seen,
                before: slot.filter(|_| goes_on).map_or(0, |it| it.extra().added),
                withdrawn: Vec::new(),
            });
        }
    }

    fn is_retired(&self, at: usize) -> bool {
        let writer = self.states[at].writer();
        self.above.retired.iter().any(|it| it.0 == writer)
    }

    /// Lets a replica see all that there is.
    pub(super) fn catch_up(&mut self, at: usize) {
        for from in 0..self.states.len() {
            let told = delta(&self.states[from], &self.states[at].vector());
            join(&mut self.states[at], &told, &self.above);
        }
    }

    /// Withdraws an add, if it is one that a replica shows.
    pub(super) fn withdraw(&mut self, at: usize, picked: usize) {
        if self.is_retired(at) {
            return;
        }
        let (state, event) = (&self.states[at], &self.events[picked]);
        let vector = state.vector();
        let ended = self.above.retired.iter().any(|it| it.0 == event.writer);
        let Op::Add(by) = event.op else { return };
        let visible = event.clock <= vector.get(&event.writer);
        if ended || !visible || !self.survives(event, &vector) {
            return;
        }
        let clock = state.clock() + 1;
        let withdrawal = Withdrawal {
            clock: event.clock,
            amount: by.into(),
            before: event.before,
            several: false,
            by: Stamp { writer: OWN, clock },
        };
        let writer = state.number_of(&event.writer).unwrap();
        let key_id = state.keys.find(&event.key).unwrap();
        let state = &mut self.states[at];
        assert!(state.withdraw(key_id, writer, withdrawal, true));
        state.made(clock);
        self.events[picked].withdrawn.push((state.writer(), clock));
    }

    /// Retires the writer of another replica, which writes no more. Its successor has everything of it, and
    /// nobody withdraws an add of it later.
    pub(super) fn retire(&mut self, at: usize, gone: usize) {
        if gone == at || self.is_retired(at) || self.is_retired(gone) {
            return;
        }
        self.catch_up(at);
        let writer = self.states[gone].writer();
        let state = &mut self.states[at];
        let Some(number) = state.number_of(&writer) else {
            return;
        };
        let clock = state.clock() + 1;
        for key_id in state.slots_of(&[number]) {
            let mut slots = state.slots(key_id);
            let sums = counter::sums(&slots, &state.ids);
            let place = counter::find(&slots, number).unwrap();
            let amount = sums[place].is_alive().then_some(sums[place].amount);
            state.act(clock).retire(&mut slots, &[(number, amount)]);
            state.put_slots(key_id, slots);
            state.forget_unused(key_id);
        }
        let retired = (writer, (state.writer(), clock));
        self.above.retired.push(retired);
        state.made(clock);
    }

    /// Collects at a replica that has all what every replica has seen.
    pub(super) fn sweep(&mut self, at: usize) {
        self.catch_up(at);
        let vectors: Vec<_> = self.states.iter().map(State::vector).collect();
        let stable = |state: &State, stamp: Stamp| {
            let writer = state.id(stamp.writer);
            vectors.iter().all(|it| it.get(&writer) >= stamp.clock)
        };
        sweep_all(&mut self.states[at], &stable);
    }

    pub(super) fn played(random: &mut Random, count: usize) -> World {
        let mut world = World::new(random, count);
        let steps = random.below(120);
        world.play(random, steps, false);
        world
    }

    /// Whether an operation is neither cancelled nor withdrawn by anything that a vector covers.
    pub(super) fn survives(&self, it: &Event, vector: &VersionVector) -> bool {
        let covers = |(writer, clock): (WriterId, u64)| clock <= vector.get(&writer);
        let cancels = |by: &&Event| matches!(by.op, Op::Reset | Op::Delete | Op::Set(_));
        let mut cancels = self.events.iter().filter(cancels);
        let is_cancelled = cancels.any(|by| {
            by.key == it.key && covers((by.writer, by.clock)) && it.clock <= by.seen.get(&it.writer)
        });
        !is_cancelled && !it.withdrawn.iter().copied().any(covers)
    }

    /// The value by the definition of observed-remove: the adds and the greatest assignment that no visible
    /// cancel had observed, and of the adds those that no visible transaction withdrew.
    pub(super) fn value(&self, key: &str, vector: &VersionVector) -> Option<i128> {
        let visible = |it: &&Event| it.key == key && it.clock <= vector.get(&it.writer);
        let visible = self.events.iter().filter(visible);
        let (mut sum, mut exists, mut base) = (0, false, None);
        for it in visible.filter(|it| self.survives(it, vector)) {
            let (is_set, value) = match it.op {
                Op::Add(by) => {
                    (sum, exists) = (sum + i128::from(by), true);
                    continue;
                }
                Op::Reset => (false, 0),
                Op::Set(value) => (true, value),
                _ => continue,
            };
            base = base.max(Some((is_set, it.clock, it.writer, value)));
        }
        let value = base.map_or(0, |it| i128::from(it.3));
        (exists || base.is_some()).then_some(sum + value)
    }

    pub(super) fn check(&self, state: &State) {
        for key in &self.keys {
            let (is, must) = (state.value(key), self.value(key, &state.vector()));
            assert_eq!(is, must, "{key} at {:?}", state.vector());
        }
    }
}
