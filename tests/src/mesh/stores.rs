//! What guests leave in their stores, and who takes it over.

use super::{MEMBERS, Mesh};
use tallymesh_core::{Message, Replica};

impl Mesh {
    /// Two guests of one owner end, and one start goes on with what both had stored.
    pub(super) fn take_over(&mut self) {
        let last = self.peers.len() as u64 - 1;
        let Some(random) = &mut self.tabs else {
            return;
        };
        if last < MEMBERS as u64 + 1 || !random.chance(20) {
            return;
        }
        let [at, other] = [0; 2].map(|_| random.range(MEMBERS as u64, last) as usize);
        let (a, b) = (&self.peers[at], &self.peers[other]);
        if at == other || a.gone || b.gone || a.key != b.key {
            return;
        }
        self.figures.taken_over += 1;
        self.unlink(other);
        for guest in [at, other] {
            self.keep(guest);
        }
        let left = &mut self.peers[other];
        left.gone = true;
        let (made, own) = (
            core::mem::take(&mut left.made),
            core::mem::take(&mut left.own),
        );
        self.peers[at].made.extend(made);
        self.peers[at].own.extend(own);
        let log = self.peers[at].log.clone();
        self.begin(at, log, Some(other));
    }
}

/// Takes back what a store kept.
pub(super) fn restore(replica: &mut Replica, log: &[Vec<u8>]) {
    for record in log {
        let message = Message::decode_stored(record).expect("a record of ours decodes");
        let restored = replica.restore(&message);
        restored.expect("all before it was kept");
    }
}
