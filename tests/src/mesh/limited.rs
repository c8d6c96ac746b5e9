//! Guests with limited rights in a mesh: readers, writers and editors, each under a key of its own or
//! that of another guest, with whom it has a link besides.

use super::{MEMBERS, Mesh};
use tallymesh_core::{Input, Link, Owner, Role, WriterId};

/// Of all guests, but for those of limited runs.
const ANYBODY: Owner = [9; 32];

impl Mesh {
    /// The key of a guest that begins.
    pub(super) fn key_of_guest(&mut self) -> Owner {
        let others = self.peers[MEMBERS.min(self.peers.len())..].iter();
        let others: Vec<Owner> = others.map(|it| it.key).collect();
        let Some(random) = &mut self.limited else {
            return ANYBODY;
        };
        match random.chance(250) && !others.is_empty() {
            true => *random.pick(&others),
            false => {
                let mut key = [0; 32];
                key[..16].copy_from_slice(&random.bytes::<16>());
                key
            }
        }
    }

    /// Decides what a guest may do: all of one owner may do the same.
    pub(super) fn limit(&mut self, at: usize) {
        let key = self.peers[at].key;
        let known = self.peers[..at].iter().find(|it| it.key == key);
        let known = known.map(|it| it.role);
        let Some(random) = &mut self.limited else {
            return;
        };
        let roles = [
            Some(Role::Reader),
            Some(Role::Writer),
            Some(Role::Editor),
            None,
        ];
        let role = known.unwrap_or(*random.pick(&roles));
        if let Some(role) = role {
            self.figures.limited[role as usize] += 1;
        }
        self.peers[at].role = role;
        let own = core::mem::take(&mut self.peers[at].own);
        self.goes_on(at, own);
    }

    /// A process of a guest begins that had these writers before.
    pub(super) fn goes_on(&mut self, at: usize, before: Vec<(WriterId, [u8; 16])>) {
        if self.limited.is_none() {
            return;
        }
        let peer = &mut self.peers[at];
        let only_adds = peer.role == Some(Role::Writer);
        peer.replica.set_adds_only(only_adds);
        let fresh = core::mem::take(&mut peer.own);
        let key = peer.key;
        for (writer, nonce) in before.into_iter().chain(fresh) {
            self.proves(at, writer, nonce);
        }
        let others = self.peers.iter().filter(|it| it.key == key);
        let others = others.flat_map(|it| it.own.clone());
        let others: Vec<(WriterId, [u8; 16])> = others.collect();
        for (writer, nonce) in others {
            self.handle(at, Input::Own { writer, nonce });
        }
    }

    /// A guest has a writer, which all of its owner's guests know to be theirs.
    pub(super) fn proves(&mut self, at: usize, writer: WriterId, nonce: [u8; 16]) {
        if self.limited.is_none() {
            return;
        }
        self.peers[at].own.push((writer, nonce));
        let key = self.peers[at].key;
        for other in 0..self.peers.len() {
            if self.peers[other].key == key && !self.peers[other].gone {
                let input = Input::Own { writer, nonce };
                let peer = &mut self.peers[other];
                peer.sync.handle(self.now, &mut peer.replica, input);
            }
        }
    }

    /// What a peer hears of a link to another.
    pub(super) fn connected(&self, link: Link, at: usize, other: usize) -> Input<'static> {
        let (owner, broadcast) = (self.peers[other].key, false);
        match self.peers[other].role.filter(|_| at < MEMBERS) {
            Some(role) => Input::Limited { link, owner, role },
            None => Input::Connected { link, broadcast },
        }
    }

    /// Two guests of one owner meet.
    pub(super) fn limited_event(&mut self) {
        let count = self.peers.len();
        let Some(random) = &mut self.limited else {
            return;
        };
        if count < MEMBERS + 2 || !random.chance(30) {
            return;
        }
        let [a, b] = [0; 2].map(|_| random.range(MEMBERS as u64, count as u64 - 1) as usize);
        let there = |at: usize| self.peers[at].linked && !self.peers[at].gone;
        let same = self.peers[a].key == self.peers[b].key && a != b;
        let linked = self.links.values();
        let mut linked = linked.filter(|ends| ends.contains(&a) && ends.contains(&b));
        if same && there(a) && there(b) && linked.next().is_none() {
            self.connect(a, b);
        }
    }
}
