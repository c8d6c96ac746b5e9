//! Compares the reads of a replica with the oracle's results for the operations that it sees.

use crate::answer::{Position, Vector, number};
use serde_json::Value;
use std::collections::BTreeMap;
use tallymesh_core::{Encode, Message, Replica, Space, WriterId};
use tallymesh_tests::oracle::{Counter, Oracle, View};

/// A counter, by one way to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) value: i128,
    /// Its expiry, if it has one. The outer `None` means that this way does not return the expiry.
    pub(crate) expiry: Option<Option<u64>>,
}

/// All counters that exist, by one way to read them.
pub(crate) type Shows = BTreeMap<String, Shown>;

/// The whole state of a replica at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Tell {
    pub(crate) position: Position,
    /// The counters by each way to read them.
    pub(crate) ways: Vec<(&'static str, Shows)>,
    /// The state in its only encoding.
    pub(crate) state: Option<Vec<u8>>,
}

impl Tell {
    /// Parses a driver's answer to a request for these keys.
    pub(crate) fn read(answer: &Value, keys: &[String]) -> Result<Tell, String> {
        let told = || -> Option<Tell> {
            let counters = answer["counters"].as_object()?;
            let mut json = Shows::new();
            let mut shards = Shows::new();
            for (key, counter) in counters {
                let expiry = optional(&counter["expires_at"])?;
                json.insert(key.clone(), shown(&counter["value"], Some(expiry))?);
                let totals = counter["shards"].as_object()?.values();
                let totals = totals.map(|shard| number::<i128>(&shard["total"]));
                let value = totals.sum::<Option<i128>>()?;
                shards.insert(
                    key.clone(),
                    Shown {
                        value,
                        expiry: None,
                    },
                );
            }
            let rows = answer["listed"].as_array()?.iter();
            let rows = rows.map(|row| Some((row[0].as_str()?.to_owned(), shown(&row[1], None)?)));
            let reads = answer["reads"]
                .as_array()
                .filter(|it| it.len() == keys.len())?;
            let by = |name: &str| -> Option<Shows> {
                let mut shows = Shows::new();
                for (key, read) in keys.iter().zip(reads) {
                    if !read[name].is_null() {
                        let expiry = optional(&read["expires_at"])?;
                        shows.insert(key.clone(), shown(&read[name], Some(expiry))?);
                    }
                }
                Some(shows)
            };
            let ways = vec![
                ("toJSON", json),
                ("shards", shards),
                ("list", rows.collect::<Option<Shows>>()?),
                ("get", by("get")?),
                ("counter", by("handle")?),
            ];
            Some(Tell {
                position: Position::read(answer).ok()?,
                ways,
                state: Some(bytes(answer["state"].as_str()?)?),
            })
        };
        Position::read(answer)?;
        told().ok_or_else(|| format!("it does not tell its state: {answer}"))
    }
}

/// A counter in an answer.
pub(crate) fn shown(value: &Value, expiry: Option<Option<u64>>) -> Option<Shown> {
    let value = number(value)?;
    Some(Shown { value, expiry })
}

/// A number or null. `None` if the value is neither.
pub(crate) fn optional(value: &Value) -> Option<Option<u64>> {
    match value {
        Value::Null => Some(None),
        other => number(other).map(Some),
    }
}

/// The states of replicas, by their vectors.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// The first replica with this vector, and its state.
    told: BTreeMap<Vector, (String, Vec<u8>)>,
    /// Number of states that another replica had too.
    pub(crate) same: u64,
}

impl States {
    /// Compares all reads of a replica with its view, which has the same vector. Returns the number of reads.
    ///
    /// # Errors
    /// The difference, as text.
    pub(crate) fn judge(
        &mut self,
        name: &str,
        (oracle, view): (&Oracle, &View),
        tell: &Tell,
        now: u64,
    ) -> Result<u64, String> {
        let keys = oracle.keys();
        let exist = keys.iter().enumerate();
        let exist = exist.filter_map(|(key, name)| Some((name.as_str(), view.read(key, now)?)));
        let exist: BTreeMap<&str, Counter> = exist.collect();
        for (way, shows) in &tell.ways {
            compare(&exist, shows).map_err(|why| format!("{name}, by {way}: {why}"))?;
        }
        if let Some(bytes) = &tell.state {
            let read = same_state(oracle, view, bytes, now);
            read.map_err(|why| format!("the bytes of {name}: {why}: {}", hex(bytes)))?;
            self.note(name, &tell.position.vector, bytes)?;
        }
        let ways = tell.ways.len() + usize::from(tell.state.is_some());
        Ok((ways * keys.len()) as u64)
    }

    /// Checks that equal vectors have equal bytes at all replicas.
    fn note(&mut self, name: &str, vector: &Vector, bytes: &[u8]) -> Result<(), String> {
        match self.told.get(vector) {
            Some((other, same)) if same == bytes => {
                self.same += u64::from(other != name);
                Ok(())
            }
            Some((other, others)) => Err(format!(
                "{name} and {other} see the same, and their bytes differ:\n{}\n{}",
                hex(bytes),
                hex(others)
            )),
            None => {
                let told = (name.to_owned(), bytes.to_owned());
                self.told.insert(vector.clone(), told);
                Ok(())
            }
        }
    }
}

fn compare(exist: &BTreeMap<&str, Counter>, shows: &Shows) -> Result<(), String> {
    for (key, counter) in exist {
        let told = shows.get(*key);
        let same = told.is_some_and(|it| {
            it.value == counter.value && it.expiry.is_none_or(|at| at == counter.expiry)
        });
        if !same {
            return Err(format!("{key:?} is {told:?}, expected {counter:?}"));
        }
    }
    match shows.keys().find(|key| !exist.contains_key(key.as_str())) {
        Some(key) => Err(format!("{key:?} is {:?}, expected absent", shows[key])),
        None => Ok(()),
    }
}

/// Merges the bytes into a native replica, and compares all its reads.
fn same_state(oracle: &Oracle, view: &View, bytes: &[u8], now: u64) -> Result<(), String> {
    let message = Message::decode(bytes).map_err(|error| error.to_string())?;
    let (replica, vector) = reader(&message, now)?;
    if vector != *view.vector() {
        let expected = view.vector();
        return Err(format!("they hold {vector:?}, expected {expected:?}"));
    }
    if replica.canonical_bytes() != bytes {
        return Err("read and written again they are others".to_owned());
    }
    oracle.check(view, &replica, now)
}

/// A replica that has merged a state, and its vector.
pub(crate) fn reader(message: &Message, now: u64) -> Result<(Replica, Vector), String> {
    let space = Space::default();
    let writer = WriterId::mint(&space, &[0; 32], &[0; 16]);
    let mut replica = Replica::new(space, writer);
    replica.set_time(now);
    replica.merge(message).map_err(|error| error.to_string())?;
    let seen = replica.writers().filter(|(_, clock)| *clock > 0).collect();
    Ok((replica, seen))
}

/// Reads hex digits.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// Writes hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
