//! Which starts a next start in the place of this node may follow.
//!
//! A start that [follows](tallymesh_core::MembersMut::announce_after) the one before votes at once, because the
//! earlier one has ended, and the store has all of its votes. This module judges both:
//! - **The earlier start ran here.** A small file in the data folder names it. The file has its own identity in
//!   it, and that of the lock file (device, number, time of creation). No copy has these. So a folder that was
//!   copied or put back names nobody. Backups leave the file out.
//! - **The store is whole.** The log ends where the lock file says that the last commit was
//!   ([`Place::whole`](tallymesh_node_store::Place)).
//!
//! A whole volume that is put back or cloned keeps all of these. Nothing on it shows that. Then others tell
//! what the store lacks, as far as they are linked.
//!
//! The file is written before a new start is used, and before anything is stored that takes a right away.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tallymesh_core::{Predecessor, Space, WriterId};
use tallymesh_node_store as store;
use tallymesh_node_store::{Place, StoreError};

/// The version of the file that this build writes, and the only one that it reads.
const VERSION: u64 = 1;

/// A start that a next one here may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) writer: WriterId,
    /// The clock that a store must have of it. `None` for a start that may still write.
    pub(super) clock: Option<u64>,
}

/// The starts of each space that may be followed in this place.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// `None` without a place of its own.
    place: Option<(PathBuf, Place)>,
    by_space: BTreeMap<String, Vec<Followed>>,
    /// Whether the file has what is here.
    saved: bool,
    /// In how many spaces the last start may not be followed.
    unfollowed: usize,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    /// The identity of this file.
    file: String,
    /// That of the lock file.
    lock: String,
    spaces: BTreeMap<String, Vec<Row>>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    writer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<u64>,
}

impl Places {
    /// Reads the file of a data folder. Nobody may be followed if there is none, if it is a copy, or if the
    /// store is not whole.
    pub(super) fn open(folder: Option<PathBuf>, place: Option<Place>) -> Places {
        let mut places = Places {
            place: folder.zip(place),
            ..Places::default()
        };
        let Some((folder, place)) = &places.place else {
            return places;
        };
        let kept = store::read_own(folder, store::PLACE_FILE, store::PLACE_BYTES_MAX);
        let Ok(Some((bytes, file))) = kept else {
            return places;
        };
        let Ok(written) = serde_json::from_slice::<Written>(&bytes) else {
            return places;
        };
        let here = written.version == VERSION && written.file == file;
        if here && written.lock == place.lock && place.whole {
            let rows = written.spaces.into_iter();
            places.by_space = rows.map(|(space, rows)| (space, read(rows))).collect();
        }
        places
    }

    /// Whether a start may be followed, which the store of a space has up to its clock.
    pub(super) fn may_follow(&mut self, space: &Space, start: Predecessor) -> bool {
        let rows = self.by_space.get(space.as_str());
        let is_it = |it: &Followed| {
            it.writer == start.writer && it.clock.is_none_or(|clock| clock == start.clock)
        };
        let may = rows.is_some_and(|rows| rows.iter().any(is_it));
        self.unfollowed += usize::from(!may);
        may
    }

    /// Logs that earlier starts of this node are not followed, if there are any.
    pub(super) fn tell(&self) {
        if self.unfollowed > 0
            && let Some((_, place)) = &self.place
        {
            tracing::warn!(
                spaces = self.unfollowed,
                whole = place.whole,
                "this data folder is a copy, was put back, lacks its end, or is of an earlier version: as a \
                 member, this node votes once enough other members have acknowledged its start"
            );
        }
    }

    /// Sets which starts of a space may be followed.
    pub(super) fn set(&mut self, space: &Space, starts: Vec<Followed>) {
        let before = self.by_space.get(space.as_str());
        if before.map_or(&[][..], Vec::as_slice) == starts {
            return;
        }
        self.saved = false;
        match starts.is_empty() {
            true => self.by_space.remove(space.as_str()),
            false => self.by_space.insert(space.to_string(), starts),
        };
    }

    /// Makes this durable.
    ///
    /// # Errors
    /// When the file can't be written. Then nothing may be stored that takes a right away.
    pub(super) fn save(&mut self) -> Result<(), StoreError> {
        let Some((folder, place)) = self.place.as_ref().filter(|_| !self.saved) else {
            return Ok(());
        };
        let io = |problem: &dyn std::fmt::Display| StoreError::Io {
            doing: format!("write {}", folder.join(store::PLACE_FILE).display()),
            problem: problem.to_string(),
        };
        let rows = |starts: &Vec<Followed>| {
            let rows = starts.iter().map(|it| Row {
                writer: it.writer.to_string(),
                clock: it.clock,
            });
            rows.collect()
        };
        let spaces = self.by_space.iter();
        let spaces: BTreeMap<String, Vec<Row>> = spaces
            .map(|(space, it)| (space.clone(), rows(it)))
            .collect();
        let bytes = |file: &str| {
            let written = Written {
                version: VERSION,
                file: file.to_owned(),
                lock: place.lock.clone(),
                spaces: spaces.clone(),
            };
            // A file without text names nobody.
            serde_json::to_vec(&written).unwrap_or_default()
        };
        store::write_own(folder, store::PLACE_FILE, &bytes).map_err(|problem| io(&problem))?;
        self.saved = true;
        Ok(())
    }
}

/// The starts of one space. A row that can't be read is left out.
fn read(rows: Vec<Row>) -> Vec<Followed> {
    let start = |row: Row| {
        let writer = WriterId::parse(&row.writer)?;
        let clock = row.clock;
        Some(Followed { writer, clock })
    };
    rows.into_iter().filter_map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const OLD: WriterId = WriterId::from_bytes([1; 16]);
    const NEW: WriterId = WriterId::from_bytes([2; 16]);

    fn place(lock: &str, whole: bool) -> Place {
        let lock = lock.to_owned();
        Place { lock, whole }
    }

    fn open(folder: &Path) -> Places {
        Places::open(Some(folder.to_path_buf()), Some(place("here", true)))
    }

    /// Lets a start be followed, and its predecessor at clock 7.
    fn write(folder: &Path, writer: WriterId) {
        let mut places = open(folder);
        let followed = [(OLD, Some(7)), (writer, None)];
        let followed = followed.map(|(writer, clock)| Followed { writer, clock });
        places.set(&Space::default(), followed.into());
        places.save().expect("written");
    }

    fn follows(places: &mut Places, writer: WriterId, clock: u64) -> bool {
        let generation = 0;
        let start = Predecessor {
            writer,
            clock,
            generation,
        };
        places.may_follow(&Space::default(), start)
    }

    #[test]
    fn a_start_that_is_named_here_is_followed_at_its_clock() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        assert!(!follows(&mut open(folder), NEW, 9), "there is no file yet");
        write(folder, NEW);
        let places = &mut open(folder);
        assert!(follows(places, NEW, 9) && follows(places, OLD, 7));
        assert!(!follows(places, OLD, 6) && !follows(places, OLD, 8));
        let other = Space::new("other").expect("a name");
        let start = Predecessor {
            writer: NEW,
            clock: 9,
            generation: 0,
        };
        assert!(!places.may_follow(&other, start));
        for place in [place("there", true), place("here", false)] {
            let mut places = Places::open(Some(folder.to_path_buf()), Some(place));
            assert!(!follows(&mut places, NEW, 9));
        }
        assert!(!follows(
            &mut Places::open(Some(folder.to_path_buf()), None),
            NEW,
            9
        ));
    }

    #[test]
    fn a_copy_and_an_older_file_that_is_written_over_it_name_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let (file, copy) = (folder.join(store::PLACE_FILE), folder.join("copy"));
        write(folder, OLD);
        std::fs::copy(&file, &copy).expect("copied");
        write(folder, NEW);
        assert!(follows(&mut open(folder), NEW, 9));
        std::fs::copy(&copy, &file).expect("written over it");
        assert!(!follows(&mut open(folder), OLD, 9) && !follows(&mut open(folder), NEW, 9));
        write(folder, NEW);
        std::fs::copy(&file, &copy).expect("copied");
        std::fs::rename(&copy, &file).expect("put in its place");
        assert!(!follows(&mut open(folder), NEW, 9));
    }
}
