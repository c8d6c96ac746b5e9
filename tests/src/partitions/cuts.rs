//! Cuts into halves, and a member that is gone for good.

use super::{Event, MEMBERS, NAME, Work, World};
use crate::sim::{Cut, owner, text};
use tallymesh_core::{Owner, WriterId};

/// How long a cut lasts, in milliseconds. The time between two cuts follows from the share of time with a
/// cut.
const CUT_MS: (u64, u64) = (2_000, 10_000);
/// When a member is gone for good, and when it is to be taken out, in milliseconds after the start.
const GONE_MS: u64 = 4_000;
const TAKEN_OUT_MS: u64 = 5_000;
/// Milliseconds between two checks whether other members have its rights.
const LOOK_MS: u64 = 5;

/// The members that are cut off, and the one that is gone.
#[derive(Default)]
pub(super) struct Cuts {
    /// The two members that are cut off from the three others, during a cut.
    apart: Option<[usize; 2]>,
    /// When the present cut, or the present time between two cuts, began.
    since: u64,
    /// The member that is gone for good, and its writer.
    gone: Option<(usize, WriterId)>,
    /// When an operator proposed to take it out.
    taken_out: u64,
}

impl World {
    /// Whether a member is in the smaller half. `None` between cuts.
    pub(super) fn is_in_smaller(&self, at: usize) -> Option<bool> {
        self.own.cuts.apart.map(|it| it.contains(&at))
    }

    /// Starts at a random point of a cut, or of the time between two cuts.
    pub(super) fn begin_cuts(&mut self) {
        let percent = self.own.plan.cut_percent;
        self.own.cuts.since = self.now;
        if matches!(self.own.plan.work, Work::Retired(_)) {
            self.at(self.now + GONE_MS, Event::Gone);
            self.at(self.now + TAKEN_OUT_MS, Event::TakeOut);
        }
        if percent == 0 {
            return;
        }
        let cut = self.random.below(100) < percent;
        let length = self.length(cut);
        let left = self.random.range(0, length);
        self.begin_cut(cut, left);
    }

    /// Cuts the members, or connects all of them, for this long.
    fn begin_cut(&mut self, cut: bool, ms: u64) {
        self.own.cuts.since = self.now;
        self.own.cuts.apart = cut.then(|| *self.random.pick(&pairs()));
        self.at(self.now + ms, Event::Cut);
        let Some(apart) = self.own.cuts.apart else {
            return;
        };
        for [a, b] in pairs() {
            if apart.contains(&a) != apart.contains(&b) {
                self.cut(a, b, Cut::Closed, ms);
            }
        }
        self.note_cut(apart);
    }

    pub(super) fn next_cut(&mut self) {
        self.note_cut_time();
        let cut = self.own.cuts.apart.is_none();
        let length = self.length(cut);
        self.begin_cut(cut, length);
    }

    /// The length of a cut, or of the time between two cuts, by the plan's share of time.
    fn length(&mut self, cut: bool) -> u64 {
        let length = self.random.range(CUT_MS.0, CUT_MS.1);
        let percent = self.own.plan.cut_percent;
        match cut {
            true => length,
            false => length * (100 - percent) / percent,
        }
    }

    /// Adds the rights of each half at the start of a cut to the metrics.
    fn note_cut(&mut self, apart: [usize; 2]) {
        self.own.metrics.cuts += 1;
        let Work::Budget(minted) = self.own.plan.work else {
            return;
        };
        self.own.metrics.left += minted - self.own.metrics.made;
        for at in 0..MEMBERS {
            let here = self.nodes[at].replica.quota().budget(NAME);
            let here = here.map_or(0, |it| it.rights.here);
            let half = usize::from(apart.contains(&at));
            self.own.metrics.halves[half].held += u64::try_from(here).unwrap_or(0);
        }
    }

    pub(super) fn note_cut_time(&mut self) {
        if self.own.cuts.apart.is_some() {
            self.own.metrics.cut_ms += self.now - self.own.cuts.since;
        }
    }

    /// A member is gone for good.
    pub(super) fn lose_one(&mut self) {
        let gone = self.random.index(MEMBERS);
        self.own.cuts.gone = Some((gone, self.nodes[gone].replica.writer()));
        let held = self.nodes[gone].replica.quota().budget(NAME);
        let held = held.map_or(0, |it| it.rights.here);
        let stranded = u64::try_from(held).unwrap_or(0);
        self.own.metrics.stranded.push(stranded);
        self.turn_from(gone);
        self.remove(gone);
    }

    fn left(&self) -> Vec<usize> {
        let gone = self.own.cuts.gone.map(|it| it.0);
        (0..MEMBERS).filter(|at| gone != Some(*at)).collect()
    }

    /// A member proposes a configuration without it.
    pub(super) fn take_out(&mut self) -> Result<(), String> {
        let left = self.left();
        let owners: Vec<Owner> = left.iter().map(|at| owner(*at)).collect();
        let at = *self.random.pick(&left);
        let replica = &mut self.nodes[at].replica;
        replica.members_mut().propose(&owners).map_err(text)?;
        self.own.cuts.taken_out = self.now;
        self.at(self.now, Event::TakenOver);
        self.changed(at)
    }

    /// Checks whether another member has retired its writer.
    pub(super) fn look_for_successor(&mut self) {
        let Some((_, writer)) = self.own.cuts.gone else {
            return;
        };
        // The successor has added the retired writer's rights to its own.
        let holds = |at: usize| {
            let holders = self.nodes[at].replica.quota().holders_of(NAME);
            holders.iter().any(|it| it.writer == writer)
        };
        let successor = |at: &usize| {
            self.nodes[*at]
                .replica
                .members()
                .retired_clock(&writer)
                .is_some()
        };
        match self.left().iter().any(|at| successor(at) && !holds(*at)) {
            true => {
                let took = self.now - self.own.cuts.taken_out;
                self.own.metrics.back_ms.push(took);
            }
            false => self.at(self.now + LOOK_MS, Event::TakenOver),
        }
    }
}

/// All pairs of members.
fn pairs() -> Vec<[usize; 2]> {
    let pairs = (0..MEMBERS).flat_map(|a| (a + 1..MEMBERS).map(move |b| [a, b]));
    pairs.collect()
}
