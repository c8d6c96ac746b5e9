//! The store on disk: one redb file in the data folder.

use super::{FORMAT, Record, Store, StoreError};
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError,
    TableDefinition, TableError,
};
use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tallymesh_core::Space;

/// Small facts about the folder: `format` (4 bytes, little-endian) and `identity` (the 32 secret
/// bytes of the node's Ed25519 key).
const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");

/// The records: `(space, number)` to one encoded message. Numbers rise within a space.
const LOG: TableDefinition<'static, (&str, u64), &[u8]> = TableDefinition::new("log");

/// The name of the file in the data folder.
const FILE: &str = "tallymesh.redb";

/// Memory for redb's page cache. The state itself lives in the replica, and records are read only
/// at start, so a small cache does.
const CACHE_BYTES: usize = 8 << 20;

/// A store in a folder. Open, it holds a lock on the file, which the system lets go when the
/// process ends in any way.
pub struct Disk {
    database: Database,
}

impl Disk {
    /// Opens the store in `folder`, which is made if it is missing, readable by its owner alone:
    /// the node's secret key is in it.
    ///
    /// # Errors
    /// When another process has it open, it has another format, or it can't be read or written.
    pub fn open(folder: &Path) -> Result<Disk, StoreError> {
        make_private_folder(folder)
            .map_err(|error| io(format!("make the data folder {}", folder.display()), error))?;
        let path = folder.join(FILE);
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_file(open_private_file(&path)?)
            .map_err(|error| match error {
                DatabaseError::DatabaseAlreadyOpen => StoreError::InUse {
                    folder: folder.to_path_buf(),
                },
                DatabaseError::Storage(error) if is_damage(&error) => StoreError::Damaged {
                    folder: folder.to_path_buf(),
                    problem: error.to_string(),
                },
                other => io(format!("open {}", path.display()), other),
            })?;
        let store = Disk { database };
        store.check_format(folder)?;
        Ok(store)
    }

    /// Writes the format version into a new folder, and refuses a folder with another one.
    fn check_format(&self, folder: &Path) -> Result<(), StoreError> {
        let found = self.meta("format")?;
        match found.as_deref() {
            None => self.set_meta("format", &FORMAT.to_le_bytes()),
            Some(bytes) => {
                let found = bytes.try_into().map_or(0, u32::from_le_bytes);
                if found == FORMAT {
                    return Ok(());
                }
                Err(StoreError::Format {
                    folder: folder.to_path_buf(),
                    found,
                })
            }
        }
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let doing = |error: &dyn Display| io("read the data file", error);
        let read = self.database.begin_read().map_err(|e| doing(&e))?;
        let table = match read.open_table(META) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(doing(&error)),
        };
        let found = table.get(name).map_err(|e| doing(&e))?;
        Ok(found.map(|guard| guard.value().to_vec()))
    }

    fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let write = || -> Result<(), redb::Error> {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            transaction.open_table(META)?.insert(name, value)?;
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| io("write the data file", error))
    }

    fn append(&self, records: &[Record]) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut log = transaction.open_table(LOG)?;
            for record in records {
                let space = record.space.as_str();
                let all = (space, 0)..=(space, u64::MAX);
                let newest = log.range(all.clone())?.next_back().transpose()?;
                let number = newest.map_or(0, |(key, _)| key.value().1 + 1);
                if record.replaces {
                    log.retain_in(all, |_, _| false)?;
                }
                log.insert((space, number), record.bytes.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

impl Store for Disk {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        match self.meta("identity")? {
            Some(kept) => kept.as_slice().try_into().map_err(|_| StoreError::Io {
                doing: "read this node's key".into(),
                problem: format!("it is {} bytes long and must be 32", kept.len()),
            }),
            None => {
                self.set_meta("identity", &fresh)?;
                Ok(fresh)
            }
        }
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn load(
        &mut self,
        space: &Space,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let doing = |error: &dyn Display| io("read the data file", error);
        let read = self.database.begin_read().map_err(|e| doing(&e))?;
        let log = match read.open_table(LOG) {
            Ok(log) => log,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(error) => return Err(doing(&error)),
        };
        let all = (space.as_str(), 0)..=(space.as_str(), u64::MAX);
        for entry in log.range(all).map_err(|e| doing(&e))? {
            let (_, bytes) = entry.map_err(|e| doing(&e))?;
            each(bytes.value())?;
        }
        Ok(())
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        self.append(records)
            .map_err(|error| io("make a batch of work durable", error))
    }
}

/// Whether the file is at fault, and not the way to it.
fn is_damage(error: &StorageError) -> bool {
    match error {
        StorageError::Corrupted(_) => true,
        StorageError::Io(error) => matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData
        ),
        _ => false,
    }
}

fn io(doing: impl Into<String>, problem: impl Display) -> StoreError {
    StoreError::Io {
        doing: doing.into(),
        problem: problem.to_string(),
    }
}

fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn open_private_file(path: &PathBuf) -> Result<fs::File, StoreError> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(path)
        .map_err(|error| io(format!("open {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(space: &Space, bytes: &[u8], replaces: bool) -> Record {
        Record {
            space: space.clone(),
            bytes: bytes.to_vec(),
            replaces,
        }
    }

    fn loaded(store: &mut Disk, space: &Space) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut push = |bytes: &[u8]| {
            all.push(bytes.to_vec());
            Ok(())
        };
        store.load(space, &mut push).expect("load");
        all
    }

    #[test]
    fn records_come_back_in_order_and_a_replacing_one_drops_only_its_space() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (one, two) = (Space::new("one").unwrap(), Space::new("two").unwrap());
        let mut store = Disk::open(folder.path()).expect("open");
        assert!(loaded(&mut store, &one).is_empty());
        let batch = [record(&one, b"a", false), record(&two, b"x", false)];
        store.commit(&batch).expect("commit");
        store.commit(&[record(&one, b"b", false)]).expect("commit");
        drop(store);

        let mut store = Disk::open(folder.path()).expect("open again");
        assert_eq!(loaded(&mut store, &one), [b"a", b"b"]);
        store.commit(&[record(&one, b"ab", true)]).expect("replace");
        store.commit(&[record(&one, b"c", false)]).expect("commit");
        drop(store);

        let mut store = Disk::open(folder.path()).expect("open a third time");
        assert_eq!(loaded(&mut store, &one), [b"ab".to_vec(), b"c".to_vec()]);
        assert_eq!(loaded(&mut store, &two), [b"x"]);
    }

    #[test]
    fn the_first_identity_stays() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut store = Disk::open(folder.path()).expect("open");
        assert_eq!(store.identity([1; 32]).expect("identity"), [1; 32]);
        drop(store);
        let mut store = Disk::open(folder.path()).expect("open again");
        assert_eq!(store.identity([2; 32]).expect("identity"), [1; 32]);
    }

    #[test]
    fn a_folder_in_use_and_a_folder_of_another_format_are_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let store = Disk::open(folder.path()).expect("open");
        let refused = Disk::open(folder.path()).err().expect("must be refused");
        assert_eq!(refused.code(), "store_in_use");
        store.set_meta("format", &99u32.to_le_bytes()).expect("set");
        drop(store);
        let refused = Disk::open(folder.path()).err().expect("must be refused");
        assert_eq!(refused.code(), "store_format");
        assert!(refused.to_string().contains("99"), "{refused}");
    }
}
