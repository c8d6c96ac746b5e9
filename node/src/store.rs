//! Where a node's identity and state survive a stop.
//!
//! The driver sees the [`Store`] trait only. [`Disk`] is the real one; [`Memory`] is for tests,
//! which can make it fail. What is kept for a space is a list of records, oldest first, each of
//! them one encoded [`tallymesh_core::Message`]: replayed in order into an empty replica they
//! give the state. A replacing record stands for everything before it.
//!
//! Stored bytes have a version of their own ([`FORMAT`]), apart from the wire's. Until 1.0 the
//! format may change without a way to read older folders; a node that meets another version says
//! so and leaves the folder as it was.

mod disk;
mod memory;

pub use disk::Disk;
pub use memory::Memory;

use std::fmt;
use std::path::PathBuf;
use tallymesh_core::Space;

/// The version of the stored bytes that this build reads and writes.
pub const FORMAT: u32 = 1;

/// One record to be kept, of one space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The space whose state this is.
    pub space: Space,
    /// One encoded message.
    pub bytes: Vec<u8>,
    /// Whether all earlier records of the space are dropped: `bytes` is the whole state.
    pub replaces: bool,
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

    /// Hands every record of `space` to `each`, oldest first, and stops at its first error.
    ///
    /// # Errors
    /// When the place can't be read, or what `each` returned.
    fn load(
        &mut self,
        space: &Space,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Keeps all of `records`, or none of them. When it returns `Ok` they survive a crash of the
    /// process and of the machine.
    ///
    /// # Errors
    /// When they could not be made durable. What is kept is then not known, and the caller must
    /// not go on writing.
    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError>;
}

/// Why the store did not do what it was asked for.
#[derive(Debug)]
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
    /// A kept record could not be understood.
    Record {
        /// The space it belongs to.
        space: Space,
        /// What is wrong with it.
        problem: String,
    },
    /// The data file is not whole.
    Damaged {
        /// The data folder.
        folder: PathBuf,
        /// What the database says.
        problem: String,
    },
    /// Reading or writing failed.
    Io {
        /// What was being done, as "could not ...".
        doing: String,
        /// What the system or the database says.
        problem: String,
    },
}

impl StoreError {
    /// A stable name of the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::InUse { .. } => "store_in_use",
            StoreError::Format { .. } => "store_format",
            StoreError::Record { .. } => "store_record",
            StoreError::Damaged { .. } => "store_damaged",
            StoreError::Io { .. } => "store_io",
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
                "the data folder {} has format {found}, and this build reads format {FORMAT}: \
                 use the build that wrote it, or start with an empty folder",
                folder.display()
            ),
            StoreError::Record { space, problem } => write!(
                f,
                "a stored record of space `{space}` can't be used ({problem}): the data folder is \
                 damaged, so start with an empty one and let the peers fill it"
            ),
            StoreError::Damaged { folder, problem } => write!(
                f,
                "the data folder {} is damaged ({problem}): move it away, and start with a backup \
                 or with an empty folder, which the peers fill",
                folder.display()
            ),
            StoreError::Io { doing, problem } => write!(
                f,
                "could not {doing}: {problem}. Look at the disk's free space and the folder's \
                 permissions, then start again"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
