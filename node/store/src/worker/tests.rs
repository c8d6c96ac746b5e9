use super::super::{Each, Memory, Trouble};
use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The next step of a gate.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Commit(Vec<Record>, ThreadId),
    Idle,
}

/// A store that reports each step, and does it when the test allows it.
struct Gate {
    memory: Memory,
    begun: Sender<Step>,
    let_go: Receiver<()>,
    wants: Option<Space>,
    /// How many steps of idle work it has.
    idle: usize,
    /// How many more steps each commit adds.
    idle_each: usize,
}

impl Gate {
    fn begin(&self, step: Step) {
        self.begun.send(step).expect("the test listens");
        // After the test has ended, every step is allowed.
        let _ = self.let_go.recv();
    }
}

impl Store for Gate {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.memory.identity(fresh)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        self.memory.load(space, each)
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.begin(Step::Commit(records.to_vec(), thread::current().id()));
        self.idle += self.idle_each;
        self.memory.commit(records)
    }

    fn wants_snapshot(&self) -> Option<Space> {
        self.wants.clone()
    }

    fn has_idle_work(&self) -> bool {
        self.idle > 0
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        if self.idle > 0 {
            self.begin(Step::Idle);
            self.idle -= 1;
        }
        Ok(self.idle > 0)
    }
}

/// A worker and both sides of its gate.
struct Bench {
    health: Health,
    /// This field is dropped first. Otherwise the worker would wait for it.
    let_go: Sender<()>,
    memory: Memory,
    worker: Worker,
    begun: Receiver<Step>,
    done: Receiver<Option<Committed>>,
}

#[derive(Default)]
struct BenchConfig {
    quick: Duration,
    wants: Option<Space>,
    idle: usize,
    idle_each: usize,
}

fn bench(given: BenchConfig) -> Bench {
    let memory = Memory::default();
    let (begin, begun) = channel();
    let (let_go, go) = channel();
    let (tell, done) = channel();
    let gate = Gate {
        memory: memory.clone(),
        begun: begin,
        let_go: go,
        wants: given.wants,
        idle: given.idle,
        idle_each: given.idle_each,
    };
    let told = Box::new(move |committed| {
        // The test may have ended.
        let _ = tell.send(committed);
    });
    let health = Health::default();
    let worker = Worker::start_with(given.quick, Box::new(gate), health.clone(), told);
    Bench {
        health,
        let_go,
        memory,
        worker: worker.expect("start"),
        begun,
        done,
    }
}

impl Bench {
    fn submit(&self, text: &str) -> u64 {
        self.worker.submit(vec![change(text.as_bytes())])
    }

    fn durable(&self) -> u64 {
        self.worker.durable().expect("well")
    }

    fn begun(&self) -> Step {
        self.begun.recv_timeout(PATIENCE).expect("a step")
    }

    /// The commit that has begun, and its thread.
    fn commit(&self) -> (Vec<Record>, ThreadId) {
        match self.begun() {
            Step::Commit(records, thread) => (records, thread),
            Step::Idle => panic!("idle"),
        }
    }

    fn let_go(&self) {
        self.let_go.send(()).expect("the store listens");
    }

    fn done(&self) -> Option<Committed> {
        self.done.recv_timeout(PATIENCE).expect("it is told")
    }

    /// Makes the first commit, which the thread always makes.
    fn first(&self) {
        assert_eq!(self.submit("first"), 1);
        self.commit();
        self.let_go();
        assert!(!self.done().expect("well").at_once);
    }
}

/// A bench on which all commits are quick.
fn quick() -> Bench {
    let bench = bench(BenchConfig {
        quick: Duration::MAX,
        ..BenchConfig::default()
    });
    bench.first();
    bench
}

fn change(bytes: &[u8]) -> Record {
    Record {
        space: Space::default(),
        kind: Kind::Change,
        bytes: bytes.to_vec(),
    }
}

#[test]
fn what_the_thread_commits_is_durable_only_then() {
    let bench = bench(BenchConfig::default());
    assert_eq!(bench.durable(), 0);
    for number in 1..4 {
        assert_eq!(bench.submit("a"), number);
        let (records, thread) = bench.commit();
        assert_eq!(records, [change(b"a")]);
        assert_ne!(thread, thread::current().id());
        assert_eq!(bench.durable(), number - 1);
        bench.let_go();
        let committed = bench.done().expect("well");
        let bytes = frame::bytes_for(&records);
        assert_eq!((committed.number, committed.bytes), (number, bytes));
        assert!(!committed.at_once);
        assert_eq!(bench.durable(), number);
    }
}

#[test]
fn what_is_committed_at_once_is_durable_when_it_was_submitted() {
    let bench = quick();
    for number in 2..5 {
        bench.let_go();
        assert_eq!(bench.submit("a"), number);
        assert_eq!(bench.durable(), number);
        assert_eq!(bench.commit().1, thread::current().id());
        let committed = bench.done().expect("well");
        assert!(committed.at_once && committed.number == number);
    }
}

#[test]
fn a_commit_that_was_slow_leaves_the_next_one_to_the_thread() {
    let bench = bench(BenchConfig {
        quick: Duration::from_millis(1),
        ..BenchConfig::default()
    });
    bench.submit("a");
    bench.commit();
    // The commit has begun, and takes longer than a quick one may.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2) {
        thread::yield_now();
    }
    bench.let_go();
    bench.done();
    bench.submit("b");
    assert_ne!(bench.commit().1, thread::current().id());
}

#[test]
fn while_the_thread_has_the_store_it_is_given_the_commit_too() {
    let bench = bench(BenchConfig {
        quick: Duration::MAX,
        idle_each: 1,
        ..BenchConfig::default()
    });
    bench.first();
    assert_eq!(bench.begun(), Step::Idle);
    assert_eq!(bench.submit("a"), 2);
    assert_eq!(bench.durable(), 1);
    bench.let_go();
    assert_ne!(bench.commit().1, thread::current().id());
    bench.let_go();
    assert_eq!(bench.done().expect("well").number, 2);
}

#[test]
fn a_stop_finishes_what_was_submitted_and_so_does_a_drop() {
    for is_stopped in [true, false] {
        let bench = bench(BenchConfig::default());
        bench.submit("a");
        drop(bench.let_go);
        match is_stopped {
            true => drop(bench.worker.stop().expect("well")),
            false => drop(bench.worker),
        }
        assert_eq!(bench.memory.record_count(), 1);
    }
}

#[test]
fn a_failed_store_is_told_once_and_takes_nothing_more() {
    for quick in [Duration::ZERO, Duration::MAX] {
        let bench = bench(BenchConfig {
            quick,
            ..BenchConfig::default()
        });
        bench.memory.fail_after(1);
        bench.first();
        bench.let_go();
        bench.submit("b");
        assert_eq!(bench.done(), None);
        let error = bench.worker.durable().expect_err("failed");
        assert_eq!(error.code(), "store_io");
        bench.submit("c");
        let stopped = bench.worker.stop().err().expect("failed");
        assert_eq!(stopped.to_string(), error.to_string());
        assert_eq!(bench.memory.record_count(), 1);
        assert!(bench.done.try_recv().is_err(), "once");
    }
}

#[test]
fn a_snapshot_is_wanted_once() {
    let space = Space::default();
    let bench = bench(BenchConfig {
        wants: Some(space.clone()),
        ..BenchConfig::default()
    });
    assert_eq!(bench.worker.wants_snapshot(), Some(space.clone()));
    for kind in [Kind::Change, Kind::Adds] {
        let record = Record {
            kind,
            ..change(b"a")
        };
        bench.worker.submit(vec![record]);
        assert_eq!(bench.worker.wants_snapshot(), Some(space.clone()));
        bench.let_go();
        bench.done();
    }
    let snapshot = Record {
        kind: Kind::First,
        ..change(b"1")
    };
    bench.worker.submit(vec![snapshot]);
    assert_eq!(bench.worker.wants_snapshot(), None);
    bench.let_go();
    bench.done();
    assert_eq!(bench.worker.wants_snapshot(), Some(space));
}

#[test]
fn a_store_that_panics_is_a_failed_one() {
    let bench = bench(BenchConfig::default());
    drop(bench.begun);
    bench.worker.submit(vec![change(b"a")]);
    let told = bench.done.recv_timeout(PATIENCE).expect("it is told");
    assert_eq!(told, None);
    assert_eq!(
        bench.worker.durable().expect_err("failed").code(),
        "store_io"
    );
    assert_eq!(
        bench.worker.stop().err().expect("failed").code(),
        "store_io"
    );
}

#[test]
fn idle_work_is_done_to_its_end_without_any_commit_and_after_one() {
    for quick in [Duration::ZERO, Duration::MAX] {
        let bench = bench(BenchConfig {
            quick,
            idle: 3,
            idle_each: 2,
            ..BenchConfig::default()
        });
        let steps = |count: usize| {
            for _ in 0..count {
                assert_eq!(bench.begun(), Step::Idle);
                bench.let_go();
            }
        };
        steps(3);
        bench.first();
        steps(2);
        bench.let_go();
        bench.submit("b");
        bench.commit();
        steps(2);
        drop(bench.let_go);
        bench.worker.stop().expect("well");
        assert!(bench.begun.recv().is_err(), "and no more");
    }
}

#[test]
fn a_store_that_hangs_is_seen_without_asking_it() {
    let bench = bench(BenchConfig::default());
    assert_eq!(bench.health.trouble(), None);
    bench.submit("a");
    bench.begun.recv_timeout(PATIENCE).expect("it is committed");
    let deadline = Instant::now() + PATIENCE;
    let waited = loop {
        match bench.health.trouble() {
            Some(Trouble::Waits(waited)) => break waited,
            _ => assert!(Instant::now() < deadline, "nothing is told"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(
        waited >= Duration::from_secs(1),
        "a disk at work is not told of"
    );
    bench.let_go.send(()).expect("it waits");
    bench.done.recv_timeout(PATIENCE).expect("it is done");
    assert_eq!(bench.health.trouble(), None);
}
