//! Where a node's identity and state survive a stop.
//!
//! The driver gives what changed to a [`Worker`], which makes it durable in a [`Store`]: at once if
//! the disk is quick, and else on a thread of its own while the driver goes on. [`Log`] is the real
//! store, a log of its own format in the data folder; [`Memory`] keeps nothing beyond the process.
//! What is kept for a space is a list of records, oldest first: replayed in order into an empty
//! replica they give the state. [`Kind`] says what each stands for.
//!
//! Why not a kept store: the state lives in memory anyway, so all that is wanted is one durable
//! write for each batch of work. redb and LMDB write 36 KB to the device for that, fjall and a
//! file that grows 8 KB, and zeroed segments of fixed size 4 KB, in half the time.
//!
//! Stored bytes have a version of their own ([`FORMAT`]), apart from the wire's. Until 1.0 the
//! format may change without a way to read older folders; a node that meets another version says
//! so and leaves the folder as it was. `frame` has the bytes, `read` says what is taken for whole,
//! torn and damaged.

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
pub(crate) use health::Trouble;
pub(crate) use log::IDENTITY as IDENTITY_FILE;
pub use log::Log;
pub use memory::Memory;
pub use read::Torn;
pub use worker::{Committed, Worker};

use files::Disk;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use tallymesh_core::Space;

/// The version of the stored bytes that this build writes. Since 3 there are keyed operations.
pub const FORMAT: u32 = 3;

/// The oldest version of the stored bytes that this build reads. A folder is raised to [`FORMAT`]
/// when it is opened to be written.
pub const FORMAT_MIN: u32 = 2;

/// Most bytes of one commit, all of its records with their names. A length beyond that is never
/// believed.
pub const COMMIT_BYTES_MAX: u64 = 1 << 30;

/// The file in the data folder that has what the node's writers were minted with.
pub(crate) const WRITERS_FILE: &str = "writers.json";

/// Largest such file that is read: one with as many spaces as may be is smaller.
pub(crate) const WRITERS_BYTES_MAX: u64 = 128 << 20;

/// The file in the data folder that has the addresses of other nodes.
pub(crate) const ADDRESSES_FILE: &str = "addresses.json";

/// Largest file of addresses that is read.
pub(crate) const ADDRESSES_BYTES_MAX: u64 = 16 << 20;

/// All bytes of a small file beside the store's own, or nothing if it is missing. It is not read if it
/// is longer than `bytes_max`.
pub(crate) fn read_small(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    files::read_small(&Disk::at(folder), name, bytes_max)
}

/// Writes a small file beside the store's own, for its owner alone, so that it is there whole and
/// durable, or as it was before.
pub(crate) fn write_small(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    files::check(folder).map_err(io::Error::other)?;
    files::write_small(&Disk::at(folder), name, bytes)
}

/// What a record stands for.
///
/// A snapshot is either one `Whole`, or a `First`, any number of `Part`s and a `Last`, with any
/// commits, `Change`s and `Adds` between them. It takes the place of all that was kept of its space
/// before its last record, which therefore has to know all changes up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What changed since the record before, as a message.
    Change,
    /// The same, as plain adds: see [`tallymesh_core::Replica::adds_since`].
    Adds,
    /// A snapshot in one piece. An empty one says that nothing was before; it is not handed over
    /// by [`Store::load`].
    Whole,
    /// The first part of a snapshot. One whose `Last` never came is as if it had not been begun.
    First,
    /// A further part. It is an error unless this process began a snapshot of the space, with no
    /// `Whole` since.
    Part,
    /// The last part, under the same condition.
    Last,
}

/// One record to be kept, of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The space whose state this is.
    pub space: Space,
    /// What it stands for.
    pub kind: Kind,
    /// It, encoded.
    pub bytes: Vec<u8>,
}

/// What [`Store::load`] tells with each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What the record stands for.
    pub kind: Kind,
    /// How many bytes of the space were handed over, with this record's.
    pub done: u64,
    /// How many there are in all.
    pub total: u64,
}

/// What records are handed to. It may stop with an error.
pub type Each<'a> = dyn FnMut(Kept, &[u8]) -> Result<(), StoreError> + 'a;

/// How far a long piece of work is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A place for an identity and for the records of spaces. One process at a time uses it.
pub trait Store: Send {
    /// The secret key of this node: the one kept here, or else `fresh`, which is kept from now on.
    ///
    /// # Errors
    /// When the place can't be read or written.
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Whether what is kept outlives the process. A node without that is never a member of a space.
    fn is_durable(&self) -> bool;

    /// Hands over the parts of the last finished snapshot of `space`, if there is one, and then
    /// the changes after it, oldest first. It stops at the first error of `each`.
    ///
    /// Only a space that was loaded, or committed to, since the store was opened is ever named by
    /// [`Store::wants_snapshot`].
    ///
    /// # Errors
    /// When the place can't be read, or what `each` returned.
    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError>;

    /// Keeps all of `records`, or none of them. When it returns `Ok` they survive a crash of the
    /// process and of the machine.
    ///
    /// # Errors
    /// When they could not be made durable. What is kept is then not known; whether they are is
    /// seen when the store is opened again. Each later commit fails with the same error.
    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError>;

    /// Whether the place is still the one that was opened; if not, what became of it. Whoever commits
    /// asks before and after, and acknowledges nothing that was committed to another place.
    ///
    /// # Errors
    /// With what became of it.
    fn standing(&self) -> Result<(), String> {
        Ok(())
    }

    /// The space that should be kept as a fresh snapshot, so that old records can go. While one is
    /// begun and not ended, no other is wanted of that space: whoever gives one up has to begin
    /// anew.
    fn wants_snapshot(&self) -> Option<Space>;

    /// Whether there is work that can wait for an idle moment.
    fn has_idle_work(&self) -> bool;

    /// Does a little of the work that can wait (a few milliseconds of it), and says whether there is
    /// more.
    ///
    /// # Errors
    /// As [`Store::commit`], with the same consequence.
    fn prepare(&mut self) -> Result<bool, StoreError>;
}

/// Why the store did not do what it was asked for.
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
        /// The data folder and what became of it.
        problem: String,
    },
    /// The folder has no store in it.
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// It, or what it is to be in, is no folder.
    NotAFolder {
        /// What was named.
        path: PathBuf,
    },
    /// A folder that was to be made is there, and is not empty.
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// A copy was to be made within the folder that it is of, and would be lost with it.
    Within {
        /// Where the copy was to be.
        to: PathBuf,
        /// The folder to copy.
        from: PathBuf,
    },
    /// A kept record could not be understood.
    Record {
        /// The space it belongs to.
        space: Space,
        /// What is wrong with it.
        problem: String,
    },
    /// A snapshot was to go on that was not begun.
    NotBegun {
        /// The space it is of.
        space: Space,
    },
    /// One commit was to keep more than a commit may.
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// What is kept is not whole.
    Damaged {
        /// The data folder.
        folder: PathBuf,
        /// What is wrong: the file, the place in it, and what was expected.
        problem: String,
    },
    /// A panic may have left what is in memory half changed; nothing of it was written.
    HalfChanged {
        /// The space; `None` if it may be any.
        space: Option<Space>,
    },
    /// Reading or writing failed.
    Io {
        /// What was being done, as "could not ...".
        doing: String,
        /// What the system says.
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
