//! Versions of single counters: whether a counter has changed, as a number that a caller can compare.

use super::Replica;
use crate::hash::{fold, hash_bytes};
use crate::indexed_state::State;
use crate::state::slot::{RankedAssignment, Slot, Stamp};

impl Replica {
    /// Returns a number that changes whenever anything about the counter does: by an operation, by a merge,
    /// and when it expires by [`set_time`](Replica::set_time). Changes of other counters do not change it.
    ///
    /// Retirement and collection may change it, because they may move the records of the counter. It is 0 if
    /// this replica has no record of the counter.
    ///
    /// It is a hash, and means nothing elsewhere.
    pub fn version(&self, key: &str) -> u64 {
        let Some(key_id) = self.key_id(key) else {
            return 0;
        };
        let slots = self.state.slots(key_id);
        if slots.is_empty() {
            return 0;
        }
        // A sum, because local numbers, by which slots are ordered, may change.
        let hashes = slots.iter().map(|slot| slot_version(&self.state, slot));
        let slots = hashes.fold(0, u64::wrapping_add);
        fold(slots, u64::from(self.value_at(key_id).is_some())).max(1)
    }
}

/// A hash of all records of a slot.
fn slot_version(state: &State, slot: &Slot) -> u64 {
    let id = |writer: u32| hash_bytes(0, state.id(writer).as_bytes());
    let mut hash = slot.rank().into_iter().fold(id(slot.writer()), fold);
    // Each record has a number of its own, so that no two kinds are confused.
    let mut take = |record: u64, by: Stamp, words: &[u64]| {
        let begin = [record, id(by.writer), by.clock];
        hash = begin
            .into_iter()
            .chain(words.iter().copied())
            .fold(hash, fold);
    };
    let halves = |wide: i128| [wide as u64, (wide >> 64) as u64];
    let side = &slot.side;
    if let Some(watermark) = &side.watermark {
        let [low, high] = halves(watermark.total);
        take(1, watermark.by, &[watermark.clock, low, high]);
    }
    if let Some(lift) = &side.lift {
        take(2, lift.by, &[lift.clock]);
    }
    if let Some(moved) = &*side.moved {
        take(3, moved.to, &halves(moved.amount));
    }
    if let Some(it) = &*side.fold {
        let by = Stamp {
            writer: slot.writer(),
            clock: it.clock,
        };
        let assignment = it.assignment.map_or(
            0,
            |RankedAssignment {
                 set,
                 clock,
                 writer,
                 value,
             }| {
                let words = [u64::from(set), clock, value as u64];
                words
                    .into_iter()
                    .fold(hash_bytes(1, writer.as_bytes()), fold)
            },
        );
        let [low, high] = halves(it.amount);
        let until = it.until.map_or([0, 0], |until| [1, until]);
        take(
            4,
            by,
            &[
                low,
                high,
                u64::from(it.adds),
                assignment,
                until[0],
                until[1],
            ],
        );
    }
    for it in side.withdrawals.iter() {
        let [low, high] = halves(it.amount);
        let several = u64::from(it.several);
        take(5, it.by, &[it.clock, low, high, it.before, several]);
    }
    for it in side.expired.iter() {
        let by = Stamp {
            writer: slot.writer(),
            clock: it.clock,
        };
        take(6, by, &[it.time]);
        if let Some(by) = it.spared {
            take(7, by, &[it.clock]);
        }
    }
    hash
}

#[cfg(test)]
#[cfg(feature = "guests")]
mod tests {
    use super::*;
    use crate::optional::Optional;
    use crate::state::page::Row;
    use crate::state::slot::{Assignment, Expiry, Extra, Fold, Lift, Moved, Watermark, Withdrawal};
    use crate::writer_id::{Space, WriterId};
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    fn id(byte: u8) -> WriterId {
        WriterId::from_bytes([byte; 16])
    }

    /// A replica that knows three writers.
    fn replica() -> State {
        let mut one = State::new(Space::default(), id(1));
        one.number(id(2));
        one.number(id(3));
        one
    }

    fn slot(writer: u32) -> Slot {
        let row = Row { clock: 4, total: 5 };
        let extra = Extra {
            began: 2,
            added: 3,
            assignment: Some(Assignment::Set(1)),
            expiry: Some(Expiry::new(3, 9)),
            ..Extra::default()
        };
        let mut slot = Slot::new(writer, row, Some(&extra));
        let by = Stamp {
            writer: 1,
            clock: 7,
        };
        let total = 6;
        slot.side.watermark = Some(Watermark {
            clock: 3,
            total,
            by,
        });
        slot.side.lift = Some(Box::new(Lift { clock: 3, by }));
        slot.side
            .moved
            .set(Some(Box::new(Moved { to: by, amount: 11 })));
        slot.side.fold.set(Some(Box::new(Fold {
            clock: 8,
            amount: 12,
            adds: true,
            assignment: Some(RankedAssignment {
                set: true,
                clock: 13,
                writer: id(3),
                value: 14,
            }),
            until: Some(15),
        })));
        slot.side.withdrawals.stored().push(Withdrawal {
            clock: 5,
            amount: 16,
            before: 3,
            several: false,
            by,
        });
        slot
    }

    type Change = fn(&mut Slot);

    /// Each changes one thing that a slot says.
    const CHANGES: [Change; 40] = [
        |_| (),
        |slot| slot.side.writer = 1,
        |slot| slot.row.clock += 1,
        |slot| slot.row.total += 1,
        |slot| slot.side.extra = None,
        |slot| slot.side.extra.as_mut().unwrap().high = 1,
        |slot| slot.side.extra.as_mut().unwrap().began = 1,
        |slot| slot.side.extra.as_mut().unwrap().added = 1,
        |slot| slot.side.extra.as_mut().unwrap().assignment = None,
        |slot| slot.side.extra.as_mut().unwrap().assignment = Some(Assignment::Reset),
        |slot| slot.side.extra.as_mut().unwrap().expiry = None,
        |slot| slot.side.extra.as_mut().unwrap().absorbed = true,
        |slot| slot.side.watermark = None,
        |slot| slot.side.watermark.as_mut().unwrap().clock = 1,
        |slot| slot.side.watermark.as_mut().unwrap().total = 1,
        |slot| slot.side.watermark.as_mut().unwrap().total += 1 << 64,
        |slot| slot.side.watermark.as_mut().unwrap().by.clock = 1,
        |slot| slot.side.watermark.as_mut().unwrap().by.writer = 2,
        |slot| slot.side.lift = None,
        |slot| slot.side.lift.as_mut().unwrap().clock = 1,
        |slot| slot.side.lift.as_mut().unwrap().by.clock = 1,
        |slot| slot.side.moved.set(None),
        |slot| slot.side.moved.stored().as_mut().unwrap().amount = 1,
        |slot| slot.side.moved.stored().as_mut().unwrap().amount += 1 << 64,
        |slot| slot.side.moved.stored().as_mut().unwrap().to.clock = 1,
        |slot| slot.side.fold.set(None),
        |slot| slot.side.fold.stored().as_mut().unwrap().clock = 1,
        |slot| slot.side.fold.stored().as_mut().unwrap().amount += 1 << 64,
        |slot| slot.side.fold.stored().as_mut().unwrap().adds = false,
        |slot| slot.side.fold.stored().as_mut().unwrap().assignment = None,
        |slot| {
            slot.side
                .fold
                .stored()
                .as_mut()
                .unwrap()
                .assignment
                .as_mut()
                .unwrap()
                .value = 1
        },
        |slot| {
            slot.side
                .fold
                .stored()
                .as_mut()
                .unwrap()
                .assignment
                .as_mut()
                .unwrap()
                .set = false
        },
        |slot| slot.side.fold.stored().as_mut().unwrap().until = None,
        |slot| slot.side.withdrawals.stored().clear(),
        |slot| slot.side.withdrawals.stored()[0].clock = 6,
        |slot| slot.side.withdrawals.stored()[0].amount = 1,
        |slot| slot.side.withdrawals.stored()[0].amount += 1 << 64,
        |slot| slot.side.withdrawals.stored()[0].before = 1,
        |slot| slot.side.withdrawals.stored()[0].several = true,
        |slot| slot.side.withdrawals.stored()[0].by.clock = 1,
    ];

    #[test]
    fn all_that_a_slot_says_is_in_the_version() {
        let one = replica();
        let version = |change: Change| {
            let mut slot = slot(0);
            change(&mut slot);
            slot_version(&one, &slot)
        };
        let mut versions: Vec<u64> = CHANGES.map(version).into();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), CHANGES.len());
    }

    #[test]
    fn local_numbers_are_not_in_the_version() {
        let version = |of: &State| {
            let at = |byte: u8| of.number_of(&id(byte)).unwrap();
            let mut slot = slot(at(1));
            slot.side.watermark.as_mut().unwrap().by.writer = at(2);
            slot.side.lift.as_mut().unwrap().by.writer = at(3);
            slot.side.moved.stored().as_mut().unwrap().to.writer = at(2);
            slot.side.withdrawals.stored()[0].by.writer = at(3);
            slot_version(of, &slot)
        };
        let mut other = State::new(Space::default(), id(3));
        other.number(id(2));
        other.number(id(1));
        assert_eq!(version(&replica()), version(&other));
    }
}
