//! Random commands against a model of Redis in a few lines, which stores integers with expiries.
//!
//! The model has one rule that Redis does not have. The sum of the adds since a counter was last
//! set must fit 64 bits too, as docs/consistency.md says.

use super::*;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Model {
    now: u64,
    keys: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    value: i64,
    at: Option<u64>,
    /// The sum of the adds since the counter was created or set.
    added: i64,
}

const NIL: &str = "$-1|";
const OVERFLOW: &str = "-ERR increment or decrement would overflow|";

fn integer(number: impl std::fmt::Display) -> String {
    format!(":{number}|")
}

fn bulk(value: Option<i64>) -> String {
    value.map_or(NIL.to_owned(), |value| {
        let text = value.to_string();
        format!("${}|{text}|", text.len())
    })
}

impl Model {
    fn get(&self, key: &str) -> Option<i64> {
        self.keys.get(key).map(|entry| entry.value)
    }

    fn at(&self, key: &str) -> Option<u64> {
        self.keys.get(key).and_then(|entry| entry.at)
    }

    fn set(&mut self, key: &str, value: i64, at: Option<u64>) {
        let entry = Entry {
            value,
            at,
            added: 0,
        };
        self.keys.insert(key.to_owned(), entry);
        self.expire();
    }

    fn expire(&mut self) {
        let now = self.now;
        self.keys
            .retain(|_, entry| entry.at.is_none_or(|at| at > now));
    }

    fn add(&mut self, key: &str, by: i64) -> String {
        let before = self.keys.get(key).copied().unwrap_or(Entry {
            value: 0,
            at: None,
            added: 0,
        });
        let (value, added) = (before.value.checked_add(by), before.added.checked_add(by));
        match (value, added) {
            (Some(value), Some(added)) => {
                let at = before.at;
                self.keys.insert(key.to_owned(), Entry { value, at, added });
                integer(value)
            }
            _ => OVERFLOW.to_owned(),
        }
    }

    fn set_expiry(&mut self, key: &str, at: u64) -> String {
        match self.keys.get_mut(key) {
            Some(entry) => {
                entry.at = Some(at);
                self.expire();
                integer(1)
            }
            None => integer(0),
        }
    }

    fn answer(&mut self, sent: &str) -> String {
        let words: Vec<&str> = sent.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        let later = |at: usize, unit: i64| (self.now as i64 + number(at) * unit) as u64;
        let key = words.get(1).copied().unwrap_or_default();
        match (words[0], words.get(3).copied()) {
            ("INCR", _) => self.add(key, 1),
            ("DECR", _) => self.add(key, -1),
            ("INCRBY", _) => self.add(key, number(2)),
            ("DECRBY", _) => self.add(key, -number(2)),
            ("GET", _) => bulk(self.get(key)),
            ("MGET", _) => {
                let all: String = words[1..].iter().map(|key| bulk(self.get(key))).collect();
                format!("*{}|{all}", words.len() - 1)
            }
            ("SET", Some("NX")) if self.get(key).is_some() => NIL.to_owned(),
            ("SET", Some("XX")) if self.get(key).is_none() => NIL.to_owned(),
            ("SET", option) => {
                let before = self.get(key);
                let at = match option {
                    Some("KEEPTTL") => self.at(key),
                    Some("PX") => Some(later(4, 1)),
                    _ => None,
                };
                self.set(key, number(2), at);
                match option {
                    Some("GET") => bulk(before),
                    _ => "+OK|".to_owned(),
                }
            }
            ("GETDEL", _) => bulk(self.keys.remove(key).map(|entry| entry.value)),
            ("DEL", _) => integer(
                words[1..]
                    .iter()
                    .filter(|key| self.keys.remove(**key).is_some())
                    .count(),
            ),
            ("EXISTS", _) => integer(
                words[1..]
                    .iter()
                    .filter(|key| self.get(key).is_some())
                    .count(),
            ),
            ("PEXPIRE", _) => {
                let at = later(2, 1);
                self.set_expiry(key, at)
            }
            ("PERSIST", _) => match self.keys.get_mut(key) {
                Some(entry) => integer(u8::from(entry.at.take().is_some())),
                None => integer(0),
            },
            ("PTTL", _) => integer(match (self.get(key), self.at(key)) {
                (None, _) => -2,
                (_, None) => -1,
                (_, Some(at)) => (at - self.now) as i64,
            }),
            ("DBSIZE", _) => integer(self.keys.len()),
            ("MSET", _) => {
                for pair in words[1..].chunks(2) {
                    self.set(pair[0], pair[1].parse().expect("a number"), None);
                }
                "+OK|".to_owned()
            }
            (other, _) => panic!("{other}"),
        }
    }
}

/// A random command. Each key is equally likely.
fn command(state: &mut SplitMix64) -> String {
    let mut key = || ["a", "b", "c", "d"][state.next_u64() as usize % 4];
    let (one, two) = (key(), key());
    let amounts = [
        1,
        5,
        -3,
        0,
        i64::MAX,
        i64::MIN + 1,
        i64::MAX / 2,
        -i64::MAX / 3,
    ];
    let by = amounts[state.next_u64() as usize % amounts.len()];
    let soon = state.next_u64() % 40;
    match state.next_u64() % 22 {
        0 | 1 => format!("INCR {one}"),
        2 => format!("DECR {one}"),
        3 | 4 => format!("INCRBY {one} {by}"),
        5 => format!("DECRBY {one} {by}"),
        6 => format!("GET {one}"),
        7 => format!("MGET {one} {two}"),
        8 => format!("SET {one} {by}"),
        9 => format!("SET {one} {by} NX"),
        10 => format!("SET {one} {by} XX"),
        11 => format!("SET {one} {by} GET"),
        12 => format!("SET {one} {by} KEEPTTL"),
        13 => format!("SET {one} {by} PX {}", soon + 1),
        14 => format!("GETDEL {one}"),
        15 => format!("DEL {one} {two}"),
        16 => format!("EXISTS {one} {two}"),
        17 => format!("PEXPIRE {one} {soon}"),
        18 => format!("PERSIST {one}"),
        19 => format!("PTTL {one}"),
        20 => format!("MSET {one} {by} {two} 7"),
        _ => "DBSIZE".to_owned(),
    }
}

#[test]
fn random_commands_answer_as_a_redis_of_integers() {
    for seed in 0..seeds(400) {
        let mut state = SplitMix64::new(seed);
        let mut client = Client::new(RespConfig::default());
        let mut model = Model {
            now: NOW,
            ..Model::default()
        };
        for step in 0..120 {
            if state.next_u64().is_multiple_of(6) {
                model.now += state.next_u64() % 25;
                model.expire();
                client.node.set_time(model.now);
            }
            if state.next_u64().is_multiple_of(8) {
                transaction(&mut state, &mut client, &mut model, seed);
                continue;
            }
            let sent = command(&mut state);
            assert_eq!(
                client.send(&sent),
                model.answer(&sent),
                "{sent}, seed {seed}, step {step}"
            );
        }
        // A replica that merges all of it reads the same values.
        let mut other = client.node.other();
        other
            .merge(&client.node.replicas[0].snapshot())
            .expect("a good message");
        for key in ["a", "b", "c", "d"] {
            assert_eq!(
                other.value(key),
                model.get(key).map(i128::from),
                "{key}, seed {seed}"
            );
        }
    }
}

/// Several commands in one transaction. Each of them sees the effects of those before it.
fn transaction(state: &mut SplitMix64, client: &mut Client, model: &mut Model, seed: u64) {
    let clock = client.node.replicas[0].clock();
    assert_eq!(client.send("MULTI"), "+OK|");
    let mut answers = Vec::new();
    for _ in 0..state.next_u64() % 6 {
        let sent = command(state);
        if sent != "DBSIZE" {
            assert_eq!(client.send(&sent), "+QUEUED|", "{sent}");
            answers.push(model.answer(&sent));
        }
    }
    let wanted = format!("*{}|{}", answers.len(), answers.concat());
    assert_eq!(client.send("EXEC"), wanted, "seed {seed}");
    assert!(client.node.replicas[0].clock() <= clock + 1, "seed {seed}");
}
