use super::super::{Each, Memory};
use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that tells of each commit, and makes it when it is let.
struct Gate {
    memory: Memory,
    begun: Sender<Vec<Record>>,
    let_go: Receiver<()>,
    wants: Option<Space>,
    idle_steps: usize,
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
        self.begun.send(records.to_vec()).expect("the test listens");
        // A test that has gone lets everything go.
        let _ = self.let_go.recv();
        self.memory.commit(records)
    }

    fn wants_snapshot(&self) -> Option<Space> {
        self.wants.clone()
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        self.idle_steps = self.idle_steps.saturating_sub(1);
        Ok(self.idle_steps > 0)
    }
}

/// A worker and both sides of its gate.
struct Bench {
    memory: Memory,
    worker: Worker,
    begun: Receiver<Vec<Record>>,
    let_go: Sender<()>,
    done: Receiver<Option<Committed>>,
}

fn bench(durability: Durability, wants: Option<Space>) -> Bench {
    let memory = Memory::default();
    let (begin, begun) = channel();
    let (let_go, go) = channel();
    let (tell, done) = channel();
    let gate = Gate {
        memory: memory.clone(),
        begun: begin,
        let_go: go,
        wants,
        idle_steps: 3,
    };
    let worker = Worker::start(Box::new(gate), durability, move |committed| {
        // The test may have ended.
        let _ = tell.send(committed);
    });
    Bench {
        memory,
        worker: worker.expect("start"),
        begun,
        let_go,
        done,
    }
}

impl Bench {
    fn submit(&self, text: &str) -> u64 {
        self.worker.submit(vec![change(text.as_bytes())])
    }

    fn begun(&self) -> Vec<String> {
        let records = self.begun.recv_timeout(PATIENCE).expect("a commit");
        let text = |record: Record| String::from_utf8(record.bytes).expect("text");
        records.into_iter().map(text).collect()
    }

    fn let_go(&self) -> Option<Committed> {
        self.let_go.send(()).expect("the store listens");
        self.done()
    }

    fn done(&self) -> Option<Committed> {
        self.done.recv_timeout(PATIENCE).expect("it is told")
    }
}

fn change(bytes: &[u8]) -> Record {
    Record {
        space: Space::default(),
        kind: Kind::Change,
        bytes: bytes.to_vec(),
    }
}

#[test]
fn what_waits_shares_one_commit_and_is_durable_only_then() {
    let bench = bench(Durability::Always, None);
    assert_eq!(bench.worker.durable().expect("well"), 0);
    assert_eq!(bench.submit("a"), 1);
    assert_eq!(bench.begun(), ["a"]);
    assert_eq!(
        [bench.submit("bb"), bench.submit("c"), bench.submit("d")],
        [2, 3, 4]
    );
    assert_eq!(bench.worker.durable().expect("well"), 0);
    let committed = bench.let_go().expect("well");
    assert_eq!(
        (committed.number, committed.bytes),
        (1, bytes_of(&[change(b"a")]))
    );
    assert_eq!(bench.begun(), ["bb", "c", "d"]);
    assert_eq!(bench.worker.durable().expect("well"), 1);
    let committed = bench.let_go().expect("well");
    let all = [change(b"bb"), change(b"c"), change(b"d")];
    assert_eq!((committed.number, committed.bytes), (4, bytes_of(&all)));
    assert_eq!(bench.worker.durable().expect("well"), 4);
    assert_eq!(bench.memory.commits(), 2);
}

#[test]
fn a_commit_is_shared_only_up_to_its_size() {
    let bench = bench(Durability::Always, None);
    bench.submit("a");
    assert_eq!(bench.begun(), ["a"]);
    // What a record takes beside its bytes counts too.
    let own = bytes_of(&[change(b"")]);
    let rest = SHARED_BYTES_MAX - 2 * own;
    for size in [rest - 1, 1, 1, rest * 2, 1] {
        bench.worker.submit(vec![change(&vec![b'x'; size])]);
    }
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(bench.let_go().expect("well").number);
        bench.begun();
    }
    counts.push(bench.let_go().expect("well").number);
    assert_eq!(counts, [1, 3, 4, 5, 6]);
}

#[test]
fn a_stop_finishes_what_was_submitted_and_so_does_a_drop() {
    for is_stopped in [true, false] {
        let bench = bench(Durability::Always, None);
        for _ in 0..3 {
            bench.submit("a");
        }
        drop(bench.let_go);
        match is_stopped {
            true => drop(bench.worker.stop().expect("well")),
            false => drop(bench.worker),
        }
        assert_eq!(bench.memory.record_count(), 3);
    }
}

#[test]
fn a_failed_store_is_told_once_and_takes_nothing_more() {
    let bench = bench(Durability::Always, None);
    bench.memory.fail_after(1);
    bench.submit("a");
    assert_eq!(bench.let_go().expect("well").number, 1);
    bench.submit("b");
    assert_eq!(bench.let_go(), None);
    let error = bench.worker.durable().expect_err("failed");
    assert_eq!(error.code(), "store_io");
    // It does not wait for room either.
    for _ in 0..3 {
        bench
            .worker
            .submit(vec![change(&vec![0; WAITING_BYTES_MAX])]);
    }
    let stopped = bench.worker.stop().err().expect("failed");
    assert_eq!(stopped.to_string(), error.to_string());
    assert_eq!(bench.memory.record_count(), 1);
    assert!(bench.done.try_recv().is_err(), "once");
}

#[test]
fn whoever_waits_for_room_goes_on_when_there_is_some() {
    let bench = bench(Durability::Always, None);
    let large = vec![0; WAITING_BYTES_MAX];
    bench.submit("a");
    assert_eq!(bench.begun(), ["a"]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                bench.worker.submit(vec![change(&large)]);
            }
        });
        for _ in 0..4 {
            bench.let_go.send(()).expect("the store listens");
        }
        let numbers = [(); 4].map(|()| bench.done().expect("well").number);
        assert_eq!(numbers, [1, 2, 3, 4]);
    });
}

#[test]
fn an_interval_passes_between_two_commits_but_not_before_the_first_or_a_stop() {
    let bench = bench(Durability::Interval(PATIENCE * 60), None);
    bench.submit("a");
    assert_eq!(bench.let_go().expect("well").number, 1);
    for _ in 0..1000 {
        bench.submit("b");
        thread::yield_now();
    }
    assert_eq!(bench.worker.durable().expect("well"), 1);
    drop(bench.let_go);
    bench.worker.stop().expect("well");
    assert_eq!(bench.memory.commits(), 2);
    assert_eq!(bench.memory.record_count(), 1001);
}

#[test]
fn a_short_interval_passes_by_itself() {
    let bench = bench(Durability::Interval(Duration::from_millis(1)), None);
    for number in 1..20 {
        bench.submit("a");
        assert_eq!(bench.let_go().expect("well").number, number);
    }
}

#[test]
fn an_interval_is_not_waited_for_when_much_waits() {
    let bench = bench(Durability::Interval(PATIENCE * 60), None);
    bench.submit("a");
    assert_eq!(bench.let_go().expect("well").number, 1);
    bench
        .worker
        .submit(vec![change(&vec![0; SHARED_BYTES_MAX + 1])]);
    assert_eq!(bench.let_go().expect("well").number, 2);
}

#[test]
fn without_durability_nothing_is_kept() {
    let bench = bench(Durability::Memory, None);
    bench.submit("a");
    assert_eq!(bench.done().expect("well").number, 1);
    assert_eq!(bench.worker.durable().expect("well"), 1);
    bench.worker.stop().expect("well");
    assert_eq!(bench.memory.record_count(), 0);
}

#[test]
fn a_snapshot_is_wanted_once() {
    let space = Space::default();
    let bench = bench(Durability::Always, Some(space.clone()));
    assert_eq!(bench.worker.wants_snapshot(), Some(space.clone()));
    bench.submit("a");
    bench.begun();
    assert_eq!(bench.worker.wants_snapshot(), Some(space.clone()));
    let snapshot = Record {
        kind: Kind::First,
        ..change(b"1")
    };
    bench.worker.submit(vec![snapshot]);
    assert_eq!(bench.worker.wants_snapshot(), None);
    bench.let_go();
    // What the store says does not count as long as the snapshot waits.
    bench.begun();
    assert_eq!(bench.worker.wants_snapshot(), None);
    bench.let_go();
    assert_eq!(bench.worker.wants_snapshot(), Some(space));
}

#[test]
fn a_store_that_panics_is_a_failed_one() {
    let bench = bench(Durability::Always, None);
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
fn idle_work_is_done_to_its_end_without_any_commit() {
    struct Idle(Sender<usize>, usize);
    impl Store for Idle {
        fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
            Ok(fresh)
        }

        fn is_durable(&self) -> bool {
            false
        }

        fn load(&mut self, _: &Space, _: &mut Each<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        fn commit(&mut self, _: &[Record]) -> Result<(), StoreError> {
            Ok(())
        }

        fn wants_snapshot(&self) -> Option<Space> {
            None
        }

        fn prepare(&mut self) -> Result<bool, StoreError> {
            self.1 += 1;
            self.0.send(self.1).expect("the test listens");
            Ok(self.1 < 3)
        }
    }
    let (tell, told) = channel();
    let worker = Worker::start(Box::new(Idle(tell, 0)), Durability::Always, |_| {});
    let worker = worker.expect("start");
    let steps = [(); 3].map(|()| told.recv_timeout(PATIENCE).expect("a step"));
    assert_eq!(steps, [1, 2, 3]);
    worker.submit(vec![change(b"a")]);
    assert_eq!(told.recv_timeout(PATIENCE).expect("a step after it"), 4);
    worker.stop().expect("well");
    assert!(told.recv().is_err(), "and no more");
}
