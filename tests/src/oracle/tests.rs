//! The oracle's own tests: a handful of histories whose outcome is plain.

use super::{Counter, Issue, Kind, Oracle, Refusal, View};
use crate::random::Random;
use Kind::{Add, Delete, Expire, Persist, Reset, Set};
use tallymesh_core::WriterId;

/// Some replicas, as views, of counters `0` and `1`.
struct Mesh {
    oracle: Oracle,
    views: Vec<View>,
}

impl Mesh {
    fn new(replicas: usize) -> Mesh {
        Mesh {
            oracle: Oracle::new(vec!["a".into(), "b".into()]),
            views: vec![View::default(); replicas],
        }
    }

    /// A transaction at a replica whose clock shows `now`; its answers.
    fn at(&mut self, now: u64, replica: usize, ops: &[(usize, Kind)]) -> Vec<bool> {
        let view = &mut self.views[replica];
        let writer = writer(replica);
        let plan = self.oracle.plan(view, writer, now, ops).unwrap();
        if !plan.issued.is_empty() {
            let clock = view.vector().get(&writer).copied().unwrap_or(0) + 1;
            let issued = self.oracle.issue(view, (writer, clock), &plan.issued);
            issued.unwrap();
        }
        plan.answers
    }

    fn does(&mut self, replica: usize, ops: &[Kind]) {
        for op in ops {
            self.at(0, replica, &[(0, *op)]);
        }
    }

    /// One replica receives all that another sees.
    fn sync(&mut self, from: usize, to: usize) {
        let mut vector = self.views[to].vector().clone();
        for (writer, clock) in self.views[from].vector() {
            let held = vector.entry(*writer).or_insert(0);
            *held = (*held).max(*clock);
        }
        self.claim(to, vector).unwrap();
    }

    fn claim(
        &mut self,
        to: usize,
        vector: impl IntoIterator<Item = (WriterId, u64)>,
    ) -> Result<(), String> {
        let learned = self.oracle.learn(&mut self.views[to], vector.into_iter());
        learned.map(drop)
    }

    /// Both replicas receive all that the other sees. Returns the counter that they read then at `now`.
    fn meet(&mut self, a: usize, b: usize, now: u64) -> Option<Counter> {
        self.sync(a, b);
        self.sync(b, a);
        assert_eq!(self.views[a].counters(), self.views[b].counters());
        self.views[a].read(0, now)
    }
}

fn writer(replica: usize) -> WriterId {
    WriterId::from_bytes([replica as u8 + 1; 16])
}

fn reads(value: i128, expiry: Option<u64>) -> Option<Counter> {
    Some(Counter { value, expiry })
}

#[test]
fn a_cancel_takes_what_its_issuer_had_seen() {
    for (cancel, left) in [(Reset, 16), (Delete, 16), (Set(100), 116)] {
        let mut mesh = Mesh::new(2);
        mesh.does(0, &[Add(1)]);
        mesh.sync(0, 1);
        mesh.does(0, &[Add(16)]);
        mesh.does(1, &[cancel]);
        assert_eq!(mesh.meet(0, 1, 0), reads(left, None), "{cancel:?}");
    }
}

#[test]
fn a_counter_is_absent_when_nothing_is_left() {
    let mut mesh = Mesh::new(1);
    mesh.does(0, &[Add(1), Add(-1)]);
    assert_eq!(mesh.views[0].read(0, 0), reads(0, None));
    mesh.does(0, &[Delete]);
    assert_eq!(mesh.views[0].read(0, 0), None);
    mesh.does(0, &[Reset]);
    assert_eq!(mesh.views[0].read(0, 0), reads(0, None));
    mesh.does(0, &[Delete, Add(0)]);
    assert_eq!(mesh.views[0].read(0, 0), reads(0, None));
}

#[test]
fn one_base_counts() {
    // The set wins over the reset, although its clock and writer are lower.
    let mut mesh = Mesh::new(2);
    mesh.does(0, &[Set(5)]);
    mesh.does(1, &[Add(1), Reset]);
    assert_eq!(mesh.meet(0, 1, 0), reads(5, None));
    // The clocks are equal, so the greater writer wins.
    let mut mesh = Mesh::new(3);
    mesh.does(0, &[Set(5)]);
    mesh.does(1, &[Set(7)]);
    mesh.sync(1, 2);
    mesh.does(2, &[Delete]);
    assert_eq!(mesh.meet(0, 1, 0), reads(7, None));
    // A delete of one assignment brings the other one back.
    assert_eq!(mesh.meet(0, 2, 0), reads(5, None));
    // A cancelled cancel still cancels: the 1 stays gone.
    mesh.does(2, &[Delete]);
    assert_eq!(mesh.meet(0, 2, 0), None);
}

#[test]
fn the_longest_expiry_wins_and_persist_beats_it() {
    let mut mesh = Mesh::new(3);
    mesh.does(0, &[Add(1)]);
    mesh.sync(0, 1);
    mesh.sync(0, 2);
    mesh.does(0, &[Expire(20)]);
    mesh.does(1, &[Expire(30)]);
    assert_eq!(mesh.meet(0, 1, 29), reads(1, Some(30)));
    assert_eq!(mesh.meet(0, 1, 30), None);
    // A later expiry that saw both replaces them, even if it is shorter.
    mesh.does(0, &[Expire(10)]);
    assert_eq!(mesh.meet(0, 1, 9), reads(1, Some(10)));
    mesh.does(2, &[Persist]);
    assert_eq!(mesh.meet(0, 2, 99), reads(1, None));
    mesh.does(0, &[Expire(5)]);
    assert_eq!(mesh.meet(0, 2, 4), reads(1, Some(5)));
}

#[test]
fn an_add_that_begins_a_life_ends_old_expiries() {
    let mut mesh = Mesh::new(3);
    mesh.does(0, &[Add(1)]);
    mesh.sync(0, 1);
    mesh.does(0, &[Expire(10)]);
    mesh.does(1, &[Delete]);
    // The expiry alone survives, without the counter.
    assert_eq!(mesh.meet(0, 1, 0), None);
    mesh.does(0, &[Add(2)]);
    assert_eq!(mesh.meet(0, 1, 99), reads(2, None));
    // An add to a counter that exists keeps its expiry.
    mesh.does(0, &[Expire(10), Add(2)]);
    assert_eq!(mesh.meet(0, 1, 9), reads(4, Some(10)));
}

#[test]
fn an_operation_on_an_expired_counter_deletes_it_first() {
    for (op, issued, then) in [
        (Add(2), vec![Delete, Add(2)], reads(2, None)),
        (Expire(50), vec![Delete], None),
        (Persist, vec![Delete], None),
        (Delete, vec![Delete], None),
        (Reset, vec![Delete, Reset], reads(0, None)),
        (Set(3), vec![Delete, Set(3)], reads(3, None)),
    ] {
        let mut mesh = Mesh::new(2);
        mesh.does(0, &[Add(i64::MAX), Expire(10)]);
        let plan = mesh
            .oracle
            .plan(&mesh.views[0], writer(0), 10, &[(0, op)])
            .unwrap();
        let issued: Vec<(usize, Issue)> = issued.into_iter().map(|op| (0, op.into())).collect();
        assert_eq!(plan.issued, issued);
        assert_eq!(plan.answers, [false]);
        mesh.at(10, 0, &[(0, op)]);
        // A slower clock does not bring the old lifetime back.
        assert_eq!(mesh.meet(0, 1, 0), then, "{op:?}");
    }
}

#[test]
fn what_does_nothing_is_not_issued() {
    let mut mesh = Mesh::new(1);
    let nothing = [(0, Delete), (0, Expire(9)), (0, Persist)];
    assert_eq!(mesh.at(0, 0, &nothing), [false; 3]);
    assert_eq!(mesh.oracle.op_count(), 0);
    let answers = mesh.at(
        0,
        0,
        &[(0, Add(1)), (0, Persist), (0, Expire(9)), (0, Persist)],
    );
    assert_eq!(answers, [false, false, true, true]);
    assert_eq!(mesh.oracle.op_count(), 4);
}

#[test]
fn overflow_is_judged_on_what_survives() {
    let mut mesh = Mesh::new(1);
    mesh.does(0, &[Add(i64::MAX)]);
    let plan =
        |mesh: &Mesh, ops: &[(usize, Kind)]| mesh.oracle.plan(&mesh.views[0], writer(0), 0, ops);
    let full = Refusal::Overflow {
        total: i128::from(i64::MAX),
        by: 1,
    };
    assert_eq!(plan(&mesh, &[(1, Add(1)), (0, Add(1))]), Err(full));
    assert!(plan(&mesh, &[(0, Reset), (0, Add(i64::MAX))]).is_ok());
    mesh.does(0, &[Set(i64::MAX), Add(1)]);
    let value = i128::from(i64::MAX) + 1;
    assert_eq!(mesh.views[0].read(0, 0), reads(value, None));
}

#[test]
fn a_claim_is_a_causal_cut_of_what_was_made() {
    let mut mesh = Mesh::new(3);
    mesh.does(0, &[Add(1), Add(2)]);
    mesh.sync(0, 1);
    mesh.does(1, &[Reset]);
    let error = mesh.claim(2, vec![(writer(1), 1)]).unwrap_err();
    assert!(error.contains("causal cut"), "{error}");
    mesh.views[2] = View::default();
    let error = mesh.claim(2, vec![(writer(0), 3)]).unwrap_err();
    assert!(error.contains("never made"), "{error}");
    mesh.views[2] = View::default();
    mesh.claim(2, vec![(writer(0), 2)]).unwrap();
    let error = mesh.claim(2, vec![(writer(0), 1)]).unwrap_err();
    assert!(error.contains("from 2 to 1"), "{error}");
    let error = mesh.claim(2, vec![(writer(1), 1)]).unwrap_err();
    assert!(error.contains("lost writer"), "{error}");
}

#[test]
fn what_was_lost_may_not_come_back() {
    let mut mesh = Mesh::new(2);
    mesh.does(0, &[Add(1)]);
    let kept = mesh.views[0].clone();
    mesh.at(0, 0, &[(0, Add(2)), (1, Add(2))]);
    let view = mesh.views[0].clone();
    mesh.oracle.lose(writer(0), &view, &kept);
    assert_eq!(mesh.oracle.lost_count(), 2);
    assert!(mesh.claim(1, vec![(writer(0), 1)]).is_ok());
    assert!(mesh.claim(1, vec![(writer(0), 2)]).is_err());
}

/// A transaction has the same effect at its own replica as its operations one by one.
#[test]
fn a_transaction_is_planned_as_its_operations_are() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let (mut whole, mut single) = (Mesh::new(1), Mesh::new(1));
        for _ in 0..8 {
            let now = random.below(6);
            let ops: Vec<(usize, Kind)> = (0..random.range(1, 5))
                .map(|_| {
                    let at = random.below(6);
                    let op = *random.pick(&[Add(1), Reset, Delete, Set(7), Expire(at), Persist]);
                    (random.index(2), op)
                })
                .collect();
            let together = whole.at(now, 0, &ops);
            let one_by_one = ops.iter().flat_map(|op| single.at(now, 0, &[*op]));
            assert_eq!(together, one_by_one.collect::<Vec<_>>(), "{ops:?}");
            let (whole, single) = (&whole.views[0], &single.views[0]);
            assert_eq!(whole.counters(), single.counters(), "{ops:?}");
        }
    }
}
