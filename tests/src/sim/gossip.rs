//! Broadcasts.

use super::{Event, Mesh, Scenario};
use tallymesh_core::Link;

/// Copies of 1000 that come without the link of the replica that passed them on.
const ANONYMOUS: u64 = 100;

impl<S: Scenario> Mesh<S> {
    /// Broadcasts a frame over the links that take part, as a flood with losses would.
    pub(super) fn gossip(&mut self, from: usize, bytes: &[u8]) {
        let mut reached = vec![false; self.nodes.len()];
        reached[from] = true;
        let mut queue = vec![(from, self.now)];
        let mut next = 0;
        while let Some(&(at, when)) = queue.get(next) {
            next += 1;
            for (to, link) in self.passes_on(at) {
                if std::mem::replace(&mut reached[to], true) {
                    continue;
                }
                if self.troubled && self.random.chance(self.settings.trouble.lost) {
                    self.counts.drops += 1;
                    reached[to] = false; // another may pass it on
                    continue;
                }
                let repeats = self.troubled && self.random.chance(self.settings.trouble.twice);
                self.counts.repeats += u64::from(repeats);
                for copy in 0..1 + u64::from(repeats) {
                    let when = when + self.delay();
                    let from = (!self.random.chance(ANONYMOUS)).then_some(link);
                    let bytes = bytes.to_vec();
                    self.schedule(when, Event::Gossip { to, from, bytes });
                    if copy == 0 {
                        queue.push((to, when));
                    }
                }
            }
        }
    }
}

/// A replica that a broadcast reaches, and the link over which it comes.
pub(super) type Passed = (usize, Link);
