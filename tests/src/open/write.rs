//! The writes of the simulated applications.

use super::{Event, World};
use crate::oracle::{Call, Key, Kind};

/// Times until a counter expires, in milliseconds: the distances between clocks, and the length of a run.
/// Negative ones have passed already.
const LIVES: [(i64, i64); 4] = [
    (-100_000, 0),
    (0, 3_000),
    (0, 60_000),
    (60_000, 8 * 3_600_000),
];

impl World {
    /// A replica writes once or some times.
    pub(super) fn write_some(&mut self) -> Result<(), String> {
        let every = self.own.profile.write_every;
        self.after((0, 2 * every), Event::Write);
        let at = self.random.index(self.nodes.len());
        for _ in 0..self.random.range(1, 4) {
            if self.nodes[at].alive {
                self.look_at_clock(at);
                let (ops, call) = self.request(at);
                self.transact(at, &ops, call)?;
            }
        }
        Ok(())
    }

    /// A plain add.
    pub(super) fn add(&mut self, at: usize, key: Key) -> Result<(), String> {
        let by = self.amount();
        self.transact(at, &[(key, Kind::Add(by))], Call::Single)
    }

    /// The replicas with a disk materialise expiries that have passed by their clocks, from time to time.
    pub(super) fn materialize_some(&mut self) -> Result<(), String> {
        let every = self.own.profile.materialize_every;
        self.after((0, 2 * every), Event::Materialize);
        for at in 0..self.own.profile.durable {
            if !self.nodes[at].alive || !self.random.chance(700) {
                continue;
            }
            self.look_at_clock(at);
            let done = self.materialize(at)?;
            if done > 0 {
                self.note(|| format!("expire {at}: {done} counters"));
                self.own.metrics.expiries += done;
                self.changed(at)?;
            }
        }
        Ok(())
    }

    /// Materialises the expiries that have passed by a replica's clock. Returns their number.
    fn materialize(&mut self, at: usize) -> Result<u64, String> {
        let (own, replica) = (&mut self.own, &mut self.nodes[at].replica);
        let shown = &mut own.shown[at];
        let expire = shown.view.counters().iter();
        let expire = expire.filter(|it| it.1.expiry.is_some());
        let keys: Vec<Key> = expire.map(|it| *it.0).collect();
        let mut done = 0;
        for key in keys {
            let due = own
                .oracle
                .materialize(&mut shown.view, replica, shown.wall, key);
            done += u64::from(due.map_err(|error| format!("replica {at}: {error}"))?);
        }
        Ok(done)
    }

    fn transact(&mut self, at: usize, ops: &[(Key, Kind)], call: Call) -> Result<(), String> {
        let (own, replica) = (&mut self.own, &mut self.nodes[at].replica);
        let shown = &mut own.shown[at];
        let made = own
            .oracle
            .transact(&mut shown.view, replica, shown.wall, ops, call);
        for (key, _) in ops {
            shown.show(*key, shown.view.read(*key, shown.wall));
        }
        if made.map_err(|error| format!("replica {at}: {error}"))? {
            self.note(|| format!("write {at} {ops:?}"));
            self.own.metrics.transactions += u64::from(ops.len() > 1);
            return self.changed(at);
        }
        self.own.metrics.idle_writes += 1;
        Ok(())
    }

    /// A plain add, or up to four operations of any kind on up to three counters.
    fn request(&mut self, node: usize) -> (Vec<(Key, Kind)>, Call) {
        let keys: Vec<Key> = (0..self.random.range(1, 3))
            .map(|_| self.random.index(self.own.profile.keys.len()))
            .collect();
        if !self.random.chance(self.own.profile.rich) {
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
                Kind::Expire(
                    self.own.shown[node]
                        .wall
                        .saturating_add_signed(least + span),
                )
            }
            _ => Kind::Persist,
        }
    }

    /// An amount with so many random bits that two sets of adds do not have one sum by chance. A few amounts
    /// are extreme.
    fn amount(&mut self) -> i64 {
        match self.random.below(40) {
            0 => 0,
            1 => i64::MAX,
            2 => i64::MIN,
            _ => (self.random.next_u64() as i64) >> self.random.range(8, 24),
        }
    }
}
