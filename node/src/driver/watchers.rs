//! Who is told what happens in a space: readers of events, and requests that wait for a decision.
//!
//! A change wakes the readers of its key and of prefixes of it. Readers of other keys cost nothing, so
//! that any number of idle ones does not slow down writes.

use super::{Changes, News, Wanted};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::mpsc;

/// News that a slow reader may be behind before it is told to catch up.
const NEWS_MAX: usize = 256;

/// Readers by number.
type Group = BTreeMap<u64, Entry>;

struct Entry {
    news: mpsc::Sender<News>,
    lagged: Arc<AtomicBool>,
}

impl Entry {
    fn tell(&self, news: &News) {
        // A reader that is gone is taken out by its own hand.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.news.try_send(news.clone()) {
            self.lagged.store(true, Ordering::Release);
        }
    }
}

/// What of the changes a reader is told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Key(String),
    Prefix(String),
    /// None of them.
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
    /// How many of the prefixes are so long, in bytes.
    lengths: BTreeMap<usize, usize>,
    others: Group,
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

    /// Tells each reader of one of these keys once.
    fn changed(&self, changes: &Changes, news: &News) {
        let counters = changes.counters.iter().map(|it| &*it.key);
        let budgets = changes.budgets.iter().map(|it| &*it.key);
        let sequences = changes.sequences.iter().map(|it| &*it.key);
        let keys = BTreeSet::from_iter(counters.chain(budgets).chain(sequences));
        let mut prefixes = BTreeSet::new();
        for key in keys {
            for entry in self.keys.get(key).into_iter().flat_map(Group::values) {
                entry.tell(news);
            }
            let starts = self.lengths.keys().filter_map(|length| key.get(..*length));
            prefixes.extend(starts.filter(|start| self.prefixes.contains_key(*start)));
        }
        let groups = prefixes.iter().filter_map(|it| self.prefixes.get(*it));
        for entry in groups.flat_map(Group::values) {
            entry.tell(news);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        let groups = self.keys.values().chain(self.prefixes.values());
        groups.flat_map(Group::values).chain(self.others.values())
    }
}

/// Who is told what happens in one space. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Watchers(Arc<Mutex<Table>>);

impl Watchers {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `wanted` is told, and all that is no change; without it only the latter.
    pub(super) fn watch(&self, wanted: Option<&Wanted>) -> Watch {
        let (news, inbox) = mpsc::channel(NEWS_MAX);
        let (place, lagged) = (Place::of(wanted), Arc::new(AtomicBool::new(false)));
        let entry = Entry {
            news,
            lagged: Arc::clone(&lagged),
        };
        let number = self.table().insert(&place, entry);
        Watch {
            news: inbox,
            lagged,
            place,
            number,
            of: Arc::downgrade(&self.0),
        }
    }

    /// Whether anybody wants to hear of changes.
    pub(super) fn want_changes(&self) -> bool {
        let table = self.table();
        !table.keys.is_empty() || !table.prefixes.is_empty()
    }

    pub(super) fn tell(&self, news: &News) {
        let table = self.table();
        match news {
            News::Changed(changes, _) => table.changed(changes, news),
            // There is one now and then.
            _ => table.all().for_each(|entry| entry.tell(news)),
        }
    }
}

/// What the space has for a reader is over, or was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNews {
    /// The reader was too slow: some news is lost, and it should look for itself.
    Lost,
    /// The node stops.
    Stopped,
}

/// One who is told.
pub struct Watch {
    news: mpsc::Receiver<News>,
    lagged: Arc<AtomicBool>,
    place: Place,
    number: u64,
    of: Weak<Mutex<Table>>,
}

impl Watch {
    /// Waits for news.
    ///
    /// # Errors
    /// [`NoNews::Lost`] in place of all that waits, if there was no room for more.
    pub async fn recv(&mut self) -> Result<News, NoNews> {
        self.lost()?;
        self.news.recv().await.ok_or(NoNews::Stopped)
    }

    /// What waits, if anything does.
    ///
    /// # Errors
    /// As of [`Watch::recv`].
    pub fn try_recv(&mut self) -> Result<Option<News>, NoNews> {
        self.lost()?;
        match self.news.try_recv() {
            Ok(news) => Ok(Some(news)),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(NoNews::Stopped),
        }
    }

    fn lost(&mut self) -> Result<(), NoNews> {
        if !self.lagged.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        while self.news.try_recv().is_ok() {}
        Err(NoNews::Lost)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Where it is gone, the node stops.
        if let Some(table) = self.of.upgrade() {
            Watchers(table).table().remove(&self.place, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Change, Position};

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

    /// How much waits for a reader.
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
