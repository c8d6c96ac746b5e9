//! Random histories, and a model of what a replica may show.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Once;
use tallymesh_core::wire::Digests;
use tallymesh_core::{Message, Replica, Space, SplitMix64, VersionVector, WriterId};

/// The random choices of a case.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number of any magnitude, either sign; now and then an extreme one.
    pub(crate) fn amount(&mut self) -> i64 {
        match self.below(12) {
            0 => 0,
            1 => i64::MAX,
            2 => i64::MIN,
            _ => (self.next() as i64) >> self.below(64),
        }
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// What a hello and a digest frame say.
pub(crate) fn digests(replica: &mut Replica) -> Digests {
    Digests {
        vector: replica.digest(),
        contents: replica.forks_mut().content_digest(),
    }
}

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `body` for `count` seeds; a failure names its seed.
pub(crate) fn cases(count: u64, body: impl Fn(&mut Random)) {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            if let Some(seed) = SEED.get() {
                say(&format!("replay with TALLYMESH_SEED={seed}"));
            }
        }));
    });
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("TALLYMESH_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count * number("TALLYMESH_CASES").unwrap_or(1),
    };
    for seed in seeds {
        SEED.set(Some(seed));
        body(&mut Random(SplitMix64::new(seed ^ 0x7a11_7a11)));
    }
    SEED.set(None);
}

#[cfg(target_family = "wasm")]
fn say(text: &str) {
    wasm_bindgen_test::console_log!("{text}");
}

#[cfg(not(target_family = "wasm"))]
fn say(text: &str) {
    eprintln!("{text}");
}

pub(crate) fn space() -> Space {
    Space::new("laws").unwrap()
}

pub(crate) fn writer(number: u64) -> WriterId {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    WriterId::mint(&space(), &[9; 32], &nonce)
}

pub(crate) fn replica(number: u64) -> Replica {
    Replica::new(space(), writer(number))
}

/// A replica that never writes.
pub(crate) fn observer() -> Replica {
    replica(u64::MAX)
}

/// An observer that has merged these states.
pub(crate) fn joined(states: &[&Message]) -> Replica {
    let mut replica = observer();
    for state in states {
        replica.merge(state).unwrap();
    }
    replica
}

pub(crate) fn full(replica: &Replica) -> Message {
    replica.delta(&VersionVector::default())
}

/// Keys that share prefixes, of one to many bytes; few in most cases, some pages full in others.
pub(crate) fn keys(random: &mut Random) -> Vec<String> {
    let count = match random.below(6) {
        0 => 1,
        1..=3 => 1 + random.below(10),
        4 => 60 + random.below(12),
        _ => 130 + random.below(200),
    };
    (0..count)
        .map(|at| match at % 7 {
            0 => format!("k{at}"),
            1 => format!("page:ü:{at:05}"),
            2 => format!("page:ü:{at:05}{}", "x".repeat(random.below(500))),
            _ => format!("counter:{at:05}"),
        })
        .collect()
}

/// What every writer ever did, by which a replica's state follows from its version vector.
#[derive(Default)]
pub(crate) struct History(BTreeMap<WriterId, Vec<Entry>>);

struct Entry {
    clock: u64,
    key: String,
    total: i64,
}

type Shards = BTreeMap<(String, WriterId), (u64, i64)>;

impl History {
    /// Adds at the replica if the sum fits; the model says beforehand whether it does.
    pub(crate) fn add(&mut self, replica: &mut Replica, key: &str, by: i64) {
        let writer = replica.writer();
        let log = self.0.entry(writer).or_default();
        let before = log.iter().rev().find(|entry| entry.key == key);
        let sum = before.map_or(0, |entry| entry.total).checked_add(by);
        let result = replica.add(key, by);
        assert_eq!(result.is_ok(), sum.is_some(), "{result:?}");
        if let Some(total) = sum {
            let key = key.to_string();
            let clock = log.last().map_or(0, |entry| entry.clock) + 1;
            assert_eq!(replica.clock(), clock);
            log.push(Entry { clock, key, total });
        }
    }

    /// What a replica with this vector must show.
    fn at(&self, vector: &VersionVector) -> Shards {
        let mut shards = Shards::new();
        for (writer, log) in &self.0 {
            let held = vector.get(writer);
            for entry in log.iter().take_while(|entry| entry.clock <= held) {
                let shard = (entry.clock, entry.total);
                shards.insert((entry.key.clone(), *writer), shard);
            }
        }
        shards
    }

    /// The replica shows exactly what its version vector covers.
    pub(crate) fn check(&self, replica: &Replica) {
        let expected = self.at(&replica.vector());
        assert_eq!(shards(replica), expected);
        let mut values: BTreeMap<&str, i128> = BTreeMap::new();
        for ((key, _), (_, total)) in &expected {
            *values.entry(key).or_insert(0) += i128::from(*total);
        }
        assert_eq!(replica.len(), values.len());
        assert_eq!(replica.shard_count(), expected.len());
        for (key, value) in values {
            assert_eq!(replica.value(key), Some(value), "{key}");
        }
    }
}

/// All shards of a replica.
pub(crate) fn shards(replica: &Replica) -> Shards {
    let mut shards = Shards::new();
    for (key_id, key) in replica.counters() {
        for shard in replica.shards(key_id) {
            let at = (key.to_string(), shard.writer);
            let total = i64::try_from(shard.total).expect("a plain shard");
            shards.insert(at, (shard.clock, total));
        }
    }
    shards
}

/// Some replicas with a shared past, each having seen a part of the others.
pub(crate) fn world(random: &mut Random, count: usize) -> (Vec<Replica>, History) {
    let keys = keys(random);
    let mut history = History::default();
    let mut replicas: Vec<Replica> = (0..count as u64).map(replica).collect();
    for _ in 0..random.below(4 * keys.len() + 20) {
        let at = random.below(count);
        if random.chance(85) {
            let (key, by) = (random.pick(&keys), random.amount());
            history.add(&mut replicas[at], key, by);
        } else {
            let from = random.below(count);
            let since = replicas[random.below(count)].vector();
            let message = replicas[from].delta(&since);
            // Refused if this replica lacks what the delta builds on.
            let _ = replicas[at].merge(&message);
        }
    }
    (replicas, history)
}

/// As [`world`], but some of the replicas write under one id.
pub(crate) fn forked_world(random: &mut Random, count: usize) -> Vec<Replica> {
    let keys = keys(random);
    let mut replicas: Vec<Replica> = (0..count as u64).map(|at| replica(at / 2)).collect();
    for _ in 0..random.below(3 * keys.len() + 20) {
        let at = random.below(count);
        if random.chance(90) {
            let by = random.below(5) as i64 - 2;
            let key = random.pick(&keys);
            replicas[at].add(key, by).unwrap();
        } else {
            let message = full(&replicas[random.below(count)]);
            // Refused if a twin is ahead.
            let _ = replicas[at].merge(&message);
        }
    }
    replicas
}
