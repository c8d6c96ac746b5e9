//! Reading the log from its begin to its end, and telling a torn end from damage.
//!
//! One commit is written at a time, and the next one only once it is durable. So a crash leaves at
//! most the last frame in pieces, and nothing behind it. That is what is told apart here:
//!
//! - The log ends where no whole frame with the next number begins. If anything but zeros follows,
//!   it is a torn commit, which nobody was told of: it is given up, and reported ([`Torn`]).
//! - If a frame with a number after the next begins behind that place, in the segment or in a later
//!   one, then the frame that is missed had been durable: the log is damaged.
//! - Segments must be there from the one that has the oldest commit that the last frame needs, with
//!   whole headers and of full length. Only the last may have a header that is none, if it has
//!   nothing but zeros where its first frame would be.
//!
//! The very last commit is the one place where damage can't be told from a crash. And nothing shows
//! that the newest segments, as whole files, were taken away.
//!
//! It is taken for granted that a disk writes a sector of 512 bytes wholly or not at all, and that
//! it has written what it says it has.

use super::files::File;
use super::live::{Index, Place};
use super::places::Opener;
use super::segment::{self, HEADER_BYTES, Header, Seal};
use super::{FORMAT, FORMAT_MIN, Progress, StoreError, files, frame};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says what the folder is.
pub(super) const FORMAT_FILE: &str = "format";

/// The data file of format 1.
const FORMAT_1_FILE: &str = "tallymesh.redb";

/// Most bytes that are believed to be a format file.
const FORMAT_BYTES_MAX: u64 = 4096;

/// The pieces of a commit that was under way when the process or the machine stopped. Nobody was
/// told that it was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file in the data folder.
    pub file: String,
    /// Where in it the pieces begin.
    pub offset: u64,
    /// Bytes from there to the last that is not zero.
    pub bytes: u64,
}

/// A segment as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) seal: Seal,
    /// The length of the file.
    pub(super) bytes: u64,
    /// The number of the first commit in it, if it has any.
    pub(super) first: Option<u64>,
    /// Where its frames end.
    pub(super) end: u64,
}

/// Where the last frame is.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastFrame {
    /// Where it begins in the last segment that has any.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The number of the commit.
    pub(super) number: u64,
    /// The oldest commit that it needs.
    pub(super) oldest: u64,
}

/// What a log has.
pub(super) struct Found {
    folder: PathBuf,
    pub(super) segments: Vec<Segment>,
    pub(super) index: Index,
    /// The number of the first commit that is there.
    pub(super) first: Option<u64>,
    pub(super) last: Option<LastFrame>,
    pub(super) torn: Option<Torn>,
    /// Whether the places of records are to be remembered.
    locate: bool,
}

/// The version of the folder, or nothing if it has none yet.
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

/// Refuses a folder of a format that can't be read. `false` if it has none yet.
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

/// Reads all of the log that these segments are.
///
/// # Errors
/// When a file can't be read, or the log is damaged.
pub(super) fn scan(
    folder: &Path,
    numbers: &[u64],
    locate: bool,
    open: &mut Opener<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, StoreError> {
    let run = segment::run(numbers);
    let mut found = Found {
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

impl Found {
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

    /// Whether the log may go on with this commit.
    fn continues(&self, segment: u64, commit: u64) -> bool {
        match self.last {
            Some(last) => commit == last.number + 1,
            // What went before may be deleted, but for the first segment nothing did.
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
            // A part without its begin is what is left of a snapshot that is not needed any more:
            // the segment before was deleted.
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

    /// Looks at what follows the last frame of a segment.
    fn read_rest(&mut self, seal: Seal, rest: &[u8], at: usize) -> Result<(), StoreError> {
        let Some(bytes) = bytes_to_last_set(rest) else {
            return Ok(());
        };
        let here = Torn {
            file: segment::name(seal.number),
            offset: at as u64,
            bytes: bytes as u64,
        };
        // Pieces in a segment before are where the frame was that is missed.
        let torn = self.torn.clone().unwrap_or(here);
        // The pieces may have the begin of the very commit that was under way.
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

    /// Looks at the log as a whole, whose oldest segment has this number.
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

/// Whether a segment without a header is one that was never used: where its first frame would be
/// there are zeros.
fn never_had_a_frame(bytes: &[u8]) -> bool {
    let rest = bytes.get(HEADER_BYTES..).unwrap_or_default();
    rest.len() >= frame::HEADER_BYTES && bytes_to_last_set(rest).is_none()
}

/// How many bytes there are up to the last that is not zero.
pub(super) fn bytes_to_last_set(bytes: &[u8]) -> Option<usize> {
    /// Whole pages are compared at once, since most of them are zeros.
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
