//! Tests of the log as a whole, on a real folder and on a simulated disk.

mod damage;
mod power;
mod segments;

use super::log::Sizes;
use super::played::Played;
use super::{Kind, Log, Record, Store, StoreError, Worker};
use tallymesh_core::Space;

/// A log whose files are so small that a few commits fill several.
const SMALL: Sizes = Sizes {
    segment_bytes_min: 1024,
    segment_bytes_max: 4096,
    log_bytes_min: 2048,
};

fn space(name: &str) -> Space {
    Space::new(name).expect("a name")
}

fn record(name: &str, kind: Kind, bytes: &[u8]) -> Record {
    Record {
        space: space(name),
        kind,
        bytes: bytes.to_vec(),
    }
}

fn change(name: &str, bytes: &[u8]) -> Record {
    record(name, Kind::Change, bytes)
}

fn opened(disk: &Played) -> Result<Log, StoreError> {
    Log::open_in(Box::new(disk.clone()), SMALL, &mut |_| {})
}

fn loaded(store: &mut dyn Store, name: &str) -> Result<Vec<(Kind, Vec<u8>)>, StoreError> {
    let mut all = Vec::new();
    let mut told = (0, 0);
    store.load(&space(name), &mut |kept, bytes| {
        assert_eq!(kept.done, told.0 + bytes.len() as u64);
        told = (kept.done, kept.total);
        all.push((kept.kind, bytes.to_vec()));
        Ok(())
    })?;
    assert_eq!(told.0, told.1, "it is told how much comes");
    Ok(all)
}

fn texts(store: &mut dyn Store, name: &str) -> Vec<String> {
    let records = loaded(store, name).expect("load");
    let text = |(_, bytes): (Kind, Vec<u8>)| String::from_utf8(bytes).expect("text");
    records.into_iter().map(text).collect()
}

#[test]
fn records_come_back_in_order_and_a_snapshot_drops_only_its_space() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let open = || Log::open(folder.path(), &mut |_| {}).expect("open");
    let mut log = open();
    assert!(texts(&mut log, "one").is_empty());
    log.commit(&[change("one", b"a"), change("two", b"x")])
        .expect("commit");
    log.commit(&[change("one", b"b")]).expect("commit");
    assert_eq!(texts(&mut log, "one"), ["a", "b"]);
    drop(log);

    let mut log = open();
    assert_eq!(texts(&mut log, "one"), ["a", "b"]);
    log.commit(&[record("one", Kind::Whole, b"ab")])
        .expect("commit");
    log.commit(&[change("one", b"c")]).expect("commit");
    drop(log);

    let mut log = open();
    assert!(log.torn().is_none());
    let one = loaded(&mut log, "one").expect("load");
    assert_eq!(
        one,
        [(Kind::Whole, b"ab".to_vec()), (Kind::Change, b"c".to_vec())]
    );
    assert_eq!(texts(&mut log, "two"), ["x"]);
}

#[test]
fn a_snapshot_in_parts_counts_once_its_last_part_came() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let steps = [
        (change("one", b"a"), "a"),
        (record("one", Kind::First, b"1"), "a"),
        (change("one", b"b"), "a b"),
        (record("one", Kind::Part, b"2"), "a b"),
        (record("one", Kind::Last, b"3"), "1 2 3"),
        (change("one", b"c"), "1 2 3 c"),
        // This snapshot is begun and never ended.
        (record("one", Kind::First, b"4"), "1 2 3 c"),
        (change("one", b"d"), "1 2 3 c d"),
        (record("one", Kind::Part, b"5"), "1 2 3 c d"),
        // A new snapshot is begun.
        (record("one", Kind::First, b"6"), "1 2 3 c d"),
        (record("one", Kind::Last, b"7"), "6 7"),
        (record("one", Kind::First, b"8"), "6 7"),
        (record("one", Kind::Whole, b"9"), "9"),
        (change("one", b"e"), "9 e"),
        (record("one", Kind::Whole, b""), ""),
        (change("one", b"f"), "f"),
    ];
    for (record, expected) in steps {
        log.commit(std::slice::from_ref(&record)).expect("commit");
        assert_eq!(texts(&mut log, "one").join(" "), expected);
        let mut copy = opened(&Played::with(&disk.contents())).expect("open the same elsewhere");
        assert_eq!(texts(&mut copy, "one").join(" "), expected);
    }
}

#[test]
fn a_part_is_refused_unless_this_process_began_the_snapshot() {
    for kind in [Kind::Part, Kind::Last] {
        let disk = Played::new(1);
        let mut log = opened(&disk).expect("open");
        log.commit(&[record("one", Kind::First, b"1")])
            .expect("commit");
        drop(log);
        let mut log = opened(&disk).expect("open again");
        let refused = log.commit(&[record("one", kind, b"2")]);
        assert_eq!(refused.expect_err("refused").code(), "store_not_begun");
    }
}

#[test]
fn what_a_worker_says_is_durable_is_there_after_a_power_cut() {
    let disk = Played::new(1);
    let log = opened(&disk).expect("open");
    let (tell, told) = std::sync::mpsc::channel();
    let worker = Worker::start(Box::new(log), Default::default(), move |committed| {
        // The test may have ended.
        let _ = tell.send(committed);
    });
    let worker = worker.expect("start");
    let submit = |record| {
        let wanted = worker.submit(vec![record]);
        told.recv().expect("it is told");
        assert_eq!(worker.durable().expect("well"), wanted);
    };
    for count in 0..50u8 {
        submit(change("one", &[b'a' + count % 26]));
    }
    submit(change("two", b"the end"));
    disk.cut_power();
    let mut after = opened(&disk).expect("open");
    assert_eq!(texts(&mut after, "one").len(), 50);
    assert_eq!(texts(&mut after, "two"), ["the end"]);
}

#[test]
fn the_first_identity_stays() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let open = || Log::open(folder.path(), &mut |_| {}).expect("open");
    assert_eq!(open().identity([1; 32]).expect("identity"), [1; 32]);
    assert_eq!(open().identity([2; 32]).expect("identity"), [1; 32]);
}

#[cfg(unix)]
#[test]
fn the_folder_and_its_files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let around = tempfile::tempdir().expect("temporary folder");
    let folder = around.path().join("some/where");
    let mut log = Log::open(&folder, &mut |_| {}).expect("open");
    log.identity([1; 32]).expect("identity");
    log.commit(&[change("one", b"a")]).expect("commit");
    let mode = |path: &std::path::Path| {
        let facts = std::fs::metadata(path).expect("there");
        facts.permissions().mode() & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    let files = std::fs::read_dir(&folder).expect("read");
    let files: Vec<_> = files.map(|entry| entry.expect("entry").path()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_file_in_place_of_a_folder_is_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    for path in [&file, &file.join("below")] {
        let refused = Log::open(path, &mut |_| {}).err().expect("refused");
        assert_eq!(refused.code(), "store_not_a_folder", "{refused}");
        let copy = super::backup(
            path,
            &folder.path().join("copy"),
            &mut |_, _, _| Ok(()),
            &mut |_| {},
        );
        assert_eq!(copy.expect_err("refused").code(), "store_not_a_folder");
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let open = || Log::open(folder.path(), &mut |_| {});
    let log = open().expect("open");
    assert_eq!(open().err().expect("refused").code(), "store_in_use");
    drop(log);
    open().expect("open again");
}

#[test]
fn a_folder_of_another_format_is_refused_and_left_as_it_was() {
    for (file, text, found) in [
        ("format", "5\nand more", "format 5"),
        ("tallymesh.redb", "redb", "format 1"),
    ] {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::write(folder.path().join(file), text).expect("write");
        let refused = Log::open(folder.path(), &mut |_| {})
            .err()
            .expect("refused");
        assert_eq!(refused.code(), "store_format");
        assert!(refused.to_string().contains(found), "{refused}");
        let files = std::fs::read_dir(folder.path()).expect("read").count();
        assert_eq!(files, 1, "not even a lock");
        assert_eq!(
            std::fs::read_to_string(folder.path().join(file)).expect("read"),
            text
        );
    }
}

#[test]
fn a_commit_larger_than_a_segment_gets_one_of_its_size() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let large = vec![b'x'; 40_000];
    log.commit(&[change("one", b"a")]).expect("commit");
    // The next segment is ready, and too small.
    log.commit(&[change("one", &[b'y'; 300])]).expect("commit");
    while log.prepare().expect("prepare") {}
    log.commit(&[change("one", &large)]).expect("commit");
    log.commit(&[change("one", b"b")]).expect("commit");
    drop(log);
    let mut log = opened(&disk).expect("open");
    let lengths: Vec<usize> = texts(&mut log, "one").iter().map(String::len).collect();
    assert_eq!(lengths, [1, 300, 40_000, 1]);
    log.commit(&[change("one", b"c")]).expect("commit");
    drop(log);
    assert_eq!(texts(&mut opened(&disk).expect("open"), "one").len(), 5);
}

#[test]
fn a_commit_that_is_too_large_is_refused_and_the_next_is_made() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let half = vec![0; (super::COMMIT_BYTES_MAX / 2) as usize];
    let records = [change("one", &half), change("one", &half)];
    let refused = log.commit(&records).expect_err("refused");
    assert_eq!(refused.code(), "store_too_large");
    log.commit(&[change("one", b"a")]).expect("commit");
    assert_eq!(texts(&mut log, "one"), ["a"]);
}

/// Commits changes of `names` in turn, with a snapshot whenever the store requests one.
fn run(log: &mut Log, names: &[&str], commits: usize) -> usize {
    let mut snapshots = 0;
    for count in 0..commits {
        let name = names[count % names.len()];
        log.commit(&[change(name, format!("{count:050}").as_bytes())])
            .expect("commit");
        while log.prepare().expect("prepare") {}
        if let Some(wanted) = log.wants_snapshot() {
            let whole = record(
                wanted.as_str(),
                Kind::Whole,
                format!("all {count}").as_bytes(),
            );
            log.commit(&[whole]).expect("commit");
            snapshots += 1;
        }
    }
    snapshots
}

#[test]
fn the_log_stays_short_with_snapshots_where_they_are_wanted() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    log.commit(&[change("idle", b"rarely")]).expect("commit");
    let snapshots = run(&mut log, &["one", "two"], 1000);
    assert!((20..200).contains(&snapshots), "{snapshots}");
    assert!(log.bytes() < 3 * SMALL.log_bytes_min, "{}", log.bytes());
    assert!(log.segment_count() < 8, "{}", log.segment_count());
    // The store requested a snapshot of the idle space, too. Otherwise the space would have kept
    // all segments.
    assert!(texts(&mut log, "idle")[0].starts_with("all"));
    let logs = disk
        .contents()
        .into_keys()
        .filter(|name| name.starts_with("log-"));
    assert!(logs.count() <= log.segment_count() + 1);
}

#[test]
fn the_parts_of_a_snapshot_under_way_are_not_deleted() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let first = "1".repeat(300);
    log.commit(&[record("one", Kind::First, first.as_bytes())])
        .expect("commit");
    for _ in 0..10 {
        log.commit(&[change("one", &[b'a'; 300])]).expect("commit");
        while log.prepare().expect("prepare") {}
    }
    log.commit(&[record("one", Kind::Last, b"2")])
        .expect("commit");
    drop(log);
    assert_eq!(
        texts(&mut opened(&disk).expect("open"), "one"),
        [first.as_str(), "2"]
    );
}

#[test]
fn no_snapshot_is_wanted_that_would_free_nothing() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    // The record has a segment of its own, and is the only one.
    log.commit(&[change("one", &[b'a'; 5000])]).expect("commit");
    assert!(log.bytes() > 2 * SMALL.log_bytes_min);
    assert_eq!(log.wants_snapshot(), None);
    log.commit(&[change("one", &[b'b'; 5000])]).expect("commit");
    assert_eq!(log.wants_snapshot(), Some(space("one")));
}

#[test]
fn a_space_that_nobody_has_open_is_carried_along() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let parts = [
        record("left", Kind::First, b"1"),
        record("left", Kind::Last, b"2"),
        change("left", b"a"),
    ];
    log.commit(&parts).expect("commit");
    log.commit(&[change("new", b"b"), change("new", b"c")])
        .expect("commit");
    drop(log);
    let mut log = opened(&disk).expect("open");
    run(&mut log, &["one"], 500);
    assert!(log.bytes() < 3 * SMALL.log_bytes_min, "{}", log.bytes());
    let expected = [
        (Kind::First, b"1".to_vec()),
        (Kind::Last, b"2".to_vec()),
        (Kind::Change, b"a".to_vec()),
    ];
    assert_eq!(loaded(&mut log, "left").expect("load"), expected);
    assert_eq!(texts(&mut log, "new"), ["b", "c"]);
    drop(log);
    let mut log = opened(&disk).expect("open");
    assert_eq!(loaded(&mut log, "left").expect("load"), expected);
    assert_eq!(texts(&mut log, "new"), ["b", "c"]);
}

#[test]
fn the_next_segment_is_ready_before_the_present_one_is_full() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    let names = |disk: &Played| disk.contents().into_keys().collect::<Vec<_>>();
    let before = names(&disk);
    log.commit(&[change("one", &[b'a'; 300])]).expect("commit");
    while log.prepare().expect("prepare") {}
    let after = names(&disk);
    assert_eq!(after.len(), before.len() + 1);
    // A commit into the new segment is then one write and one sync, like any other.
    for _ in 0..2 {
        disk.fail_after(2);
        log.commit(&[change("one", &[b'b'; 200])])
            .expect("two operations");
        assert!(!disk.heal());
    }
    assert_eq!(names(&disk), after);
}

#[test]
fn a_log_that_failed_writes_nothing_more() {
    for operation in 0..2 {
        let disk = Played::new(1);
        let mut log = opened(&disk).expect("open");
        log.commit(&[change("one", b"a")]).expect("commit");
        disk.fail_after(operation);
        let failed = log.commit(&[change("one", b"b")]).expect_err("it fails");
        assert!(disk.heal());
        let files = disk.contents();
        let again = log.commit(&[change("one", b"c")]).expect_err("still");
        assert_eq!(failed.to_string(), again.to_string());
        let again = log.prepare().expect_err("still");
        assert_eq!(failed.to_string(), again.to_string());
        assert!(log.wants_snapshot().is_none());
        assert_eq!(disk.contents(), files);
    }
}

#[test]
fn progress_is_told_while_the_log_is_read() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    for _ in 0..20 {
        log.commit(&[change("one", &[b'a'; 300])]).expect("commit");
    }
    drop(log);
    let mut told = Vec::new();
    let opened = Log::open_in(Box::new(disk), SMALL, &mut |progress| told.push(progress));
    assert_eq!(told.len(), opened.expect("open").segment_count());
    assert!(told.len() > 5 && told.is_sorted_by_key(|progress| progress.done));
    let last = told.last().expect("some");
    assert_eq!(last.done, last.total);
}

#[cfg(unix)]
#[test]
fn a_log_whose_end_was_put_back_is_not_whole() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let open = || Log::open(folder.path(), &mut |_| {}).expect("opened");
    let place = |log: &Log| log.place().expect("a place");
    let first = folder.path().join("log-0000000000000001");
    let mut log = open();
    log.commit(&[change("a", b"one")]).expect("commit");
    let before = std::fs::read(&first).expect("a segment");
    let lock = place(&log).lock;
    drop(log);
    let mut log = open();
    assert!(place(&log).whole);
    assert_eq!(place(&log).lock, lock, "the same file");
    log.commit(&[change("a", b"two")]).expect("commit");
    drop(log);
    assert!(place(&open()).whole);
    std::fs::write(&first, before).expect("put back");
    let mut log = open();
    assert!(!place(&log).whole);
    log.commit(&[change("a", b"three")]).expect("commit");
    drop(log);
    // From now on it is the log that this place has.
    assert!(place(&open()).whole);
    let copied = tempfile::tempdir().expect("temporary folder");
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let entry = entry.expect("a file");
        let to = copied.path().join(entry.file_name());
        std::fs::copy(entry.path(), to).expect("copied");
    }
    let copied = Log::open(copied.path(), &mut |_| {}).expect("opened");
    assert_ne!(place(&copied).lock, lock);
}
