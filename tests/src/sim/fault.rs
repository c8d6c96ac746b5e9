//! The faults of a mesh while there is trouble: the same mix in each scenario.

use super::{Cut, Disk, Event, Mesh, Scenario};
use tallymesh_core::{Millis, VersionVector, WriterId};

/// How long a cut lasts, in milliseconds.
const CUT_MS: (Millis, Millis) = (100, 3_000);
/// How long a process is down, in milliseconds.
const DOWN_MS: (Millis, Millis) = (0, 1_500);
/// How soon stopped processes start once all is healed, in milliseconds.
const SOON_MS: Millis = 100;
/// Number of last records that a disk loses with flushes that were not done.
const TORN_RECORDS: (u64, u64) = (1, 6);

/// The state of the faults of a run.
#[derive(Default)]
pub struct Faults {
    /// The replica whose disk was put back last, and the lost entries that other replicas still had.
    owed: Option<(usize, Vec<(WriterId, u64)>)>,
}

impl<S: Scenario> Mesh<S> {
    /// Begins the trouble of the settings. When it is over, all is healed.
    pub fn trouble(&mut self) {
        let ms = self.settings.trouble.ms;
        if ms == 0 {
            return;
        }
        self.troubled = true;
        self.heal_at = self.now + ms;
        self.schedule(self.heal_at, Event::Heal);
        let (least, most) = self.settings.fault_ms;
        self.schedule_within(least, most, Event::Fault);
    }

    /// Ends all trouble: no frame is lost any more, cuts end, and stopped processes start.
    pub fn heal(&mut self) {
        self.note(|| "all is healed".into());
        self.troubled = false;
        self.mend_all();
        for at in 0..self.nodes.len() {
            if !self.nodes[at].alive {
                self.schedule_within(0, SOON_MS, Event::Start(at));
            }
        }
    }

    /// Makes one random fault.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        let (least, most) = self.settings.fault_ms;
        self.schedule_within(least, most, Event::Fault);
        S::fault(self)?;
        let (pairs, living) = (self.pairs(), self.living().map(|it| it.0));
        let living: Vec<usize> = living.collect();
        if pairs.is_empty() || living.is_empty() {
            return Ok(());
        }
        let mut pair = *self.random.pick(&pairs);
        if self.random.chance(500) {
            pair.reverse();
        }
        let at = *self.random.pick(&living);
        let ms = self.random.range(CUT_MS.0, CUT_MS.1);
        self.back_up(at);
        match self.random.below(100) {
            0..20 => self.cut(pair[0], pair[1], Cut::Closed, ms),
            20..27 => self.cut(pair[0], pair[1], Cut::Silent, ms),
            27..34 => self.cut(pair[0], pair[1], Cut::OneWay, ms),
            34..50 => self.cut_off(at, ms),
            50..56 => self.halve(ms),
            56..62 => self.close_link(pair[0], pair[1]),
            62..67 => self.stall(pair, ms),
            67..72 => self.jump(at),
            _ => self.strike_down(at),
        }
        Ok(())
    }

    /// A replica is cut off from all others.
    pub fn cut_off(&mut self, at: usize, ms: Millis) {
        for other in self.linked_with(at) {
            self.cut(at, other, Cut::Closed, ms);
        }
    }

    /// A part of the mesh is cut off from the rest, without notice to either end.
    fn halve(&mut self, ms: Millis) {
        let side: Vec<bool> = self.nodes.iter().map(|_| self.random.chance(400)).collect();
        for [a, b] in self.pairs() {
            if side[a] != side[b] {
                self.cut(a, b, Cut::Silent, ms);
            }
        }
    }

    /// A wall clock jumps.
    fn jump(&mut self, at: usize) {
        let ahead = self.random.below(self.settings.trouble.skew_ms + 1);
        if ahead != self.nodes[at].ahead {
            self.note(|| format!("the clock of {at} jumps"));
            self.counts.jumps += 1;
            self.nodes[at].ahead = ahead;
        }
    }

    /// A process ends, and another one starts from its disk, which may have changed.
    fn strike_down(&mut self, at: usize) {
        // A replica that is alone loses more, so it is chosen more often.
        let alone = self.living().map(|it| it.0);
        let alone = alone.filter(|at| self.is_alone(*at)).min();
        let at = alone.filter(|_| self.random.chance(500)).unwrap_or(at);
        if !S::may_restart(self, at) {
            return;
        }
        let is_old = self.nodes[at].durable && self.random.chance(self.settings.trouble.old);
        if !is_old || !self.strike_disk(at) {
            self.restart(at, DOWN_MS);
        }
    }

    /// A process ends, and another one starts from a changed disk, if that is allowed. Returns whether it
    /// was.
    pub fn strike_disk(&mut self, at: usize) -> bool {
        let may = self.nodes[at].alive && S::may_put_back(self, at);
        if may {
            self.restart(at, DOWN_MS);
            self.put_back(at);
        }
        may
    }

    /// The disk of a process that has ended is put back to a backup, or its last flushes were not done. If
    /// the scenario allows it, the disk may also be empty, or a copy of another one's. The next start follows none
    /// there, because the store lacks what its place knows of.
    fn put_back(&mut self, at: usize) {
        self.counts.old += 1;
        self.nodes[at].place.lose();
        let count = self.nodes[at].backups.len();
        let what = match self.random.below(if S::ANY_DISK { 4 } else { 2 }) {
            0 if count > 0 => {
                let which = self.random.index(count);
                self.nodes[at].disk = self.nodes[at].backups[which].clone();
                "a backup"
            }
            0 | 1 => {
                let records = self.random.range(TORN_RECORDS.0, TORN_RECORDS.1) as usize;
                self.nodes[at].disk.tear(records);
                "not done"
            }
            2 => {
                self.nodes[at].disk = Disk::default();
                "empty"
            }
            _ => {
                let other = self.random.index(self.nodes.len());
                self.nodes[at].disk = self.nodes[other].disk.clone();
                "a copy of another's"
            }
        };
        self.note(|| format!("the disk of {at} is {what}"));
        S::put_back(self, at);
    }

    /// Whether a disk may be put back. First, the replica of the last such disk must have again everything of
    /// it that other replicas have. Otherwise the disks of most members could lose changes that most members
    /// had.
    pub fn may_lose(&mut self, at: usize) -> bool {
        let held = |at: usize, writer| -> Option<u64> {
            let vector = self.nodes[at].replica.vector();
            let mut entries = vector.iter();
            entries.find(|it| it.0 == writer).map(|it| it.1)
        };
        let all = 0..self.nodes.len();
        if let Some((owing, owed)) = &self.faults.owed
            && *owing != at
        {
            let again = owed.iter().all(|(writer, clock)| {
                let forgotten = || all.clone().all(|it| held(it, *writer).is_none());
                let is_back = self.nodes[*owing].alive && self.is_written(*owing);
                is_back && held(*owing, *writer) >= Some(*clock) || forgotten()
            });
            if !again {
                return false;
            }
        }
        let vector: VersionVector = self.nodes[at].replica.vector();
        let owed = vector.iter().filter_map(|(writer, clock)| {
            let others = all.clone().filter(|other| *other != at);
            let known = others.filter_map(|other| held(other, writer)).max();
            Some((writer, clock.min(known?)))
        });
        self.faults.owed = Some((at, owed.collect()));
        true
    }
}
