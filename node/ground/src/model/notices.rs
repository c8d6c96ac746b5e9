//! Events of counters under the names of Redis, for subscribers.

/// An event of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// An amount was added here.
    IncrBy,
    /// It was set here.
    Set,
    /// It was given an expiry here.
    Expire,
    /// Its expiry was removed here.
    Persist,
    /// It was deleted here.
    Del,
    /// It had expired, and was deleted here.
    Expired,
    /// Changes of another replica were merged.
    Merge,
    /// A budget was changed here.
    Budget,
}

impl Event {
    /// Its name in channels and messages. All except `merge` and `budget` are Redis's.
    pub fn name(self) -> &'static str {
        match self {
            Event::IncrBy => "incrby",
            Event::Set => "set",
            Event::Expire => "expire",
            Event::Persist => "persist",
            Event::Del => "del",
            Event::Expired => "expired",
            Event::Merge => "merge",
            Event::Budget => "budget",
        }
    }
}

/// An event in the form of channels, made once for all sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The kind of event.
    pub event: Event,
    /// The beginning of the channels that are named by key.
    pub keyspace: Vec<u8>,
    /// The channel that is named by event.
    pub keyevent: Vec<u8>,
    /// Where the key begins in `keyspace`.
    pub key_at: usize,
}

impl Notice {
    /// The notice of an `event` of the counter `key` in a space.
    pub fn new(space: usize, key: &str, event: Event) -> Notice {
        let prefix = format!("__keyspace@{space}__:");
        let key_at = prefix.len();
        Notice {
            event,
            keyspace: (prefix + key).into_bytes(),
            keyevent: format!("__keyevent@{space}__:{}", event.name()).into_bytes(),
            key_at,
        }
    }
}

impl Notice {
    /// The memory that it uses beside itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.keyspace.capacity() + self.keyevent.capacity()
    }
}
