use super::super::log::Sizes;
use super::super::played::Played;
use super::super::{Kind, Log, Record, Store};
use super::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SMALL: Sizes = Sizes {
    segment_bytes_min: 1024,
    segment_bytes_max: 4096,
    log_bytes_min: 2048,
};

fn record(name: &str, kind: Kind, bytes: &[u8]) -> Record {
    Record {
        space: Space::new(name).expect("a name"),
        kind,
        bytes: bytes.to_vec(),
    }
}

fn open(folder: &Path) -> Log {
    let disk = Disk::at(folder);
    disk.make().expect("make");
    Log::open_in(Box::new(disk), SMALL, &mut |_| {}).expect("open")
}

/// Commits numbers to one space. Whenever the store requests a snapshot, it is the present number.
/// So the stored records are a range of numbers up to the last commit.
fn count(log: &mut Log, from: u64, commits: u64) {
    for number in from..from + commits {
        let change = record("one", Kind::Change, &number.to_le_bytes().repeat(8));
        log.commit(&[change]).expect("commit");
        while log.prepare().expect("prepare") {}
        if log.wants_snapshot().is_some() {
            let whole = record("one", Kind::Whole, &number.to_le_bytes());
            log.commit(&[whole]).expect("commit");
        }
    }
}

/// The last number, after a check of all stored numbers.
fn counted(folder: &Path) -> u64 {
    let mut log = open(folder);
    let mut last = None;
    let space = Space::new("one").expect("a name");
    log.load(&space, &mut |_, bytes| {
        let number = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let number = number.expect("a number");
        assert!(
            last.is_none_or(|last| last + 1 == number),
            "none is missing"
        );
        last = Some(number);
        Ok(())
    })
    .expect("load");
    last.expect("some")
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("read");
    let names = entries.map(|entry| entry.expect("entry").file_name().into_string());
    let names = names.map(|name| name.expect("text"));
    names
        .map(|name| (name.clone(), fs::read(folder.join(name)).expect("read")))
        .collect()
}

#[test]
fn a_folder_is_checked_and_not_changed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut log = open(folder.path());
    let records = [
        record("two", Kind::Change, b"old"),
        record("one", Kind::Whole, b"abc"),
        record("two", Kind::First, b"12"),
        record("two", Kind::Last, b"3"),
        record("one", Kind::Change, b"d"),
    ];
    log.commit(&records[..2]).expect("commit");
    log.commit(&records[2..]).expect("commit");
    let before = files(folder.path());
    let mut seen = Vec::new();
    let mut told = Vec::new();
    let report = check(
        folder.path(),
        &mut |space, kept, bytes| {
            seen.push((space.to_string(), kept.kind, bytes.to_vec()));
            Ok(())
        },
        &mut |progress| told.push(progress),
    );
    let report = report.expect("whole");
    assert_eq!(files(folder.path()), before);
    let expected = [&records[1], &records[4], &records[2], &records[3]];
    let expected = expected.map(|it| (it.space.to_string(), it.kind, it.bytes.clone()));
    assert_eq!(seen, expected);
    let space = |name, records, bytes, needed_bytes| SpaceReport {
        space: Space::new(name).expect("a name"),
        records,
        bytes,
        needed_bytes,
    };
    let expected = Report {
        segments: 1,
        segment_bytes: 1024,
        commits: (1, 2),
        spaces: vec![space("one", 2, 4, 4), space("two", 3, 6, 3)],
        torn: None,
        has_identity: false,
    };
    assert_eq!(report, expected);
    assert_eq!(told.len(), 1);
    log.identity([1; 32]).expect("identity");
    let none = &mut |_: &Space, _, _: &[u8]| Ok(());
    assert!(
        check(folder.path(), none, &mut |_| {})
            .expect("whole")
            .has_identity
    );
    let refused = check(
        folder.path(),
        &mut |space, _, _| {
            Err(StoreError::Record {
                space: space.clone(),
                problem: "not liked".into(),
            })
        },
        &mut |_| {},
    );
    assert_eq!(refused.expect_err("refused").code(), "store_record");
}

#[test]
fn what_is_wrong_with_a_folder_is_told() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let code = |folder: &Path| {
        let checked = check(folder, &mut |_, _, _| Ok(()), &mut |_| {});
        checked.expect_err("wrong").code()
    };
    assert_eq!(code(folder.path()), "store_missing");
    assert_eq!(code(&folder.path().join("nowhere")), "store_missing");
    let data = folder.path().join("data");
    let mut log = open(&data);
    log.identity([1; 32]).expect("identity");
    count(&mut log, 0, 20);
    fs::write(data.join("identity"), [0; 36]).expect("write");
    assert_eq!(code(&data), "store_damaged");
    fs::remove_file(data.join("identity")).expect("remove");
    fs::write(data.join("format"), "1").expect("write");
    assert_eq!(code(&data), "store_format");
    fs::write(data.join("format"), "2").expect("write");
    let name = files(&data)
        .into_keys()
        .find(|name| name.starts_with("log-"));
    let path = data.join(name.expect("a segment"));
    let mut bytes = fs::read(&path).expect("read");
    bytes[600] ^= 1;
    fs::write(&path, bytes).expect("write");
    assert_eq!(code(&data), "store_damaged");
    let copied = backup(
        &data,
        &folder.path().join("copy"),
        &mut |_, _, _| Ok(()),
        &mut |_| {},
    );
    assert_eq!(copied.expect_err("damaged").code(), "store_damaged");
    let names = files_beside(folder.path());
    assert_eq!(
        names,
        BTreeSet::from(["data".to_owned()]),
        "nothing is left"
    );
}

fn files_beside(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("read");
    let names = entries.map(|entry| entry.expect("entry").file_name().into_string());
    names.map(|name| name.expect("text")).collect()
}

#[test]
fn a_copy_has_all_and_is_restored() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    let mut log = open(&at("data"));
    log.identity([5; 32]).expect("identity");
    count(&mut log, 0, 200);
    let mut told = Vec::new();
    // The log is still open. A name may end with a slash.
    let report = backup(
        &at("data"),
        &at("copy/"),
        &mut |_, _, _| Ok(()),
        &mut |progress| told.push(progress),
    );
    let report = report.expect("backup");
    assert_eq!(report.commits.1, log.last_commit());
    assert!(report.has_identity && report.segments == told.len());
    count(&mut log, 200, 10);
    drop(log);
    let kept = files(&at("copy"));
    assert!(!kept.contains_key("lock"));
    fs::create_dir(at("again")).expect("an empty folder may be there");
    let restored = backup(
        &at("copy"),
        &at("again"),
        &mut |_, _, _| Ok(()),
        &mut |_| {},
    )
    .expect("restore");
    assert_eq!(restored, report);
    assert_eq!(files(&at("copy")), kept);
    assert_eq!(counted(&at("again")), 199);
    assert_eq!(
        open(&at("again")).identity([0; 32]).expect("identity"),
        [5; 32]
    );
    assert_eq!(counted(&at("data")), 209);
    let names = files_beside(around.path());
    assert_eq!(names.len(), 3, "{names:?}");
    let copied = backup(
        &at("data"),
        &at("none/.."),
        &mut |_, _, _| Ok(()),
        &mut |_| {},
    );
    assert_eq!(copied.expect_err("no name").code(), "store_io");
}

#[cfg(unix)]
#[test]
fn a_copy_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let around = tempfile::tempdir().expect("temporary folder");
    let (data, copy) = (around.path().join("data"), around.path().join("copy"));
    open(&data).identity([1; 32]).expect("identity");
    fs::write(data.join("tickets.json"), "{}").expect("write");
    fs::write(data.join("addresses.json"), "[]").expect("write");
    fs::write(data.join("token"), "secret").expect("write");
    backup(&data, &copy, &mut |_, _, _| Ok(()), &mut |_| {}).expect("backup");
    // The ledger of tickets is copied, and so are the addresses of nodes that can bring newer
    // changes.
    let copied = |name| fs::read_to_string(copy.join(name));
    assert_eq!(copied("tickets.json").expect("copied"), "{}");
    assert_eq!(copied("addresses.json").expect("copied"), "[]");
    assert!(!copy.join("token").exists());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&copy), 0o700);
    for name in files(&copy).keys() {
        assert_eq!(mode(&copy.join(name)), 0o600, "{name}");
    }
}

#[test]
fn addresses_of_other_nodes_are_no_reason_to_fail() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    open(&at("data")).identity([1; 32]).expect("identity");
    let copied = |name: &str| backup(&at("data"), &at(name), &mut |_, _, _| Ok(()), &mut |_| {});
    copied("before").expect("without any");
    assert!(!at("before/addresses.json").exists());
    fs::create_dir(at("data/addresses.json")).expect("make");
    copied("spoilt").expect("without those that can't be read");
    assert!(!at("spoilt/addresses.json").exists());
    // An interrupted copy may have left such files.
    fs::create_dir(at("copy.part")).expect("make");
    fs::write(at("copy.part/addresses.json"), "{").expect("write");
    fs::write(at("copy.part/addresses.json.new"), "{").expect("write");
    copied("copy").expect("backup");
}

#[test]
fn nothing_is_overwritten() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    let mut log = open(&at("data"));
    count(&mut log, 0, 5);
    fs::create_dir(at("full")).expect("make");
    fs::write(at("full/mine"), "precious").expect("write");
    fs::write(at("file"), "precious").expect("write");
    fs::create_dir(at("copy.part")).expect("make");
    fs::write(at("copy.part/mine"), "precious").expect("write");
    for name in ["full", "file", "copy"] {
        let copied = backup(&at("data"), &at(name), &mut |_, _, _| Ok(()), &mut |_| {});
        assert_eq!(
            copied.expect_err("refused").code(),
            "store_exists",
            "{name}"
        );
        let restored = backup(&at("data"), &at(name), &mut |_, _, _| Ok(()), &mut |_| {});
        assert_eq!(
            restored.expect_err("refused").code(),
            "store_exists",
            "{name}"
        );
    }
    assert_eq!(fs::read(at("copy.part/mine")).expect("read"), b"precious");
    // The files of an interrupted copy do not block a new one.
    fs::remove_file(at("copy.part/mine")).expect("remove");
    fs::write(at("copy.part/log-0000000000000001"), "half").expect("write");
    fs::write(at("copy.part/identity.new"), "half").expect("write");
    backup(&at("data"), &at("copy"), &mut |_, _, _| Ok(()), &mut |_| {}).expect("backup");
    assert!(!at("copy.part").exists());
    assert_eq!(counted(&at("copy")), 4);
}

#[test]
fn a_copy_is_not_made_within_the_folder_that_it_is_of() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    count(&mut open(&at("data")), 0, 5);
    std::os::unix::fs::symlink(at("data"), at("link")).expect("link");
    let before = fs::read_dir(at("data")).expect("list").count();
    for name in ["data/copy", "data/../data/deep/copy", "link/copy"] {
        let copied = backup(&at("data"), &at(name), &mut |_, _, _| Ok(()), &mut |_| {});
        let error = copied.expect_err("refused");
        assert_eq!(error.code(), "store_within", "{name}");
    }
    assert_eq!(fs::read_dir(at("data")).expect("list").count(), before);
    // A folder whose name only begins alike is another folder.
    backup(
        &at("data"),
        &at("data2"),
        &mut |_, _, _| Ok(()),
        &mut |_| {},
    )
    .expect("backup");
}

#[test]
fn a_copy_that_was_cut_short_is_no_data_folder() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    count(&mut open(&at("data")), 0, 50);
    backup(&at("data"), &at("copy"), &mut |_, _, _| Ok(()), &mut |_| {}).expect("backup");
    fs::remove_file(at("copy/format")).expect("remove");
    let refused = Log::open(&at("copy"), &mut |_| {}).err().expect("refused");
    assert_eq!(refused.code(), "store_damaged");
}

/// A folder in which a node works whenever its files are listed.
struct Busy {
    disk: Played,
    log: Mutex<RefCell<Option<Log>>>,
    listed: AtomicU64,
}

impl Folder for Busy {
    fn path(&self) -> &Path {
        self.disk.path()
    }

    fn lock(&mut self) -> io::Result<bool> {
        self.disk.lock()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = self.disk.names();
        let log = self.log.lock().expect("no panic");
        let round = self.listed.fetch_add(1, Ordering::Relaxed);
        if let Some(log) = log.borrow_mut().as_mut().filter(|_| round < 4) {
            count(log, 100 * (round + 1), 100);
        }
        names
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open_to_write(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

#[test]
fn a_folder_that_changes_while_it_is_opened_is_looked_at_again() {
    let disk = Played::new(1);
    let mut log = Log::open_in(Box::new(disk.clone()), SMALL, &mut |_| {}).expect("open");
    count(&mut log, 0, 100);
    let busy = Busy {
        disk,
        log: Mutex::new(RefCell::new(Some(log))),
        listed: AtomicU64::new(0),
    };
    let source = Source::open(Box::new(busy), true, &mut |_| {}).expect("at last");
    // The check of the format lists them, too. The node worked four times, and all its work is
    // there.
    assert_eq!(source.report().spaces[0].space.as_str(), "one");
    assert!(source.report().commits.1 >= 500);
}

#[test]
fn a_copy_of_a_busy_folder_is_a_moment_of_it() {
    let around = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| around.path().join(name);
    let mut log = open(&at("data"));
    count(&mut log, 0, 1);
    let acknowledged = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    /// Sets the flag in any case. Otherwise a failed test would never end.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            for number in 1.. {
                count(&mut log, number, 1);
                acknowledged.store(number, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        for copy in 0..10 {
            let before = acknowledged.load(Ordering::SeqCst);
            let to = at(&format!("copy{copy}"));
            backup(&at("data"), &to, &mut |_, _, _| Ok(()), &mut |_| {}).expect("backup");
            let counted = counted(&to);
            let after = acknowledged.load(Ordering::SeqCst);
            assert!((before..=after + 1).contains(&counted));
        }
    });
}

#[test]
fn a_segment_that_is_only_ready_is_not_copied() {
    let around = tempfile::tempdir().expect("temporary folder");
    let (data, copy) = (around.path().join("data"), around.path().join("copy"));
    let mut log = open(&data);
    log.commit(&[record("one", Kind::Change, &[1; 300])])
        .expect("commit");
    while log.prepare().expect("prepare") {}
    let report = check(&data, &mut |_, _, _| Ok(()), &mut |_| {}).expect("whole");
    assert_eq!(report.segments, 2);
    let report = backup(&data, &copy, &mut |_, _, _| Ok(()), &mut |_| {}).expect("backup");
    assert_eq!(report.segments, 1);
}
