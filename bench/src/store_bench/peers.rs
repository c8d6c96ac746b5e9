//! The stores: each keeps batches, one durable commit for each, and hands them back in order.

use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tallymesh_core::Space;
use tallymesh_node::store::{Kind, Log, Record, Store};

/// A store that is open.
pub(super) trait Peer {
    /// Keeps a batch as one value. When it returns, a power cut does not take it back.
    fn commit(&mut self, batch: &[u8]) -> Result<()>;

    /// Does what its user has to do between two commits.
    fn tidy(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads all batches, oldest first.
    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// Opens a store in a folder, which is empty the first time. All that it will keep comes to at most
/// so many bytes.
pub(super) type Open = fn(&Path, u64) -> Result<Box<dyn Peer>>;

/// All of them by name, ours first and the floor second.
pub(super) const ALL: [(&str, Open); 6] = [
    ("our log", ours),
    ("floor: a file filled in advance", floor),
    ("fjall", fjall),
    ("SQLite", sqlite),
    ("redb", redb),
    ("LMDB", lmdb),
];

/// The log of a node.
struct Ours {
    log: Log,
    space: Space,
}

fn ours(folder: &Path, _: u64) -> Result<Box<dyn Peer>> {
    let log = Log::open(folder, &mut |_| {})?;
    let space = Space::default();
    Ok(Box::new(Ours { log, space }))
}

impl Peer for Ours {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        let record = Record {
            space: self.space.clone(),
            kind: Kind::Change,
            bytes: batch.to_vec(),
        };
        Ok(self.log.commit(&[record])?)
    }

    fn tidy(&mut self) -> Result<()> {
        // As a node does after each commit: it makes room for later ones, a step at a time.
        self.log.prepare()?;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.log.load(&self.space, &mut |_, bytes| {
            each(bytes);
            Ok(())
        })?;
        Ok(())
    }
}

/// Less can't be done: the bytes and their length, in a file that is there already.
struct Floor {
    file: File,
    end: u64,
}

fn floor(folder: &Path, bytes: u64) -> Result<Box<dyn Peer>> {
    let path = folder.join("file");
    let is_new = !path.exists();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    if is_new {
        let zeros = vec![0; 1 << 20];
        for _ in 0..bytes.div_ceil(zeros.len() as u64) {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
    }
    Ok(Box::new(Floor { file, end: 0 }))
}

impl Peer for Floor {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        let mut bytes = (batch.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(batch);
        self.file.write_all_at(&bytes, self.end)?;
        self.file.sync_data()?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut bytes = vec![0; self.file.metadata()?.len() as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        let mut rest = bytes.as_slice();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length == 0 {
                break; // The zeros that nothing was written over.
            }
            let (batch, after) = after.split_at_checked(length).context("a torn file")?;
            each(batch);
            rest = after;
        }
        Ok(())
    }
}

/// fjall: a journal, and sorted tables behind it.
struct Fjall {
    database: fjall::Database,
    batches: fjall::Keyspace,
    next: u64,
}

fn fjall(folder: &Path, _: u64) -> Result<Box<dyn Peer>> {
    let database = fjall::Database::builder(folder).open()?;
    let batches = database.keyspace("batches", fjall::KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall {
        database,
        batches,
        next: 0,
    }))
}

impl Peer for Fjall {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        self.batches.insert(self.next.to_be_bytes(), batch)?;
        self.database.persist(fjall::PersistMode::SyncData)?;
        self.next += 1;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        for row in self.batches.iter() {
            each(&row.value()?);
        }
        Ok(())
    }
}

/// SQLite with a write-ahead log that is synced with each commit.
struct Sqlite(rusqlite::Connection);

fn sqlite(folder: &Path, _: u64) -> Result<Box<dyn Peer>> {
    let connection = rusqlite::Connection::open(folder.join("sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute(
        "CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)",
        [],
    )?;
    Ok(Box::new(Sqlite(connection)))
}

impl Peer for Sqlite {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        let mut insert = self
            .0
            .prepare_cached("INSERT INTO batches (bytes) VALUES (?)")?;
        insert.execute([batch])?;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut select = self
            .0
            .prepare("SELECT bytes FROM batches ORDER BY number")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            each(row.get_ref(0)?.as_blob()?);
        }
        Ok(())
    }
}

/// redb: a tree that is copied on write.
struct Redb {
    database: redb::Database,
    next: u64,
}

const REDB_BATCHES: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("batches");

fn redb(folder: &Path, _: u64) -> Result<Box<dyn Peer>> {
    let database = redb::Database::create(folder.join("redb"))?;
    Ok(Box::new(Redb { database, next: 0 }))
}

impl Peer for Redb {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        let write = self.database.begin_write()?;
        write.open_table(REDB_BATCHES)?.insert(self.next, batch)?;
        write.commit()?;
        self.next += 1;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        use redb::{ReadableDatabase, ReadableTable};
        let table = self.database.begin_read()?.open_table(REDB_BATCHES)?;
        for row in table.iter()? {
            each(row?.1.value());
        }
        Ok(())
    }
}

/// LMDB: a tree that is copied on write, and mapped into memory to be read.
struct Lmdb {
    environment: heed::Env,
    batches: heed::Database<heed::types::U64<heed::byteorder::BigEndian>, heed::types::Bytes>,
    next: u64,
}

/// More than any run keeps; it is room in the address space, not on the disk.
const LMDB_MAP_BYTES: usize = 4 << 30;

fn lmdb(folder: &Path, _: u64) -> Result<Box<dyn Peer>> {
    let folder = folder.join("lmdb");
    fs::create_dir_all(&folder)?;
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(LMDB_MAP_BYTES);
    // SAFETY: the files are in a temporary folder of this process, which opens them once at a time
    // and does not touch them otherwise.
    let environment = unsafe { options.open(&folder)? };
    let mut write = environment.write_txn()?;
    let batches = environment.create_database(&mut write, None)?;
    write.commit()?;
    Ok(Box::new(Lmdb {
        environment,
        batches,
        next: 0,
    }))
}

impl Peer for Lmdb {
    fn commit(&mut self, batch: &[u8]) -> Result<()> {
        let mut write = self.environment.write_txn()?;
        self.batches.put(&mut write, &self.next, batch)?;
        write.commit()?;
        self.next += 1;
        Ok(())
    }

    fn read(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let read = self.environment.read_txn()?;
        for row in self.batches.iter(&read)? {
            each(row?.1);
        }
        Ok(())
    }
}
