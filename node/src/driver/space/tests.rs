//! What is given to the store is all that happened.

use super::*;
use crate::handle::Sum;
use crate::store::Memory;
use tallymesh_core::Op;

/// A space that is followed by what its store is given.
struct Followed {
    space: OpenSpace,
    records: Vec<Record>,
}

impl Followed {
    fn new() -> Followed {
        let load = OpenSpace::load(Space::default(), &[7; 32], 0, &mut Memory::default(), false);
        Followed {
            space: load.expect("an empty store"),
            records: Vec::new(),
        }
    }

    /// Ends a batch, and keeps what the store lacks.
    fn keep(&mut self) {
        self.space.settle(0, false);
        self.records.extend(self.space.record());
    }

    /// Compares the space with what the store has of it.
    fn check(&mut self, context: &str) {
        let mut replay = Replay::new(Space::default(), WriterId::from_bytes([1; 16]));
        for record in &self.records {
            let taken = replay.take(record.kind, &record.bytes);
            taken.expect("a record that can be used");
        }
        let mut replica = replay.end();
        let own = &mut self.space.replica;
        assert_eq!(replica.digest(), own.digest(), "{context}: clocks");
        let digests = [replica.content_digest(), own.content_digest()];
        assert_eq!(digests[0], digests[1], "{context}: contents");
    }
}

#[test]
fn a_counter_that_expired_unseen_is_given_to_the_store_whoever_meets_it() {
    for op in [Op::Delete, Op::Expire(50), Op::Persist] {
        let mut followed = Followed::new();
        let key = || "gone".to_owned();
        let made = [(key(), Op::Set(5)), (key(), Op::Expire(20))];
        followed.space.transact(&made, None).expect("well");
        followed.keep();
        followed.space.set_time(30);
        let done = followed.space.transact(&[(key(), op)], None).expect("well");
        assert_eq!(done.done[0].now, None);
        followed.space.add("other".to_owned(), 1).expect("well");
        followed.keep();
        followed.check(&format!("{op:?}"));
    }
}

#[test]
fn whatever_happens_is_given_to_the_store() {
    let mut kinds = [0; 2];
    for seed in 0..200u64 {
        let mut random = seed;
        let mut below = |end: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % end
        };
        // Most batches of most runs are of adds alone.
        let rare = [4, 40, 400][seed as usize % 3];
        let mut followed = Followed::new();
        for time in 0..150 {
            let space = &mut followed.space;
            space.set_time(time);
            for _ in 0..below(4) {
                let key = format!("key-{}", below(40));
                let op = match below(6) {
                    0 => Op::Reset,
                    1 => Op::Delete,
                    2 => Op::Set(3),
                    3 => Op::Expire(time + below(5)),
                    4 => Op::Persist,
                    _ => Op::Add(1),
                };
                match below(rare) {
                    0 => drop(space.transact(&[(key, op)], None).expect("well")),
                    1 => {
                        let ops = [(key.clone(), op), ("both".into(), Op::Add(1)), (key, op)];
                        drop(space.transact(&ops, None).expect("well"));
                    }
                    2 => {
                        let sums = [key, "many".to_owned()].map(|key| Sum {
                            key,
                            by: 2,
                            line: 1,
                        });
                        space.add_many(&sums).expect("well");
                    }
                    _ => drop(space.add(key, 1).expect("well")),
                }
            }
            if below(2) == 0 {
                space.delete_expired(time);
            }
            followed.keep();
            if below(10) == 0 {
                followed.check(&format!("seed {seed}, time {time}"));
            }
        }
        followed.check(&format!("seed {seed}, at the end"));
        for record in &followed.records {
            kinds[usize::from(record.kind == Kind::Adds)] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 1_000), "{kinds:?}");
}
