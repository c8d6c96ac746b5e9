//! Checks a data folder, and copies it. A node may use the folder at the same time.
//!
//! A node only appends to its log, and deletes whole segments. So a process that has all segments
//! open has a log that can change only at its end. A part that was once read as whole stays whole.

use super::files::{self, Disk, File, Folder};
use super::log::IDENTITY;
use super::read::{self, FORMAT_FILE, LogContent, Torn};
use super::{
    ADDRESSES_BYTES_MAX, ADDRESSES_FILE, LEDGER_BYTES_MAX, LEDGER_FILE, Progress, RecordInfo,
    StoreError, WRITERS_BYTES_MAX, WRITERS_FILE, places, segment,
};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallymesh_core::Space;

/// How often a folder is read again that changed while it was opened.
const TRIES_MAX: usize = 10;

/// The content of a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of files of the log.
    pub segments: usize,
    /// Their bytes, which are more than the bytes of the commits in them.
    pub segment_bytes: u64,
    /// The numbers of the first and the last commit that are there; 0 if there is none.
    pub commits: (u64, u64),
    /// Each space that has records, in the order of their names.
    pub spaces: Vec<SpaceReport>,
    /// The pieces of a commit that was under way when the node stopped, or when a running node was
    /// checked. The node had not acknowledged it.
    pub torn: Option<Torn>,
    /// Whether the node's key is there.
    pub has_identity: bool,
}

/// The records of one space in a data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceReport {
    /// The space.
    pub space: Space,
    /// The number of all its records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of the records that a start reads: the last snapshot, and the changes since.
    pub needed_bytes: u64,
}

/// The receiver of records, each with its space. It may stop the reading with an error.
pub type EachOfSpace<'a> = dyn FnMut(&Space, RecordInfo, &[u8]) -> Result<(), StoreError> + 'a;

/// Reads all of a data folder and changes nothing. A node may have it open. `each` receives the
/// records that a start would read, space by space.
///
/// # Errors
/// When the folder is damaged, has another format or none, or can't be read; or the error of
/// `each`.
pub fn check(
    folder: &Path,
    each: &mut EachOfSpace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, StoreError> {
    let mut source = Source::open(Box::new(Disk::at(folder)), true, progress)?;
    source.read(each)?;
    Ok(source.report())
}

/// Copies the data folder `from` to `to`: its key, and everything that was durable when the copy
/// began. A node may have it open. `each` receives the records that a start would read, as in
/// [`check`], before anything is copied. The copy is read again before it gets its name, and is a
/// data folder itself.
///
/// The copy has the node's secret key. Two nodes must not run with one key, so the copy may only
/// replace the folder that it was made from.
///
/// # Errors
/// When `to` exists and is not an empty folder, or is within `from`. When `from` is damaged, or has
/// another format or none. When reading or writing fails; or the error of `each`. After an error
/// `to` is unchanged.
pub fn backup(
    from: &Path,
    to: &Path,
    each: &mut EachOfSpace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, StoreError> {
    refuse_full(to)?;
    refuse_within(from, to)?;
    let mut source = Source::open(Box::new(Disk::at(from)), true, &mut |_| {})?;
    source.read(each)?;
    copy(&source, to, progress)
}

/// Open segments by their numbers.
type Files = BTreeMap<u64, Arc<dyn File>>;

/// A data folder with all its segments open.
pub(super) struct Source {
    folder: Box<dyn Folder>,
    files: Files,
    found: LogContent,
}

impl Source {
    /// Opens and reads a folder. If a node works on it, segments may appear and disappear during
    /// the listing, and a commit may be half written. Then the folder is read again.
    pub(super) fn open(
        folder: Box<dyn Folder>,
        locate: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Source, StoreError> {
        if !read::check_format(folder.as_ref())? {
            return Err(StoreError::Missing {
                folder: folder.path().to_path_buf(),
            });
        }
        let mut failures: Vec<String> = Vec::new();
        loop {
            let tried = Source::try_open(folder.as_ref(), locate, progress);
            let error = match tried {
                Ok((files, found)) => {
                    return Ok(Source {
                        folder,
                        files,
                        found,
                    });
                }
                Err(error) => error,
            };
            // An error that occurs twice is not passing.
            let text = error.to_string();
            if failures.last() == Some(&text) || failures.len() + 1 == TRIES_MAX {
                return Err(error);
            }
            failures.push(text);
        }
    }

    fn try_open(
        folder: &dyn Folder,
        locate: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Files, LogContent), StoreError> {
        let path = folder.path();
        let reading = |problem| StoreError::io(format!("read {}", path.display()), problem);
        let numbers = segment::numbers(&folder.names().map_err(reading)?);
        let mut files = Files::new();
        for number in &numbers {
            let name = segment::name(*number);
            let file = folder.open(&name).map_err(|problem| {
                StoreError::io(format!("read {}", path.join(&name).display()), problem)
            })?;
            files.insert(*number, file);
        }
        let mut open = |number| {
            files
                .get(&number)
                .cloned()
                .ok_or(io::ErrorKind::NotFound.into())
        };
        let found = read::scan(path, &numbers, locate, &mut open, progress)?;
        Ok((files, found))
    }

    /// Passes on the records that a start would read, space by space.
    fn read(&mut self, each: &mut EachOfSpace<'_>) -> Result<(), StoreError> {
        self.identity()?;
        for SpaceReport { space, .. } in self.report().spaces {
            let live = self.found.index.entry(space.as_str());
            let places = live.and_then(|live| live.take_places()).unwrap_or_default();
            let files = &self.files;
            let mut open = |number| {
                files
                    .get(&number)
                    .cloned()
                    .ok_or(io::ErrorKind::NotFound.into())
            };
            places::read(
                self.folder.path(),
                &places,
                &mut open,
                &mut |kept, bytes| each(&space, kept, bytes),
            )?;
        }
        Ok(())
    }

    /// The content of the file with the key, if there is one.
    fn identity(&self) -> Result<Option<Vec<u8>>, StoreError> {
        super::log::identity_bytes(self.folder.as_ref())
    }

    pub(super) fn report(&self) -> Report {
        let found = &self.found;
        let spaces = found.index.spaces().map(|(space, live)| SpaceReport {
            space: space.clone(),
            records: live.records,
            bytes: live.bytes,
            needed_bytes: live.needed_bytes(),
        });
        let mut spaces: Vec<SpaceReport> = spaces.collect();
        spaces.sort_by(|a, b| a.space.cmp(&b.space));
        Report {
            segments: found.segments.len(),
            segment_bytes: found.segments.iter().map(|segment| segment.bytes).sum(),
            commits: (
                found.first.unwrap_or(0),
                found.last.map_or(0, |last| last.number),
            ),
            spaces,
            torn: found.torn.clone(),
            has_identity: matches!(self.identity(), Ok(Some(_))),
        }
    }
}

/// Refuses a folder that exists and is not empty.
fn refuse_full(folder: &Path) -> Result<(), StoreError> {
    let is_full = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        // It is a file, or a folder that can't be listed.
        Err(_) => true,
    };
    match is_full {
        true => Err(StoreError::Exists {
            folder: folder.to_path_buf(),
        }),
        false => Ok(()),
    }
}

/// Refuses a copy within its source. Links are followed as far as the path exists.
fn refuse_within(from: &Path, to: &Path) -> Result<(), StoreError> {
    let Ok(folder) = fs::canonicalize(from) else {
        return Ok(()); // Opening the folder reports the reason.
    };
    let there = std::path::absolute(to).ok();
    let place = there
        .iter()
        .flat_map(|to| to.ancestors())
        .find_map(|place| fs::canonicalize(place).ok());
    match place.is_some_and(|place| place.starts_with(&folder)) {
        true => Err(StoreError::Within {
            to: to.to_path_buf(),
            from: from.to_path_buf(),
        }),
        false => Ok(()),
    }
}

/// Copies the found log into a folder beside `to`, reads the copy, and renames it to `to`.
fn copy(
    source: &Source,
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, StoreError> {
    let part = part_of(to)?;
    let writing = |problem: io::Error| StoreError::io(format!("write {}", part.display()), problem);
    clear_part(&part)?;
    let disk = Disk::at(&part);
    disk.make().map_err(writing)?;
    write(source, &disk, progress)?;
    let written = Source::open(Box::new(disk), false, &mut |_| {})?;
    let report = written.report();
    let (was, is) = (source.report(), &report);
    if was.commits != is.commits || was.spaces != is.spaces || was.has_identity != is.has_identity {
        return Err(StoreError::Damaged {
            folder: part.clone(),
            problem: "what was read again is not what was written".into(),
        });
    }
    drop(written);
    let named = || {
        if to.exists() {
            fs::remove_dir(to)?;
        }
        fs::rename(&part, to)?;
        files::sync_parent(to)
    };
    named().map_err(|problem| {
        let doing = format!("give {} the name {}", part.display(), to.display());
        StoreError::io(doing, problem)
    })?;
    Ok(report)
}

/// The path of a copy before it gets its name.
fn part_of(to: &Path) -> Result<PathBuf, StoreError> {
    let name = to.file_name().ok_or_else(|| {
        let doing = format!("copy to {}", to.display());
        StoreError::io(doing, "it does not end with the name of a folder")
    })?;
    let mut name = name.to_owned();
    name.push(".part");
    Ok(to.with_file_name(name))
}

/// Removes the files that an interrupted copy left, and nothing else.
fn clear_part(part: &Path) -> Result<(), StoreError> {
    let disk = Disk::at(part);
    let names = match disk.names() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => Vec::new(),
        Ok(names) => names,
    };
    let is_ours = |name: &String| {
        let name = name.strip_suffix(files::NEW).unwrap_or(name);
        [
            FORMAT_FILE,
            IDENTITY,
            LEDGER_FILE,
            WRITERS_FILE,
            ADDRESSES_FILE,
        ]
        .contains(&name)
            || !segment::numbers(&[name.into()]).is_empty()
    };
    if !names.iter().all(is_ours) {
        return Err(StoreError::Exists {
            folder: part.to_path_buf(),
        });
    }
    fs::remove_dir_all(part)
        .map_err(|problem| StoreError::io(format!("remove {}", part.display()), problem))
}

/// Writes the segments up to their last commit, then the key, and last the format. Without the
/// format file, a folder is no data folder.
fn write(source: &Source, to: &Disk, progress: &mut dyn FnMut(Progress)) -> Result<(), StoreError> {
    let writing =
        |problem: io::Error| StoreError::io(format!("write {}", to.path().display()), problem);
    let segments = &source.found.segments;
    let used = segments.iter().rposition(|segment| segment.first.is_some());
    let segments = &segments[..used.map_or(1, |place| place + 1)];
    let total = segments.iter().map(|segment| segment.bytes).sum();
    let mut done = 0;
    for segment in segments {
        let number = segment.seal.number;
        let file = source.files.get(&number);
        let file = file.ok_or_else(|| writing(io::ErrorKind::NotFound.into()))?;
        let mut bytes = vec![0; segment.bytes as usize];
        let end = segment.end as usize;
        file.read_at(0, &mut bytes[..end]).map_err(|problem| {
            let file = source.folder.path().join(segment::name(number));
            StoreError::io(format!("read {}", file.display()), problem)
        })?;
        let name = segment::name(number);
        let copied = to.create(&name).and_then(|copy| {
            copy.write_at(0, &bytes)?;
            copy.sync()
        });
        copied.map_err(writing)?;
        done += segment.bytes;
        progress(Progress { done, total });
    }
    if let Some(identity) = source.identity()? {
        files::write_small(to, IDENTITY, &identity).map_err(writing)?;
    }
    // The ledger of tickets is copied, because a restored node must not accept tickets that it had
    // revoked. The nonces are copied, because they prove the writers in the log. They were stored
    // before those writers were used.
    let folder = source.folder.as_ref();
    for (name, bytes_max) in [
        (LEDGER_FILE, LEDGER_BYTES_MAX),
        (WRITERS_FILE, WRITERS_BYTES_MAX),
    ] {
        let bytes = files::read_small(folder, name, bytes_max);
        let bytes = bytes.map_err(|problem| {
            let file = folder.path().join(name);
            StoreError::io(format!("read {}", file.display()), problem)
        })?;
        if let Some(bytes) = bytes {
            files::write_small(to, name, &bytes).map_err(writing)?;
        }
    }
    // The addresses of other nodes are copied, because a restored node may find no other node
    // without them. A start ignores a file of addresses that it can't read, and so does a copy.
    let addresses = files::read_small(folder, ADDRESSES_FILE, ADDRESSES_BYTES_MAX);
    if let Ok(Some(bytes)) = addresses {
        files::write_small(to, ADDRESSES_FILE, &bytes).map_err(writing)?;
    }
    let format = super::log::format_text();
    files::write_small(to, FORMAT_FILE, format.as_bytes()).map_err(writing)
}

#[cfg(test)]
mod tests;
