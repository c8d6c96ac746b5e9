use super::*;
use alloc::collections::BTreeMap;

#[test]
fn the_latest_are_those_of_a_map() {
    let (mut latest, mut map) = (Latest::EMPTY, BTreeMap::new());
    assert_eq!(latest.get(0), None);
    for clock in 1..=3_000_u64 {
        // Some are equal, some come to the same place, and 0 is one of them.
        let hash = clock % 7 * 512 + clock % 701;
        latest.insert(hash, clock);
        map.insert(hash, clock);
        if clock % 100 == 0 {
            for hash in 0..5_000 {
                assert_eq!(latest.get(hash), map.get(&hash).copied(), "{clock} {hash}");
            }
        }
    }
    assert_eq!(latest.used, map.len());
    latest.clear();
    assert_eq!(latest.get(0), None);
}

#[test]
fn ends_of_bundles_that_grow_take_little_room() {
    let mut made: Vec<Made> = (1..=10).map(|it| Made::one(it, Vec::new())).collect();
    let mut bundles = Bundles::EMPTY;
    for clock in 11..=10_000 {
        let at = clock as usize % 10;
        made[at].last = clock;
        bundles.push(&made, clock, made[at].clock);
        assert!(bundles.0.capacity() <= 64);
    }
    let ends: Vec<(u64, u64)> = bundles.after(&made, 0).collect();
    let firsts = |from: u64| (from..=10_000).map(|last| (last, last % 10 + 1));
    assert!(ends.iter().copied().eq(firsts(9_991)));
    assert!(bundles.after(&made, 9_995).eq(firsts(9_996)));
    bundles.drop_upto(9_998);
    assert_eq!(bundles.0, [(9_999, 10), (10_000, 1)]);
    // Those of transactions in the order of their first clocks.
    let all: Vec<(u64, u64)> = Bundles::of(&made).after(&made, 0).collect();
    assert_eq!(all, ends);
}
