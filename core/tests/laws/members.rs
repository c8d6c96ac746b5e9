//! Spaces with members and more counters than fit on a page.

use crate::support::{Random, cases, full, observer, replica, space};
use tallymesh_core::{Mark, Message, Op, Owner, Part, Replica, Snapshot, VersionVector, WriterId};

#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Counters on four pages, the last one not full.
const COUNTERS: usize = 200;
/// Counters that one entry of the summary of changed pages stands for.
const SUMMED: usize = 64 * 64;

fn key(at: usize) -> String {
    format!("counter:{at:05}")
}

/// Two members who know each other, with what their stores have written.
struct Members {
    replicas: [Replica; 2],
    marks: [Mark; 2],
    logs: [Vec<Message>; 2],
}

impl Members {
    fn new() -> Members {
        let owners: [Owner; 2] = [[1; 32], [2; 32]];
        let start = |owner: &Owner| {
            let writer = WriterId::mint(&space(), owner, &[7; 16]);
            Replica::new(space(), writer)
        };
        let mut members = Members {
            replicas: [start(&owners[0]), start(&owners[1])],
            marks: Default::default(),
            logs: Default::default(),
        };
        members.replicas[0]
            .members_mut()
            .found(&owners[0], &[7; 16], 1)
            .unwrap();
        members.replicas[0].members_mut().force(&owners).unwrap();
        members.pass(0, 1);
        members.replicas[1]
            .members_mut()
            .announce(&owners[1], &[7; 16], 1)
            .unwrap();
        members.rounds();
        members
    }

    fn pass(&mut self, from: usize, to: usize) {
        let since = self.replicas[to].vector();
        let message = self.replicas[from].delta(&since);
        let writer = self.replicas[from].writer();
        self.replicas[to]
            .merge_with(&message, Some(writer), &mut |_| ())
            .unwrap();
    }

    /// Both hear of each other, write down what changed, and tidy up, often enough.
    fn rounds(&mut self) {
        for _ in 0..8 {
            self.pass(0, 1);
            self.pass(1, 0);
            for at in 0..2 {
                let replica = &mut self.replicas[at];
                replica.members_mut().acknowledge().unwrap();
                replica.members_mut().retire().unwrap();
                self.writes(at);
                self.replicas[at].members_mut().collect(&self.marks[at]);
                self.writes(at);
            }
        }
    }

    fn writes(&mut self, at: usize) {
        let message = self.replicas[at].since(&mut self.marks[at]);
        self.logs[at].extend(message);
    }

    /// A tab of the first member, with an add on each counter.
    fn tab(&mut self, number: u64) -> Replica {
        let mut tab = replica(number);
        let all = self.replicas[0].delta(&VersionVector::default());
        tab.merge(&all).unwrap();
        for at in 0..COUNTERS {
            tab.add(&key(at), at as i64 + 1).unwrap();
        }
        self.hears(&tab);
        // That it was taken in.
        let home = &self.replicas[0];
        let message = home.delta(&tab.vector());
        tab.merge_with(&message, Some(home.writer()), &mut |_| ())
            .unwrap();
        tab
    }

    fn hears(&mut self, tab: &Replica) {
        let message = tab.delta(&self.replicas[0].vector());
        self.replicas[0]
            .merge_with(&message, Some(tab.writer()), &mut |_| ())
            .unwrap();
    }

    fn check(&self, values: impl Fn(usize) -> Option<i128>) {
        for replica in &self.replicas {
            for at in 0..COUNTERS {
                assert_eq!(replica.value(&key(at)), values(at), "{}", key(at));
            }
        }
    }
}

#[test]
fn all_that_a_tab_counted_is_its_successors_when_it_has_left() {
    let mut members = Members::new();
    let mut tab = members.tab(5);
    tab.members_mut().leave().unwrap();
    members.hears(&tab);
    members.rounds();
    members.check(|at| Some(at as i128 + 1));
    for replica in &members.replicas {
        assert_eq!(replica.writers().count(), 2);
        assert_eq!(replica.members().retired().count(), 0);
    }
    // A delete that saw all of it leaves nothing.
    for at in 0..COUNTERS {
        members.replicas[1].apply(&key(at), Op::Delete).unwrap();
    }
    members.rounds();
    members.check(|_| None);
    assert!(members.replicas.iter().all(|replica| replica.is_empty()));
    let [one, other] = &members.replicas;
    assert_eq!(one.canonical_bytes(), other.canonical_bytes());
}

#[test]
fn a_store_that_replays_its_records_has_the_state() {
    let mut members = Members::new();
    let mut tab = members.tab(5);
    members.rounds();
    tab.members_mut().leave().unwrap();
    members.hears(&tab);
    members.rounds();
    members.replicas[1].add(&key(COUNTERS - 1), 3).unwrap();
    members.writes(1);
    assert_eq!(members.replicas[1].since(&mut members.marks[1]), None);
    let last = members.logs[1].last().unwrap();
    assert!(!last.is_whole() && last.shard_count() == 1);
    for (replica, log) in members.replicas.iter().zip(&members.logs) {
        let mut replayed = observer();
        for message in log {
            replayed.merge(message).unwrap();
        }
        for at in 0..COUNTERS {
            assert_eq!(replayed.value(&key(at)), replica.value(&key(at)));
        }
    }
}

/// Pages that did not change are passed over many at a time.
#[test]
fn a_change_on_any_page_is_found() {
    let mut source = replica(1);
    let mut mark = Mark::default();
    for at in 0..2 * SUMMED + 3 {
        source.add(&key(at), 1).unwrap();
    }
    assert!(source.since(&mut mark).is_some());
    for at in [
        0,
        63,
        64,
        SUMMED - 1,
        SUMMED,
        SUMMED + 64,
        2 * SUMMED,
        2 * SUMMED + 2,
    ] {
        source.add(&key(at), 1).unwrap();
        let message = source.since(&mut mark).unwrap();
        assert_eq!(message.shard_count(), 1, "{}", key(at));
        let mut other = observer();
        other
            .merge(&source.delta(&VersionVector::default()))
            .unwrap();
        assert_eq!(other.value(&key(at)), Some(2));
        assert_eq!(
            other.forks_mut().content_digest(),
            source.forks_mut().content_digest()
        );
    }
}

/// Something that a replica does, and whose outcome does not matter.
fn stir(random: &mut Random, replica: &mut Replica, mark: &mut Mark) {
    let key = key(random.below(2));
    let until = 1_000 + random.below(3) as u64;
    match random.below(9) {
        0 | 1 => drop(replica.add(&key, random.amount())),
        2 => drop(replica.apply(&key, Op::Delete)),
        3 => drop(replica.apply(&key, Op::Set(5))),
        4 => drop(replica.apply(&key, Op::Reset)),
        5 => drop(replica.apply(&key, Op::Expire(until))),
        6 => drop(replica.apply(&key, Op::Persist)),
        7 => drop(replica.members_mut().retire()),
        _ => {
            drop(replica.members_mut().acknowledge());
            replica.since(mark);
            replica.members_mut().collect(mark);
        }
    }
}

/// What one has seen and collected, others may still hold and send.
#[test]
fn what_was_collected_does_not_come_back() {
    cases(400, |random| {
        let Members {
            replicas, marks, ..
        } = Members::new();
        let (mut replicas, mut marks) = (Vec::from(replicas), Vec::from(marks));
        for number in 5..8 {
            let mut tab = replica(number);
            tab.merge(&full(&replicas[0])).unwrap();
            replicas.push(tab);
            marks.push(Mark::default());
        }
        for _ in 0..120 {
            let (from, to) = (random.below(replicas.len()), random.below(replicas.len()));
            match random.below(8) {
                0..=2 => stir(random, &mut replicas[from], &mut marks[from]),
                3 if from > 1 && random.chance(30) => drop(replicas[from].members_mut().leave()),
                _ if from != to => {
                    let message = replicas[from].delta(&replicas[to].vector());
                    let writer = replicas[from].writer();
                    drop(replicas[to].merge_with(&message, Some(writer), &mut |_| ()));
                }
                _ => {}
            }
            let (one, other) = (&replicas[to], &replicas[from]);
            if one.vector().covers(&other.vector()) {
                let mut again = one.clone();
                if let Ok(merged) = again.merge(&full(other)) {
                    assert_eq!((merged.shards, merged.new), (0, false));
                    assert_eq!(again.canonical_bytes(), one.canonical_bytes());
                }
            }
        }
    });
}

#[test]
fn a_collection_makes_a_snapshot_in_parts_void_and_may_be_put_off() {
    let mut members = Members::new();
    let mut tab = members.tab(5);
    tab.members_mut().leave().unwrap();
    members.hears(&tab);
    for _ in 0..8 {
        members.pass(0, 1);
        members.pass(1, 0);
        for at in 0..2 {
            members.replicas[at].members_mut().acknowledge().unwrap();
            members.replicas[at].members_mut().retire().unwrap();
            members.writes(at);
            assert!(!members.replicas[at].members_mut().collect(&Mark::default()));
        }
    }
    let Members {
        replicas, marks, ..
    } = &mut members;
    let one = &mut replicas[0];
    let mut begun = Snapshot::begin(one);
    assert!(matches!(begun.step(one, 1), Part::More(_)));
    assert!(!one.members_mut().collect(&Mark::default()));
    assert!(matches!(begun.step(one, 1), Part::More(_)));
    assert!(one.members_mut().collect(&marks[0]));
    assert_eq!(begun.step(one, 1), Part::Void);
    // One that finds nothing to collect does no harm.
    let mut begun = Snapshot::begin(one);
    assert!(!one.members_mut().collect(&marks[0]));
    assert!(matches!(begun.step(one, 1), Part::More(_)));
}
