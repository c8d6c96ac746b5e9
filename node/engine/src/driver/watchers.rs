//! The readers of a space's events, and the requests that wait for a decision in it.
//!
//! A change wakes the readers of its key and of prefixes of it. Readers of other keys cost nothing,
//! so any number of idle ones does not slow down writes. The waiting events have a bound in bytes,
//! for each reader and for all together. Above it, the reader with the most bytes loses its events,
//! and is informed of the loss.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tallymesh_node_ground::model::{Change, Changes, News, Position, Wanted};
use tokio::sync::Notify;

/// Most events that wait for one reader. A slower reader is informed that events are lost.
const NEWS_MAX: usize = 256;
/// The same bound, in bytes.
const READER_BYTES_MAX: usize = 256 << 10;
/// Most bytes that wait for all readers of a space.
const BYTES_MAX: usize = 32 << 20;
/// Estimated bytes of an event or a change beside its key.
const ROW_BYTES: usize = size_of::<Change>() + 64;

/// Readers by number.
type Group = BTreeMap<u64, Entry>;

/// The events that wait for one reader.
#[derive(Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    told: Notify,
    /// The bytes that wait for all readers.
    all: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Waiting {
    news: VecDeque<(News, usize)>,
    bytes: usize,
    lost: bool,
    over: bool,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while it has the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, waiting: &mut Waiting) {
        self.all.fetch_sub(waiting.bytes, Ordering::Relaxed);
        *waiting = Waiting {
            lost: true,
            over: waiting.over,
            ..Waiting::default()
        };
    }

    fn next(&self) -> Result<Option<News>, NoNews> {
        let mut waiting = self.waiting();
        if std::mem::take(&mut waiting.lost) {
            return Err(NoNews::Lost);
        }
        match waiting.news.pop_front() {
            Some((news, bytes)) => {
                waiting.bytes -= bytes;
                self.all.fetch_sub(bytes, Ordering::Relaxed);
                Ok(Some(news))
            }
            None if waiting.over => Err(NoNews::Stopped),
            None => Ok(None),
        }
    }
}

/// A reader, as the table of the space stores it.
struct Entry(Arc<Inbox>);

impl Entry {
    fn tell(&self, news: &News, bytes: usize) {
        let mut waiting = self.0.waiting();
        if waiting.lost {
            return; // It has to look for itself anyway.
        }
        if waiting.news.len() >= NEWS_MAX || waiting.bytes + bytes > READER_BYTES_MAX {
            self.0.lose(&mut waiting);
        } else {
            waiting.news.push_back((news.clone(), bytes));
            waiting.bytes += bytes;
            self.0.all.fetch_add(bytes, Ordering::Relaxed);
        }
        drop(waiting);
        self.0.told.notify_one();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.waiting().over = true;
        self.0.told.notify_one();
    }
}

/// Selects the changes for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Key(String),
    Prefix(String),
    /// No changes.
    Nothing,
}

impl Place {
    fn of(wanted: Option<&Wanted>) -> Place {
        match wanted {
            None => Place::Nothing,
            Some(Wanted { key: None, prefix }) => Place::Prefix(prefix.clone()),
            Some(Wanted { key: Some(key), .. }) => Place::Key(key.clone()),
        }
    }
}

#[derive(Default)]
struct Table {
    next: u64,
    keys: HashMap<String, Group>,
    prefixes: HashMap<String, Group>,
    /// For each length in bytes, the number of prefixes with this length.
    lengths: BTreeMap<usize, usize>,
    others: Group,
    /// The bytes that wait for all readers.
    bytes: Arc<AtomicUsize>,
}

/// The changes of one commit, with their bytes, for each key and each prefix that has readers.
struct CommitChanges<'c> {
    table: &'c Table,
    keys: BTreeMap<&'c str, (Changes, usize)>,
    prefixes: BTreeMap<&'c str, (Changes, usize)>,
    /// The bytes of the whole commit.
    bytes: usize,
}

impl<'c> CommitChanges<'c> {
    /// Adds a change of a key for all readers that want it, with `put`.
    fn add(&mut self, key: &'c str, put: impl Fn(&mut Changes)) {
        let bytes = ROW_BYTES + key.len();
        self.bytes += bytes;
        let add = |to: &mut (Changes, usize)| {
            put(&mut to.0);
            to.1 += bytes;
        };
        if self.table.keys.contains_key(key) {
            add(self.keys.entry(key).or_default());
        }
        // Readers of all keys share the whole commit.
        let starts = self.table.lengths.keys().filter(|length| **length > 0);
        let starts = starts.filter_map(|length| key.get(..*length));
        for start in starts.filter(|start| self.table.prefixes.contains_key(*start)) {
            add(self.prefixes.entry(start).or_default());
        }
    }
}

impl Table {
    fn insert(&mut self, place: &Place, entry: Entry) -> u64 {
        let number = self.next;
        self.next += 1;
        let group = match place {
            Place::Key(key) => self.keys.entry(key.clone()).or_default(),
            Place::Prefix(prefix) => {
                let group = self.prefixes.entry(prefix.clone()).or_default();
                if group.is_empty() {
                    *self.lengths.entry(prefix.len()).or_default() += 1;
                }
                group
            }
            Place::Nothing => &mut self.others,
        };
        group.insert(number, entry);
        number
    }

    fn remove(&mut self, place: &Place, number: u64) {
        let take = |groups: &mut HashMap<String, Group>, name: &String| {
            let group = groups.get_mut(name);
            let is_empty = group.is_some_and(|group| {
                group.remove(&number);
                group.is_empty()
            });
            if is_empty {
                groups.remove(name);
            }
            is_empty
        };
        match place {
            Place::Key(key) => {
                take(&mut self.keys, key);
            }
            Place::Prefix(prefix) => {
                if take(&mut self.prefixes, prefix)
                    && let Some(count) = self.lengths.get_mut(&prefix.len())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&prefix.len());
                    }
                }
            }
            Place::Nothing => {
                self.others.remove(&number);
            }
        }
    }

    /// Sends each reader the changes that it wants, as one event.
    fn changed(&self, changes: &Arc<Changes>, position: Position) {
        let mut told = CommitChanges {
            table: self,
            keys: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            bytes: 0,
        };
        for row in &changes.counters {
            told.add(&row.key, |to| to.counters.push(row.clone()));
        }
        for row in &changes.budgets {
            told.add(&row.key, |to| to.budgets.push(row.clone()));
        }
        for row in &changes.sequences {
            told.add(&row.key, |to| to.sequences.push(row.clone()));
        }
        let CommitChanges {
            keys,
            prefixes,
            bytes,
            ..
        } = told;
        let tell = |group: Option<&Group>, (changes, bytes): (Arc<Changes>, usize)| {
            let news = News::Changed(changes, position);
            let entries = group.into_iter().flat_map(Group::values);
            entries.for_each(|entry| entry.tell(&news, bytes));
        };
        tell(self.prefixes.get(""), (changes.clone(), bytes));
        for (key, (changes, bytes)) in keys {
            tell(self.keys.get(key), (Arc::new(changes), bytes));
        }
        for (prefix, (changes, bytes)) in prefixes {
            tell(self.prefixes.get(prefix), (Arc::new(changes), bytes));
        }
        self.keep_bound();
    }

    /// Drops the events of the readers with the most waiting bytes, while too much waits for all.
    fn keep_bound(&self) {
        while self.bytes.load(Ordering::Relaxed) > BYTES_MAX {
            let most = self.all().max_by_key(|entry| entry.0.waiting().bytes);
            // A reader that ends returns its bytes after it has left the table.
            let Some(Entry(inbox)) = most.filter(|it| it.0.waiting().bytes > 0) else {
                return;
            };
            inbox.lose(&mut inbox.waiting());
            inbox.told.notify_one();
        }
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        let groups = self.keys.values().chain(self.prefixes.values());
        groups.flat_map(Group::values).chain(self.others.values())
    }
}

/// The readers of one space. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<Table>>);

impl Watchers {
    fn table(&self) -> MutexGuard<'_, Table> {
        // No code panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader of the `wanted` changes and of all other events. Without `wanted` it receives
    /// only the other events.
    pub(super) fn watch(&self, wanted: Option<&Wanted>) -> Watch {
        let place = Place::of(wanted);
        let mut table = self.table();
        let inbox = Arc::new(Inbox {
            all: table.bytes.clone(),
            ..Inbox::default()
        });
        let number = table.insert(&place, Entry(inbox.clone()));
        let of = Arc::downgrade(&self.0);
        Watch {
            inbox,
            place,
            number,
            of,
        }
    }

    /// Whether any reader wants changes.
    pub(super) fn want_changes(&self) -> bool {
        let table = self.table();
        !table.keys.is_empty() || !table.prefixes.is_empty()
    }

    pub(super) fn tell(&self, news: &News) {
        let table = self.table();
        match news {
            News::Changed(changes, position) => table.changed(changes, *position),
            // Such events are rare, and all readers share one.
            _ => table.all().for_each(|entry| entry.tell(news, ROW_BYTES)),
        }
    }
}

/// The reason why a reader receives no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNews {
    /// The reader was too slow. Some events are lost, and the reader should read the state itself.
    Lost,
    /// The node stops.
    Stopped,
}

/// The receiving end of one reader.
pub struct Watch {
    inbox: Arc<Inbox>,
    place: Place,
    number: u64,
    of: Weak<Mutex<Table>>,
}

impl Watch {
    /// Waits for the next event.
    ///
    /// # Errors
    /// [`NoNews::Lost`] instead of all waiting events, if there was no room for more.
    pub async fn recv(&mut self) -> Result<News, NoNews> {
        loop {
            if let Some(news) = self.try_recv()? {
                return Ok(news);
            }
            self.inbox.told.notified().await;
        }
    }

    /// Returns the next event, if one waits.
    ///
    /// # Errors
    /// As for [`Watch::recv`].
    pub fn try_recv(&mut self) -> Result<Option<News>, NoNews> {
        self.inbox.next()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // If the table is gone, the node is stopping.
        if let Some(table) = self.of.upgrade() {
            Watchers(table).table().remove(&self.place, self.number);
        }
        // The waiting events no longer count.
        self.inbox.lose(&mut self.inbox.waiting());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_node_ground::model::{Change, Position};

    fn changed(keys: &[&str]) -> News {
        let counters = keys.iter().map(|key| Change {
            key: (*key).to_owned(),
            now: None,
        });
        let changes = Changes {
            counters: counters.collect(),
            ..Changes::default()
        };
        let position: Position = "0-0-0".parse().expect("a position");
        News::Changed(Arc::new(changes), position)
    }

    fn wanted(key: Option<&str>, prefix: &str) -> Wanted {
        Wanted {
            key: key.map(str::to_owned),
            prefix: prefix.to_owned(),
        }
    }

    /// How many events wait for a reader.
    fn waiting(watch: &mut Watch) -> usize {
        std::iter::from_fn(|| watch.try_recv().expect("not lost")).count()
    }

    #[test]
    fn a_change_is_told_once_to_the_readers_of_its_key_and_to_no_other() {
        let watchers = Watchers::default();
        let places = [
            (None, ""),
            (None, "lik"),
            (None, "likes"),
            (None, "likes!"),
            (Some("likes"), ""),
            (Some("views"), ""),
        ];
        let places = places.map(|(key, prefix)| wanted(key, prefix));
        let mut readers = places.map(|it| watchers.watch(Some(&it)));
        let mut other = watchers.watch(None);
        watchers.tell(&changed(&["likes", "likes!", "lik\u{e9}", "stock"]));
        assert_eq!(readers.each_mut().map(waiting), [1, 1, 1, 1, 1, 0]);
        watchers.tell(&changed(&["likely"]));
        assert_eq!(readers.each_mut().map(waiting), [1, 1, 0, 0, 0, 0]);
        assert_eq!(waiting(&mut other), 0);
    }

    #[test]
    fn a_slow_reader_is_told_that_news_is_lost() {
        let watchers = Watchers::default();
        let (mut slow, mut quick) = (
            watchers.watch(Some(&wanted(None, ""))),
            watchers.watch(Some(&wanted(Some("key"), ""))),
        );
        for told in 1..=NEWS_MAX + 1 {
            watchers.tell(&changed(&["key"]));
            assert_eq!(waiting(&mut quick), 1, "{told}");
        }
        assert_eq!(slow.try_recv().err(), Some(NoNews::Lost));
        assert_eq!(waiting(&mut slow), 0);
        watchers.tell(&changed(&["key"]));
        assert_eq!(waiting(&mut slow), 1);
    }

    #[test]
    fn bytes_that_wait_have_a_bound_and_the_reader_with_most_loses() {
        let watchers = Watchers::default();
        let places: Vec<Wanted> = (0..200).map(|at| wanted(None, &format!("{at}."))).collect();
        let mut slow: Vec<Watch> = places.iter().map(|it| watchers.watch(Some(it))).collect();
        let mut small = watchers.watch(Some(&wanted(Some("0.small"), "")));
        watchers.tell(&changed(&["0.small"]));
        let long = "x".repeat(100 << 10);
        for _ in 0..3 {
            for place in &places {
                watchers.tell(&changed(&[&format!("{}{long}", place.prefix)]));
                assert!(watchers.table().bytes.load(Ordering::Relaxed) <= BYTES_MAX);
            }
        }
        let lost = slow.iter_mut().filter_map(|it| it.try_recv().err());
        assert!(lost.count() >= 200 - BYTES_MAX / (200 << 10));
        assert_eq!(waiting(&mut small), 1);
        // An event that is too large for a reader is not kept for it either.
        let mut quick = watchers.watch(Some(&wanted(None, "y")));
        watchers.tell(&changed(&[&"y".repeat(READER_BYTES_MAX)]));
        assert_eq!(quick.try_recv().err(), Some(NoNews::Lost));
        drop((slow, small, quick));
        assert_eq!(watchers.table().bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_reader_is_told_what_it_wants_and_no_more() {
        let watchers = Watchers::default();
        let mut some = watchers.watch(Some(&wanted(None, "a")));
        watchers.tell(&changed(&["a", "b", "ab"]));
        let Ok(Some(News::Changed(changes, _))) = some.try_recv() else {
            panic!("no news");
        };
        let keys: Vec<&str> = changes.counters.iter().map(|it| &*it.key).collect();
        assert_eq!(keys, ["a", "ab"]);
    }

    #[test]
    fn readers_that_go_leave_nothing() {
        let watchers = Watchers::default();
        let places = [wanted(None, "a"), wanted(None, "b"), wanted(Some("a"), "")];
        let mut readers = Vec::new();
        for place in places.iter().chain(&places) {
            readers.push(watchers.watch(Some(place)));
        }
        readers.push(watchers.watch(None));
        assert!(watchers.want_changes());
        readers.remove(0);
        assert_eq!(watchers.table().lengths, BTreeMap::from([(1, 2)]));
        let other = readers.pop();
        readers.clear();
        assert!(!watchers.want_changes());
        assert_eq!(watchers.table().all().count(), 1);
        assert_eq!(watchers.table().lengths, BTreeMap::new());
        let mut other = other.expect("it was there");
        drop(watchers);
        assert_eq!(other.try_recv().err(), Some(NoNews::Stopped));
    }
}
