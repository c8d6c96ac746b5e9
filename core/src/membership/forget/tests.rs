//! What is remembered of forgotten writers, and for how long.

use super::super::tests::*;
use super::*;

fn writer(at: usize) -> WriterId {
    let mut bytes = [5; 16];
    // The first ones are not the least.
    bytes[..8].copy_from_slice(&(at as u64 ^ 1).to_be_bytes());
    WriterId::from_bytes(bytes)
}

/// Both forget the oldest ones where there are too many, and say that they did.
#[test]
fn writers_are_remembered_at_once_as_they_are_one_by_one() {
    const MORE: usize = 3;
    let forgotten = |count: usize| -> Vec<(WriterId, u64)> {
        (0..count).map(|at| (writer(at), at as u64)).collect()
    };
    for (count, left, gaps) in [
        (2, 2, false),
        (RETURNS_MAX, RETURNS_MAX, false),
        (RETURNS_MAX + MORE, RETURNS_MAX, true),
    ] {
        let ((_, mut one), (_, mut all)) = (founded(), founded());
        for (writer, upto) in forgotten(count) {
            one.remember(writer, upto);
        }
        all.remember_all(forgotten(count));
        // It knows them already.
        all.remember_all(forgotten(count).split_off(count - 1));
        for members in [&one, &all] {
            assert_eq!(members.remembered_count(), count as u64);
            assert_eq!(members.memory_gaps(), Some(gaps));
            let kept = members.remembered(u64::MAX);
            assert!(kept == forgotten(count).split_off(count - left));
        }
        let table = [one.table(), all.table()];
        assert!(table[0].returns == table[1].returns);
    }
}
