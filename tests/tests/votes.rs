//! Members decide on configurations. At most one is decided under each number, in any order of messages. One
//! is decided once all messages get through.

use std::collections::BTreeMap;
use tallymesh_core::{
    Configuration, Encode, Message, Owner, Replica, Space, VersionVector, WriterId,
};
use tallymesh_tests::random::Random;
use tallymesh_tests::seeds;

const SEEDS: u64 = 1_000;

struct Member {
    replica: Replica,
    owner: Owner,
}

struct World {
    random: Random,
    members: Vec<Member>,
    sent: Vec<(WriterId, Vec<u8>)>,
    decided: BTreeMap<(u64, u64), Configuration>,
    proposed: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let count = random.range(2, 5) as u8;
        let owners: Vec<Owner> = (1..=count).map(|at| [at; 32]).collect();
        let mut world = World {
            random,
            members: Vec::new(),
            sent: Vec::new(),
            decided: BTreeMap::new(),
            proposed: 0,
        };
        for (at, owner) in owners.iter().enumerate() {
            let nonce = world.random.bytes();
            let writer = WriterId::mint(&Space::default(), owner, &nonce);
            let replica = Replica::new(Space::default(), writer);
            world.members.push(Member {
                replica,
                owner: *owner,
            });
            if at == 0 {
                let first = &mut world.members[0].replica;
                first.members_mut().found(owner, &nonce, 1).unwrap();
                first.members_mut().force(&owners).unwrap();
                continue;
            }
            world.send(0, at);
            world.deliver(world.sent.len() - 1, at);
            world.members[at]
                .replica
                .members_mut()
                .announce(owner, &nonce, 1)
                .unwrap();
        }
        world
    }

    fn send(&mut self, from: usize, to: usize) {
        let since = match self.random.chance(300) {
            true => VersionVector::default(),
            false => self.members[to].replica.vector(),
        };
        let replica = &self.members[from].replica;
        self.sent
            .push((replica.writer(), replica.delta(&since).encode()));
    }

    fn deliver(&mut self, at: usize, to: usize) {
        let (from, bytes) = &self.sent[at];
        let message = Message::decode(bytes).unwrap();
        let replica = &mut self.members[to].replica;
        // A message that builds on a missing one is rejected, and sent again later.
        let _ = replica.merge_with(&message, Some(*from), &mut |_| ());
        self.look(to);
    }

    fn look(&mut self, at: usize) {
        let configuration = self.members[at]
            .replica
            .members()
            .configuration()
            .unwrap()
            .clone();
        let number = (configuration.era, configuration.number);
        let before = self.decided.entry(number).or_insert(configuration.clone());
        assert_eq!(*before, configuration, "two configurations of one number");
    }

    fn step(&mut self) {
        let at = self.random.index(self.members.len());
        let other = self.random.index(self.members.len());
        match self.random.below(20) {
            0 => {
                let owners = self.members.iter().map(|it| it.owner);
                let mut owners: Vec<Owner> = owners.collect();
                owners.retain(|_| self.random.chance(800));
                owners.push([self.random.range(100, 105) as u8; 32]);
                if self.members[at]
                    .replica
                    .members_mut()
                    .propose(&owners)
                    .is_ok()
                {
                    self.proposed += 1;
                }
                self.look(at);
            }
            1 => self.restart(at),
            2..8 => {
                self.members[at].replica.members_mut().vote().unwrap();
                self.look(at);
            }
            8..13 if at != other => self.send(at, other),
            _ if !self.sent.is_empty() => {
                let message = self.random.index(self.sent.len());
                self.deliver(message, at);
            }
            _ => {}
        }
    }

    fn restart(&mut self, at: usize) {
        let state = self.members[at].replica.delta(&VersionVector::default());
        let owner = self.members[at].owner;
        let nonce = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &owner, &nonce);
        let mut replica = Replica::new(Space::default(), writer);
        replica.merge(&state).unwrap();
        if replica.members_mut().announce(&owner, &nonce, 2).is_ok() {
            self.members[at].replica = replica;
        }
    }

    fn finish(&mut self) {
        for _ in 0..30 {
            for from in 0..self.members.len() {
                for to in 0..self.members.len() {
                    if from != to {
                        self.send(from, to);
                        self.deliver(self.sent.len() - 1, to);
                    }
                }
            }
            for at in 0..self.members.len() {
                let replica = &mut self.members[at].replica;
                replica.members_mut().acknowledge().unwrap();
                let mark = {
                    let mut mark = tallymesh_core::Mark::default();
                    replica.since(&mut mark);
                    mark
                };
                replica.members_mut().collect(&mark);
                replica.members_mut().vote().unwrap();
                self.look(at);
            }
        }
    }
}

/// The greatest ballot is of a member that has restarted since, and has lost its proposal. The other member's
/// proposal must not stay open for ever.
#[test]
fn a_proposer_that_starts_again_leaves_nothing_open() {
    let mut world = World::new(0);
    while world.members.len() != 3 {
        world = World::new(world.random.next_u64());
    }
    let owner = |at: usize| world.members[at].owner;
    let [keeps, other] = [[owner(0), owner(2)], [owner(0), owner(1)]];
    world.members[0]
        .replica
        .members_mut()
        .propose(&keeps)
        .unwrap();
    world.members[1]
        .replica
        .members_mut()
        .propose(&other)
        .unwrap();
    world.restart(1);
    world.finish();
    for at in [0, 1, 2] {
        assert_eq!(world.members[at].replica.members().proposal(), None);
        let number = world.members[at]
            .replica
            .members()
            .configuration()
            .unwrap()
            .number;
        assert_eq!(number, 3);
    }
}

#[test]
fn one_number_has_one_configuration() {
    let (first, count) = match seeds::chosen() {
        Some(seed) => (seed, 1),
        None => (0, seeds::count(SEEDS)),
    };
    let (mut proposed, mut decided) = (0, 0);
    for seed in first..first + count {
        let mut world = World::new(seed);
        for _ in 0..world.random.range(20, 200) {
            world.step();
        }
        world.finish();
        proposed += world.proposed;
        decided += world.decided.len() as u64;
        // Members of both the first and the last configuration have the last one.
        let newest = world.decided.last_key_value().unwrap().1.clone();
        let stays = |it: &&Member| newest.has(&it.owner);
        for member in world.members.iter().filter(stays) {
            let known = member.replica.members().configuration().unwrap();
            assert_eq!(*known, newest, "seed {seed}: {:?}", member.owner[0]);
            let open = member.replica.members().proposal();
            let state = member.replica.delta(&VersionVector::default());
            assert!(open.is_none(), "seed {seed}: {open:?} is open: {state:?}");
        }
    }
    println!("{proposed} proposals, {decided} configurations");
}
