//! The data folder of a log: its creation, and the repairs when it is opened.

use super::super::files::{self, File, Folder, NEW};
use super::super::read::{self, FORMAT_FILE, LogContent};
use super::super::segment;
use super::super::{FORMAT, StoreError};
use super::space::{Growing, Sizes};
use std::sync::Arc;

/// The text that describes the folder for people. The version stands alone in the first line.
pub(in super::super) fn format_text() -> String {
    format!(
        "{FORMAT}\n\
         This is the data folder of a Tallymesh node: its secret key (`identity`) and its state\n\
         (`log-...`). Copy it with `tallymesh backup`; a copy made by other means while the node\n\
         runs may be no whole one.\n"
    )
}

fn failed(folder: &dyn Folder, doing: &str, problem: std::io::Error) -> StoreError {
    StoreError::io(
        format!("{doing} the data folder {}", folder.path().display()),
        problem,
    )
}

/// The numbers of the segments in the folder.
pub(super) fn segments(folder: &dyn Folder) -> Result<Vec<u64>, StoreError> {
    let names = folder.names();
    let names = names.map_err(|problem| failed(folder, "read", problem))?;
    Ok(segment::numbers(&names))
}

/// Creates an empty log in a folder that has none. The format file comes last, so a folder with a
/// format file is whole.
pub(super) fn found(folder: &dyn Folder, sizes: &Sizes) -> Result<(), StoreError> {
    // An interrupted start may have left a segment without commits. A segment with commits is
    // refused.
    let left = segments(folder)?;
    let mut open = |number| folder.open(&segment::name(number));
    let is_new = left.is_empty()
        || (left == [1])
            && read::scan(folder.path(), &left, false, &mut open, &mut |_| {})?
                .last
                .is_none();
    if !is_new {
        return Err(StoreError::Damaged {
            folder: folder.path().to_path_buf(),
            problem: format!("it has a log, and no file `{FORMAT_FILE}`"),
        });
    }
    let mut first = Growing::begin(folder, 1, sizes.segment_bytes_min)
        .map_err(|problem| failed(folder, "make", problem))?;
    let written = first
        .finish(folder)
        .and_then(|()| files::write_small(folder, FORMAT_FILE, format_text().as_bytes()));
    written.map_err(|problem| failed(folder, "make", problem))
}

/// Raises a folder of an earlier format to the present one, after it was read for writing. Its
/// bytes have the same meaning in both formats.
pub(super) fn raise(folder: &dyn Folder) -> Result<(), StoreError> {
    if read::format(folder)? == Some(FORMAT) {
        return Ok(());
    }
    files::write_small(folder, FORMAT_FILE, format_text().as_bytes())
        .map_err(|problem| failed(folder, "raise the format of", problem))
}

/// Puts a log in order that was just read, and opens the segment to which commits go:
///
/// - The last commit is written again, and synced. A process whose sync failed may have left it
///   only in the system's memory, and the system does not retry by itself.
/// - The pieces of a torn commit are overwritten with zeros.
/// - Files without content are removed: segments without a commit at the end, segments before a
///   gap, and new files that never got their names.
pub(super) fn settle(folder: &dyn Folder, found: &LogContent) -> Result<Arc<dyn File>, StoreError> {
    let settled = || -> std::io::Result<Arc<dyn File>> {
        let used = found.segments.iter().rev();
        let mut used = used.skip_while(|segment| segment.first.is_none());
        let segment = used.next().or(found.segments.first());
        // A log without a whole segment is never found.
        let segment = segment.ok_or(std::io::ErrorKind::NotFound)?;
        let file = folder.open_to_write(&segment::name(segment.seal.number))?;
        if let Some(last) = found.last {
            let mut frame = vec![0; last.bytes as usize];
            file.read_at(last.offset, &mut frame)?;
            file.write_at(last.offset, &frame)?;
        }
        let mut rest = vec![0; (segment.bytes - segment.end) as usize];
        file.read_at(segment.end, &mut rest)?;
        if let Some(bytes) = read::bytes_to_last_set(&rest) {
            file.write_at(segment.end, &vec![0; bytes])?;
        }
        file.sync()?;

        let names = folder.names()?;
        let numbers = segment::numbers(&names);
        // The newest is removed first, each with its own sync, because a gap between segments would
        // count as damage.
        for number in numbers.iter().rev() {
            if *number > segment.seal.number {
                folder.remove(&segment::name(*number))?;
                folder.sync()?;
            }
        }
        let oldest = found.segments.first().map_or(1, |first| first.seal.number);
        for name in names {
            let number = segment::numbers(std::slice::from_ref(&name)).pop();
            if is_unfinished(&name) || number.is_some_and(|number| number < oldest) {
                folder.remove(&name)?;
            }
        }
        folder.sync()?;
        Ok(file)
    };
    settled().map_err(|problem| failed(folder, "set in order", problem))
}

/// Whether this is a file of the store that never got its name.
fn is_unfinished(name: &str) -> bool {
    let Some(name) = name.strip_suffix(NEW) else {
        return false;
    };
    [FORMAT_FILE, super::IDENTITY].contains(&name)
        || !segment::numbers(&[name.to_owned()]).is_empty()
}
