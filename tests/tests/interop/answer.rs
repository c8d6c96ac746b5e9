//! The answers of drivers.

use serde_json::Value;
use std::collections::BTreeMap;
use tallymesh_core::WriterId;

/// A version vector.
pub(crate) type Vector = BTreeMap<WriterId, u64>;

/// A replica's writer and vector, which determine the operations that it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) writer: WriterId,
    pub(crate) vector: Vector,
}

impl Position {
    pub(crate) fn read(answer: &Value) -> Result<Position, String> {
        let wrong = || format!("no position: {answer}");
        if answer["faults"] != 0 {
            return Err(format!("it met a fault: {answer}"));
        }
        let writer = writer(answer["writer"].as_str()).ok_or_else(wrong)?;
        let rows = answer["vector"].as_object().ok_or_else(wrong)?;
        let read = |(id, clock): (&String, &Value)| Some((writer_of(id)?, number(clock)?));
        let vector: Option<Vector> = rows.iter().map(read).collect();
        let position = Position {
            writer,
            vector: vector.ok_or_else(wrong)?,
        };
        if number(&answer["clock"]) != Some(position.clock()) {
            return Err(format!("its clock is not that of its vector: {answer}"));
        }
        Ok(position)
    }

    /// Number of transactions that it has made.
    pub(crate) fn clock(&self) -> u64 {
        self.vector.get(&self.writer).copied().unwrap_or(0)
    }

    /// The position before its own transactions after `clock`.
    pub(crate) fn back_to(&self, clock: u64) -> Position {
        let mut before = self.clone();
        match clock {
            0 => before.vector.remove(&self.writer),
            _ => before.vector.insert(self.writer, clock),
        };
        before
    }
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was made, or there was nothing to do. The result of each operation.
    Results(Vec<bool>),
    /// It was rejected with this code.
    Refused(String),
}

impl Outcome {
    pub(crate) fn read(answer: &Value) -> Result<Outcome, String> {
        if let Some(code) = answer["refused"].as_str() {
            return Ok(Outcome::Refused(code.to_owned()));
        }
        let results = answer["results"].as_array();
        let results = results.and_then(|it| it.iter().map(Value::as_bool).collect());
        results
            .map(Outcome::Results)
            .ok_or_else(|| format!("no outcome: {answer}"))
    }
}

/// A number that is encoded as text.
pub(crate) fn number<T: std::str::FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

fn writer(text: Option<&str>) -> Option<WriterId> {
    WriterId::parse(text?)
}

fn writer_of(text: &str) -> Option<WriterId> {
    WriterId::parse(text)
}
