//! Increment, merge, wire size and heap of the core.

use crate::alloc::heap;
use crate::measure::{Report, Target, timed};
use crate::peers::{self, Automerge, Crdts, Loro, Yrs};
use crate::random::Random;
use hashbrown::HashMap;
use std::hint::black_box;
use tallymesh_core::{Encode, KeyId, Message, Replica, Space, VersionVector, WriterId};

const COUNTERS: usize = 10_000;
const WRITERS: usize = 8;
const ENTRIES: u64 = (COUNTERS * WRITERS) as u64;
const RANDOM_KEYS: usize = 100_000;

/// The groups of figures.
pub(crate) const GROUPS: [&str; 4] = ["add", "merge", "size", COUNTS];
/// The group of instructions, which are counted and not timed.
pub(crate) const COUNTS: &str = "counts";

/// Runs the figures of the core.
pub(crate) fn run(report: &mut Report, only: &[&str], quick: bool) {
    let wanted = |group: &str| only.contains(&group);
    if wanted("add") {
        add_hot(report, quick);
        add_random(report, quick);
    }
    if wanted("merge") {
        merge(report, quick);
    }
    if wanted("size") {
        size(report, quick);
    }
}

fn replica(nonce: u8) -> Replica {
    let space = Space::default();
    let writer = WriterId::mint(&space, &[1; 32], &[nonce; 16]);
    Replica::new(space, writer)
}

fn key(number: usize) -> String {
    format!("counter:{number:05}")
}

fn add_hot(report: &mut Report, quick: bool) {
    const COUNT: u64 = 2_000_000;
    let mut ours = replica(1);
    let mut by_handle = replica(1);
    let handle = by_handle.add("counter:00000", 1).unwrap();
    let mut slots = [0i64; 16];
    let mut fast: HashMap<String, i64, foldhash::fast::RandomState> = HashMap::default();
    let mut std_map = std::collections::HashMap::new();
    let mut crdts = Crdts::default();
    let hot = "counter:00000".to_owned();
    fast.insert(hot.clone(), 0);
    std_map.insert(hot.clone(), 0i64);
    let loro = Loro::new(1);
    let yrs = Yrs::new(1);
    let mut automerge = Automerge::new();
    automerge.create(&hot);
    let hot = hot.as_str();
    let mut contestants: Vec<crate::measure::Contestant<'_>> = vec![
        (
            "tallymesh, string key",
            Box::new(|| {
                timed(COUNT, || {
                    for _ in 0..COUNT {
                        ours.add(black_box(hot), 1).unwrap();
                    }
                })
            }),
        ),
        (
            "hashbrown + foldhash",
            Box::new(|| {
                timed(COUNT, || {
                    for _ in 0..COUNT {
                        *fast.get_mut(black_box(hot)).unwrap() += 1;
                    }
                })
            }),
        ),
        (
            "std HashMap",
            Box::new(|| {
                timed(COUNT, || {
                    for _ in 0..COUNT {
                        *std_map.get_mut(black_box(hot)).unwrap() += 1;
                    }
                })
            }),
        ),
        (
            "crdts PNCounter in hashbrown",
            Box::new(|| {
                timed(COUNT / 8, || {
                    for _ in 0..COUNT / 8 {
                        peers::crdts_add(&mut crdts, black_box(hot), 1);
                    }
                })
            }),
        ),
    ];
    if !quick {
        contestants.push((
            "yrs, a commit each",
            Box::new(|| {
                timed(2_000, || {
                    (0..2_000).for_each(|_| yrs.add(black_box(hot), 1))
                })
            }),
        ));
        contestants.push((
            "loro, a commit each",
            Box::new(|| {
                timed(2_000, || {
                    (0..2_000).for_each(|_| loro.add(black_box(hot), 1.0))
                })
            }),
        ));
        contestants.push((
            "automerge, a commit each",
            Box::new(|| {
                timed(200, || {
                    (0..200).for_each(|_| automerge.add(black_box(hot), 1))
                })
            }),
        ));
    }
    let target = Target::Times(1.5, "hashbrown + foldhash");
    report.race("add on one hot string key", &target, contestants);
    report.race(
        "add on one hot handle",
        &Target::AtMost(5.0),
        vec![
            (
                "tallymesh, handle",
                Box::new(|| {
                    timed(COUNT, || {
                        for _ in 0..COUNT {
                            by_handle.add_at(black_box(handle), 1).unwrap();
                        }
                    })
                }),
            ),
            (
                "slot of a vector",
                Box::new(|| {
                    timed(COUNT, || {
                        for _ in 0..COUNT {
                            slots[black_box(3)] += 1;
                        }
                        slots[3]
                    })
                }),
            ),
        ],
    );
}

fn add_random(report: &mut Report, quick: bool) {
    const COUNT: u64 = 1_000_000;
    let mut random = Random::new(7);
    let keys: Vec<String> = (0..RANDOM_KEYS)
        .map(|i| format!("counter:{i:08}"))
        .collect();
    let picks: Vec<usize> = (0..COUNT).map(|_| random.below(RANDOM_KEYS)).collect();
    let mut ours = replica(1);
    let mut by_handle = replica(1);
    let mut handles: Vec<KeyId> = Vec::new();
    let mut fast: HashMap<String, i64, foldhash::fast::RandomState> = HashMap::default();
    let mut std_map = std::collections::HashMap::new();
    let mut crdts = Crdts::default();
    let mut slots = vec![0i64; RANDOM_KEYS];
    for key in &keys {
        ours.add(key, 0).unwrap();
        handles.push(by_handle.add(key, 0).unwrap());
        fast.insert(key.clone(), 0);
        std_map.insert(key.clone(), 0i64);
        peers::crdts_add(&mut crdts, key, 1);
    }
    let loro = Loro::new(1);
    let yrs = Yrs::new(1);
    let (keys, picks) = (&keys, &picks);
    let mut contestants: Vec<crate::measure::Contestant<'_>> = vec![
        (
            "tallymesh, string key",
            Box::new(|| {
                timed(COUNT, || {
                    for pick in picks {
                        ours.add(&keys[*pick], 1).unwrap();
                    }
                })
            }),
        ),
        (
            "hashbrown + foldhash",
            Box::new(|| {
                timed(COUNT, || {
                    for pick in picks {
                        *fast.get_mut(keys[*pick].as_str()).unwrap() += 1;
                    }
                })
            }),
        ),
        (
            "std HashMap",
            Box::new(|| {
                timed(COUNT, || {
                    for pick in picks {
                        *std_map.get_mut(keys[*pick].as_str()).unwrap() += 1;
                    }
                })
            }),
        ),
        (
            "crdts PNCounter in hashbrown",
            Box::new(|| {
                timed(COUNT / 8, || {
                    for pick in &picks[..picks.len() / 8] {
                        peers::crdts_add(&mut crdts, &keys[*pick], 1);
                    }
                })
            }),
        ),
    ];
    if !quick {
        contestants.push((
            "yrs, a commit each",
            Box::new(|| {
                timed(5_000, || {
                    picks[..5_000].iter().for_each(|p| yrs.add(&keys[*p], 1))
                })
            }),
        ));
        contestants.push((
            "loro, a commit each",
            Box::new(|| {
                timed(5_000, || {
                    picks[..5_000].iter().for_each(|p| loro.add(&keys[*p], 1.0))
                })
            }),
        ));
    }
    let target = Target::Times(1.5, "hashbrown + foldhash");
    report.race("add on 100,000 random string keys", &target, contestants);
    report.race(
        "add on 100,000 random handles",
        &Target::AtMost(5.0),
        vec![
            (
                "tallymesh, handle",
                Box::new(|| {
                    timed(COUNT, || {
                        for pick in picks {
                            by_handle.add_at(handles[*pick], 1).unwrap();
                        }
                    })
                }),
            ),
            (
                "slot of a vector",
                Box::new(|| {
                    timed(COUNT, || {
                        for pick in picks {
                            slots[*pick] += 1;
                        }
                        slots[0]
                    })
                }),
            ),
        ],
    );
}

/// One add of 1 to 100 by each writer to each counter, each a transaction, in shuffled order.
fn writers(random: &mut Random) -> Vec<Replica> {
    let mut order: Vec<usize> = (0..COUNTERS).collect();
    (0..WRITERS)
        .map(|writer| {
            let mut writer = replica(writer as u8 + 1);
            random.shuffle(&mut order);
            for number in &order {
                let by = 1 + random.below(100) as i64;
                writer.add(&key(*number), by).unwrap();
            }
            writer
        })
        .collect()
}

fn joined(mut into: Replica, from: &[Replica]) -> Replica {
    for writer in from {
        into.merge(&writer.delta(&VersionVector::default()))
            .unwrap();
    }
    into
}

fn merge(report: &mut Report, quick: bool) {
    let mut random = Random::new(11);
    let mut from = writers(&mut random);
    let full = joined(replica(100), &from).delta(&VersionVector::default());
    // A receiver whose keys stand in the message's order, and one that met them in another.
    let mut aligned = replica(101);
    aligned.merge(&full).unwrap();
    let mut scattered = replica(102);
    let mut order: Vec<usize> = (0..COUNTERS).collect();
    random.shuffle(&mut order);
    for number in order {
        scattered.intern(&key(number)).unwrap();
    }
    scattered.merge(&full).unwrap();
    // The sender is ahead in a random half of all shards.
    for writer in &mut from {
        for number in 0..COUNTERS {
            if random.next() & 1 == 0 {
                writer.add(&key(number), 1).unwrap();
            }
        }
    }
    let message = joined(replica(103), &from).delta(&VersionVector::default());
    let ours = |receiver: &Replica, message: &Message| {
        let mut receiver = receiver.clone();
        timed(ENTRIES, || receiver.merge(message).unwrap())
    };
    // The floor: rows of the same ids in the same order.
    let rows: Vec<(u64, i64)> = (0..ENTRIES).map(|_| (random.next() >> 1, 1)).collect();
    let newer: Vec<(u64, i64)> = rows
        .iter()
        .map(|r| (r.0 + (random.next() & 1), 2))
        .collect();
    let floor = || {
        let mut rows = rows.clone();
        timed(ENTRIES, || {
            for (row, new) in rows.iter_mut().zip(&newer) {
                if new.0 > row.0 {
                    *row = *new;
                }
            }
            rows
        })
    };
    report.race(
        "merge of 10,000 x 8, aligned, half of it newer",
        &Target::AtMost(2.0),
        vec![
            ("tallymesh", Box::new(|| ours(&aligned, &message))),
            ("two arrays of the same ids", Box::new(floor)),
        ],
    );

    let mut crdts_a = Crdts::default();
    let mut crdts_b = Crdts::default();
    for number in 0..COUNTERS {
        for writer in 0..WRITERS as u64 {
            let by = 1 + random.next() % 100;
            peers::crdts_add_many(&mut crdts_a, &key(number), writer, by);
            peers::crdts_add_many(&mut crdts_b, &key(number), writer, by + (by & 1));
        }
    }
    type Naive = HashMap<
        String,
        HashMap<u64, (u64, i64), foldhash::fast::RandomState>,
        foldhash::fast::RandomState,
    >;
    let mut naive_a = Naive::default();
    let mut naive_b = Naive::default();
    for number in 0..COUNTERS {
        for writer in 0..WRITERS as u64 {
            naive_a
                .entry(key(number))
                .or_default()
                .insert(writer, (1, 1));
            let clock = 1 + (random.next() & 1);
            naive_b
                .entry(key(number))
                .or_default()
                .insert(writer, (clock, 2));
        }
    }
    let naive = || {
        let mut ours = naive_a.clone();
        timed(ENTRIES, || {
            for (key, shards) in &naive_b {
                let mine = ours.get_mut(key.as_str()).unwrap();
                for (writer, new) in shards {
                    let row = mine.get_mut(writer).unwrap();
                    if new.0 > row.0 {
                        *row = *new;
                    }
                }
            }
            ours
        })
    };
    let bytes = message.encode();
    let (loro_bytes, yrs_bytes) = if quick {
        Default::default()
    } else {
        document_states()
    };
    let mut contestants: Vec<crate::measure::Contestant<'_>> = vec![
        ("tallymesh, by key", Box::new(|| ours(&scattered, &message))),
        (
            "tallymesh, by key, with decoding",
            Box::new(|| {
                let mut receiver = scattered.clone();
                timed(ENTRIES, || {
                    receiver.merge(&Message::decode(&bytes).unwrap()).unwrap()
                })
            }),
        ),
        ("hashbrown of hashbrown", Box::new(naive)),
        (
            "crdts PNCounter in hashbrown",
            Box::new(|| {
                let (mut ours, theirs) = (crdts_a.clone(), crdts_b.clone());
                timed(ENTRIES, || {
                    peers::crdts_merge(&mut ours, theirs);
                    ours
                })
            }),
        ),
    ];
    if !quick {
        contestants.push((
            "loro, import of a snapshot",
            Box::new(|| {
                let doc = Loro::new(99);
                timed(ENTRIES, || doc.0.import(&loro_bytes).unwrap())
            }),
        ));
        contestants.push((
            "yrs, apply of an update",
            Box::new(|| {
                let doc = Yrs::new(99);
                timed(ENTRIES, || doc.merge(&yrs_bytes))
            }),
        ));
    }
    report.race(
        "merge of 10,000 x 8, by key, half of it newer",
        &Target::AtMost(8.0),
        contestants,
    );
}

/// The same 10,000 counters x 8 writers in Loro and in Yjs.
fn document_states() -> (Vec<u8>, Vec<u8>) {
    let (loro, yrs) = documents();
    let snapshot = loro.0.export(loro::ExportMode::Snapshot).unwrap();
    (snapshot, yrs.state())
}

fn documents() -> (Loro, Yrs) {
    let loro = Loro::new(50);
    let yrs = Yrs::new(50);
    let mut random = Random::new(11);
    let mut order: Vec<usize> = (0..COUNTERS).collect();
    for number in 0..COUNTERS {
        loro.add(&key(number), 0.0); // one container that all writers share
    }
    let base = loro.0.export(loro::ExportMode::Snapshot).unwrap();
    for writer in 0..WRITERS as u64 {
        random.shuffle(&mut order);
        let (their_loro, their_yrs) = (Loro::new(writer + 1), Yrs::new(writer + 1));
        their_loro.0.import(&base).unwrap();
        for number in &order {
            let by = 1 + random.below(100) as i64;
            their_loro.add(&key(*number), by as f64);
            their_yrs.add(&format!("{}/{writer}", key(*number)), by);
        }
        loro.0
            .import(
                &their_loro
                    .0
                    .export(loro::ExportMode::all_updates())
                    .unwrap(),
            )
            .unwrap();
        yrs.merge(&their_yrs.state());
    }
    (loro, yrs)
}

fn size(report: &mut Report, quick: bool) {
    let from = writers(&mut Random::new(11));
    let (state, heap_bytes) = heap(|| {
        let mut state = joined(replica(100), &from);
        state.shrink();
        state
    });
    let grown = heap(|| joined(replica(100), &from)).1;
    let wire = state.canonical_bytes().len();
    let mut crdts = Crdts::default();
    let (_, crdts_heap) = heap(|| {
        for number in 0..COUNTERS {
            for writer in 0..WRITERS as u64 {
                peers::crdts_add_many(
                    &mut crdts,
                    &key(number),
                    writer,
                    1 + (number as u64 * 7 + writer) % 100,
                );
            }
        }
    });
    let crdts_wire = bincode::serialize(&crdts.iter().collect::<Vec<_>>())
        .unwrap()
        .len();
    let each = |bytes: usize| bytes as f64 / ENTRIES as f64;
    let mut wires = vec![
        ("tallymesh", each(wire)),
        ("crdts PNCounter, bincode", each(crdts_wire)),
    ];
    let mut heaps = vec![
        ("tallymesh, keys and index included", each(heap_bytes)),
        ("tallymesh, as it grew", each(grown)),
        ("two columns of 8 bytes", 16.0),
        ("crdts PNCounter in hashbrown", each(crdts_heap)),
    ];
    if !quick {
        let ((loro, yrs), both) = heap(documents);
        let (loro_bytes, yrs_bytes) = (
            loro.0.export(loro::ExportMode::Snapshot).unwrap(),
            yrs.state(),
        );
        drop(yrs);
        wires.push(("loro snapshot", each(loro_bytes.len())));
        wires.push(("yrs v1", each(yrs_bytes.len())));
        heaps.push(("loro and yrs together", each(both)));
    }
    report.table(
        "wire, 10,000 x 8, keys included (bytes an entry)",
        "bytes",
        &Target::AtMost(4.0),
        &wires,
    );
    report.table(
        "heap, 10,000 x 8 (bytes a shard)",
        "bytes",
        &Target::AtMost(24.0),
        &heaps,
    );
}
