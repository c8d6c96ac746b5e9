//! A hash of everything that a run's replicas send, store and read. `tests/trace.txt` has one hash for each
//! block of seeds of each scenario. A change that must not alter behaviour can prove with it that it did not.
//!
//! The hash covers bytes and numbers only: wire bytes, stored bytes, keys, values, and the codes of errors.
//! Names of Rust types and fields, `Debug` texts and layouts are not part of it.

mod table;

pub use table::{PATH, SCENARIOS, Scenario, explorations};

use tallymesh_core::{Output, Replica};

/// FNV-1a (Fowler, Noll, Vo), 64 bits: simple, and good enough to detect a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Trace {
        Trace(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    /// The hash of all input so far.
    pub fn hash(self) -> u64 {
        self.0
    }

    /// Adds the number of bytes, and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        number
            .to_le_bytes()
            .into_iter()
            .for_each(|it| self.byte(it));
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn value(&mut self, value: Option<i128>) {
        self.number(u64::from(value.is_some()));
        self.bytes(&value.unwrap_or(0).to_le_bytes());
    }

    /// Adds an output of a replica's sync machine: its kind and its content.
    pub fn output(&mut self, at: usize, replica: &Replica, output: &Output) {
        self.number(at as u64);
        match output {
            Output::Send { link, bytes } => {
                self.number(0);
                self.number(u64::from(link.0));
                self.bytes(bytes);
            }
            Output::Broadcast { bytes } => {
                self.number(1);
                self.bytes(bytes);
            }
            Output::Changed { key_id } => {
                self.number(2);
                self.bytes(replica.key(*key_id).unwrap_or_default().as_bytes());
                self.value(replica.value_at(*key_id));
                self.number(replica.expiry_at(*key_id).unwrap_or(0));
            }
            Output::Merged { shards, .. } => {
                self.number(3);
                self.number(*shards as u64);
            }
            Output::Renew => self.number(4),
            Output::Returned(it) => {
                self.number(5);
                self.number(it.again.len() as u64);
                let (first, last) = it.unknown.unwrap_or_default();
                [first, last].into_iter().for_each(|it| self.number(it));
            }
            Output::Refused { close, error } => {
                self.number(6);
                self.number(u64::from(close.is_some()));
                self.bytes(error.code().as_bytes());
            }
        }
    }

    /// Adds all results of reads at a replica: counters, parts of budgets, the clock of each writer, and the
    /// members.
    pub fn reads(&mut self, replica: &Replica) {
        let counters = replica.counters().chain(replica.quota().budget_parts());
        let read = |(handle, key): (_, &str)| {
            let (value, expiry) = (replica.value_at(handle), replica.expiry_at(handle));
            (key.to_owned(), value, expiry)
        };
        let mut read: Vec<(String, Option<i128>, Option<u64>)> = counters.map(read).collect();
        read.sort();
        for (key, value, expiry) in read {
            self.bytes(key.as_bytes());
            self.value(value);
            self.number(expiry.unwrap_or(0));
        }
        for (writer, clock) in replica.vector().iter() {
            self.bytes(writer.as_bytes());
            self.number(clock);
        }
        if let Some(it) = replica.members().configuration() {
            [it.era, it.number]
                .into_iter()
                .for_each(|it| self.number(it));
            it.members.iter().for_each(|owner| self.bytes(owner));
        }
        self.bytes(&replica.digest());
    }
}
