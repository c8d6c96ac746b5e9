//! A store that writes its replica's snapshots in parts, and continues with a log. A restore from the parts
//! must give the same state as a restore from a snapshot in one piece.

use crate::random::Random;
use tallymesh_core::explore::local_text;
use tallymesh_core::{
    Encode, Mark, Message, Part, Replica, Restoring, Snapshot, Space, VersionVector, WriterId,
};

/// Metrics of stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics {
    /// Snapshots that were finished.
    pub snapshots: u64,
    /// Snapshots with a shard in two parts, because the shard changed between them.
    pub changed: u64,
    /// Parts of snapshots.
    pub parts: u64,
    /// Snapshots that became void.
    pub voids: u64,
    /// Restores, with and without a log.
    pub restored: u64,
    /// Records of the logs.
    pub records: u64,
}

impl Metrics {
    /// Adds the metrics of another run.
    pub fn add(&mut self, other: &Metrics) {
        self.snapshots += other.snapshots;
        self.changed += other.changed;
        self.parts += other.parts;
        self.voids += other.voids;
        self.restored += other.restored;
        self.records += other.records;
    }
}

/// A finished snapshot, and the log after it.
#[derive(Clone)]
struct StoredSnapshot {
    /// All parts, encoded.
    parts: Vec<Vec<u8>>,
    /// The same state in one piece.
    whole: Vec<u8>,
    mark: Mark,
    records: Vec<Vec<u8>>,
}

/// A store of one replica.
#[derive(Clone)]
pub struct Store {
    random: Random,
    /// Whether a restore gives the exact state. If a writer is forked, its lifetime may begin later in one of
    /// its histories. A merge of this history may remove a watermark in between, and no record contains the
    /// removal. So the restored replica has the watermark until it merges others' messages.
    exact: bool,
    begun: Option<(Snapshot, Vec<Vec<u8>>)>,
    stored: Option<StoredSnapshot>,
    /// The metrics of this store.
    pub metrics: Metrics,
}

impl Store {
    /// A store whose actions follow from this seed. Not `exact` if writers that cancel may be forked.
    pub fn new(seed: u64, exact: bool) -> Store {
        Store {
            random: Random::new(seed),
            exact,
            begun: None,
            stored: None,
            metrics: Metrics::default(),
        }
    }

    /// Performs a random action of the store, or none, at the time `now` of its replica.
    ///
    /// # Errors
    /// The difference of a restored state, as text.
    pub fn turn(&mut self, replica: &mut Replica, now: u64) -> Result<(), String> {
        match self.random.below(20) {
            0..3 => self.step(replica, now),
            3 => {
                self.append(replica);
                Ok(())
            }
            4 => {
                self.append(replica);
                self.check(replica, now)
            }
            _ => Ok(()),
        }
    }

    /// Writes the next part of a snapshot.
    fn step(&mut self, replica: &mut Replica, now: u64) -> Result<(), String> {
        let begin = || (Snapshot::begin(replica), Vec::new());
        let (mut snapshot, mut parts) = self.begun.take().unwrap_or_else(begin);
        let bytes_target = *self.random.pick(&[0, 0, 0, 0, 0, 1, 4, 20, 60, 100_000]);
        match snapshot.step(replica, bytes_target) {
            Part::More(part) => {
                parts.push(part.encode_stored());
                self.begun = Some((snapshot, parts));
                Ok(())
            }
            Part::Last(part) => {
                self.metrics.snapshots += 1;
                self.metrics.parts += parts.len() as u64 + 1;
                parts.push(part.encode_stored());
                let told = decoded(&parts)?;
                let told: usize = told.iter().map(Message::shard_count).sum();
                self.metrics.changed += u64::from(told > replica.shard_count());
                self.stored = Some(StoredSnapshot {
                    parts,
                    whole: replica.snapshot().encode_stored(),
                    mark: replica.mark(),
                    records: Vec::new(),
                });
                match snapshot.step(replica, bytes_target) {
                    Part::Void => self.check(replica, now),
                    part => Err(format!("a part after the last one: {part:?}")),
                }
            }
            Part::Void => {
                self.metrics.voids += 1;
                Ok(())
            }
        }
    }

    /// Writes the changes to the log. This has to be done before the replica collects.
    pub fn append(&mut self, replica: &mut Replica) {
        if let Some(stored) = &mut self.stored
            && let Some(record) = replica.since(&mut stored.mark)
        {
            self.metrics.records += 1;
            match record.is_whole() {
                true => self.stored = None, // it replaces all records before it
                false => stored.records.push(record.encode_stored()),
            }
        }
    }

    /// Restores from the parts and from one piece, and compares the results.
    fn check(&mut self, replica: &Replica, now: u64) -> Result<(), String> {
        let Some(stored) = &self.stored else {
            return Ok(());
        };
        let writer = WriterId::mint(&Space::default(), &[97; 32], &[97; 16]);
        let wrong = |error: tallymesh_core::Error| format!("it can't be taken back: {error}");
        let mut parts = decoded(&stored.parts)?;
        let last = parts.pop().ok_or("there is no part")?;
        let mut restoring = Restoring::new(Space::default(), writer);
        for part in &parts {
            restoring = restoring.take(part).map_err(wrong)?;
        }
        let mut one = restoring.finish(&last).map_err(wrong)?;
        let mut other = Replica::new(Space::default(), writer);
        let whole = Message::decode_stored(&stored.whole).map_err(wrong)?;
        other.restore(&whole).map_err(wrong)?;
        for record in &decoded(&stored.records)? {
            one.restore(record).map_err(wrong)?;
            other.restore(record).map_err(wrong)?;
        }
        self.metrics.restored += 1;
        if !self.exact {
            exchange(&mut one, &mut other).map_err(wrong)?;
        } else if (one.forks().fault_count() > 0) != (other.forks().fault_count() > 0) {
            // The order of keys decides how often a fork is noticed.
            return Err("that a writer was forked is not what was kept".into());
        }
        same(&mut one, &mut other).map_err(|what| format!("{what} is not what was kept"))?;
        let mut live = replica.clone();
        if !self.exact {
            exchange(&mut one, &mut live).map_err(wrong)?;
        }
        // The live replica may only have forgotten writers since.
        if !one.vector().covers(&live.vector()) {
            return Err("the version vector was not kept".into());
        }
        match (read(&mut one, now), read(&mut live, now)) {
            (one, was) if one != was => Err(format!("{was:?} was kept as {one:?}")),
            _ => Ok(()),
        }
    }
}

fn decoded(messages: &[Vec<u8>]) -> Result<Vec<Message>, String> {
    let decode = |bytes: &Vec<u8>| Message::decode_stored(bytes);
    let messages: Result<_, _> = messages.iter().map(decode).collect();
    messages.map_err(|error| error.to_string())
}

/// Two replicas merge each other's whole state.
fn exchange(one: &mut Replica, other: &mut Replica) -> Result<(), tallymesh_core::Error> {
    let full = |replica: &Replica| replica.delta(&VersionVector::default());
    let (from_one, from_other) = (full(one), full(other));
    one.merge(&from_other)?;
    other.merge(&from_one).map(drop)
}

/// Checks that two replicas are the same in everything that counts. The error is the difference.
fn same(one: &mut Replica, other: &mut Replica) -> Result<(), String> {
    if one.canonical_bytes() != other.canonical_bytes() {
        let (one, other) = (one.snapshot(), other.snapshot());
        return Err(format!("the state\n{one:?}\nfor\n{other:?}\n"));
    }
    if one.snapshot() != other.snapshot() {
        let (one, other) = (one.snapshot(), other.snapshot());
        return Err(format!("the snapshot\n{one:?}\nfor\n{other:?}\n"));
    }
    let rest = (local_text(one), local_text(other));
    if rest.0 != rest.1 {
        return Err(format!("the rest\n{}\nfor\n{}\n", rest.0, rest.1));
    }
    if one.members().list() != other.members().list()
        || one.forks_mut().content_digest() != other.forks_mut().content_digest()
    {
        return Err("what members see".into());
    }
    for now in [0, u64::MAX] {
        let (one, other) = (read(one, now), read(other, now));
        if one != other {
            return Err(format!("{one:?} for {other:?}"));
        }
    }
    Ok(())
}

/// Each counter that exists at a time, with its value and its expiry.
fn read(replica: &mut Replica, now: u64) -> Vec<(String, Option<i128>, Option<u64>)> {
    replica.set_time(now);
    let read = |(handle, key): (_, &str)| {
        let (value, expiry) = (replica.value_at(handle), replica.expiry_at(handle));
        (key.to_owned(), value, expiry)
    };
    let mut counters: Vec<_> = replica.counters().map(read).collect();
    counters.sort();
    counters
}
