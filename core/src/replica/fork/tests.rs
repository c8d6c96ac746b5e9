//! How replicas tell two histories of one writer apart, and what they record of them.

use super::*;
use crate::bounds::FAULTS_KEPT_MAX;
use crate::forks::{Contents, Fault};
use crate::state::page::OWN;
use crate::state::page::{PAGE, Row};
use crate::state::slot::{Extra, Slot, Stamp, Watermark};
use crate::{Evidence, Op, Space};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

fn key(at: usize) -> String {
    format!("k{at}")
}

/// A replica with eight counters, of which every other one is not plain.
fn replica() -> Replica {
    let mut replica = Replica::new(Space::default(), id(1));
    for at in 0..8 {
        let op = [Op::Add(1), Op::Set(1)][at % 2];
        replica.apply(&key(at), op).unwrap();
    }
    replica
}

fn member() -> Replica {
    let mut replica = replica();
    replica.members_mut().found(&[1; 32], &[1; 16], 1).unwrap();
    replica
}

/// The digest, and that it is what the contents of all writers come to.
fn digest(replica: &mut Replica) -> u64 {
    let sum = |sum: u64, it: &Contents| sum.wrapping_add(it.shards).wrapping_add(it.cancels);
    let all = replica.forks().contents().iter().fold(0, sum);
    assert_eq!(replica.forks_mut().content_digest(), all);
    all
}

/// Replaces a counter's slots.
fn put(replica: &Replica, at: usize, slots: &[Slot]) -> Replica {
    let mut replica = replica.clone();
    let key_id = replica.key_id(&key(at)).unwrap();
    replica.state.put_slots(key_id, slots.to_vec());
    replica
}

fn wide(total: i128) -> Slot {
    let mut slot = Slot::new(OWN, Row { clock: 5, total: 0 }, None);
    let extra = Extra {
        added: 5,
        ..Extra::default()
    };
    slot.set_shard(5, total, extra);
    slot
}

#[test]
fn a_difference_in_any_counter_shows() {
    for start in [replica(), member()] {
        for at in 0..8 {
            let twin = |op| {
                let mut twin = start.clone();
                twin.apply(&key(at), op).unwrap();
                digest(&mut twin)
            };
            assert_ne!(twin(Op::Add(1)), twin(Op::Add(2)), "{at}");
            assert_ne!(twin(Op::Expire(100)), twin(Op::Expire(200)), "{at}");
        }
    }
}

#[test]
fn all_of_a_total_shows() {
    for start in [replica(), member()] {
        let of = |total| digest(&mut put(&start, 1, &[wide(total)]));
        assert_ne!(of(1), of(2));
        assert_ne!(of(1 << 70), of(1 << 71));
    }
    let by = Stamp {
        writer: OWN,
        clock: 6,
    };
    let of = |total| {
        let mut slot = wide(1 << 80);
        let clock = 4;
        slot.side.watermark = Some(Watermark { clock, total, by });
        digest(&mut put(&replica(), 1, &[slot]))
    };
    assert_ne!(of(1 << 70), of(1 << 71));
}

/// Where there are members, what does not count any more may be dropped at one of them only.
#[test]
fn what_is_collected_here_and_not_yet_there_does_not_show() {
    let mut replica = member();
    let number = replica.membership.number(&mut replica.state, id(2));
    let mut dead = Slot::new(number, Row { clock: 5, total: 3 }, None);
    dead.side.watermark = Some(Watermark {
        clock: 5,
        total: 3,
        by: Stamp {
            writer: OWN,
            clock: replica.clock(),
        },
    });
    let alive = wide(1);
    let mut here = put(&replica, 1, core::slice::from_ref(&alive));
    let mut there = put(&replica, 1, &[alive, dead]);
    assert_eq!(digest(&mut here), digest(&mut there));
}

/// Also far behind the pages that did not change.
#[test]
fn what_changed_since_the_last_digest_shows() {
    let mut replica = Replica::new(Space::default(), id(1));
    let count = 64 * PAGE + 1;
    for at in 0..count {
        replica.add(&key(at), 1).unwrap();
    }
    let mut before = digest(&mut replica);
    for at in [count - 1, 0, PAGE] {
        replica.add(&key(at), 1).unwrap();
        let after = digest(&mut replica);
        assert_ne!(before, after, "{at}");
        before = after;
    }
}

#[test]
fn a_digest_is_made_anew_when_a_space_gets_members() {
    let mut replica = replica();
    digest(&mut replica);
    replica.members_mut().found(&[1; 32], &[1; 16], 1).unwrap();
    digest(&mut replica);
}

#[test]
fn the_digests_of_pages_are_part_of_the_memory() {
    let mut replica = replica();
    let before = replica.heap_bytes();
    replica.forks_mut().content_digest();
    let digests = replica.forks.heap_bytes();
    assert!(digests > 0);
    assert_eq!(replica.heap_bytes(), before + digests);
}

#[test]
fn contents_are_unknown_without_any_digest() {
    let of = |shards, cancels| Contents {
        writer: id(1),
        clock: 1,
        shards,
        cancels,
    };
    assert!(of(0, 0).is_unknown());
    for known in [of(1, 0), of(0, 1), of(1, 1)] {
        assert!(!known.is_unknown());
    }
}

#[test]
fn what_may_show_again_is_noted_once_a_writer() {
    let mut replica = replica();
    let late = || Evidence::Late { key: "k".into() };
    let contents = || Evidence::Contents { ours: 1, theirs: 2 };
    let totals = || Evidence::Totals {
        key: "k".into(),
        ours: 1,
        theirs: 2,
    };
    let mut note = |byte, evidence, counts: bool| {
        let (count, kept) = (
            replica.forks().fault_count(),
            replica.forks().faults().len(),
        );
        let (writer, clock) = (id(byte), 3);
        replica.forks.note_fault(|| Fault {
            writer,
            clock,
            evidence,
        });
        assert_eq!(replica.forks().fault_count(), count + u64::from(counts));
        replica.forks().faults().len() - kept
    };
    assert_eq!(note(1, late(), true), 1);
    assert_eq!(note(1, late(), false), 0);
    assert_eq!(note(2, late(), true), 1);
    assert_eq!(note(1, contents(), true), 1);
    assert_eq!(note(1, contents(), false), 0);
    assert_eq!(note(1, late(), false), 0);
    for _ in 3..FAULTS_KEPT_MAX {
        assert_eq!(note(1, totals(), true), 1);
    }
    // There is no room any more, but in place of one of those that are alike.
    assert_eq!(note(1, totals(), true), 0);
    assert_eq!(note(3, late(), true), 0);
    assert_eq!(note(3, late(), false), 0);
    assert_eq!(replica.forks().faults().len(), FAULTS_KEPT_MAX);
    let kept = |byte| {
        replica
            .forks()
            .faults()
            .iter()
            .filter(move |it| it.writer == id(byte))
    };
    assert_eq!(
        (kept(1).count(), kept(2).count(), kept(3).count()),
        (62, 1, 1)
    );
}

#[test]
fn a_forked_writer_is_named_once() {
    let mut replica = replica();
    for byte in [2, 3] {
        replica.membership.number(&mut replica.state, id(byte));
    }
    let key_id = replica.key_id("k0").unwrap();
    for (number, totals) in [(1, None), (2, None), (1, Some([4, 5]))] {
        replica
            .forks
            .report_all(&mut replica.state, &[(key_id, number, 6, totals)], 0);
    }
    assert_eq!(replica.forks.take_forked(), [id(2), id(3)]);
    assert_eq!(replica.forks.take_forked(), []);
    let clocks: Vec<_> = replica
        .forks()
        .faults()
        .iter()
        .map(|it| (it.writer, it.clock))
        .collect();
    assert_eq!(clocks, [(id(2), 6), (id(3), 6), (id(2), 6)]);
}

#[test]
fn what_is_stored_again_is_that_of_the_forked_writers() {
    let mut replica = replica();
    for byte in [2, 3] {
        let mut other = Replica::new(Space::default(), id(byte));
        other.add("k0", 1).unwrap();
        replica.merge(&other.delta(&Default::default())).unwrap();
    }
    let mut mark = replica.mark();
    let key_id = replica.key_id("k0").unwrap();
    replica.state.rework(&[id(2)]);
    let (page, slot) = crate::state::place(key_id);
    replica.state.touch(page, 1 << slot);
    let record = replica.since(&mut mark).expect("it is to be stored");
    let writers: Vec<_> = record.delta.writers.iter().map(|it| it.writer).collect();
    assert_eq!((writers, record.shard_count()), (vec![id(2)], 1));
    assert_eq!(replica.since(&mut mark), None);
}

#[test]
fn who_is_heard_of_ahead_of_its_own_clock_is_doubted() {
    let mut replica = replica();
    replica.forks.doubt_self(&replica.state, 12);
    let fault = Fault {
        writer: id(1),
        clock: 12,
        evidence: Evidence::Ahead { own: 8 },
    };
    assert_eq!(replica.forks().faults(), [fault]);
}
