//! Guests with limited rights in a mesh: readers, writers and editors. Each has an owner's key of its own, or
//! shares the key of another guest and has a link to it.

use super::{MEMBERS, World};
use tallymesh_core::{Input, Link, Owner, Role, WriterId};

/// The owner of all guests in runs without limited rights.
const ANYBODY: Owner = [9; 32];

impl World {
    /// The owner's key of a new guest.
    pub(super) fn key_of_guest(&mut self) -> Owner {
        if !self.own.limited {
            return ANYBODY;
        }
        let others = self.own.peers[MEMBERS..].iter();
        let others: Vec<Owner> = others.map(|it| it.key).collect();
        if self.random.chance(250) && !others.is_empty() {
            return *self.random.pick(&others);
        }
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.random.bytes::<16>());
        key
    }

    /// Decides the role of a guest. All guests of one owner have the same role.
    pub(super) fn role_of_guest(&mut self, key: &Owner) -> Option<Role> {
        if !self.own.limited {
            return None;
        }
        let roles = [
            Some(Role::Reader),
            Some(Role::Writer),
            Some(Role::Editor),
            None,
        ];
        let mut known = self.own.peers.iter().filter(|it| it.key == *key);
        let known = known.next().map(|it| it.role);
        let role = known.unwrap_or(*self.random.pick(&roles));
        if let Some(role) = role {
            self.own.metrics.limited[role as usize] += 1;
        }
        role
    }

    /// A guest has a new writer. All guests of its owner receive the writer's nonce, as a proof. A guest that
    /// has just started receives the nonces of all of them.
    pub(super) fn prove(
        &mut self,
        at: usize,
        writer: WriterId,
        nonce: [u8; 16],
    ) -> Result<(), String> {
        if !self.own.limited {
            return Ok(());
        }
        let peer = &mut self.own.peers[at];
        let (key, only_adds) = (peer.key, peer.role == Some(Role::Writer));
        peer.own.push((writer, nonce));
        let begins = self.nodes[at].started == self.now;
        self.nodes[at]
            .replica
            .members_mut()
            .set_adds_only(only_adds);
        for other in 0..self.nodes.len() {
            if self.own.peers[other].key == key {
                self.input(other, Input::Own { writer, nonce })?;
            }
        }
        let all = self.own.peers.iter().filter(|it| it.key == key && begins);
        let all = all.flat_map(|it| it.own.clone());
        for (writer, nonce) in all.collect::<Vec<_>>() {
            self.input(at, Input::Own { writer, nonce })?;
        }
        Ok(())
    }

    /// The input with which a replica opens a link to another.
    pub(super) fn introduce(&self, link: Link, at: usize, other: usize) -> Input<'static> {
        let (owner, broadcast) = (self.own.peers[other].key, false);
        match self.own.peers[other].role.filter(|_| at < MEMBERS) {
            Some(role) => Input::Limited { link, owner, role },
            None => Input::Connected { link, broadcast },
        }
    }

    /// Links two guests of one owner.
    pub(super) fn link_own(&mut self) {
        let count = self.nodes.len();
        if !self.own.limited || count < MEMBERS + 2 || !self.random.chance(30) {
            return;
        }
        let [a, b] = [0; 2].map(|_| self.random.range(MEMBERS as u64, count as u64 - 1) as usize);
        let there = |at: usize| !self.linked_with(at).is_empty() && !self.nodes[at].is_gone();
        if self.own.peers[a].key == self.own.peers[b].key && a != b && there(a) && there(b) {
            self.link(a, b);
        }
    }
}
