//! Power cuts and failing operations, at any point of random work.
//!
//! `TALLYMESH_SEEDS=100000` runs more seeds. A failure names its seed, and `TALLYMESH_SEED` runs
//! that one.

use super::super::played::{Dice, Played};
use super::super::{Kind, Log, Memory, Record, Store};
use super::{loaded, opened, record};

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// The expected records: everything that was acknowledged, and perhaps one more batch.
struct Expected {
    acknowledged: Memory,
    in_doubt: Option<Vec<Record>>,
    commits: u64,
}

/// Counts of the events in all runs, which show that the runs reach each case.
#[derive(Debug, Default)]
struct Tally {
    failed_commits: usize,
    failed_idle: usize,
    failed_opens: usize,
    kept_in_doubt: usize,
    lost_in_doubt: usize,
    torn: usize,
    snapshots: usize,
    removed: usize,
    carried: usize,
}

/// The work of a driver: changes, and snapshots in parts between them.
struct Work {
    dice: Dice,
    count: u64,
    begun: [bool; NAMES.len()],
}

impl Work {
    fn bytes(&mut self) -> Vec<u8> {
        self.count += 1;
        let mut bytes = format!("{}-", self.count).into_bytes();
        let length = match self.dice.below(20) {
            0 => 3000,
            1..5 => 400,
            _ => 40,
        };
        bytes.resize(bytes.len() + self.dice.below(length), self.count as u8);
        bytes
    }

    fn batch(&mut self, wanted: Option<usize>) -> Vec<Record> {
        let mut batch = Vec::new();
        for place in 0..1 + self.dice.below(3) {
            let space = match wanted {
                Some(wanted) if place == 0 => wanted,
                // The last space is rarely changed.
                _ if self.dice.once_in(50) => 3,
                _ => self.dice.below(3),
            };
            let kind = match (self.begun[space], self.dice.below(4)) {
                (true, 0) => Kind::Part,
                (true, 1) => Kind::Last,
                (false, 0 | 1) if wanted == Some(space) => Kind::First,
                (false, 2) if wanted == Some(space) => Kind::Whole,
                _ if self.dice.once_in(100) => Kind::First,
                _ if self.dice.once_in(100) => Kind::Whole,
                _ if self.dice.once_in(2) => Kind::Adds,
                _ => Kind::Change,
            };
            match kind {
                Kind::First => self.begun[space] = true,
                Kind::Whole | Kind::Last => self.begun[space] = false,
                Kind::Change | Kind::Adds | Kind::Part => {}
            }
            batch.push(record(NAMES[space], kind, &self.bytes()));
        }
        batch
    }
}

impl Expected {
    /// Compares all spaces, and checks whether the batch in doubt was stored.
    fn check(&mut self, log: &mut Log, tally: &mut Tally, context: &str) {
        assert!(
            log.last_commit() >= self.commits,
            "{context}: commits are missing"
        );
        self.commits = log.last_commit();
        let all = |store: &mut dyn Store| NAMES.map(|name| loaded(store, name).expect("load"));
        let found = all(log);
        if found == all(&mut self.acknowledged) {
            tally.lost_in_doubt += usize::from(self.in_doubt.take().is_some());
            return;
        }
        let batch = self.in_doubt.take();
        let batch = batch.unwrap_or_else(|| panic!("{context}: not what was acknowledged"));
        self.acknowledged.commit(&batch).expect("memory");
        assert_eq!(found, all(&mut self.acknowledged), "{context}");
        tally.kept_in_doubt += 1;
    }
}

fn play(seed: u64, tally: &mut Tally) {
    let disk = Played::new(seed);
    let mut expected = Expected {
        acknowledged: Memory::default(),
        in_doubt: None,
        commits: 0,
    };
    let mut work = Work {
        dice: Dice::new(!seed),
        count: 0,
        begun: [false; NAMES.len()],
    };
    for start in 0..8 {
        let context = format!("seed {seed}, start {start}");
        if work.dice.once_in(2) {
            disk.fail_after(work.dice.below(60));
        }
        work.begun = [false; NAMES.len()];
        live(&disk, &mut expected, &mut work, tally, &context);
        disk.heal();
        if work.dice.once_in(2) {
            disk.cut_power();
        }
    }
    let mut log = opened(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    expected.check(&mut log, tally, &format!("seed {seed}, at the end"));
}

/// One process, from its start to its end.
fn live(disk: &Played, expected: &mut Expected, work: &mut Work, tally: &mut Tally, context: &str) {
    let open = |tally: &mut Tally| match opened(disk) {
        Ok(log) => {
            tally.torn += usize::from(log.torn().is_some());
            Some(log)
        }
        Err(error) => {
            assert!(disk.heal(), "{context}: {error}");
            assert_eq!(error.code(), "store_io", "{context}");
            tally.failed_opens += 1;
            None
        }
    };
    let Some(mut log) = open(tally) else { return };
    expected.check(&mut log, tally, context);
    if work.dice.once_in(3) {
        // Now spaces are in use only once they are written to.
        drop(log);
        match open(tally) {
            Some(again) => log = again,
            None => return,
        }
    }
    for _ in 0..work.dice.below(120) {
        if work.dice.once_in(3) {
            let (segments, last) = (log.segment_count(), log.last_commit());
            let outcome = log.prepare();
            tally.removed += usize::from(log.segment_count() < segments);
            tally.carried += usize::from(outcome.is_ok() && log.last_commit() > last);
            if outcome.is_err() {
                assert!(disk.heal(), "{context}: idle work failed by itself");
                tally.failed_idle += 1;
                return;
            }
            expected.commits = log.last_commit();
            continue;
        }
        let wanted = log.wants_snapshot();
        tally.snapshots += usize::from(wanted.is_some());
        let wanted = wanted.and_then(|space| NAMES.iter().position(|it| *it == space.as_str()));
        let batch = work.batch(wanted);
        match log.commit(&batch) {
            Ok(()) => {
                expected.acknowledged.commit(&batch).expect("memory");
                expected.commits = log.last_commit();
            }
            Err(_) => {
                assert!(disk.heal(), "{context}: a commit failed by itself");
                log.commit(&work.batch(None))
                    .expect_err("none is made any more");
                expected.in_doubt = Some(batch);
                tally.failed_commits += 1;
                return;
            }
        }
    }
    expected.check(&mut log, tally, context);
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_else_is_found() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|text: String| text.parse().ok())
    };
    let mut tally = Tally::default();
    if let Some(seed) = number("TALLYMESH_SEED") {
        return play(seed, &mut tally);
    }
    let seeds = number("TALLYMESH_SEEDS").unwrap_or(2000);
    for seed in 0..seeds {
        play(seed, &mut tally);
    }
    println!("{seeds} seeds: {tally:?}");
    let Tally {
        failed_commits,
        failed_idle,
        failed_opens,
        kept_in_doubt,
        lost_in_doubt,
        torn,
        snapshots,
        removed,
        carried,
    } = tally;
    let seen = [
        failed_commits,
        failed_idle,
        failed_opens,
        kept_in_doubt,
        lost_in_doubt,
        torn,
        snapshots,
        removed,
        carried,
    ];
    let often = usize::try_from(seeds / 100).expect("a number");
    assert!(seen.iter().all(|count| *count >= often), "{seen:?}");
}

/// Most operations of one opening.
const OPERATIONS_MAX: usize = 20;

#[test]
fn a_folder_whose_making_failed_anywhere_is_made_again() {
    let mut failed = 0;
    for (operation, seed) in (0..OPERATIONS_MAX).flat_map(|it| (0..20).map(move |seed| (it, seed)))
    {
        let context = format!("operation {operation}, seed {seed}");
        let disk = Played::new(seed);
        disk.fail_after(operation);
        let key = opened(&disk).and_then(|mut log| log.identity([1; 32]));
        failed += usize::from(key.is_err());
        assert_eq!(key.is_err(), disk.heal(), "{context}");
        if seed % 3 == 0 {
            disk.cut_power();
        }
        let mut log = opened(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
        let key = log.identity([2; 32]).expect("identity");
        log.commit(&[record("one", Kind::Change, b"a")])
            .expect("commit");
        drop(log);
        disk.cut_power();
        let mut log = opened(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(log.identity([3; 32]).expect("identity"), key, "{context}");
        assert_eq!(loaded(&mut log, "one").expect("load").len(), 1, "{context}");
    }
    assert!(failed > 100, "{failed}");
}

#[test]
fn an_opening_that_failed_anywhere_is_made_again() {
    let mut failed = 0;
    for (operation, seed) in (0..OPERATIONS_MAX).flat_map(|it| (0..20).map(move |seed| (it, seed)))
    {
        let context = format!("operation {operation}, seed {seed}");
        let disk = Played::new(seed);
        let mut log = opened(&disk).expect("open");
        log.commit(&[record("one", Kind::Change, &[1; 400])])
            .expect("commit");
        while log.prepare().expect("prepare") {}
        // The next segment is ready and too small. The segment after it gets its name, but no
        // commit.
        disk.fail_after(5);
        let large = record("one", Kind::Change, &[2; 5000]);
        log.commit(&[large]).expect_err("it fails");
        drop(log);
        assert!(disk.heal());
        disk.fail_after(operation);
        failed += usize::from(opened(&disk).is_err());
        disk.heal();
        disk.cut_power();
        let mut log = opened(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(loaded(&mut log, "one").expect("load").len(), 1, "{context}");
    }
    assert!(failed > 100, "{failed}");
}
