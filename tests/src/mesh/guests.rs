//! Guests: they come, write, lose their links, and go.

use super::{Event, KEYS, MEMBERS, World};
use tallymesh_core::Role;

/// Most replicas.
const PEERS_MAX: usize = 12;

impl World {
    pub(super) fn act(&mut self) -> Result<(), String> {
        match self.random.below(40) {
            0 if self.nodes.len() < PEERS_MAX => self.come()?,
            1 => {
                let at = self.random.index(self.nodes.len());
                if at >= MEMBERS {
                    self.unlink_all(at);
                }
            }
            2 => self.come_back(),
            3 if self.random.chance(200) => self.vanish(),
            4..14 => self.write()?,
            _ => {}
        }
        Ok(())
    }

    /// A replica adds to a counter.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let at = self.random.index(self.nodes.len());
        if !self.nodes[at].alive || self.own.peers[at].role == Some(Role::Reader) {
            return Ok(());
        }
        let by = self.random.below(1_000) as i64;
        let key = KEYS[self.random.index(KEYS.len())];
        let replica = &mut self.nodes[at].replica;
        let added = replica.add(key, by);
        added.map_err(|error| format!("{at} adds: {error}"))?;
        let made = (replica.writer(), replica.clock(), i128::from(by));
        self.note(|| format!("{at} adds {by} at {}", made.1));
        self.own.begun += i128::from(by);
        self.own.metrics.adds += 1;
        self.when_written(at, Event::Added(at, made));
        self.changed(at)
    }

    fn come(&mut self) -> Result<(), String> {
        let key = self.key_of_guest();
        let role = self.role_of_guest(&key);
        let at = self.add_peer(None, key, role)?;
        self.own.metrics.guests += 1;
        // Some guests write before they have any link.
        if self.random.chance(700) {
            let member = self.random.index(MEMBERS);
            self.link(at, member);
        }
        Ok(())
    }

    fn come_back(&mut self) {
        let at = self.random.index(self.nodes.len());
        let gone = self.nodes[at].is_gone();
        if at >= MEMBERS && !gone && self.linked_with(at).is_empty() {
            let member = self.random.index(MEMBERS);
            self.link(at, member);
        }
    }

    /// A guest goes for good, once all members have all its writes.
    fn vanish(&mut self) {
        let at = self.random.index(self.nodes.len());
        if at < MEMBERS || !self.nodes[at].alive || !self.is_written(at) {
            return;
        }
        let guest = &self.nodes[at].replica;
        let held = (0..MEMBERS).all(|member| {
            let it = &self.nodes[member];
            let held = it.replica.vector().get(&guest.writer());
            held == guest.clock() && it.alive && self.is_written(member)
        });
        if held
            && guest.members().configuration().is_some()
            && guest.consistency().unconfirmed() == 0
        {
            self.remove(at);
        }
    }
}
