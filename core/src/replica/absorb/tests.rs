//! A total that does not fit delays its own writer, and nobody else.

use super::*;
use crate::state::slot::{Extra, Watermark};
use crate::writer_id::WriterId;
use crate::{Op, Space, VersionVector};

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn member() -> Replica {
    let mut member = Replica::new(Space::default(), id(1));
    member.members_mut().found(&[1; 32], &[7; 16], 1).unwrap();
    member
}

/// A guest that has counted so much in each of these counters.
fn guest(member: &mut Replica, byte: u8, totals: &[(&str, i128)]) {
    let writer = id(byte);
    member.members_mut().admit(&writer).unwrap();
    let mut guest = Replica::new(Space::default(), writer);
    guest
        .merge(&member.delta(&VersionVector::default()))
        .unwrap();
    for (key, total) in totals {
        let key_id = guest.add(key, 1).unwrap();
        let mut slots = guest.state.slots(key_id);
        let added = guest.clock();
        let extra = Extra {
            added,
            ..Extra::default()
        };
        let own = counter::find(&slots, OWN).unwrap();
        slots[own].set_shard(added, *total, extra);
        guest.state.put_slots(key_id, slots);
    }
    let message = guest.delta(&member.vector());
    member
        .merge_with(&message, Some(writer), &mut |_| ())
        .unwrap();
}

/// The duties that a member does again and again; no value changes by them.
fn tend(member: &mut Replica, keys: &[&str]) {
    for _ in 0..6 {
        let values: Vec<_> = keys.iter().map(|key| member.value(key)).collect();
        member.members_mut().retire().unwrap();
        let moved: Vec<_> = keys.iter().map(|key| member.value(key)).collect();
        assert_eq!(values, moved);
        member.members_mut().acknowledge().unwrap();
        let kept = member.mark();
        member.members_mut().collect(&kept);
        let left: Vec<_> = keys.iter().map(|key| member.value(key)).collect();
        assert_eq!(values, left);
    }
}

#[test]
fn a_total_that_does_not_fit_delays_its_own_writer_only() {
    let mut member = member();
    let wide = WIDE_MAX - 1;
    guest(&mut member, 2, &[("w", wide), ("a", 2)]);
    guest(&mut member, 3, &[("w", wide), ("a", 3), ("b", 30)]);
    guest(&mut member, 4, &[("a", 4), ("b", 40)]);
    guest(&mut member, 5, &[("w", -7), ("b", 50)]);
    for byte in 2..6 {
        member.members_mut().fence(&id(byte)).unwrap();
    }
    let keys = ["w", "a", "b"];
    tend(&mut member, &keys);
    let known = |member: &Replica| [2, 3, 4, 5].map(|byte| member.state.knows(&id(byte)));
    assert_eq!(known(&member), [false, true, false, false]);
    assert_eq!(member.members().stuck_writers(), 1);
    assert_eq!(member.value("w"), Some(2 * wide - 7));
    assert_eq!([member.value("a"), member.value("b")], [Some(9), Some(120)]);
    // One that ends later is not held up.
    guest(&mut member, 6, &[("a", 1)]);
    member.members_mut().fence(&id(6)).unwrap();
    tend(&mut member, &keys);
    assert!(!member.state.knows(&id(6)));
    // The member cancels a total that it can't take over.
    member.apply("w", Op::Delete).unwrap();
    tend(&mut member, &keys);
    assert_eq!(
        (member.state.knows(&id(3)), member.members().stuck_writers()),
        (false, 0)
    );
    assert_eq!(
        [member.value("a"), member.value("b")],
        [Some(10), Some(120)]
    );
}

/// Many that end at once in one counter are taken over as one after the other would be.
#[test]
fn many_are_taken_over_in_one_transaction() {
    let mut member = member();
    member.add("n", 1).unwrap();
    for byte in 2..200 {
        guest(&mut member, byte, &[("n", byte.into())]);
    }
    member.apply("n", Op::Reset).unwrap();
    for byte in 2..200 {
        member.members_mut().fence(&id(byte)).unwrap();
    }
    member.add("n", 5).unwrap();
    let before = member.clock();
    assert_eq!(member.members_mut().retire(), Ok(198));
    assert_eq!(member.clock(), before + 1);
    assert_eq!(member.value("n"), Some(5));
    tend(&mut member, &["n"]);
    assert_eq!(member.members().writer_table().count(), 1);
}

/// What a cancelled slot came to takes no room, because the take-over begins a lifetime.
#[test]
fn a_total_that_is_cancelled_delays_no_writer() {
    let mut member = member();
    let wide = WIDE_MAX - 1;
    member.absorb_for_test("w", wide);
    // Another writer cancels it.
    guest(&mut member, 3, &[]);
    let number = member.membership.number(&mut member.state, id(3));
    let key_id = member.key_id("w").unwrap();
    let mut slots = member.state.slots(key_id);
    slots[0].side.watermark = Some(Watermark {
        clock: slots[0].row.clock,
        total: wide,
        by: Stamp {
            writer: number,
            clock: 1,
        },
    });
    member.state.put_slots(key_id, slots);
    assert_eq!(member.value("w"), None);
    guest(&mut member, 2, &[("w", wide)]);
    member.members_mut().fence(&id(2)).unwrap();
    let all = member.vector();
    member.membership.note_seen(&member.state, &id(3), &all);
    assert_eq!(member.members_mut().retire(), Ok(1));
    assert_eq!(member.value("w"), Some(wide));
}

#[test]
fn writers_that_live_delay_none_that_ended() {
    let mut member = member();
    let wide = WIDE_MAX - 1;
    guest(&mut member, 2, &[("w", wide)]);
    guest(&mut member, 3, &[("w", wide)]);
    member.members_mut().fence(&id(3)).unwrap();
    let all = member.vector();
    member.membership.note_seen(&member.state, &id(2), &all);
    assert_eq!(member.members_mut().retire(), Ok(1));
    assert_eq!(member.members().stuck_writers(), 0);
}

/// Of two whose sum does not fit, the second one waits, to the unit.
#[test]
fn each_writer_is_judged_beside_those_that_were_accepted() {
    for (second, retired) in [(-1, 2), (0, 2), (1, 1), (WIDE_MAX - 1, 1)] {
        let mut member = member();
        guest(&mut member, 2, &[("w", WIDE_MAX - 1)]);
        guest(&mut member, 3, &[("w", second)]);
        for byte in [2, 3] {
            member.members_mut().fence(&id(byte)).unwrap();
        }
        let value = member.value("w");
        assert_eq!(member.members_mut().retire(), Ok(retired), "{second}");
        assert_eq!(member.members().stuck_writers(), 2 - retired);
        assert_eq!(member.value("w"), value);
    }
}
