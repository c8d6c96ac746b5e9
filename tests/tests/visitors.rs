//! Tabs that came and went leave their total, and nothing else.

use tallymesh_tests::visitors::visit;

const VISITORS: u64 = 4_000;
/// Enough tabs that each kind of event happens.
const FEW: u64 = 400;
/// Slots in which members count.
const SLOTS: usize = 12;
/// Bytes by which growing clocks may be longer, in slots, moved parts and membership records.
const CLOCK_BYTES: usize = 2;

#[test]
fn visitors_leave_a_state_as_large_as_the_members_make_it() {
    let visit = |count| visit(count, 1, &|_| ()).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (few, many) = (visit(FEW), visit(VISITORS));
    println!("{few}\n{many}");
    assert!(many.bytes_after <= few.bytes_after + 4 * SLOTS * CLOCK_BYTES);
    assert!(many.heap[0] <= few.heap[0]);
    // Each slot has one remainder of retirements, of a fixed size.
    assert!(many.bytes_after <= many.bytes_alone + SLOTS * 24);
}
