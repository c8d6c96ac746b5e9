//! Makes room for commits: creates the next segment before it is needed, and removes dead segments.

use super::super::Kind;
use super::super::files::{File, Folder, NEW};
use super::super::segment::{self, HEADER_BYTES, Header, Seal};
use super::{COMMIT_BYTES_MAX, Log, Record, Segment, StoreError, frame};
use std::io;
use std::sync::Arc;
use tallymesh_core::Space;

/// Zeros that are written and synced in one step, which takes a disk a millisecond or two. A commit
/// that arrives meanwhile waits no longer than that.
const IDLE_STEP_BYTES: u64 = 256 << 10;

/// The same while a commit waits for the segment, so that only the total time counts.
const URGENT_STEP_BYTES: u64 = 4 << 20;

/// A segment for one large commit has a whole number of pages.
const PAGE_BYTES: u64 = 4096;

/// The sizes of the files of a log. Tests use small ones.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sizes {
    pub(in super::super) segment_bytes_min: u64,
    pub(in super::super) segment_bytes_max: u64,
    /// A log with fewer bytes requests no snapshot.
    pub(in super::super) log_bytes_min: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            segment_bytes_min: 1 << 20,
            segment_bytes_max: 16 << 20,
            log_bytes_min: 4 << 20,
        }
    }
}

/// A segment that is being created: a file that is filled with zeros, and then gets its name.
pub(super) struct Growing {
    header: Header,
    file: Arc<dyn File>,
    /// The bytes that are written and durable.
    written: u64,
    named: bool,
}

impl Growing {
    pub(super) fn begin(folder: &dyn Folder, number: u64, bytes: u64) -> io::Result<Growing> {
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(|error| io::Error::other(error.to_string()))?;
        let salt = u64::from_le_bytes(salt);
        Ok(Growing {
            header: Header {
                seal: Seal { number, salt },
                bytes,
            },
            file: folder.create(&(segment::name(number) + NEW))?,
            written: 0,
            named: false,
        })
    }

    /// Does one step of the creation.
    fn grow(&mut self, folder: &dyn Folder, step_bytes: u64) -> io::Result<()> {
        let step = step_bytes.min(self.header.bytes - self.written);
        if step > 0 {
            let mut zeros = vec![0; step as usize];
            if self.written == 0 {
                zeros[..HEADER_BYTES].copy_from_slice(&self.header.encode());
            }
            self.file.write_at(self.written, &zeros)?;
            self.file.sync()?;
            self.written += step;
        } else if !self.named {
            let name = segment::name(self.header.seal.number);
            folder.rename(&(name.clone() + NEW), &name)?;
            folder.sync()?;
            self.named = true;
        }
        Ok(())
    }

    /// Does all remaining steps.
    pub(super) fn finish(&mut self, folder: &dyn Folder) -> io::Result<()> {
        while !self.named {
            self.grow(folder, URGENT_STEP_BYTES)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.named
    }

    fn into_segment(self) -> (Segment, Arc<dyn File>) {
        let segment = Segment {
            seal: self.header.seal,
            bytes: self.header.bytes,
            first: None,
            end: HEADER_BYTES as u64,
        };
        (segment, self.file)
    }
}

impl Log {
    /// Changes to the next segment, which must have room for a frame of this size. In most cases
    /// the segment is ready.
    pub(super) fn roll(&mut self, frame_bytes: u64) -> Result<(), StoreError> {
        let needed = HEADER_BYTES as u64 + frame_bytes;
        if self
            .next
            .as_ref()
            .is_some_and(|next| next.header.bytes < needed)
        {
            self.skip_next();
        }
        let mut next = match self.next.take() {
            Some(next) => next,
            None => self.begin_next(needed)?,
        };
        let finished = next.finish(self.folder.as_ref());
        finished.map_err(|problem| self.io("make", next.header.seal.number, problem))?;
        let (segment, file) = next.into_segment();
        let mark = file.mark();
        let mark = mark.map_err(|problem| self.io("look at", segment.seal.number, problem))?;
        self.mark_segment(segment.seal.number, mark);
        self.segments.push(segment);
        self.file = file;
        Ok(())
    }

    /// Drops a next segment that is too small. If it already has its name, it stays, empty.
    fn skip_next(&mut self) {
        if let Some(next) = self.next.take().filter(Growing::is_ready) {
            self.segments.push(next.into_segment().0);
        }
    }

    /// Begins the next segment, which must have room for `needed` bytes.
    fn begin_next(&self, needed: u64) -> Result<Growing, StoreError> {
        let Sizes {
            segment_bytes_min: min,
            segment_bytes_max: max,
            ..
        } = self.sizes;
        // The segment is as large as a snapshot of everything, so that a small state has a small
        // log.
        let lasting = self.index.lasting_bytes().min(max);
        let mut bytes = lasting.next_power_of_two().clamp(min, max);
        if needed > bytes {
            bytes = needed.next_multiple_of(PAGE_BYTES);
        }
        let number = self.segment().seal.number + 1;
        Growing::begin(self.folder.as_ref(), number, bytes)
            .map_err(|problem| self.io("make", number, problem))
    }

    /// Does one step of creating the next segment. Returns `true` if it was not ready.
    fn grow_next(&mut self) -> Result<bool, StoreError> {
        let mut next = match self.next.take() {
            Some(next) => next,
            None => self.begin_next(0)?,
        };
        let was_ready = next.is_ready();
        let grown = next.grow(self.folder.as_ref(), IDLE_STEP_BYTES);
        grown.map_err(|problem| self.io("make", next.header.seal.number, problem))?;
        self.next = Some(next);
        Ok(!was_ready)
    }

    /// Does one step of idle work. Returns `true` if there is more.
    pub(super) fn make_room(&mut self) -> Result<bool, StoreError> {
        if self.dead_segments() > 0 {
            self.remove_dead()?;
            return Ok(true);
        }
        if self.carry()? {
            return Ok(true);
        }
        match self.needs_next() {
            true => self.grow_next(),
            false => Ok(false),
        }
    }

    /// Whether a step of [`make_room`](Log::make_room) would do anything.
    pub(super) fn lacks_room(&self) -> bool {
        let is_ready = self.next.as_ref().is_some_and(Growing::is_ready);
        self.dead_segments() > 0 || self.to_carry().is_some() || self.needs_next() && !is_ready
    }

    /// Whether the segment for commits is half full.
    fn needs_next(&self) -> bool {
        let Segment { bytes, end, .. } = *self.segment();
        end > bytes / 2
    }

    /// Removes the segments before all needed records. The commit that records this is already
    /// durable.
    fn remove_dead(&mut self) -> Result<(), StoreError> {
        let dead: Vec<Segment> = self.segments.drain(..self.dead_segments()).collect();
        for segment in &dead {
            let number = segment.seal.number;
            let removed = self.folder.remove(&segment::name(number));
            removed.map_err(|problem| self.io("remove", number, problem))?;
        }
        let number = dead.last().map_or(0, |last| last.seal.number);
        let synced = self.folder.sync();
        synced.map_err(|problem| self.io("remove", number, problem))
    }

    /// The space whose records keep old segments from being deleted, if no driver has it open to
    /// make a snapshot.
    fn to_carry(&self) -> Option<&Space> {
        let (space, live, _) = self.index.oldest()?;
        let fits = live.needed_bytes() < COMMIT_BYTES_MAX / 2;
        (!live.in_use && fits && self.is_long()).then_some(space)
    }

    /// Writes the records of such a space again.
    fn carry(&mut self) -> Result<bool, StoreError> {
        let Some(space) = self.to_carry().cloned() else {
            return Ok(false);
        };
        let record = |kind, bytes: &[u8]| Record {
            space: space.clone(),
            kind,
            bytes: bytes.to_vec(),
        };
        // No record before the copies is needed.
        let mut records = vec![record(Kind::Whole, &[])];
        self.read(&space, &mut |kept, bytes| {
            records.push(record(kept.kind, bytes));
            Ok(())
        })?;
        if frame::bytes_for(&records) > COMMIT_BYTES_MAX {
            return Ok(false); // The space keeps its segments.
        }
        self.append(&records)?;
        Ok(true)
    }
}
