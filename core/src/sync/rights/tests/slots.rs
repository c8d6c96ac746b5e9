//! Totals and cancels of a peer of limited rights, beside the slot that the member holds.

use super::*;

/// A member's replica in which the writer's slot of the counter `k` is this one.
fn holding(slot: impl FnOnce(u32) -> Slot) -> Replica {
    let mut end = linked(Role::Writer);
    let number = end.replica.state.number_of(&writer()).unwrap();
    let key_id = end.replica.key_id("k").unwrap_or_else(|| {
        end.replica.add("k", 0).unwrap();
        end.replica.key_id("k").unwrap()
    });
    end.replica.state.set_clock(number, 20);
    let own = end.replica.state.slots(key_id);
    let slots = [own, Vec::from([slot(number)])].concat();
    end.replica.state.put_slots(key_id, slots);
    end.replica
}

fn shard(number: u32, clock: u64, total: i128, extra: Extra) -> Slot {
    let mut slot = Slot::new(number, Row { clock, total: 0 }, None);
    let added = clock;
    slot.set_shard(clock, total, Extra { added, ..extra });
    slot
}

/// Only what was cancelled within the lifetime, before the total that is told, is taken off it.
#[test]
fn a_total_is_wide_if_what_is_left_of_it_is() {
    let full = i128::from(i64::MAX);
    let by = Stamp {
        writer: 0,
        clock: 1,
    };
    let held = holding(|number| {
        let mut slot = shard(number, 10, full, Extra::default());
        let (clock, total) = (10, full);
        slot.side.watermark = Some(Watermark { clock, total, by });
        slot
    });
    let judged = |clock, began| {
        let extra = Extra {
            began,
            ..Extra::default()
        };
        let told = shard(0, clock, full + 5, extra);
        let mut message = Message::default();
        let (writer, lo, hi) = (writer(), 0, clock);
        message.delta.writers.push(Entry { writer, lo, hi });
        message.delta.keys.push("k");
        let mut column = crate::state::page::Column::new(0);
        column.insert(0, told.row);
        message.delta.pages.push(Vec::from([column]));
        wide_total(&held, &message, 0, &told.side)
    };
    assert_eq!(judged(11, 0), None);
    assert_eq!(judged(10, 0), Some(full + 5), "nothing was added since");
    assert_eq!(judged(12, 11), Some(full + 5), "it is a later lifetime");
}

#[test]
fn a_cancel_may_name_a_total_that_is_as_wide_here() {
    let wide = i128::from(i64::MAX) + 5;
    let judged = |total, absorbed| {
        let extra = Extra {
            absorbed,
            ..Extra::default()
        };
        let held = holding(|number| shard(number, 10, total, extra));
        let mut message = Message::default();
        let (writer, lo, hi) = (writer(), 0, 10);
        message.delta.writers.push(Entry { writer, lo, hi });
        message.delta.keys.push("k");
        let by = Stamp {
            writer: 0,
            clock: 1,
        };
        let mut side = Side::new(0);
        let (clock, total) = (10, wide);
        side.watermark = Some(Watermark { clock, total, by });
        wide_total(&held, &message, 0, &side)
    };
    assert_eq!(judged(1, false), Some(wide));
    assert_eq!(judged(wide, false), None);
    assert_eq!(judged(1, true), None);
}

#[test]
fn a_side_of_adds_has_no_cancel_and_no_other_expiry() {
    let expires = |until| {
        let clock = 5;
        Some(Expiry::new(clock, until))
    };
    let held = holding(|number| {
        let expiry = expires(100);
        shard(
            number,
            10,
            1,
            Extra {
                expiry,
                ..Extra::default()
            },
        )
    });
    let by = Stamp {
        writer: 0,
        clock: 1,
    };
    let adds = |change: &dyn Fn(&mut Side)| {
        let mut side = Side::new(0);
        change(&mut side);
        only_adds(&held, "k", &writer(), &side)
    };
    let lift = |side: &mut Side| side.lift = Some(Box::new(Lift { clock: 1, by }));
    let watermark = |side: &mut Side| {
        let (clock, total) = (1, 1);
        side.watermark = Some(Watermark { clock, total, by });
    };
    let extra = |expiry| {
        let it = Extra::default();
        Some(Box::new(Extra { expiry, ..it }))
    };
    assert!(adds(&|_| ()));
    assert!(!adds(&lift) && !adds(&watermark));
    for (expiry, allowed) in [(None, true), (expires(100), true), (expires(101), false)] {
        assert_eq!(adds(&|side| side.extra = extra(expiry)), allowed);
        for cancel in [&lift as &dyn Fn(&mut Side), &watermark] {
            let both = |side: &mut Side| {
                side.extra = extra(expiry);
                cancel(side);
            };
            assert!(!adds(&both));
        }
    }
}
