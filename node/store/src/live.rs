//! Tracks which records of the log are still needed, for each space.

use super::Kind;
use tallymesh_core::Space;

/// The place of one record's bytes, and their checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) kind: Kind,
    /// The number of the segment.
    pub(super) segment: u64,
    /// The place in the file.
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Their CRC-32.
    pub(super) sum: u32,
}

/// Records of one space that are needed together.
#[derive(Debug, Default)]
struct Span {
    /// The commit that has the first of them.
    oldest: u64,
    bytes: u64,
    /// The place of each record, while places are remembered.
    places: Vec<Place>,
}

impl Span {
    fn begin(commit: u64) -> Span {
        Span {
            oldest: commit,
            ..Span::default()
        }
    }

    fn add(&mut self, bytes: u64, place: Option<Place>) {
        self.bytes += bytes;
        // Records without bytes are not passed on.
        self.places.extend(place.filter(|place| place.bytes > 0));
    }
}

/// The needed records of one space.
#[derive(Debug, Default)]
pub(super) struct Live {
    snapshot: Option<Span>,
    /// The changes after the snapshot's end.
    changes: Option<Span>,
    /// A snapshot whose end has not arrived yet.
    begun: Option<Span>,
    /// Whether the places of all of these records are recorded.
    located: bool,
    /// Whether the driver has this space open. Only then can it make a snapshot.
    pub(super) in_use: bool,
    /// The number of all records of the space in the log, needed or not.
    pub(super) records: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl Live {
    /// Records one more record, in commit number `commit`. Returns `false`, and does nothing else,
    /// if the record continues a snapshot that was not begun.
    pub(super) fn note(
        &mut self,
        commit: u64,
        kind: Kind,
        bytes: u64,
        place: Option<Place>,
    ) -> bool {
        match kind {
            Kind::Change | Kind::Adds => {
                let changes = self.changes.get_or_insert_with(|| Span::begin(commit));
                changes.add(bytes, place);
            }
            Kind::Whole => {
                let mut whole = Span::begin(commit);
                whole.add(bytes, place);
                (self.snapshot, self.changes, self.begun) = (Some(whole), None, None);
            }
            Kind::First => {
                let mut first = Span::begin(commit);
                first.add(bytes, place);
                self.begun = Some(first);
            }
            Kind::Part => match &mut self.begun {
                Some(begun) => begun.add(bytes, place),
                None => return false,
            },
            Kind::Last => match self.begun.take() {
                Some(mut begun) => {
                    begun.add(bytes, place);
                    (self.snapshot, self.changes) = (Some(begun), None);
                }
                None => return false,
            },
        }
        self.records += 1;
        self.bytes += bytes;
        if place.is_none() {
            self.forget_places();
        }
        true
    }

    /// The commit with the first needed record.
    fn oldest(&self) -> Option<u64> {
        self.spans().map(|span| span.oldest).min()
    }

    fn spans(&self) -> impl Iterator<Item = &Span> {
        let spans = [&self.snapshot, &self.changes, &self.begun];
        spans.into_iter().flatten()
    }

    /// Whether a snapshot was begun and not ended.
    fn is_being_snapshotted(&self) -> bool {
        self.begun.is_some()
    }

    /// Bytes that [`super::Store::load`] passes on.
    pub(super) fn needed_bytes(&self) -> u64 {
        let spans = [&self.snapshot, &self.changes];
        spans.into_iter().flatten().map(|span| span.bytes).sum()
    }

    /// Bytes that a snapshot would not save. A space that is not in use can't get a snapshot.
    fn lasting_bytes(&self) -> u64 {
        match self.in_use {
            true => self.snapshot.as_ref().map_or(0, |span| span.bytes),
            false => self.needed_bytes(),
        }
    }

    /// The places of the records to pass on, in order, if they are recorded. Afterwards they are
    /// forgotten, because memory for them is only used until a node has started.
    pub(super) fn take_places(&mut self) -> Option<Vec<Place>> {
        if !self.located {
            return None;
        }
        let spans = [&mut self.snapshot, &mut self.changes];
        let places = spans.into_iter().flatten();
        let places = places.flat_map(|span| std::mem::take(&mut span.places));
        let places = places.collect();
        self.forget_places();
        Some(places)
    }

    fn forget_places(&mut self) {
        self.located = false;
        for span in [&mut self.snapshot, &mut self.changes, &mut self.begun] {
            span.iter_mut().for_each(|span| span.places = Vec::new());
        }
    }
}

/// The needed records of all spaces.
#[derive(Debug, Default)]
pub(super) struct Index {
    // A node has few spaces, and records name them in turn. So a list is faster than a tree of
    // text.
    spaces: Vec<(Space, Live)>,
}

impl Index {
    /// The entry of a space, which may be new and empty. `None` if no space can have this name.
    pub(super) fn entry(&mut self, name: &str) -> Option<&mut Live> {
        let place = self.place(name);
        let place = match place {
            Some(place) => place,
            None => {
                let live = Live {
                    located: true,
                    ..Live::default()
                };
                self.spaces.push((Space::new(name).ok()?, live));
                self.spaces.len() - 1
            }
        };
        Some(&mut self.spaces[place].1)
    }

    fn place(&self, name: &str) -> Option<usize> {
        let mut names = self.spaces.iter().map(|(space, _)| space.as_str());
        names.position(|space| space == name)
    }

    /// All spaces that have records.
    pub(super) fn spaces(&self) -> impl Iterator<Item = (&Space, &Live)> {
        let spaces = self.spaces.iter().filter(|(_, live)| live.records > 0);
        spaces.map(|(space, live)| (space, live))
    }

    /// The space whose needed records begin first, and the commit in which they begin.
    pub(super) fn oldest(&self) -> Option<(&Space, &Live, u64)> {
        let spaces = self.spaces.iter();
        let begun = spaces.filter_map(|(space, live)| Some((space, live, live.oldest()?)));
        begun.min_by_key(|(_, _, oldest)| *oldest)
    }

    /// The space whose needed records begin first, if it can get a snapshot now.
    pub(super) fn oldest_in_use(&self) -> Option<&Space> {
        let (space, live, _) = self.oldest()?;
        (live.in_use && !live.is_being_snapshotted()).then_some(space)
    }

    /// Bytes that no snapshot would save.
    pub(super) fn lasting_bytes(&self) -> u64 {
        self.spaces
            .iter()
            .map(|(_, live)| live.lasting_bytes())
            .sum()
    }

    /// Forgets the snapshots that a process began and did not end, because no process will end
    /// them.
    pub(super) fn drop_begun(&mut self) {
        for (_, live) in &mut self.spaces {
            live.begun = None;
        }
    }
}
