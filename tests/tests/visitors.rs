//! Tabs that came and went leave their total, and nothing else.

use tallymesh_tests::visitors::visit;

const VISITORS: u64 = 4_000;
/// As many as it takes for each kind of thing to have happened.
const FEW: u64 = 400;
/// Slots in which members count.
const SLOTS: usize = 12;
/// By which clocks, which go on, may be longer: of slots, folds and facts.
const CLOCK_BYTES: usize = 2;

#[test]
fn visitors_leave_a_state_as_large_as_the_members_make_it() {
    let visit = |count| visit(count, 1, &|_| ()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (few, many) = (visit(FEW), visit(VISITORS));
    println!("{few}\n{many}");
    assert!(many.bytes_after <= few.bytes_after + 4 * SLOTS * CLOCK_BYTES);
    assert!(many.heap[0] <= few.heap[0]);
    // What absorption leaves beside each slot is of one size.
    assert!(many.bytes_after <= many.bytes_alone + SLOTS * 24);
}
