//! The GC horizon: what was collected lies at or below it.

use super::*;
use crate::Op;

/// The clocks that all acknowledged are noted in two steps, and wait while a guest was left out. Collection does
/// not wait for the second step, so the horizon must not either.
#[test]
fn a_replica_below_what_was_collected_gets_the_whole_state() {
    let [mut one, mut two, tab] = space();
    one.add("n", 5).unwrap();
    let mut reader = Replica::new(crate::Space::default(), WriterId::from_bytes([77; 16]));
    reader.merge(&one.delta(&VersionVector::default())).unwrap();
    // The first step happens now, and the second one once the other member has acknowledged the fence.
    one.members_mut().fence(&tab.writer()).unwrap();
    let kept = one.mark();
    one.members_mut().collect(&kept);
    two.merge(&one.delta(&two.vector())).unwrap();
    two.apply("n", Op::Reset).unwrap();
    one.merge(&two.delta(&one.vector())).unwrap();
    let mut collected = false;
    for _ in 0..2 {
        said(&mut one);
        pass(&one, &mut two);
        said(&mut two);
        pass(&two, &mut one);
        let kept = one.mark();
        collected |= one.members_mut().collect(&kept);
        if collected {
            break;
        }
    }
    assert!(collected);
    two.merge(&one.delta(&two.vector())).unwrap();
    let missing = one.delta(&reader.vector());
    reader.merge(&missing).unwrap();
    assert_eq!(reader.vector(), one.vector());
    assert_eq!(reader.value("n"), one.value("n"));
}
