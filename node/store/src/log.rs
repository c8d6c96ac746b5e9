//! The store on disk: one log for all spaces of a node.
//!
//! Commits are appended to the last segment, each with one write and one sync. The log never
//! searches for records that are no longer needed. Instead, each space is from time to time written
//! again as a snapshot. Segments before all needed records are then deleted.

mod folder;
mod marks;
mod space;

use super::files::{self, Disk, File, Folder};
use super::live::Index;
use super::read::{self, Segment, Torn};
use super::segment::{self, HEADER_BYTES};
use super::{COMMIT_BYTES_MAX, Each, Place, Progress, Record, Store, StoreError, frame, places};
pub(super) use folder::format_text;
use marks::Marks;
use space::Growing;
pub(super) use space::Sizes;
use std::path::Path;
use std::sync::Arc;
use tallymesh_core::Space;

/// The file with the node's key: its 32 secret bytes and their CRC-32.
pub const IDENTITY: &str = "identity";
const IDENTITY_BYTES: usize = 32 + 4;

/// The log requests new snapshots when it has this many times their bytes. A lower value costs more
/// writing. A higher one costs more room on the disk and a slower start.
const LOG_TO_SNAPSHOTS_MAX: u64 = 4;

/// A buffer for frames of up to this size is reused by the next commit. A larger commit is rare,
/// and its memory is released.
const FRAME_KEPT_BYTES: usize = 1 << 20;

/// The store in a data folder. While it is open it has a lock on the folder, which the system
/// releases when the process ends in any way.
pub struct Log {
    folder: Box<dyn Folder>,
    sizes: Sizes,
    /// All segments, oldest first. Commits go to the last one, whose file is open.
    segments: Vec<Segment>,
    file: Arc<dyn File>,
    /// The next segment, while it is being created and when it is ready.
    next: Option<Growing>,
    index: Index,
    marks: Marks,
    /// The number of the last commit.
    last: u64,
    /// The oldest needed commit, according to the last commit.
    oldest: u64,
    torn: Option<Torn>,
    /// Whether the log ends where the last process said that it ended.
    whole: bool,
    failed: Option<StoreError>,
    frame: Vec<u8>,
}

impl Log {
    /// Opens the store in `folder`, creates the folder if it is missing, and reads all of it once.
    /// `progress` receives the progress.
    ///
    /// # Errors
    /// When another process has the folder open, when it has another format or is damaged, or when
    /// it can't be read or written. In a folder with another format or damage, nothing is changed.
    pub fn open(folder: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Log, StoreError> {
        let disk = Disk::at(folder);
        // A folder of another format must not be changed, not even by a lock file.
        read::check_format(&disk)?;
        disk.make().map_err(|problem| {
            StoreError::io(
                format!("make the data folder {}", folder.display()),
                problem,
            )
        })?;
        Log::open_in(Box::new(disk), Sizes::default(), progress)
    }

    /// Opens the store in a folder that exists.
    pub(super) fn open_in(
        mut folder: Box<dyn Folder>,
        sizes: Sizes,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Log, StoreError> {
        let locked = folder.lock().map_err(|problem| {
            let doing = format!("lock the data folder {}", folder.path().display());
            StoreError::io(doing, problem)
        })?;
        if !locked {
            return Err(StoreError::InUse {
                folder: folder.path().to_path_buf(),
            });
        }
        if !read::check_format(folder.as_ref())? {
            folder::found(folder.as_ref(), &sizes)?;
        }
        let numbers = folder::segments(folder.as_ref())?;
        let mut open = |number| folder.open(&segment::name(number));
        let found = read::scan(folder.path(), &numbers, true, &mut open, progress)?;
        let file = folder::settle(folder.as_ref(), &found)?;
        folder::raise(folder.as_ref())?;
        let mut segments = found.segments;
        // The later segments have no commit, and were removed.
        let used = segments.iter().rposition(|segment| segment.first.is_some());
        segments.truncate(used.map_or(1, |place| place + 1));
        let mut log = Log {
            folder,
            sizes,
            segments,
            file,
            next: None,
            index: found.index,
            marks: Marks::default(),
            last: found.last.map_or(0, |last| last.number),
            oldest: found.last.map_or(1, |last| last.oldest),
            whole: false,
            torn: found.torn,
            failed: None,
            frame: Vec::new(),
        };
        let noted = log.folder.noted_commit();
        log.whole = log.torn.is_none() && noted.is_ok_and(|noted| noted <= log.last);
        log.mark_all();
        Ok(log)
    }

    /// The pieces of an unfinished commit that were found at opening, and dropped. No process had
    /// acknowledged it.
    pub fn torn(&self) -> Option<&Torn> {
        self.torn.as_ref()
    }

    /// Bytes of all commits that are on the disk.
    pub fn bytes(&self) -> u64 {
        let bytes = |segment: &Segment| segment.end - HEADER_BYTES as u64;
        self.segments.iter().map(bytes).sum()
    }

    /// The number of the last commit; 0 if there is none.
    pub fn last_commit(&self) -> u64 {
        self.last
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    fn io(&self, doing: &str, number: u64, problem: std::io::Error) -> StoreError {
        let file = self.folder.path().join(segment::name(number));
        StoreError::io(format!("{doing} {}", file.display()), problem)
    }

    /// Runs one step of writing. After a failure the content of the disk is unclear, and a retried
    /// sync may report success wrongly. So nothing is written any more.
    fn write<T>(
        &mut self,
        step: impl FnOnce(&mut Log) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        step(self).inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let number = self.last + 1;
        for record in records {
            let known = self.index.entry(record.space.as_str());
            let bytes = record.bytes.len() as u64;
            if !known.is_some_and(|live| live.note(number, record.kind, bytes, None)) {
                return Err(StoreError::NotBegun {
                    space: record.space.clone(),
                });
            }
        }
        let oldest = self.index.oldest().map_or(number, |(_, _, oldest)| oldest);
        let bytes = frame::bytes_for(records);
        if self.segment().bytes - self.segment().end < bytes {
            self.roll(bytes)?;
        }
        let Segment { seal, end, .. } = *self.segment();
        let mut frame = std::mem::take(&mut self.frame);
        frame::encode(seal, number, oldest, records, &mut frame);
        let written = self.file.write_at(end, &frame);
        let written = written.and_then(|()| self.file.sync());
        written.map_err(|problem| self.io("write", seal.number, problem))?;
        if frame.len() <= FRAME_KEPT_BYTES {
            self.frame = frame;
        }
        if let Some(segment) = self.segments.last_mut() {
            segment.first = segment.first.or(Some(number));
            segment.end += bytes;
        }
        (self.last, self.oldest) = (number, oldest);
        // Without the note, a later start can't tell that the end of the log was put back.
        let _ = self.folder.note_commit(number);
        Ok(())
    }

    /// The segment to which commits go.
    fn segment(&self) -> &Segment {
        &self.segments[self.segments.len() - 1]
    }

    /// How many segments lie before all needed records.
    fn dead_segments(&self) -> usize {
        let holds = |segment: &Segment| segment.first.is_some_and(|first| first <= self.oldest);
        self.segments.iter().rposition(holds).unwrap_or(0)
    }

    /// Whether the space whose records begin first needs a snapshot. It needs none while these
    /// records begin in the last segment, because then no segment could be deleted.
    fn is_long(&self) -> bool {
        let bytes_max = self.index.lasting_bytes() * LOG_TO_SNAPSHOTS_MAX;
        let can_shrink = self.dead_segments() + 1 < self.segments.len();
        can_shrink && self.bytes() > bytes_max.max(self.sizes.log_bytes_min)
    }

    /// Reads the needed records of a space from their places.
    fn read(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        let folder = self.folder.as_ref();
        let mut open = |number| folder.open(&segment::name(number));
        let live = self.index.entry(space.as_str());
        let known = live.and_then(|live| live.take_places());
        let places = match known {
            Some(places) => places,
            // The space was already read, or was written to since.
            None => {
                let numbers: Vec<u64> = self.segments.iter().map(|it| it.seal.number).collect();
                let mut found = read::scan(folder.path(), &numbers, true, &mut open, &mut |_| {})?;
                let live = found.index.entry(space.as_str());
                live.and_then(|live| live.take_places()).unwrap_or_default()
            }
        };
        places::read(folder.path(), &places, &mut open, each)
    }
}

/// The content of the file with the key, if there is one.
pub(super) fn identity_bytes(folder: &dyn Folder) -> Result<Option<Vec<u8>>, StoreError> {
    let kept = files::read_small(folder, IDENTITY, IDENTITY_BYTES as u64).map_err(|problem| {
        let file = folder.path().join(IDENTITY);
        StoreError::io(format!("read {}", file.display()), problem)
    })?;
    let is_whole = |bytes: &[u8]| {
        let parts = bytes.split_first_chunk::<32>();
        parts.is_some_and(|(secret, sum)| crc32fast::hash(secret).to_le_bytes() == *sum)
    };
    match kept {
        Some(bytes) if !is_whole(&bytes) => Err(identity_damaged(folder)),
        kept => Ok(kept),
    }
}

fn identity_damaged(folder: &dyn Folder) -> StoreError {
    StoreError::Damaged {
        folder: folder.path().to_path_buf(),
        problem: format!("the key in `{IDENTITY}` is not as it was written"),
    }
}

impl Store for Log {
    fn identity(&mut self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        let folder = self.folder.as_ref();
        let Some(bytes) = identity_bytes(folder)? else {
            let mut bytes = fresh.to_vec();
            bytes.extend_from_slice(&crc32fast::hash(&fresh).to_le_bytes());
            let written = files::write_small(folder, IDENTITY, &bytes);
            written.map_err(|problem| {
                let file = folder.path().join(IDENTITY);
                StoreError::io(format!("write {}", file.display()), problem)
            })?;
            self.mark_other(IDENTITY);
            return Ok(fresh);
        };
        let secret = bytes.first_chunk().copied();
        let secret = secret.ok_or_else(|| identity_damaged(folder))?;
        self.mark_other(IDENTITY);
        Ok(secret)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn place(&self) -> Option<Place> {
        let whole = self.whole;
        Some(Place {
            lock: self.folder.place()?,
            whole,
        })
    }

    fn load(&mut self, space: &Space, each: &mut Each<'_>) -> Result<(), StoreError> {
        if let Some(live) = self.index.entry(space.as_str()) {
            live.in_use = true;
        }
        self.read(space, each)
    }

    fn commit(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let bytes = frame::bytes_for(records);
        if bytes > COMMIT_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes });
        }
        if records.is_empty() {
            return self.write(|_| Ok(()));
        }
        for record in records {
            if let Some(live) = self.index.entry(record.space.as_str()) {
                live.in_use = true;
            }
        }
        self.write(|log| log.append(records))
    }

    fn check_folder(&self) -> Result<(), String> {
        self.folder.check_folder()?;
        self.check_files()
    }

    fn wants_snapshot(&self) -> Option<Space> {
        let space = self.index.oldest_in_use()?;
        (self.failed.is_none() && self.is_long()).then(|| space.clone())
    }

    fn has_idle_work(&self) -> bool {
        self.failed.is_none() && self.lacks_room()
    }

    fn prepare(&mut self) -> Result<bool, StoreError> {
        self.write(Log::make_room)
    }
}
