//! Faults of links.

use super::{Kind, Storm};
use crate::mesh::NODES;
use std::time::Duration;

/// Faults of 1000 of one node that come together with a fault of some links.
const ON_TOP: u64 = 500;
/// The latency of a slow way, in milliseconds. `RATE` is its throughput in bytes a second.
const LATENCY_MS: (u64, u64) = (20, 400);
const RATE: (u64, u64) = (32 << 10, 512 << 10);

impl Storm<'_> {
    /// Sometimes adds a fault of links.
    pub(super) fn on_top(&mut self) {
        if self.random.chance(ON_TOP) {
            let kind = *self.random.pick(&Kind::LINKS);
            self.links(kind);
        }
    }

    /// Makes a fault of all links of a node, of those between two halves, or of one link.
    pub(super) fn links(&mut self, kind: Kind) {
        let node = self.random.index(NODES);
        let other = (node + 1 + self.random.index(NODES - 1)) % NODES;
        let half = self.random.range(1, (1 << NODES) - 2);
        let side = |it: usize| half & (1 << it) != 0;
        let style = self.random.below(3);
        for from in 0..NODES {
            for to in 0..NODES {
                let hit = match style {
                    0 => from == node || to == node && kind != Kind::CutOneWay,
                    1 => {
                        side(from) && !side(to)
                            || side(to) && !side(from) && kind != Kind::CutOneWay
                    }
                    _ => {
                        (from, to) == (node, other)
                            || (to, from) == (node, other) && kind != Kind::CutOneWay
                    }
                };
                if from == to || !hit {
                    continue;
                }
                // A link that is cut in both directions has two ways, and counts once.
                let counts = kind != Kind::CutBothWays || from < to;
                self.count(kind, from, kind.name(), u64::from(counts));
                let latency = Duration::from_millis(self.random.range(LATENCY_MS.0, LATENCY_MS.1));
                let rate = self.random.range(RATE.0, RATE.1) as u32;
                self.mesh.links().change(from, to, |way| match kind {
                    Kind::Slow => way.slow = Some((latency, rate)),
                    Kind::DeadLink => way.dead += 1,
                    _ => way.cut = true,
                });
            }
        }
    }
}
