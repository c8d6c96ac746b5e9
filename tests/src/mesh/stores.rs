//! The stores that guests leave behind, and the starts that take them over.

use super::{MEMBERS, World};
use tallymesh_core::{Encode, Message, Replica, Space};

impl World {
    /// Ends two guests of one owner, and starts one process from both of their stores.
    pub(super) fn take_over(&mut self) -> Result<(), String> {
        let last = self.nodes.len() as u64 - 1;
        if !self.own.tabs || last < MEMBERS as u64 + 1 || !self.random.chance(20) {
            return Ok(());
        }
        let [at, other] = [0; 2].map(|_| self.random.range(MEMBERS as u64, last) as usize);
        let there = |at: usize| self.nodes[at].alive && self.is_written(at);
        let same = self.own.peers[at].key == self.own.peers[other].key;
        if at == other || !there(at) || !there(other) || !same {
            return Ok(());
        }
        self.own.metrics.taken_over += 1;
        self.crash(at);
        self.remove(other);
        let left = &mut self.own.peers[other];
        let (made, own) = (
            std::mem::take(&mut left.made),
            std::mem::take(&mut left.own),
        );
        self.own.peers[at].made.extend(made);
        self.own.peers[at].own.extend(own);
        self.own.left = Some(other);
        self.start(at)
    }

    /// A process starts, and takes over the store of another one if the scenario says so.
    pub(super) fn take_what_is_left(&mut self, at: usize) -> Result<(), String> {
        let Some(other) = self.own.left.take() else {
            return Ok(());
        };
        let replica = &self.nodes[at].replica;
        let mut left = Replica::new(Space::default(), replica.writer());
        for (record, ()) in self.nodes[other].disk.records() {
            let message = Message::decode_stored(record).map_err(|it| it.to_string())?;
            left.restore(&message).map_err(|it| it.to_string())?;
        }
        let node = &mut self.nodes[at];
        if node
            .replica
            .rejoin_mut()
            .take_over(&mut left, &mut |_| ())
            .is_err()
        {
            std::mem::swap(&mut node.replica, &mut left);
            let taken = node.replica.rejoin_mut().take_over(&mut left, &mut |_| ());
            taken.map_err(|error| format!("one knows the members: {error}"))?;
        }
        // Writes the whole state at once.
        node.disk.compact(node.replica.snapshot().encode_stored());
        node.mark = node.replica.mark();
        Ok(())
    }
}
