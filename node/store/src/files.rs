//! The few operations that the store needs from a disk. The real disk is [`Disk`]; tests simulate
//! another.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_node_ground::descriptors::with_spare;

/// A folder of files. Created, renamed and removed names in it are durable after [`Folder::sync`].
pub(super) trait Folder: Send {
    /// The path, for messages.
    fn path(&self) -> &Path;

    /// Locks the folder against other processes until this value is dropped. Returns `false` if
    /// another process has the lock.
    fn lock(&mut self) -> io::Result<bool>;

    /// The identity of the locked lock file, where the system supports it. A copy has another one.
    fn place(&self) -> Option<String> {
        None
    }

    /// The number of the last commit, as the lock file has it. It is 0 if nobody has noted any.
    fn noted_commit(&self) -> io::Result<u64> {
        Ok(0)
    }

    /// Notes in the lock file the number of a commit that is durable. The note itself need not be.
    fn note_commit(&self, _number: u64) -> io::Result<()> {
        Ok(())
    }

    /// Checks that the locked folder still has its name. The error says what happened to it.
    fn check_folder(&self) -> Result<(), String> {
        Ok(())
    }

    /// The identity of the file of this name, where the system supports it.
    fn mark(&self, _name: &str) -> io::Result<Option<Mark>> {
        Ok(None)
    }

    /// The names of all files in the folder. The error is `NotFound` if there is no such folder.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens a file for reading only.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file for reading and writing.
    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file, and replaces a file of this name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file, and replaces a file that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names durable.
    fn sync(&self) -> io::Result<()>;
}

/// A file. One thread uses it at a time, because reads and writes may move a shared position.
pub(super) trait File: Send + Sync {
    /// Its length.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on. The error is `UnexpectedEof` if the file ends before that.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Its identity under any name, where the system supports it.
    fn mark(&self) -> io::Result<Option<Mark>> {
        Ok(None)
    }

    /// Makes all written bytes durable, and the metadata that is needed to read them.
    fn sync(&self) -> io::Result<()>;
}

/// The name of the file whose lock means that a process has the folder open.
const LOCK: &str = "lock";

/// How long a process waits for a lock that another one has. A process that starts a program is two
/// processes for a moment. The second one keeps the locks of the first, even after the first
/// releases them, until the program begins.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A folder of the file system.
pub(super) struct Disk {
    path: PathBuf,
    lock: Option<Lock>,
}

/// The locks of a process on a folder: on the lock file and, where the system supports it, on the
/// folder itself. A lock on the file alone is lost when someone removes the file.
struct Lock {
    /// Dropping it releases the lock.
    file: fs::File,
    _folder: Option<fs::File>,
    place: Option<String>,
}

/// The bytes of a lock file: a random number, where the file has no time of creation, and the number of the
/// last commit. A folder of an earlier build has an empty lock file.
const LOCK_RANDOM: std::ops::Range<usize> = 0..16;
const LOCK_COMMIT: std::ops::Range<usize> = 16..24;

impl Lock {
    fn read(file: &fs::File) -> io::Result<[u8; LOCK_COMMIT.end]> {
        let mut bytes = [0; LOCK_COMMIT.end];
        let whole = file.metadata()?.len() >= bytes.len() as u64;
        if whole {
            file.read_at(0, &mut bytes)?;
        }
        Ok(bytes)
    }
}

/// The identity of a file that no copy of it has: its device, its number there, and when it was created.
/// `None` where the system does not tell these.
#[cfg(unix)]
fn lasting_identity(facts: &fs::Metadata) -> Option<String> {
    let (device, number) = identity(facts);
    let born = facts.created().ok()?;
    let born = born.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!("{device}-{number}-{}", born.as_nanos()))
}

#[cfg(not(unix))]
fn lasting_identity(_: &fs::Metadata) -> Option<String> {
    None
}

/// The identity of a lock file. Where it has no time of creation, a random number in it stands for that.
fn place_of(file: &fs::File) -> io::Result<Option<String>> {
    let facts = file.metadata()?;
    if let Some(place) = lasting_identity(&facts) {
        return Ok(Some(place));
    }
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let mut bytes = Lock::read(file)?;
    if bytes[LOCK_RANDOM].iter().all(|byte| *byte == 0) {
        getrandom::fill(&mut bytes[LOCK_RANDOM]).map_err(io::Error::other)?;
        file.write_at(0, &bytes)?;
        file.sync()?;
    }
    let random: String = bytes[LOCK_RANDOM]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (device, number) = identity(&facts);
    Ok(Some(format!("{device}-{number}-r{random}")))
}

/// The identity of a file under any name.
type Identity = (u64, u64);

/// The mark that shows whether a name still has the same file at full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) identity: Identity,
    pub(super) bytes: u64,
}

impl Mark {
    fn of(facts: &fs::Metadata) -> Mark {
        Mark {
            identity: identity(facts),
            bytes: facts.len(),
        }
    }
}

/// The folders that this process has locked, each with the identities of its lock file and of
/// itself at that time.
static HELD: Mutex<BTreeMap<PathBuf, [Identity; 2]>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<PathBuf, [Identity; 2]>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
fn identity(facts: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (facts.dev(), facts.ino())
}

/// On other systems an open file can't be removed or moved.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {
    (0, 0)
}

/// Checks that a folder is still the one that this process has locked, if it has. The error says
/// what happened to it.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let Some([lock, itself]) = held().get(folder).copied() else {
        return Ok(());
    };
    let one = |path: &Path, what: &str, was: Identity| match fs::metadata(path) {
        Ok(facts) if identity(&facts) == was => Ok(()),
        Ok(_) => Err(format!("{what} {} was replaced by another", path.display())),
        Err(error) => Err(format!("{what} {} is gone: {error}", path.display())),
    };
    one(folder, "the data folder", itself)?;
    one(&folder.join(LOCK), "the lock of the data folder,", lock)
}

/// Tries to lock a file or a folder for some time. Returns `false` if another process has the lock.
fn lock_in_time(file: &fs::File) -> io::Result<bool> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(LOCK_PAUSE);
            }
            Err(fs::TryLockError::WouldBlock) => return Ok(false),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.lock.is_some() {
            held().remove(&self.path);
        }
    }
}

impl Disk {
    /// The folder at `path`, which need not exist.
    pub(super) fn at(path: &Path) -> Disk {
        Disk {
            path: path.to_path_buf(),
            lock: None,
        }
    }

    /// Creates the folder if it is missing, accessible by its owner alone, because it will contain
    /// the node's secret key.
    pub(super) fn make(&self) -> io::Result<()> {
        let missing = self.path.ancestors().take_while(|it| !it.exists());
        let made: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.path)?;
        made.iter().try_for_each(|folder| sync_parent(folder))
    }
}

/// Makes the name of a folder durable in its parent folder.
pub(super) fn sync_parent(folder: &Path) -> io::Result<()> {
    match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// On systems other than Unix a folder can't be opened for a sync, and needs none.
fn sync_folder(path: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => with_spare(|| fs::File::open(path))?.sync_all(),
        false => Ok(()),
    }
}

/// Options that create files accessible by their owner alone.
fn to_write() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a regular file, and refuses everything else. To open a pipe waits for its other end, and a
/// device stores nothing.
fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags);
    }
    let file = with_spare(|| options.open(path))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe, a device, a socket or a folder, where a file belongs",
        )),
    }
}

impl Folder for Disk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&mut self) -> io::Result<bool> {
        let path = self.path.join(LOCK);
        let file = open_regular(to_write().create(true).truncate(false), &path)?;
        if !lock_in_time(&file)? {
            return Ok(false);
        }
        // The folder is locked, too, because the file may be removed while a process has it locked.
        // Some network file systems can't lock folders.
        let folder = match cfg!(unix) {
            true => Some(fs::File::open(&self.path)?),
            false => None,
        };
        if let Some(folder) = &folder
            && lock_in_time(folder).is_ok_and(|locked| !locked)
        {
            return Ok(false);
        }
        let itself = fs::metadata(&self.path)?;
        let ids = [identity(&file.metadata()?), identity(&itself)];
        held().insert(self.path.clone(), ids);
        // A lock without a known place is a lock, too.
        let place = place_of(&file).ok().flatten();
        self.lock = Some(Lock {
            file,
            _folder: folder,
            place,
        });
        Ok(true)
    }

    fn place(&self) -> Option<String> {
        self.lock.as_ref()?.place.clone()
    }

    fn noted_commit(&self) -> io::Result<u64> {
        let Some(lock) = &self.lock else {
            return Ok(0);
        };
        let bytes = Lock::read(&lock.file)?;
        let number = bytes[LOCK_COMMIT].try_into();
        Ok(number.map_or(0, u64::from_le_bytes))
    }

    fn note_commit(&self, number: u64) -> io::Result<()> {
        match &self.lock {
            Some(lock) => lock
                .file
                .write_at(LOCK_COMMIT.start as u64, &number.to_le_bytes()),
            None => Ok(()),
        }
    }

    fn check_folder(&self) -> Result<(), String> {
        check(&self.path)
    }

    fn mark(&self, name: &str) -> io::Result<Option<Mark>> {
        let facts = fs::symlink_metadata(self.path.join(name))?;
        Ok(Some(Mark::of(&facts)))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in with_spare(|| fs::read_dir(&self.path))? {
            // A name that is not UTF-8 is no file of the store.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.path.join(name);
        Ok(Arc::new(open_regular(
            fs::File::options().read(true),
            &path,
        )?))
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.path.join(name);
        Ok(Arc::new(open_regular(&mut to_write(), &path)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.path.join(name);
        let file = open_regular(to_write().create(true).truncate(true), &path)?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync_folder(&self.path)
    }
}

impl File for fs::File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn mark(&self) -> io::Result<Option<Mark>> {
        Ok(Some(Mark::of(&self.metadata()?)))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Reads a small file. Returns `None` if it is missing, and an error if it is longer than
/// `bytes_max`.
pub(super) fn read_small(
    folder: &dyn Folder,
    name: &str,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    let file = match folder.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let bytes = file.bytes()?;
    if bytes > bytes_max {
        let problem = format!("it has {bytes} bytes, and never has more than {bytes_max}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    let mut buffer = vec![0; bytes as usize];
    file.read_at(0, &mut buffer)?;
    Ok(Some(buffer))
}

/// Writes a small file so that it exists whole and durable, or not at all.
pub(super) fn write_small(folder: &dyn Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = format!("{name}{NEW}");
    let file = folder.create(&new)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    folder.rename(&new, name)?;
    folder.sync()
}

/// The identity of a small file that [`write_own`] writes. Where it has no time of creation, its number alone
/// tells it from most copies.
fn own_identity(facts: &fs::Metadata) -> String {
    let (device, number) = identity(facts);
    lasting_identity(facts).unwrap_or(format!("{device}-{number}"))
}

/// Writes a small file as [`write_small`] does. The file receives its own identity, which no copy of it has.
/// So a reader can tell the file from a copy, and from an older one that was written over it.
pub(super) fn write_own(
    folder: &Path,
    name: &str,
    bytes: &dyn Fn(&str) -> Vec<u8>,
) -> io::Result<()> {
    let new = folder.join(format!("{name}{NEW}"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = open_regular(to_write().create_new(true), &new)?;
    file.write_at(0, &bytes(&own_identity(&file.metadata()?)))?;
    file.sync()?;
    fs::rename(&new, folder.join(name))?;
    sync_folder(folder)
}

/// Reads such a file, with its identity.
pub(super) fn read_own(
    folder: &Path,
    name: &str,
    bytes_max: u64,
) -> io::Result<Option<(Vec<u8>, String)>> {
    let Some(bytes) = read_small(&Disk::at(folder), name, bytes_max)? else {
        return Ok(None);
    };
    let facts = fs::symlink_metadata(folder.join(name))?;
    Ok(Some((bytes, own_identity(&facts))))
}

/// The suffix of files that are not whole yet.
pub(super) const NEW: &str = ".new";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_child_keeps_for_a_moment_is_waited_for() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut one = Disk::at(folder.path());
        assert!(one.lock().expect("lock"));
        // A child process has this descriptor until it becomes another program.
        let kept = one.lock.as_ref().expect("locked").file.try_clone();
        let kept = kept.expect("a second descriptor");
        drop(one);
        let mut two = Disk::at(folder.path());
        let child = thread::spawn(move || {
            thread::sleep(LOCK_PAUSE);
            drop(kept);
        });
        assert!(two.lock().expect("lock"), "nobody uses it any more");
        child.join().expect("the child ends");
        assert!(!Disk::at(folder.path()).lock().expect("lock"), "in use");
    }
}
