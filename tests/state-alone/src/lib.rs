//! The state of the core, compiled alone: `core/src/state/`, the ground modules that it names, and nothing
//! else of the core. The errors below are all that the state, and a name of a space, can refuse.

#![no_std]
#![forbid(unsafe_code)]
// The layers above call what is not used here.
#![allow(dead_code, unreachable_pub, missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Files of the core, in place.
#[path = "../../../core/src"]
mod core_src {
    pub(crate) mod bounds;
    pub(crate) mod expired;
    pub(crate) mod hash;
    pub(crate) mod list;
    pub(crate) mod numbers;
    pub(crate) mod optional;
    pub(crate) mod recent;
    pub(crate) mod sheet;
    pub(crate) mod sort;
    pub(crate) mod state;
    pub(crate) mod vector;
    #[path = "error/write.rs"]
    pub(crate) mod write_error;
    pub(crate) mod writer_id;
}

pub(crate) use core_src::list::list;
pub(crate) use core_src::{
    bounds, expired, hash, numbers, optional, recent, sheet, sort, state, vector, writer_id,
};

/// The errors that these files make: of all boundaries, only the one of writes.
mod error {
    pub use crate::core_src::write_error::WriteError;

    /// The reason why an operation or a delta was refused.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Error {
        Write(WriteError),
    }

    impl From<WriteError> for Error {
        fn from(error: WriteError) -> Error {
            Error::Write(error)
        }
    }

    /// The detail of an error, as it is.
    pub type Detail<T> = T;

    /// Makes the detail of an error.
    pub(crate) fn detail<T>(value: T) -> Detail<T> {
        value
    }
}
