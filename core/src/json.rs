//! JSON of the full shard map, for people and other languages, through serde.
//!
//! # What it adds
//! [`Serialize`] for [`Replica`]: the vector, and each counter with its value, its expiry and its shards. Nothing
//! reads it back; stores and links use the [wire format](crate::wire).
//!
//! # What it guarantees
//! Keys and writers ascend, so the text follows from the replica alone. Every 64-bit number is a decimal string,
//! because JSON readers that hold numbers as floats would round them.
//!
//! # What it follows
//! RFC 8259, through serde.

use crate::replica::Replica;
use crate::state::page::Shard;
use crate::writer_id::WriterId;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt::Display;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// A value that is written as its text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl Serialize for WriterId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Shard", 3)?;
        out.serialize_field("writer", &self.writer)?;
        out.serialize_field("clock", &Text(self.clock))?;
        out.serialize_field("total", &Text(self.total))?;
        out.end()
    }
}

/// A counter's shards, writer by writer.
struct Counter {
    value: i128,
    expires_at: Option<u64>,
    shards: BTreeMap<String, Entry>,
}

struct Entry {
    clock: u64,
    total: i128,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Entry", 2)?;
        out.serialize_field("clock", &Text(self.clock))?;
        out.serialize_field("total", &Text(self.total))?;
        out.end()
    }
}

impl Serialize for Counter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = if self.expires_at.is_some() { 3 } else { 2 };
        let mut out = serializer.serialize_struct("Counter", fields)?;
        out.serialize_field("value", &Text(self.value))?;
        if let Some(at) = self.expires_at {
            out.serialize_field("expires_at", &Text(at))?;
        }
        out.serialize_field("shards", &self.shards)?;
        out.end()
    }
}

/// `{"space", "writer", "clock", "vector": {writer: clock}, "counters": {key: {"value", "expires_at"?,
/// "shards": {writer: {"clock", "total"}}}}}`, keys and writers ascending.
///
/// A total is the sum of the writer's operations that survive. An expiry is in milliseconds since 1970.
impl Serialize for Replica {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let vector: BTreeMap<String, Text<u64>> = self
            .writers()
            .map(|(writer, clock)| (writer.to_string(), Text(clock)))
            .collect();
        let counters: BTreeMap<&str, Counter> = self
            .counters()
            .map(|(key_id, key)| {
                let entry = |shard: Shard| {
                    let Shard {
                        writer,
                        clock,
                        total,
                    } = shard;
                    (writer.to_string(), Entry { clock, total })
                };
                let shards = self.shards(key_id).map(entry).collect();
                let counter = Counter {
                    value: self.value_at(key_id).unwrap_or_default(),
                    expires_at: self.expiry_at(key_id),
                    shards,
                };
                (key, counter)
            })
            .collect();
        let mut out = serializer.serialize_struct("Replica", 5)?;
        out.serialize_field("space", self.space().as_str())?;
        out.serialize_field("writer", &self.writer())?;
        out.serialize_field("clock", &Text(self.clock()))?;
        out.serialize_field("vector", &vector)?;
        out.serialize_field("counters", &counters)?;
        out.end()
    }
}
