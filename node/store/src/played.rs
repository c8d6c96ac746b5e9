//! A simulated disk. It fails on request. At a power cut it loses changes that were not synced, in
//! the worst ways that a real disk may.

use super::files::{File, Folder};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use tallymesh_core::SplitMix64;

const SECTOR_BYTES: usize = 512;

/// The random choices of a disk.
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A disk with one folder. Clones are the same disk.
#[derive(Clone)]
pub(super) struct Played {
    state: Arc<Mutex<State>>,
    /// Whether this value has the lock.
    locked: bool,
}

struct State {
    dice: Dice,
    files: Vec<Contents>,
    /// The names as a process sees them, and as they are on the disk.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names that are not synced.
    renamings: Vec<Renaming>,
    is_locked: bool,
    /// The number of changing operations since the beginning.
    operations: u64,
    fail_at: Option<u64>,
    /// Whether an operation has failed.
    failed: bool,
}

#[derive(Default)]
struct Contents {
    /// The bytes as a process sees them, and as they are on the disk.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are not synced.
    writes: Vec<(usize, Vec<u8>)>,
}

enum Renaming {
    Set(String, usize),
    Move(String, String, usize),
    Remove(String),
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Renaming::Set(name, file) => {
                names.insert(name.clone(), *file);
            }
            Renaming::Move(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Renaming::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

fn put(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if contents.len() < end {
        contents.resize(end, 0);
    }
    contents[offset..end].copy_from_slice(bytes);
}

/// The part of a write that survives a power cut: nothing, all, its beginning, or any of its
/// sectors.
fn torn(dice: &mut Dice, offset: usize, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    match dice.below(4) {
        0 => Vec::new(),
        1 => vec![(offset, bytes.to_vec())],
        2 => vec![(offset, bytes[..dice.below(bytes.len() + 1)].to_vec())],
        _ => {
            let mut sectors = Vec::new();
            let mut at = 0;
            while at < bytes.len() {
                let end = (at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES).min(bytes.len());
                if dice.once_in(2) {
                    sectors.push((offset + at, bytes[at..end].to_vec()));
                }
                at = end;
            }
            sectors
        }
    }
}

impl State {
    /// Counts an operation. Returns an error if it is the one that has to fail.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        if self.fail_at == Some(self.operations) {
            self.failed = true;
            return Err(io::Error::other("the played disk fails"));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        let found = self.names.get(name).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&mut self, renaming: Renaming) {
        renaming.apply(&mut self.names);
        self.renamings.push(renaming);
    }

    /// Makes some of the unsynced changes durable.
    fn lose(&mut self) {
        self.lose_names();
        for file in 0..self.files.len() {
            self.lose_writes(file);
        }
    }

    fn lose_names(&mut self) {
        for renaming in std::mem::take(&mut self.renamings) {
            if self.dice.once_in(2) {
                renaming.apply(&mut self.durable_names);
            }
        }
    }

    fn lose_writes(&mut self, file: usize) {
        for (offset, bytes) in std::mem::take(&mut self.files[file].writes) {
            for (offset, bytes) in torn(&mut self.dice, offset, &bytes) {
                put(&mut self.files[file].durable, offset, &bytes);
            }
        }
    }
}

impl Played {
    pub(super) fn new(seed: u64) -> Played {
        Played {
            state: Arc::new(Mutex::new(State {
                dice: Dice::new(seed),
                files: Vec::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                renamings: Vec::new(),
                is_locked: false,
                operations: 0,
                fail_at: None,
                failed: false,
            })),
            locked: false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside")
    }

    /// Makes the operation fail that follows after `operations` more.
    pub(super) fn fail_after(&self, operations: usize) {
        let mut state = self.state();
        state.fail_at = Some(state.operations + 1 + operations as u64);
    }

    /// Ends all failures. Returns whether an operation had failed.
    pub(super) fn heal(&self) -> bool {
        let mut state = self.state();
        state.fail_at = None;
        std::mem::take(&mut state.failed)
    }

    /// Stops the machine at once and starts it again.
    pub(super) fn cut_power(&self) {
        let mut state = self.state();
        state.lose();
        state.names = state.durable_names.clone();
        for file in &mut state.files {
            file.seen = file.durable.clone();
        }
        state.is_locked = false;
    }

    /// All files, with their bytes.
    pub(super) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let files = state.names.iter();
        files
            .map(|(name, file)| (name.clone(), state.files[*file].seen.clone()))
            .collect()
    }

    /// A disk with these files, all of them durable.
    pub(super) fn with(files: &BTreeMap<String, Vec<u8>>) -> Played {
        let disk = Played::new(0);
        let mut state = disk.state();
        for (name, bytes) in files {
            let place = state.files.len();
            state.names.insert(name.clone(), place);
            state.files.push(Contents {
                seen: bytes.clone(),
                durable: bytes.clone(),
                writes: Vec::new(),
            });
        }
        state.durable_names = state.names.clone();
        drop(state);
        disk
    }
}

/// When a process ends in any way, its lock is released.
impl Drop for Played {
    fn drop(&mut self) {
        if self.locked {
            self.state().is_locked = false;
        }
    }
}

impl Folder for Played {
    fn path(&self) -> &Path {
        Path::new("played")
    }

    fn lock(&mut self) -> io::Result<bool> {
        let mut state = self.state();
        let free = !std::mem::replace(&mut state.is_locked, true);
        drop(state);
        self.locked |= free;
        Ok(free)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.state().find(name)?;
        Ok(Arc::new(Opened {
            state: self.state.clone(),
            file,
        }))
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.operate()?;
        let file = state.files.len();
        state.files.push(Contents::default());
        state.rename(Renaming::Set(name.into(), file));
        drop(state);
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        let file = state.find(from)?;
        state.rename(Renaming::Move(from.into(), to.into(), file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.find(name)?;
        state.rename(Renaming::Remove(name.into()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Err(error) = state.operate() {
            // Some changes are on the disk, and the system has forgotten that the others are not.
            state.lose_names();
            return Err(error);
        }
        state.renamings.clear();
        state.durable_names = state.names.clone();
        Ok(())
    }
}

struct Opened {
    state: Arc<Mutex<State>>,
    file: usize,
}

impl Opened {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside")
    }
}

impl File for Opened {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.state().files[self.file].seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let offset = offset as usize;
        let bytes = state.files[self.file]
            .seen
            .get(offset..offset + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let outcome = state.operate();
        let written = match outcome {
            Ok(()) => bytes.len(),
            // The write stopped in the middle.
            Err(_) => state.dice.below(bytes.len() + 1),
        };
        let file = &mut state.files[self.file];
        put(&mut file.seen, offset as usize, &bytes[..written]);
        file.writes
            .push((offset as usize, bytes[..written].to_vec()));
        outcome
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Err(error) = state.operate() {
            // Some bytes are on the disk. The system treats the others as clean and never writes
            // them.
            state.lose_writes(self.file);
            return Err(error);
        }
        let file = &mut state.files[self.file];
        for (offset, bytes) in std::mem::take(&mut file.writes) {
            put(&mut file.durable, offset, &bytes);
        }
        Ok(())
    }
}
