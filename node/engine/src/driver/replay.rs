//! Brings a replica to the state of a store.

use super::nonces::Nonces;
use std::path::Path;
use tallymesh_core::{Encode, Error, Message, Replica, Restoring, Space, WriterId};
use tallymesh_node_store::{Kind, StoreError};

/// Reads the files beside the log as a start does.
///
/// # Errors
/// The reason for which a start would be refused.
pub fn check_files(folder: &Path) -> Result<(), StoreError> {
    Nonces::open(Some(folder.to_path_buf())).map(drop)
}

/// Builds a replica from the stored records of its space, the oldest first.
pub struct Replay {
    space: Space,
    writer: WriterId,
    /// A snapshot of which some parts have arrived.
    restoring: Option<Restoring>,
    replica: Option<Replica>,
}

impl Replay {
    /// Begins without state. `writer` must be freshly minted.
    pub fn new(space: Space, writer: WriterId) -> Replay {
        Replay {
            space,
            writer,
            restoring: None,
            replica: None,
        }
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// When the record can't be used: the store is damaged.
    pub fn take(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), StoreError> {
        self.try_take(kind, bytes)
            .map_err(|error| StoreError::Record {
                space: self.space.clone(),
                problem: error.to_string(),
            })
    }

    fn try_take(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Error> {
        let (space, writer) = (&self.space, self.writer);
        let restoring = || Restoring::new(space.clone(), writer);
        let message = || Message::decode_stored(bytes);
        match kind {
            Kind::Change | Kind::Adds => {
                let replica = self.replica.take();
                let mut replica = replica.unwrap_or_else(|| Replica::new(space.clone(), writer));
                match kind {
                    Kind::Adds => replica.restore(&Message::decode_adds(bytes)?)?,
                    _ => replica.restore(&message()?)?,
                }
                self.replica = Some(replica);
            }
            Kind::First | Kind::Part => {
                let begun = self.restoring.take().unwrap_or_else(restoring);
                self.restoring = Some(begun.take(&message()?)?);
            }
            Kind::Whole | Kind::Last => {
                let begun = self.restoring.take().unwrap_or_else(restoring);
                self.replica = Some(begun.finish(&message()?)?);
            }
        }
        Ok(())
    }

    /// The replica in the state of the store.
    pub fn end(self) -> Replica {
        self.replica
            .unwrap_or_else(|| Replica::new(self.space, self.writer))
    }
}
