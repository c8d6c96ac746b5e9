//! A space with members. Each replica is compared with the oracle at every step. Members are numbered from 0,
//! and [`Mesh::tab`] returns the numbers of tabs.

use tallymesh_core::{
    AgainOp, Encode, Error, Mark, Message, Op, Owner, Replica, Space, VersionVector, WriterId,
};
use tallymesh_tests::oracle::{Call, Dot, Key, Oracle, Takeovers, View};

/// The wall clock of all replicas. Nothing expires.
const NOW: u64 = 0;
/// Rounds after which everything must be in order.
const ROUNDS: usize = 24;

struct Actor {
    replica: Replica,
    view: View,
    mark: Mark,
    owner: Option<Owner>,
    nonce: [u8; 16],
}

/// A message of one of them, for any receiver.
pub(crate) struct Sent {
    writer: WriterId,
    bytes: Vec<u8>,
}

pub(crate) struct Mesh {
    oracle: Oracle,
    actors: Vec<Actor>,
    taken: Takeovers,
    starts: u8,
}

impl Mesh {
    /// Members that have the configuration and have acknowledged each other.
    pub(crate) fn new(members: u8) -> Mesh {
        let mut mesh = Mesh {
            oracle: Oracle::new(vec!["key".into(), "other".into()]),
            actors: Vec::new(),
            taken: Takeovers::default(),
            starts: 0,
        };
        let owners: Vec<Owner> = (1..=members).map(|number| [number; 32]).collect();
        for owner in &owners {
            mesh.start(Some(*owner));
        }
        let nonce = mesh.actors[0].nonce;
        mesh.does(0, |replica| {
            replica.members_mut().found(&owners[0], &nonce, 1)?;
            replica.members_mut().force(&owners)
        });
        for at in 1..owners.len() {
            mesh.gets(at, &mesh.state(0));
            mesh.announces(at);
        }
        let all: Vec<usize> = (0..owners.len()).collect();
        mesh.in_order(&all);
        mesh
    }

    fn start(&mut self, owner: Option<Owner>) -> usize {
        self.starts += 1;
        let nonce = [self.starts; 16];
        let writer = WriterId::mint(&Space::default(), &owner.unwrap_or([99; 32]), &nonce);
        self.actors.push(Actor {
            replica: Replica::new(Space::default(), writer),
            view: View::default(),
            mark: Mark::default(),
            owner,
            nonce,
        });
        self.actors.len() - 1
    }

    fn announces(&mut self, at: usize) {
        let Actor { owner, nonce, .. } = self.actors[at];
        let owner = owner.expect("a member has an owner");
        let at_ms = u64::from(self.starts);
        self.does(at, |replica| {
            replica.members_mut().announce(&owner, &nonce, at_ms)
        });
    }

    /// A replica that no other one has, and that has no other one.
    pub(crate) fn stranger(&mut self) -> usize {
        self.start(None)
    }

    /// A replica with a member's state, and that no other one has.
    pub(crate) fn reader(&mut self, of: usize) -> usize {
        let at = self.start(None);
        self.gets(at, &self.state(of));
        at
    }

    /// A tab that has a member's state, adds to the counter, and is admitted.
    pub(crate) fn tab(&mut self, sponsor: usize, by: i64) -> usize {
        let at = self.reader(sponsor);
        self.apply(at, Op::Add(by));
        self.meet(at, sponsor);
        assert_eq!(self.sponsor(at), Some(self.writer(sponsor)));
        at
    }

    /// The sponsor of a tab.
    pub(crate) fn sponsor(&self, at: usize) -> Option<WriterId> {
        self.actors[at].replica.members().sponsor()
    }

    /// Restarts a member as a new incarnation, from the state in its store. The old one ends.
    pub(crate) fn restarts(&mut self, old: usize) -> usize {
        let at = self.start(self.actors[old].owner);
        let stored = self.actors[old].replica.snapshot().encode();
        let message = Message::decode_stored(&stored).expect("a message of ours decodes");
        let restored = self.actors[at].replica.restore(&message);
        restored.unwrap_or_else(|error| panic!("replica {at}: {error}"));
        self.announces(at);
        at
    }

    /// A tab that cannot go on rejoins through a member that has the clock up to which it was retired. It
    /// replays the rest under a new writer. Returns the replayed operations.
    pub(crate) fn returns(&mut self, at: usize, by: usize) -> Vec<AgainOp> {
        self.starts += 1;
        let (nonce, old) = ([self.starts; 16], self.writer(at));
        let writer = WriterId::mint(&Space::default(), &[99; 32], &nonce);
        let helper = &self.actors[by];
        let upto = helper
            .replica
            .members()
            .final_clock(&old)
            .expect("it was taken over");
        let state = helper.replica.delta(&VersionVector::default());
        let seen = helper.view.clone();
        let Actor { replica, view, .. } = &mut self.actors[at];
        let journal = replica
            .rejoin_mut()
            .begin_again(writer, &state, &mut |_| ());
        let journal = journal.unwrap_or_else(|error| panic!("replica {at}: {error}"));
        *view = seen;
        let returned = replica
            .rejoin_mut()
            .make_again(journal, Some(upto), 0, &mut |_| ());
        assert_eq!(returned.unknown, None);
        for again in &returned.again {
            let keeps = |dot: Dot, cancels: &[Dot]| self.taken.keeps(dot, cancels);
            let made = self.oracle.reissue(
                view,
                (old, writer),
                (NOW, &|_, _| (None, None)),
                again,
                &keeps,
            );
            made.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
        }
        self.check_all();
        let ops = returned.again.into_iter().flat_map(|again| again.ops);
        ops.collect()
    }

    /// A replica makes an operation on the counter.
    pub(crate) fn apply(&mut self, at: usize, op: Op) {
        self.apply_to(at, 0, op);
    }

    /// A replica makes an operation on one of the two counters.
    pub(crate) fn apply_to(&mut self, at: usize, key: Key, op: Op) {
        let Actor { replica, view, .. } = &mut self.actors[at];
        let made = self
            .oracle
            .transact(view, replica, NOW, &[(key, op)], Call::Single);
        let made = made.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
        assert!(made, "replica {at}: {op:?} did nothing");
        self.check_all();
    }

    /// A replica performs an action that changes no counter.
    pub(crate) fn does<T>(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut Replica) -> Result<T, Error>,
    ) -> T {
        let Actor { replica, view, .. } = &mut self.actors[at];
        let before: Vec<WriterId> = replica.members().retired().map(|it| it.0).collect();
        let done = change(replica).unwrap_or_else(|error| panic!("replica {at}: {error}"));
        self.oracle.note(view, (replica.writer(), replica.clock()));
        self.taken.note(replica, &before, replica.clock());
        self.check_all();
        done
    }

    /// A member retires the writers that it may. Returns their number.
    pub(crate) fn absorbs(&mut self, at: usize) -> usize {
        self.does(at, |replica| replica.members_mut().retire())
    }

    /// A member fences another replica's writer.
    pub(crate) fn fences(&mut self, by: usize, other: usize) {
        let writer = self.writer(other);
        self.does(by, |replica| replica.members_mut().fence(&writer));
    }

    /// A member takes all others out of the configuration, by force.
    pub(crate) fn keeps_only(&mut self, by: usize, members: &[usize]) {
        let owner = |at: &usize| self.actors[*at].owner.expect("a member has an owner");
        let owners: Vec<Owner> = members.iter().map(owner).collect();
        self.does(by, |replica| replica.members_mut().force(&owners));
    }

    /// A replica stores all changes, and collects. Returns whether anything was collected.
    pub(crate) fn collects(&mut self, at: usize) -> bool {
        let Actor { replica, mark, .. } = &mut self.actors[at];
        replica.since(mark);
        let done = replica.members_mut().collect(mark);
        self.check_all();
        done
    }

    pub(crate) fn writer(&self, at: usize) -> WriterId {
        self.actors[at].replica.writer()
    }

    pub(crate) fn vector(&self, at: usize) -> VersionVector {
        self.actors[at].replica.vector()
    }

    pub(crate) fn bytes(&self, at: usize) -> Vec<u8> {
        self.actors[at].replica.canonical_bytes()
    }

    /// Whether a replica has another one's writer.
    pub(crate) fn knows(&self, at: usize, writer: &WriterId) -> bool {
        let mut writers = self.actors[at].replica.writers();
        writers.any(|(known, _)| known == *writer)
    }

    pub(crate) fn value(&self, at: usize) -> Option<i128> {
        self.actors[at].replica.value("key")
    }

    /// The reads of these replicas.
    pub(crate) fn values<const N: usize>(&self, of: [usize; N]) -> [Option<i128>; N] {
        of.map(|at| self.value(at))
    }

    /// A replica's whole state.
    pub(crate) fn state(&self, at: usize) -> Sent {
        self.since(at, &VersionVector::default())
    }

    /// The changes of a replica that the vector does not cover.
    pub(crate) fn since(&self, at: usize, vector: &VersionVector) -> Sent {
        let replica = &self.actors[at].replica;
        Sent {
            writer: replica.writer(),
            bytes: replica.delta(vector).encode(),
        }
    }

    /// If `live`, the message comes from its writer. Else another replica passes it on.
    fn merge(&mut self, at: usize, sent: &Sent, live: bool) -> Result<(), Error> {
        let message = Message::decode(&sent.bytes).expect("a message of ours decodes");
        let replica = &mut self.actors[at].replica;
        replica.merge_with(&message, live.then_some(sent.writer), &mut |_| ())?;
        let Actor { replica, view, .. } = &mut self.actors[at];
        // The replica may have admitted the sender.
        self.oracle.note(view, (replica.writer(), replica.clock()));
        self.check_all();
        Ok(())
    }

    /// Delivers a message that the replica must merge.
    pub(crate) fn gets(&mut self, at: usize, sent: &Sent) {
        let merged = self.merge(at, sent, true);
        merged.unwrap_or_else(|error| panic!("replica {at}: {error}"));
    }

    /// Delivers a message through another replica than its writer.
    pub(crate) fn relays(&mut self, at: usize, sent: &Sent) {
        let merged = self.merge(at, sent, false);
        merged.unwrap_or_else(|error| panic!("replica {at}: {error}"));
    }

    /// Delivers a message that must be rejected, and must change nothing.
    pub(crate) fn refuses(&mut self, at: usize, sent: &Sent, code: &str) {
        let before = self.bytes(at);
        let refused = self.merge(at, sent, true);
        assert_eq!(refused.map_err(|error| error.code()), Err(code));
        assert_eq!(self.bytes(at), before);
    }

    /// Both replicas receive everything that the other has.
    pub(crate) fn meet(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            self.gets(to, &self.since(from, &self.vector(to)));
        }
    }

    /// Compares every replica with the oracle, including those that did not change. An action of one replica
    /// must not be visible at another one that has not received it.
    fn check_all(&mut self) {
        for (at, Actor { replica, view, .. }) in self.actors.iter_mut().enumerate() {
            let claimed = self.taken.claimed(replica);
            let learnt = self.oracle.learn(view, claimed.into_iter());
            learnt.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
            let checked = self.oracle.check(view, replica, NOW);
            checked.unwrap_or_else(|wrong| panic!("replica {at}: {wrong}"));
            assert_eq!(replica.forks().fault_count(), 0, "replica {at}");
        }
    }

    /// One round, in which these exchange messages, acknowledge, retire and collect.
    pub(crate) fn round(&mut self, those: &[usize]) {
        for &from in those {
            for &to in those {
                if from != to {
                    self.gets(to, &self.since(from, &self.vector(to)));
                }
            }
        }
        for &at in those {
            self.does(at, |replica| {
                replica.members_mut().fence_strays()?;
                replica.members_mut().acknowledge()
            });
            self.absorbs(at);
            if !self.actors[at].replica.members().is_member() {
                let sponsor = self.actors[at].replica.members().sponsor();
                let sponsor = self
                    .actors
                    .iter()
                    .find(|it| Some(it.replica.writer()) == sponsor);
                let told = sponsor.map(|it| (it.replica.members().stable(), it.replica.vector()));
                if let Some((settled, seen)) = told {
                    self.actors[at]
                        .replica
                        .members_mut()
                        .accept_stable(&settled, &seen);
                }
            }
            self.collects(at);
        }
    }

    /// Makes rounds until nothing changes any more. Then all must have the same bytes.
    pub(crate) fn in_order(&mut self, those: &[usize]) {
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let before: Vec<Vec<u8>> = those.iter().map(|at| self.bytes(*at)).collect();
            self.round(those);
            let after: Vec<Vec<u8>> = those.iter().map(|at| self.bytes(*at)).collect();
            quiet = if before == after { quiet + 1 } else { 0 };
            // In the first quiet round, a replica may have found a request for the next one.
            if quiet == 2 {
                assert!(after.windows(2).all(|pair| pair[0] == pair[1]), "{those:?}");
                return;
            }
        }
        panic!("no order after {ROUNDS} rounds of {those:?}");
    }

    /// Puts everything in order among these. They must read this value, and must have no other writer any
    /// more.
    pub(crate) fn ends(&mut self, those: &[usize], value: Option<i128>) {
        self.in_order(those);
        let writers: Vec<WriterId> = those.iter().map(|at| self.writer(*at)).collect();
        for &at in those {
            assert_eq!(self.value(at), value, "replica {at}");
            for (writer, _) in self.actors[at].replica.writers() {
                assert!(
                    writers.contains(&writer),
                    "replica {at} still knows {writer}"
                );
            }
        }
    }
}
