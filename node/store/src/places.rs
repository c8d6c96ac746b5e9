//! Reads records from recorded places.

use super::files::File;
use super::live::Place;
use super::segment;
use super::{Each, RecordInfo, StoreError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are read at once. The records of one space are mostly close together.
const WINDOW_BYTES: u64 = 256 << 10;

/// Opens the segment with a number.
pub(super) type Opener<'a> = dyn FnMut(u64) -> io::Result<Arc<dyn File>> + 'a;

/// Passes on the records at these places. Each must still have its checksum.
pub(super) fn read(
    folder: &Path,
    places: &[Place],
    open: &mut Opener<'_>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let total = places.iter().map(|place| u64::from(place.bytes)).sum();
    let mut done = 0;
    let mut buffer = ReadBuffer::default();
    for place in places {
        let name = || segment::name(place.segment);
        let bytes = buffer.record(place, open).map_err(|problem| {
            let file = folder.join(name());
            StoreError::io(format!("read {}", file.display()), problem)
        })?;
        if crc32fast::hash(bytes) != place.sum {
            return Err(StoreError::Damaged {
                folder: folder.to_path_buf(),
                problem: format!(
                    "{} bytes of `{}` from {} on are not what they were when it was opened",
                    place.bytes,
                    name(),
                    place.offset
                ),
            });
        }
        done += u64::from(place.bytes);
        let info = RecordInfo {
            kind: place.kind,
            done,
            total,
        };
        each(info, bytes)?;
    }
    Ok(())
}

/// A part of one segment in memory.
#[derive(Default)]
struct ReadBuffer {
    file: Option<(u64, Arc<dyn File>)>,
    begin: u64,
    buffer: Vec<u8>,
    /// How much of the buffer is filled.
    filled: usize,
}

impl ReadBuffer {
    fn record(&mut self, place: &Place, open: &mut Opener<'_>) -> io::Result<&[u8]> {
        let bytes = place.bytes as usize;
        let is_open = |(number, _): &(u64, _)| *number == place.segment;
        if !self.file.as_ref().is_some_and(is_open) {
            (self.file, self.filled) = (Some((place.segment, open(place.segment)?)), 0);
        }
        let end = self.begin + self.filled as u64;
        if place.offset < self.begin || place.offset + u64::from(place.bytes) > end {
            self.fill(place)?;
        }
        let at = (place.offset - self.begin) as usize;
        Ok(&self.buffer[at..at + bytes])
    }

    fn fill(&mut self, place: &Place) -> io::Result<()> {
        let Some((_, file)) = &self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let rest = file.bytes()?.saturating_sub(place.offset);
        let wanted = rest.min(WINDOW_BYTES).max(place.bytes.into()) as usize;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        file.read_at(place.offset, &mut self.buffer[..wanted])?;
        (self.begin, self.filled) = (place.offset, wanted);
        Ok(())
    }
}
