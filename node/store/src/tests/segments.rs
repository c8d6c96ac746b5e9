//! Which segments must exist, which are removed, and what a log does right after it was opened.

use super::super::segment::{self, HEADER_BYTES, Header};
use super::super::{Kind, Log, Store, frame};
use super::{Played, SMALL, change, loaded, opened, record, space, texts};

/// A log with these commits, one record each.
fn log(disk: &Played, records: &[super::Record]) -> Log {
    let mut log = opened(disk).expect("open");
    for record in records {
        log.commit(std::slice::from_ref(record)).expect("commit");
    }
    log
}

fn code(files: &std::collections::BTreeMap<String, Vec<u8>>) -> &'static str {
    let refused = opened(&Played::with(files)).err();
    refused.map_or("opened", |error| error.code())
}

#[test]
fn no_segment_is_longer_than_it_was_made() {
    let disk = Played::new(1);
    drop(log(
        &disk,
        &[change("one", &[1; 600]), change("one", &[2; 600])],
    ));
    let files = disk.contents();
    for number in [1, 2] {
        for byte in [0, 1] {
            let mut changed = files.clone();
            let segment = changed.get_mut(&segment::name(number));
            segment.expect("a segment").push(byte);
            assert_eq!(code(&changed), "store_damaged", "segment {number}");
        }
    }
}

/// The last commit of a segment is required, although nothing else of the segment is needed.
#[test]
fn the_one_commit_that_is_needed_of_a_missing_segment_is_missed() {
    let disk = Played::new(1);
    let records = [
        change("one", &[1; 60]),
        record("one", Kind::Whole, &[2; 200]),
        change("one", &[3; 400]),
    ];
    assert_eq!(log(&disk, &records).segment_count(), 2);
    let mut files = disk.contents();
    files.remove(&segment::name(1)).expect("there");
    assert_eq!(code(&files), "store_damaged");
}

#[test]
fn a_log_of_which_only_the_segment_that_was_ready_is_left_is_missed() {
    let disk = Played::new(1);
    let mut log = log(&disk, &[change("one", &[1; 300])]);
    while log.prepare().expect("prepare") {}
    let mut files = disk.contents();
    assert!(files.contains_key(&segment::name(2)));
    files.remove(&segment::name(1)).expect("there");
    assert_eq!(code(&files), "store_damaged");
}

#[test]
fn a_log_without_a_header_is_damaged() {
    let disk = Played::new(1);
    drop(opened(&disk).expect("open"));
    let mut files = disk.contents();
    files.insert(segment::name(1), vec![0; 1024]);
    assert_eq!(code(&files), "store_damaged");
}

/// A whole commit stands in place of the first one.
#[test]
fn the_first_segment_begins_with_the_first_commit() {
    let disk = Played::new(1);
    let records = [change("one", b"a"), record("one", Kind::Whole, b"b")];
    drop(log(&disk, &records));
    let mut files = disk.contents();
    let bytes = files.get_mut(&segment::name(1)).expect("a segment");
    let seal = Header::decode(bytes).expect("a header").seal;
    let first = frame::decode(seal, &bytes[HEADER_BYTES..]).expect("a frame");
    let first = first.bytes();
    bytes.drain(HEADER_BYTES..HEADER_BYTES + first);
    bytes.extend(std::iter::repeat_n(0, first));
    assert_eq!(code(&files), "store_damaged");
}

#[test]
fn a_segment_from_before_a_gap_goes_at_the_next_opening() {
    let disk = Played::new(1);
    let mut log = opened(&disk).expect("open");
    super::run(&mut log, &["one"], 200);
    let all = loaded(&mut log, "one").expect("load");
    drop(log);
    let mut files = disk.contents();
    let names = files.keys().filter(|name| name.starts_with("log-"));
    let names: Vec<String> = names.cloned().collect();
    let left = segment::name(1);
    assert!(names[0] > segment::name(2));
    files.insert(left.clone(), files[&names[0]].clone());
    let disk = Played::with(&files);
    let mut log = opened(&disk).expect("open");
    assert_eq!(loaded(&mut log, "one").expect("load"), all);
    assert!(!disk.contents().contains_key(&left));
}

#[test]
fn segments_that_were_dead_before_a_restart_go_after_it() {
    let disk = Played::new(1);
    let records = [
        change("one", &[1; 5000]),
        change("one", &[2; 5000]),
        record("one", Kind::Whole, &[3; 5000]),
    ];
    drop(log(&disk, &records));
    assert!(disk.contents().contains_key(&segment::name(3)));
    let mut log = opened(&disk).expect("open");
    while log.prepare().expect("prepare") {}
    assert!(!disk.contents().contains_key(&segment::name(3)));
    assert_eq!(loaded(&mut log, "one").expect("load").len(), 1);
}

/// A space that was only read is open, too.
#[test]
fn a_snapshot_is_asked_for_of_a_space_that_was_only_loaded() {
    let disk = Played::new(1);
    drop(log(&disk, &[change("idle", b"rarely")]));
    let mut log = opened(&disk).expect("open");
    assert_eq!(texts(&mut log, "idle"), ["rarely"]);
    for byte in 0..8 {
        log.commit(&[change("one", &[byte; 900])]).expect("commit");
    }
    assert_eq!(log.wants_snapshot(), Some(space("idle")));
}

#[test]
fn a_log_that_failed_asks_for_nothing() {
    let disk = Played::new(1);
    let large = [change("one", &[1; 5000]), change("one", &[2; 5000])];
    let mut log = log(&disk, &large);
    assert!(log.bytes() > SMALL.log_bytes_min);
    assert_eq!(log.wants_snapshot(), Some(space("one")));
    disk.fail_after(0);
    log.commit(&[change("one", b"b")]).expect_err("it fails");
    assert_eq!(log.wants_snapshot(), None);
}

/// Records are read in windows of 256 KiB.
#[test]
fn records_longer_than_what_is_read_at_once_are_read_whole() {
    let disk = Played::new(1);
    let records = [300_000, 10, 262_144, 262_145, 1, 524_289];
    let records = records.map(|bytes| {
        let bytes: Vec<u8> = (0..bytes).map(|at: u32| (at % 251) as u8).collect();
        change("one", &bytes)
    });
    drop(log(&disk, &records));
    let mut log = opened(&disk).expect("open");
    let wanted = records.map(|record| (record.kind, record.bytes));
    assert_eq!(loaded(&mut log, "one").expect("load"), wanted);
    // The second read takes them from places that are searched again.
    assert_eq!(loaded(&mut log, "one").expect("load"), wanted);
}

/// Later parts are refused, and a restart reads only the whole snapshot.
#[test]
fn a_whole_snapshot_ends_one_that_was_begun() {
    for kind in [Kind::Part, Kind::Last] {
        let disk = Played::new(1);
        let records = [
            record("one", Kind::First, b"1"),
            record("one", Kind::Whole, b"2"),
        ];
        let mut log = log(&disk, &records);
        let refused = log.commit(&[record("one", kind, b"3")]);
        assert_eq!(refused.expect_err("refused").code(), "store_not_begun");
        drop(log);
        let mut log = opened(&disk).expect("open");
        assert_eq!(texts(&mut log, "one"), ["2"]);
    }
}

#[test]
fn no_other_snapshot_is_wanted_while_one_is_begun() {
    let disk = Played::new(1);
    let large = [change("one", &[1; 5000]), change("one", &[2; 5000])];
    let mut log = log(&disk, &large);
    assert_eq!(log.wants_snapshot(), Some(space("one")));
    for kind in [Kind::First, Kind::Part] {
        log.commit(&[record("one", kind, b"1")]).expect("commit");
        assert_eq!(log.wants_snapshot(), None, "{kind:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_notices_that_a_file_of_it_was_removed_moved_or_cut_short() {
    use super::super::files::{Disk, Folder};
    use super::super::log::Sizes;
    use std::fs;
    let sizes = Sizes {
        segment_bytes_min: 4096,
        segment_bytes_max: 4096,
        log_bytes_min: 1 << 20,
    };
    let folder = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| folder.path().join(name);
    let disk: Box<dyn Folder> = Box::new(Disk::at(folder.path()));
    let mut log = Log::open_in(disk, sizes, &mut |_| {}).expect("open");
    log.identity([7; 32]).expect("a key");
    for commit in 0..10 {
        log.commit(&[change("one", &[commit; 1000])])
            .expect("commit");
        while log.prepare().expect("prepare") {}
        assert_eq!(log.check_folder(), Ok(()));
    }
    let last = segment::name(log.segment_count() as u64);
    assert!(log.segment_count() > 2);
    let away = at("away");
    for name in ["format", "identity", &segment::name(1), &last] {
        let file = at(name);
        let expect = |log: &Log, word: &str| {
            let told = log.check_folder().expect_err(name);
            assert!(told.contains(name) && told.contains(word), "{told}");
        };
        fs::rename(&file, &away).expect("moved");
        expect(&log, "is gone");
        fs::copy(&away, &file).expect("copied");
        expect(&log, "was replaced");
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink(&away, &file).expect("linked");
        expect(&log, "was replaced");
        // Under its old name it is the same file.
        fs::rename(&away, &file).expect("moved");
        assert_eq!(log.check_folder(), Ok(()), "{name}");
    }
    log.commit(&[change("one", &[9; 10])]).expect("commit");
    let length = fs::metadata(at(&last)).expect("there").len();
    let file = fs::File::options().write(true).open(at(&last));
    file.expect("open").set_len(length - 1).expect("cut");
    let told = log.check_folder().expect_err("cut short");
    assert!(told.ends_with("has 4095 bytes, and had 4096"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_file_is_not_opened_as_one() {
    use super::super::files::{Disk, Folder};
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .expect("a pipe");
    std::fs::create_dir(folder.path().join("folder")).expect("a folder");
    let disk = Disk::at(folder.path());
    for name in ["socket", "pipe", "folder"] {
        for opened in [disk.open(name), disk.open_to_write(name), disk.create(name)] {
            assert!(opened.is_err(), "{name}");
        }
    }
    // A log with a pipe in place of a segment is refused, without a wait.
    drop(Log::open(folder.path(), &mut |_| {}).expect("open"));
    let first = folder.path().join(segment::name(1));
    std::fs::remove_file(&first).expect("removed");
    std::fs::rename(&pipe, &first).expect("moved");
    let refused = Log::open(folder.path(), &mut |_| {}).err().expect("a pipe");
    assert!(refused.to_string().contains("it is a pipe"), "{refused}");
}
