//! Key gaps: how far a writer is acknowledged while keys are missing.

use super::super::tests::*;
use crate::state::delta::Entry;

fn entry(lo: u64, hi: u64) -> Entry {
    let writer = id(2);
    Entry { writer, lo, hi }
}

#[test]
fn a_member_acknowledges_only_what_it_has_with_keys() {
    let mut space = founded();
    let writer = second_member(&mut space, 3);
    let (mut state, mut members) = space;
    assert_eq!(
        (
            members.lacks_keys(),
            members.clock_with_keys(&state, writer)
        ),
        (false, 3)
    );
    members.note_keys_of(&state, writer, &entry(3, 8), true);
    state.advance(writer as usize, 8);
    assert!(members.lacks_keys());
    assert_eq!(members.key_gaps(), [(writer, 3)]);
    assert_eq!(members.clock_with_keys(&state, writer), 3);
    assert_eq!(members.vector_with_keys(&state).get(&id(2)), 3);
    // A part that begins beyond the gap does not close it.
    members.note_keys_of(&state, writer, &entry(5, 8), false);
    assert_eq!(members.clock_with_keys(&state, writer), 3);
    members.note_keys_of(&state, writer, &entry(3, 6), false);
    assert_eq!(members.clock_with_keys(&state, writer), 6);
    members.note_keys_of(&state, writer, &entry(6, 8), false);
    assert_eq!(
        (
            members.lacks_keys(),
            members.clock_with_keys(&state, writer)
        ),
        (false, 8)
    );
}

#[test]
fn a_gap_is_dropped_with_its_writer_or_by_whoever_gives_it_up() {
    let mut space = founded();
    let writer = second_member(&mut space, 3);
    let (state, mut members) = space;
    for drop in [
        |members: &mut super::Membership, writer| members.close_gap(writer),
        |members: &mut super::Membership, writer| members.drop_gaps_of(|it| it == writer),
        |members: &mut super::Membership, _| members.drop_gaps(),
    ] {
        members.note_keys_of(&state, writer, &entry(3, 8), true);
        assert_eq!(members.key_gaps(), [(writer, 3)]);
        drop(&mut members, writer);
        assert!(!members.lacks_keys());
    }
}
