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
//! The file also tells a copy of a folder from the folder. If the lock file is another one than the file names,
//! the start before ran in another place, and may still run there. Then this node [stands
//! aside](tallymesh_core::MembersMut::stand_aside), and the file says so until the node is adopted. It says so, too,
//! if a process on the copy took this one's place. Of the identity of a lock file, the device alone may change, as it
//! does when a disk is attached anew.
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
    /// In how many spaces with other members the last start may not be followed.
    unfollowed: usize,
    /// The original of this folder, if it is a copy that was not adopted.
    copied: Option<Copied>,
    /// Whether this is the first start of the copy.
    is_fresh_copy: bool,
}

/// What a copy of a folder knows of its original.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Copied {
    /// The identity of the original's lock file.
    lock: String,
    /// By space, the writers of the original with transactions that no member was known to have.
    writers: BTreeMap<String, Vec<String>>,
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
    /// The original, if the folder is a copy that was not adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copied: Option<Copied>,
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
        if written.version != VERSION {
            return places;
        }
        places.is_fresh_copy = !may_be_same(&written.lock, &place.lock);
        places.copied = match (written.copied, places.is_fresh_copy) {
            (None, true) => Some(Copied {
                lock: written.lock.clone(),
                writers: BTreeMap::new(),
            }),
            (copied, _) => copied,
        };
        let here = written.file == file && written.lock == place.lock && place.whole;
        if here && places.copied.is_none() {
            let rows = written.spaces.into_iter();
            places.by_space = rows.map(|(space, rows)| (space, read(rows))).collect();
        }
        places
    }

    /// Whether this folder is a copy that was not adopted.
    pub(super) fn is_copied(&self) -> bool {
        self.copied.is_some()
    }

    /// The writers of a space that belong to the original, if this folder is a copy. `earlier` are the writers
    /// of earlier starts, as the store has them.
    pub(super) fn originals(
        &mut self,
        space: &Space,
        earlier: Vec<WriterId>,
    ) -> Option<Vec<WriterId>> {
        let copied = self.copied.as_mut()?;
        if self.is_fresh_copy && !earlier.is_empty() {
            let writers = copied.writers.entry(space.to_string()).or_default();
            writers.extend(earlier.iter().map(WriterId::to_string));
            writers.sort_unstable();
            writers.dedup();
        }
        let writers = copied.writers.get(space.as_str()).into_iter().flatten();
        Some(writers.filter_map(|it| WriterId::parse(it)).collect())
    }

    /// Lets the node of this folder stand aside, because another process took its place.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(super) fn stand_aside(&mut self) -> Result<(), StoreError> {
        if let Some((_, place)) = self.place.as_ref().filter(|_| self.copied.is_none()) {
            self.copied = Some(Copied {
                lock: place.lock.clone(),
                writers: BTreeMap::new(),
            });
            self.saved = false;
        }
        self.save()
    }

    /// Makes this folder the original's successor.
    ///
    /// # Errors
    /// When the file can't be written. Then it stays a copy.
    pub(super) fn adopt(&mut self) -> Result<(), StoreError> {
        let copied = self.copied.take();
        self.saved = false;
        let saved = self.save();
        if saved.is_err() {
            self.copied = copied;
        }
        saved
    }

    /// Whether a start may be followed, which the store of a space has up to its clock.
    pub(super) fn may_follow(&self, space: &Space, start: Predecessor) -> bool {
        let rows = self.by_space.get(space.as_str());
        let is_it = |it: &Followed| {
            it.writer == start.writer && it.clock.is_none_or(|clock| clock == start.clock)
        };
        rows.is_some_and(|rows| rows.iter().any(is_it))
    }

    /// Notes that the last start may not be followed in a space with other members. The only member of a space
    /// votes at once.
    pub(super) fn note_unfollowed(&mut self) {
        self.unfollowed += 1;
    }

    /// Logs that earlier starts of this node are not followed, if there are any.
    pub(super) fn tell(&self) {
        if self.copied.is_some() {
            tracing::warn!(
                "this data folder is a copy, was put back, or has a copy whose node took this one's place: the other \
                 node may still run, so this one spends, draws and decides nothing; start the other, or, if that is \
                 gone for good, run `tallymesh adopt` at this node"
            );
        } else if self.unfollowed > 0
            && let Some((_, place)) = &self.place
        {
            tracing::warn!(
                spaces = self.unfollowed,
                whole = place.whole,
                "this data folder was put back, lacks its end, or is of an earlier version: as a member, this node votes once enough other members have acknowledged its start"
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
                copied: self.copied.clone(),
            };
            // A file without text names nobody.
            serde_json::to_vec(&written).unwrap_or_default()
        };
        store::write_own(folder, store::PLACE_FILE, &bytes).map_err(|problem| io(&problem))?;
        self.saved = true;
        Ok(())
    }
}

/// Whether two identities may be those of one lock file. A device may have another number each time that it is
/// attached. The time of creation, in nanoseconds, distinguishes files well enough. A random number in its place
/// does not, because a copy of the file has the same.
fn may_be_same(one: &str, other: &str) -> bool {
    let on_device = |lock: &str| lock.split_once('-').map(|it| it.1.to_owned());
    let lasts = !one.contains("-r");
    one == other || lasts && one.contains('-') && on_device(one) == on_device(other)
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

    fn original(places: &mut Places, earlier: &[WriterId]) -> Option<Vec<WriterId>> {
        places.originals(&Space::default(), earlier.to_vec())
    }

    fn open_at(folder: &Path, lock: &str) -> Places {
        Places::open(Some(folder.to_path_buf()), Some(place(lock, true)))
    }

    #[test]
    fn a_copy_is_one_until_it_is_adopted_and_remembers_the_writers_of_its_original() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let mut first = open_at(folder, "here");
        assert!(!first.is_copied(), "there is no file yet");
        assert_eq!(original(&mut first, &[OLD]), None);
        write(folder, OLD);
        assert_eq!(original(&mut open(folder), &[OLD]), None);
        let mut copy = open_at(folder, "there");
        assert!(copy.is_copied());
        assert_eq!(original(&mut copy, &[OLD]), Some(vec![OLD]));
        copy.save().expect("written");
        // A writer of the copy is none of the original.
        let mut again = open_at(folder, "there");
        assert!(again.is_copied());
        assert_eq!(original(&mut again, &[OLD, NEW]), Some(vec![OLD]));
        again.save().expect("written");
        // A copy of the copy has two originals.
        let mut third = open_at(folder, "elsewhere");
        assert_eq!(original(&mut third, &[NEW]), Some(vec![OLD, NEW]));
        again.adopt().expect("written");
        let mut adopted = open_at(folder, "there");
        assert!(!adopted.is_copied());
        assert_eq!(original(&mut adopted, &[OLD]), None);
    }

    #[test]
    fn a_folder_whose_place_was_taken_is_a_copy_until_it_is_adopted() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, OLD);
        open(folder).stand_aside().expect("written");
        let mut again = open(folder);
        assert!(again.is_copied() && !follows(&mut again, OLD, 7));
        assert_eq!(original(&mut again, &[OLD]), Some(vec![]));
        again.adopt().expect("written");
        assert!(!open(folder).is_copied());
    }

    #[test]
    fn nobody_is_followed_in_a_copy_that_is_put_where_its_original_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, OLD);
        open_at(folder, "there").save().expect("written");
        let mut back = open_at(folder, "here");
        assert!(back.is_copied() && !follows(&mut back, OLD, 9));
    }

    /// A cloned volume, which keeps all identities, is taken for the original.
    #[test]
    fn a_clone_with_the_identities_of_its_original_is_not_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        write(folder, OLD);
        let mut clone = open(folder);
        assert!(!clone.is_copied() && follows(&mut clone, OLD, 9));
    }

    #[test]
    fn a_device_may_have_another_number() {
        for (one, other, same) in [
            ("1-2-3", "1-2-3", true),
            ("1-2-3", "9-2-3", true),
            ("1-2-3", "1-2-4", false),
            ("1-2-3", "1-4-3", false),
            ("1-2-r3", "9-2-r3", false),
            ("1-2-r3", "1-2-r3", true),
            ("here", "there", false),
        ] {
            assert_eq!(may_be_same(one, other), same, "{one} {other}");
        }
    }
}
