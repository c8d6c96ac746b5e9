//! Every change of a counter is reported, whatever caused it.

use super::collect::tests::space;
use crate::optional::Optional;
use crate::{Moment, Op, Replica, Space, WriterId};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn replica(id: u8) -> Replica {
    Replica::new(Space::default(), WriterId::from_bytes([id; 16]))
}

fn changed(replica: &Replica, moment: Moment, from: u32) -> Option<Vec<&str>> {
    let key_ids = replica.changed_since(moment, from)?;
    Some(key_ids.filter_map(|it| replica.key(it)).collect())
}

#[test]
fn what_changed_since_a_moment_is_told_also_if_it_came_from_elsewhere() {
    let (mut here, mut there) = (replica(1), replica(2));
    for n in 0..200 {
        here.add(&alloc::format!("k{n}"), 1).expect("add");
    }
    let moment = here.moment();
    assert_eq!(changed(&here, moment, 0), Some(Vec::new()));
    here.add("k3", 1).expect("add");
    there.add("k150", 5).expect("add");
    here.merge(&there.delta(&here.vector())).expect("merge");
    here.apply("k199", Op::Delete).expect("delete");
    assert_eq!(
        changed(&here, moment, 0),
        Some(["k3", "k150", "k199"].into())
    );
    assert_eq!(changed(&here, moment, 4), Some(["k150", "k199"].into()));
    let later = here.moment();
    assert_eq!(changed(&here, later, 0), Some(Vec::new()));
    here.add("new", 1).expect("add");
    assert_eq!(changed(&here, later, 0), Some(["new"].into()));
    // Adds to several counters at once, which the replica has in a page.
    let later = here.moment();
    let adds = ["k3", "k70"].map(|key| (here.key_id(key).expect("known"), 1));
    assert!(here.add_together(&adds));
    assert_eq!(changed(&here, later, 0), Some(["k3", "k70"].into()));
}

#[test]
fn what_is_not_known_is_not_told() {
    let mut here = replica(1);
    here.add("a", 1).expect("add");
    let moment = here.moment();
    for wrong in [
        Moment {
            epoch: moment.epoch + 1,
            ..moment
        },
        Moment { epoch: 0, ..moment },
        Moment {
            dropped: 1,
            ..moment
        },
    ] {
        assert_eq!(changed(&here, wrong, 0), None, "{wrong:?}");
    }
    assert_eq!(changed(&here, moment, 0), Some(Vec::new()));
}

/// A small generator: the same numbers in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn values(replica: &Replica) -> BTreeMap<String, i128> {
    let counters = replica.counters();
    let value = |(key_id, key): (_, &str)| Some((key.to_string(), replica.value_at(key_id)?));
    counters.filter_map(value).collect()
}

#[test]
fn nothing_that_changed_is_left_out() {
    let mut dice = Dice(7);
    let mut replicas = [1, 2, 3].map(replica);
    let mut told = 0;
    for round in 0..400 {
        let at = dice.below(3) as usize;
        let before = values(&replicas[at]);
        let moment = replicas[at].moment();
        for _ in 0..dice.below(8) {
            let key = alloc::format!("k{}", dice.below(300));
            let op = match dice.below(8) {
                0 => Op::Reset,
                1 => Op::Delete,
                2 => Op::Set(dice.below(9) as i64),
                3 => Op::Expire(1_000_000),
                4 => Op::Persist,
                _ => Op::Add(dice.below(9) as i64 - 4),
            };
            replicas[at].apply(&key, op).expect("room");
            if dice.below(3) == 0 {
                replicas[at].mark();
            }
        }
        let from = dice.below(3) as usize;
        let delta = replicas[from].delta(&replicas[at].vector());
        replicas[at].merge(&delta).expect("merge");
        let after = values(&replicas[at]);
        let changed = changed(&replicas[at], moment, 0).expect("an open space tells");
        for key in before.keys().chain(after.keys()) {
            if before.get(key) != after.get(key) {
                assert!(changed.contains(&key.as_str()), "{key} in round {round}");
                told += 1;
            }
        }
    }
    assert!(told > 500, "too little changed: {told}");
}

/// Members acknowledge what a guest and they have seen, and collect it.
fn settle(all: &mut [Replica; 3]) {
    for member in &mut all[..2] {
        member.membership.table_mut().stored().waiting = true;
    }
    for _ in 0..6 {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
            let message = all[from].delta(&all[to].vector());
            let live = Some(all[from].writer());
            let merged = all[to].merge_with(&message, live, &mut |_| ());
            merged.expect("merge");
        }
        for member in &mut all[..2] {
            member.members_mut().acknowledge().expect("acknowledge");
            let kept = member.mark();
            member.members_mut().collect(&kept);
        }
    }
}

#[test]
fn what_was_collected_of_a_counter_is_told_unless_nothing_is_left_of_it() {
    let mut all = space();
    settle(&mut all);
    for op in [Op::Add(1), Op::Delete, Op::Add(2)] {
        all[0].apply("stays", op).expect("apply");
    }
    let moment = all[0].moment();
    let began = |all: &[Replica; 3]| {
        let slots = all[0]
            .state
            .slots(all[0].key_id("stays").expect("it exists"));
        slots[0].began()
    };
    assert!(began(&all) > 0);
    settle(&mut all);
    assert_eq!(began(&all), 0, "when its lifetime began is forgotten");
    assert_eq!(changed(&all[0], moment, 0), Some(["stays"].into()));
    all[0].add("goes", 1).expect("add");
    let moment = all[0].moment();
    all[0].apply("goes", Op::Delete).expect("delete");
    settle(&mut all);
    assert_eq!(all[0].key_id("goes"), None);
    assert_eq!(changed(&all[0], moment, 0), None);
}
