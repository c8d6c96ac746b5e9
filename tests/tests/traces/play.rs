//! A few replicas. Each is compared with the oracle at every step.

use tallymesh_core::{Encode, Message, Op, Replica, Space, VersionVector, WriterId};
use tallymesh_tests::oracle::{Call, Key, Oracle, View};

/// The clock of all replicas. Nothing expires.
const NOW: u64 = 0;

struct Peer {
    replica: Replica,
    view: View,
}

/// A history that is being played. Replicas are numbered, and the short forms use key 0.
pub(crate) struct Play {
    oracle: Oracle,
    peers: Vec<Peer>,
}

impl Play {
    /// This many empty replicas, with ascending writer ids.
    pub(crate) fn new(replicas: u8, keys: &[&str]) -> Play {
        let peer = |number| Peer {
            replica: Replica::new(Space::default(), WriterId::from_bytes([number; 16])),
            view: View::default(),
        };
        Play {
            oracle: Oracle::new(keys.iter().map(ToString::to_string).collect()),
            peers: (1..=replicas).map(peer).collect(),
        }
    }

    /// A replica makes a transaction.
    pub(crate) fn transact(&mut self, at: usize, ops: &[(Key, Op)]) {
        let Peer { replica, view } = &mut self.peers[at];
        let made = self.oracle.transact(view, replica, NOW, ops, Call::Single);
        let made = made.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
        assert!(made, "replica {at}: {ops:?} did nothing");
    }

    /// A replica makes an operation on key 0.
    pub(crate) fn apply(&mut self, at: usize, op: Op) {
        self.transact(at, &[(0, op)]);
    }

    /// A replica's whole state, encoded.
    pub(crate) fn state(&self, at: usize) -> Vec<u8> {
        self.since(at, &VersionVector::default())
    }

    /// The changes of a replica that the vector does not cover, encoded.
    pub(crate) fn since(&self, at: usize, vector: &VersionVector) -> Vec<u8> {
        self.peers[at].replica.delta(vector).encode()
    }

    pub(crate) fn vector(&self, at: usize) -> VersionVector {
        self.peers[at].replica.vector()
    }

    pub(crate) fn bytes(&self, at: usize) -> Vec<u8> {
        self.peers[at].replica.canonical_bytes()
    }

    /// Delivers a message that the replica must merge.
    pub(crate) fn gets(&mut self, at: usize, bytes: &[u8]) {
        let message = Message::decode(bytes).expect("a message of ours decodes");
        let merged = self.peers[at].replica.merge(&message);
        merged.unwrap_or_else(|error| panic!("replica {at}: {error}"));
        self.check(at);
    }

    /// Delivers a message whose base is missing. It must be rejected, and must change nothing.
    pub(crate) fn cannot_use(&mut self, at: usize, bytes: &[u8]) {
        let before = self.bytes(at);
        let message = Message::decode(bytes).expect("a message of ours decodes");
        let refused = self.peers[at].replica.merge(&message);
        assert_eq!(refused.map_err(|e| e.code()), Err("not_covered"));
        assert_eq!(self.bytes(at), before);
        self.check(at);
    }

    /// Compares a replica with the oracle.
    fn check(&mut self, at: usize) {
        let Peer { replica, view } = &mut self.peers[at];
        let learnt = self.oracle.learn(view, replica.writers());
        learnt.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
        let checked = self.oracle.check(view, replica, NOW);
        checked.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
    }

    /// The read of key 0 at a replica.
    pub(crate) fn value(&self, at: usize) -> Option<i128> {
        self.value_of(at, 0)
    }

    pub(crate) fn value_of(&self, at: usize, key: Key) -> Option<i128> {
        self.peers[at].replica.value(&self.oracle.keys()[key])
    }

    /// All replicas receive each other's state. All must read this value of key 0, with equal bytes.
    pub(crate) fn ends(&mut self, value: Option<i128>) {
        for round in 0..2 {
            for from in 0..self.peers.len() {
                let state = self.state(from);
                for to in 0..self.peers.len() {
                    self.gets(to, &state);
                    if round == 1 {
                        assert_eq!(self.value(to), value, "replica {to}");
                    }
                }
            }
        }
        for at in 1..self.peers.len() {
            assert_eq!(self.bytes(at), self.bytes(0), "replica {at}");
        }
    }

    /// Passes a replica to other code that changes it, and compares it afterwards.
    pub(crate) fn with<T>(&mut self, at: usize, change: impl FnOnce(&mut Replica) -> T) -> T {
        let done = change(&mut self.peers[at].replica);
        self.check(at);
        done
    }
}
