//! The store: it keeps a node's identity and state across a stop.
//!
//! The driver gives changes to a [`Worker`], which makes them durable in a [`Store`]. On a quick
//! disk it does so at once, and otherwise on a thread of its own while the driver continues.
//! [`Log`] is the real store, a log of its own format in the data folder. [`Memory`] stores nothing
//! beyond the process. The store of a space is a list of records, oldest first. Replayed in order
//! into an empty replica, they give the state. [`Kind`] describes each kind of record.
//!
//! Stored bytes have a version of their own ([`FORMAT`]), separate from the wire's. Until 1.0 the
//! format may change without a way to read older folders. A node raises the version of a folder of
//! [`FORMAT_MIN`]. It reports any other one, and leaves that folder unchanged. `frame` defines the bytes, and `read` defines which logs
//! are whole, torn or damaged.
//!
//! # Guarantees
//! - A commit is there as a whole after a crash, or not at all, and commits are read in their
//!   order. The end of a log that was torn by a crash is cut off; a log that is damaged elsewhere is
//!   not opened, and the error names the file and the place. `read` says what it cannot tell apart.
//! - A [`Worker`] reports a commit as durable after the system has reported that its bytes are on
//!   the device, and never while the folder is another one than was locked (`health`).
//! - A full disk or a failed write ends the store: nothing is written after a failure.
//!
//! `tests/power.rs` plays a failure and a loss of power at each write of a simulated disk (`played`),
//! `tests/damage.rs` changes stored bytes, and `tests.rs` and `worker/tests.rs` hold the other two.
//!
//! # Format
//! A folder has segments whose size is set when they are made, zeroed before use. A segment is a list of frames, and a
//! frame is one commit: its length, checksums, and its records, each with the name of its space
//! and its kind (`segment`, `frame`). A snapshot of a space is records, too. Segments of which no
//! record is needed any more are removed (`live`).
//!
//! # Why an own log
//! The state is in memory anyway, so a batch of work needs only one durable write. For that, redb
//! and LMDB write 17 to 29 KB to the device, and this log 4 KB (`docs/reports/store.md`).
//!
//! fjall is the one to weigh. It could carry about 1,900 of the 3,900 lines here (segments, frames,
//! reading, snapshots); it makes the same number of small commits a second, and 1.2 to 1.4 times
//! fewer with 50 and 1,000 records in each. It would cost the tests of these guarantees: it
//! opens its files by itself, and has no place for a disk that tears, lies or stops. So the log
//! stays.

mod copy;
mod durability;
mod files;
mod frame;
mod health;
mod live;
mod log;
mod memory;
mod places;
#[cfg(test)]
mod played;
mod read;
mod segment;
#[cfg(test)]
mod tests;
mod worker;

pub use copy::{EachOfSpace, Report, SpaceReport, backup, check};
pub use durability::Durability;
pub use health::Health;
pub use health::Trouble;
pub use log::IDENTITY as IDENTITY_FILE;
pub use log::Log;
pub use memory::Memory;
pub use read::Torn;
pub use worker::{Committed, Worker};

use files::Disk;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tallymesh_core::Space;

/// The version of the stored bytes that this build writes. Version 3 added keyed operations, and version 4
/// bundles of transactions.
pub const FORMAT: u32 = 4;

/// The oldest version of the stored bytes that this build reads. When a folder is opened for
/// writing, it gets the version [`FORMAT`].
pub const FORMAT_MIN: u32 = 2;

/// Most bytes of one commit: all of its records with their names. A reader rejects a longer length.
pub const COMMIT_BYTES_MAX: u64 = 1 << 30;

/// The file in the data folder with the tickets of the node, and with revocations.
pub const LEDGER_FILE: &str = "tickets.json";

/// Largest such file that is read. A file at all its bounds is smaller.
pub const LEDGER_BYTES_MAX: u64 = 128 << 20;

/// The file in the data folder with the nonces of the node's writers.
pub const WRITERS_FILE: &str = "writers.json";

/// Largest such file that is read. A file with the most possible spaces is smaller.
pub const WRITERS_BYTES_MAX: u64 = 128 << 20;

/// The file in the data folder that has the addresses of other nodes.
pub const ADDRESSES_FILE: &str = "addresses.json";

/// Largest file of addresses that is read.
pub const ADDRESSES_BYTES_MAX: u64 = 16 << 20;

/// The file in the data folder that names the starts which ran in this place. It is in no backup.
pub const PLACE_FILE: &str = "place.json";

/// Largest such file that is read. A file with the most possible spaces is smaller.
pub const PLACE_BYTES_MAX: u64 = 128 << 20;

/// The place of a store, and what it knows of its own end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The identity of the lock file, which this process has locked. No copy of the folder has it.
    pub lock: String,
    /// Whether nothing is missing at the end of the log, as far as the log and the lock file say. A commit
    /// that was under way at the last stop may have been durable.
    pub whole: bool,
}

/// Writes a small file that receives its own identity, so that no copy of it passes for it. Afterwards the file
/// is either whole and durable, or unchanged.
pub fn write_own(folder: &Path, name: &str, bytes: &dyn Fn(&str) -> Vec<u8>) -> io::Result<()> {
    files::check(folder).map_err(io::Error::other)?;
    files::write_own(folder, name, bytes)
}

/// Reads such a file, with its present identity. Returns `None` if it is missing.
pub fn read_own(
    folder: &Path,
    name: &str,
    bytes_max: u64,
) -> io::Result<Option<(Vec<u8>, String)>> {
    files::read_own(folder, name, bytes_max)
}

/// Reads a small file beside the store's own. Returns `None` if it is missing, and an error if it
/// is longer than `bytes_max`.
pub fn read_small(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    files::read_small(&Disk::at(folder), name, bytes_max)
}

/// Writes a small file beside the store's own, readable by its owner alone. Afterwards the file is
/// either whole and durable, or unchanged.
pub fn write_small(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    files::check(folder).map_err(io::Error::other)?;
    files::write_small(&Disk::at(folder), name, bytes)
}

/// The kind of a record.
///
/// A snapshot is either one `Whole`, or a `First`, any number of `Part`s and a `Last`. Any commits,
/// `Change`s and `Adds` may stand between them. A snapshot replaces all records of its space before
/// its last record. So it must contain all changes up to that record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The changes since the previous record, as a message.
    Change,
    /// The changes since the previous record, as plain adds: see
    /// [`tallymesh_core::Replica::adds_since`].
    Adds,
    /// A snapshot in one piece. An empty one means that the space was empty before; [`Store::load`]
    /// does not pass it on.
    Whole,
    /// The first part of a snapshot. A snapshot without its `Last` has no effect.
    First,
    /// A further part. It is an error unless this process began a snapshot of the space, and wrote
    /// no `Whole` since.
    Part,
    /// The last part, under the same condition.
    Last,
}

/// One record of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The space whose state this is.
    pub space: Space,
    /// The kind of the record.
    pub kind: Kind,
    /// The encoded content.
    pub bytes: Vec<u8>,
}

/// The description that [`Store::load`] passes with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// The kind of the record.
    pub kind: Kind,
    /// Bytes of the space that were passed on so far, including this record.
    pub done: u64,
    /// Bytes of the space in all.
    pub total: u64,
}

/// The receiver of records. It may stop the reading with an error.
pub type Each<'a> = dyn FnMut(RecordInfo, &[u8]) -> Result<(), StoreError> + 'a;

/// The progress of a long piece of work, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A place for an identity and for the records of spaces. One process uses it at a time.
pub trait Store: Send {
    /// The secret key of this node: the stored one, or else `fresh`, which is then stored.
    ///
    /// # Errors
    /// When the place can't be read or written.
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Whether the records outlive the process. A node without such a store is never a member of a
    /// space.
    fn is_durable(&self) -> bool;

    /// The place of the store, where it has one that no copy shares.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Passes on the parts of the last finished snapshot of `space`, if there is one, and then the
    /// changes after it, oldest first. It stops at the first error of `each`.
    ///
    /// [`Store::wants_snapshot`] names only spaces that were loaded, or committed to, since the
    /// store was opened.
    ///
    /// # Errors
    /// When the place can't be read, or the error of `each`.
    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError>;

    /// Stores all of `records`, or none of them. After `Ok` they survive a crash of the process and
    /// of the machine.
    ///
    /// # Errors
    /// When they could not be made durable. Whether they are stored is then unclear until the store
    /// is opened again, and each later commit fails with the same error. A commit that is too large
    /// changes nothing, and later ones may succeed.
    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError>;

    /// Checks that the place is still the one that was opened. The caller of a commit checks before
    /// and after it, and acknowledges nothing that went to another place.
    ///
    /// # Errors
    /// The text says what happened to the place.
    fn check_folder(&self) -> Result<(), String> {
        Ok(())
    }

    /// The space that should be stored as a fresh snapshot, so that old records can be deleted.
    /// While a snapshot of a space is unfinished, the store does not request another one. A caller
    /// that gives a snapshot up has to begin a new one.
    fn wants_snapshot(&self) -> Option<Space>;

    /// Whether there is work that can wait for an idle moment.
    fn has_idle_work(&self) -> bool;

    /// Does a few milliseconds of the work that can wait. Returns whether there is more.
    ///
    /// # Errors
    /// As for [`Store::commit`], with the same consequence.
    fn prepare(&mut self) -> Result<bool, StoreError>;
}

/// The reason why the store could not do a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the folder open.
    InUse {
        /// The data folder.
        folder: PathBuf,
    },
    /// The folder was written by a build with another format.
    Format {
        /// The data folder.
        folder: PathBuf,
        /// The version found there.
        found: u32,
    },
    /// The folder, or its lock, is no longer the one that was opened.
    Lost {
        /// The data folder, and what happened to it.
        problem: String,
    },
    /// The folder has no store in it.
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The named path, or the place for it, is no folder.
    NotAFolder {
        /// The named path.
        path: PathBuf,
    },
    /// A folder that was to be created exists, and is not empty.
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// A copy was to be created within its own source folder, and would be lost with it.
    Within {
        /// The target of the copy.
        to: PathBuf,
        /// The folder to copy.
        from: PathBuf,
    },
    /// A stored record could not be read.
    Record {
        /// The space it belongs to.
        space: Space,
        /// The problem with it.
        problem: String,
    },
    /// A snapshot was to be continued that was not begun.
    NotBegun {
        /// Its space.
        space: Space,
    },
    /// A commit was larger than a commit may be.
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// The stored data is not whole.
    Damaged {
        /// The data folder.
        folder: PathBuf,
        /// The problem: the file, the place in it, and the expected content.
        problem: String,
    },
    /// A panic may have left the state in memory half changed. Nothing of it was written.
    HalfChanged {
        /// The space; `None` if it may be any.
        space: Option<Space>,
    },
    /// Reading or writing failed.
    Io {
        /// The failed action, as in "could not ...".
        doing: String,
        /// The error text of the system.
        problem: String,
    },
}

impl StoreError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::InUse { .. } => "store_in_use",
            StoreError::Format { .. } => "store_format",
            StoreError::Lost { .. } => "store_lost",
            StoreError::Missing { .. } => "store_missing",
            StoreError::NotAFolder { .. } => "store_not_a_folder",
            StoreError::Exists { .. } => "store_exists",
            StoreError::Within { .. } => "store_within",
            StoreError::Record { .. } => "store_record",
            StoreError::NotBegun { .. } => "store_not_begun",
            StoreError::TooLarge { .. } => "store_too_large",
            StoreError::Damaged { .. } => "store_damaged",
            StoreError::HalfChanged { .. } => "half_changed",
            StoreError::Io { .. } => "store_io",
        }
    }

    fn io(doing: impl Into<String>, problem: impl fmt::Display) -> StoreError {
        StoreError::Io {
            doing: doing.into(),
            problem: problem.to_string(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::InUse { folder } => write!(
                f,
                "the data folder {} is in use by another process: stop that node, or give this \
                 one a folder of its own with --data",
                folder.display()
            ),
            StoreError::Format { folder, found } => write!(
                f,
                "the data folder {} has format {found}, and this build reads formats {FORMAT_MIN} to {FORMAT}: \
                 use the build that wrote it, or start with an empty folder, which the peers fill",
                folder.display()
            ),
            StoreError::Lost { problem } => write!(
                f,
                "{problem}. What was not acknowledged since is not kept: look who else uses the \
                 folder, put it back, and start again"
            ),
            StoreError::NotAFolder { path } => write!(
                f,
                "{} is no folder, or a part of its path is none: a data folder or a backup was expected; name \
                 a folder",
                path.display()
            ),
            StoreError::Missing { folder } => write!(
                f,
                "the folder {} holds no state of a node: name the folder that a node was started \
                 with, or a backup of one",
                folder.display()
            ),
            StoreError::Exists { folder } => write!(
                f,
                "the folder {} is not empty, and nothing in it is overwritten: name one that does \
                 not exist, or move this one away",
                folder.display()
            ),
            StoreError::Within { to, from } => write!(
                f,
                "a copy at {} would be lost with the folder {} that it is of: name a place outside \
                 of it",
                to.display(),
                from.display()
            ),
            StoreError::Record { space, problem } => write!(
                f,
                "a stored record of space `{space}` can't be used ({problem}): the data folder is \
                 damaged, so start with a backup or with an empty one, which the peers fill"
            ),
            StoreError::NotBegun { space } => write!(
                f,
                "a part of a snapshot of space `{space}` was to be kept, and none was begun: this \
                 is a fault of the program, so report it"
            ),
            StoreError::TooLarge { bytes } => write!(
                f,
                "{bytes} bytes are more than the {COMMIT_BYTES_MAX} that one commit may keep: \
                 write the snapshot in parts"
            ),
            StoreError::Damaged { folder, problem } => write!(
                f,
                "the data folder {} is damaged ({problem}): move it away, and start with a backup \
                 or with an empty folder, which the peers fill",
                folder.display()
            ),
            StoreError::HalfChanged { space } => {
                let space = space.as_ref().map_or("every space", |it| it.as_str());
                write!(
                    f,
                    "a fault of the program may have left space `{space}` half changed in memory; \
                     nothing of that was written, answered or sent. Start the node again, and \
                     report what the log says before this"
                )
            }
            StoreError::Io { doing, problem } => write!(
                f,
                "could not {doing}: {problem}. Look at the disk's free space and the folder's \
                 permissions, then start again"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
