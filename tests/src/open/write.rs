//! What the simulated applications write.

use super::{Event, Sim};
use crate::oracle::{Call, Key, Kind};
use tallymesh_core::Input;

/// Times until a counter expires, in milliseconds: those that clocks differ by, and those that a
/// run lasts. Negative ones have passed already.
const LIVES: [(i64, i64); 4] = [
    (-100_000, 0),
    (0, 3_000),
    (0, 60_000),
    (60_000, 8 * 3_600_000),
];

impl Sim {
    /// A replica writes once or some times.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let every = self.profile.write_every;
        self.after(0, 2 * every, Event::Write);
        let node = self.random.index(self.nodes.len());
        for _ in 0..self.random.range(1, 4) {
            if self.nodes[node].alive {
                self.nodes[node].look_at_clock(self.now);
                let (ops, call) = self.request(node);
                self.transact(node, &ops, call)?;
            }
        }
        Ok(())
    }

    /// A plain add.
    pub(super) fn add(&mut self, node: usize, key: Key) -> Result<(), String> {
        let by = self.amount();
        self.transact(node, &[(key, Kind::Add(by))], Call::Single)
    }

    /// The replicas with a disk materialise what has expired by their clocks, now and then.
    pub(super) fn materialize(&mut self) -> Result<(), String> {
        let every = self.profile.materialize_every;
        self.after(0, 2 * every, Event::Materialize);
        for at in 0..self.profile.durable {
            if !self.nodes[at].alive || !self.random.chance(700) {
                continue;
            }
            self.nodes[at].look_at_clock(self.now);
            let done = self.nodes[at].materialize(&mut self.oracle);
            let done = done.map_err(|error| format!("replica {at}: {error}"))?;
            if done > 0 {
                self.note(|| format!("expire {at}: {done} counters"));
                self.figures.expiries += done;
                self.input(at, Input::Changed)?;
            }
        }
        Ok(())
    }

    fn transact(&mut self, at: usize, ops: &[(Key, Kind)], call: Call) -> Result<(), String> {
        let made = self.nodes[at].transact(&mut self.oracle, ops, call);
        if made.map_err(|error| format!("replica {at}: {error}"))? {
            self.note(|| format!("write {at} {ops:?}"));
            self.figures.transactions += u64::from(ops.len() > 1);
            return self.input(at, Input::Changed);
        }
        self.figures.idle_writes += 1;
        Ok(())
    }

    /// A plain add, or up to four operations of any kind on up to three counters.
    fn request(&mut self, node: usize) -> (Vec<(Key, Kind)>, Call) {
        let keys: Vec<Key> = (0..self.random.range(1, 3))
            .map(|_| self.random.index(self.profile.keys.len()))
            .collect();
        if !self.random.chance(self.profile.rich) {
            return (vec![(keys[0], Kind::Add(self.amount()))], Call::Single);
        }
        let count = *self.random.pick(&[1, 1, 2, 3, 4]);
        let ops = (0..count).map(|_| (*self.random.pick(&keys), self.kind(node)));
        let ops = ops.collect();
        (ops, *self.random.pick(&[Call::Single, Call::Transact]))
    }

    fn kind(&mut self, node: usize) -> Kind {
        match self.random.below(20) {
            0..=7 => Kind::Add(self.amount()),
            8 | 9 => Kind::Reset,
            10..=12 => Kind::Delete,
            13 | 14 => Kind::Set(self.amount()),
            15..=17 => {
                let (least, most) = *self.random.pick(&LIVES);
                let span = self.random.below(most.abs_diff(least)) as i64;
                Kind::Expire(self.nodes[node].wall.saturating_add_signed(least + span))
            }
            _ => Kind::Persist,
        }
    }

    /// Of so many bits that no two sets of adds have one sum by chance; now and then extreme.
    fn amount(&mut self) -> i64 {
        match self.random.below(40) {
            0 => 0,
            1 => i64::MAX,
            2 => i64::MIN,
            _ => (self.random.next_u64() as i64) >> self.random.range(8, 24),
        }
    }
}
