//! Reads the log from its beginning to its end, and distinguishes a torn end from damage.
//!
//! One commit is written at a time, and the next one only after it is durable. So a crash leaves at
//! most the last frame in pieces, and nothing behind it. The reader uses these rules:
//!
//! - The log ends where no whole frame with the next number begins. If anything but zeros follows,
//!   it is a torn commit, which was never acknowledged. The reader drops it and reports it
//!   ([`Torn`]).
//! - A frame with a later number than the next may begin behind that place, in the same segment or
//!   a later one. Then the missing frame had been durable, and the log is damaged.
//! - The segments must be complete from the one with the oldest commit that the last frame needs.
//!   Their headers must be whole, and their length full. Only the last segment may have an invalid
//!   header, if there are only zeros in place of its first frame.
//!
//! For the very last commit, damage can't be distinguished from a crash. And nothing shows that the
//! newest segments were removed as whole files.
//!
//! The reader assumes that a disk writes a sector of 512 bytes either completely or not at all. It
//! assumes that the disk has written everything that it reports as written.

use super::files::File;
use super::live::{Index, Place};
use super::places::Opener;
use super::segment::{self, HEADER_BYTES, Header, Seal};
use super::{FORMAT, FORMAT_MIN, Progress, StoreError, files, frame};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that describes the folder.
pub(super) const FORMAT_FILE: &str = "format";

/// The data file of format 1.
const FORMAT_1_FILE: &str = "tallymesh.redb";

/// Most bytes of a valid format file.
const FORMAT_BYTES_MAX: u64 = 4096;

/// The pieces of a commit that was under way when the process or the machine stopped. The node had
/// not acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file in the data folder.
    pub file: String,
    /// The place in it where the pieces begin.
    pub offset: u64,
    /// Bytes from there to the last that is not zero.
    pub bytes: u64,
}

/// A segment as the reader found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) seal: Seal,
    /// The length of the file.
    pub(super) bytes: u64,
    /// The number of the first commit in it, if it has any.
    pub(super) first: Option<u64>,
    /// The place where its frames end.
    pub(super) end: u64,
}

/// The place of the last frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastFrame {
    /// The place where it begins, in the last segment with any frame.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The number of the commit.
    pub(super) number: u64,
    /// The oldest commit that it needs.
    pub(super) oldest: u64,
}

/// The content of a log.
pub(super) struct LogContent {
    folder: PathBuf,
    pub(super) segments: Vec<Segment>,
    pub(super) index: Index,
    /// The number of the first commit that is there.
    pub(super) first: Option<u64>,
    pub(super) last: Option<LastFrame>,
    pub(super) torn: Option<Torn>,
    /// Whether to record the places of records.
    locate: bool,
}

/// The version of the folder, or `None` if it has none yet.
pub(super) fn format(folder: &dyn files::Folder) -> Result<Option<u32>, StoreError> {
    let reading = |problem| {
        let doing = format!("read the data folder {}", folder.path().display());
        StoreError::io(doing, problem)
    };
    let names = match folder.names() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(reading)?,
    };
    if names.iter().any(|name| name == FORMAT_1_FILE) {
        return Ok(Some(1));
    }
    let Some(text) = files::read_small(folder, FORMAT_FILE, FORMAT_BYTES_MAX).map_err(reading)?
    else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&text);
    let version = text.lines().next().and_then(|line| line.parse().ok());
    version.map(Some).ok_or_else(|| StoreError::Damaged {
        folder: folder.path().to_path_buf(),
        problem: format!("the first line of `{FORMAT_FILE}` is no version number"),
    })
}

/// Refuses a folder of a format that can't be read. Returns `false` if it has no format yet.
pub(super) fn check_format(folder: &dyn files::Folder) -> Result<bool, StoreError> {
    let is_none = match fs::metadata(folder.path()) {
        Ok(found) => !found.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotADirectory,
    };
    if is_none {
        let path = folder.path().to_path_buf();
        return Err(StoreError::NotAFolder { path });
    }
    match format(folder)? {
        None => Ok(false),
        Some(FORMAT_MIN..=FORMAT) => Ok(true),
        Some(found) => Err(StoreError::Format {
            folder: folder.path().to_path_buf(),
            found,
        }),
    }
}

/// Reads the whole log in these segments.
///
/// # Errors
/// When a file can't be read, or the log is damaged.
pub(super) fn scan(
    folder: &Path,
    numbers: &[u64],
    locate: bool,
    open: &mut Opener<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<LogContent, StoreError> {
    let run = segment::run(numbers);
    let mut found = LogContent {
        folder: folder.to_path_buf(),
        segments: Vec::with_capacity(run.len()),
        index: Index::default(),
        first: None,
        last: None,
        torn: None,
        locate,
    };
    if run.is_empty() {
        return found.damaged("it has no segment `log-...` of the log".into());
    }
    let mut total = 0;
    for number in run {
        let bytes = open(*number).and_then(|file| file.bytes());
        total += bytes.map_err(|problem| found.unread(*number, problem))?;
    }
    let mut done = 0;
    let mut buffer = Vec::new();
    for number in run {
        let file = open(*number);
        let bytes = file.and_then(|file| read_all(file, &mut buffer));
        let bytes = bytes.map_err(|problem| found.unread(*number, problem))?;
        found.read(*number, bytes, Some(number) == run.last())?;
        done += bytes.len() as u64;
        progress(Progress {
            done,
            total: total.max(done),
        });
    }
    found.finish(run[0])?;
    Ok(found)
}

/// Reads a whole file into the front of `buffer`.
fn read_all(file: Arc<dyn File>, buffer: &mut Vec<u8>) -> io::Result<&[u8]> {
    let bytes = usize::try_from(file.bytes()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    file.read_at(0, &mut buffer[..bytes])?;
    Ok(&buffer[..bytes])
}

impl LogContent {
    fn damaged<T>(&self, problem: String) -> Result<T, StoreError> {
        Err(StoreError::Damaged {
            folder: self.folder.clone(),
            problem,
        })
    }

    fn unread(&self, number: u64, problem: io::Error) -> StoreError {
        let file = self.folder.join(segment::name(number));
        StoreError::io(format!("read {}", file.display()), problem)
    }

    /// Reads the next segment.
    fn read(&mut self, number: u64, bytes: &[u8], is_last: bool) -> Result<(), StoreError> {
        let header = Header::decode(bytes).filter(|header| header.seal.number == number);
        let Some(header) = header else {
            if is_last && !self.segments.is_empty() && never_had_a_frame(bytes) {
                return Ok(());
            }
            return self.damaged(format!(
                "the first {HEADER_BYTES} bytes of `{}` are not the header of a segment",
                segment::name(number)
            ));
        };
        if header.bytes != bytes.len() as u64 {
            return self.damaged(format!(
                "`{}` is {} bytes long, and was made with {}",
                segment::name(number),
                bytes.len(),
                header.bytes
            ));
        }
        let (mut at, mut first) = (HEADER_BYTES, None);
        while let Some(frame) = frame::decode(header.seal, &bytes[at..]) {
            if !self.continues(number, frame.header.number) {
                break;
            }
            self.take(number, at, &frame)?;
            first = first.or(Some(frame.header.number));
            at += frame.bytes();
        }
        self.read_rest(header.seal, &bytes[at..], at)?;
        self.segments.push(Segment {
            seal: header.seal,
            bytes: header.bytes,
            first,
            end: at as u64,
        });
        Ok(())
    }

    /// Whether the log may continue with this commit.
    fn continues(&self, segment: u64, commit: u64) -> bool {
        match self.last {
            Some(last) => commit == last.number + 1,
            // Earlier commits may be deleted, but before the first segment there were none.
            None => commit == 1 || (commit > 1 && segment > 1),
        }
    }

    fn take(
        &mut self,
        segment: u64,
        at: usize,
        frame: &frame::Frame<'_>,
    ) -> Result<(), StoreError> {
        let number = frame.header.number;
        for item in frame::items(frame.payload) {
            let named = item.and_then(|item| Some((self.index.entry(item.space)?, item)));
            let Some((live, item)) = named else {
                return self.damaged(format!(
                    "commit {number} at byte {at} of `{}` has a record that this build can't read",
                    segment::name(segment)
                ));
            };
            let place = self.locate.then(|| Place {
                kind: item.kind,
                segment,
                offset: (at + frame::HEADER_BYTES + item.offset) as u64,
                bytes: item.bytes.len() as u32,
                sum: crc32fast::hash(item.bytes),
            });
            // A part without its beginning is the rest of a snapshot that is no longer needed. The
            // earlier segment was deleted.
            live.note(number, item.kind, item.bytes.len() as u64, place);
        }
        self.first = self.first.or(Some(number));
        self.torn = None;
        self.last = Some(LastFrame {
            offset: at as u64,
            bytes: frame.bytes() as u64,
            number,
            oldest: frame.header.oldest,
        });
        Ok(())
    }

    /// Reads the bytes after the last frame of a segment.
    fn read_rest(&mut self, seal: Seal, rest: &[u8], at: usize) -> Result<(), StoreError> {
        let Some(bytes) = bytes_to_last_set(rest) else {
            return Ok(());
        };
        let here = Torn {
            file: segment::name(seal.number),
            offset: at as u64,
            bytes: bytes as u64,
        };
        // If an earlier segment has pieces, the missing frame was there.
        let torn = self.torn.clone().unwrap_or(here);
        // The pieces may contain the beginning of the commit that was under way.
        let torn_number = self.last.map_or(0, |last| last.number) + 1;
        if frame::begins_within(seal, &rest[..bytes], torn_number) {
            return self.damaged(format!(
                "what stands at byte {} of `{}` is no whole commit, though later commits follow",
                torn.offset, torn.file
            ));
        }
        self.torn = Some(torn);
        Ok(())
    }

    /// Checks the log as a whole. `oldest_segment` is the number of its oldest segment.
    fn finish(&mut self, oldest_segment: u64) -> Result<(), StoreError> {
        self.index.drop_begun();
        let missing = |needed: u64| {
            format!(
                "the segments before `{}` are missing, and commit {needed} was in one of them",
                segment::name(oldest_segment)
            )
        };
        match (self.first, self.last) {
            (Some(first), Some(last)) if first > last.oldest => self.damaged(missing(last.oldest)),
            (None, _) if oldest_segment > 1 => self.damaged(missing(1)),
            _ => Ok(()),
        }
    }
}

/// Whether a segment without a header was never used, which means that there are zeros in place of
/// its first frame.
fn never_had_a_frame(bytes: &[u8]) -> bool {
    let rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
    rest.len() >= frame::HEADER_BYTES && bytes_to_last_set(rest).is_none()
}

/// The number of bytes up to the last byte that is not zero.
pub(super) fn bytes_to_last_set(bytes: &[u8]) -> Option<usize> {
    /// Whole pages are compared at once, because most of them are zeros.
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    for page in bytes.rchunks(ZEROS.len()) {
        if *page != ZEROS[..page.len()] {
            let set = page.iter().rposition(|byte| *byte != 0);
            return set.map(|place| end - page.len() + place + 1);
        }
        end -= page.len();
    }
    None
}
